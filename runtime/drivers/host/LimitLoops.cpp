#include "runtime/drivers/host/LimitLoops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace m3c::hal {

namespace {

// A compiler that cannot see into the value must compute it.
void keep(uint64_t &value) { asm volatile("" : "+r"(value)); }

#if defined(__x86_64__)

// Four accumulators: two loads a cycle on current cores, and an XOR takes one.
[[gnu::target("avx2")]] void readNarrow(const std::byte *from, uint64_t bytes) {
  __m256i sums[4] = {};
  auto *vectors = reinterpret_cast<const __m256i *>(from);
  for (uint64_t i = 0; i < bytes / 32; i += 32)
    for (int j = 0; j < 32; ++j)
      sums[j % 4] = _mm256_xor_si256(sums[j % 4], _mm256_load_si256(vectors + i + j));
  for (__m256i &sum : sums)
    asm volatile("" : "+x"(sum));
}

[[gnu::target("avx512f")]] void readWide(const std::byte *from, uint64_t bytes) {
  __m512i sums[4] = {};
  auto *vectors = reinterpret_cast<const __m512i *>(from);
  for (uint64_t i = 0; i < bytes / 64; i += 16)
    for (int j = 0; j < 16; ++j)
      sums[j % 4] = _mm512_xor_si512(sums[j % 4], _mm512_load_si512(vectors + i + j));
  for (__m512i &sum : sums)
    asm volatile("" : "+v"(sum));
}

// Latency 4 or 5 times two instructions a cycle: ten chains keep the units busy. 12 accumulators
// and two operands fit 16 registers, 24 and two fit 32.
constexpr int narrowChains = 12, wideChains = 24;

[[gnu::target("avx2,fma")]] void multiplyNarrow(uint64_t rounds) {
  __m256 sums[narrowChains], a = _mm256_set1_ps(0.999999f), b = _mm256_set1_ps(1e-6f);
  for (__m256 &sum : sums) { // hidden from the compiler, which would fold equal chains
    sum = _mm256_set1_ps(1.0f);
    asm volatile("" : "+x"(sum));
  }
  for (uint64_t i = 0; i < rounds; ++i)
    for (__m256 &sum : sums)
      sum = _mm256_fmadd_ps(sum, a, b);
  for (__m256 &sum : sums)
    asm volatile("" : "+x"(sum));
}

[[gnu::target("avx512f")]] void multiplyWide(uint64_t rounds) {
  __m512 sums[wideChains], a = _mm512_set1_ps(0.999999f), b = _mm512_set1_ps(1e-6f);
  for (__m512 &sum : sums) { // hidden from the compiler, which would fold equal chains
    sum = _mm512_set1_ps(1.0f);
    asm volatile("" : "+v"(sum));
  }
  for (uint64_t i = 0; i < rounds; ++i)
    for (__m512 &sum : sums)
      sum = _mm512_fmadd_ps(sum, a, b);
  for (__m512 &sum : sums)
    asm volatile("" : "+v"(sum));
}

#endif

} // namespace

void readLines(const std::byte *from, uint64_t bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return readWide(from, bytes);
  if (__builtin_cpu_supports("avx2"))
    return readNarrow(from, bytes);
#endif
  uint64_t sum = 0;
  auto *words = reinterpret_cast<const uint64_t *>(from);
  for (uint64_t i = 0; i < bytes / 8; ++i)
    sum ^= words[i];
  keep(sum);
}

ArithmeticLoop arithmeticLoop(std::string_view set) {
#if defined(__x86_64__)
  if (set == "avx2" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {multiplyNarrow, narrowChains * 8 * 2};
  if (set == "avx512f" && __builtin_cpu_supports("avx512f"))
    return {multiplyWide, wideChains * 16 * 2};
#endif
  (void)set;
  return {};
}

void chainAdditions(uint64_t count) {
  uint64_t value = 1, step = 3;
  keep(step);
  for (uint64_t i = 0; i < count; i += 64)
    for (int j = 0; j < 64; ++j) {
      value += step;
      keep(value);
    }
}

} // namespace m3c::hal
