#include "compiler/interpreter/Score.h"

#include "runtime/base/Error.h"
#include "runtime/checkpoint/Safetensors.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

namespace m3c::interpreter {

struct Scorer::Sequence {
  explicit Sequence(const CacheShape &shape) : cache(shape) {}
  PagedCache cache;
  std::vector<int32_t> pages;
  int64_t length = 0; ///< tokens that the cache holds
};

Scorer::Scorer(mlir::ModuleOp module, const ModelConfig &config, WeightSource &weights,
               unsigned threads, int64_t chunk)
    : function(module.lookupSymbol<mlir::func::FuncOp>("step")), config(config),
      interpreter(weights, threads), chunk(chunk) {
  shape = cacheShape(mlir::cast<m3::CacheType>(function.getArgument(1).getType()));
}

void Scorer::check(const std::vector<int32_t> &ids, int64_t length) const {
  if (ids.empty())
    throw Error("a sequence has no tokens", "", "", "give at least one token id");
  if (length > config.maxPositions)
    throw Error("a sequence is longer than the model's context", "",
                fmt::format("{} tokens with its continuation; the longest that fits is {}", length,
                            config.maxPositions));
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= config.vocab)
      throw Error("token id is out of range", fmt::format("element {}", i),
                  fmt::format("found {}, the vocabulary has {} tokens", ids[i], config.vocab));
}

Tensor Scorer::step(Sequence &sequence, std::span<const int32_t> ids, bool allLogits) {
  Batch batch;
  for (size_t i = 0; i < ids.size(); ++i) {
    batch.tokenIds.push_back(ids[i]);
    batch.positions.push_back(int32_t(sequence.length + int64_t(i)));
    batch.sequenceOfRow.push_back(0);
    if (allLogits || i + 1 == ids.size())
      batch.logitRows.push_back(int32_t(i));
  }
  sequence.length += int64_t(ids.size());
  while (int64_t(sequence.pages.size()) < batch.blocks()) // physical ids differ from logical ones
    sequence.pages.push_back(int32_t(sequence.pages.size()) * 7 + 3);
  batch.pageTable = {sequence.pages};
  std::vector<Value> results = interpreter.run(function, {Value(&batch), Value(&sequence.cache)});
  return *std::get<std::shared_ptr<const Tensor>>(results[0]);
}

namespace {

/// log softmax(row)[id].
double logProbability(const double *row, int64_t width, int32_t id) {
  double largest = *std::max_element(row, row + width), total = 0;
  for (int64_t i = 0; i < width; ++i)
    total += std::exp(row[i] - largest);
  return row[id] - largest - std::log(total);
}

/// Collects the choices of one sequence over its chunks.
struct Trace {
  explicit Trace(const ModelConfig &config)
      : config(config), blocks(size_t(config.layers * config.kvHeads * config.topkBlocks), -1),
        experts(size_t(std::count(config.moeLayer.begin(), config.moeLayer.end(), true))) {}

  Observer observer() {
    next = 0;
    return {[this](int64_t layer, const Tensor &chosen) {
              int64_t each = chosen.width();
              std::copy_n(chosen.ids.end() - each, each, blocks.begin() + layer * each);
            },
            [this](const Tensor &ids) {
              std::vector<int32_t> &all = experts[next++ % experts.size()];
              all.insert(all.end(), ids.ids.begin(), ids.ids.end());
            }};
  }

  const ModelConfig &config;
  std::vector<int32_t> blocks;
  std::vector<std::vector<int32_t>> experts; ///< [MoE layers][T · top-k]
  size_t next = 0;
};

void addRows(SequenceScore &score, const Tensor &logits, const std::vector<int32_t> &ids,
             size_t begin) {
  Tensor best = argmax(logits);
  score.argmax.insert(score.argmax.end(), best.ids.begin(), best.ids.end());
  for (int64_t r = 0; r < logits.rows(); ++r) {
    size_t next = begin + size_t(r) + 1;
    if (next < ids.size())
      score.nextLogprob.push_back(float(logProbability(logits.row(r), logits.width(), ids[next])));
  }
}

std::vector<int32_t> readIds(const SafetensorsFile &file, const TensorEntry &entry) {
  if (entry.shape.size() != 1 || (entry.dtype != Dtype::I32 && entry.dtype != Dtype::I64))
    throw Error("token ids are a vector of I32 or I64", "tensor " + entry.name,
                fmt::format("found {} {}", dtypeName(entry.dtype), shapeText(entry.shape)));
  std::span<const std::byte> bytes = file.data(entry);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < entry.shape[0]; ++i) {
    int64_t id = 0;
    size_t size = entry.dtype == Dtype::I32 ? 4 : 8;
    std::memcpy(&id, bytes.data() + size_t(i) * size, size);
    if (size == 4)
      id = int32_t(id);
    if (id != int32_t(id))
      throw Error("token id is out of range", fmt::format("tensor {}, element {}", entry.name, i),
                  fmt::format("found {}", id));
    ids.push_back(int32_t(id));
  }
  return ids;
}

