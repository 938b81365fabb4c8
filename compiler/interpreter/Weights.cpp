#include "compiler/interpreter/Weights.h"

#include "runtime/base/Error.h"
#include "runtime/base/Formats.h"
#include "runtime/checkpoint/ValueCheck.h"

#include <cstring>

using namespace mlir;

namespace m3c::interpreter {
namespace {

struct Bytes {
  std::span<const std::byte> data;
  Dtype dtype;

  uint8_t at(int64_t i) const { return uint8_t(data[size_t(i)]); }
};

std::string tensorName(m3::PartAttr part, int64_t expert) {
  std::string name = part.getName().str();
  size_t place = name.find("{e}");
  if (place != std::string::npos)
    name.replace(place, 3, std::to_string(expert));
  return name;
}

Bytes readPart(const Checkpoint &checkpoint, m3::PartAttr part, int64_t expert) {
  std::string name = tensorName(part, expert);
  const Checkpoint::Tensor *tensor = checkpoint.find(name);
  if (!tensor)
    throw Error("the checkpoint lacks a tensor", "tensor " + name, "the model's graph names it",
                "use the checkpoint that the graph was made from");
  std::span<const std::byte> data = checkpoint.data(*tensor);
  checkValues(checkpoint.fileOf(*tensor), *tensor->entry, data);
  return {data, tensor->entry->dtype};
}

float elementAt(const Bytes &bytes, int64_t i) {
  switch (bytes.dtype) {
  case Dtype::F32: {
    float value;
    std::memcpy(&value, bytes.data.data() + i * 4, 4);
    return value;
  }
  case Dtype::Bf16: {
    uint16_t bits;
    std::memcpy(&bits, bytes.data.data() + i * 2, 2);
    return formats::bf16ToFloat(bits);
  }
  default:
    throw Error("a weight has a type that is not read", std::string(dtypeName(bytes.dtype)));
  }
}

/// Values of E4M3 and E2M1 matrices with a scale per group of K; products are exact in F32.
void dequantise(Matrix &matrix, m3::WeightType type, const Bytes &codes, const Bytes &scales) {
  bool packed = type.getEncoding() != m3::Encoding::MXFP8;
  int64_t group = type.groupSize();
  for (int64_t g = 0; g < matrix.rows * matrix.cols / group; ++g) {
    double scale =
        packed ? double(formats::e4m3ToFloat(scales.at(g))) : formats::e8m0ToDouble(scales.at(g));
    for (int64_t i = g * group; i < (g + 1) * group; ++i) {
      double code = packed ? formats::e2m1ToDouble((codes.at(i / 2) >> (i % 2 * 4)) & 15)
                           : double(formats::e4m3ToFloat(codes.at(i)));
      matrix.values[size_t(i)] = float(code * scale);
    }
  }
}

} // namespace

Matrix readMatrix(const Checkpoint &checkpoint, m3::WeightOp weight, int64_t expert) {
  m3::WeightType type = weight.weightType();
  std::optional<Bytes> parts[4];
  for (auto part : weight.getParts().getAsRange<m3::PartAttr>())
    if (part.getRole() != m3::PartRole::InputScale)
      parts[int(part.getRole())] = readPart(checkpoint, part, expert);
  if (!parts[0])
    throw Error("a weight has no checkpoint tensor", weight.getSymName().str(),
                "the graph was built without a checkpoint", "name a checkpoint with tensors");
  Matrix matrix{type.rows(), type.cols(), 1, std::vector<float>(size_t(type.rows() * type.cols()))};
  if (type.groupSize() > 1)
    dequantise(matrix, type, *parts[0], *parts[1]);
  else
    for (size_t i = 0; i < matrix.values.size(); ++i)
      matrix.values[i] = elementAt(*parts[0], int64_t(i));
  if (parts[2]) {
    double scale = elementAt(*parts[2], 0);
    matrix.multiplier = type.getEncoding() == m3::Encoding::NVFP4Packed ? 1 / scale : scale;
  }
  return matrix;
}

std::shared_ptr<const Matrix> GivenWeights::load(m3::WeightOp weight, int64_t expert) {
  std::string name = weight.getSymName().str();
  if (weight.weightType().experts())
    name += "#" + std::to_string(expert);
  auto matrix = matrices.find(name);
  if (matrix == matrices.end())
    throw Error("no values were given for a weight", name);
  return matrix->second;
}

std::shared_ptr<const Matrix> CheckpointWeights::load(m3::WeightOp weight, int64_t expert) {
  Key key{weight.getSymName().str(), expert};
  if (auto found = held.find(key); found != held.end()) {
    uses.splice(uses.begin(), uses, found->second.use);
    return found->second.matrix;
  }
  auto matrix = std::make_shared<const Matrix>(readMatrix(checkpoint, weight, expert));
  heldBytes += matrix->values.size() * sizeof(float);
  uses.push_front(key);
  held.emplace(key, Held{matrix, uses.begin()});
  evict();
  return matrix;
}

void CheckpointWeights::evict() {
  while (heldBytes > budget && uses.size() > 1) {
    auto last = held.find(uses.back());
    heldBytes -= last->second.matrix->values.size() * sizeof(float);
    held.erase(last);
    uses.pop_back();
  }
}

} // namespace m3c::interpreter
