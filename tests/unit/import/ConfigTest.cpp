#include "models/minimax_m3/ModelConfig.h"

#include "tests/unit/import/Model.h"

using namespace m3c;
using nlohmann::json;
using test::expectError;

namespace {

ModelConfig parse(const json &config, Findings &findings) {
  return parseModelConfig(config.dump(), "dir/config.json", findings);
}
ModelConfig parse(const json &config) {
  Findings findings;
  return parse(config, findings);
}

/// The config with one key of text_config changed (null removes it) is refused with `parts`.
void refusedText(const char *key, json value, std::initializer_list<const char *> parts) {
  json config = test::smallConfig();
  json &text = config["text_config"];
  if (value.is_null())
    text.erase(key);
  else
    text[key] = value;
  expectError([&] { parse(config); }, {"dir/config.json", key});
  expectError([&] { parse(config); }, parts);
}

void refusedSparse(const char *key, json value, std::initializer_list<const char *> parts) {
  json config = test::smallConfig();
  json &sparse = config["text_config"]["sparse_attention_config"];
  if (value.is_null())
    sparse.erase(key);
  else
    sparse[key] = value;
  expectError([&] { parse(config); }, {"dir/config.json", key});
  expectError([&] { parse(config); }, parts);
}

} // namespace

TEST(Config, ReadsTheReleasedKeys) {
  Findings findings;
  ModelConfig config = parse(test::smallConfig(), findings);
  EXPECT_EQ(config.hidden, 96);
  EXPECT_EQ(config.layers, 3);
  EXPECT_EQ(config.heads, 6);
  EXPECT_EQ(config.kvHeads, 3);
  EXPECT_EQ(config.groupSize(), 2);
  EXPECT_EQ(config.headDim, 128);
  EXPECT_EQ(config.vocab, 300);
  EXPECT_EQ(config.rotaryDim, 64);
  EXPECT_DOUBLE_EQ(config.ropeTheta, 5e6);
  EXPECT_DOUBLE_EQ(config.normEps, 1e-6);
  EXPECT_EQ(config.denseIntermediate, 160);
  EXPECT_EQ(config.expertIntermediate, 64);
  EXPECT_EQ(config.sharedIntermediate, 32);
  EXPECT_EQ(config.experts, 5);
  EXPECT_EQ(config.expertsPerToken, 3);
  EXPECT_EQ(config.sharedExperts, 1);
  EXPECT_TRUE(config.routingBias);
  EXPECT_EQ(config.indexHeads, 3);
  EXPECT_EQ(config.indexDim, 128);
  EXPECT_EQ(config.topkBlocks, 4);
  EXPECT_EQ(config.initBlocks, 1);
  EXPECT_EQ(config.moeLayer, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(config.sparseLayer, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(config.bosToken, 298);
  EXPECT_EQ(config.eosToken, 297);
  EXPECT_EQ(config.padToken, -1);
  EXPECT_EQ(config.projectionEncoding, WeightEncoding::Bf16);
  EXPECT_TRUE(findings.warnings.empty());
  EXPECT_TRUE(findings.unknownKeys.empty());
  EXPECT_TRUE(findings.notes.empty());
}

// Hugging Face's library writes other names for the same things.
TEST(Config, ReadsTheLibrarysKeys) {
  json config = test::smallConfig();
  json &text = config["text_config"];
  text.erase("sparse_attention_config");
  text.erase("moe_layer_freq");
  text.erase("rope_theta");
  text.erase("rotary_dim");
  text.erase("partial_rotary_factor");
  text["rope_parameters"] = {
      {"rope_theta", 5000000.0}, {"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
  text["index_n_heads"] = 3;
  text["index_head_dim"] = 128;
  text["index_block_size"] = 128;
  text["index_topk_blocks"] = 4;
  text["index_local_blocks"] = 1;
  text["layer_types"] = {"minimax_m3_sparse", "full_attention", "minimax_m3_sparse"};
  text["mlp_layer_types"] = {"dense", "sparse", "dense"};
  text["hidden_act"] = "silu";
  text["model_type"] = "minimax_m3_vl_text";
  for (const char *key : {"n_shared_experts", "use_routing_bias", "scoring_func", "use_gemma_norm",
                          "use_qk_norm", "qk_norm_type", "attention_output_gate"})
    text.erase(key);
  Findings findings;
  ModelConfig read = parse(config, findings);
  EXPECT_TRUE(findings.unknownKeys.empty());
  // Shared expert, routing bias and first blocks are absent and said to be so.
  EXPECT_EQ(findings.notes.size(), 3u);
  ModelConfig released = parse(test::smallConfig());
  EXPECT_EQ(read.sparseLayer, released.sparseLayer);
  EXPECT_EQ(read.moeLayer, released.moeLayer);
  EXPECT_EQ(read.indexHeads, released.indexHeads);
  EXPECT_EQ(read.topkBlocks, released.topkBlocks);
  EXPECT_EQ(read.rotaryDim, released.rotaryDim);
  EXPECT_EQ(read.ropeTheta, released.ropeTheta);
  EXPECT_EQ(read.sharedExperts, 1);
  EXPECT_TRUE(read.routingBias);
  EXPECT_EQ(read.initBlocks, 0);
}

TEST(Config, ReadsATextModelWithoutTextConfig) {
  json config = test::smallConfig()["text_config"];
  config["model_type"] = "minimax_m3_vl_text";
  Findings findings;
  EXPECT_EQ(parse(config, findings).hidden, 96);
  EXPECT_TRUE(findings.unknownKeys.empty());
}

TEST(Config, TwoSpellingsMustAgree) {
  json config = test::smallConfig();
  config["text_config"]["index_topk_blocks"] = 5;
  expectError([&] { parse(config); }, {"sparse_topk_blocks", "4", "5", "disagree"});
  config = test::smallConfig();
  config["text_config"]["num_experts"] = 6;
  expectError([&] { parse(config); }, {"num_experts is 6", "num_local_experts is 5", "disagree"});
  config = test::smallConfig();
  config["text_config"]["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  expectError([&] { parse(config); }, {"layer_types", "disagree"});
  config = test::smallConfig();
  config["text_config"]["mlp_layer_types"] = {"dense", "dense", "dense"};
  expectError([&] { parse(config); }, {"mlp_layer_types", "disagree"});
  config = test::smallConfig();
  config["text_config"]["rope_parameters"] = {{"rope_theta", 1e4}};
  expectError([&] { parse(config); }, {"rope_theta", "disagree"});
}

TEST(Config, UnknownKeysAreRecordedWithTheirPlace) {
  json config = test::smallConfig();
  config["surprise"] = 1;
  config["text_config"]["novelty"] = {{"deep", 1}};
  config["text_config"]["sparse_attention_config"]["sparse_extra"] = 1;
  config["vision_config"] = {{"anything", 1}};
  Findings findings;
  parse(config, findings);
  EXPECT_EQ(findings.unknownKeys,
            (std::vector<std::string>{"text_config.sparse_attention_config.sparse_extra",
                                      "text_config.novelty", "surprise"}));
}

TEST(Config, NoSizeHasADefault) {
  for (const char *key :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "vocab_size", "max_position_embeddings", "rms_norm_eps", "rope_theta",
        "dense_intermediate_size", "intermediate_size", "shared_intermediate_size",
        "num_local_experts", "num_experts_per_tok", "routed_scaling_factor", "swiglu_alpha",
        "swiglu_limit"})
    refusedText(key, nullptr, {"missing"});
  for (const char *key : {"sparse_num_index_heads", "sparse_index_dim", "sparse_block_size",
                          "sparse_topk_blocks", "sparse_local_block", "sparse_attention_freq"})
    refusedSparse(key, nullptr, {"missing"});
}

TEST(Config, SizesThatNoLayerNeedsMayBeAbsent) {
  json config = test::smallConfig();
  json &text = config["text_config"];
  text["moe_layer_freq"] = {0, 0, 0};
  text["sparse_attention_config"] = nullptr;
  for (const char *key : {"intermediate_size", "shared_intermediate_size", "num_local_experts",
                          "num_experts_per_tok", "n_shared_experts", "routed_scaling_factor"})
    text.erase(key);
  ModelConfig read = parse(config);
  EXPECT_FALSE(read.anyMoe());
  EXPECT_FALSE(read.anySparse());
}

TEST(Config, RefusesWrongKinds) {
  refusedText("hidden_size", "96", {"a string", "an integer is expected"});
  refusedText("hidden_size", 96.0, {"a floating-point number"});
  refusedText("hidden_size", true, {"a truth value"});
  refusedText("rms_norm_eps", "x", {"a number is expected"});
  refusedText("rms_norm_eps", 0, {"positive"});
  refusedText("use_gemma_norm", 1, {"true or false"});
  refusedText("qk_norm_type", 1, {"a string is expected"});
  refusedText("moe_layer_freq", 1, {"a list"});
  refusedText("moe_layer_freq", {0, 2, 0}, {"entry 1 is 2"});
  refusedText("sparse_attention_config", 1, {"an object"});
  refusedText("rope_scaling", 1, {"an object"});
}

TEST(Config, RefusesSizesOutOfRange) {
  refusedText("num_hidden_layers", -4, {"-4"});
  refusedText("num_hidden_layers", 0, {"0"});
  refusedText("num_hidden_layers", int64_t(1) << 31, {"2147483648", "1024"});
  refusedText("vocab_size", UINT64_MAX, {"18446744073709551615"});
  refusedText("num_attention_heads", 7, {"multiple", "num_key_value_heads 3"});
  refusedText("head_dim", 64, {"64", "only 128", "8 groups of 16"});
  refusedText("num_experts_per_tok", 6, {"6", "1 to 5"});
  refusedText("n_shared_experts", 2, {"2"});
  refusedText("num_local_experts", 65536, {"experts in all"});
  refusedText("eos_token_id", 300, {"300", "vocab_size 300"});
  refusedText("bos_token_id", -1, {"-1"});
}

TEST(Config, RefusesListsThatAreTooShortAndWarnsOfLongOnes) {
  refusedText("moe_layer_freq", {0, 1}, {"2 entries", "3"});
  refusedSparse("sparse_attention_freq", {1, 0}, {"2 entries"});
  refusedSparse("sparse_disable_index_value", {1, 1}, {"2 entries"});
  json config = test::smallConfig();
  config["text_config"]["moe_layer_freq"] = {false, true, false, true};
  Findings findings;
  EXPECT_EQ(parse(config, findings).moeLayer.size(), 3u);
  ASSERT_EQ(findings.warnings.size(), 1u);
  EXPECT_NE(findings.warnings[0].find("moe_layer_freq has 4 entries"), std::string::npos);
}

TEST(Config, AbsentListsTakeTheLibrarysDefaultAndSaySo) {
  json config = test::smallConfig();
  config["text_config"].erase("moe_layer_freq");
  config["text_config"].erase("sparse_attention_config");
  Findings findings;
  ModelConfig read = parse(config, findings);
  EXPECT_EQ(read.moeLayer, std::vector<bool>(3, true));
  EXPECT_EQ(read.sparseLayer, std::vector<bool>(3, false));
  EXPECT_EQ(findings.notes.size(), 2u);
}

TEST(Config, SparseAttentionMayBeSwitchedOff) {
  json config = test::smallConfig();
  config["text_config"]["sparse_attention_config"]["use_sparse_attention"] = false;
  EXPECT_FALSE(parse(config).anySparse());
}

TEST(Config, RefusesVariantsOfSelection) {
  refusedSparse("sparse_block_size", 64, {"64", "128"});
  refusedSparse("sparse_num_index_heads", 4, {"4", "num_key_value_heads is 3"});
  refusedSparse("sparse_score_type", "mean", {"mean", "max"});
  refusedSparse("sparse_local_block", 2, {"2", "only 1"});
  refusedSparse("sparse_init_block", -1, {"-1"});
  refusedSparse("sparse_init_block", 4, {"sparse_topk_blocks 4"});
  refusedSparse("sparse_index_dim", 64, {"only 128"});
  refusedSparse("sparse_disable_index_value", {1, 1, 0}, {"layer 2"});
  // Layer 1 attends to all keys: its entry has no meaning.
  json config = test::smallConfig();
  config["text_config"]["sparse_attention_config"]["sparse_disable_index_value"] = {1, 0, 1};
  EXPECT_NO_THROW(parse(config));
}

TEST(Config, RefusesVariantsOfTheModel) {
  refusedText("use_gemma_norm", false, {"only true"});
  refusedText("attention_output_gate", true, {"only false"});
  refusedText("use_qk_norm", false, {"only true"});
  refusedText("qk_norm_type", "per_layer", {"per_head"});
  refusedText("hidden_act", "gelu", {"gelu", "swigluoai"});
  refusedText("scoring_func", "softmax", {"softmax", "sigmoid"});
  refusedText("tie_word_embeddings", true, {"only false"});
  refusedText("swiglu_beta", 0.5, {"only 1"});
  json config = test::smallConfig();
  config["text_config"]["rope_scaling"] = {{"rope_type", "yarn"}};
  expectError([&] { parse(config); }, {"rope_type", "yarn"});
  config = test::smallConfig();
  config["model_type"] = "minimax_m9_vl";
  expectError([&] { parse(config); }, {"model_type", "minimax_m9_vl"});
  config = test::smallConfig();
  config["architectures"] = {"Other"};
  expectError([&] { parse(config); }, {"architectures", "Other"});
  config = test::smallConfig();
  config.erase("text_config");
  expectError([&] { parse(config); }, {"text_config", "missing"});
  expectError([&] { parse(json::array()); }, {"an object"});
}

TEST(Config, RotatedPartMustBeEvenAndAgree) {
  refusedText("rotary_dim", 63, {"63"});
  refusedText("rotary_dim", 32, {"32", "0.5", "disagree"});
  refusedText("rotary_dim", 256, {"256"});
  json config = test::smallConfig();
  config["text_config"].erase("rotary_dim");
  EXPECT_EQ(parse(config).rotaryDim, 64);
  config["text_config"]["partial_rotary_factor"] = 0.26;
  expectError([&] { parse(config); }, {"partial_rotary_factor", "33.28"});
  config["text_config"].erase("partial_rotary_factor");
  expectError([&] { parse(config); }, {"rotary_dim"});
}

TEST(Config, AnAbsentEndTokenIsNoted) {
  json config = test::smallConfig();
  config["text_config"].erase("eos_token_id");
  config["text_config"]["swiglu_beta"] = 1.0;
  Findings findings;
  EXPECT_EQ(parse(config, findings).eosToken, -1);
  ASSERT_EQ(findings.notes.size(), 1u);
  EXPECT_NE(findings.notes[0].find("eos_token_id"), std::string::npos);
}

TEST(Config, AListOfEndTokensGivesTheFirstAndAWarning) {
  json config = test::smallConfig();
  config["text_config"]["eos_token_id"] = {290, 291};
  Findings findings;
  EXPECT_EQ(parse(config, findings).eosToken, 290);
  EXPECT_EQ(findings.warnings.size(), 1u);
}

namespace {

json withQuantization(json quantization) {
  json config = test::smallConfig();
  config["quantization_config"] = std::move(quantization);
  return config;
}

} // namespace

TEST(QuantizationConfig, ReadsTheReleases) {
  ModelConfig config =
      parse(withQuantization({{"quant_method", "mxfp8"}, {"weight_block_size", {1, 32}}}));
  EXPECT_EQ(config.projectionEncoding, WeightEncoding::Mxfp8);
  EXPECT_EQ(config.expertEncoding, WeightEncoding::Mxfp8);
  config = parse(withQuantization({{"quant_method", "mxfp8"},
                                   {"moe_quant_algo", "NVFP4"},
                                   {"moe_quant_format", "nvfp4-pack-quantized"}}));
  EXPECT_EQ(config.projectionEncoding, WeightEncoding::Mxfp8);
  EXPECT_EQ(config.expertEncoding, WeightEncoding::Nvfp4Packed);
  config =
      parse(withQuantization({{"quant_method", "modelopt"},
                              {"quant_algo", "MIXED_PRECISION"},
                              {"quantized_layers",
                               {{"m.layers.1.block_sparse_moe.experts.0.w1",
                                 {{"quant_algo", "NVFP4"}, {"group_size", 16}}},
                                {"m.layers.0.self_attn.q_proj", {{"quant_algo", "MXFP8"}}}}}}));
  EXPECT_EQ(config.projectionEncoding, WeightEncoding::Mxfp8);
  EXPECT_EQ(config.expertEncoding, WeightEncoding::Nvfp4);
  config = parse(withQuantization({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}));
  EXPECT_EQ(config.projectionEncoding, WeightEncoding::Nvfp4);
  config = parse(withQuantization(
      {{"quant_method", "compressed-tensors"}, {"format", "nvfp4-pack-quantized"}}));
  EXPECT_EQ(config.expertEncoding, WeightEncoding::Nvfp4Packed);
}

TEST(QuantizationConfig, RefusesWhatItDoesNotKnow) {
  auto refused = [](json quantization, std::initializer_list<const char *> parts) {
    expectError([&] { parse(withQuantization(quantization)); }, parts);
  };
  refused({{"quant_method", "gguf_q9"}}, {"quant_method", "gguf_q9"});
  refused({{"bits", 4}}, {"quant_method"});
  refused(7, {"quantization_config", "an object"});
  refused({{"quant_method", "mxfp8"}, {"weight_block_size", {1, 64}}}, {"[1,64]"});
  refused({{"quant_method", "mxfp8"}, {"fmt", "e5m2"}}, {"e5m2"});
  refused({{"quant_method", "mxfp8"}, {"moe_quant_algo", "INT4"}}, {"INT4"});
  refused({{"quant_method", "mxfp8"}, {"moe_quant_algo", "NVFP4"}, {"moe_quant_format", "mxfp8"}},
          {"moe_quant_format"});
  refused({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}, {"FP8"});
  refused({{"quant_method", "modelopt"}, {"quant_algo", "MIXED_PRECISION"}}, {"quantized_layers"});
  refused({{"quant_method", "modelopt"},
           {"quant_algo", "MIXED_PRECISION"},
           {"quantized_layers", {{"q", {{"quant_algo", "INT4"}}}}}},
          {"quantized_layers.q.quant_algo", "INT4"});
  refused({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"group_size", 32}},
          {"group_size", "only 16"});
  refused({{"quant_method", "compressed-tensors"}, {"format", "int-quantized"}}, {"int-quantized"});
}
