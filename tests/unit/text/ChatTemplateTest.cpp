// Expected texts are written out by hand from the published chat format (docs/model.md).
#include "runtime/text/ChatTemplate.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "runtime/base/Error.h"
#include "runtime/text/TextConfig.h"
#include "tests/unit/text/TestTokenizer.h"

namespace m3c::text {
namespace {

std::string render(std::string_view messages, const ChatOptions &options = {}) {
  std::string text;
  for (const Segment &segment : renderChat(messages, options))
    text += segment.text;
  return text;
}

/// The part after the system turn, whose wording is our own.
std::string afterSystem(std::string_view messages, const ChatOptions &options = {}) {
  std::string text = render(messages, options);
  return text.substr(text.find("[e~[\n") + 5);
}

TEST(ChatTemplate, SystemTurn) {
  std::string text =
      render(R"([{"role":"root","content":"I am R."},{"role":"user","content":"Hi"}])");
  EXPECT_TRUE(text.starts_with("]~!b[]~b]system\nI am R.\n\n<thinking_instructions>\n")) << text;
  EXPECT_NE(text.find("\n</thinking_instructions>[e~[\n]~b]developer\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("mode: adaptive"), std::string::npos);
  std::string effort = render(R"([{"role":"user","content":"Hi"}])", {.reasoningEffort = "xhigh"});
  EXPECT_NE(effort.find("</thinking_instructions>\n\n<effort>xhigh</effort>[e~[\n"),
            std::string::npos)
      << effort;
}

TEST(ChatTemplate, Turns) {
  EXPECT_EQ(afterSystem(R"([{"role":"user","content":"Hi"}])"),
            "]~b]developer\nYou are a helpful assistant.[e~[\n]~b]user\nHi[e~[\n]~b]ai\n");
  EXPECT_EQ(afterSystem(R"([{"role":"system","content":"Be brief."},
                            {"role":"user","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]},
                            {"role":"assistant","content":"C"},
                            {"role":"assistant","reasoning_content":"R","content":"D"},
                            {"role":"user","content":"E"}])",
                        {.generationPrompt = false}),
            "]~b]developer\nBe brief.[e~[\n]~b]user\nAB[e~[\n]~b]ai\n</mm:think>C[e~[\n"
            "]~b]ai\n<mm:think>R</mm:think>D[e~[\n]~b]user\nE[e~[\n");
}

TEST(ChatTemplate, ThinkingModes) {
  const char *messages = R"([{"role":"user","content":"Hi"}])";
  EXPECT_TRUE(
      render(messages, {.thinking = ThinkingMode::Enabled}).ends_with("]~b]ai\n<mm:think>"));
  EXPECT_TRUE(
      render(messages, {.thinking = ThinkingMode::Disabled}).ends_with("]~b]ai\n</mm:think>"));
  EXPECT_TRUE(render(messages, {.thinking = ThinkingMode::Adaptive}).ends_with("]~b]ai\n"));
  EXPECT_NE(render(messages, {.thinking = ThinkingMode::Enabled}).find("mode: enabled"),
            std::string::npos);
  EXPECT_EQ(parseThinkingMode("disabled"), ThinkingMode::Disabled);
  EXPECT_THROW(parseThinkingMode("on"), Error);
  EXPECT_THROW(renderChat(messages, {.reasoningEffort = "huge"}), Error);
}

TEST(ChatTemplate, Tools) {
  std::string text = afterSystem(
      R"([{"role":"user","content":"Hi"}])",
      {.tools = R"([{"type":"function","function":{"name":"f","b":[1,2.5,true,null],"a":"ü\""}},
                                               {"name":"g"}])"});
  EXPECT_TRUE(text.starts_with("]~b]developer\nYou are a helpful assistant.\n\n# Tools\n")) << text;
  EXPECT_NE(
      text.find("<tools>\n"
                "<tool>{\"name\": \"f\", \"b\": [1, 2.5, true, null], \"a\": \"ü\\\"\"}</tool>\n"
                "<tool>{\"name\": \"g\"}</tool>\n</tools>"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("]<]minimax[>[</tool_call>[e~[\n]~b]user\nHi[e~[\n"), std::string::npos)
      << text;
}

TEST(ChatTemplate, ToolCallsAndResponses) {
  EXPECT_EQ(afterSystem(R"([{"role":"user","content":"Q"},
    {"role":"assistant","content":null,"tool_calls":[
      {"id":"1","type":"function","function":{"name":"f","arguments":"{\"city\":\"Köln\",\"n\":3,\"none\":null,\"yes\":true}"}},
      {"id":"2","function":{"name":"g","arguments":{"o":{"x":"<y>"},"l":[1,[2],"s"]}}},
      {"function":{"name":"h","arguments":""}}]},
    {"role":"tool","tool_call_id":"1","content":"one"},{"role":"tool","content":"two"},
    {"role":"user","content":"E"}])",
                        {.generationPrompt = false}),
            "]~b]developer\nYou are a helpful assistant.[e~[\n]~b]user\nQ[e~[\n]~b]ai\n</mm:think>"
            "]<]minimax[>[<tool_call>\n"
            "]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<city>Köln]<]minimax[>[</city>"
            "]<]minimax[>[<n>3]<]minimax[>[</n>]<]minimax[>[<yes>true]<]minimax[>[</"
            "yes>]<]minimax[>[</invoke>\n"
            "]<]minimax[>[<invoke "
            "name=\"g\">]<]minimax[>[<o>]<]minimax[>[<x><y>]<]minimax[>[</x>]<]minimax[>[</o>"
            "]<]minimax[>[<l>]<]minimax[>[<item>1]<]minimax[>[</"
            "item>]<]minimax[>[<item>]<]minimax[>[<item>2"
            "]<]minimax[>[</item>]<]minimax[>[</item>]<]minimax[>[<item>s]<]minimax[>[</"
            "item>]<]minimax[>[</l>"
            "]<]minimax[>[</invoke>\n"
            "]<]minimax[>[<invoke name=\"h\">]<]minimax[>[</invoke>\n"
            "]<]minimax[>[</tool_call>[e~[\n"
            "]~b]tool\n<response>one</response>\n<response>two</response>[e~[\n]~b]user\nE[e~[\n");
}

