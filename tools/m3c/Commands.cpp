#include "tools/m3c/Commands.h"

namespace m3c {

static constexpr Command commands[] = {
    {"check", "read a checkpoint whole and report every fault", setUpCheck},
};

std::span<const Command> commandTable() { return commands; }

} // namespace m3c
