#include "runtime/kv/PagePool.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace m3c {

PagePool::PagePool(hal::Device &device, hal::Stream &stream, const PagePoolOptions &options)
    : stream(stream), options(options) {
  if (options.pages == 0 || options.pages > INT32_MAX)
    throw Error(fmt::format("a cache of {} pages is not possible", options.pages), "KV cache",
                "page ids are 32-bit: 1 to 2147483647 pages");
  uint64_t bytes;
  if (__builtin_mul_overflow(options.pages, options.pageBytes, &bytes))
    throw Error(fmt::format("a cache of {} pages is not possible", options.pages), "KV cache",
                fmt::format("a page has {} bytes", options.pageBytes));
  buffer = device.allocate(bytes, hal::MemoryKind::Device,
                           fmt::format("the KV cache of {} pages", options.pages));
  taken.resize(options.pages);
  freeList.resize(options.pages);
  for (uint64_t i = 0; i < options.pages; ++i)
    freeList[i] = int32_t(options.pages - 1 - i);
  if (options.shuffleSeed) {
    std::mt19937_64 random(*options.shuffleSeed);
    std::shuffle(freeList.begin(), freeList.end(), random);
  }
  if (options.poison)
    stream.fill(*buffer, 0, bytes, 0xff);
}

void PagePool::poison(int32_t page) {
  stream.fill(*buffer, uint64_t(page) * options.pageBytes, options.pageBytes, 0xff);
}

std::optional<int32_t> PagePool::allocate() {
  if (freeList.empty())
    return std::nullopt;
  int32_t page = freeList.back();
  freeList.pop_back();
  taken[size_t(page)] = true;
  return page;
}

void PagePool::release(int32_t page) {
  if (page < 0 || uint64_t(page) >= options.pages || !taken[size_t(page)])
    throw Error(fmt::format("page {} is not in use", page), "KV cache");
  taken[size_t(page)] = false;
  freeList.push_back(page); // has room: it never holds more than all pages
  if (options.poison)
    poison(page);
}

} // namespace m3c
