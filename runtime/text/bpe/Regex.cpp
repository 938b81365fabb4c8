#include "runtime/text/bpe/Regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>

#include <fmt/format.h>

#include "runtime/base/Error.h"
#include "runtime/text/Utf8.h"

namespace m3c::text {

namespace {

// PCRE2's own \s also takes U+180E, which Unicode has not called white space since version 6.3.
constexpr std::string_view spaceSet =
    "\\x{09}-\\x{0D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"
    "\\x{205F}\\x{3000}";

constexpr std::array<std::string_view, 38> generalCategories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs", "L&"};

bool isAlnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class Translator {
public:
  Translator(std::string_view pattern, const std::string &where) : pattern(pattern), where(where) {}

  std::string run() {
    if (auto bad = firstInvalidUtf8(pattern))
      fail("a byte that is not UTF-8", *bad);
    while (at < pattern.size())
      element();
    return std::move(out);
  }

private:
  /// A member of a set: one character, or a class such as \s that cannot be the end of a range.
  struct Item {
    std::string text;
    bool single;
  };

  [[noreturn]] void fail(std::string_view construct, size_t offset) const {
    throw Error(
        "unsupported regular expression", where,
        fmt::format("{} at byte {} of the pattern has no equal meaning in PCRE2, or is malformed",
                    construct, offset),
        "use a checkpoint whose tokenizer needs only groups, sets, categories, quantifiers and "
        "look-around");
  }

  bool have(std::string_view text) const { return pattern.substr(at).starts_with(text); }

  void element() {
    char c = pattern[at];
    switch (c) {
    case '\\':
      return escape();
    case '[':
      return set();
    case '(':
      return group();
    case '{':
      return interval();
    case '*':
    case '+':
    case '?':
      return quantifier();
    case ')':
    case '|':
    case '.':
      out += c;
      ++at;
      return;
    case '^':
    case '$':
      fail(fmt::format("the anchor '{}'", c), at);
    default:
      out += character();
    }
  }

  /// Takes one literal character and gives it in a form that PCRE2 never reads as syntax.
  std::string character() {
    uint32_t size = scanUtf8(pattern.substr(at)).size;
    uint32_t codePoint = decodeUtf8(pattern.substr(at));
    at += size;
    return codePoint < 0x80 && isAlnum(char(codePoint)) ? std::string(1, char(codePoint))
                                                        : fmt::format("\\x{{{:X}}}", codePoint);
  }

  void quantifier() {
    out += pattern[at++];
    if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == '+'))
      out += pattern[at++];
    refuseSecondQuantifier();
  }

  void refuseSecondQuantifier() {
    if (at < pattern.size() && std::string_view("*+?{").find(pattern[at]) != std::string_view::npos)
      fail("a quantifier after a quantifier", at);
  }

  void interval() {
    size_t begin = at++;
    std::string low = digits(), high = low;
    bool comma = at < pattern.size() && pattern[at] == ',';
    if (comma) {
      ++at;
      high = digits();
    }
    if (at == pattern.size() || pattern[at] != '}' || (low.empty() && high.empty()))
      fail("'{' that begins no interval", begin);
    ++at;
    out += comma ? fmt::format("{{{},{}}}", low.empty() ? "0" : low, high) : "{" + low + "}";
    if (comma && at < pattern.size() && pattern[at] == '?') // lazy in both dialects
      out += pattern[at++];
    refuseSecondQuantifier();
  }

  std::string digits() {
    size_t begin = at;
    while (at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9')
      ++at;
    return std::string(pattern.substr(begin, at - begin));
  }

  void group() {
    for (std::string_view prefix : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"})
      if (have(prefix)) {
        out += prefix;
        at += prefix.size();
        return;
      }
    if (at == 0 && have("(?i)")) {
      out += "(?i)";
      at += 4;
      return;
    }
    if (have("(?") || have("(*"))
      fail("this kind of group", at);
    out += "(?:"; // nothing refers to captures
    ++at;
  }

  void escape() {
    size_t begin = at;
    if (have("\\S")) {
      out += fmt::format("[^{}]", spaceSet);
      at += 2;
      return;
    }
    Item item = escapedItem();
    bool space = pattern.substr(begin, 2) == "\\s";
    out += space ? "[" + item.text + "]" : item.text;
  }

  /// An escape that means the same inside and outside a set.
  Item escapedItem() {
    size_t begin = at++;
    if (at == pattern.size())
      fail("a lone backslash", begin);
    char c = pattern[at];
    if (!isAlnum(c))
      return {character(), true};
    ++at;
    switch (c) {
    case 's':
      return {std::string(spaceSet), false};
    case 'd':
      return {"\\p{Nd}", false};
    case 'D':
      return {"\\P{Nd}", false};
    case 'p':
    case 'P':
      return {property(c == 'P', begin), false};
    case 'r':
    case 'n':
    case 't':
    case 'f':
      return {std::string("\\") + c, true};
    case 'v':
      return {"\\x{0B}", true};
    case 'x':
    case 'u':
      return {codePoint(c, begin), true};
    default:
      fail(fmt::format("the escape '\\{}'", c), begin);
    }
  }

  std::string property(bool negated, size_t begin) {
    size_t close = pattern.find('}', at);
    if (at == pattern.size() || pattern[at] != '{' || close == std::string_view::npos)
      fail("a property without braces", begin);
    std::string_view name = pattern.substr(at + 1, close - at - 1);
    at = close + 1;
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return isAlnum(c) || c == '_' || c == '&';
    });
    if (!plain)
      fail("this property name", begin);
    bool category = std::find(generalCategories.begin(), generalCategories.end(), name) !=
                    generalCategories.end();
    // PCRE2 would take a bare script name as "script extensions".
    return fmt::format("\\{}{{{}{}}}", negated ? 'P' : 'p', category ? "" : "sc:", name);
  }

