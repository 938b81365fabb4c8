// Made-up weights as functions of (tensor, index), and where each value goes by a plan's recipes.
// Written for a CPU and for GPUs alike: a driver's own kernel is this text, so both make the same
// bytes. Arithmetic is that of 32-bit integers and of single FP32 products.
#pragma once

#ifndef M3C_MADE_UP // what a driver's compiler puts before a function
#define M3C_MADE_UP inline
#endif

namespace m3c::madeup {

using Word = unsigned int;
using Long = unsigned long long;

/// What the elements of a tensor are.
enum Rule : Word {
  Codes,      ///< bytes low … low + range − 1, with a random sign bit where `withSign`
  NormalBf16, ///< near a normal distribution of deviation `scale`
  NormalF32,
  Constant ///< `scale` as FP32
};
struct Values {
  Word rule = Codes;
  Word low = 0, range = 256, withSign = 0;
  float scale = 0;
  Long base = 0; ///< a hash of seed and name

  M3C_MADE_UP Word elementBytes() const { return rule == Codes ? 1 : rule == NormalBf16 ? 2 : 4; }
};

/// Where they go: plan.fbs Recipe. Positions are of the piece's stored bytes, row-major.
enum Layout : Word { Flat, Widened, PanelWords, PanelBytes, FragmentWords, FragmentBytes };
struct Placement {
  Word layout = Flat;
  Word bits = 0;     ///< of an element of FragmentWords; elements of a group for FragmentBytes
  Word inverted = 0; ///< Widened: 1/value
  Word abreast = 1;  ///< panels side by side
  Long rows = 1;     ///< of the piece
  Long rowBytes = 0; ///< stored
  Long firstPanel = 0, panelStep = 1;
};

/// 32 well-mixed bits of (key, index): the finaliser of MurmurHash3 (public domain, A. Appleby)
/// over a Weyl sequence. Plain 32-bit arithmetic, so loops over it vectorise.
M3C_MADE_UP Word mix(Word key, Word index) {
  Word h = key + index * 0x9E3779B1u;
  h ^= h >> 16;
  h *= 0x85EBCA6Bu;
  h ^= h >> 13;
  h *= 0xC2B2AE35u;
  return h ^ (h >> 16);
}

/// Of elements whose index has this high half.
M3C_MADE_UP Word keyOf(Long base, Long index) {
  return Word(base ^ base >> 32) ^ mix(0x5bd1e995u, Word(index >> 32));
}

/// Near a standard normal: the sum of four bytes, centred, over its standard deviation
/// sqrt(4·(256² − 1)/12) = 147.8.
M3C_MADE_UP float normal(Word h) {
  int sum = int((h & 255) + (h >> 8 & 255) + (h >> 16 & 255) + (h >> 24));
  return float(sum - 510) * (1 / 147.8f);
}

M3C_MADE_UP Word roundedToBf16(float value) {
  Word bits = __builtin_bit_cast(Word, value);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16; // nearest even
}

M3C_MADE_UP Word code(Word h, Word low, Word range) { return low + ((h & 0xffff) * range >> 16); }
M3C_MADE_UP Word signedCode(Word h, Word low, Word range) {
  return code(h, low, range) | (h >> 24 & 0x80);
}

/// Bits of element `index`, in the lowest bits.
M3C_MADE_UP Word element(const Values &values, Long index) {
  Word h = mix(keyOf(values.base, index), Word(index));
  switch (values.rule) {
  case Codes:
    return values.withSign ? signedCode(h, values.low, values.range)
                           : code(h, values.low, values.range);
  case NormalBf16:
    return roundedToBf16(normal(h) * values.scale);
  case NormalF32:
    return __builtin_bit_cast(Word, normal(h) * values.scale);
  default:
    return __builtin_bit_cast(Word, values.scale);
  }
}

/// Four bytes from stored byte `at` on, a multiple of four.
M3C_MADE_UP Word storedWord(const Values &values, Long at) {
  if (values.rule == Codes)
    return element(values, at) | element(values, at + 1) << 8 | element(values, at + 2) << 16 |
           element(values, at + 3) << 24;
  if (values.rule == NormalBf16)
    return element(values, at / 2) | element(values, at / 2 + 1) << 16;
  return element(values, at / 4);
}

/// The code of `bits` bits at column `column` of the stored row that begins at byte `row`.
M3C_MADE_UP Word storedCode(const Values &values, Long row, Long column, Word bits) {
  if (bits == 32)
    return element(values, row / 4 + column);
  if (bits == 16)
    return element(values, row / 2 + column);
  Word byte = element(values, row + column * bits / 8);
  return bits == 8 ? byte : byte >> column % 2 * 4 & 15;
}

/// Items of a placement: what `placeItem` takes.
M3C_MADE_UP Long itemsOf(const Values &values, const Placement &place) {
  Long panels = (place.rows + 15) / 16;
  switch (place.layout) {
  case Flat:
  case Widened:
    return place.rows * place.rowBytes / values.elementBytes();
  case PanelWords:
  case FragmentWords:
    return panels * place.rowBytes * 4;
  default:
    return panels * place.rowBytes * 16;
  }
}

template <class T> M3C_MADE_UP void put(unsigned char *to, Long index, T value) {
  reinterpret_cast<T *>(to)[index] = value;
}

/// Item `item` of a piece without panels.
M3C_MADE_UP void placeFlat(unsigned char *to, const Values &values, const Placement &place,
                           Long item) {
  Word bits = element(values, item);
  if (place.layout == Widened) {
    float value = __builtin_bit_cast(float, values.rule == NormalBf16 ? bits << 16 : bits);
    put(to, item, place.inverted ? 1 / value : value);
  } else if (values.rule == Codes) {
    put(to, item, static_cast<unsigned char>(bits));
  } else if (values.rule == NormalBf16) {
    put(to, item, static_cast<unsigned short>(bits));
  } else {
    put(to, item, bits);
  }
}

/// Units of 4 bytes or 1, `columns` in a row: neighbours are rows of one panel.
M3C_MADE_UP void placePanels(unsigned char *to, const Values &values, const Placement &place,
                             Long item, Long columns) {
  Long column = item / 16 % columns, panel = item / 16 / columns;
  Long row = panel * 16 + item % 16;
  if (row >= place.rows)
    return;
  Long index = place.firstPanel + panel * place.panelStep, abreast = place.abreast;
  Long at = (index / abreast * columns + column) * abreast * 16 + index % abreast * 16 + item % 16;
  if (place.layout == PanelWords)
    put(to, at, storedWord(values, row * place.rowBytes + column * 4));
  else
    put(to, at, static_cast<unsigned char>(element(values, row * place.rowBytes + column)));
}

/// Where E2M1 code `pair` of four lies in half a word (docs/plan-format.md, FragmentWords).
M3C_MADE_UP Word placedE2m1(Word bits, Word pair) {
  Word sign = bits >> 3, magnitude = bits & 7;
  return pair < 3 ? (sign << 15 | magnitude << 6) >> 3 * pair
                  : magnitude >> 1 << 13 | sign << 11 | (magnitude & 1) << 10;
}

/// Word `item` of the operands, in their order: Repack.cpp says what it holds.
M3C_MADE_UP void placeFragmentWord(unsigned char *to, const Values &values, const Placement &place,
                                   Long item) {
  Long panelWords = place.rowBytes * 4, rowWords = place.bits / 2;
  Long panel = item / panelWords, inPanel = item % panelWords;
  Long unit = inPanel / (64 * rowWords), inUnit = inPanel % (64 * rowWords);
  Long n = inUnit / 128 * 4 + inUnit % 4, lane = inUnit / 4 % 32;
  Long row = panel * 16 + lane / 4 + n / rowWords * 8, word = n % rowWords;
  if (row >= place.rows)
    return;
  Long first = (unit * 4 + lane % 4) * 16; // column
  Word pairs = 16 / place.bits, value = 0;
  if (place.bits == 32)
    value = storedCode(values, row * place.rowBytes, first + word, 32);
  for (Word pair = 0; pair < pairs; ++pair)
    for (Word second = 0; second < 2; ++second) {
      Long column = first + 2 * (word * pairs + pair) + second;
      Word bits = storedCode(values, row * place.rowBytes, column, place.bits);
      value |= (place.bits == 4 ? placedE2m1(bits, pair) : bits << place.bits * pair)
               << 16 * second;
    }
  put(to, (place.firstPanel + panel * place.panelStep) * panelWords + inPanel, value);
}

/// Byte `item` of the scales to go with them.
M3C_MADE_UP void placeFragmentByte(unsigned char *to, const Values &values, const Placement &place,
                                   Long item) {
  Long panelBytes = place.rowBytes * 16, groups = 64 / place.bits;
  Long panel = item / panelBytes, inPanel = item % panelBytes;
  Long unit = inPanel / (groups * 16), inUnit = inPanel % (groups * 16);
  Long row = panel * 16 + inUnit / 2 / groups + inUnit % 2 * 8;
  if (row >= place.rows)
    return;
  Long stored = row * place.rowBytes + unit * groups + inUnit / 2 % groups;
  put(to, (place.firstPanel + panel * place.panelStep) * panelBytes + inPanel,
      static_cast<unsigned char>(element(values, stored)));
}

/// One item of a piece; `to` is where the piece's buffer begins, for Flat and Widened where the
/// piece does.
M3C_MADE_UP void placeItem(unsigned char *to, const Values &values, const Placement &place,
                           Long item) {
  switch (place.layout) {
  case Flat:
  case Widened:
    return placeFlat(to, values, place, item);
  case PanelWords:
    return placePanels(to, values, place, item, place.rowBytes / 4);
  case PanelBytes:
    return placePanels(to, values, place, item, place.rowBytes);
  case FragmentWords:
    return placeFragmentWord(to, values, place, item);
  default:
    return placeFragmentByte(to, values, place, item);
  }
}

/// Parameters of the kernel "made_up": to, base, rule, low, range, withSign, scale (its bits),
/// layout, bits, inverted, abreast, rows, rowBytes, firstPanel, panelStep, items. Work item x does
/// `itemsOfBlock` of them.
enum : Word { parameterCount = 16, threadsOfBlock = 256, itemsOfBlock = 4096 };

} // namespace m3c::madeup
