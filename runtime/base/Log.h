// Log lines on standard error. Standard output is for results alone.
#pragma once

#include <string_view>

#include <fmt/format.h>

namespace m3c::log {

enum class Level { Debug, Info, Warning, Error, Silent };

/// Lines below `level` are dropped; Info at start.
void setLevel(Level level);
bool enabled(Level level);
/// One line, may be called from any thread.
void write(Level level, std::string_view text);

template <typename... Args> void debug(fmt::format_string<Args...> format, Args &&...args) {
  if (enabled(Level::Debug))
    write(Level::Debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args> void info(fmt::format_string<Args...> format, Args &&...args) {
  if (enabled(Level::Info))
    write(Level::Info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args> void warning(fmt::format_string<Args...> format, Args &&...args) {
  if (enabled(Level::Warning))
    write(Level::Warning, fmt::format(format, std::forward<Args>(args)...));
}

} // namespace m3c::log
