// Messages to the person at the terminal.
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace m3c {

/// Writes to standard error. What cannot be written there (it is closed, or its disk is full) is
/// lost and no failure, unlike with fmt::print, which throws: the exit code tells what happened.
template <typename... Arguments>
void tell(fmt::format_string<Arguments...> format, Arguments &&...arguments) {
  std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

} // namespace m3c
