// The PTX texts of this folder, embedded when the driver is built.
#pragma once

#include <map>
#include <string>

namespace m3c {

const std::map<std::string, std::string> &cudaOwnKernels();

} // namespace m3c
