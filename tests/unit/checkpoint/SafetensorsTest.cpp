#include "runtime/checkpoint/Safetensors.h"

#include "tests/unit/base/TempFolder.h"

#include <cstring>

using namespace m3c;
using test::expectError;

namespace {

/// A file of this header and `dataBytes` zero bytes.
std::string fileOf(std::string_view header, size_t dataBytes) {
  uint64_t length = header.size();
  std::string out(reinterpret_cast<const char *>(&length), 8);
  return out + std::string(header) + std::string(dataBytes, '\0');
}

SafetensorsHeader parse(const std::string &file) {
  return parseSafetensors(std::as_bytes(std::span(file)), "s.safetensors");
}

std::string tensor(const char *name, const char *dtype, const char *shape, const char *offsets) {
  return std::string("\"") + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape +
         R"(,"data_offsets":)" + offsets + "}";
}

/// Refused with every one of `parts` in the message; the file's name always is.
void refused(const std::string &header, size_t dataBytes,
             std::initializer_list<const char *> parts) {
  std::string file = fileOf(header, dataBytes);
  expectError([&] { parse(file); }, {"s.safetensors"});
  expectError([&] { parse(file); }, parts);
}

} // namespace

TEST(Safetensors, ReadsTensorsByOffset) {
  SafetensorsHeader header = parse(fileOf(
      "{" + tensor("b", "F32", "[2,3]", "[2,26]") + "," + tensor("a", "BF16", "[]", "[0,2]") + "," +
          tensor("e", "I64", "[0,7]", "[26,26]") + R"(,"__metadata__":{"format":"pt"}})",
      26));
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_TRUE(header.tensors[0].shape.empty());
  EXPECT_EQ(header.tensors[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header.tensors[1].byteCount(), 24u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(Safetensors, AcceptsAnEmptyFileOfTensors) {
  EXPECT_TRUE(parse(fileOf("{}", 0)).tensors.empty());
}

TEST(Safetensors, RefusesAHeaderThatDoesNotFit) {
  expectError([] { parse(""); }, {"empty (0 bytes)"});
  expectError([] { parse("1234567"); }, {"7 bytes"});
  std::string file = fileOf("{}", 0);
  for (uint64_t length : {uint64_t(3), uint64_t(INT64_MAX), UINT64_MAX, UINT64_MAX - 7}) {
    std::memcpy(file.data(), &length, 8);
    expectError([&] { parse(file); }, {"header length is", "only 10 bytes"});
  }
}

TEST(Safetensors, RefusesAHeaderBeyondTheFormatsLimit) {
  std::string file = fileOf(std::string(maxSafetensorsHeader + 1, ' '), 0);
  expectError([&] { parse(file); }, {"largest allowed"});
}

TEST(Safetensors, RefusesAHeaderThatIsNoObject) {
  refused("[]", 0, {"\"{\""});
  refused(" {}", 0, {"\"{\""});
  refused("{\"a\": 1}", 0, {"tensor a", "an object"});
  refused("{,}", 0, {"byte 9"});
  refused(R"({"__metadata__": []})", 0, {"__metadata__"});
  refused(R"({"__metadata__": {"a": 1}})", 0, {"__metadata__", "an integer"});
}

TEST(Safetensors, RefusesWrongOffsets) {
  refused("{" + tensor("a", "U8", "[4]", "[4,0]") + "}", 4, {"tensor a", "begin after end"});
  refused("{" + tensor("a", "U8", "[4]", "[-4,0]") + "}", 4, {"tensor a", "negative"});
  refused("{" + tensor("a", "U8", "[4]", "[0,5]") + "}", 4, {"tensor a", "beyond the 4 bytes"});
  refused("{" + tensor("a", "U8", "[4]", "[0,4.0]") + "}", 4, {"two integers"});
  refused("{" + tensor("a", "U8", "[4]", "[0]") + "}", 4, {"two integers"});
  refused("{" + tensor("a", "U8", "[3]", "[0,4]") + "}", 4, {"needs 3 bytes", "give 4"});
}

TEST(Safetensors, RefusesOverlapHoleAndTail) {
  refused("{" + tensor("a", "U8", "[4]", "[0,4]") + "," + tensor("b", "U8", "[4]", "[2,6]") + "}",
          6, {"tensor b", "overlap tensor a"});
  refused("{" + tensor("a", "U8", "[4]", "[0,4]") + "," + tensor("b", "U8", "[4]", "[0,4]") + "}",
          4, {"tensor b", "overlap tensor a"});
  refused("{" + tensor("a", "U8", "[4]", "[0,4]") + "," + tensor("b", "U8", "[1]", "[5,6]") + "}",
          6, {"tensor b", "hole"});
  refused("{" + tensor("a", "U8", "[4]", "[1,5]") + "}", 5, {"tensor a", "hole"});
  refused("{" + tensor("a", "U8", "[4]", "[0,4]") + "}", 5, {"1 bytes at the end"});
}

TEST(Safetensors, RefusesWrongShapes) {
  refused("{" + tensor("a", "U8", "[-1]", "[0,0]") + "}", 0, {"negative dimension"});
  refused("{" + tensor("a", "U8", "[1.5]", "[0,0]") + "}", 0, {"1.5 is not an integer"});
  refused("{" + tensor("a", "U8", "4", "[0,0]") + "}", 0, {"a list of integers"});
  // Products that wrap 64 bits to the 0 bytes given; a zero dimension does not excuse them.
  for (const char *shape : {"[4294967296,4294967296]", "[9223372036854775808,2]",
                            "[4611686018427387904,4]", "[4294967296,4294967296,0]"})
    refused("{" + tensor("a", "BF16", shape, "[0,0]") + "}", 0, {"tensor a", "overflows"});
}

TEST(Safetensors, RefusesUnknownTypesAndKeys) {
  refused("{" + tensor("a", "F8_E9M9", "[1]", "[0,1]") + "}", 1, {"unknown dtype", "F8_E9M9"});
  refused(R"({"a":{"dtype":3,"shape":[1],"data_offsets":[0,1]}})", 1, {"unknown dtype 3"});
  refused(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, {"shape", "missing"});
  refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0}})", 1, {"\"x\""});
  refused("{" + tensor("a", "U8", "[1]", "[0,1]") + "," + tensor("a", "U8", "[1]", "[0,1]") + "}",
          1, {"duplicate", "\"a\""});
}

