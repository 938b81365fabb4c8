#include "compiler/interpreter/Rounding.h"

#include "runtime/base/Formats.h"

namespace m3c::interpreter {
namespace {

double toBf16(double value) { return formats::roundToBf16(float(value)); }

double toE4m3(double value) { return formats::roundToE4m3(formats::roundToBf16(float(value))); }

void roundNvfp4(std::span<double> values, bool e4m3Product) {
  for (size_t i = 0; i < values.size(); i += 16) {
    Nvfp4Group group = encodeNvfp4(std::span<const double, 16>(values.data() + i, 16));
    double scale = formats::e4m3ToFloat(group.scale);
    for (size_t j = 0; j < 16; ++j) {
      double product = formats::e2m1ToDouble(group.codes[j]) * scale; // exact: 6 significant bits
      values[i + j] = e4m3Product ? double(formats::roundToE4m3(float(product))) : product;
    }
  }
}

/// Exponent of the scale of one MXFP8 group; the smallest e with amax ≤ 448 · 2^e.
int mxfp8Exponent(float amax) {
  if (!(amax > 0))
    return -127;
  int exponent = std::ilogb(amax) - 9;
  while (std::ldexp(448.0, exponent) < amax)
    ++exponent;
  return std::clamp(exponent, -127, 127);
}

void roundMxfp8(std::span<double> values) {
  for (size_t i = 0; i < values.size(); i += 32) {
    float amax = 0;
    for (size_t j = 0; j < 32; ++j)
      amax = std::max(amax, std::fabs(float(values[i + j])));
    int exponent = mxfp8Exponent(amax);
    for (size_t j = 0; j < 32; ++j) {
      float scaled = std::ldexp(float(values[i + j]), -exponent);
      values[i + j] = std::ldexp(double(formats::roundToE4m3(scaled)), exponent);
    }
  }
}

} // namespace

Nvfp4Group encodeNvfp4(std::span<const double, 16> values) {
  float rounded[16], amax = 0;
  for (int i = 0; i < 16; ++i) {
    rounded[i] = formats::roundToBf16(float(values[i]));
    amax = std::max(amax, std::fabs(rounded[i]));
  }
  Nvfp4Group group;
  group.scale = formats::nvfp4GroupScale(amax);
  float scale = formats::e4m3ToFloat(group.scale);
  for (int i = 0; i < 16; ++i)
    group.codes[i] = formats::encodeE2m1(rounded[i], scale);
  return group;
}

void roundValues(Step step, std::span<double> values) {
  switch (step) {
  case Step::None:
    return;
  case Step::Bf16:
    for (double &value : values)
      value = toBf16(value);
    return;
  case Step::E4m3:
    for (double &value : values)
      value = toE4m3(value);
    return;
  case Step::Nvfp4:
  case Step::Nvfp4E4m3:
    return roundNvfp4(values, step == Step::Nvfp4E4m3);
  case Step::Mxfp8:
    return roundMxfp8(values);
  }
}

} // namespace m3c::interpreter
