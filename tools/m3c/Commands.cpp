#include "tools/m3c/Commands.h"

namespace m3c {

static constexpr Command commands[] = {
    {"build-kernel", "a tile kernel as text to machine code", setUpBuildKernel},
    {"capacity", "how many sequences of what length fit on which chips", setUpCapacity},
    {"capsule", "one launch of each kernel with all that it needs, for replaying", setUpCapsule},
    {"check", "read a checkpoint whole: headers, values, tokenizer", setUpCheck},
    {"compile", "a checkpoint into a plan", setUpCompile},
    {"diff", "what differs between two plans", setUpDiff},
    {"doctor", "tools, devices and folders found, and what is missing", setUpDoctor},
    {"explain", "why a plan has the kernels, formats, schedules and stand-ins that it has",
     setUpExplain},
    {"extract", "sources, code objects and tables as files", setUpExtract},
    {"inspect", "what a plan holds", setUpInspect},
    {"interpret", "score sequences in double precision with the reference interpreter",
     setUpInterpret},
    {"targets", "what can be compiled for, and how each is proven", setUpTargets},
    {"verify", "check every byte of a plan", setUpVerify},
};

std::span<const Command> commandTable() { return commands; }

} // namespace m3c
