// The machine code of NVIDIA GPUs as text (SASS), by the vendor's disassembler.
#pragma once

#include "compiler/toolchains/Inspect.h"

namespace m3c::toolchains {

struct Nvdisasm {
  std::string path;
  std::vector<int> numbers; ///< of the version, e.g. 13, 5, 37
  std::string version() const;
};

struct NvdisasmSearch {
  std::vector<Nvdisasm> usable;     ///< newest first
  std::vector<std::string> refused; ///< "PATH: why"
};

/// Looks, once in a process, at M3C_NVDISASM (a program; then nowhere else), at the Python
/// environments' wheels, at toolkits and at PATH.
const NvdisasmSearch &findNvdisasm();

/// How to get it, for messages.
std::string nvdisasmHint();

/// nvdisasm's text of all kernels in the object. Throws Error saying how to get nvdisasm when there
/// is none, and its message for bytes that it does not read.
std::string cudaDisassembly(const std::string &name, std::span<const std::byte> object);

/// The instructions of all kernels, with the object's kernels as exports. Throws as
/// cudaDisassembly.
Inspection inspectCudaObject(const std::string &name, std::span<const std::byte> object);

} // namespace m3c::toolchains
