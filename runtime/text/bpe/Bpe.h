// Byte-pair encoding over bytes: the merge rules of one vocabulary applied to one word.
//
// A word begins as one token per byte. As long as two neighbours have a merge rule, the pair with
// the lowest rank (the leftmost of equal ones) becomes one token. A heap of candidate pairs over a
// linked list makes that O(n log n) in the bytes of the word, so a long run without a split costs
// no more than many short words.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace m3c::text {

class Bpe {
public:
  struct Merge {
    uint32_t rank;
    int32_t id; // of the merged token
  };

  Bpe() { byteIds.fill(-1); }

  /// The token of one byte before any merge.
  void setByte(uint8_t byte, int32_t id) { byteIds[byte] = id; }

  void reserveMerges(size_t count) { merges.reserve(count); }

  /// Returns false, and keeps the new rule, when the pair already had one.
  bool addMerge(int32_t left, int32_t right, Merge merge);

  /// A whole word that is taken as one token before any merge is tried (`ignore_merges`).
  void addWholeWord(std::string word, int32_t id) { wholeWords.emplace(std::move(word), id); }

  /// Scratch memory and the words seen so far; one per thread and text.
  class Encoder {
  public:
    explicit Encoder(const Bpe &bpe) : bpe(bpe) {}

    /// Appends the tokens of `word`. Returns the offset of the first byte that has no token, or
    /// `word.size()` when all went well.
    size_t encode(std::string_view word, std::vector<int32_t> &out);

  private:
    struct Symbol {
      int32_t id;
      uint32_t previous, next; // `none` at the ends
      bool alive;
    };
    struct Candidate {
      uint32_t rank, left;
      int32_t id;
    };

    void merge(std::vector<int32_t> &out);
    void consider(uint32_t left);

    const Bpe &bpe;
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    std::unordered_map<std::string, std::vector<int32_t>> cache;
  };

private:
  struct PairHash {
    size_t operator()(uint64_t pair) const {
      pair *= 0x9E3779B97F4A7C15; // golden ratio: spreads neighbouring ids
      return size_t(pair ^ (pair >> 32));
    }
  };

  static uint64_t key(int32_t left, int32_t right) {
    return (uint64_t(uint32_t(left)) << 32) | uint32_t(right);
  }

  std::array<int32_t, 256> byteIds;
  std::unordered_map<uint64_t, Merge, PairHash> merges;
  std::unordered_map<std::string, int32_t> wholeWords;
};

/// The printable characters that stand for bytes in the vocabulary of a byte-level BPE (as in
/// GPT-2): printable Latin-1 bytes stand for themselves, the other 68 for U+0100 onwards in order.
uint32_t byteToSymbol(uint8_t byte);

/// The bytes that a vocabulary entry stands for; false if a character of it stands for no byte.
bool symbolsToBytes(std::string_view entry, std::string &bytes);

} // namespace m3c::text
