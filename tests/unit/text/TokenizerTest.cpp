#include "runtime/text/Tokenizer.h"

#include <functional>

#include <gtest/gtest.h>

#include "runtime/base/Error.h"
#include "runtime/text/TextConfig.h"
#include "runtime/text/bpe/Regex.h"
#include "tests/unit/text/TestTokenizer.h"

namespace m3c::text {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

TEST(Utf8, ReplacesMaximalSubparts) {
  auto lossy = [](std::string_view bytes) {
    std::string text;
    EXPECT_EQ(appendLossyUtf8(text, bytes, true), bytes.size());
    return text;
  };
  // The examples of the Unicode standard 15.0, tables 3-8, 3-9 and 3-11.
  EXPECT_EQ(lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFDA");
}

/// The matches of `pattern` in `text`, joined by "|".
std::string matches(const char *pattern, std::string_view text) {
  Regex regex(pattern, "test");
  Regex::Matcher matcher;
  Regex::Match match;
  std::string found;
  for (size_t from = 0; from < text.size() && matcher.find(regex, text, from, match);
       from = std::max(match.end, from + 1))
    found +=
        (found.empty() ? "" : "|") + std::string(text.substr(match.begin, match.end - match.begin));
  return found;
}

// What each construct means in Oniguruma (its document RE), whatever PCRE2 would make of it.
TEST(Regex, ConstructsMeanWhatOnigurumaMeans) {
  EXPECT_EQ(matches("\\p{^L}+", "ab12cd"), "12");
  EXPECT_EQ(matches("\\P{Nd}", "1a"), "a");
  EXPECT_EQ(matches("\\D+", "12ab3"), "ab");
  EXPECT_EQ(matches("\\v", "a\nb\x0B"), "\x0B"); // not any vertical space
  EXPECT_EQ(matches("(?i)straSSe|x", "STRASSE X"), "STRASSE|X");
  EXPECT_EQ(matches("a+?b??", "aab"), "a|a");
  EXPECT_EQ(matches("a{,2}b", "aaab"), "aab");
  EXPECT_EQ(matches("a{1,3}?", "aaa"), "a|a|a");
  EXPECT_EQ(matches("\\x{e9}|\\u00e8|\\x41", "éèA"), "é|è|A");
  EXPECT_EQ(matches(".+", "ab\ncd"), "ab|cd");
  EXPECT_EQ(matches("[\\d\\-a-c]+", "x-1c-d"), "-1c-");
  EXPECT_EQ(matches("\\p{Greek}", "α\u0342"), "α"); // the script, not its extensions
  EXPECT_EQ(matches("(?<=a)b(?=c)|(?<!x)y(?!z)|(?>a+)c", "abc xyz yy aac"), "b|y|y|aac");
}

TEST(Tokenizer, LoadsAFolder) {
  ModelFolder folder(M3C_TEST_DATA "/m31-nano");
  Tokenizer tokenizer = Tokenizer::load(folder, 4096);
  EXPECT_EQ(tokenizer.size(), 4096u);
  EXPECT_EQ(tokenizer.idOf("[e~["), 4087);
  EXPECT_EQ(tokenizer.idOf("no such token"), std::nullopt);
  TextConfig config = loadTextConfig(folder, tokenizer);
  EXPECT_EQ(config.bosId, 4088);
  EXPECT_EQ(config.eosIds, Ids{4087});
  EXPECT_THROW(Tokenizer::load(folder, 4095), Error);
  EXPECT_THROW(Tokenizer::load(ModelFolder(M3C_TEST_DATA), 0), Error);
}

TEST(Tokenizer, MergesByRankThenPosition) {
  Tokenizer tokenizer = smallTokenizer();
  EXPECT_EQ(tokenizer.encode("hello", ParseAdded::None), (Ids{259}));
  EXPECT_EQ(tokenizer.encode("hell", ParseAdded::None), (Ids{258}));
  EXPECT_EQ(tokenizer.encode("lll", ParseAdded::None), (Ids{257, 'l'}));
  EXPECT_EQ(tokenizer.encode("", ParseAdded::None), Ids{});
}

TEST(Tokenizer, MergesGivenAsStringsAreTheSame) {
  json file = smallTokenizerJson();
  for (json &merge : file["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  EXPECT_EQ(Tokenizer::parse(file.dump(), "strings", 0).encode("hello", ParseAdded::None),
            (Ids{259}));
}

TEST(Tokenizer, TextOfUsersHasNoControlTokens) {
  Tokenizer tokenizer = smallTokenizer();
  EXPECT_EQ(tokenizer.encode("[e~[", ParseAdded::All), (Ids{262}));
  EXPECT_EQ(tokenizer.encode("[e~[", ParseAdded::None), (Ids{'[', 'e', '~', '['}));
  std::vector<Segment> segments = {{"]~b]", true}, {"he[e~[", false}, {"llo[e~[", true}};
  EXPECT_EQ(tokenizer.encode(segments), (Ids{261, 256, '[', 'e', '~', '[', 257, 'o', 262}));
  // Words run across the parts, control tokens do not.
  EXPECT_EQ(tokenizer.encode(std::vector<Segment>{{"he", true}, {"llo", false}}), (Ids{259}));
  EXPECT_EQ(tokenizer.encode(std::vector<Segment>{{"[e", true}, {"~[", true}}),
            (Ids{'[', 'e', '~', '['}));
}

TEST(Tokenizer, IllFormedTextNamesTheByte) {
  Tokenizer tokenizer = smallTokenizer();
  for (std::string_view bad : {"abc\xFF", "abc\xC3(", "abc\xED\xA0\x80", "abc\xF0\x9F"}) {
    try {
      tokenizer.encode(bad, ParseAdded::All);
      FAIL();
    } catch (const Error &error) {
      EXPECT_EQ(error.where(), "byte 3");
    }
  }
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreRefusedAndPaddingIsEmpty) {
  Tokenizer tokenizer = Tokenizer::parse(smallTokenizerJson().dump(), "padded", 300);
  EXPECT_EQ(tokenizer.size(), 300u);
  EXPECT_EQ(tokenizer.decode(Ids{259, 299, '!'}, false), "hello!");
  for (int32_t id : {-1, 300, 1 << 30})
    EXPECT_THROW(tokenizer.decode(Ids{id}, false), Error) << id;
}

TEST(Tokenizer, AByteWithoutATokenIsAnError) {
  json file = smallTokenizerJson();
  file["model"]["vocab"].erase("q");
  Tokenizer tokenizer = Tokenizer::parse(file.dump(), "no q", 0);
  EXPECT_EQ(tokenizer.encode("abc", ParseAdded::All), (Ids{'a', 'b', 'c'}));
  EXPECT_THROW(tokenizer.encode("aqc", ParseAdded::All), Error);
}

// A run of n bytes without a split must not take n² steps: at n² this would run for hours.
TEST(Tokenizer, LongRunsAreNotQuadratic) {
  Tokenizer tokenizer = smallTokenizer();
  std::string word;
  while (word.size() < 2'000'000)
    word += "hello";
  EXPECT_EQ(tokenizer.encode(word, ParseAdded::All).size(), word.size() / 5);
  EXPECT_EQ(tokenizer.encode(std::string(2'000'000, ' ') + "x", ParseAdded::All).size(),
            2'000'001u);
  EXPECT_EQ(tokenizer.encode(std::string(1'000'000, '['), ParseAdded::All).size(), 1'000'000u);
}

TEST(Tokenizer, BacktrackingIsBounded) {
  json file = smallTokenizerJson();
  json split = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a|aa)+[bc]"}}}, {"behavior", "Isolated"}};
  json last = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, last}}};
  Tokenizer tokenizer = Tokenizer::parse(file.dump(), "slow", 0);
  EXPECT_EQ(tokenizer.encode("aab", ParseAdded::All).size(), 3u);
  EXPECT_THROW(tokenizer.encode(std::string(200, 'a'), ParseAdded::All), Error);
}

