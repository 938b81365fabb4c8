// What the targets of NVIDIA's chips that are not at hand emit so far.
#pragma once

#include "passes/targets/common/nvidia/NvidiaTarget.h"

namespace m3c {

/// Emits the kernels of a decode step that read cached pages; the CPU's stand in for the rest.
class DecodeTarget : public NvidiaTarget {
public:
  using NvidiaTarget::NvidiaTarget;
  bool emits(llvm::StringRef family, const Schedule &problem) const override;
  llvm::StringRef fallback() const override { return "x86-avx2"; }
  llvm::StringRef emitted() const override {
    return "index_score, block_topk, attention of NVFP4 and FP8 caches, in steps of up to 16 rows";
  }
  llvm::StringRef proof() const override {
    return "executed in the emulator; machine code inspected";
  }
};

} // namespace m3c
