// tokenizer.json (the format of Hugging Face's `tokenizers`, version "1.0") read into plain data.
//
// Every key is either used, known to have no effect on encoding and decoding (then it stands in
// `notes`), or refused by name. Supported: model BPE without dropout, prefixes or byte fallback;
// pre-tokenizers ByteLevel and Split, alone or in a Sequence whose last step is ByteLevel; decoder
// ByteLevel; no normalizer; no post-processor but ByteLevel. Added tokens keep the ids that the
// file gives them, also after a gap, where `tokenizers` would renumber them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/text/bpe/AddedTokens.h"
#include "runtime/text/bpe/Bpe.h"
#include "runtime/text/bpe/Regex.h"

namespace m3c::text {

/// What becomes of the parts of a text that a Split's pattern matches and of those between.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

struct PreTokenizeStep {
  bool addPrefixSpace = false; ///< put a space before a piece that does not begin with one
  std::vector<Regex> pattern;  ///< none or one
  SplitBehavior behavior = SplitBehavior::Isolated;
  bool invert = false; ///< the parts that do not match count as the matches
};

struct TokenizerFile {
  Bpe bpe;
  AddedTokens added;
  std::vector<PreTokenizeStep> steps;
  /// Bytes of every token; those of an added token are its content. Empty for an id without a
  /// token.
  std::vector<std::string> bytes;
  std::vector<uint8_t> special; ///< 1 where the id is a special added token
  /// Token by its text as tokenizer.json writes it (vocabulary entry or added content).
  std::unordered_map<std::string, int32_t> ids;
  std::vector<std::string> notes; ///< what the file asks for that has no effect here
};

/// Parses `json`. `name` is the file's name for errors; ids must be below `vocabSize` (0: unknown,
/// then below 2^20). Throws Error naming the file, the key and, for text that is not JSON, the
/// byte.
TokenizerFile parseTokenizerFile(std::string_view json, const std::string &name,
                                 uint32_t vocabSize);

} // namespace m3c::text
