#include "runtime/text/bpe/AddedTokens.h"

#include <algorithm>

#include "runtime/text/Utf8.h"

namespace m3c::text {

namespace {

// \w of Rust's regex crate, which Hugging Face's tokenizers apply to single_word.
constexpr std::string_view wordSet =
    "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{200C}\\x{200D}]";

size_t spacesAtStart(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && isUnicodeSpace(decodeUtf8(text.substr(at))))
    at += scanUtf8(text.substr(at)).size;
  return at;
}

/// Offset at which the white space at the end of `text` begins, looking back no further than
/// `floor`.
size_t spacesAtEnd(std::string_view text, size_t floor) {
  size_t end = text.size();
  while (end > floor) {
    size_t start = end - 1;
    while (start > floor && (uint8_t(text[start]) & 0xC0) == 0x80)
      --start;
    if (!isUnicodeSpace(decodeUtf8(text.substr(start))))
      break;
    end = start;
  }
  return end;
}

std::string_view lastCharacter(std::string_view text) {
  size_t start = text.size() - 1;
  while (start > 0 && (uint8_t(text[start]) & 0xC0) == 0x80)
    --start;
  return text.substr(start);
}

} // namespace

AddedTokens::AddedTokens() : word(wordSet, "word characters") {}

void AddedTokens::Trie::insert(std::string_view content, int32_t token) {
  uint32_t node = 0;
  for (char c : content) {
    auto [child, fresh] = nodes[node].children.try_emplace(uint8_t(c), uint32_t(nodes.size()));
    node = child->second;
    if (fresh)
      nodes.emplace_back();
  }
  nodes[node].token = token;
}

int32_t AddedTokens::Trie::longest(std::string_view text) const {
  int32_t found = -1;
  uint32_t node = 0;
  for (char c : text) {
    auto child = nodes[node].children.find(uint8_t(c));
    if (child == nodes[node].children.end())
      break;
    node = child->second;
    if (nodes[node].token >= 0)
      found = nodes[node].token;
  }
  return found;
}

void AddedTokens::add(AddedToken token) {
  Trie &trie = token.normalized ? normalized : plain;
  trie.insert(token.content, int32_t(tokens.size()));
  tokens.push_back(std::move(token));
}

bool AddedTokens::besideWord(std::string_view before, std::string_view after) const {
  Regex::Matcher matcher;
  Regex::Match match;
  auto isWord = [&](std::string_view character) { return matcher.find(word, character, 0, match); };
  return (!before.empty() && isWord(lastCharacter(before))) ||
         (!after.empty() && isWord(after.substr(0, scanUtf8(after).size)));
}

void AddedTokens::splitPart(const Trie &trie, std::string_view text, ParseAdded mode,
                            std::vector<Part> &out) const {
  size_t done = 0; // everything before has been handed out
  auto emit = [&](size_t begin, size_t end, int32_t id) {
    if (begin < end)
      out.push_back({text.substr(begin, end - begin), id});
  };
  for (size_t at = 0; at < text.size();) {
    int32_t index = trie.longest(text.substr(at));
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken &token = tokens[size_t(index)];
    size_t begin = at, end = at + token.content.size();
    at = end;
    if (end <= done || (token.special && mode == ParseAdded::NonSpecial))
      continue;
    if (token.singleWord && besideWord(text.substr(0, begin), text.substr(end)))
      continue;
    if (token.stripLeft)
      begin = spacesAtEnd(text.substr(0, begin), done);
    if (token.stripRight)
      end += spacesAtStart(text.substr(end));
    emit(done, begin, -1);
    emit(std::max(begin, done), end, token.id);
    done = end;
  }
  emit(done, text.size(), -1);
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, ParseAdded mode) const {
  std::vector<Part> first, second;
  if (mode == ParseAdded::None) {
    if (!text.empty())
      first.push_back({text, -1});
    return first;
  }
  splitPart(plain, text, mode, first);
  for (const Part &part : first) {
    if (part.id >= 0)
      second.push_back(part);
    else
      splitPart(normalized, part.text, mode, second);
  }
  return second;
}

} // namespace m3c::text
