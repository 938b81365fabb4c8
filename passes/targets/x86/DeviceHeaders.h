// The texts of passes/targets/x86/device/, embedded when the compiler is built.
#pragma once

#include <map>
#include <string>

namespace m3c {

const std::map<std::string, std::string> &x86DeviceHeaders();

} // namespace m3c
