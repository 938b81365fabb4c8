#include "runtime/base/Error.h"

#include <fmt/format.h>

namespace m3c {

Error::Error(std::string what, std::string where, std::string why, std::string next, ExitCode code)
    : whatText(std::move(what)), whereText(std::move(where)), whyText(std::move(why)),
      nextText(std::move(next)), exitCode(code) {
  message = "error: " + whatText;
  auto line = [&](const char *label, const std::string &text) {
    if (!text.empty())
      message += fmt::format("\n  {:<6} {}", std::string(label) + ":", text);
  };
  line("where", whereText);
  line("why", whyText);
  line("next", nextText);
}

} // namespace m3c
