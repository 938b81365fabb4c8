#include "passes/targets/x86/X86Target.h"

#include "compiler/toolchains/HostCompiler.h"
#include "compiler/toolchains/Inspect.h"
#include "passes/targets/x86/DeviceHeaders.h"
#include "passes/targets/x86/X86Schedules.h"

#include "llvm/Support/FormatVariadic.h"

namespace m3c {
namespace {

// Vector registers and lanes: Intel SDM vol. 1, ch. 14 and 15. The on-chip limit is half of the 512
// KiB second-level cache of the smallest core that we tune for, so that streamed weights have room
// beside it.
const Chip chipRows[] = {
    {.name = "x86-avx2",
     .features = {"avx2", "fma", "f16c"},
     .lanes = 8,
     .vectorRegisters = 16,
     .sharedBytes = 256 * 1024,
     .cluster = 1},
    {.name = "x86-avx512",
     .features = {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
     .lanes = 16,
     .vectorRegisters = 32,
     .sharedBytes = 512 * 1024,
     .cluster = 1},
};

const Atom atomRows[] = {
    {"fma_f32_lanes_b", "tile.mma", "", "", "mma", "vfm?add"},
    {"fma_f32", "tile.fma", "", "", "fma", "vfm?add"},
    {"words_f32", "tile.dequant_words", "f32", "", "words_f32", ""},
    {"words_bf16", "tile.dequant_words", "bf16", "", "words_bf16", ""},
    {"words_e4m3", "tile.dequant_words", "e4m3", "", "words_e4m3", "vpsraw"},
    {"words_e2m1", "tile.dequant_words", "e2m1", "", "words_e2m1", "vperm(ps|d)|vpshufb"},
    {"group_table", "tile.dequant_group", "", "", "dequantGroup", "vperm(ps|d)"},
    {"quant_group", "tile.quant_group", "", "", "quantGroup", ""},
};

// By kind of operation; loads and stores are operands of any of them.
constexpr PipeRule pipeRows[] = {
    {"vfm", "multiply-add"},    {"vfnm", "multiply-add"}, {"vmul", "float"},
    {"vadd", "float"},          {"vsub", "float"},        {"vdiv", "float"},
    {"vmax", "float"},          {"vmin", "float"},        {"vsqrt", "float"},
    {"vcmp", "float"},          {"vrnd", "float"},        {"vcvt", "conversion"},
    {"vp", "integer"},          {"vperm", "movement"},    {"vpshuf", "movement"},
    {"vpunpck", "movement"},    {"vpmov", "movement"},    {"vpbroadcast", "movement"},
    {"vpblend", "movement"},    {"vpermi", "movement"},   {"vmov", "movement"},
    {"vbroadcast", "movement"}, {"vshuf", "movement"},    {"vunpck", "movement"},
    {"vinsert", "movement"},    {"vextract", "movement"}, {"vblend", "movement"},
    {"vgather", "movement"},    {"v", "float"},           {"", "scalar"},
};

class X86Target final : public Target {
public:
  llvm::StringRef name() const override { return "x86"; }
  llvm::ArrayRef<Chip> chips() const override { return chipRows; }
  llvm::ArrayRef<Atom> atoms() const override { return atomRows; }
  Schedule schedule(llvm::StringRef family, const Schedule &problem,
                    const Chip &chip) const override {
    return x86Schedule(family, problem, chip);
  }

  codegen::EntryStyle entryStyle() const override {
    return {
        "#include \"tile.h\"\n\n", [](tile::KernelOp kernel, llvm::ArrayRef<std::string> types,
                                      llvm::ArrayRef<std::string> names) {
          std::string text = llvm::formatv(
              "extern \"C\" __attribute__((visibility(\"default\"))) void {0}(void *const *params, "
              "u32 x, u32 y, u32 z, void *shared) {{\n"
              "  [[maybe_unused]] const i64 blockX = x, blockY = y, blockZ = z;\n"
              "  (void)shared;\n",
              kernel.getSymName());
          for (size_t i = 0; i < types.size(); ++i)
            text +=
                llvm::formatv("  {0} {1} = *({0} const *)params[{2}];\n", types[i], names[i], i);
          return text;
        }};
  }

  const std::map<std::string, std::string> &deviceHeaders() const override {
    return x86DeviceHeaders();
  }

  std::vector<std::byte> build(const std::string &kernel, const std::string &text,
                               const Chip &chip) const override {
    return toolchains::compileHostObject(kernel, text, deviceHeaders(), options(chip));
  }

  void inspect(const std::string &kernel, std::span<const std::byte> object,
               const std::vector<std::string> &patterns) const override {
    toolchains::checkPatterns(kernel, toolchains::inspectObject(kernel, object), {patterns, {}});
  }

  CodeFacts facts(const std::string &kernel, std::span<const std::byte> object) const override {
    toolchains::Inspection code = toolchains::inspectObject(kernel, object);
    return {code.spillBytes, code.textBytes, 0};
  }

  std::map<std::string, unsigned> mnemonics(const std::string &kernel,
                                            std::span<const std::byte> object) const override {
    return toolchains::inspectObject(kernel, object).counts;
  }
  llvm::ArrayRef<PipeRule> pipes() const override { return pipeRows; }

  std::string disassemble(const std::string &kernel,
                          std::span<const std::byte> object) const override {
    return toolchains::inspectObject(kernel, object).text();
  }

  std::pair<llvm::StringRef, llvm::StringRef> fileSuffixes() const override {
    return {".cpp", ".so"};
  }

  uint32_t threadsPerItem(tile::KernelOp) const override { return 1; }

  std::string toolchain(const Chip &chip) const override {
    return toolchains::hostToolchainVersion() + " " + options(chip).isa.text();
  }

  Inspector inspector() const override { return {toolchains::inspectorVersion()}; }

  llvm::StringRef proof() const override { return "executed"; }

private:
  static toolchains::HostCompileOptions options(const Chip &chip) {
    toolchains::HostCompileOptions options;
    bool wide = chip.lanes == 16;
    // Contraction stays off: a fused multiply-add stands where the kernel says so, so that the same
    // sum comes out of every schedule.
    options.isa = {wide ? "x86-64-v4" : "x86-64-v3", {}, wide ? 512u : 256u};
    return options;
  }
};

} // namespace

std::unique_ptr<Target> makeX86Target() { return std::make_unique<X86Target>(); }

} // namespace m3c
