// The texts of passes/targets/gfx950/device/ and of the headers that targets share, embedded when
// the compiler is built.
#pragma once

#include <map>
#include <string>

namespace m3c {

const std::map<std::string, std::string> &gfx950DeviceHeaders();

} // namespace m3c
