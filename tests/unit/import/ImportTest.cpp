#include "compiler/import/Import.h"

#include "tests/unit/import/Model.h"

using namespace m3c;
using nlohmann::json;
using test::expectError;
using test::TempFolder;

TEST(Import, ReadsTheShippedCheckpoints) {
  ImportedModel nano = importModel(M3C_TEST_DATA "/m31-nano", {.strict = true});
  EXPECT_TRUE(nano.findings.warnings.empty());
  EXPECT_EQ(nano.findings.leftOut.at("drafter").tensors, 43);
  EXPECT_EQ(nano.config.projectionEncoding, WeightEncoding::Mxfp8);
  EXPECT_EQ(nano.digests.shards.size(), 2u);
  EXPECT_EQ(nano.digests.tokenizer.size(), 32u);
  for (const char *name : {"/m3-tiny", "/m3-tiny-mxfp8", "/m3-tiny-nvfp4"}) {
    ImportedModel tiny = importModel(std::string(M3C_TEST_DATA) + name, {.strict = true});
    EXPECT_TRUE(tiny.findings.warnings.empty()) << name << ": " << tiny.findings.warnings[0];
    EXPECT_EQ(tiny.weights.size(), 95u);
  }
}

TEST(Import, AFolderWithConfigAloneIsSynthetic) {
  ImportedModel full = importModel(M3C_TEST_DATA "/m31-full", {.strict = true});
  EXPECT_FALSE(full.checkpoint->hasTensors());
  EXPECT_TRUE(full.digests.index.empty());
  EXPECT_TRUE(full.digests.shards.empty());
  EXPECT_TRUE(full.findings.warnings.empty());
  EXPECT_EQ(full.weights.size(), 363u + 114u + 540u + 21888u);
}

TEST(Import, APartOfAModelForMeasuring) {
  ImportedModel part = importModel(M3C_TEST_DATA "/m31-full", {.ranks = 4, .layers = 5});
  EXPECT_EQ(part.config.heads, 16);
  EXPECT_EQ(part.config.kvHeads, 1);
  EXPECT_EQ(part.config.indexHeads, 1);
  EXPECT_EQ(part.config.expertIntermediate, 768);
  EXPECT_EQ(part.config.vocab, 50016);
  EXPECT_EQ(part.config.layers, 5);
  EXPECT_EQ(part.config.eosToken, -1);
  int64_t experts = 0;
  for (const Weight &weight : part.weights) {
    if (weight.shape == std::vector<int64_t>{768, 6144})
      ++experts;
    EXPECT_EQ(weight.symbol.find("layers.5."), std::string::npos) << weight.symbol;
  }
  EXPECT_EQ(experts, 2 * 2 * 129); // gate and up of two layers, the shared expert among them
  expectError([] { importModel(M3C_TEST_DATA "/m31-full", {.ranks = 3}); },
              {"num_attention_heads", "64 is no multiple of 3"});
  expectError([] { importModel(M3C_TEST_DATA "/m31-full", {.layers = 61}); }, {"61", "has 60"});
  expectError([] { importModel(M3C_TEST_DATA "/m31-nano", {.layers = 1}); },
              {"a part of a checkpoint", "config.json alone"});
}

// The library's own way to write the configuration of m3-tiny reads as the same model.
TEST(Import, ReadsWhatTheLibraryWrites) {
  ImportedModel library = importModel(M3C_TEST_DATA "/m3-tiny-library", {.strict = true});
  ImportedModel released = importModel(M3C_TEST_DATA "/m3-tiny", {.strict = true});
  EXPECT_TRUE(library.config == released.config);
  EXPECT_TRUE(library.findings.unknownKeys.empty());
  EXPECT_EQ(library.findings.notes.size(), 1u); // no key for first blocks
}

TEST(Import, DigestsFollowTheInputs) {
  TempFolder folder;
  json config = test::smallConfig();
  test::TensorSpecs specs = test::specsOf(config);
  auto digests = [&] {
    test::writeModel(folder, config, specs);
    return importModel(folder.path()).digests;
  };
  CheckpointDigests first = digests(), again = digests();
  EXPECT_EQ(first.all(), again.all());
  config["text_config"]["rms_norm_eps"] = 1e-5;
  CheckpointDigests otherConfig = digests();
  EXPECT_NE(first.config, otherConfig.config);
  EXPECT_NE(first.all(), otherConfig.all());
  EXPECT_EQ(first.shards[0].header, otherConfig.shards[0].header);
  specs["vision_tower.x"] = {Dtype::Bf16, {2}};
  CheckpointDigests otherHeader = digests();
  EXPECT_NE(otherConfig.shards[0].header, otherHeader.shards[0].header);
  EXPECT_NE(otherConfig.all(), otherHeader.all());
}

