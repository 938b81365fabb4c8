// The added tokens of tokenizer.json: texts that are taken whole before the text is split into
// words.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/bpe/Regex.h"

namespace m3c::text {

struct AddedToken {
  int32_t id;
  std::string content;
  bool special = false;
  bool singleWord = false; ///< not next to a word character
  bool stripLeft = false;  ///< takes the white space before it
  bool stripRight = false; ///< takes the white space after it
  bool normalized = false; ///< is looked for after those that are not, in what they leave
};

/// Which added tokens `Tokenizer::encode` recognises in a text.
enum class ParseAdded {
  None,       ///< none: text from a user, which must not be able to write control tokens
  NonSpecial, ///< those not marked special (what Hugging Face calls `encode_special_tokens`)
  All         ///< all: text written by the chat template
};

class AddedTokens {
public:
  AddedTokens();

  /// `token.content` must be neither empty nor already present.
  void add(AddedToken token);

  const std::vector<AddedToken> &all() const { return tokens; }

  /// A part of a text: an added token, or (id −1) text between them.
  struct Part {
    std::string_view text;
    int32_t id;
  };

  /// Splits well-formed UTF-8; the longest token wins where several begin at the same byte.
  std::vector<Part> split(std::string_view text, ParseAdded mode) const;

private:
  /// A prefix tree over bytes; node 0 is the root.
  struct Trie {
    struct Node {
      std::map<uint8_t, uint32_t> children;
      int32_t token = -1; // index into `tokens`
    };
    std::vector<Node> nodes = {Node{}};

    void insert(std::string_view content, int32_t token);
    int32_t longest(std::string_view text) const;
  };

  void splitPart(const Trie &trie, std::string_view text, ParseAdded mode,
                 std::vector<Part> &out) const;
  bool besideWord(std::string_view before, std::string_view after) const;

  std::vector<AddedToken> tokens;
  Trie plain, normalized;
  Regex word;
};

} // namespace m3c::text
