#include "tools/m3c/Commands.h"

namespace m3c {

static constexpr Command commands[] = {
    {"capacity", "how many sequences of what length fit on which chips", setUpCapacity},
    {"check", "read a checkpoint whole: headers, values, tokenizer", setUpCheck},
};

std::span<const Command> commandTable() { return commands; }

} // namespace m3c
