// Which blocks a sparse layer chooses where the answer is known without a reference: of equal
// scores the lowest ids, blocks whose scores are not numbers last, the newest always. Caches hold
// the same page in every block, so that their scores tie, with NaN codes as index keys of some;
// unused bytes are NaN codes, too.
//
//   choices_over_plan PLAN WEIGHTS [DEVICE]
//
// For models without first blocks and with one local block (sparse_init_block 0, sparse_local_block
// 1).
#include "runtime/base/Error.h"
#include "runtime/plan/List.h"
#include "runtime/schedule/Session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

using namespace m3c;

namespace {

constexpr uint64_t blockTokens = 128, mostTokens = 2600;
using Blocks = std::set<uint64_t>;

/// One sequence: tokens in the cache, and blocks whose index keys are NaN.
struct Scene {
  uint64_t length;
  Blocks nans;
};

class Choices {
public:
  explicit Choices(const Engine &engine)
      : engine(engine), chosen(engine.tables().model()->topk_blocks()) {
    page.resize(engine.tables().cache()->page_bytes());
    uint32_t state = 1;
    for (std::byte &byte : page) // finite and of moderate size in every format
      byte = std::byte(0x20 | ((state = state * 1664525 + 1013904223) >> 27));
  }

  /// Throws Error for a choice that is not the expected one. `rows`: new tokens of each sequence.
  void check(const std::vector<Scene> &scenes, uint32_t rows) {
    Session session(engine, {.pages = scenes.size() * (mostTokens / blockTokens + 1),
                             .maxSequences = uint32_t(scenes.size()),
                             .chunk = 16,
                             .shuffleSeed = 3,
                             .poison = true});
    std::vector<int32_t> tokens(rows);
    for (uint32_t i = 0; i < rows; ++i)
      tokens[i] = int32_t(7 * i + 1) % int32_t(engine.tables().model()->vocab());
    std::vector<Append> appends;
    for (const Scene &scene : scenes) {
      appends.push_back({session.create(), tokens, Want::Last});
      session.extendWith(appends.back().sequence, scene.length,
                         [&](uint64_t block, std::span<std::byte> bytes) {
                           std::ranges::copy(page, bytes.begin());
                           if (scene.nans.contains(block))
                             spoil(bytes);
                         });
    }
    session.run(appends, nullptr, [&](const TraceRow &row) {
      if (row.kind == plan::TapKind::Blocks)
        checkRow(row, scenes[row.append]);
    });
  }

  uint64_t rowsChecked() const { return checked; }

private:
  /// Index keys of every sparse layer.
  void spoil(std::span<std::byte> bytes) const {
    const plan::Cache &cache = *engine.tables().cache();
    for (const plan::CacheLayer *layer : plan::list(cache.layers()))
      if (layer->index_offset() >= 0)
        std::ranges::fill(bytes.subspan(uint64_t(layer->index_offset()), cache.slot_bytes()),
                          std::byte(0xff));
  }

  void checkRow(const TraceRow &row, const Scene &scene) {
    uint64_t own = (scene.length + row.token) / blockTokens;
    if (own != scene.length / blockTokens)
      return; // the block before has keys of this step, whose scores are not known
    std::vector<int32_t> expected = expectedBlocks(own, scene.nans);
    uint32_t heads = engine.tables().model()->kv_heads();
    for (uint32_t head = 0; head < heads; ++head) {
      std::vector<int32_t> got(chosen);
      std::memcpy(got.data(), row.bytes.data() + head * chosen * 4, chosen * 4);
      if (got != expected)
        throw Error(fmt::format("blocks {} were chosen, {} expected", fmt::join(got, " "),
                                fmt::join(expected, " ")),
                    fmt::format("layer {}, sequence {} of {} tokens, row {}, head {}", row.layer,
                                row.append, scene.length, row.token, head),
                    fmt::format("index keys of blocks {} are NaN", fmt::join(scene.nans, " ")));
    }
    ++checked;
  }

  /// Ascending, padded with -1.
  std::vector<int32_t> expectedBlocks(uint64_t own, const Blocks &nans) const {
    std::vector<int32_t> blocks = {int32_t(own)};
    for (bool nan : {false, true})
      for (uint64_t block = 0; block < own && blocks.size() < chosen; ++block)
        if (nans.contains(block) == nan)
          blocks.push_back(int32_t(block));
    std::ranges::sort(blocks);
    blocks.resize(chosen, -1);
    return blocks;
  }

  const Engine &engine;
  const size_t chosen;
  std::vector<std::byte> page;
  uint64_t checked = 0;
};

Blocks all() {
  Blocks blocks;
  for (uint64_t block = 0; block <= mostTokens / blockTokens; ++block)
    blocks.insert(block);
  return blocks;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3 || argc > 4) {
    fmt::print(stderr, "usage: choices_over_plan PLAN WEIGHTS [DEVICE]\n");
    return 2;
  }
  try {
    Engine engine(plan::PlanFile::open(argv[1]),
                  hal::DeviceOptions{2, true, argc > 3 ? argv[3] : ""});
    engine.bindWeights(*openWeights(argv[2], engine.tables()));
    Choices choices(engine);
    for (const Blocks &nans : {Blocks{}, Blocks{0, 2, 3},
                               Blocks{0, 1, 2, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15}, all()}) {
      std::vector<Scene> together;
      for (uint64_t length : {0, 1, 127, 128, 129, 512, 2047, 2048, 2049, 2560}) {
        // Where a row's own block has older tokens, their NaN keys do not matter either.
        together.push_back({length, nans});
        for (uint32_t rows : {1, 16})
          choices.check({together.back()}, rows);
      }
      choices.check(together, 1);
      choices.check(together, 3);
    }
    fmt::print("{}: {} rows of sparse layers chose the blocks that they should\n",
               engine.device().info().name, choices.rowsChecked());
  } catch (const Error &error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
