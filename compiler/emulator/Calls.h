// What emulated kernels call (passes/targets/common/emulated/emulator.h).
#pragma once

#include "passes/targets/common/emulated/emulator.h"

namespace m3c::emulator {

const m3emu::Calls &calls();

} // namespace m3c::emulator
