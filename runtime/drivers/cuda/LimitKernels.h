// PTX text of the kernels that measure what a GPU can do at best. The driver compiles it, so no
// compiler is needed where the runtime runs.
#pragma once

#include <cstdint>
#include <string>

namespace m3c::hal::cuda {

constexpr uint32_t limitThreads = 256; ///< of a block, for all of them

/// Multiply-adds of one thread of fma_f32 in one iteration.
constexpr uint32_t fmaPerIteration = 128;
/// Multiply-adds of one block of matrix_bf16 in one iteration: two warpgroups, 64 x 256 x 64 each.
constexpr uint64_t matrixPerIteration = 2ull * 64 * 256 * 64;
constexpr uint32_t matrixSharedBytes = (2 * 64 + 256) * 64 * 2;
/// 16-byte loads of one thread of read_all in one iteration.
constexpr uint32_t loadsPerIteration = 8;

/// For compute capability 8.0 and later:
///  read_all(data, iterations, sink): all blocks read 16 · loadsPerIteration bytes a thread and
///    iteration, one after the other through `data`; `sink` keeps the compiler from dropping it;
///  fma_f32(iterations, sink).
std::string generalLimitText();

/// For sm_90a: matrix_bf16(iterations, sink), products of BF16 in shared memory with FP32 sums.
std::string matrixLimitText();

} // namespace m3c::hal::cuda
