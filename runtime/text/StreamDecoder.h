// Text of a token stream as it is produced.
//
//   StreamDecoder decoder(tokenizer, {.stopStrings = {"\n\n"}, .stopIds = {eos}});
//   while (decoder.stopped() == StopReason::None && more)
//     print(decoder.push(nextToken));
//   print(decoder.finish());
//
// What `push` returns is final and whole characters: bytes of an unfinished character are held
// back, as is the longest end of the text that may still become a stop string, and nothing more.
// Without stops the pieces joined equal Tokenizer::decode of all ids at once; in particular an
// unfinished character at the end is one U+FFFD. One call takes one token, so a list of
// log-probabilities kept beside the tokens stays aligned whatever is held back.
//
// Several stop strings: the one whose last character comes first ends the text, and of those that
// end together the longest. The text before it is kept, the stop string itself is not. This does
// not depend on how the text is cut into tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/Tokenizer.h"

namespace m3c::text {

enum class StopReason {
  None,
  Token, ///< one of `stopIds`; its text is not part of the output
  String ///< one of `stopStrings`
};

struct StreamOptions {
  std::vector<std::string> stopStrings = {}; ///< UTF-8, not empty
  std::vector<int32_t> stopIds = {};
  bool skipSpecial = true; ///< leave out the text of special tokens
};

class StreamDecoder {
public:
  /// Throws Error on an empty or ill-formed stop string and on a stop id outside the vocabulary.
  StreamDecoder(Tokenizer tokenizer, StreamOptions options);

  /// Takes the next token and returns the text that has become final. After a stop tokens are
  /// ignored. Throws Error on an id outside the vocabulary.
  std::string push(int32_t id);

  /// The rest of the text, at the end of the stream. Nothing remains afterwards.
  std::string finish();

  StopReason stopped() const { return reason; }

private:
  /// A stop string and the length of its longest prefix that the text so far ends with (Knuth,
  /// Morris, Pratt).
  struct Stop {
    std::string text;
    std::vector<uint32_t> failure;
    uint32_t matched = 0;

    bool advance(char c);
  };

  std::string release(std::string_view text);

  Tokenizer tokenizer;
  StreamOptions options;
  std::vector<Stop> stops;
  std::string bytes; // of an unfinished character
  std::string held;  // whole characters that may begin a stop string
  StopReason reason = StopReason::None;
};

} // namespace m3c::text
