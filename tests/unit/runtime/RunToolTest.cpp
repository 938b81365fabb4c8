// m3-run as a user runs it, over the toy plan: results, exit codes, messages, what it links.
#include "runtime/checkpoint/Safetensors.h"
#include "tests/unit/runtime/ToyPlan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

using namespace m3c;

namespace {

struct Result {
  int code;
  std::string out, err;
};

class RunTool : public testing::Test {
protected:
  std::filesystem::path folder;

  void SetUp() override {
    folder =
        std::filesystem::path(testing::TempDir()) /
        fmt::format("run_tool_{}", testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder / "weights");
    test::toyPlan().publish(folder / "toy.m3plan");
    SafetensorsWriter writer;
    std::vector<float> scale;
    for (uint32_t v = 0; v < test::toyVocab; ++v)
      scale.push_back(1 + float(v) / 64);
    writer.add("scale", Dtype::F32, {test::toyVocab}, std::span<const float>(scale));
    writer.write(folder / "weights" / "model.safetensors");
  }

  std::string at(const std::string &name) const { return (folder / name).string(); }

  Result run(const std::string &arguments) const {
    int status = std::system(
        fmt::format("{} {} > {} 2> {}", M3_RUN, arguments, at("out"), at("err")).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text("out"), text("err")};
  }

  std::string text(const std::string &name) const {
    std::ifstream file(folder / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  std::string plan() const { return at("toy.m3plan") + " --weights " + at("weights"); }

  void writeInput(const std::map<std::string, std::vector<int32_t>> &tensors) const {
    SafetensorsWriter writer;
    for (auto &[name, ids] : tensors)
      writer.add(name, Dtype::I32, {int64_t(ids.size())}, std::span<const int32_t>(ids));
    writer.write(folder / "in.safetensors");
  }

  template <typename T> std::vector<T> tensor(const std::string &name) const {
    SafetensorsFile file = SafetensorsFile::open(folder / "out.safetensors");
    const TensorEntry *entry = file.find(name);
    if (!entry) {
      ADD_FAILURE() << "no tensor " << name;
      return {};
    }
    std::vector<T> values(entry->byteCount() / sizeof(T));
    if (!values.empty())
      std::memcpy(values.data(), file.data(*entry).data(), entry->byteCount());
    return values;
  }
};

int32_t toyArgmax(const std::vector<int32_t> &history) {
  int32_t best = 0;
  for (uint32_t v = 1; v < test::toyVocab; ++v)
    if (test::toyLogit(history, v) > test::toyLogit(history, uint32_t(best)))
      best = int32_t(v);
  return best;
}

std::vector<int32_t> greedyIds(std::vector<int32_t> prompt, size_t count) {
  std::vector<int32_t> made;
  for (size_t i = 0; i < count; ++i) {
    made.push_back(toyArgmax(prompt));
    prompt.push_back(made.back());
  }
  return made;
}

std::vector<int32_t> someIds(uint32_t seed, size_t count) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i)
    ids.push_back(int32_t((seed = seed * 1664525 + 1013904223) >> 8) % int32_t(test::toyVocab));
  return ids;
}

} // namespace

