#include "runtime/text/Tokenizer.h"

#include <deque>

#include <fmt/format.h>

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/text/FolderFile.h"
#include "runtime/text/Utf8.h"
#include "runtime/text/bpe/TokenizerFile.h"

namespace m3c::text {

namespace {

constexpr size_t mostTextBytes = 1 << 30;

/// A stretch of a text that a pattern matched, or that lies between matches.
struct Stretch {
  size_t begin, end;
  bool match;
};

/// Cuts the text between added tokens into words.
class Splitter {
public:
  explicit Splitter(const std::vector<PreTokenizeStep> &steps) : steps(steps) {}

  const std::vector<std::string_view> &split(std::string_view text) {
    owned.clear();
    words.assign(1, text);
    for (const PreTokenizeStep &step : steps) {
      next.clear();
      for (std::string_view word : words)
        apply(step, word);
      words.swap(next);
    }
    return words;
  }

private:
  void apply(const PreTokenizeStep &step, std::string_view word) {
    if (step.addPrefixSpace && !word.starts_with(' '))
      word = owned.emplace_back(" " + std::string(word));
    if (step.pattern.empty()) {
      next.push_back(word);
      return;
    }
    findStretches(step, word);
    switch (step.behavior) {
    case SplitBehavior::Removed:
      std::erase_if(stretches, [](const Stretch &s) { return s.match; });
      break;
    case SplitBehavior::Isolated:
      break;
    case SplitBehavior::Contiguous:
      mergeWhere([](const Stretch &a, const Stretch &b) { return a.match == b.match; });
      break;
    case SplitBehavior::MergedWithPrevious:
      mergeWhere([](const Stretch &a, const Stretch &b) { return !a.match && b.match; });
      break;
    case SplitBehavior::MergedWithNext:
      mergeWhere([](const Stretch &a, const Stretch &b) { return a.match && !b.match; });
      break;
    }
    for (const Stretch &stretch : stretches)
      if (stretch.begin < stretch.end)
        next.push_back(word.substr(stretch.begin, stretch.end - stretch.begin));
  }

  void findStretches(const PreTokenizeStep &step, std::string_view word) {
    stretches.clear();
    size_t done = 0, from = 0;
    bool any = false;
    Regex::Match match;
    while (from <= word.size() && matcher.find(step.pattern[0], word, from, match)) {
      bool empty = match.begin == match.end;
      if (!(empty && any && match.begin == done)) { // no empty match right after a match
        if (done < match.begin)
          stretches.push_back({done, match.begin, step.invert});
        stretches.push_back({match.begin, match.end, !step.invert});
        done = match.end;
        any = true;
      }
      from = match.end;
      if (empty)
        from += from < word.size() ? scanUtf8(word.substr(from)).size : 1;
    }
    if (done < word.size())
      stretches.push_back({done, word.size(), step.invert});
  }

  /// Joins a stretch to the one before it where `joins(kind of the last one joined, this one)`.
  template <class F> void mergeWhere(F joins) {
    size_t kept = 0;
    for (const Stretch &stretch : stretches) {
      if (kept > 0 && joins(stretches[kept - 1], stretch))
        stretches[kept - 1] = {stretches[kept - 1].begin, stretch.end, stretch.match};
      else
        stretches[kept++] = stretch;
    }
    stretches.resize(kept);
  }

