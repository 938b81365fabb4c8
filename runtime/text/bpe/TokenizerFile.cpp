#include "runtime/text/bpe/TokenizerFile.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/text/Utf8.h"

namespace m3c::text {

namespace {

using nlohmann::json;

constexpr uint32_t mostIds = 1 << 20; // when the model's vocab_size is not known
constexpr size_t mostAddedTokenBytes = 1 << 12;

// The word pattern of GPT-2, which `use_regex` names: a contraction, or letters, digits or other
// signs with one space before them, or white space without the last one before a word.
constexpr std::string_view byteLevelPattern =
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

class Reader {
public:
  Reader(const std::string &name, uint32_t vocabSize)
      : name(name), idLimit(vocabSize ? vocabSize : mostIds) {}

  TokenizerFile read(const json &root) {
    known(root, "",
          {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
           "post_processor", "decoder", "model"});
    readNormalizer(member(root, "normalizer"));
    readModel(object(root, "", "model"));
    readAddedTokens(member(root, "added_tokens"));
    readPreTokenizer(object(root, "", "pre_tokenizer"));
    readPostProcessor(member(root, "post_processor"));
    readDecoder(member(root, "decoder"));
    for (const char *key : {"truncation", "padding"})
      if (!member(root, key).is_null())
        file.notes.push_back(fmt::format("{}: \"{}\" is not applied", name, key));
    return std::move(file);
  }

private:
  [[noreturn]] void fail(const std::string &key, const std::string &why,
                         const std::string &next = "") const {
    throw Error("cannot use the tokenizer file", key.empty() ? name : name + ", " + key, why, next);
  }

  [[noreturn]] void unsupported(const std::string &key, const std::string &found,
                                const std::string &expected) const {
    fail(key, fmt::format("found {}, expected {}", found, expected),
         "m3c reads byte-level BPE tokenizers; this feature of the file is not supported");
  }

  static std::string joined(const std::string &path, const std::string &key) {
    return path.empty() ? key : path + "." + key;
  }

  /// The member, or null where it is absent (the format treats both alike).
  static const json &member(const json &parent, const char *key) {
    static const json null;
    auto found = parent.find(key);
    return found == parent.end() ? null : *found;
  }

  const json &object(const json &parent, const std::string &path, const char *key) const {
    const json &value = member(parent, key);
    if (!value.is_object())
      fail(joined(path, key), fmt::format("found {}, expected an object", jsonText(value)));
    return value;
  }

  void known(const json &value, const std::string &path,
             std::initializer_list<const char *> keys) const {
    if (!value.is_object())
      fail(path, fmt::format("found {}, expected an object", jsonText(value)));
    for (const auto &[key, unused] : value.items())
      if (std::none_of(keys.begin(), keys.end(), [&](const char *k) { return key == k; }))
        unsupported(joined(path, printable(key)), "an unknown key",
                    "only keys of tokenizer.json version 1.0");
  }

  bool boolean(const json &parent, const std::string &path, const char *key, bool otherwise) const {
    const json &value = member(parent, key);
    if (value.is_null())
      return otherwise;
    if (!value.is_boolean())
      fail(joined(path, key), fmt::format("found {}, expected true or false", jsonText(value)));
    return value.get<bool>();
  }

  std::string string(const json &parent, const std::string &path, const char *key) const {
    const json &value = member(parent, key);
    if (!value.is_string())
      fail(joined(path, key), fmt::format("found {}, expected a string", jsonText(value)));
    return value.get<std::string>();
  }

  /// `path` is called for the key only when there is something to say: there are many tokens.
  template <class Path> int32_t id(const json &value, const Path &path) const {
    if (!value.is_number_integer())
      fail(path(), fmt::format("found {}, expected a token id", jsonText(value)));
    if (value < 0 || value >= idLimit)
      fail(path(),
           fmt::format("token id {} is out of range: vocab_size allows 0 to {}", jsonText(value),
                       idLimit - 1),
           "the tokenizer and config.json belong to different checkpoints, or one is damaged");
    return value.get<int32_t>();
  }

  /// Registers the token `text` under `id`; the id must be free.
  template <class Path> void place(int32_t id, std::string bytes, const Path &path) {
    size_t at = size_t(id);
    if (file.bytes.size() <= at) {
      file.bytes.resize(at + 1);
      file.special.resize(at + 1);
      taken.resize(at + 1);
    }
    if (taken[at])
      fail(path(), fmt::format("token id {} is given to two tokens", id));
    taken[at] = true;
    file.bytes[at] = std::move(bytes);
  }