/// Expects that the file, changed by `change`, is refused with a message that has all of `words`.
void expectRefused(const std::function<void(json &)> &change, std::vector<std::string> words,
                   uint32_t vocabSize = 0) {
  json file = smallTokenizerJson();
  change(file);
  words.push_back("DIR/tokenizer.json");
  try {
    Tokenizer::parse(file.dump(), "DIR/tokenizer.json", vocabSize);
    ADD_FAILURE() << "accepted; expected " << words[0];
  } catch (const Error &error) {
    for (const std::string &word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << word << " in " << error.what();
  }
}

TEST(TokenizerFile, RefusesWhatItCannotHonourByName) {
  expectRefused([](json &f) { f["normalizer"] = {{"type", "NFC"}}; }, {"normalizer", "NFC"});
  expectRefused([](json &f) { f["decoder"] = nullptr; }, {"decoder", "ByteLevel"});
  expectRefused([](json &f) { f["decoder"] = {{"type", "Metaspace"}}; }, {"decoder", "Metaspace"});
  expectRefused([](json &f) { f["post_processor"] = {{"type", "TemplateProcessing"}}; },
                {"post_processor", "TemplateProcessing"});
  expectRefused([](json &f) { f["pre_tokenizer"] = {{"type", "Whitespace"}}; },
                {"pre_tokenizer", "Whitespace"});
  expectRefused([](json &f) { f["pre_tokenizer"] = nullptr; }, {"pre_tokenizer", "null"});
  expectRefused([](json &f) { f["model"]["type"] = "Unigram"; }, {"model.type", "Unigram"});
  expectRefused([](json &f) { f["model"]["dropout"] = 0.1; }, {"model.dropout", "0.1"});
  expectRefused([](json &f) { f["model"]["byte_fallback"] = true; }, {"model.byte_fallback"});
  expectRefused([](json &f) { f["model"]["end_of_word_suffix"] = "</w>"; },
                {"end_of_word_suffix", "</w>"});
  expectRefused([](json &f) { f["model"]["surprise"] = 1; }, {"model.surprise", "unknown key"});
  expectRefused([](json &f) { f["added_tokens"][0]["surprise"] = 1; },
                {"added_tokens[0].surprise"});
}

TEST(TokenizerFile, RefusesPatternsThatMeanSomethingElseInPcre) {
  auto withPattern = [](const char *pattern) {
    return [pattern](json &file) {
      file["pre_tokenizer"] = {
          {"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}},
            {{"type", "ByteLevel"}}}}};
    };
  };
  for (const char *pattern :
       {"^a",          "a$",      "\\bword",   "\\w+",        "a{2}+",  "a**",
        "[[:alpha:]]", "[a[b]]",  "[a&&b]",    "(?<name>a)",  "(a)\\1", "\\pL",
        "[^\\S]",      "[\\s-x]", "\\R",       "\\K",         "a{",     "[",
        "a\\",         "(?m)a",   "(*ACCEPT)", "\\x{110000}", "\\xFF"})
    expectRefused(withPattern(pattern), {"pre_tokenizer.pretokenizers[0].pattern", "pattern"});
  for (const char *pattern : {"(a", "a)", "\\p{Nonsense}", "[z-a]", "a{99999}", "+"})
    expectRefused(withPattern(pattern), {"pre_tokenizer.pretokenizers[0].pattern", "malformed"});
}