TEST_F(RunTool, ScoreGivesTheModelsNumbers) {
  std::vector<int32_t> text = someIds(3, 140), prompt = someIds(5, 11);
  writeInput({{"ids.140", text}, {"ids.one", {7}}, {"prompt.0", prompt}, {"other", {1}}});
  Result result = run("score " + plan() + " --input " + at("in.safetensors") + " --output " +
                      at("out.safetensors") + " --max-tokens 20 --trace blocks,experts");
  ASSERT_EQ(result.code, 0) << result.err;
  std::vector<int32_t> argmax = tensor<int32_t>("argmax.140"), history;
  std::vector<float> logProbs = tensor<float>("next_logprob.140");
  ASSERT_EQ(argmax.size(), 140u);
  ASSERT_EQ(logProbs.size(), 139u);
  for (size_t t = 0; t < text.size(); ++t) {
    history.push_back(text[t]);
    EXPECT_EQ(argmax[t], toyArgmax(history));
    if (t + 1 == text.size())
      break;
    double largest = test::toyLogit(history, uint32_t(argmax[t])), sum = 0;
    for (uint32_t v = 0; v < test::toyVocab; ++v)
      sum += std::exp(test::toyLogit(history, v) - largest);
    double expected = test::toyLogit(history, uint32_t(text[t + 1])) - largest - std::log(sum);
    EXPECT_NEAR(logProbs[t], expected, std::abs(expected) * 1e-7 + 1e-6); // one FP32 rounding
  }
  std::vector<float> last = tensor<float>("last_logits.140");
  for (uint32_t v = 0; v < test::toyVocab; ++v)
    EXPECT_EQ(last[v], test::toyLogit(text, v));
  EXPECT_TRUE(tensor<float>("next_logprob.one").empty());
  EXPECT_EQ(tensor<int32_t>("greedy.0"), greedyIds(prompt, 20));
  EXPECT_EQ(tensor<int32_t>("blocks.140"), (std::vector<int32_t>{1, -1}));
  std::vector<int32_t> experts = tensor<int32_t>("experts.140");
  ASSERT_EQ(experts.size(), 280u);
  for (size_t t = 0; t < 140; ++t)
    EXPECT_EQ(experts[2 * t], text[t] % 3);
}

TEST_F(RunTool, ScoreDoesNotDependOnChunkBatchOrThreads) {
  writeInput({{"ids.a", someIds(1, 200)},
              {"ids.b", someIds(2, 129)},
              {"ids.c", someIds(3, 3)},
              {"prompt.0", someIds(4, 5)},
              {"prompt.1", someIds(5, 128)}});
  std::string first;
  for (const char *options : {"", "--chunk 1", "--batch 3 --chunk 7", "--batch 2 --threads 1",
                              "--batch 50 --threads 3"}) {
    Result result = run("score " + plan() + " --input " + at("in.safetensors") + " --output " +
                        at("out.safetensors") + " --max-tokens 9 --trace experts " + options);
    ASSERT_EQ(result.code, 0) << result.err;
    if (first.empty())
      first = text("out.safetensors");
    EXPECT_TRUE(first == text("out.safetensors")) << options;
  }
}

