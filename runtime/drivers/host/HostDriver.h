// The driver of the machine's own processor.
#pragma once

#include "runtime/hal/Hal.h"

namespace m3c::hal {

std::unique_ptr<Driver> createHostDriver();

} // namespace m3c::hal
