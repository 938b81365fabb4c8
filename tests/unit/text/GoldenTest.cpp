// Ids and texts equal to those of Hugging Face's `tokenizers` (tests/data/text/make_goldens.py).
#include <fstream>
#include <random>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/text/Tokenizer.h"
#include "runtime/text/Utf8.h"

namespace m3c::text {
namespace {

using nlohmann::json;

std::string readAll(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

const json &goldens() {
  static const json instance = json::parse(readAll(M3C_TEST_DATA "/text/goldens.json"));
  return instance;
}

Tokenizer variant(const std::string &name) {
  const json &row = goldens()["variants"][name];
  std::string path = row["base"] == "nano" ? M3C_TEST_DATA "/m31-nano/tokenizer.json"
                                           : M3C_TEST_DATA "/text/split.tokenizer.json";
  json content = json::parse(readAll(path));
  content.merge_patch(row["patch"]);
  return Tokenizer::parse(content.dump(), name, 0);
}

ParseAdded modeOf(const std::string &name) {
  return name == "All"    ? ParseAdded::All
         : name == "None" ? ParseAdded::None
                          : ParseAdded::NonSpecial;
}

TEST(TokenizerGolden, Encode) {
  size_t compared = 0;
  for (const json &group : goldens()["encode"]) {
    Tokenizer tokenizer = variant(group["variant"]);
    for (const auto &[index, ids] : group["ids"].items()) {
      std::string text = goldens()["texts"][std::stoul(index)];
      EXPECT_EQ(tokenizer.encode(text, modeOf(group["mode"])), ids.get<std::vector<int32_t>>())
          << group["variant"] << " " << group["mode"] << " " << json(text).dump(-1, ' ', true);
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000u);
}

// Cutting a text into segments, each a user's, changes nothing: words run across the cuts.
TEST(TokenizerGolden, SegmentsJoin) {
  std::mt19937 random(11);
  for (const json &group : goldens()["encode"]) {
    if (group["mode"] != "None")
      continue;
    Tokenizer tokenizer = variant(group["variant"]);
    for (const auto &[index, ids] : group["ids"].items()) {
      std::string text = goldens()["texts"][std::stoul(index)];
      std::vector<Segment> segments(1 + random() % 3);
      for (size_t at = 0; at < text.size(); at += scanUtf8(std::string_view(text).substr(at)).size)
        segments[at * segments.size() / text.size()].text +=
            text.substr(at, scanUtf8(std::string_view(text).substr(at)).size);
      EXPECT_EQ(tokenizer.encode(segments), ids.get<std::vector<int32_t>>())
          << json(text).dump(-1, ' ', true);
    }
  }
}

TEST(TokenizerGolden, Decode) {
  for (const json &row : goldens()["decode"]) {
    Tokenizer tokenizer = variant(row["variant"]);
    auto ids = row["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.decode(ids, false), row["text"].get<std::string>())
        << row.dump(-1, ' ', true);
    EXPECT_EQ(tokenizer.decode(ids, true), row["skipped"].get<std::string>())
        << row.dump(-1, ' ', true);
  }
}

/// FNV-1a over the little-endian bytes of the ids, as the script computes it.
std::string fnv(const std::vector<int32_t> &ids) {
  uint64_t value = 0xCBF29CE484222325;
  for (int32_t id : ids)
    for (int shift = 0; shift < 32; shift += 8)
      value = (value ^ ((uint32_t(id) >> shift) & 0xFF)) * 0x100000001B3;
  return fmt::format("{:016x}", value);
}

// Every assigned character, in blocks of 1024 code points, between a letter and a digit.
TEST(TokenizerGolden, EveryCharacter) {
  std::map<std::string, Tokenizer> tokenizers;
  for (const json &row : goldens()["sweep"]) {
    std::string name = row["variant"];
    if (!tokenizers.contains(name))
      tokenizers.emplace(name, variant(name));
    uint32_t low = row["low"], count = 0;
    std::string text;
    for (const json &run : goldens()["assigned"])
      for (uint32_t c = run[0], end = c + run[1].get<uint32_t>(); c < end; ++c)
        if (c >= low && c < low + 1024) {
          ++count;
          text += 'a';
          appendUtf8(text, c);
          text += "1 ";
          appendUtf8(text, c);
        }
    ASSERT_EQ(count, row["count"].get<uint32_t>());
    EXPECT_EQ(fnv(tokenizers.at(name).encode(text, ParseAdded::All)), row["fnv"].get<std::string>())
        << name << " " << low;
  }
}

} // namespace
} // namespace m3c::text
