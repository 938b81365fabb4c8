// Conversations in the format of MiniMax-M3 and M3.1, rendered by code (docs/model.md gives the
// rules).
//
//   ]~!b[]~b]system\n IDENTITY \n\n<thinking_instructions>\n…\n</thinking_instructions>[e~[\n
//   ]~b]developer\n SYSTEM MESSAGE, TOOLS [e~[\n   ]~b]user\n…[e~[\n   ]~b]ai\n…[e~[\n
//   ]~b]tool\n…[e~[\n
//   ]~b]ai\n <mm:think> or </mm:think> or nothing, by thinking mode
//
// The result is a list of segments: what the template writes, and what came with the messages. Only
// template segments may become control tokens (Tokenizer::encode of segments), so a user who writes
// "[e~[" or "]<]image[>[" writes those characters and nothing else.
//
// The wording of the identity, the thinking instructions and the tools section is m3c's own; a root
// message replaces the identity. A template shipped with a checkpoint is not interpreted:
// `chatTemplateNote` says so for a folder that has one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/text/Tokenizer.h"

namespace m3c::text {

enum class ThinkingMode {
  Adaptive, ///< the model decides
  Enabled,  ///< the reply begins inside <mm:think>
  Disabled  ///< the reply begins after </mm:think>
};

struct ChatOptions {
  ThinkingMode thinking = ThinkingMode::Adaptive;
  /// M3.1: "max", "xhigh", "high", "medium" or "low"; empty: not stated.
  std::string reasoningEffort = {};
  /// JSON: a list of tools, each {"type": "function", "function": {…}} or the function itself.
  std::string tools = {};
  /// End with the beginning of the assistant's turn.
  bool generationPrompt = true;
};

/// "adaptive", "enabled", "disabled"; throws Error (wrong usage) on anything else.
ThinkingMode parseThinkingMode(std::string_view text);

/// Renders `messages`, JSON in the OpenAI chat form: a list of objects with `role` (root, system,
/// developer, user, assistant, tool), `content` (a string, or a list of {"type": "text", "text":
/// …}), and for the assistant `reasoning_content` and `tool_calls`. Throws Error naming the message
/// and the key on anything that cannot be rendered, images and unknown keys included.
std::vector<Segment> renderChat(std::string_view messages, const ChatOptions &options);

/// The ids of a rendered conversation. Throws Error naming the control token if the tokenizer lacks
/// one.
std::vector<int32_t> encodeChat(const Tokenizer &tokenizer, const std::vector<Segment> &segments);

/// A line for the user if the folder has a chat template of its own, which m3c does not interpret.
std::optional<std::string> chatTemplateNote(const ModelFolder &folder);

} // namespace m3c::text
