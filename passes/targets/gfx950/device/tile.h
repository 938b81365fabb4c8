// What a printed kernel includes.
#pragma once

#include "atoms.h"

#include "arithmetic.h"
#include "cached.h"
#include "memory.h"
#include "operands.h"
#include "scalar.h"
#include "stored.h"
