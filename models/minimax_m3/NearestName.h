// The name that a misspelt one may stand for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace m3c {

/// Of `candidates` (the first 2000), the one with the fewest edited characters from `name`; empty
/// when even that one needs more than a quarter of the name's length. Names above 200 bytes are
/// passed over.
std::string_view nearestName(std::string_view name,
                             const std::vector<std::string_view> &candidates);

} // namespace m3c
