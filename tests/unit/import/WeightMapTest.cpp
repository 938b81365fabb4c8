#include "models/minimax_m3/WeightMap.h"

#include "tests/unit/import/Model.h"

#include <algorithm>

using namespace m3c;
using nlohmann::json;
using test::expectError;
using test::TempFolder;

namespace {

const char *expert = "language_model.model.layers.1.block_sparse_moe.experts.4.w2";
const char *query = "language_model.model.layers.0.self_attn.q_proj";

ModelConfig parsed(const json &config) {
  Findings findings;
  return parseModelConfig(config.dump(), "config.json", findings);
}

const Weight &find(const std::vector<Weight> &weights, std::string_view symbol) {
  auto found = std::find_if(weights.begin(), weights.end(),
                            [&](const Weight &weight) { return weight.symbol == symbol; });
  if (found == weights.end())
    throw std::runtime_error("no weight " + std::string(symbol));
  return *found;
}

json packedConfig() {
  json config = test::smallConfig();
  config["quantization_config"] = {{"quant_method", "mxfp8"},
                                   {"moe_quant_algo", "NVFP4"},
                                   {"moe_quant_format", "nvfp4-pack-quantized"}};
  return config;
}

class WeightMapTest : public testing::Test {
protected:
  /// Writes a checkpoint of `specs` and maps it.
  std::vector<Weight> map(const test::TensorSpecs &specs) {
    test::writeModel(folder, config, specs);
    checkpoint = std::make_unique<Checkpoint>(Checkpoint::open(folder.path()));
    return buildWeightMap(parsed(config), checkpoint.get(), findings);
  }
  void refused(const test::TensorSpecs &specs, std::initializer_list<const char *> parts) {
    expectError([&] { map(specs); }, parts);
  }

  TempFolder folder;
  json config = packedConfig();
  Findings findings;
  std::unique_ptr<Checkpoint> checkpoint;
};

} // namespace

TEST_F(WeightMapTest, NamesEveryWeightOnce) {
  std::vector<Weight> weights = buildWeightMap(parsed(config), nullptr, findings);
  std::set<std::string> symbols;
  for (const Weight &weight : weights)
    EXPECT_TRUE(symbols.insert(weight.symbol).second) << weight.symbol;
  // embed, norm, head; per layer 2 norms, 4 projections, 2 head norms; 4 more in 2 sparse layers;
  // 2 dense MLPs; one MoE layer with router, bias, 5 experts and a shared one.
  EXPECT_EQ(weights.size(), size_t(3 + 3 * 8 + 2 * 4 + 2 * 3 + 2 + 5 * 3 + 3));
  EXPECT_EQ(weights.front().symbol, "embed");
  EXPECT_EQ(weights.back().symbol, "lm_head");
  EXPECT_EQ(find(weights, "layers.0.q_proj").shape, (std::vector<int64_t>{768, 96}));
  EXPECT_EQ(find(weights, "layers.2.o_proj").shape, (std::vector<int64_t>{96, 768}));
  EXPECT_EQ(find(weights, "layers.2.v_proj").shape, (std::vector<int64_t>{384, 96}));
  EXPECT_EQ(find(weights, "layers.0.index_q_proj").shape, (std::vector<int64_t>{384, 96}));
  EXPECT_EQ(find(weights, "layers.0.index_k_proj").shape, (std::vector<int64_t>{128, 96}));
  EXPECT_FALSE(symbols.contains("layers.1.index_q_proj"));
  EXPECT_EQ(find(weights, "layers.0.mlp.down").shape, (std::vector<int64_t>{96, 160}));
  EXPECT_EQ(find(weights, "layers.1.router").encoding, WeightEncoding::F32);
  EXPECT_EQ(find(weights, "layers.1.router_bias").shape, (std::vector<int64_t>{5}));
  EXPECT_EQ(find(weights, "layers.1.shared.up").shape, (std::vector<int64_t>{32, 96}));
}

// The three experts matrices are w1 = gate, w3 = up, w2 = down (docs/model.md).
TEST_F(WeightMapTest, ExpertMatricesHaveTheirRoles) {
  std::vector<Weight> weights = buildWeightMap(parsed(config), nullptr, findings);
  EXPECT_TRUE(
      find(weights, "layers.1.experts.4.gate").parts[0].name.ends_with("4.w1.weight_packed"));
  EXPECT_TRUE(find(weights, "layers.1.experts.4.up").parts[0].name.ends_with("4.w3.weight_packed"));
  const Weight &down = find(weights, "layers.1.experts.4.down");
  EXPECT_EQ(down.parts[0].name, std::string(expert) + ".weight_packed");
  EXPECT_EQ(down.shape, (std::vector<int64_t>{96, 64}));
  EXPECT_EQ(down.parts[0].shape, (std::vector<int64_t>{96, 32}));
  EXPECT_EQ(down.parts[1].shape, (std::vector<int64_t>{96, 4}));
}

TEST_F(WeightMapTest, CountsTheTensorsOfThePublishedModel) {
  // The released index: 89,632 tensors, 523 of them vision.
  std::ifstream file(M3C_TEST_DATA "/m31-full/config.json");
  EXPECT_EQ(test::specsOf(json::parse(file)).size() + 523, 89632u);
}