TEST_F(RunTool, BadInputEndsWithOneAndNoOutput) {
  auto fails = [&](const std::string &arguments, const std::string &message) {
    Result result = run(arguments);
    EXPECT_EQ(result.code, 1) << arguments;
    EXPECT_NE(result.err.find(message), std::string::npos) << message << " / " << result.err;
    EXPECT_TRUE(result.out.empty()) << result.out;
    EXPECT_FALSE(std::filesystem::exists(folder / "out.safetensors"));
  };
  std::string files = " --input " + at("in.safetensors") + " --output " + at("out.safetensors");
  writeInput({{"ids.x", {1, 61}}});
  fails("score " + plan() + files, "token id 61 is out of range");
  writeInput({{"ids.x", {-1}}});
  fails("score " + plan() + files, "token id -1 is out of range");
  writeInput({{"other", {1}}});
  fails("score " + plan() + files, "has nothing to score");
  writeInput({{"ids.x", someIds(1, 1025)}});
  fails("score " + plan() + files, "longest that fits is 1024");
  writeInput({{"ids.x", {1}}});
  fails("score " + at("none.m3plan") + " --weights " + at("weights") + files, "none.m3plan");
  fails("score " + at("in.safetensors") + " --weights " + at("weights") + files,
        "is not a plan file");
  fails("score " + at("toy.m3plan") + " --weights " + at("nowhere") + files, "nowhere");
  fails("score " + plan() + " --input " + at("in.safetensors") + " --output " +
            at("no/out.safetensors"),
        "cannot write");
  fails("generate " + plan() + " --prompt-ids 1,2 --ids --max-tokens 1024",
        "the longest prompt that fits is 0");
  fails("generate " + plan() + " --prompt-ids 1,99 --ids", "token id 99 is out of range");
  fails("generate " + plan() + " --prompt-ids 1,2,3 --ids --kv-pages 1 --max-tokens 200",
        "--kv-pages");

  std::ofstream(folder / "empty").flush();
  test::toyPlan({.vocab = 512}).publish(folder / "wide.m3plan");
  std::string wide =
      "generate " + at("wide.m3plan") + " --weights synthetic:1 --tokenizer " M3_TINY;
  fails(wide + " --prompt-file " + at("empty"), "the prompt is empty");
  fails(wide + " --prompt ''", "the prompt is empty");
  fails(wide + " --prompt $(printf '\\377')", "UTF-8");

  // The ids of another vocabulary are other words.
  std::filesystem::create_directory(folder / "model");
  std::ifstream tiny(M3_TINY "/tokenizer.json");
  std::string words{std::istreambuf_iterator<char>(tiny), {}};
  std::ofstream(folder / "model/tokenizer.json") << words;
  std::string same = "generate " + at("wide.m3plan") + " --prompt a --weights " + at("model") +
                     " --tokenizer " M3_TINY;
  EXPECT_EQ(run(same).err.find("vocabulary differs"), std::string::npos);
  size_t swap = words.find("\"!\""), other = words.find("\"#\"");
  std::swap(words.at(swap + 1), words.at(other + 1));
  std::ofstream(folder / "model/tokenizer.json") << words;
  fails(same, "its vocabulary differs");

  std::string plan9 = text("toy.m3plan");
  plan9[plan9.size() / 2] = char(plan9[plan9.size() / 2] ^ 1);
  std::ofstream(folder / "bad.m3plan", std::ios::binary) << plan9;
  fails("generate " + at("bad.m3plan") + " --weights synthetic:1 --prompt-ids 1 --ids",
        "does not match its digest");
  test::toyPlan({.features = {"magic9"}}).publish(folder / "other.m3plan");
  fails("generate " + at("other.m3plan") + " --weights synthetic:1 --prompt-ids 1 --ids",
        "needs magic9");
}

TEST_F(RunTool, WrongUsageEndsWithTwo) {
  for (const char *arguments :
       {"", "generate", "nonsense", "generate x.m3plan --weights y", "score x.m3plan --weights y",
        "generate x.m3plan --weights y --prompt a --prompt-ids 1",
        "generate x.m3plan --weights y --prompt a --max-tokens 0",
        "generate x.m3plan --weights y --prompt a --max-tokens -1",
        "generate x.m3plan --weights y --prompt a --seed -3",
        "generate x.m3plan --weights y --prompt a --seed 18446744073709551616",
        "generate x.m3plan --weights y --prompt a --top-k -1",
        "generate x.m3plan --weights y --prompt a --top-p nan",
        "generate x.m3plan --weights y --prompt a --temperature nan",
        "generate x.m3plan --weights y --prompt a --temperature -1",
        "generate x.m3plan --weights y --prompt a --kv-pages -1",
        "generate x.m3plan --weights y --prompt a --threads -1",
        "generate x.m3plan --weights y --prompt a --chunk 4294967296",
        "score x.m3plan --weights y --input a --output b --batch -1",
        "score x.m3plan --weights y --input a --output b --trace colours"})
    EXPECT_EQ(run(arguments).code, 2) << arguments;
  EXPECT_EQ(run("generate " + plan() + " --prompt text").code, 2); // no tokenizer
  EXPECT_EQ(run("generate " + plan() + " --prompt-ids 1").code, 2);
  EXPECT_EQ(run("--help").code, 0);
  Result wrong = run("generate x.m3plan --weights y --prompt a --top-p 3");
  for (const char *part :
       {"error: --top-p does not take this value", "where: m3-run generate",
        "3 is not above 0 and at most 1", "next:  m3-run generate --help says what it takes"})
    EXPECT_NE(wrong.err.find(part), std::string::npos) << part << "\n" << wrong.err;
  wrong = run("generate x.m3plan --weights y --prompt a --top-k 4294967296");
  EXPECT_NE(wrong.err.find("error: --top-k does not take this value"), std::string::npos)
      << wrong.err;
  EXPECT_NE(wrong.err.find("4294967296 is out of range"), std::string::npos) << wrong.err;
  wrong = run("generate x.m3plan --weights y --prompt a --colour blue");
  EXPECT_NE(wrong.err.find("error: not expected: --colour blue\n"), std::string::npos) << wrong.err;
}

