// Weights into an engine, with progress on standard error.
#pragma once

#include "runtime/schedule/Engine.h"

#include <string>

namespace m3c {

/// `weights` is a checkpoint folder or synthetic:SEED, `progress` a mode of
/// runtime/base/Progress.h.
void readWeights(Engine &engine, const std::string &weights, const std::string &progress);

} // namespace m3c
