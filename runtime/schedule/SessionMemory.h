// Sizes that follow from a session's options, known before anything is allocated.
#pragma once

#include "runtime/schedule/Session.h"

namespace m3c {

/// Tokens of a page.
uint64_t pageTokens(const Engine &engine);
/// Pages that `tokens` tokens need.
uint64_t pagesFor(uint64_t tokens, uint64_t perPage);
/// Tokens of the longest sequence that model, options and cache allow.
uint64_t longest(const Engine &engine, const SessionOptions &options);
/// Sizes that fix the addresses in recorded graphs.
StepLimits limitsOf(const Engine &engine, const SessionOptions &options);

} // namespace m3c
