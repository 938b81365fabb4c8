// What a printed kernel includes.
#pragma once

#include "nvidia.h"

#include "multiply.h"
#include "products.h"
#include "tensor.h"
