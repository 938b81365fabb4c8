// Target "sm90": H100 and H200, CUDA C++ text compiled by NVRTC.
#pragma once

#include "passes/targets/common/Target.h"

namespace m3c {

std::unique_ptr<Target> makeSm90Target();

} // namespace m3c
