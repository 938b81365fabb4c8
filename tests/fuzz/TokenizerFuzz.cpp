// Fuzz target of runtime/text. The first byte of an input chooses what the rest is; whatever it is,
// the code either works or throws m3c::Error, and the properties below hold.
#include <cstdio>
#include <cstdlib>

#include "runtime/base/Error.h"
#include "runtime/text/ChatTemplate.h"
#include "runtime/text/StreamDecoder.h"
#include "runtime/text/Tokenizer.h"
#include "runtime/text/Utf8.h"
#include "runtime/text/bpe/Regex.h"
#include "tests/unit/text/TestTokenizer.h"

namespace {

using namespace m3c::text;

void require(bool holds, const char *property) {
  if (holds)
    return;
  std::fprintf(stderr, "property does not hold: %s\n", property);
  std::abort();
}

/// Splits with a pattern of several kinds of constructs, and has added tokens of every kind.
Tokenizer richTokenizer() {
  nlohmann::json file = smallTokenizerJson();
  file["added_tokens"][0]["lstrip"] = true;
  file["added_tokens"][1]["rstrip"] = true;
  file["added_tokens"][2]["single_word"] = true;
  file["added_tokens"][3]["special"] = false;
  file["added_tokens"][4]["normalized"] = true;
  nlohmann::json split = {
      {"type", "Split"},
      {"pattern",
       {{"Regex", "(?i:'[st])|\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"}}},
      {"behavior", "MergedWithNext"}};
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, file["pre_tokenizer"]}}};
  return Tokenizer::parse(file.dump(), "rich", 0);
}

std::string streamed(const Tokenizer &tokenizer, const std::vector<int32_t> &ids,
                     StreamOptions options) {
  StreamDecoder decoder(tokenizer, std::move(options));
  std::string text;
  for (int32_t id : ids) {
    std::string piece = decoder.push(id);
    require(!firstInvalidUtf8(piece), "a streamed piece is UTF-8");
    text += piece;
  }
  return text + decoder.finish();
}

void fuzzTokenizerFile(std::string_view bytes) {
  Tokenizer tokenizer = Tokenizer::parse(bytes, "fuzz", 1000);
  tokenizer.encode("Hello, wörld! 123\n\n  [e~[ it's", ParseAdded::All);
}

void fuzzText(std::string_view bytes) {
  static const Tokenizer tokenizer = richTokenizer();
  std::vector<int32_t> ids = tokenizer.encode(bytes, ParseAdded::None);
  require(tokenizer.decode(ids, true) == bytes, "text of a user comes back unchanged");
  for (ParseAdded mode : {ParseAdded::NonSpecial, ParseAdded::All}) {
    ids = tokenizer.encode(bytes, mode);
    require(streamed(tokenizer, ids, {}) == tokenizer.decode(ids, true), "streaming is decoding");
  }
}

void fuzzIds(std::string_view bytes) {
  static const Tokenizer tokenizer = richTokenizer();
  std::vector<int32_t> ids;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2)
    ids.push_back((uint8_t(bytes[i]) | uint8_t(bytes[i + 1]) << 8) % int32_t(tokenizer.size()));
  require(streamed(tokenizer, ids, {}) == tokenizer.decode(ids, true), "streaming is decoding");
  std::string stopped = streamed(tokenizer, ids, {.stopStrings = {"ab", "bcd", "hello "}});
  for (const char *stop : {"ab", "bcd", "hello "})
    require(stopped.find(stop) == std::string::npos, "a stop string is never shown");
}

void fuzzChat(std::string_view bytes) {
  static const Tokenizer tokenizer = smallTokenizer();
  size_t cut = bytes.find('\0');
  ChatOptions options;
  if (cut != std::string_view::npos)
    options.tools = bytes.substr(cut + 1);
  encodeChat(tokenizer, renderChat(bytes.substr(0, cut), options));
}

void fuzzPattern(std::string_view bytes) {
  Regex regex(bytes, "fuzz");
  Regex::Matcher matcher;
  std::string_view subject = "aaab  Über 12345 it's\r\n\n!?-- 漢字 x";
  Regex::Match match;
  for (size_t from = 0; from <= subject.size() && matcher.find(regex, subject, from, match);
       from = match.end + (match.begin == match.end)) {
    require(from <= match.begin && match.begin <= match.end && match.end <= subject.size(),
            "a match lies in the subject");
    while (match.end < subject.size() && (uint8_t(subject[match.end]) & 0xC0) == 0x80)
      ++match.end; // an empty match is followed by the next whole character
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr void (*targets[])(std::string_view) = {fuzzTokenizerFile, fuzzText, fuzzIds, fuzzChat,
                                                   fuzzPattern};
  if (size == 0)
    return 0;
  std::string_view rest(reinterpret_cast<const char *>(data) + 1, size - 1);
  try {
    targets[data[0] % std::size(targets)](rest);
  } catch (const m3c::Error &) {
  }
  return 0;
}
