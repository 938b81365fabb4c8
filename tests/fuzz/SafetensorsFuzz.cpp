// Any bytes as a safetensors file: an Error or a header whose tensors tile the file.
#include "runtime/base/Error.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/ValueCheck.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte *>(data), size);
  try {
    m3c::SafetensorsHeader header = m3c::parseSafetensors(bytes, "fuzz.safetensors");
    uint64_t at = 0;
    for (const m3c::TensorEntry &tensor : header.tensors) {
      if (tensor.begin != at || tensor.end < tensor.begin ||
          m3c::tensorBytes(tensor.dtype, tensor.shape) != tensor.byteCount())
        std::abort();
      at = tensor.end;
    }
    if (header.dataBegin + at != size)
      std::abort();
    for (const m3c::TensorEntry &tensor : header.tensors)
      m3c::checkValues("fuzz.safetensors", tensor,
                       bytes.subspan(header.dataBegin + tensor.begin, tensor.byteCount()));
  } catch (const m3c::Error &) {
  }
  return 0;
}