TEST_F(RunTool, MessagesThatNobodyCanReadEndNothing) {
  for (const char *to : {"/dev/full", "&-"}) {
    auto code = [&](const std::string &arguments) {
      int status =
          std::system(fmt::format("{} {} > {} 2>{}", M3_RUN, arguments, at("out"), to).c_str());
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    };
    EXPECT_EQ(code("generate " + plan() + " --prompt-ids 1,2 --ids --max-tokens 2 --stats"), 0);
    EXPECT_TRUE(text("out").ends_with("\n")) << text("out");
    EXPECT_EQ(code("generate none.m3plan --weights y --prompt-ids 1"), 1);
    EXPECT_EQ(code("generate --nonsense"), 2);
    EXPECT_EQ(code("nonsense"), 2);
  }
}

TEST_F(RunTool, GenerateStreamsIds) {
  std::vector<int32_t> made = greedyIds({1, 2, 3}, 300);
  Result result =
      run("generate " + plan() + " --prompt-ids 1,2,3 --ids --max-tokens 300 --ignore-eos");
  ASSERT_EQ(result.code, 0) << result.err;
  std::string expected;
  for (int32_t id : made)
    expected += (expected.empty() ? "" : " ") + std::to_string(id);
  EXPECT_EQ(result.out, expected + "\n");
  EXPECT_NE(result.err.find("tokens/s"), std::string::npos);
  EXPECT_NE(result.err.find("memory"), std::string::npos);
}

TEST_F(RunTool, GenerateWritesJson) {
  Result result = run("generate " + plan() + " --prompt-ids 5 --json --max-tokens 4 --ignore-eos");
  ASSERT_EQ(result.code, 0) << result.err;
  nlohmann::json out = nlohmann::json::parse(result.out);
  EXPECT_EQ(out["ids"].get<std::vector<int32_t>>(), greedyIds({5}, 4));
  EXPECT_EQ(out["finish_reason"], "length");
  EXPECT_EQ(out["prompt_tokens"], 1);
}

TEST_F(RunTool, SampledIdsDependOnTheSeedAlone) {
  std::string command = "generate " + plan() +
                        " --prompt-ids 5 --ids --max-tokens 20 --ignore-eos "
                        "--temperature 100000 --seed ";
  std::string one = run(command + "1").out;
  EXPECT_EQ(run(command + "1 --threads 1").out, one);
  EXPECT_NE(run(command + "2").out, one);
}

TEST_F(RunTool, OutputsOverInputsAreRefusedFirst) {
  auto refused = [&](const std::string &output, const std::string &named) {
    // The plan does not exist: were it opened, the message would be about that.
    Result result = run("score " + at("none.m3plan") + " --weights " + at("weights") + " --input " +
                        at("in.safetensors") + " --output " + output);
    EXPECT_EQ(result.code, 1) << output;
    for (const std::string &part : {output, named})
      EXPECT_NE(result.err.find(part), std::string::npos) << part << " / " << result.err;
    EXPECT_EQ(result.err.find("none.m3plan"), std::string::npos) << result.err;
  };
  writeInput({{"ids.x", {1}}});
  std::string input = text("in.safetensors"), shard = text("weights/model.safetensors");
  refused(at("in.safetensors"), "choose another place");
  refused(at("weights/../in.safetensors"), at("in.safetensors"));
  refused(at("weights/model.safetensors"), at("weights"));
  refused(at("weights/new.safetensors"), "choose another place");
  refused(at("nodir/x.safetensors"), at("nodir"));
  EXPECT_TRUE(input == text("in.safetensors"));
  EXPECT_TRUE(shard == text("weights/model.safetensors"));
}