  void readNormalizer(const json &value) {
    if (value.is_null())
      return;
    bool empty = value.is_object() && member(value, "type") == "Sequence" &&
                 member(value, "normalizers").is_array() && value["normalizers"].empty();
    if (!empty)
      unsupported("normalizer", jsonText(value), "null");
  }

  void readModel(const json &model) {
    known(model, "model",
          {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
           "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
    const json &type = member(model, "type");
    if (!type.is_null() && type != "BPE")
      unsupported("model.type", jsonText(type), "\"BPE\"");
    const json &dropout = member(model, "dropout");
    if (!dropout.is_null() && dropout != 0)
      unsupported("model.dropout", jsonText(dropout), "null (encoding must be deterministic)");
    for (const char *key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const json &value = member(model, key); !value.is_null() && value != "")
        unsupported(joined("model", key), jsonText(value), "null");
    if (boolean(model, "model", "byte_fallback", false))
      unsupported("model.byte_fallback", "true", "false");
    if (const json &unknown = member(model, "unk_token"); !unknown.is_null())
      file.notes.push_back(
          fmt::format("{}: model.unk_token is not used; a byte without a token is an error", name));
    readVocab(object(model, "model", "vocab"), boolean(model, "model", "ignore_merges", false));
    readMerges(member(model, "merges"));
  }

  void readVocab(const json &vocab, bool wholeWords) {
    file.ids.reserve(vocab.size() + 256);
    for (const auto &[entry, value] : vocab.items()) {
      auto path = [&entry = entry] { return fmt::format("model.vocab[\"{}\"]", printable(entry)); };
      std::string bytes;
      int32_t number = id(value, path);
      if (entry.empty())
        fail(path(), "a token without text");
      bool byteLevel = symbolsToBytes(entry, bytes);
      if (byteLevel && bytes.size() == 1)
        file.bpe.setByte(uint8_t(bytes[0]), number);
      if (byteLevel && wholeWords)
        file.bpe.addWholeWord(bytes, number);
      place(number, byteLevel ? bytes : entry, path);
      file.ids.emplace(entry, number);
    }
  }

  template <class Path> int32_t mergePart(const std::string &text, const Path &path) const {
    auto found = file.ids.find(text);
    if (found == file.ids.end())
      fail(path(), fmt::format("\"{}\" is not in model.vocab", printable(text)));
    return found->second;
  }

  void readMerges(const json &merges) {
    if (!merges.is_array())
      fail("model.merges", fmt::format("found {}, expected an array", jsonText(merges)));
    file.bpe.reserveMerges(merges.size());
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      auto path = [rank] { return fmt::format("model.merges[{}]", rank); };
      auto [left, right] = mergePair(merges[rank], path);
      Bpe::Merge merge{uint32_t(rank), mergePart(left + right, path)};
      if (!file.bpe.addMerge(mergePart(left, path), mergePart(right, path), merge))
        file.notes.push_back(
            fmt::format("{}, {}: repeats an earlier merge and replaces it", name, path()));
    }
  }

  /// "a b", or ["a", "b"] as newer writers put it.
  template <class Path>
  std::pair<std::string, std::string> mergePair(const json &value, const Path &path) const {
    if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string())
      return {value[0], value[1]};
    if (value.is_string()) {
      const std::string &text = value.get_ref<const std::string &>();
      size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
        return {text.substr(0, space), text.substr(space + 1)};
    }
    fail(path(), fmt::format("found {}, expected \"left right\" or [\"left\", \"right\"]",
                             jsonText(value)));
  }

  void readAddedTokens(const json &list) {
    if (list.is_null())
      return;
    if (!list.is_array())
      fail("added_tokens", fmt::format("found {}, expected an array", jsonText(list)));
    for (size_t i = 0; i < list.size(); ++i)
      readAddedToken(list[i], fmt::format("added_tokens[{}]", i));
  }