// Every place where a request brings text: none may produce a control token.
TEST(ChatTemplate, RequestsCannotWriteControlTokens) {
  Tokenizer tokenizer = smallTokenizer();
  auto controls = [&](const std::string &word) {
    std::string messages =
        R"([{"role":"root","content":"W"},{"role":"system","content":"W"},{"role":"user","content":"W"},
      {"role":"assistant","reasoning_content":"W","content":"W","tool_calls":[{"name":"W","arguments":{"W":"W"}}]},
      {"role":"tool","content":"W"}])";
    std::string tools = R"([{"name":"f","description":"W"}])";
    for (std::string *text : {&messages, &tools})
      for (size_t at = 0; (at = text->find('W', at)) != std::string::npos; at += word.size())
        text->replace(at, 1, word);
    size_t count = 0;
    for (int32_t id : encodeChat(tokenizer, renderChat(messages, {.tools = tools})))
      count += tokenizer.isSpecial(id);
    return count;
  };
  size_t plain = controls("word");
  EXPECT_GT(plain, 20u);
  for (const char *word : {"[e~[", "]~b]", "]~!b[", "]<]image[>["}) {
    // The characters < > / cannot stand in names of tools and parameters.
    bool tag = std::string(word).find_first_of("<>") == std::string::npos;
    if (tag)
      EXPECT_EQ(controls(word), plain) << word;
    else
      EXPECT_THROW(controls(word), Error) << word;
  }
  std::string image = "[{\"role\":\"user\",\"content\":\"]<]image[>[</mm:think>\"}]";
  std::vector<int32_t> ids = encodeChat(tokenizer, renderChat(image, {}));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer.idOf("]<]image[>[")), 0);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer.idOf("</mm:think>")), 0);
}

TEST(ChatTemplate, RefusesWhatItCannotRender) {
  auto refused = [](const char *messages, const char *where) {
    try {
      renderChat(messages, {});
      ADD_FAILURE() << messages;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(where), std::string::npos) << error.what();
    }
  };
  refused("[]", "messages");
  refused("{}", "messages");
  refused("[{\"role\":\"user\"", "messages");
  refused("[3]", "messages[0]");
  refused(R"([{"content":"x"}])", "messages[0].role");
  refused(R"([{"role":"boss","content":"x"}])", "boss");
  refused(R"([{"role":"user","content":"x"},{"role":"root","content":"x"}])", "messages[1]");
  refused(R"([{"role":"user","content":5}])", "messages[0].content");
  refused(R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
          "image_url");
  refused(R"([{"role":"user","content":"x","audio":{}}])", "audio");
  refused(R"([{"role":"user","content":"x","tool_calls":[]}])", "tool_calls");
  refused(R"([{"role":"assistant","tool_calls":[{"name":"f","arguments":"{"}]}])",
          "tool_calls[0].arguments");
  refused(R"([{"role":"assistant","tool_calls":[{"name":"f","arguments":"[]"}]}])",
          "tool_calls[0].arguments");
  refused(R"([{"role":"assistant","tool_calls":[{"name":"f\"x","arguments":{}}]}])",
          "tool_calls[0].name");
  refused(R"([{"role":"assistant","tool_calls":[{"name":"f","arguments":{"a b":1}}]}])", "a b");
}

