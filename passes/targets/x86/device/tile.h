// What a printed kernel includes.
#pragma once

#include "arithmetic.h"
#include "formats.h"
#include "memory.h"
#include "scalar.h"
#include "vector.h"