  /// \xHH (ASCII only: Oniguruma means a byte), \x{H…} or \uHHHH.
  std::string codePoint(char kind, size_t begin) {
    bool braces = kind == 'x' && at < pattern.size() && pattern[at] == '{';
    at += braces;
    size_t most = braces ? 6 : kind == 'x' ? 2 : 4, first = at;
    while (at < pattern.size() && at - first < most && std::isxdigit(uint8_t(pattern[at])))
      ++at;
    std::string hex(pattern.substr(first, at - first));
    bool closed = !braces || (at < pattern.size() && pattern[at] == '}');
    if (hex.empty() || !closed || (!braces && hex.size() != most))
      fail("a malformed character number", begin);
    at += braces;
    unsigned long value = std::stoul(hex, nullptr, 16);
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000) ||
        (kind == 'x' && !braces && value > 0x7F))
      fail("a character number out of range", begin);
    return fmt::format("\\x{{{:X}}}", value);
  }

  void set() {
    size_t begin = at++;
    out += '[';
    if (at < pattern.size() && pattern[at] == '^') {
      out += '^';
      ++at;
    }
    if (at < pattern.size() && pattern[at] == ']')
      fail("an empty set", begin);
    while (true) {
      if (at == pattern.size())
        fail("a set without its ']'", begin);
      if (pattern[at] == ']')
        break;
      member();
    }
    out += ']';
    ++at;
  }

  void member() {
    Item first = setItem();
    out += first.text;
    bool range = at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']';
    if (!range)
      return;
    size_t dash = at++;
    Item last = setItem();
    if (!first.single || !last.single)
      fail("a range that begins or ends with a class", dash);
    out += "-" + last.text;
  }

  Item setItem() {
    if (pattern[at] == '\\')
      return escapedItem();
    if (pattern[at] == '[')
      fail("a set within a set", at);
    if (have("&&"))
      fail("an intersection of sets", at);
    return {character(), true};
  }

  std::string_view pattern;
  const std::string &where;
  size_t at = 0;
  std::string out;
};

std::string pcreMessage(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char *>(buffer);
}

/// Backtracking steps allowed from one starting point: the patterns of known tokenizers need a
/// small multiple of the length of the run they match.
uint32_t stepLimit(size_t length) {
  size_t limit = 100'000 + 16 * length;
  return uint32_t(std::min<size_t>(limit, std::numeric_limits<uint32_t>::max()));
}

constexpr size_t jitStackStart = 32 << 10, jitStackMost = 1 << 20; // bytes
constexpr uint32_t heapLimit = 256 << 10;                          // KiB, for the interpreter

} // namespace

std::string translateOniguruma(std::string_view pattern, const std::string &where) {
  return Translator(pattern, where).run();
}

Regex::Regex(std::string_view pattern, std::string where) : whereText(std::move(where)) {
  constexpr size_t mostBytes = 64 << 10;
  if (pattern.size() > mostBytes)
    throw Error(
        "unsupported regular expression", whereText,
        fmt::format("the pattern has {} bytes; at most {} are taken", pattern.size(), mostBytes));
  std::string translated = translateOniguruma(pattern, whereText);
  int errorCode = 0;
  size_t offset = 0;
  std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context *)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (!context)
    throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF); // what '.' does not match
  pcre2_code *compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP, &errorCode, &offset, context.get());
  if (!compiled)
    throw Error("malformed regular expression", whereText,
                fmt::format("{} at byte {} of the pattern as rewritten for PCRE2: {}",
                            pcreMessage(errorCode), offset, translated),
                "the tokenizer file is damaged or uses a syntax that m3c does not know");
  code = std::shared_ptr<pcre2_code>(compiled, pcre2_code_free);
  // Without executable memory this fails and matching is interpreted: slower, same result.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
}

Regex::Matcher::Matcher()
    : data(pcre2_match_data_create(1, nullptr), pcre2_match_data_free),
      context(pcre2_match_context_create(nullptr), pcre2_match_context_free),
      stack(pcre2_jit_stack_create(jitStackStart, jitStackMost, nullptr), pcre2_jit_stack_free) {
  if (!data || !context || !stack)
    throw std::bad_alloc();
  pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  pcre2_set_heap_limit(context.get(), heapLimit);
}

bool Regex::Matcher::find(const Regex &regex, std::string_view subject, size_t from, Match &match) {
  pcre2_set_match_limit(context.get(), stepLimit(subject.size() - from));
  auto run = [&](uint32_t options) {
    return pcre2_match(regex.code.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()),
                       subject.size(), from, PCRE2_NO_UTF_CHECK | options, data.get(),
                       context.get());
  };
  int result = run(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT)
    result = run(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH)
    return false;
  if (result < 0)
    throw Error("a regular expression of the tokenizer gave up on this text", regex.whereText,
                fmt::format("at byte {} of a piece of {} bytes: {}", from, subject.size(),
                            pcreMessage(result)),
                "the pattern backtracks without bound; use a tokenizer whose pattern does not");
  const size_t *bounds = pcre2_get_ovector_pointer(data.get());
  match = {bounds[0], bounds[1]};
  return true;
}

} // namespace m3c::text
