// What the kernels of every NVIDIA chip use.
#pragma once

#include "vector.h"

#include "atoms.h"

#include "arithmetic.h"
#include "cached.h"
#include "formats.h"
#include "fragments.h"
#include "memory.h"
#include "operands.h"
#include "scalar.h"
