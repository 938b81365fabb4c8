#include "runtime/text/TextConfig.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/text/FolderFile.h"

namespace m3c::text {

namespace {

using nlohmann::json;

// Keys of generation_config.json that say nothing about how to generate.
constexpr std::array<std::string_view, 4> inertKeys = {"transformers_version", "_from_model_config",
                                                       "pad_token_id", "max_length"};

class Loader {
public:
  Loader(const ModelFolder &folder, const Tokenizer &tokenizer)
      : folder(folder), tokenizer(tokenizer) {}

  TextConfig load() {
    readTokenizerConfig(read("tokenizer_config.json"), "tokenizer_config.json");
    readGenerationConfig(read("generation_config.json"), "generation_config.json");
    json config = read("config.json");
    readIds(config, "config.json");
    if (auto text = config.find("text_config"); text != config.end() && text->is_object())
      readIds(*text, "config.json, text_config");
    noteEnds();
    return std::move(result);
  }

private:
  [[noreturn]] void fail(const std::string &where, const std::string &why) const {
    throw Error("cannot use a file of the checkpoint", folder.pathOf(where), why);
  }

  /// The object that the file holds; empty if there is no such file.
  json read(const char *name) const {
    return folder.has(name) ? readFolderJson(folder, name) : json::object();
  }

  static const json &member(const json &object, const char *key) {
    static const json null;
    auto found = object.find(key);
    return found == object.end() ? null : *found;
  }

  int32_t checkedId(const json &value, const std::string &where) const {
    if (!value.is_number_integer() || value < 0 || value >= tokenizer.size())
      fail(where, fmt::format("found {}, expected a token id from 0 to {}", jsonText(value),
                              int64_t(tokenizer.size()) - 1));
    return value.get<int32_t>();
  }

  void addEnd(int32_t id, const std::string &where) {
    ends.emplace_back(id, where);
    result.eosIds.push_back(id);
  }

  void readIds(const json &object, const std::string &file) {
    const json &end = member(object, "eos_token_id"), &begin = member(object, "bos_token_id");
    std::string where = file + ", eos_token_id";
    if (end.is_array())
      for (const json &id : end)
        addEnd(checkedId(id, where), file);
    else if (!end.is_null())
      addEnd(checkedId(end, where), file);
    if (!begin.is_null() && !result.bosId)
      result.bosId = checkedId(begin, file + ", bos_token_id");
  }

  /// The id of a token given by its text, or as {"content": text, …}.
  std::optional<int32_t> namedToken(const json &object, const char *key,
                                    const std::string &file) const {
    const json *value = &member(object, key);
    if (value->is_object())
      value = &member(*value, "content");
    if (value->is_null())
      return std::nullopt;
    if (!value->is_string())
      fail(file + ", " + key, fmt::format("found {}, expected a token", jsonText(*value)));
    return tokenizer.requireAddedToken(value->get<std::string>(),
                                       fmt::format("{} of {}", key, file));
  }

  void readTokenizerConfig(const json &object, const std::string &file) {
    result.bosId = namedToken(object, "bos_token", file);
    if (auto id = namedToken(object, "eos_token", file))
      addEnd(*id, file);
  }

  void readGenerationConfig(const json &object, const std::string &file) {
    readIds(object, file);
    for (const auto &[key, value] : object.items()) {
      std::string where = file + ", " + key;
      if (key == "temperature")
        result.temperature = number(value, where, [](double t) { return t >= 0; }, "0 or more");
      else if (key == "top_p")
        result.topP = number(
            value, where, [](double p) { return p > 0 && p <= 1; }, "more than 0, at most 1");
      else if (key == "top_k")
        result.topK = count(value, where);
      else if (key != "do_sample" && key != "eos_token_id" && key != "bos_token_id" &&
               std::find(inertKeys.begin(), inertKeys.end(), key) == inertKeys.end())
        result.notes.push_back(fmt::format("{}: \"{}\" is not applied", file, printable(key)));
    }
    if (member(object, "do_sample") == false)
      result.temperature = 0;
  }

  double number(const json &value, const std::string &where, bool (*fits)(double),
                const char *range) const {
    if (!value.is_number() || !fits(value.get<double>()))
      fail(where, fmt::format("found {}, expected a number of {}", jsonText(value), range));
    return value.get<double>();
  }

  uint32_t count(const json &value, const std::string &where) const {
    if (!value.is_number_integer() || value < 0 || value > UINT32_MAX)
      fail(where, fmt::format("found {}, expected a count", jsonText(value)));
    return value.get<uint32_t>();
  }

  void noteEnds() {
    std::vector<std::string> sources;
    for (const auto &[id, where] : ends)
      sources.push_back(fmt::format("{} ({})", id, where));
    result.notes.push_back(sources.empty()
                               ? "no file of the checkpoint names a token that ends a text"
                               : fmt::format("a text ends at token {}", fmt::join(sources, ", ")));
    std::sort(result.eosIds.begin(), result.eosIds.end());
    result.eosIds.erase(std::unique(result.eosIds.begin(), result.eosIds.end()),
                        result.eosIds.end());
  }

  const ModelFolder &folder;
  const Tokenizer &tokenizer;
  TextConfig result;
  std::vector<std::pair<int32_t, std::string>> ends;
};

} // namespace

TextConfig loadTextConfig(const ModelFolder &folder, const Tokenizer &tokenizer) {
  return Loader(folder, tokenizer).load();
}

} // namespace m3c::text
