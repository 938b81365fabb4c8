#include "runtime/text/bpe/Bpe.h"

#include <algorithm>
#include <limits>

#include "runtime/text/Utf8.h"

namespace m3c::text {

namespace {

constexpr uint32_t none = std::numeric_limits<uint32_t>::max();
constexpr size_t cachedWordBytes = 64, cachedWords = 1 << 16;

bool standsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<uint32_t, 256> symbolOf{};
  std::array<int16_t, 0x144> byteOf{}; // U+0100 + 68 is the first character past the alphabet

  Alphabet() {
    byteOf.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      symbolOf[byte] = standsForItself(byte) ? byte : next++;
      byteOf[symbolOf[byte]] = int16_t(byte);
    }
  }
};

const Alphabet &alphabet() {
  static const Alphabet instance;
  return instance;
}

} // namespace

uint32_t byteToSymbol(uint8_t byte) { return alphabet().symbolOf[byte]; }

bool symbolsToBytes(std::string_view entry, std::string &bytes) {
  bytes.clear();
  for (size_t at = 0; at < entry.size(); at += scanUtf8(entry.substr(at)).size) {
    uint32_t symbol = decodeUtf8(entry.substr(at));
    if (symbol >= alphabet().byteOf.size() || alphabet().byteOf[symbol] < 0)
      return false;
    bytes += char(alphabet().byteOf[symbol]);
  }
  return true;
}

bool Bpe::addMerge(int32_t left, int32_t right, Merge merge) {
  return merges.insert_or_assign(key(left, right), merge).second;
}

size_t Bpe::Encoder::encode(std::string_view word, std::vector<int32_t> &out) {
  std::string wordKey;
  bool small = word.size() <= cachedWordBytes;
  if (small || !bpe.wholeWords.empty())
    wordKey = word;
  if (small)
    if (auto hit = cache.find(wordKey); hit != cache.end()) {
      out.insert(out.end(), hit->second.begin(), hit->second.end());
      return word.size();
    }
  if (auto whole = bpe.wholeWords.find(wordKey); whole != bpe.wholeWords.end() && !word.empty()) {
    out.push_back(whole->second);
    return word.size();
  }

  symbols.clear();
  for (size_t i = 0; i < word.size(); ++i) {
    int32_t id = bpe.byteIds[uint8_t(word[i])];
    if (id < 0)
      return i;
    uint32_t here = uint32_t(i);
    symbols.push_back({id, i == 0 ? none : here - 1, i + 1 == word.size() ? none : here + 1, true});
  }
  size_t first = out.size();
  merge(out);
  if (small && cache.size() < cachedWords)
    cache.emplace(std::move(wordKey),
                  std::vector<int32_t>(out.begin() + ptrdiff_t(first), out.end()));
  return word.size();
}

namespace {

// std::push_heap keeps the largest in front; the best candidate has the lowest rank, then position.
constexpr auto worse = [](const auto &a, const auto &b) {
  return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
};

} // namespace

void Bpe::Encoder::consider(uint32_t left) {
  if (left == none || symbols[left].next == none)
    return;
  auto rule = bpe.merges.find(key(symbols[left].id, symbols[symbols[left].next].id));
  if (rule == bpe.merges.end())
    return;
  heap.push_back({rule->second.rank, left, rule->second.id});
  std::push_heap(heap.begin(), heap.end(), worse);
}

void Bpe::Encoder::merge(std::vector<int32_t> &out) {
  heap.clear();
  for (uint32_t i = 0; i < symbols.size(); ++i)
    consider(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), worse);
    Candidate best = heap.back();
    heap.pop_back();
    Symbol &left = symbols[best.left];
    if (!left.alive || left.next == none)
      continue;
    Symbol &right = symbols[left.next];
    // The pair may have changed since it was considered.
    auto rule = bpe.merges.find(key(left.id, right.id));
    if (rule == bpe.merges.end() || rule->second.id != best.id)
      continue;
    left.id = best.id;
    left.next = right.next;
    right.alive = false;
    if (right.next != none)
      symbols[right.next].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (uint32_t i = symbols.empty() ? none : 0; i != none; i = symbols[i].next)
    out.push_back(symbols[i].id);
}

} // namespace m3c::text
