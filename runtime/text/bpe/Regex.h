// The regular expressions of tokenizer.json, run by PCRE2 with JIT.
//
// tokenizer.json is written for Oniguruma (Ruby syntax). Where the two dialects differ, the pattern
// is rewritten (white space, property names, intervals); what has no equal meaning is refused by
// name instead of matching something else: anchors ^ $, \w \b, POSIX and nested sets, set
// intersection, back-references, possessive intervals. General categories follow the Unicode
// version of PCRE2 (14 in release 10.42), so characters of later versions count as unassigned.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace m3c::text {

/// Rewrites an Oniguruma pattern for PCRE2. Throws Error naming `where`, the construct and its byte
/// offset when a construct is not supported.
std::string translateOniguruma(std::string_view pattern, const std::string &where);

/// A compiled pattern; immutable, to be shared between threads.
class Regex {
public:
  /// `where` (file and key) appears in errors. Throws Error if the pattern is not usable.
  Regex(std::string_view pattern, std::string where);

  /// Byte range [begin, end) of a match.
  struct Match {
    size_t begin, end;
  };

  /// The scratch memory of one thread.
  class Matcher {
  public:
    Matcher();

    /// Finds the first match at or after byte `from` of `subject`, which must be well-formed UTF-8.
    /// Look-behind sees the bytes before `from`. The number of backtracking steps from one starting
    /// point is limited in proportion to the rest of the subject; beyond it Error is thrown.
    bool find(const Regex &regex, std::string_view subject, size_t from, Match &match);

  private:
    template <class T> using Owned = std::unique_ptr<T, void (*)(T *)>;
    Owned<pcre2_real_match_data_8> data;
    Owned<pcre2_real_match_context_8> context;
    Owned<pcre2_real_jit_stack_8> stack;
  };

private:
  std::shared_ptr<pcre2_real_code_8> code;
  std::string whereText;
};

} // namespace m3c::text