  const std::vector<PreTokenizeStep> &steps;
  Regex::Matcher matcher;
  std::vector<Stretch> stretches;
  std::vector<std::string_view> words, next;
  std::deque<std::string> owned; // words that got a prefix; views into them stay valid
};

} // namespace

Tokenizer Tokenizer::load(const ModelFolder &folder, uint32_t vocabSize) {
  constexpr const char *name = "tokenizer.json";
  return parse(readFolderText(folder, name), folder.pathOf(name), vocabSize);
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string &name, uint32_t vocabSize) {
  Tokenizer tokenizer;
  auto file = std::make_shared<TokenizerFile>(parseTokenizerFile(json, name, vocabSize));
  tokenizer.idCount = vocabSize ? vocabSize : uint32_t(file->bytes.size());
  tokenizer.file = std::move(file);
  tokenizer.name = name;
  return tokenizer;
}

bool Tokenizer::hasVocabularyOf(const Tokenizer &other) const {
  return file->bytes == other.file->bytes;
}

void Tokenizer::checkText(std::string_view text) const {
  if (text.size() > mostTextBytes)
    throw Error("cannot encode the text", "",
                fmt::format("it has {} bytes, at most {} are taken", text.size(), mostTextBytes));
  if (auto bad = firstInvalidUtf8(text))
    throw Error("cannot encode the text", fmt::format("byte {}", *bad),
                "the text is not UTF-8 there", "convert the text to UTF-8");
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, ParseAdded mode) const {
  checkText(text);
  return encodeParts(file->added.split(text, mode));
}

std::vector<int32_t> Tokenizer::encode(std::span<const Segment> segments) const {
  std::string text;
  for (const Segment &segment : segments)
    text += segment.text;
  checkText(text);
  std::vector<AddedTokens::Part> parts;
  size_t at = 0;
  for (const Segment &segment : segments) {
    auto mode = segment.isTemplate ? ParseAdded::All : ParseAdded::None;
    std::string_view here = std::string_view(text).substr(at, segment.text.size());
    at += here.size();
    // Each part is a view into `text`, so neighbours without a token join into one.
    for (const AddedTokens::Part &part : file->added.split(here, mode)) {
      if (part.id < 0 && !parts.empty() && parts.back().id < 0)
        parts.back().text = {parts.back().text.data(), parts.back().text.size() + part.text.size()};
      else
        parts.push_back(part);
    }
  }
  return encodeParts(parts);
}

std::vector<int32_t> Tokenizer::encodeParts(std::span<const AddedTokens::Part> parts) const {
  std::vector<int32_t> ids;
  Splitter splitter(file->steps);
  Bpe::Encoder encoder(file->bpe);
  for (const AddedTokens::Part &part : parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      continue;
    }
    for (std::string_view word : splitter.split(part.text)) {
      size_t end = encoder.encode(word, ids);
      if (end < word.size())
        throw Error("cannot encode the text", name,
                    fmt::format("the vocabulary has no token for byte 0x{:02X}, in \"{}\"",
                                uint8_t(word[end]), printable(word, 80)));
    }
  }
  return ids;
}

std::string_view Tokenizer::tokenBytes(int32_t id) const {
  if (id < 0 || uint32_t(id) >= idCount)
    throw Error("token id out of range", name,
                fmt::format("found {}, expected 0 to {}", id, int64_t(idCount) - 1));
  return size_t(id) < file->bytes.size() ? std::string_view(file->bytes[size_t(id)]) : "";
}

bool Tokenizer::isSpecial(int32_t id) const {
  return id >= 0 && size_t(id) < file->special.size() && file->special[size_t(id)];
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skipSpecial) const {
  std::string bytes, text;
  for (int32_t id : ids) {
    std::string_view token = tokenBytes(id);
    if (!skipSpecial || !isSpecial(id))
      bytes += token;
  }
  appendLossyUtf8(text, bytes, true);
  return text;
}

std::optional<int32_t> Tokenizer::idOf(std::string_view token) const {
  auto found = file->ids.find(std::string(token));
  return found == file->ids.end() ? std::nullopt : std::optional(found->second);
}

int32_t Tokenizer::requireAddedToken(std::string_view token, std::string_view purpose) const {
  for (const AddedToken &added : file->added.all())
    if (added.content == token)
      return added.id;
  throw Error("the tokenizer lacks a token", name,
              fmt::format("\"{}\", needed for {}, is not among its added_tokens", printable(token),
                          purpose),
              "use the tokenizer that belongs to the checkpoint");
}

const std::vector<std::string> &Tokenizer::notes() const { return file->notes; }

} // namespace m3c::text