TEST(Safetensors, CountsBitsOfNarrowTypes) {
  EXPECT_EQ(tensorBytes(Dtype::F4, {3, 2}), 3u);
  EXPECT_EQ(tensorBytes(Dtype::F4, {3}), std::nullopt);
  EXPECT_EQ(tensorBytes(Dtype::F6E2M3, {4}), 3u);
  EXPECT_EQ(tensorBytes(Dtype::C64, {2}), 16u);
  EXPECT_EQ(parseDtype("F8_E4M3"), Dtype::F8E4M3);
  EXPECT_EQ(parseDtype("f8_e4m3"), std::nullopt);
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  test::TempFolder folder;
  SafetensorsWriter writer;
  std::vector<float> floats{1, 2, 3, 4, 5, 6};
  std::vector<uint8_t> bytes{7, 8, 9};
  writer.add("odd", Dtype::U8, {3}, std::span<const uint8_t>(bytes));
  writer.add("logits.5", Dtype::F32, {2, 3}, std::span<const float>(floats));
  writer.add("none", Dtype::F32, {0}, std::span<const float>());
  writer.write(folder.path("o.safetensors"));

  SafetensorsFile file = SafetensorsFile::open(folder.path("o.safetensors"));
  ASSERT_EQ(file.tensors().size(), 3u);
  const TensorEntry *logits = file.find("logits.5");
  ASSERT_NE(logits, nullptr);
  EXPECT_EQ(logits->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(file.data(*logits).data(), floats.data(), 24), 0);
  EXPECT_EQ(std::memcmp(file.data(*file.find("odd")).data(), bytes.data(), 3), 0);
  EXPECT_EQ(file.find("absent"), nullptr);
  EXPECT_EQ(file.header().dataBegin % 8, 0u);
  EXPECT_EQ(logits->begin, 0u) << "wide elements come first, so that they are aligned";

  // No temporary file stays behind.
  auto entries = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(Safetensors, WriterRefusesWrongSizesAndNamesGivenTwice) {
  SafetensorsWriter writer;
  std::vector<float> floats{1, 2};
  expectError([&] { writer.add("a", Dtype::F32, {3}, std::span<const float>(floats)); },
              {"tensor a", "[3]", "8 bytes"});
  writer.add("a", Dtype::F32, {2}, std::span<const float>(floats));
  expectError([&] { writer.add("a", Dtype::F32, {2}, std::span<const float>(floats)); }, {"twice"});
}

TEST(Safetensors, ReadsAFileOfTheFormatsOwnWriter) {
  SafetensorsFile file =
      SafetensorsFile::open(M3C_TEST_DATA "/m3-tiny/model-00001-of-00002.safetensors");
  const TensorEntry *embedding = file.find("language_model.model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->dtype, Dtype::Bf16);
  EXPECT_EQ(embedding->shape, (std::vector<int64_t>{512, 128}));
}
