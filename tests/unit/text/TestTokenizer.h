// A tokenizer small enough to read: the 256 byte symbols, a few merges and the control tokens of
// M3.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "runtime/text/Tokenizer.h"
#include "runtime/text/Utf8.h"
#include "runtime/text/bpe/Bpe.h"

namespace m3c::text {

/// The file as JSON. Token b is byte b; 256 to 259 are "he", "ll", "hell" and "hello"; 260 to 266
/// are the control tokens.
inline nlohmann::json smallTokenizerJson() {
  nlohmann::json vocab = nlohmann::json::object(), added = nlohmann::json::array();
  auto symbol = [](uint8_t byte) {
    std::string text;
    appendUtf8(text, byteToSymbol(byte));
    return text;
  };
  for (int byte = 0; byte < 256; ++byte)
    vocab[symbol(uint8_t(byte))] = byte;
  nlohmann::json merges =
      nlohmann::json::parse(R"([["h", "e"], ["l", "l"], ["he", "ll"], ["hell", "o"]])");
  int next = 256;
  for (const auto &pair : merges)
    vocab[pair[0].get<std::string>() + pair[1].get<std::string>()] = next++;
  for (const char *token :
       {"]~!b[", "]~b]", "[e~[", "<mm:think>", "</mm:think>", "]<]minimax[>[", "]<]image[>["})
    added.push_back({{"id", next++}, {"content", token}, {"special", true}, {"normalized", false}});
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
}

inline Tokenizer smallTokenizer() {
  return Tokenizer::parse(smallTokenizerJson().dump(), "small", 0);
}

} // namespace m3c::text
