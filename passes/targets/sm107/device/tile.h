// What a printed kernel includes.
#pragma once

#include "nvidia.h"

#include "groups.h"
#include "products.h"
