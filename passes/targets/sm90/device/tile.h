// What a printed kernel includes.
#pragma once

#include "vector.h"

#include "atoms.h"

#include "arithmetic.h"
#include "formats.h"
#include "fragments.h"
#include "memory.h"
#include "scalar.h"
