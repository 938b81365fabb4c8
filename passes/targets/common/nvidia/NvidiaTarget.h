// What the targets of NVIDIA's chips share: the entry of a kernel, NVRTC, the disassembler, and the
// atoms that every chip has.
#pragma once

#include "compiler/toolchains/CudaCompiler.h"
#include "passes/targets/common/Target.h"

namespace m3c {

class NvidiaTarget : public Target {
public:
  /// `own`: atoms of the target alone. Where one serves the same op, format and chip as a common
  /// one, it is taken.
  explicit NvidiaTarget(llvm::ArrayRef<Atom> own = {});

  llvm::ArrayRef<Atom> atoms() const override { return rows; }
  codegen::EntryStyle entryStyle() const override;
  std::vector<std::byte> build(const std::string &kernel, const std::string &text,
                               const Chip &chip) const override;
  void inspect(const std::string &kernel, std::span<const std::byte> object,
               const std::vector<std::string> &patterns) const override;
  CodeFacts facts(const std::string &kernel, std::span<const std::byte> object) const override;
  std::string toolchain(const Chip &chip) const override;
  Inspector inspector() const override;
  std::string disassemble(const std::string &kernel,
                          std::span<const std::byte> object) const override;
  std::map<std::string, unsigned> mnemonics(const std::string &kernel,
                                            std::span<const std::byte> object) const override;
  llvm::ArrayRef<PipeRule> pipes() const override;
  double secondsPerKernel() const override { return 0.6; }
  std::pair<llvm::StringRef, llvm::StringRef> fileSuffixes() const override {
    return {".cu", ".cubin"};
  }
  uint32_t threadsPerItem(tile::KernelOp kernel) const override;

protected:
  /// Of a chip's compiler.
  static toolchains::CudaCompileOptions options(const Chip &chip);

private:
  std::vector<Atom> rows;
};

} // namespace m3c