template <typename T>
void add(SafetensorsWriter &writer, const std::string &name, std::vector<int64_t> shape,
         const std::vector<T> &values) {
  writer.add(name, std::is_same_v<T, float> ? Dtype::F32 : Dtype::I32, std::move(shape),
             std::span<const T>(values));
}

void addScore(SafetensorsWriter &writer, const std::string &name, const SequenceScore &score,
              const ModelConfig &config, const ScoreOptions &options) {
  int64_t length = int64_t(score.argmax.size());
  add(writer, "last_logits." + name, {config.vocab}, score.lastLogits);
  add(writer, "next_logprob." + name, {length - 1}, score.nextLogprob);
  add(writer, "argmax." + name, {length}, score.argmax);
  if (options.traceBlocks)
    add(writer, "blocks." + name, {config.layers, config.kvHeads, config.topkBlocks}, score.blocks);
  if (options.traceExperts)
    add(writer, "experts." + name,
        {int64_t(score.experts.size()) / (length * std::max<int64_t>(1, config.expertsPerToken)),
         length, config.expertsPerToken},
        score.experts);
}

} // namespace

SequenceScore Scorer::score(const std::vector<int32_t> &ids) {
  check(ids, int64_t(ids.size()));
  Sequence sequence(shape);
  SequenceScore result;
  Trace trace(config);
  interpreter.observer = trace.observer();
  for (size_t begin = 0; begin < ids.size(); begin += size_t(chunk)) {
    size_t count = std::min(size_t(chunk), ids.size() - begin);
    Tensor logits = step(sequence, std::span(ids).subspan(begin, count), true);
    addRows(result, logits, ids, begin);
    result.lastLogits.assign(logits.reals.end() - logits.width(), logits.reals.end());
  }
  interpreter.observer = {};
  result.blocks = std::move(trace.blocks);
  for (const std::vector<int32_t> &layer : trace.experts)
    result.experts.insert(result.experts.end(), layer.begin(), layer.end());
  return result;
}

std::vector<int32_t> Scorer::greedy(const std::vector<int32_t> &prompt, int64_t steps) {
  check(prompt, int64_t(prompt.size()) + std::max<int64_t>(0, steps - 1));
  Sequence sequence(shape);
  std::vector<int32_t> tokens;
  Tensor logits;
  for (size_t begin = 0; begin < prompt.size(); begin += size_t(chunk))
    logits = step(sequence,
                  std::span(prompt).subspan(begin, std::min(size_t(chunk), prompt.size() - begin)),
                  false);
  while (int64_t(tokens.size()) < steps) {
    tokens.push_back(argmax(logits).ids[0]);
    if (int64_t(tokens.size()) < steps)
      logits = step(sequence, std::span(tokens).last(1), false);
  }
  return tokens;
}

ScoreCounts
scoreFile(Scorer &scorer, const ModelConfig &config, const std::string &input,
          const std::string &output, const ScoreOptions &options,
          const std::function<void(size_t done, size_t total, const std::string &)> &progress) {
  SafetensorsFile file = SafetensorsFile::open(input);
  ScoreCounts counts;
  for (const TensorEntry &entry : file.tensors()) {
    counts.texts += entry.name.starts_with("ids.");
    counts.prompts += entry.name.starts_with("prompt.");
  }
  if (counts.texts + counts.prompts == 0)
    throw Error(fmt::format("{} has nothing to score", input), input,
                "there is no tensor ids.X or prompt.N");
  SafetensorsWriter writer;
  size_t done = 0;
  for (const TensorEntry &entry : file.tensors()) {
    progress(done++, file.tensors().size(), entry.name);
    try {
      if (entry.name.starts_with("ids."))
        addScore(writer, entry.name.substr(4), scorer.score(readIds(file, entry)), config, options);
      else if (entry.name.starts_with("prompt."))
        add(writer, "greedy." + entry.name.substr(7), {options.maxTokens},
            scorer.greedy(readIds(file, entry), options.maxTokens));
    } catch (const Error &error) {
      throw Error(error.summary(),
                  fmt::format("{}: {}", input, entry.name) +
                      (error.where().empty() ? "" : ", " + error.where()),
                  error.why(), error.next(), error.code());
    }
  }
  writer.write(output);
  return counts;
}

} // namespace m3c::interpreter
