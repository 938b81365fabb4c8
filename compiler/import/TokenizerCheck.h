// Checks of tokenizer.json that need no tokenizer: the file is sound and no id lies beyond the
// vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace m3c {

/// Throws Error naming `file` and the position or the id. `vocab` is vocab_size of config.json.
void checkTokenizer(std::string_view text, const std::string &file, int64_t vocab);

} // namespace m3c
