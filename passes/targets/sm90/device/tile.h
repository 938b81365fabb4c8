// What a printed kernel includes.
#pragma once

#include "nvidia.h"

#include "shared_pages.h"
#include "shared_rows.h"
