#include "runtime/base/Log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace m3c::log {

static spdlog::level::level_enum native(Level level) {
  switch (level) {
  case Level::Debug:
    return spdlog::level::debug;
  case Level::Info:
    return spdlog::level::info;
  case Level::Warning:
    return spdlog::level::warn;
  case Level::Error:
    return spdlog::level::err;
  case Level::Silent:
    return spdlog::level::off;
  }
  return spdlog::level::off;
}

/// Made on first use and never destroyed: objects with static lifetime may log as they end.
static spdlog::logger &logger() {
  static spdlog::logger *instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    auto *made = new spdlog::logger("m3c", sink);
    made->set_pattern("%^%l%$: %v");
    return made;
  }();
  return *instance;
}

void setLevel(Level level) { logger().set_level(native(level)); }
bool enabled(Level level) { return logger().should_log(native(level)); }
void write(Level level, std::string_view text) {
  logger().log(native(level), spdlog::string_view_t(text.data(), text.size()));
}

} // namespace m3c::log
