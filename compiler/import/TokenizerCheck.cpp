#include "compiler/import/TokenizerCheck.h"

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"

#include <fmt/format.h>

namespace m3c {

using nlohmann::json;

void checkTokenizer(std::string_view text, const std::string &file, int64_t vocab) {
  json document = parseJson(text, file, {.depth = 32, .values = 16'000'000});
  auto fail = [&](std::string_view key, std::string why) {
    throw Error(fmt::format("{}: wrong tokenizer", file), fmt::format("{}, key {}", file, key),
                std::move(why), "fetch the tokenizer that belongs to the model");
  };
  auto checkId = [&](std::string_view key, const json &id, const json &token) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= uint64_t(vocab))
      fail(key, fmt::format("token {} has id {}; an id below vocab_size {} is expected",
                            jsonText(token), jsonText(id), vocab));
  };
  if (!document.is_object() || !document.contains("model") || !document["model"].is_object())
    fail("model", "an object with key model is expected");
  const json &model = document["model"];
  if (!model.contains("vocab") || !model["vocab"].is_object())
    fail("model.vocab", "an object from tokens to ids is expected");
  for (const auto &[token, id] : model["vocab"].items())
    checkId("model.vocab", id, token);
  const json added = document.value("added_tokens", json::array());
  if (!added.is_array())
    fail("added_tokens", "a list is expected");
  for (const json &token : added) {
    if (!token.is_object() || !token.contains("id") || !token.contains("content"))
      fail("added_tokens", "objects with id and content are expected");
    checkId("added_tokens", token["id"], token["content"]);
  }
}

} // namespace m3c