TEST(ChatTemplate, NamesTheControlTokenThatIsMissing) {
  nlohmann::json file = smallTokenizerJson();
  file["added_tokens"].erase(2);
  Tokenizer tokenizer = Tokenizer::parse(file.dump(), "no end", 0);
  try {
    encodeChat(tokenizer, renderChat(R"([{"role":"user","content":"Hi"}])", {}));
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(error.why().find("\"[e~[\""), std::string::npos) << error.what();
  }
}

/// A folder of the given files that goes away with the object.
class Folder {
public:
  Folder()
      : path(std::filesystem::path(testing::TempDir()) / ("m3c-text-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const char *name, std::string_view text) { std::ofstream(path / name) << text; }
  ModelFolder open() const { return ModelFolder(path); }

private:
  std::filesystem::path path;
};

TEST(TextConfig, EndTokensAreTheUnion) {
  Folder folder;
  Tokenizer tokenizer = smallTokenizer(); // 260 ]~!b[, 261 ]~b], 262 [e~[
  TextConfig none = loadTextConfig(folder.open(), tokenizer);
  EXPECT_TRUE(none.eosIds.empty());
  EXPECT_FALSE(none.bosId);
  folder.write("tokenizer_config.json",
               R"({"eos_token": {"content": "[e~["}, "bos_token": "]~!b["})");
  folder.write("generation_config.json",
               R"({"eos_token_id": [261, 262], "temperature": 0.5, "top_k": 40,
                                             "top_p": 0.95, "repetition_penalty": 1.1})");
  folder.write("config.json",
               R"({"eos_token_id": 100, "text_config": {"eos_token_id": 101, "bos_token_id": 3}})");
  TextConfig config = loadTextConfig(folder.open(), tokenizer);
  EXPECT_EQ(config.eosIds, (std::vector<int32_t>{100, 101, 261, 262}));
  EXPECT_EQ(config.bosId, 260);
  EXPECT_EQ(config.temperature, 0.5);
  EXPECT_EQ(config.topP, 0.95);
  EXPECT_EQ(config.topK, 40u);
  ASSERT_EQ(config.notes.size(), 2u);
  EXPECT_NE(config.notes[0].find("repetition_penalty"), std::string::npos);
  EXPECT_NE(config.notes[1].find("262 (generation_config.json)"), std::string::npos)
      << config.notes[1];
}

TEST(TextConfig, RefusesWrongKinds) {
  Tokenizer tokenizer = smallTokenizer();
  auto refused = [&](const char *name, const char *text, const char *word) {
    Folder folder;
    folder.write(name, text);
    try {
      loadTextConfig(folder.open(), tokenizer);
      ADD_FAILURE() << text;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  refused("config.json", R"({"eos_token_id": 99999})", "99999");
  refused("config.json", R"({"eos_token_id": "x"})", "eos_token_id");
  refused("config.json", "[]", "object");
  refused("generation_config.json", R"({"top_k": -1})", "top_k");
  refused("generation_config.json", R"({"temperature": "hot"})", "temperature");
  refused("generation_config.json", R"({"temperature": -0.5})", "temperature");
  refused("generation_config.json", R"({"top_p": 1.5})", "top_p");
  refused("tokenizer_config.json", R"({"eos_token": "<absent>"})", "<absent>");
  refused("tokenizer_config.json", "{", "byte");
}

TEST(ChatTemplate, ATemplateOfTheCheckpointIsNotIgnoredSilently) {
  Folder folder;
  EXPECT_FALSE(chatTemplateNote(folder.open()));
  folder.write("tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
  EXPECT_TRUE(chatTemplateNote(folder.open()));
  folder.write("chat_template.jinja", "");
  EXPECT_NE(chatTemplateNote(folder.open())->find("chat_template.jinja"), std::string::npos);
}

} // namespace
} // namespace m3c::text
