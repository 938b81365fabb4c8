// Block scores and block choice against the reference.
#include "tests/numerics/Scene.h"

#include "gtest/gtest.h"
#include <cmath>

using namespace m3c::numerics;
using namespace m3c::interpreter;

namespace {

class IndexTopk : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Chips, IndexTopk, testing::ValuesIn(runnableChips()), [](auto &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(IndexTopk, Lengths) {
  for (int32_t length : {1, 127, 128, 129, 2047, 2048, 2049, 2305}) {
    SceneSpec spec;
    spec.rows = {{0, length - 1}};
    Scene scene(spec);
    KernelProgram &built = program(spec, GetParam(), 1);
    built.run(scene.input());
    Tensor scores = scene.scores(), expected = scene.selection(scores);
    std::span<const int32_t> found = built.buffer<int32_t>("selected_blocks");
    for (size_t i = 0; i < expected.ids.size(); ++i)
      EXPECT_EQ(found[i], expected.ids[i]) << length << " " << i;
  }
}

} // namespace