TEST_F(RunTool, TextsThatDoNotFitAreNamedBeforeWeightsAreRead) {
  auto score = [&](const std::string &options) {
    return run("score " + at("toy.m3plan") + " --weights " + at("weights") + " --input " +
               at("in.safetensors") + " --output " + at("out.safetensors") + " " + options);
  };
  auto fails = [&](const std::string &options, std::initializer_list<const char *> parts) {
    Result result = score(options);
    EXPECT_EQ(result.code, 1) << options;
    for (const char *part : parts)
      EXPECT_NE(result.err.find(part), std::string::npos) << part << " / " << result.err;
  };
  // The last of the new tokens is not run: 1005 + 20 - 1 is the model's context.
  writeInput({{"ids.a", {1}}, {"prompt.fits", someIds(1, 1005)}});
  EXPECT_EQ(score("--max-tokens 20").code, 0);
  EXPECT_EQ(tensor<int32_t>("greedy.fits").size(), 20u);
  std::filesystem::remove_all(folder / "weights");
  fails("--max-tokens 21", {"tensor prompt.fits is too long", "has 1005 tokens",
                            "with --max-tokens 21 is 1004", "lower --max-tokens"});
  fails("--max-tokens 2000", {"with --max-tokens 2000 is 0"});
  writeInput({{"ids.a", {1}}, {"ids.long", someIds(1, 1025)}});
  fails("", {"tensor ids.long is too long", "longest that fits is 1024", "in.safetensors"});
  writeInput({{"ids.a", someIds(1, 129)}});
  fails("--kv-pages 1", {"tensor ids.a is too long", "longest that fits is 128", "--kv-pages"});
  writeInput({{"ids.a", someIds(1, 129)}, {"ids.b", someIds(2, 129)}});
  fails("--kv-pages 3 --batch 2", {"3 pages of the cache are too few", "need 4"});
}

TEST_F(RunTool, CheckpointWithoutItsConfigIsRefused) {
  plan::PlanWriter writer = test::toyPlan();
  writer.setManifest(R"({"checkpoint": {"config": "0123"}})");
  writer.publish(folder / "toy.m3plan");
  Result result = run("generate " + plan() + " --prompt-ids 1 --ids --max-tokens 1");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find(at("weights/config.json") + " does not exist"), std::string::npos)
      << result.err;
  EXPECT_EQ(run("generate " + at("toy.m3plan") +
                " --weights synthetic:1 --prompt-ids 1 --ids --max-tokens 1")
                .code,
            0);
}

