#include "runtime/text/ChatTemplate.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/base/Error.h"
#include "runtime/base/Json.h"
#include "runtime/text/FolderFile.h"

namespace m3c::text {

namespace {

using Json = nlohmann::ordered_json; // the model sees keys in the order of the request

constexpr std::string_view bos = "]~!b[", turn = "]~b]", turnEnd = "[e~[\n",
                           thinkOpen = "<mm:think>", thinkClose = "</mm:think>",
                           tagSpace = "]<]minimax[>[";
constexpr std::array controlTokens = {bos,       turn,       std::string_view("[e~["),
                                      thinkOpen, thinkClose, tagSpace};

constexpr std::string_view identity = "You are MiniMax-M3, an assistant made by MiniMax.";
constexpr std::string_view defaultDeveloper = "You are a helpful assistant.";
constexpr std::string_view thinkingRule =
    "Reasoning stands before the reply, apart from it; the reader of the reply does not see it.";

std::string_view thinkingText(ThinkingMode mode) {
  switch (mode) {
  case ThinkingMode::Enabled:
    return "Thinking mode: enabled. Reason before every reply, also after results of tools.";
  case ThinkingMode::Disabled:
    return "Thinking mode: disabled. Reply without reasoning.";
  case ThinkingMode::Adaptive:
    break;
  }
  return "Thinking mode: adaptive. Reason where a task is hard, has several steps, or where "
         "results of "
         "tools must be weighed.";
}

/// JSON as Python's json.dumps writes it: a space after ':' and ',', text not escaped to ASCII.
std::string spacedJson(const Json &value) {
  if (!value.is_structured())
    return value.dump(-1, ' ', false);
  std::string text;
  for (const auto &[key, member] : value.items()) {
    text += text.empty() ? "" : ", ";
    text += (value.is_object() ? Json(key).dump(-1, ' ', false) + ": " : "") + spacedJson(member);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

/// Strictness comes from the base parser, the order of keys from the library's own.
Json parseOrdered(std::string_view text, const std::string &name) {
  parseJson(text, name);
  return Json::parse(text);
}

class Renderer {
public:
  explicit Renderer(const ChatOptions &options) : options(options) {}

  std::vector<Segment> render(const Json &messages) {
    if (!messages.is_array() || messages.empty())
      fail("messages", "expected a list of at least one message");
    for (size_t i = 0; i < messages.size(); ++i)
      checkKeys(messages[i], fmt::format("messages[{}]", i));
    size_t next = head(messages);
    for (; next < messages.size(); ++next)
      message(messages, next);
    if (options.generationPrompt)
      generationPrompt();
    return std::move(segments);
  }

private:
  [[noreturn]] static void fail(const std::string &where, const std::string &why) {
    throw Error("cannot render the conversation", where, why);
  }

  void put(std::string_view text, bool isTemplate) {
    if (text.empty())
      return;
    if (!segments.empty() && segments.back().isTemplate == isTemplate)
      segments.back().text += text;
    else
      segments.push_back({std::string(text), isTemplate});
  }
  void fixed(std::string_view text) { put(text, true); }
  void given(std::string_view text) { put(text, false); }

  static const Json &member(const Json &object, const char *key) {
    static const Json null;
    auto found = object.find(key);
    return found == object.end() ? null : *found;
  }

  static std::string role(const Json &message) { return message["role"].get<std::string>(); }

  static void checkKeys(const Json &message, const std::string &where) {
    static constexpr std::array<std::string_view, 7> known = {
        "role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name", "id"};
    static constexpr std::array<std::string_view, 6> roles = {"root", "system",    "developer",
                                                              "user", "assistant", "tool"};
    if (!message.is_object())
      fail(where, "expected an object with \"role\" and \"content\"");
    const Json &role = member(message, "role");
    if (!role.is_string() ||
        std::find(roles.begin(), roles.end(), role.get_ref<const std::string &>()) == roles.end())
      fail(where + ".role",
           fmt::format("found {}, expected root, system, developer, user, assistant "
                       "or tool",
                       printable(role.dump())));
    for (const auto &[key, value] : message.items())
      if (!value.is_null() && std::find(known.begin(), known.end(), key) == known.end())
        fail(where, fmt::format("the key \"{}\" is not supported", printable(key)));
    for (const char *key : {"reasoning_content", "tool_calls"})
      if (role != "assistant" && !member(message, key).is_null())
        fail(where, fmt::format("\"{}\" belongs to the assistant", key));
  }

  /// The text of a message; empty if its content is null or absent.
  static std::string content(const Json &message, const std::string &where) {
    const Json &value = member(message, "content");
    if (value.is_null())
      return "";
    if (value.is_string())
      return value.get<std::string>();
    if (!value.is_array())
      fail(where + ".content", "expected a string or a list of parts");
    std::string text;
    for (const Json &part : value) {
      bool isText =
          part.is_object() && member(part, "type") == "text" && member(part, "text").is_string();
      if (!isText)
        fail(where + ".content",
             fmt::format("found {}; only parts {{\"type\": \"text\", \"text\": …}} are supported",
                         printable(spacedJson(part), 80)));
      text += part["text"].get<std::string>();
    }
    return text;
  }

  /// The system and developer turns. Returns the index of the first message that they did not use
  /// up.
  size_t head(const Json &messages) {
    size_t next = 0;
    fixed(bos);
    fixed(turn);
    fixed("system\n");
    if (role(messages[next]) == "root") {
      given(content(messages[next], "messages[0]"));
      ++next;
    } else {
      fixed(identity);
    }
    fixed(fmt::format("\n\n<thinking_instructions>\n{}\n{}\n</thinking_instructions>", thinkingRule,
                      thinkingText(options.thinking)));
    if (!options.reasoningEffort.empty())
      fixed(fmt::format("\n\n<effort>{}</effort>", options.reasoningEffort));
    fixed(turnEnd);

    fixed(turn);
    fixed("developer\n");
    bool developer = next < messages.size() &&
                     (role(messages[next]) == "system" || role(messages[next]) == "developer");
    if (developer) {
      given(content(messages[next], fmt::format("messages[{}]", next)));
      ++next;
    } else {
      fixed(defaultDeveloper);
    }
    tools();
    fixed(turnEnd);
    return next;
  }

  void tools() {
    if (options.tools.empty())
      return;
    Json list = parseOrdered(options.tools, "tools");
    if (!list.is_array())
      fail("tools", "expected a list");
    if (list.empty())
      return;
    fixed("\n\n# Tools\nThese tools can be called. Each is described in JSON:\n<tools>\n");
    for (size_t i = 0; i < list.size(); ++i) {
      bool wrapped = list[i].is_object() && list[i].contains("function");
      const Json &function = wrapped ? list[i]["function"] : list[i];
      std::string where = fmt::format("tools[{}]", i);
      if (!function.is_object() || !member(function, "name").is_string())
        fail(where, "expected a function with a \"name\"");
      checkTag(function["name"].get<std::string>(), where + ".name");
      fixed("<tool>");
      given(spacedJson(function));
      fixed("</tool>\n");
    }
    fixed("</tools>\n\nA call names the tool and gives each parameter in a tag of its own name; "
          "objects are nested tags and the entries of a list are item tags:\n");
    callBlock([this] {
      tag("invoke name=\"tool\"");
      tag("parameter");
      fixed("value");
      tag("/parameter");
      tag("/invoke");
    });
  }

  void message(const Json &messages, size_t &index) {
    const Json &message = messages[index];
    std::string where = fmt::format("messages[{}]", index), kind = role(message);
    if (kind == "root")
      fail(where, "a root message must come first");
    if (kind == "tool")
      return toolTurn(messages, index);
    fixed(turn);
    fixed(kind == "user" ? "user\n" : kind == "assistant" ? "ai\n" : "developer\n");
    if (kind == "assistant")
      assistant(message, where);
    else
      given(content(message, where));
    fixed(turnEnd);
  }

  /// Consecutive tool messages share one turn; leaves `index` at the last of them.
  void toolTurn(const Json &messages, size_t &index) {
    fixed(turn);
    fixed("tool");
    for (; index < messages.size() && role(messages[index]) == "tool"; ++index) {
      fixed("\n<response>");
      given(content(messages[index], fmt::format("messages[{}]", index)));
      fixed("</response>");
    }
    --index;
    fixed(turnEnd);
  }

  void assistant(const Json &message, const std::string &where) {
    const Json &reasoning = member(message, "reasoning_content");
    if (!reasoning.is_null() && !reasoning.is_string())
      fail(where + ".reasoning_content", "expected a string");
    if (reasoning.is_string() && reasoning != "") {
      fixed(thinkOpen);
      given(reasoning.get<std::string>());
    }
    fixed(thinkClose);
    given(content(message, where));
    const Json &calls = member(message, "tool_calls");
    if (calls.is_null())
      return;
    if (!calls.is_array())
      fail(where + ".tool_calls", "expected a list");
    if (!calls.empty())
      callBlock([&] {
        for (size_t i = 0; i < calls.size(); ++i) {
          fixed(i == 0 ? "" : "\n");
          call(calls[i], fmt::format("{}.tool_calls[{}]", where, i));
        }
      });
  }

  template <class F> void callBlock(F invocations) {
    tag("tool_call");
    fixed("\n");
    invocations();
    fixed("\n");
    tag("/tool_call");
  }

  void call(const Json &call, const std::string &where) {
    bool wrapped = call.is_object() && member(call, "function").is_object();
    const Json &function = wrapped ? call["function"] : call;
    if (!function.is_object() || !member(function, "name").is_string())
      fail(where, "expected a function with a \"name\"");
    std::string name = function["name"].get<std::string>();
    checkTag(name, where + ".name");
    Json arguments = member(function, "arguments");
    if (arguments.is_string())
      arguments = arguments == ""
                      ? Json::object()
                      : parseOrdered(arguments.get<std::string>(), where + ".arguments");
    if (arguments.is_null())
      arguments = Json::object();
    if (!arguments.is_object())
      fail(where + ".arguments", "expected an object");
    fixed(tagSpace);
    fixed("<invoke name=\"");
    given(name);
    fixed("\">");
    value(arguments, where + ".arguments");
    tag("/invoke");
  }

  /// A tag of the template, marked by the token that no text of a user can contain.
  void tag(std::string_view text) {
    fixed(tagSpace);
    fixed("<");
    fixed(text);
    fixed(">");
  }

  void givenTag(std::string_view slash, const std::string &name) {
    fixed(tagSpace);
    fixed("<");
    fixed(slash);
    given(name);
    fixed(">");
  }

  static void checkTag(const std::string &name, const std::string &where) {
    bool bad = name.empty() || std::any_of(name.begin(), name.end(), [](char c) {
                 return uint8_t(c) <= ' ' || c == '<' || c == '>' || c == '"' || c == '/';
               });
    if (bad)
      fail(where, fmt::format("\"{}\" cannot be written as a tag", printable(name)));
  }

  /// An argument: objects as nested tags without their null members, lists as item tags.
  void value(const Json &argument, const std::string &where) {
    if (argument.is_object()) {
      for (const auto &[key, member] : argument.items()) {
        if (member.is_null())
          continue;
        checkTag(key, where);
        givenTag("", key);
        value(member, where + "." + key);
        givenTag("/", key);
      }
    } else if (argument.is_array()) {
      for (const Json &entry : argument) {
        tag("item");
        value(entry, where + "[]");
        tag("/item");
      }
    } else {
      given(argument.is_string() ? argument.get<std::string>() : argument.dump());
    }
  }

  void generationPrompt() {
    fixed(turn);
    fixed("ai\n");
    if (options.thinking == ThinkingMode::Enabled)
      fixed(thinkOpen);
    if (options.thinking == ThinkingMode::Disabled)
      fixed(thinkClose);
  }

  const ChatOptions &options;
  std::vector<Segment> segments;
};

void checkEffort(const std::string &effort) {
  static constexpr std::array<std::string_view, 6> known = {"",     "max",    "xhigh",
                                                            "high", "medium", "low"};
  if (std::find(known.begin(), known.end(), effort) == known.end())
    throw Error(
        "unknown reasoning effort", "reasoning_effort",
        fmt::format("found \"{}\", expected max, xhigh, high, medium or low", printable(effort)),
        "", ExitCode::Usage);
}

} // namespace

ThinkingMode parseThinkingMode(std::string_view text) {
  if (text == "adaptive")
    return ThinkingMode::Adaptive;
  if (text == "enabled")
    return ThinkingMode::Enabled;
  if (text == "disabled")
    return ThinkingMode::Disabled;
  throw Error("unknown thinking mode", "thinking_mode",
              fmt::format("found \"{}\", expected adaptive, enabled or disabled", printable(text)),
              "", ExitCode::Usage);
}

std::vector<Segment> renderChat(std::string_view messages, const ChatOptions &options) {
  checkEffort(options.reasoningEffort);
  return Renderer(options).render(parseOrdered(messages, "messages"));
}

std::vector<int32_t> encodeChat(const Tokenizer &tokenizer, const std::vector<Segment> &segments) {
  for (std::string_view token : controlTokens)
    for (const Segment &segment : segments)
      if (segment.isTemplate && segment.text.find(token) != std::string::npos) {
        tokenizer.requireAddedToken(token, "the chat template");
        break;
      }
  return tokenizer.encode(segments);
}

std::optional<std::string> chatTemplateNote(const ModelFolder &folder) {
  constexpr std::string_view consequence =
      "is not interpreted; conversations follow the M3 rules built into m3c";
  for (const char *name : {"chat_template.jinja", "chat_template.json"})
    if (folder.has(name))
      return fmt::format("{} {}", folder.pathOf(name), consequence);
  constexpr const char *configName = "tokenizer_config.json";
  if (!folder.has(configName))
    return std::nullopt;
  nlohmann::json config = readFolderJson(folder, configName);
  if (!config.contains("chat_template"))
    return std::nullopt;
  return fmt::format("\"chat_template\" of {} {}", folder.pathOf(configName), consequence);
}

} // namespace m3c::text