  void readAddedToken(const json &value, const std::string &path) {
    known(value, path,
          {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token;
    token.content = string(value, path, "content");
    auto idPath = [&path] { return path + ".id"; };
    token.id = id(member(value, "id"), idPath);
    token.special = boolean(value, path, "special", false);
    token.singleWord = boolean(value, path, "single_word", false);
    token.stripLeft = boolean(value, path, "lstrip", false);
    token.stripRight = boolean(value, path, "rstrip", false);
    token.normalized = boolean(value, path, "normalized", !token.special);
    if (token.content.empty() || token.content.size() > mostAddedTokenBytes)
      fail(path + ".content", fmt::format("found {} bytes, expected 1 to {}", token.content.size(),
                                          mostAddedTokenBytes));
    for (const AddedToken &other : file.added.all())
      if (other.content == token.content)
        fail(path, fmt::format("\"{}\" is added twice", printable(token.content)));
    auto inVocab = file.ids.find(token.content);
    if (inVocab == file.ids.end()) {
      place(token.id, token.content, idPath);
      file.ids.emplace(token.content, token.id);
    } else if (inVocab->second != token.id) {
      fail(path + ".id", fmt::format("found {}, but model.vocab gives \"{}\" the id {}", token.id,
                                     printable(token.content), inVocab->second));
    }
    file.special[size_t(token.id)] = token.special;
    file.added.add(std::move(token));
  }

  void readPreTokenizer(const json &value) {
    const json &type = member(value, "type");
    if (type == "Sequence") {
      known(value, "pre_tokenizer", {"type", "pretokenizers"});
      const json &list = member(value, "pretokenizers");
      if (!list.is_array() || list.empty())
        fail("pre_tokenizer.pretokenizers",
             fmt::format("found {}, expected a list", jsonText(list)));
      for (size_t i = 0; i < list.size(); ++i)
        readStep(list[i], fmt::format("pre_tokenizer.pretokenizers[{}]", i), i + 1 == list.size());
    } else {
      readStep(value, "pre_tokenizer", true);
    }
  }

  void readStep(const json &value, const std::string &path, bool last) {
    std::string type = value.is_object() ? string(value, path, "type") : jsonText(value);
    if (type == "ByteLevel" && last)
      readByteLevel(value, path);
    else if (type == "Split" && !last)
      readSplit(value, path);
    else
      unsupported(path, printable(type), "Split before the end and ByteLevel at the end");
  }

  void readByteLevel(const json &value, const std::string &path) {
    known(value, path, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    PreTokenizeStep step;
    step.addPrefixSpace = boolean(value, path, "add_prefix_space", true);
    if (boolean(value, path, "use_regex", true))
      step.pattern.emplace_back(byteLevelPattern, name + ", " + path + ".use_regex");
    file.steps.push_back(std::move(step));
  }

  void readSplit(const json &value, const std::string &path) {
    known(value, path, {"type", "pattern", "behavior", "invert"});
    const json &pattern = object(value, path, "pattern");
    std::string patternPath = path + ".pattern";
    known(pattern, patternPath, {"Regex", "String"});
    if (pattern.size() != 1)
      fail(patternPath, "expected either \"Regex\" or \"String\"");
    bool literal = pattern.contains("String");
    std::string text = string(pattern, patternPath, literal ? "String" : "Regex");
    if (text.empty())
      fail(patternPath, "the pattern is empty");
    PreTokenizeStep step;
    step.pattern.emplace_back(literal ? escaped(text) : text, name + ", " + patternPath);
    step.behavior = behavior(string(value, path, "behavior"), path + ".behavior");
    step.invert = boolean(value, path, "invert", false);
    file.steps.push_back(std::move(step));
  }

  static std::string escaped(std::string_view text) {
    std::string pattern;
    for (char c : text) {
      bool plain = (uint8_t(c) & 0x80) || std::isalnum(uint8_t(c)) || std::iscntrl(uint8_t(c));
      pattern += plain ? std::string(1, c) : std::string("\\") + c;
    }
    return pattern;
  }

  SplitBehavior behavior(const std::string &text, const std::string &path) const {
    static constexpr std::pair<std::string_view, SplitBehavior> rows[] = {
        {"Removed", SplitBehavior::Removed},
        {"Isolated", SplitBehavior::Isolated},
        {"MergedWithPrevious", SplitBehavior::MergedWithPrevious},
        {"MergedWithNext", SplitBehavior::MergedWithNext},
        {"Contiguous", SplitBehavior::Contiguous}};
    for (const auto &[label, value] : rows)
      if (label == text)
        return value;
    unsupported(path, "\"" + printable(text) + "\"", "a behaviour of tokenizer.json version 1.0");
  }

  void readPostProcessor(const json &value) {
    if (value.is_null() || (value.is_object() && member(value, "type") == "ByteLevel"))
      return; // that one only trims offsets
    unsupported("post_processor", jsonText(value), "null or ByteLevel");
  }

  void readDecoder(const json &value) {
    if (!value.is_object() || member(value, "type") != "ByteLevel")
      unsupported("decoder", jsonText(value), "ByteLevel");
  }

  const std::string &name;
  uint32_t idLimit;
  TokenizerFile file;
  std::vector<bool> taken;
};

} // namespace

TokenizerFile parseTokenizerFile(std::string_view text, const std::string &name,
                                 uint32_t vocabSize) {
  JsonLimits limits;
  limits.values = 1 << 24; // some ten values for each token of a large vocabulary
  return Reader(name, vocabSize).read(parseJson(text, name, limits));
}

} // namespace m3c::text
