// The processor's limits: read bandwidth of memory and FP32 arithmetic, with all workers.
#include "runtime/drivers/host/HostDevice.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace m3c::hal {

namespace {

using Clock = std::chrono::steady_clock;

/// Seconds of the fastest of some runs: interruptions only ever add time.
double fastest(ThreadPool &pool, const ThreadPool::Job &job, int runs) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    Clock::time_point begun = Clock::now();
    pool.run(&job, 1);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begun).count());
  }
  return best;
}

constexpr uint64_t chunkBytes = 1 << 20;
// Several times the last-level cache that one socket has.
constexpr uint64_t readBytes = 512 << 20;

std::atomic<uint64_t> sink;

void readChunk(const void *context, uint64_t begin, uint64_t end, unsigned) {
  const auto *memory = static_cast<const std::byte *>(context);
  uint64_t sums[8] = {};
  for (uint64_t at = begin * chunkBytes; at < end * chunkBytes; at += sizeof(sums)) {
    uint64_t line[8];
    std::memcpy(line, memory + at, sizeof(line));
    for (int i = 0; i < 8; ++i)
      sums[i] += line[i];
  }
  sink += sums[0] ^ sums[3] ^ sums[5];
}

#if defined(__x86_64__)
// Twelve independent chains hide the latency of a multiply-add (4 cycles, two a cycle).
constexpr int chains = 12;
constexpr uint64_t rounds = 1 << 20;

__attribute__((target("avx2,fma"))) void multiplyAdd256(const void *, uint64_t, uint64_t,
                                                        unsigned) {
  __m256 values[chains], scale = _mm256_set1_ps(0.999f), add = _mm256_set1_ps(0.001f);
  for (__m256 &value : values)
    value = add;
  for (uint64_t i = 0; i < rounds; ++i)
    for (__m256 &value : values)
      value = _mm256_fmadd_ps(value, scale, add);
  __m256 sum = values[0];
  for (int i = 1; i < chains; ++i)
    sum = _mm256_add_ps(sum, values[i]);
  sink += uint64_t(_mm256_cvtss_f32(sum));
}

__attribute__((target("avx512f"))) void multiplyAdd512(const void *, uint64_t, uint64_t, unsigned) {
  __m512 values[chains], scale = _mm512_set1_ps(0.999f), add = _mm512_set1_ps(0.001f);
  for (__m512 &value : values)
    value = add;
  for (uint64_t i = 0; i < rounds; ++i)
    for (__m512 &value : values)
      value = _mm512_fmadd_ps(value, scale, add);
  __m512 sum = values[0];
  for (int i = 1; i < chains; ++i)
    sum = _mm512_add_ps(sum, values[i]);
  sink += uint64_t(_mm512_cvtss_f32(sum));
}

/// One item for each worker; `lanes` floats a vector.
double arithmeticSpeed(ThreadPool &pool, decltype(&multiplyAdd256) run, uint64_t lanes) {
  uint64_t items = 2 * pool.workers();
  double seconds = fastest(pool, {run, nullptr, items}, 20);
  return double(items * rounds * chains * lanes * 2) / seconds;
}
#endif

} // namespace

DeviceLimits HostDevice::measureLimits() {
  DeviceLimits limits;
  std::unique_ptr<Buffer> memory = allocate(readBytes, MemoryKind::Device, "a speed test");
  std::memset(memory->host(), 1, readBytes); // pages of its own
  limits.readBytesPerSecond =
      double(readBytes) / fastest(pool, {readChunk, memory->host(), readBytes / chunkBytes}, 5);
#if defined(__x86_64__)
  if (description.supports("avx2") && description.supports("fma"))
    limits.arithmetic.push_back({"avx2", arithmeticSpeed(pool, multiplyAdd256, 8)});
  if (description.supports("avx512f"))
    limits.arithmetic.push_back({"avx512f", arithmeticSpeed(pool, multiplyAdd512, 16)});
#endif
  return limits;
}

} // namespace m3c::hal
