// The one error type of m3c. Library code throws it; programs print it and exit with its code; the
// C API turns it into a status. It says what failed, where, which rule was broken, and what to do
// next.
#pragma once

#include <exception>
#include <string>

namespace m3c {

/// Exit codes of the programs: 1 for bad input or a failed operation, 2 for wrong usage.
enum class ExitCode { Failure = 1, Usage = 2 };

class Error : public std::exception {
public:
  /// `what` is one line; `where`, `why` and `next` may be empty and are then not printed.
  explicit Error(std::string what, std::string where = "", std::string why = "",
                 std::string next = "", ExitCode code = ExitCode::Failure);

  /// The whole message: "error: WHAT\n  where: …\n  why: …\n  next: …".
  const char *what() const noexcept override { return message.c_str(); }

  const std::string &summary() const { return whatText; }
  const std::string &where() const { return whereText; }
  const std::string &why() const { return whyText; }
  const std::string &next() const { return nextText; }
  ExitCode code() const { return exitCode; }

private:
  std::string whatText, whereText, whyText, nextText, message;
  ExitCode exitCode;
};

} // namespace m3c
