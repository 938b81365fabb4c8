#include "runtime/text/StreamDecoder.h"

#include <random>

#include <gtest/gtest.h>

#include "runtime/base/Error.h"
#include "tests/unit/text/TestTokenizer.h"

namespace m3c::text {
namespace {

using Pieces = std::vector<std::string>;

/// What each byte of `bytes`, pushed as one token, gives, and what the end gives.
Pieces stream(std::string_view bytes, StreamOptions options = {}) {
  StreamDecoder decoder(smallTokenizer(), std::move(options));
  Pieces pieces;
  for (char c : bytes)
    pieces.push_back(decoder.push(uint8_t(c)));
  pieces.push_back(decoder.finish());
  return pieces;
}

std::string joined(const Pieces &pieces) {
  std::string text;
  for (const std::string &piece : pieces)
    text += piece;
  return text;
}

TEST(StreamDecoder, HoldsUnfinishedCharacters) {
  EXPECT_EQ(stream("\xF0\x9F\x98\x8A!"), (Pieces{"", "", "", "😊", "!", ""}));
  EXPECT_EQ(stream("\xED\x95\x9C"), (Pieces{"", "", "한", ""}));
}

TEST(StreamDecoder, ReplacesWhatCannotBecomeACharacter) {
  EXPECT_EQ(stream("a\xFF"), (Pieces{"a", "\uFFFD", ""}));
  EXPECT_EQ(stream("\xE4\xBD"
                   "A"),
            (Pieces{"", "", "\uFFFDA", ""}));
  EXPECT_EQ(stream("x\xF0\x9F\x98"), (Pieces{"x", "", "", "", "\uFFFD"}));
}

TEST(StreamDecoder, EqualsWholeDecodingForRandomTokens) {
  Tokenizer tokenizer = smallTokenizer();
  std::mt19937 random(3);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<int32_t> ids(random() % 12);
    for (int32_t &id : ids) { // mostly lead and continuation bytes, some words and control tokens
      uint32_t kind = random() % 8;
      id = int32_t(kind == 0  ? random() % tokenizer.size()
                   : kind < 4 ? 0x80 + random() % 64
                              : 0xC0 + random() % 64);
    }
    for (bool skip : {false, true}) {
      StreamDecoder decoder(
          tokenizer,
          {.stopStrings = {"hello there", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
                                          "\uFFFD\uFFFD\uFFFD\uFFFD!"},
           .stopIds = {},
           .skipSpecial = skip});
      std::string text;
      for (int32_t id : ids) {
        std::string piece = decoder.push(id);
        EXPECT_FALSE(firstInvalidUtf8(piece));
        text += piece;
      }
      EXPECT_EQ(text + decoder.finish(), tokenizer.decode(ids, skip));
    }
  }
}

TEST(StreamDecoder, StopStringAcrossTokensIsNeverShown) {
  Pieces pieces = stream("The quick brown fox", {.stopStrings = {"own fox"}});
  EXPECT_EQ(joined(pieces), "The quick br");
  EXPECT_EQ(pieces[11], "r"); // nothing is held that cannot be part of the stop
  EXPECT_EQ(pieces[12], "");
}

TEST(StreamDecoder, ReleasesWhatDiverges) {
  Pieces pieces = stream("ownownfo.", {.stopStrings = {"own fox"}});
  EXPECT_EQ(pieces, (Pieces{"", "", "", "own", "", "", "ownf", "", "o.", ""}));
  // The end of a diverging text may begin the stop anew.
  EXPECT_EQ(joined(stream("aaab", {.stopStrings = {"aab"}})), "a");
  EXPECT_EQ(joined(stream("ownow", {.stopStrings = {"own fox"}})), "ownow"); // the end releases it
}

TEST(StreamDecoder, OfSeveralStopsTheFirstToEndCounts) {
  EXPECT_EQ(joined(stream("xxabcd", {.stopStrings = {"abcd", "ab"}})), "xx");
  EXPECT_EQ(joined(stream("xxabcde", {.stopStrings = {"abcdz", "bc"}})), "xxa");
  EXPECT_EQ(joined(stream("xxabc", {.stopStrings = {"bc", "abc"}})), "xx");
}

// However the text is cut into tokens, it ends at the same place.
TEST(StreamDecoder, StopsDoNotDependOnTheTokens) {
  Tokenizer tokenizer = smallTokenizer();
  std::vector<std::vector<int32_t>> cuts = {
      {259, '!'}, {258, 'o', '!'}, {256, 257, 'o', '!'}, {'h', 'e', 257, 'o', '!'}};
  for (const auto &ids : cuts)
    for (const auto &[stop, expected] :
         {std::pair("lo", "hel"), {"ell", "h"}, {"hello", ""}, {"o!", "hell"}}) {
      StreamDecoder decoder(tokenizer, {.stopStrings = {stop}});
      std::string text;
      for (int32_t id : ids)
        text += decoder.push(id);
      EXPECT_EQ(text + decoder.finish(), expected);
      EXPECT_EQ(decoder.stopped(), StopReason::String);
    }
}

TEST(StreamDecoder, StopTokenReleasesWhatIsHeld) {
  StreamDecoder decoder(smallTokenizer(), {.stopStrings = {"abc"}, .stopIds = {262}});
  EXPECT_EQ(decoder.push('a') + decoder.push('b'), "");
  EXPECT_EQ(decoder.push(0xC3), "");
  EXPECT_EQ(decoder.push(262), "ab\uFFFD");
  EXPECT_EQ(decoder.stopped(), StopReason::Token);
  EXPECT_EQ(decoder.push('c'), "");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, RefusesUnusableStops) {
  Tokenizer tokenizer = smallTokenizer();
  EXPECT_THROW(StreamDecoder(tokenizer, {.stopStrings = {""}}), Error);
  EXPECT_THROW(StreamDecoder(tokenizer, {.stopStrings = {"a\xFF"}}), Error);
  EXPECT_THROW(StreamDecoder(tokenizer, {.stopIds = {100000}}), Error);
  EXPECT_THROW(StreamDecoder(tokenizer, {}).push(100000), Error);
}

} // namespace
} // namespace m3c::text
