#include "runtime/checkpoint/ValueCheck.h"

#include "runtime/base/Formats.h"
#include "tests/unit/base/TempFolder.h"

#include <cmath>
#include <limits>

using namespace m3c;
using test::expectError;

namespace {

template <typename T>
std::optional<uint64_t> find(ValueRule rule, Dtype dtype, const std::vector<T> &values) {
  return findBadValue(rule, dtype, std::as_bytes(std::span(values)));
}

} // namespace

TEST(ValueCheck, RuleFollowsFromNameAndType) {
  EXPECT_EQ(valueRule("l.q_proj.weight", Dtype::F8E4M3), ValueRule::Finite);
  EXPECT_EQ(valueRule("l.q_proj.weight", Dtype::Bf16), ValueRule::Finite);
  EXPECT_EQ(valueRule("l.q_proj.weight_scale_inv", Dtype::U8), ValueRule::Exponent);
  EXPECT_EQ(valueRule("l.q_proj.weight_scale", Dtype::U8), ValueRule::Exponent);
  EXPECT_EQ(valueRule("e.w1.weight_scale", Dtype::F8E4M3), ValueRule::BlockScale);
  EXPECT_EQ(valueRule("e.w1.weight_scale_2", Dtype::F32), ValueRule::TensorScale);
  EXPECT_EQ(valueRule("e.w1.weight_global_scale", Dtype::F32), ValueRule::TensorScale);
  EXPECT_EQ(valueRule("e.w1.input_scale", Dtype::F32), ValueRule::TensorScale);
  EXPECT_EQ(valueRule("e.w1.weight", Dtype::U8), ValueRule::None);
  EXPECT_EQ(valueRule("e.w1.weight_packed", Dtype::U8), ValueRule::None);
  EXPECT_EQ(valueRule("moe.e_score_correction_bias", Dtype::F32), ValueRule::Finite);
}

// Every byte code against the definition of the format.
TEST(ValueCheck, EveryE4m3Code) {
  for (int code = 0; code < 256; ++code) {
    float value = formats::e4m3ToFloat(uint8_t(code));
    std::vector<uint8_t> one{uint8_t(code)};
    EXPECT_EQ(find(ValueRule::Finite, Dtype::F8E4M3, one).has_value(), std::isnan(value)) << code;
    EXPECT_EQ(find(ValueRule::BlockScale, Dtype::F8E4M3, one).has_value(), !(value > 0)) << code;
    EXPECT_EQ(find(ValueRule::Exponent, Dtype::U8, one).has_value(),
              !(formats::e8m0ToDouble(uint8_t(code)) < 256))
        << code;
    EXPECT_FALSE(find(ValueRule::None, Dtype::U8, one).has_value());
  }
}

TEST(ValueCheck, EveryBf16Code) {
  for (uint32_t code = 0; code < 65536; ++code) {
    std::vector<uint16_t> one{uint16_t(code)};
    ASSERT_EQ(find(ValueRule::Finite, Dtype::Bf16, one).has_value(),
              !std::isfinite(formats::bf16ToFloat(uint16_t(code))))
        << code;
  }
}

TEST(ValueCheck, SingleNumbers) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  for (float value : {inf, -inf, nan, -nan}) {
    EXPECT_TRUE(find(ValueRule::Finite, Dtype::F32, std::vector{value}));
    EXPECT_TRUE(find(ValueRule::TensorScale, Dtype::F32, std::vector{value}));
  }
  for (float value : {0.0f, -0.0f, -1.0f, -tiny, -huge}) {
    EXPECT_FALSE(find(ValueRule::Finite, Dtype::F32, std::vector{value}));
    EXPECT_TRUE(find(ValueRule::TensorScale, Dtype::F32, std::vector{value}));
  }
  for (float value : {tiny, 1.0f, huge})
    EXPECT_FALSE(find(ValueRule::TensorScale, Dtype::F32, std::vector{value}));
  // F16: infinity, NaN, the largest number, zero.
  for (uint16_t bits : {0x7c00, 0xfc00, 0x7e00})
    EXPECT_TRUE(find(ValueRule::Finite, Dtype::F16, std::vector{bits}));
  for (uint16_t bits : {0x7bff, 0x0000, 0x8000})
    EXPECT_FALSE(find(ValueRule::Finite, Dtype::F16, std::vector{bits}));
}

// The scan works by pieces of 4096 elements; the place must be right across their borders.
TEST(ValueCheck, FindsTheFirstBadElementAnywhere) {
  for (size_t at : {0u, 1u, 4095u, 4096u, 4097u, 9999u}) {
    std::vector<uint16_t> values(10000, 0x3f80);
    values[at] = 0x7fc0;
    values[9999] = 0x7fc0;
    EXPECT_EQ(find(ValueRule::Finite, Dtype::Bf16, values), at);
  }
  EXPECT_FALSE(find(ValueRule::Finite, Dtype::Bf16, std::vector<uint16_t>()));
}

TEST(ValueCheck, WorksOnUnalignedBytes) {
  std::vector<uint8_t> raw(4 * 5 + 1, 0);
  raw[1 + 4 * 3 + 3] = 0x7f; // bytes 2 and 3 of element 3: 0x7f80 = infinity
  raw[1 + 4 * 3 + 2] = 0x80;
  EXPECT_EQ(findBadValue(ValueRule::Finite, Dtype::F32, std::as_bytes(std::span(raw)).subspan(1)),
            3u);
}

TEST(ValueCheck, ReadsAWholeCheckpointAndNamesTheElement) {
  test::TempFolder folder;
  // Longer than one piece that is read at once (4 MiB), with the fault in the second.
  std::vector<uint8_t> codes(5 << 20, 0x38);
  codes[(4 << 20) + 77] = 0xff;
  std::vector<uint16_t> good(100, 0x3f80);
  SafetensorsWriter writer;
  writer.add("a.weight", Dtype::Bf16, {100}, std::span<const uint16_t>(good));
  writer.add("b.weight", Dtype::F8E4M3, {5, 1 << 20}, std::span<const uint8_t>(codes));
  writer.write(folder.path("model.safetensors"));
  Checkpoint checkpoint = Checkpoint::open(folder.path());
  expectError([&] { checkAllValues(checkpoint, [](uint64_t, uint64_t, const std::string &) {}); },
              {"model.safetensors", "tensor b.weight", "element 4194381", "0xff", "finite"});
}

TEST(ValueCheck, ProgressReachesTheTotal) {
  uint64_t done = 0, total = 0;
  checkAllValues(Checkpoint::open(M3C_TEST_DATA "/m3-tiny-nvfp4"),
                 [&](uint64_t d, uint64_t t, const std::string &shard) {
                   EXPECT_TRUE(shard.ends_with(".safetensors"));
                   EXPECT_GE(d, done);
                   done = d;
                   total = t;
                 });
  EXPECT_EQ(done, total);
  EXPECT_GT(total, 1'000'000u);
}
