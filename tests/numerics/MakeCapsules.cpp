// make_capsules CHIP OUT: capsules of kernels with small shapes; the emulator gives what is
// expected.
#include "tests/numerics/Scene.h"

#include <fmt/format.h>

#include <random>

using namespace m3c::numerics;
using namespace m3c::interpreter;

namespace {

/// Queries of one sequence over a few pages: block scores, choice, attention.
void attention(const std::string &chip, const std::string &out, bool bf16, bool sparse,
               int64_t bucket) {
  SceneSpec spec;
  spec.cache.kvHeads = 2;
  spec.heads = 8;
  spec.k = 2;
  spec.sparse = sparse;
  spec.bf16 = bf16;
  spec.farPage = false;
  spec.rows = bucket == 1 ? chunkOf(0, 700, 1) : chunkOf(0, 250, int32_t(bucket) - 1);
  Scene scene(spec);
  KernelProgram built(Scene::module(spec), chip, bucket);
  StepInput input = scene.input();
  using Element = m3c::CapsuleArgument::Element;
  input.elements = {{"block_scores", Element::F32},
                    {"attention_parts", Element::F32},
                    {"attention", bf16 ? Element::Bf16 : Element::F32}};
  input.capsules =
      fmt::format("{}/{}-{}-{}", out, sparse ? "sparse" : "dense", bf16 ? "bf16" : "f32", bucket);
  built.run(input);
}

/// Bytes that are finite and of moderate size: as BF16 of either sign, or as E4M3 codes and as
/// block scales below one, which read the same bytes here.
std::vector<float> codes(size_t bytes, bool bf16) {
  std::mt19937 random(6);
  std::vector<float> words(bytes / 4);
  auto *to = reinterpret_cast<uint8_t *>(words.data());
  for (size_t i = 0; i < bytes; ++i)
    to[i] = uint8_t(bf16 ? (random() & 0x87) | 0x38 : 0x60 + random() % 31);
  return words;
}

/// Norm and product of BF16 rows with weights of one encoding.
void product(const std::string &chip, const std::string &out, const std::string &encoding,
             int64_t bucket) {
  constexpr int64_t width = 256, outputs = 64, tokens = 64;
  std::string parts = encoding == "mxfp8" ? "[#m3.part<values, \"w\", \"F8_E4M3\", [64, 256]>, "
                                            "#m3.part<block_scale, \"w_scale\", \"U8\", [64, 8]>]"
                                          : "[#m3.part<values, \"w\", \"BF16\", [64, 256]>]";
  std::string text =
      "m3.weight @x : !m3.weight<64x256, f32> {parts = [#m3.part<values, \"x\", \"F32\", [64, "
      "256]>]}\n"
      "m3.weight @g : !m3.weight<256, f32> {parts = [#m3.part<values, \"g\", \"F32\", [256]>]}\n"
      "m3.weight @w : !m3.weight<64x256, " +
      encoding + "> {parts = " + parts + R"(}
func.func @step(%batch: !m3.batch) -> tensor<?x64xbf16> {
  %x = m3.embed %batch, @x : tensor<?x256xbf16>
  %n = m3.norm %x, @g {eps = 1.0e-6} : tensor<?x256xbf16>
  %p = m3.project %n, @w : tensor<?x256xbf16> -> tensor<?x64xbf16>
  return %p : tensor<?x64xbf16>
})";
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  StepInput input{};
  Batch batch;
  for (int32_t r = 0; r < bucket; ++r) {
    batch.tokenIds.push_back(r);
    batch.positions.push_back(r);
    batch.sequenceOfRow.push_back(0);
  }
  batch.pageTable = {{0}};
  input.batch = &batch;
  for (const char *name : {"x", "g"})
    for (int64_t i = 0; i < (name[0] == 'x' ? tokens * width : width); ++i)
      input.weights[name].push_back(normal(random));
  input.weights["w"] =
      codes(size_t(outputs * width * (encoding == "mxfp8" ? 1 : 2)), encoding != "mxfp8");
  input.threads = 2;
  input.elements = {{"normed", m3c::CapsuleArgument::Element::Bf16},
                    {"w", m3c::CapsuleArgument::Element::Bf16}};
  input.capsules = fmt::format("{}/product-{}-{}", out, encoding, bucket);
  KernelProgram(text, chip, bucket).run(input);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: make_capsules CHIP OUT\n");
    return 2;
  }
  std::string chip = argv[1], out = argv[2];
  for (bool bf16 : {false, true})
    for (int64_t bucket : {1, 16}) {
      attention(chip, out, bf16, true, bucket);
      attention(chip, out, bf16, false, bucket);
    }
  for (const char *encoding : {"mxfp8", "bf16"})
    for (int64_t bucket : {8, 64})
      product(chip, out, encoding, bucket);
}
