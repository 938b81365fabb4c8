// Finds values that no sound checkpoint holds: NaN codes, infinities, scales that are zero,
// negative or not finite. Which rule a tensor falls under follows from its name and dtype
// (docs/checkpoints.md).
#pragma once

#include "runtime/checkpoint/Checkpoint.h"

#include <functional>
#include <optional>

namespace m3c {

enum class ValueRule {
  None,       ///< every bit pattern is legal (E2M1 codes, integers)
  Finite,     ///< BF16, F16, F32, E4M3: no NaN, no infinity
  BlockScale, ///< E4M3: positive and not NaN. Quantisers clamp a block scale to at least 2^-9 and
              ///< give blocks of zeros a positive one, so 0 would silently erase a block
  Exponent,   ///< E8M0: below 2^8 (code 135); 255 is the NaN
  TensorScale ///< F32: positive and finite
};

/// Rule for a tensor of this name; names are those of the checkpoint formats that m3c reads.
ValueRule valueRule(std::string_view tensorName, Dtype dtype);

/// Index of the first element of `bytes` that breaks the rule. `bytes` holds whole elements.
std::optional<uint64_t> findBadValue(ValueRule rule, Dtype dtype, std::span<const std::byte> bytes);

/// Throws Error naming file, tensor, element and value when `bytes`, the content of the tensor,
/// break its rule. `firstElement` is the index of the first element of `bytes` in the tensor.
void checkValues(const std::string &file, const TensorEntry &tensor,
                 std::span<const std::byte> bytes, uint64_t firstElement = 0);

/// Called with bytes done, bytes in all and the name of the shard; at least every 4 MiB.
using CheckProgress = std::function<void(uint64_t done, uint64_t total, const std::string &shard)>;

/// Reads every tensor of the shards whole, in file order and without mapping (memory stays flat),
/// and checks its values. Tensors that the index does not name are read as well.
void checkAllValues(const Checkpoint &checkpoint, const CheckProgress &progress);

} // namespace m3c
