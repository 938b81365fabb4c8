// Scoring with the interpreter: independence of the chunk, the output file, and what bad input
// leads to. The values themselves are judged by tests/e2e/interpret.
#include "compiler/interpreter/Score.h"
#include "models/minimax_m3/GraphBuilder.h"
#include "runtime/base/Error.h"
#include "runtime/checkpoint/Safetensors.h"

#include "gtest/gtest.h"
#include <cstring>
#include <filesystem>

using namespace m3c;
using namespace m3c::interpreter;

namespace {

struct Score : testing::Test {
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  ImportedModel model = importModel(M3C_TEST_DATA "/m3-tiny-nvfp4");
  mlir::OwningOpRef<mlir::ModuleOp> module = buildGraph(
      context, model.config, model.weights, {m3::CacheStorage::NVFP4, m3::CacheGrid::E4M3});
  CheckpointWeights weights{*model.checkpoint};
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) /
                                 testing::UnitTest::GetInstance()->current_test_info()->name();

  Score() { std::filesystem::create_directories(folder); }
  ~Score() override { std::filesystem::remove_all(folder); }

  Scorer scorer(int64_t chunk, unsigned threads = 1) {
    return Scorer(*module, model.config, weights, threads, chunk);
  }

  /// 300 ids: 3 blocks of which 2 are chosen.
  std::vector<int32_t> ids(int64_t count = 300) {
    std::vector<int32_t> result;
    for (int64_t i = 0; i < count; ++i)
      result.push_back(int32_t((i * i * 31 + i * 7 + 3) % model.config.vocab));
    return result;
  }

  /// Runs scoreFile on one I32 tensor and returns the message of its error.
  std::string errorOf(const std::string &name, const std::vector<int32_t> &values,
                      int64_t maxTokens = 4) {
    SafetensorsWriter writer;
    writer.add(name, Dtype::I32, {int64_t(values.size())}, std::span<const int32_t>(values));
    std::string input = folder / "in.safetensors", output = folder / "out.safetensors";
    writer.write(input);
    Scorer s = scorer(64);
    try {
      scoreFile(s, model.config, input, output, {maxTokens}, [](size_t, size_t, auto &) {});
    } catch (const Error &error) {
      EXPECT_FALSE(std::filesystem::exists(output)) << "partial output";
      return error.what();
    }
    return "";
  }
};

TEST_F(Score, chunkAndThreadsDoNotMatter) {
  SequenceScore whole = scorer(512).score(ids());
  EXPECT_EQ(whole.lastLogits.size(), size_t(model.config.vocab));
  EXPECT_EQ(whole.nextLogprob.size(), 299u);
  for (auto [chunk, threads] : {std::pair<int64_t, unsigned>{1, 1}, {7, 2}, {128, 3}}) {
    SequenceScore other = scorer(chunk, threads).score(ids());
    EXPECT_EQ(whole.lastLogits, other.lastLogits) << chunk;
    EXPECT_EQ(whole.nextLogprob, other.nextLogprob) << chunk;
    EXPECT_EQ(whole.argmax, other.argmax) << chunk;
    EXPECT_EQ(whole.blocks, other.blocks) << chunk;
    EXPECT_EQ(whole.experts, other.experts) << chunk;
  }
}

TEST_F(Score, greedyFollowsTheArgmaxOfScoring) {
  std::vector<int32_t> text = ids(20), tokens = scorer(16).greedy(text, 5);
  ASSERT_EQ(tokens.size(), 5u);
  text.insert(text.end(), tokens.begin(), tokens.end());
  SequenceScore score = scorer(64).score(text);
  for (size_t i = 0; i < tokens.size(); ++i)
    EXPECT_EQ(score.argmax[19 + i], tokens[i]);
  EXPECT_TRUE(scorer(16).greedy(ids(3), 0).empty());
}

