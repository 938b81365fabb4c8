#include "tests/numerics/CacheImage.h"

#include "runtime/base/Formats.h"

#include <cstring>
#include <stdexcept>
#include <sys/mman.h>

namespace m3c::numerics {

using interpreter::Lane;
using interpreter::Step;

constexpr int64_t tokens = interpreter::PagedCache::pageTokens;

std::string CacheSpec::type() const {
  return "!m3.cache<kv = " + storage +
         ", grid = " + (e4m3Grid && storage == "nvfp4" ? "e4m3" : "exact") +
         ", page = 128, layers = 1, kv_heads = " + std::to_string(kvHeads) +
         ", head_dim = " + std::to_string(headDim) + ", index_dim = " + std::to_string(indexDim) +
         ">";
}

Step CacheSpec::step() const {
  if (storage == "f32")
    return Step::None;
  if (storage == "bf16")
    return Step::Bf16;
  if (storage == "fp8")
    return Step::E4m3;
  return e4m3Grid ? Step::Nvfp4E4m3 : Step::Nvfp4;
}

CacheImage::CacheImage(const CacheSpec &spec, int64_t pages) : shape(spec) {
  pageBytes = 2 * spec.kvHeads * slotBytes(spec.headDim) + slotBytes(spec.indexDim);
  reserved = pages * pageBytes;
  void *range = mmap(nullptr, size_t(reserved), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    throw std::runtime_error("cannot reserve addresses for the cache");
  memory = static_cast<std::byte *>(range);
  numbers = std::make_unique<interpreter::PagedCache>(
      interpreter::CacheShape{1, spec.kvHeads, spec.headDim, spec.indexDim, spec.step()});
}

CacheImage::~CacheImage() { munmap(memory, size_t(reserved)); }

int64_t CacheImage::slotBytes(int64_t dims) const {
  if (shape.storage == "nvfp4")
    return tokens * (dims / 2 + dims / 16);
  return tokens * dims * (shape.storage == "f32" ? 4 : shape.storage == "bf16" ? 2 : 1);
}

std::byte *CacheImage::slot(Lane lane, int32_t page, int64_t head) const {
  int64_t number = lane == Lane::IndexKey ? 2 * shape.kvHeads : 2 * head + (lane == Lane::Value);
  return memory + int64_t(page) * pageBytes + number * slotBytes(shape.headDim);
}

void CacheImage::poison(int32_t page) {
  // All ones are NaN as F32, BF16, E4M3 and as an NVFP4 scale.
  std::memset(memory + int64_t(page) * pageBytes, 0xff, size_t(pageBytes));
}

void CacheImage::write(Lane lane, int32_t page, int64_t token, int64_t head,
                       std::span<const double> values) {
  numbers->write(lane, 0, page, token, head, values);
  std::byte *bytes = slot(lane, page, head);
  int64_t dims = int64_t(values.size()), groups = dims / 16;
  std::vector<double> rounded;
  for (int64_t d = 0; d < dims; ++d) {
    float x = float(values[size_t(d)]);
    if (shape.storage == "f32")
      std::memcpy(bytes + (token * dims + d) * 4, &x, 4);
    uint16_t half = formats::floatToBf16(x);
    if (shape.storage == "bf16")
      std::memcpy(bytes + (token * dims + d) * 2, &half, 2);
    x = formats::bf16ToFloat(half);
    if (shape.storage == "fp8")
      bytes[token * dims + d] = std::byte(formats::floatToE4m3(x));
    rounded.push_back(double(x));
  }
  if (shape.storage != "nvfp4")
    return;
  for (int64_t g = 0; g < groups; ++g) {
    interpreter::Nvfp4Group group =
        interpreter::encodeNvfp4(std::span<const double, 16>(rounded.data() + 16 * g, 16));
    for (int64_t i = 0; i < 8; ++i)
      bytes[token * dims / 2 + 8 * g + i] =
          std::byte(group.codes[2 * i] | group.codes[2 * i + 1] << 4);
    int64_t at =
        lane == Lane::Value ? token / 4 * 4 * groups + 4 * g + token % 4 : token * groups + g;
    bytes[tokens * dims / 2 + at] = std::byte(group.scale);
  }
}

} // namespace m3c::numerics
