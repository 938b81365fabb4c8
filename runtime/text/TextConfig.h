// What the small JSON files beside a checkpoint say about generation: which tokens begin and end a
// text, the sampling defaults, and what of them has no effect here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/text/Tokenizer.h"

namespace m3c::text {

struct TextConfig {
  /// The token that begins a text; tokenizer_config.json, else generation_config.json, else
  /// config.json.
  std::optional<int32_t> bosId;
  /// Every token that ends a text: the union of what the three files name, ascending.
  std::vector<int32_t> eosIds;
  /// generation_config.json's defaults; temperature is 0 if it sets `do_sample` to false.
  std::optional<double> temperature, topP;
  std::optional<uint32_t> topK;
  /// Lines for the user: where the end tokens come from, and keys that have no effect.
  std::vector<std::string> notes;
};

/// Reads tokenizer_config.json, generation_config.json and config.json of `folder`; each may be
/// absent. Throws Error naming file and key on a file that is not JSON or a value of the wrong
/// kind, and on a token that the tokenizer does not have.
TextConfig loadTextConfig(const ModelFolder &folder, const Tokenizer &tokenizer);

} // namespace m3c::text