TEST(Import, UnknownKeysAndTensorsAreWarnedOfOrRefused) {
  TempFolder folder;
  json config = test::smallConfig();
  test::TensorSpecs specs = test::specsOf(config);
  config["text_config"]["novelty"] = 1;
  test::writeModel(folder, config, specs);
  ImportedModel model = importModel(folder.path());
  // The second warning is of the tokenizer that is not there.
  ASSERT_EQ(model.findings.warnings.size(), 2u);
  EXPECT_NE(model.findings.warnings[1].find("text_config.novelty"), std::string::npos);
  expectError([&] { importModel(folder.path(), {.strict = true}); },
              {"text_config.novelty", "--strict"});
  specs["filler.weight"] = {Dtype::Bf16, {2}};
  test::writeModel(folder, test::smallConfig(), specs);
  EXPECT_EQ(importModel(folder.path()).findings.unknownTensors,
            std::vector<std::string>{"filler.weight"});
  expectError([&] { importModel(folder.path(), {.strict = true}); }, {"filler.weight"});
}

TEST(Import, ABrokenDrafterIsAFault) {
  TempFolder folder;
  json config = test::smallConfig();
  test::writeModel(folder, config, test::specsOf(config));
  folder.write("dspark/model.safetensors", "broken");
  expectError([&] { importModel(folder.path()); }, {"dspark/model.safetensors", "6 bytes"});
}

TEST(Import, ReadsNoTensor) {
  // A checkpoint whose data are a hole in the file of 64 GiB: reading them would take long and the
  // file's pages would count as memory.
  TempFolder folder;
  json config = test::smallConfig();
  test::TensorSpecs specs = test::specsOf(config);
  test::writeModel(folder, config, specs);
  specs.clear();
  uint64_t bytes = uint64_t(64) << 30;
  std::string header = R"({"vision_tower.big":{"dtype":"U8","shape":[)" + std::to_string(bytes) +
                       R"(],"data_offsets":[0,)" + std::to_string(bytes) + "]}}";
  uint64_t length = header.size();
  folder.write("big.safetensors", std::string(reinterpret_cast<const char *>(&length), 8) + header);
  std::filesystem::resize_file(folder.path("big.safetensors"), 8 + length + bytes);
  json map = {{"vision_tower.big", "big.safetensors"}};
  for (const auto &[name, spec] : test::specsOf(config))
    map[name] = "model.safetensors";
  folder.write("model.safetensors.index.json", json{{"weight_map", map}}.dump());
  ImportedModel model = importModel(folder.path());
  EXPECT_EQ(model.findings.leftOut.at("vision").bytes, bytes);
}

TEST(Import, HfQuantConfigMustAgreeWithConfig) {
  TempFolder folder;
  json config = test::smallConfig();
  config["quantization_config"] = json::parse(R"({
    "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": null,
    "quantized_layers": {"layers.0.mlp.up_proj": {"quant_algo": "MXFP8"},
                         "layers.1.experts.0.w1": {"quant_algo": "NVFP4", "group_size": 16}}})");
  test::writeModel(folder, config, test::specsOf(config));
  json quant = config["quantization_config"];
  quant.erase("quant_method");
  auto import = [&](const json &inner) {
    json file = {{"producer", {{"name", "modelopt"}}}, {"quantization", inner}};
    folder.write("hf_quant_config.json", file.dump());
    return importModel(folder.path(), {.strict = true});
  };
  EXPECT_NO_THROW(import(quant));
  auto changed = [&](const char *pointer, json value) {
    json inner = quant;
    inner[json::json_pointer(pointer)] = std::move(value);
    return inner;
  };
  struct Case {
    const char *pointer;
    json value;
    const char *named;
  };
  for (const Case &fault : std::vector<Case>{
           {"/quant_algo", "NVFP4", "quant_algo"},
           {"/quantized_layers/layers.0.mlp.up_proj/quant_algo", "NVFP4", "layers.0.mlp.up_proj"},
           {"/quantized_layers/layers.2.mlp.up_proj", {{"quant_algo", "MXFP8"}}, "layers.2"}}) {
    json inner = changed(fault.pointer, fault.value);
    expectError([&] { import(inner); }, {"hf_quant_config.json", "config.json", fault.named});
  }
  expectError([&] { import(changed("/quant_algo", "FP8")); },
              {"hf_quant_config.json", "quantization.quant_algo", "FP8"});
  expectError([&] { import(json::array()); }, {"hf_quant_config.json", "quantization"});
  folder.write("hf_quant_config.json", "[1");
  expectError([&] { importModel(folder.path()); }, {"hf_quant_config.json"});
}

TEST(Import, HfQuantConfigAloneIsThePromise) {
  TempFolder folder;
  folder.write("config.json", test::smallConfig().dump());
  folder.write("hf_quant_config.json",
               R"({"quantization": {"quant_algo": "NVFP4", "group_size": 16}})");
  ImportedModel model = importModel(folder.path());
  EXPECT_EQ(model.config.expertEncoding, WeightEncoding::Nvfp4);
}

TEST(Import, GenerationDefaultsAreRead) {
  ImportedModel nano = importModel(M3C_TEST_DATA "/m31-nano");
  ASSERT_TRUE(nano.generation);
  EXPECT_EQ(nano.generation->topK, 40u);
  EXPECT_EQ(nano.generation->eosIds, std::vector<int32_t>{4087});
  EXPECT_FALSE(importModel(M3C_TEST_DATA "/m31-full").generation);
}
