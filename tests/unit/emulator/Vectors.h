// Vectors of single instructions (tests/data/atoms).
#pragma once

#include "runtime/checkpoint/Safetensors.h"

#include <cstring>
#include <string>
#include <vector>

namespace m3c::test {

class Vectors {
public:
  explicit Vectors(const std::string &name)
      : file(SafetensorsFile::open(std::string(M3C_ATOMS) + "/" + name + ".safetensors")) {}

  bool has(const std::string &name) const { return file.find(name) != nullptr; }
  template <class T> std::vector<T> get(const std::string &name) const {
    std::span<const std::byte> data = file.data(*file.find(name));
    std::vector<T> values(data.size() / sizeof(T));
    std::memcpy(values.data(), data.data(), data.size());
    return values;
  }
  /// Names before ".case".
  std::vector<std::string> cases() const {
    std::vector<std::string> names;
    for (const auto &tensor : file.tensors())
      if (tensor.name.ends_with(".case"))
        names.push_back(tensor.name.substr(0, tensor.name.size() - 5));
    return names;
  }

private:
  SafetensorsFile file;
};

} // namespace m3c::test
