// Operations on single rows: norms, rotation, activation, rounding, sampling.
#include "compiler/interpreter/Kernels.h"

#include "runtime/base/Formats.h"

#include <algorithm>
#include <cmath>

namespace m3c::interpreter {

Tensor ropeTable(const Batch &batch, double theta, int64_t rotary) {
  Tensor table = Tensor::ofReals({batch.rows(), rotary});
  for (int64_t r = 0; r < batch.rows(); ++r)
    for (int64_t i = 0; i < rotary / 2; ++i) {
      float frequency = formats::ropeFrequency(theta, int64_t(i), int64_t(rotary));
      double angle = float(batch.positions[size_t(r)]) * frequency; // an F32 product
      table.row(r)[i] = std::cos(angle);
      table.row(r)[rotary / 2 + i] = std::sin(angle);
    }
  return table;
}

Tensor gemmaNorm(const Tensor &x, const Matrix &weight, double eps) {
  Tensor y = x;
  int64_t length = weight.rows;
  for (int64_t begin = 0; begin < y.elements(); begin += length) {
    double *v = y.reals.data() + begin, sum = 0;
    for (int64_t i = 0; i < length; ++i)
      sum += v[i] * v[i];
    double factor = 1 / std::sqrt(sum / double(length) + eps);
    for (int64_t i = 0; i < length; ++i)
      v[i] = v[i] * factor * (1 + double(weight.values[size_t(i)]));
  }
  return y;
}

Tensor rotate(const Tensor &x, const Tensor &table, int64_t heads) {
  Tensor y = x;
  int64_t half = table.width() / 2, headDim = x.width() / heads;
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t h = 0; h < heads; ++h) {
      const double *in = x.row(r) + h * headDim, *cosines = table.row(r), *sines = cosines + half;
      double *out = y.row(r) + h * headDim;
      for (int64_t i = 0; i < half; ++i) {
        out[i] = in[i] * cosines[i] - in[i + half] * sines[i];
        out[i + half] = in[i + half] * cosines[i] + in[i] * sines[i];
      }
    }
  return y;
}

Tensor swiglu(const Tensor &gate, const Tensor &up, SwigluParams params) {
  Tensor y = gate;
  for (size_t i = 0; i < y.reals.size(); ++i) {
    double g = std::min(gate.reals[i], params.limit);
    double u = std::clamp(up.reals[i], -params.limit, params.limit);
    y.reals[i] = (u + 1) * g / (1 + std::exp(-params.alpha * g));
  }
  return y;
}

Tensor quantize(const Tensor &x, Step step) {
  Tensor y = x;
  roundValues(step, y.reals);
  return y;
}

Tensor argmax(const Tensor &logits) {
  Tensor ids = Tensor::ofIds({logits.rows()});
  for (int64_t r = 0; r < logits.rows(); ++r) {
    const double *row = logits.row(r);
    int64_t best = 0;
    for (int64_t i = 1; i < logits.width(); ++i)
      if (row[i] > row[best] || std::isnan(row[best]))
        best = i;
    ids.ids[size_t(r)] = int32_t(best);
  }
  return ids;
}

Tensor sample(const Tensor &logits, const Tensor &temperature, const Tensor &uniform) {
  Tensor ids = argmax(logits);
  for (int64_t r = 0; r < logits.rows(); ++r) {
    double t = temperature.reals[size_t(r)];
    if (t == 0)
      continue;
    const double *row = logits.row(r);
    double largest = row[ids.ids[size_t(r)]], total = 0, running = 0;
    for (int64_t i = 0; i < logits.width(); ++i)
      total += std::exp((row[i] - largest) / t);
    for (int64_t i = 0; i < logits.width(); ++i) {
      running += std::exp((row[i] - largest) / t);
      if (running > uniform.reals[size_t(r)] * total) {
        ids.ids[size_t(r)] = int32_t(i);
        break;
      }
    }
  }
  return ids;
}

} // namespace m3c::interpreter