TEST_F(RunTool, OptionsWithoutEffectAreRefused) {
  auto refused = [&](const std::string &arguments, const char *message) {
    Result result = run("generate " + plan() + " --max-tokens 1 --ids " + arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_NE(result.err.find(message), std::string::npos) << message << " / " << result.err;
  };
  refused("--prompt a --thinking adaptive", "--thinking has no effect without --chat");
  refused("--prompt a --system b", "--system has no effect without --chat");
  refused("--prompt a --effort low", "--effort has no effect without --chat");
  refused("--prompt a --tools x.json", "--tools has no effect without --chat");
  refused("--prompt-ids 1 --chat", "--chat has no effect with --prompt-ids");
  refused("--prompt a --chat --no-bos", "--no-bos has an effect with plain text alone");
  refused("--prompt-ids 1 --no-bos", "--no-bos has an effect with plain text alone");
  refused("--prompt a --stop ''", "--stop is empty");
  refused("--messages x.json --system b", "--system has no effect with --messages");
  refused("--prompt-ids 1 --device host --emulate toy", "--device has no effect with --emulate");
  refused("--prompt-ids 1,,2", "'' is no token id");
  refused("--prompt-ids 1,", "'' is no token id");
  refused("--prompt-ids 99999999999", "99999999999 is too large");
  refused("--prompt-ids 1 --device host:1", "there is one host device, host:0");
}

TEST_F(RunTool, FaultsOfAConversationNameItsFile) {
  test::toyPlan({.vocab = 512}).publish(folder / "toy.m3plan");
  auto refused = [&](const std::string &messages, const std::string &tools, const char *where) {
    std::ofstream(folder / "m.json") << messages;
    std::ofstream(folder / "t.json") << tools;
    Result result = run(fmt::format("generate {} --weights synthetic:1 --tokenizer {} --messages "
                                    "{} --tools {} --max-tokens 1",
                                    at("toy.m3plan"), M3_TINY, at("m.json"), at("t.json")));
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_NE(result.err.find("where: " + at(where)), std::string::npos) << where << result.err;
  };
  refused("[", "[]", "m.json, messages");
  refused(R"([{"role": "nobody", "content": ""}])", "[]", "m.json, messages[0].role");
  refused(R"([{"role": "user", "content": ""}])", "{}", "t.json, tools");
}

TEST_F(RunTool, AnotherVersionOfTheEmulatorIsRefused) {
  ASSERT_EQ(setenv("M3C_EMULATOR", OLD_EMULATOR, 1), 0);
  Result result = run("generate " + plan() + " --prompt-ids 1 --ids --emulate toy");
  unsetenv("M3C_EMULATOR");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("version 1 of the interface"), std::string::npos) << result.err;
}

TEST_F(RunTool, AnInterruptedTextSaysSo) {
  // The signal comes as soon as the program (not yet the shell that becomes it) catches it (bit 1
  // of SigCgt), long before the last token.
  test::toyPlan({.maxPositions = 1 << 20}).publish(folder / "toy.m3plan");
  for (const char *form : {"--json", "--ids"}) {
    int status = std::system(
        fmt::format("sh -c '{0} generate {1} --prompt-ids 5 {2} --ignore-eos --max-tokens 1000000 "
                    ">{3} 2>{4} & p=$!; until grep -q \"^Name:.*m3-run\" /proc/$p/status && "
                    "grep -q \"SigCgt:.*[2367abef]$\" /proc/$p/status; do sleep 0.02; done; "
                    "kill -INT $p; wait $p'",
                    M3_RUN, plan(), form, at("out"), at("err"))
            .c_str());
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 130) << text("err");
    if (std::string(form) == "--ids") {
      EXPECT_NE(text("err").find("tokens/s"), std::string::npos) << text("err");
      EXPECT_TRUE(text("out").ends_with("\n"));
      continue;
    }
    nlohmann::json out = nlohmann::json::parse(text("out"));
    EXPECT_EQ(out["finish_reason"], "interrupted");
    EXPECT_EQ(out["ids"].size(), out["completion_tokens"]);
    EXPECT_LT(out["ids"].size(), 1000000u);
  }
}

TEST_F(RunTool, NeedsNoCompilerAndNoGpuLibrary) {
  int status = std::system(fmt::format("ldd {} > {} && readelf -d {} >> {}", M3_RUN,
                                       at("libraries"), M3_RUN, at("libraries"))
                               .c_str());
  ASSERT_EQ(status, 0);
  std::string libraries = text("libraries");
  ASSERT_NE(libraries.find("libc.so"), std::string::npos);
  for (const char *forbidden : {"LLVM", "MLIR", "clang", "lld", "cuda", "amdhip", "hsa"})
    EXPECT_EQ(libraries.find(forbidden), std::string::npos) << forbidden << "\n" << libraries;
}
