// A toy model and helpers as host kernels. The model's logits depend on every token of the sequence
// that came before, read back from the paged cache, so that any error of packing, paging or order
// changes them. `toyLogit` in ToyPlan.h says the same directly.
#include <cstdint>

namespace {
template <typename T> T parameter(void *const *params, int i) {
  return *static_cast<T *>(params[i]);
}
constexpr int64_t pageTokens = 128;
} // namespace

extern "C" {

/// (float *data, int64 addend): data[x] += addend.
void add_to(void *const *params, uint32_t x, uint32_t, uint32_t, void *) {
  parameter<float *>(params, 0)[x] += float(parameter<int64_t>(params, 1));
}

/// (uint32 *out, int64 nx, int64 ny): out[item] = 1 + x + 100y + 10000z.
void write_index(void *const *params, uint32_t x, uint32_t y, uint32_t z, void *) {
  int64_t nx = parameter<int64_t>(params, 1), ny = parameter<int64_t>(params, 2);
  parameter<uint32_t *>(params, 0)[(z * ny + y) * nx + x] = 1 + x + 100 * y + 10000 * z;
}

/// (uint32 *out): fills the scratch area and adds it up; out[x] = 1024 · x.
void use_shared(void *const *params, uint32_t x, uint32_t, uint32_t, void *shared) {
  auto *scratch = static_cast<volatile uint32_t *>(shared);
  for (int i = 0; i < 1024; ++i)
    scratch[i] = x;
  uint32_t sum = 0;
  for (int i = 0; i < 1024; ++i)
    sum += scratch[i];
  bool aligned = (reinterpret_cast<uintptr_t>(shared) & 63) == 0;
  parameter<uint32_t *>(params, 0)[x] = aligned ? sum : ~0u;
}

#if defined(__x86_64__)
/// (int32 *out): the hint of a prefetch in the list of this object: 0 past the caches, 1 through.
void read_stream_hint(void *const *params, uint32_t, uint32_t, uint32_t, void *) {
  const uint8_t *place;
  asm volatile("lea 0f(%%rip), %0\n"
               "0: prefetchnta (%0)\n"
               ".pushsection m3_streams, \"a\", @progbits\n"
               ".long 0b - .\n"
               ".popsection"
               : "=r"(place));
  place += *place >> 4 == 4; // the prefix of registers above the eighth
  *parameter<int32_t *>(params, 0) = place[2] >> 3 & 7;
}
#endif

/// (): nothing, for timing.
void nothing(void *const *, uint32_t, uint32_t, uint32_t, void *) {}

/// (int32 *counts, int32 *ids, int32 *positions, int32 *sequences, int32 *table, byte *pool,
/// int64 pageBytes): stores the row's token in the cache. One item a row.
void toy_insert(void *const *params, uint32_t row, uint32_t, uint32_t, void *) {
  auto *counts = parameter<int32_t *>(params, 0);
  if (int32_t(row) >= counts[0])
    return;
  int32_t position = parameter<int32_t *>(params, 2)[row];
  int32_t sequence = parameter<int32_t *>(params, 3)[row];
  int64_t page =
      parameter<int32_t *>(params, 4)[int64_t(sequence) * counts[3] + position / pageTokens];
  auto *pool = parameter<char *>(params, 5);
  auto *slot = reinterpret_cast<int32_t *>(pool + page * parameter<int64_t>(params, 6));
  slot[position % pageTokens] = parameter<int32_t *>(params, 1)[row];
}

/// (counts, ids, positions, sequences, table, pool, pageBytes, int32 *blocks [rows, 1, 2],
/// int32 *experts [rows, 2]): taps. blocks = {own block, -1}, experts = {token % 3, 3 + token % 3}.
void toy_taps(void *const *params, uint32_t row, uint32_t, uint32_t, void *) {
  if (int32_t(row) >= parameter<int32_t *>(params, 0)[0])
    return;
  int32_t position = parameter<int32_t *>(params, 2)[row];
  int32_t token = parameter<int32_t *>(params, 1)[row];
  int32_t *blocks = parameter<int32_t *>(params, 7) + 2 * row;
  int32_t *experts = parameter<int32_t *>(params, 8) + 2 * row;
  blocks[0] = int32_t(position / pageTokens);
  blocks[1] = -1;
  experts[0] = token % 3;
  experts[1] = 3 + token % 3;
}

/// (counts, ids, positions, sequences, table, pool, pageBytes, int32 *logitRows, float *logits,
/// float *scale [vocab], int64 vocab): logits of one wanted row. Poisoned cache bytes give NaN.
void toy_logits(void *const *params, uint32_t item, uint32_t, uint32_t, void *) {
  auto *counts = parameter<int32_t *>(params, 0);
  if (int32_t(item) >= counts[2])
    return;
  int32_t row = parameter<int32_t *>(params, 7)[item];
  int32_t position = parameter<int32_t *>(params, 2)[row];
  int32_t sequence = parameter<int32_t *>(params, 3)[row];
  auto *table = parameter<int32_t *>(params, 4) + int64_t(sequence) * counts[3];
  auto *pool = parameter<char *>(params, 5);
  int64_t pageBytes = parameter<int64_t>(params, 6);
  uint32_t hash = 1;
  bool poisoned = false;
  for (int32_t p = 0; p <= position; ++p) {
    auto *slot = reinterpret_cast<int32_t *>(pool + table[p / pageTokens] * pageBytes);
    poisoned |= slot[p % pageTokens] < 0;
    hash = hash * 31 + uint32_t(slot[p % pageTokens]) * 7 + uint32_t(p);
  }
  int64_t vocab = parameter<int64_t>(params, 10);
  float *logits = parameter<float *>(params, 8) + item * vocab;
  float *scale = parameter<float *>(params, 9);
  for (int64_t v = 0; v < vocab; ++v)
    logits[v] =
        poisoned ? __builtin_nanf("") : scale[v] * float((hash ^ uint32_t(v * 2654435761u)) % 4096);
}

} // extern "C"
