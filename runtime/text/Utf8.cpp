#include "runtime/text/Utf8.h"

namespace m3c::text {

namespace {

/// Length of the character that a lead byte announces and the legal range of its second byte.
struct Lead {
  uint32_t size; // 0 for a byte that cannot lead
  uint8_t low, high;
};

Lead leadOf(uint8_t byte) {
  if (byte < 0x80)
    return {1, 0, 0};
  if (byte < 0xC2)
    return {0, 0, 0};
  if (byte < 0xE0)
    return {2, 0x80, 0xBF};
  if (byte < 0xF0)
    return {3, uint8_t(byte == 0xE0 ? 0xA0 : 0x80), uint8_t(byte == 0xED ? 0x9F : 0xBF)};
  if (byte < 0xF5)
    return {4, uint8_t(byte == 0xF0 ? 0x90 : 0x80), uint8_t(byte == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

} // namespace

Utf8Unit scanUtf8(std::string_view bytes) {
  Lead lead = leadOf(uint8_t(bytes[0]));
  if (lead.size == 0)
    return {Utf8Unit::Invalid, 1};
  for (uint32_t i = 1; i < lead.size; ++i) {
    if (i == bytes.size())
      return {Utf8Unit::Incomplete, i};
    uint8_t byte = uint8_t(bytes[i]);
    uint8_t low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high)
      return {Utf8Unit::Invalid, i};
  }
  return {Utf8Unit::Valid, lead.size};
}

std::optional<size_t> firstInvalidUtf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    Utf8Unit unit = scanUtf8(bytes.substr(at));
    if (unit.kind != Utf8Unit::Valid)
      return at;
    at += unit.size;
  }
  return std::nullopt;
}

size_t appendLossyUtf8(std::string &out, std::string_view bytes, bool final) {
  size_t at = 0;
  while (at < bytes.size()) {
    Utf8Unit unit = scanUtf8(bytes.substr(at));
    if (unit.kind == Utf8Unit::Incomplete && !final)
      return at;
    out += unit.kind == Utf8Unit::Valid ? bytes.substr(at, unit.size) : replacementCharacter;
    at += unit.size;
  }
  return at;
}

void appendUtf8(std::string &out, uint32_t codePoint) {
  if (codePoint < 0x80) {
    out += char(codePoint);
  } else if (codePoint < 0x800) {
    out += char(0xC0 | (codePoint >> 6));
    out += char(0x80 | (codePoint & 0x3F));
  } else if (codePoint < 0x10000) {
    out += char(0xE0 | (codePoint >> 12));
    out += char(0x80 | ((codePoint >> 6) & 0x3F));
    out += char(0x80 | (codePoint & 0x3F));
  } else {
    out += char(0xF0 | (codePoint >> 18));
    out += char(0x80 | ((codePoint >> 12) & 0x3F));
    out += char(0x80 | ((codePoint >> 6) & 0x3F));
    out += char(0x80 | (codePoint & 0x3F));
  }
}

uint32_t decodeUtf8(std::string_view bytes) {
  uint8_t first = uint8_t(bytes[0]);
  uint32_t size = leadOf(first).size;
  if (size == 1)
    return first;
  uint32_t value = first & (0xFF >> (size + 1));
  for (uint32_t i = 1; i < size; ++i)
    value = (value << 6) | (uint8_t(bytes[i]) & 0x3F);
  return value;
}

bool isUnicodeSpace(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

} // namespace m3c::text
