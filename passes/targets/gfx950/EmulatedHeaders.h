// The texts of passes/targets/gfx950/emulated/ and of the headers that emulated targets share,
// embedded when the emulator is built.
#pragma once

#include <map>
#include <string>

namespace m3c {

const std::map<std::string, std::string> &gfx950EmulatedHeaders();

} // namespace m3c
