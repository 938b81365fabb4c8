#include "runtime/text/StreamDecoder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/Error.h"
#include "runtime/text/Utf8.h"

namespace m3c::text {

namespace {

/// failure[i]: length of the longest proper prefix of text[0..i] that is also its suffix.
std::vector<uint32_t> failureTable(std::string_view text) {
  std::vector<uint32_t> table(text.size(), 0);
  for (uint32_t i = 1, length = 0; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length])
      length = table[length - 1];
    length += text[i] == text[length];
    table[i] = length;
  }
  return table;
}

} // namespace

bool StreamDecoder::Stop::advance(char c) {
  while (matched > 0 && text[matched] != c)
    matched = failure[matched - 1];
  matched += text[matched] == c;
  return matched == text.size();
}

StreamDecoder::StreamDecoder(Tokenizer source, StreamOptions wanted)
    : tokenizer(std::move(source)), options(std::move(wanted)) {
  for (const std::string &text : options.stopStrings) {
    if (text.empty())
      throw Error("unusable stop string", "", "it is empty", "leave it out");
    if (auto bad = firstInvalidUtf8(text))
      throw Error("unusable stop string", fmt::format("byte {}", *bad),
                  "the text is not UTF-8 there");
    stops.push_back({text, failureTable(text)});
  }
  for (int32_t id : options.stopIds)
    tokenizer.tokenBytes(id); // throws if it is outside the vocabulary
}

/// Adds whole characters to the text; returns what no stop string can claim any more.
std::string StreamDecoder::release(std::string_view text) {
  for (char c : text) {
    held += c;
    size_t longest = 0;
    for (Stop &stop : stops)
      if (stop.advance(c))
        longest = std::max(longest, stop.text.size());
    if (longest > 0) {
      reason = StopReason::String;
      std::string final = held.substr(0, held.size() - longest);
      held.clear();
      return final;
    }
  }
  size_t keep = 0;
  for (const Stop &stop : stops)
    keep = std::max<size_t>(keep, stop.matched);
  std::string final = held.substr(0, held.size() - keep);
  held.erase(0, held.size() - keep);
  return final;
}

std::string StreamDecoder::push(int32_t id) {
  std::string_view token = tokenizer.tokenBytes(id);
  if (reason != StopReason::None)
    return "";
  if (std::find(options.stopIds.begin(), options.stopIds.end(), id) != options.stopIds.end()) {
    std::string rest = finish();
    if (reason == StopReason::None) // the flush itself may have completed a stop string
      reason = StopReason::Token;
    return rest;
  }
  if (options.skipSpecial && tokenizer.isSpecial(id))
    return "";
  bytes += token;
  std::string text;
  bytes.erase(0, appendLossyUtf8(text, bytes, false));
  return release(text);
}

std::string StreamDecoder::finish() {
  if (reason != StopReason::None)
    return "";
  std::string text;
  appendLossyUtf8(text, bytes, true);
  bytes.clear();
  std::string final = release(text);
  if (reason == StopReason::None)
    final += std::exchange(held, "");
  return final;
}

} // namespace m3c::text