TEST_F(WeightMapTest, ReadsPackedExpertsWithOrWithoutInputScale) {
  test::TensorSpecs specs = test::specsOf(config);
  specs.erase("language_model.model.layers.1.block_sparse_moe.experts.4.w3.input_global_scale");
  const std::vector<Weight> weights = map(specs);
  const Weight &down = find(weights, "layers.1.experts.4.down");
  EXPECT_EQ(down.encoding, WeightEncoding::Nvfp4Packed);
  ASSERT_EQ(down.parts.size(), 4u);
  EXPECT_EQ(down.parts[2].role, WeightPart::Role::GlobalScale);
  EXPECT_EQ(down.parts[2].name, std::string(expert) + ".weight_global_scale");
  EXPECT_EQ(down.parts[3].role, WeightPart::Role::InputScale);
  EXPECT_EQ(find(weights, "layers.1.experts.4.up").parts.size(), 3u);
  EXPECT_TRUE(findings.warnings.empty());
  EXPECT_TRUE(findings.unknownTensors.empty());
}

TEST_F(WeightMapTest, ReadsModeloptExpertsWithScalarsOfEitherShape) {
  config["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}};
  test::TensorSpecs specs = test::specsOf(config);
  ASSERT_TRUE(specs.at(std::string(expert) + ".weight_scale_2").shape.empty());
  specs[std::string(expert) + ".weight_scale_2"].shape = {1};
  const std::vector<Weight> weights = map(specs);
  const Weight &down = find(weights, "layers.1.experts.4.down");
  EXPECT_EQ(down.encoding, WeightEncoding::Nvfp4);
  EXPECT_EQ(down.parts[2].shape, (std::vector<int64_t>{1}));
  EXPECT_EQ(down.parts[3].name, std::string(expert) + ".input_scale");
}

// A tensor is quantised exactly when its scale exists, whatever the config says; formats may differ
// within one MLP.
TEST_F(WeightMapTest, WhatIsStoredDecides) {
  test::TensorSpecs specs = test::specsOf(config);
  std::string q = query, e = expert;
  specs.erase(q + ".weight_scale_inv"); // q_proj in BF16
  specs[q + ".weight"].dtype = Dtype::Bf16;
  specs.erase(e + ".weight_packed"); // one expert matrix in community MXFP8
  specs.erase(e + ".weight_global_scale");
  specs.erase(e + ".input_global_scale");
  specs[e + ".weight"] = {Dtype::F8E4M3, {96, 64}};
  specs[e + ".weight_scale"] = {Dtype::U8, {96, 2}};
  const std::vector<Weight> weights = map(specs);
  EXPECT_EQ(find(weights, "layers.0.q_proj").encoding, WeightEncoding::Bf16);
  EXPECT_EQ(find(weights, "layers.0.k_proj").encoding, WeightEncoding::Mxfp8);
  const Weight &down = find(weights, "layers.1.experts.4.down");
  EXPECT_EQ(down.encoding, WeightEncoding::Mxfp8);
  EXPECT_EQ(down.parts[1].name, e + ".weight_scale");
  EXPECT_EQ(find(weights, "layers.1.experts.4.up").encoding, WeightEncoding::Nvfp4Packed);
  ASSERT_EQ(findings.warnings.size(), 2u);
  EXPECT_NE(findings.warnings[0].find("layers.0.q_proj"), std::string::npos);
  EXPECT_NE(findings.warnings[1].find("layers.1.experts.4.down"), std::string::npos);
}

TEST_F(WeightMapTest, ReadsNamesWithoutTheVisionPrefix) {
  test::TensorSpecs bare;
  for (const auto &[name, spec] : test::specsOf(config))
    bare[name.substr(std::string_view("language_model.").size())] = spec;
  EXPECT_EQ(find(map(bare), "norm").parts[0].name, "model.norm.weight");
}

TEST_F(WeightMapTest, SortsTensorsThatAreNotUsed) {
  test::TensorSpecs specs = test::specsOf(config);
  specs["vision_tower.vision_model.pre_layrnorm.weight"] = {Dtype::Bf16, {8}};
  specs["multi_modal_projector.linear_1.bias"] = {Dtype::Bf16, {8}};
  specs["patch_merge_mlp.linear_2.bias"] = {Dtype::Bf16, {8}};
  specs["language_model.model.mtp.layers.0.enorm.weight"] = {Dtype::Bf16, {8}};
  specs["language_model.model.dspark.fc.weight"] = {Dtype::Bf16, {8}};
  specs["language_model.model.layers.3.input_layernorm.weight"] = {Dtype::Bf16, {96}};
  specs["filler.weight"] = {Dtype::I32, {2}};
  map(specs);
  EXPECT_EQ(findings.leftOut.at("vision").tensors, 3);
  EXPECT_EQ(findings.leftOut.at("vision").bytes, 48u);
  EXPECT_EQ(findings.leftOut.at("mtp").tensors, 1);
  EXPECT_EQ(findings.leftOut.at("drafter").tensors, 1);
  EXPECT_EQ(findings.unknownTensors,
            (std::vector<std::string>{"filler.weight",
                                      "language_model.model.layers.3.input_layernorm.weight"}));
}

TEST_F(WeightMapTest, MissingTensorsAreCountedAndNamed) {
  test::TensorSpecs specs = test::specsOf(config);
  specs.erase("language_model.model.norm.weight");
  refused(specs, {"language_model.model.norm.weight", "no file has it"});
  specs.erase("language_model.model.layers.1.input_layernorm.weight");
  refused(specs, {"layers.1.input_layernorm.weight", "2 tensors are missing in all",
                  "language_model.model.norm.weight"});
}

TEST_F(WeightMapTest, AMissingTensorHasTheNearestNameBesideIt) {
  test::TensorSpecs specs = test::specsOf(config);
  specs["language_model.model.final_norm.weight"] = specs.at("language_model.model.norm.weight");
  specs["something.else.altogether"] = {Dtype::Bf16, {2}};
  specs.erase("language_model.model.norm.weight");
  refused(specs, {"language_model.model.norm.weight is missing",
                  "nearest name that is there and not used is language_model.model.final_norm"});
  specs.erase("language_model.model.final_norm.weight");
  std::string message = test::errorOf([&] { map(specs); });
  EXPECT_EQ(message.find("nearest"), message.npos) << message;
}

TEST_F(WeightMapTest, RefusesWrongTypesAndShapes) {
  const test::TensorSpecs good = test::specsOf(config);
  auto changed = [&](const std::string &name, Dtype dtype, std::vector<int64_t> shape) {
    test::TensorSpecs specs = good;
    specs.at(name) = {dtype, std::move(shape)};
    return specs;
  };
  std::string norm = "language_model.model.norm.weight", q = query, e = expert;
  refused(changed(norm, Dtype::I16, {96}), {"model.safetensors", "norm.weight", "I16", "BF16"});
  refused(changed(norm, Dtype::Bf16, {97}), {"[97] found", "[96] expected"});
  refused(
      changed("language_model.model.layers.1.block_sparse_moe.gate.weight", Dtype::Bf16, {5, 96}),
      {"gate.weight", "BF16 found", "F32 expected"});
  refused(changed(q + ".weight", Dtype::F8E4M3, {96, 768}), {"[96, 768] found", "[768, 96]"});
  refused(changed(q + ".weight_scale_inv", Dtype::I8, {768, 3}), {"I8 found", "U8 expected"});
  refused(changed(q + ".weight_scale_inv", Dtype::U8, {3, 768}), {"[3, 768]", "[768, 3]"});
  refused(changed(e + ".weight_scale", Dtype::F8E4M3, {192, 2}), {"[192, 2]", "[96, 4]"});
  refused(changed(e + ".weight_packed", Dtype::U8, {96, 64}), {"[96, 64]", "[96, 32]"});
  refused(changed(e + ".weight_global_scale", Dtype::F32, {2}), {"[2] found", "[1] expected"});
  refused(changed(e + ".weight_global_scale", Dtype::Bf16, {1}), {"BF16 found", "F32 expected"});
}

TEST_F(WeightMapTest, RefusesScalesThatDoNotFitTogether) {
  test::TensorSpecs specs = test::specsOf(config);
  std::string q = query, e = expert;
  specs.erase(q + ".weight_scale_inv");
  refused(specs, {"q_proj.weight", "F8_E4M3 found", "weight_scale_inv is not there"});
  specs = test::specsOf(config);
  specs.erase(e + ".weight_global_scale");
  refused(specs, {"w2.weight_global_scale", "missing"});
  specs = test::specsOf(config);
  specs[e + ".weight_scale_2"] = {Dtype::F32, {}};
  refused(specs, {"w2", "two formats", "weight_scale_2", "weight_packed"});
  specs = test::specsOf(config);
  specs[q + ".weight_scale"] = {Dtype::F8E4M3, {768, 6}};
  refused(specs, {"q_proj", "two formats"});
}

TEST_F(WeightMapTest, ColumnsMustBeWholeGroups) {
  config["text_config"]["intermediate_size"] = 24; // 24 inputs of the down projection
  expectError([&] { buildWeightMap(parsed(config), nullptr, findings); },
              {"layers.1.experts.0.down", "24", "16"});
  config["text_config"]["intermediate_size"] = 16;
  config["text_config"]["dense_intermediate_size"] = 48;
  expectError([&] { buildWeightMap(parsed(config), nullptr, findings); },
              {"layers.0.mlp.down", "48", "32"});
  config.erase("quantization_config");
  EXPECT_NO_THROW(buildWeightMap(parsed(config), nullptr, findings));
}

TEST_F(WeightMapTest, WithoutRoutingBiasThereIsNone) {
  config["text_config"]["use_routing_bias"] = false;
  config["text_config"]["n_shared_experts"] = 0;
  std::vector<Weight> weights = buildWeightMap(parsed(config), nullptr, findings);
  EXPECT_THROW(find(weights, "layers.1.router_bias"), std::runtime_error);
  EXPECT_THROW(find(weights, "layers.1.shared.up"), std::runtime_error);
}