TEST_F(Score, tracesListChosenBlocksAndExperts) {
  SequenceScore score = scorer(100).score(ids());
  int64_t each = model.config.kvHeads * model.config.topkBlocks;
  ASSERT_EQ(int64_t(score.blocks.size()), model.config.layers * each);
  for (int64_t i = 0; i < 2 * each; ++i) // layers 0 and 1 attend to everything
    EXPECT_EQ(score.blocks[size_t(i)], -1);
  for (int64_t list = 2 * model.config.kvHeads; list < 4 * model.config.kvHeads; ++list) {
    const int32_t *blocks = &score.blocks[size_t(list * model.config.topkBlocks)];
    EXPECT_EQ(blocks[1], 2); // the newest
    EXPECT_TRUE(blocks[0] == 0 || blocks[0] == 1);
  }
  EXPECT_EQ(int64_t(score.experts.size()), 2 * 300 * model.config.expertsPerToken);
}

TEST_F(Score, fileHasEveryTensorOfTheSequenceAndIgnoresOthers) {
  SafetensorsWriter writer;
  std::vector<int32_t> one = {5}, some = ids(9);
  std::vector<float> other = {1, 2};
  writer.add("ids.one", Dtype::I32, {1}, std::span<const int32_t>(one));
  writer.add("prompt.a.b", Dtype::I32, {9}, std::span<const int32_t>(some));
  writer.add("something", Dtype::F32, {2}, std::span<const float>(other));
  std::string input = folder / "in.safetensors", output = folder / "out.safetensors";
  writer.write(input);
  Scorer s = scorer(4);
  ScoreOptions options{3, true, true};
  scoreFile(s, model.config, input, output, options, [](size_t, size_t, auto &) {});
  SafetensorsFile file = SafetensorsFile::open(output);
  auto shapeOf = [&](const char *name) {
    const TensorEntry *entry = file.find(name);
    return entry ? entry->shape : std::vector<int64_t>{-1};
  };
  EXPECT_EQ(file.tensors().size(), 6u);
  EXPECT_EQ(shapeOf("last_logits.one"), (std::vector<int64_t>{model.config.vocab}));
  EXPECT_EQ(shapeOf("next_logprob.one"), (std::vector<int64_t>{0}));
  EXPECT_EQ(shapeOf("argmax.one"), (std::vector<int64_t>{1}));
  EXPECT_EQ(shapeOf("blocks.one"),
            (std::vector<int64_t>{4, model.config.kvHeads, model.config.topkBlocks}));
  EXPECT_EQ(shapeOf("experts.one"), (std::vector<int64_t>{2, 1, model.config.expertsPerToken}));
  EXPECT_EQ(shapeOf("greedy.a.b"), (std::vector<int64_t>{3}));
}

TEST_F(Score, badInputIsNamed) {
  std::string message = errorOf("ids.x", {1, 2, int32_t(model.config.vocab)});
  EXPECT_NE(message.find("ids.x"), std::string::npos) << message;
  EXPECT_NE(message.find("element 2"), std::string::npos) << message;
  EXPECT_NE(errorOf("prompt.x", {1, -1}).find("found -1"), std::string::npos);
  EXPECT_NE(errorOf("ids.x", {}).find("no tokens"), std::string::npos);
  model.config.maxPositions = 10;
  EXPECT_NE(errorOf("ids.x", ids(11)).find("the longest that fits is 10"), std::string::npos);
  EXPECT_NE(errorOf("prompt.x", ids(8), 4).find("the longest that fits is 10"), std::string::npos);
  EXPECT_EQ(errorOf("prompt.x", ids(7), 4), "");
}

TEST_F(Score, idsOfAnotherTypeAreRefused) {
  SafetensorsWriter writer;
  std::vector<float> values = {1, 2};
  writer.add("ids.x", Dtype::F32, {2}, std::span<const float>(values));
  writer.write(folder / "in.safetensors");
  Scorer s = scorer(4);
  EXPECT_THROW(scoreFile(s, model.config, folder / "in.safetensors", folder / "out.safetensors", {},
                         [](size_t, size_t, auto &) {}),
               Error);
}

TEST_F(Score, weightsAreReadAgainAfterTheBudgetIsSpent) {
  CheckpointWeights few(*model.checkpoint, 1);
  Scorer tight(*module, model.config, few, 1, 64);
  EXPECT_EQ(tight.score(ids(10)).lastLogits, scorer(64).score(ids(10)).lastLogits);
}

} // namespace
