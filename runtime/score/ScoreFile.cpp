#include "runtime/score/ScoreFile.h"

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/sample/Sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace m3c {

namespace {

std::vector<int32_t> readIds(const SafetensorsFile &file, const TensorEntry &tensor,
                             uint32_t vocab) {
  std::string where = fmt::format("{}, tensor {}", file.file().name(), printable(tensor.name));
  bool wide = tensor.dtype == Dtype::I64;
  if ((!wide && tensor.dtype != Dtype::I32) || tensor.shape.size() != 1)
    throw Error(fmt::format("tensor {} holds no token ids", printable(tensor.name)), where,
                fmt::format("I32 or I64 of one dimension is needed, it is {} {}",
                            dtypeName(tensor.dtype), shapeText(tensor.shape)));
  if (tensor.shape[0] == 0)
    throw Error(fmt::format("tensor {} is empty", printable(tensor.name)), where,
                "a text needs at least one token");
  std::span<const std::byte> data = file.data(tensor);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tensor.shape[0]; ++i) {
    int64_t id = 0;
    int32_t narrow;
    if (wide) {
      std::memcpy(&id, data.data() + 8 * i, 8);
    } else {
      std::memcpy(&narrow, data.data() + 4 * i, 4);
      id = narrow;
    }
    if (id < 0 || id >= int64_t(vocab))
      throw Error(fmt::format("token id {} is out of range", id),
                  fmt::format("{}, element {}", where, i),
                  fmt::format("ids of this model are 0 to {}", vocab - 1));
    ids.push_back(int32_t(id));
  }
  return ids;
}

} // namespace

ScoreInput ScoreInput::read(const std::filesystem::path &path, uint32_t vocab) {
  SafetensorsFile file = SafetensorsFile::open(path);
  ScoreInput input;
  input.file = path.string();
  for (const TensorEntry &tensor : file.tensors()) {
    std::string_view name = tensor.name;
    if (name.starts_with("ids."))
      input.texts.push_back({std::string(name.substr(4)), readIds(file, tensor, vocab)});
    else if (name.starts_with("prompt."))
      input.prompts.push_back({std::string(name.substr(7)), readIds(file, tensor, vocab)});
  }
  auto byName = [](const Text &a, const Text &b) { return a.name < b.name; };
  std::sort(input.texts.begin(), input.texts.end(), byName);
  std::sort(input.prompts.begin(), input.prompts.end(), byName);
  if (input.texts.empty() && input.prompts.empty())
    throw Error(fmt::format("{} has nothing to score", path.string()), path.string(),
                "there is no tensor ids.X or prompt.N");
  return input;
}

TextScore::TextScore(std::string name, std::span<const int32_t> ids)
    : name(std::move(name)), ids(ids), nextLogProb(ids.size() - 1), argmax(ids.size()) {}

void TextScore::addLogits(size_t token, std::span<const float> logits) {
  argmax[token] = sample::argmax(logits, token);
  if (token + 1 < ids.size())
    nextLogProb[token] = float(sample::logProbOf(logits, ids[token + 1], token));
  else
    lastLogits.assign(logits.begin(), logits.end());
}

void TextScore::write(SafetensorsWriter &out) const {
  out.add("last_logits." + name, Dtype::F32, {int64_t(lastLogits.size())},
          std::span<const float>(lastLogits));
  out.add("next_logprob." + name, Dtype::F32, {int64_t(nextLogProb.size())},
          std::span<const float>(nextLogProb));
  out.add("argmax." + name, Dtype::I32, {int64_t(argmax.size())}, std::span<const int32_t>(argmax));
}

TextTrace::TextTrace(std::string name, size_t tokens, const TraceShape &shape)
    : name(std::move(name)), tokens(tokens), shape(shape),
      blocks(size_t(shape.layers) * shape.kvHeads * shape.topkBlocks, -1),
      experts(shape.moeLayers.size() * tokens * shape.expertsPerToken, -1) {}

void TextTrace::addBlocks(uint32_t layer, size_t token, std::span<const int32_t> row) {
  size_t count = size_t(shape.kvHeads) * shape.topkBlocks;
  if (token + 1 == tokens && layer < shape.layers)
    std::copy_n(row.begin(), std::min(count, row.size()),
                blocks.begin() + ptrdiff_t(layer * count));
}

void TextTrace::addExperts(uint32_t layer, size_t token, std::span<const int32_t> row) {
  auto at = std::lower_bound(shape.moeLayers.begin(), shape.moeLayers.end(), layer);
  if (at == shape.moeLayers.end() || *at != layer)
    return;
  size_t index = size_t(at - shape.moeLayers.begin()) * tokens + token;
  std::copy_n(row.begin(), std::min<size_t>(shape.expertsPerToken, row.size()),
              experts.begin() + ptrdiff_t(index * shape.expertsPerToken));
}

void TextTrace::write(SafetensorsWriter &out, bool withBlocks, bool withExperts) const {
  if (withBlocks)
    out.add("blocks." + name, Dtype::I32, {shape.layers, shape.kvHeads, shape.topkBlocks},
            std::span<const int32_t>(blocks));
  if (withExperts)
    out.add("experts." + name, Dtype::I32,
            {int64_t(shape.moeLayers.size()), int64_t(tokens), shape.expertsPerToken},
            std::span<const int32_t>(experts));
}

void writeGreedy(SafetensorsWriter &out, const std::string &name, std::span<const int32_t> ids) {
  out.add("greedy." + name, Dtype::I32, {int64_t(ids.size())}, ids);
}

} // namespace m3c
