// Text to token ids and back, by a checkpoint's tokenizer.json.
//
//   Tokenizer tokenizer = Tokenizer::load(ModelFolder(path), vocabSize);
//   std::vector<int32_t> ids = tokenizer.encode("Hello", ParseAdded::None);
//   std::string text = tokenizer.decode(ids, true);
//
// Ids are those of Hugging Face's `tokenizers` with `add_special_tokens=False`; nothing is put
// before or after the text. Text from a user is encoded with ParseAdded::None, so that it cannot
// contain control tokens; text of the chat template with ParseAdded::All. A Tokenizer is immutable:
// any number of threads may use one. For text as it is produced, see StreamDecoder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/text/bpe/AddedTokens.h"

namespace m3c::text {

struct TokenizerFile;

/// A part of a prompt: text of the template, which may name control tokens, or text of a user,
/// which may not.
struct Segment {
  std::string text;
  bool isTemplate;

  bool operator==(const Segment &) const = default;
};

class Tokenizer {
public:
  /// Reads tokenizer.json of `folder`. Ids must be below `vocabSize`, the model's (0: not checked).
  /// Throws Error naming the file, the key and the byte.
  static Tokenizer load(const ModelFolder &folder, uint32_t vocabSize);

  /// The same from memory; `name` stands for the file in errors.
  static Tokenizer parse(std::string_view json, const std::string &name, uint32_t vocabSize);

  /// Throws Error, with the byte offset, on text that is not UTF-8, has a byte that the vocabulary
  /// cannot write, or has more than 1 GiB; also when a split pattern backtracks without bound.
  std::vector<int32_t> encode(std::string_view text, ParseAdded mode) const;

  /// Encodes a text made of parts. Added tokens are recognised in template parts only, each within
  /// one part, but words may run from one part into the next: the ids are those of the joined text,
  /// except where a part of a user spells an added token.
  std::vector<int32_t> encode(std::span<const Segment> segments) const;

  /// The text of `ids`; bytes that are not UTF-8 become U+FFFD. `skipSpecial` leaves out special
  /// tokens. An id within the model's vocabulary that no token has (padding rows) is empty text;
  /// an id outside throws Error.
  std::string decode(std::span<const int32_t> ids, bool skipSpecial) const;

  /// The bytes of one token, which need not be whole characters. Throws Error like `decode`.
  std::string_view tokenBytes(int32_t id) const;

  bool isSpecial(int32_t id) const;

  /// The id of an added token or vocabulary entry, as tokenizer.json writes it.
  std::optional<int32_t> idOf(std::string_view token) const;

  /// The id of an added token. Throws Error saying that the tokenizer lacks `token`, needed for
  /// `purpose`.
  int32_t requireAddedToken(std::string_view token, std::string_view purpose) const;

  /// Ids are 0 to size()−1: the model's vocab_size if that was given, else the highest id plus one.
  uint32_t size() const { return idCount; }

  /// True if both give every id the same bytes.
  bool hasVocabularyOf(const Tokenizer &other) const;

  /// What tokenizer.json asks for that has no effect here; to be shown to the user once.
  const std::vector<std::string> &notes() const;

private:
  void checkText(std::string_view text) const;
  std::vector<int32_t> encodeParts(std::span<const AddedTokens::Part> parts) const;

  std::shared_ptr<const TokenizerFile> file;
  std::string name;
  uint32_t idCount = 0;
};

} // namespace m3c::text
