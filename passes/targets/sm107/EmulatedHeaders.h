// The texts of passes/targets/sm107/emulated/ and of the headers that the emulated forms of
// NVIDIA's chips and all emulated targets share, embedded when the emulator is built.
#pragma once

#include <map>
#include <string>

namespace m3c {

const std::map<std::string, std::string> &sm107EmulatedHeaders();

} // namespace m3c
