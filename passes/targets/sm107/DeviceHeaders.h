// The texts of passes/targets/sm107/device/ and of the headers that NVIDIA's chips and all targets
// share, embedded when the compiler is built.
#pragma once

#include <map>
#include <string>

namespace m3c {

const std::map<std::string, std::string> &sm107DeviceHeaders();

} // namespace m3c
