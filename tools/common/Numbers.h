// Numbers and words on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace m3c {

/// Gives every numeric option of `app` a check that its text is a decimal number within the
/// option's range. Without it a negative number becomes a large one, one that is too large the
/// largest, 010 is 8, and NaN passes every range.
void checkNumbers(CLI::App &app);

/// A count from 1 to 2^32 - 1.
CLI::Validator atLeastOne();
/// A number of 0 or more.
CLI::Validator zeroOrMore();
/// A number from `least` to `most`; both ends count. The smallest normal number as `least` means
/// above 0.
CLI::Validator within(int64_t least, int64_t most);
CLI::Validator within(double least, double most);
/// One of some words.
CLI::Validator oneOf(std::vector<std::string> words);
/// Token ids separated by commas, none of them empty: 1,2,3. `readTokenIds` takes them apart after
/// that check.
CLI::Validator tokenIds();
std::vector<int32_t> readTokenIds(const std::string &text);

} // namespace m3c