TEST(TokenizerFile, RefusesDamagedContent) {
  expectRefused([](json &f) { f.erase("model"); }, {"model", "expected an object"});
  expectRefused([](json &f) { f["model"].erase("merges"); }, {"model.merges"});
  expectRefused([](json &f) { f["model"]["merges"][1] = json::array({"l", "m", "n"}); },
                {"model.merges[1]"});
  expectRefused([](json &f) { f["model"]["merges"][1] = "l m n"; }, {"model.merges[1]"});
  expectRefused([](json &f) { f["model"]["merges"][1] = json::array({"zz", "l"}); },
                {"model.merges[1]", "zz"});
  expectRefused([](json &f) { f["model"]["vocab"]["new"] = 3; }, {"id 3", "two tokens"});
  expectRefused([](json &f) { f["model"]["vocab"]["new"] = "3"; },
                {"model.vocab[\"new\"]", "token id"});
  expectRefused([](json &f) { f["model"]["vocab"]["new"] = -1; }, {"model.vocab[\"new\"]", "-1"});
  expectRefused([](json &f) { f["model"]["vocab"]["new"] = 1.5; }, {"model.vocab[\"new\"]", "1.5"});
  expectRefused([](json &f) { f["added_tokens"][6]["id"] = 2147483653; },
                {"added_tokens[6].id", "2147483653", "vocab_size"});
  expectRefused([](json &f) { f["added_tokens"][6]["id"] = 300; },
                {"added_tokens[6].id", "300", "0 to 299"}, 300);
  expectRefused([](json &f) { f["added_tokens"][6]["id"] = 260; },
                {"added_tokens[6].id", "two tokens"});
  expectRefused([](json &f) { f["added_tokens"][6]["content"] = ""; }, {"added_tokens[6].content"});
  expectRefused([](json &f) { f["added_tokens"][6]["content"] = "[e~["; },
                {"added_tokens[6]", "twice"});
  expectRefused([](json &f) { f["added_tokens"][6]["content"] = "hello"; },
                {"added_tokens[6].id", "hello", "259"});
  expectRefused([](json &f) { f["added_tokens"][6]["special"] = "yes"; },
                {"added_tokens[6].special", "true or false"});
}

TEST(TokenizerFile, DamagedTextNamesTheByte) {
  std::string text = smallTokenizerJson().dump();
  auto expectByte = [](const std::string &json, const std::string &byte) {
    try {
      Tokenizer::parse(json, "tokenizer.json", 0);
      FAIL();
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(byte), std::string::npos) << error.what();
    }
  };
  expectByte(text.substr(0, text.size() / 2), "byte " + std::to_string(text.size() / 2));
  size_t merges = text.find("\"merges\"");
  std::string broken = text;
  broken[merges + 1] = '\xFF';
  expectByte(broken, "byte " + std::to_string(merges + 1));
  expectByte("{\"model\": 1, \"model\": 2}", "model");
}

TEST(TokenizerFile, FeaturesWithoutEffectAreNoted) {
  json file = smallTokenizerJson();
  file["truncation"] = {{"max_length", 5}};
  file["model"]["merges"].push_back(json::array({"h", "e"}));
  Tokenizer tokenizer = Tokenizer::parse(file.dump(), "noted", 0);
  ASSERT_EQ(tokenizer.notes().size(), 2u);
  EXPECT_NE(tokenizer.notes()[0].find("model.merges[4]"), std::string::npos);
  EXPECT_NE(tokenizer.notes()[1].find("truncation"), std::string::npos);
}

} // namespace
} // namespace m3c::text
