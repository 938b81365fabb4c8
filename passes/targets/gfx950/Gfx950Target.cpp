#include "passes/targets/gfx950/Gfx950Target.h"

#include "compiler/toolchains/HipCompiler.h"
#include "compiler/toolchains/HipResources.h"
#include "compiler/toolchains/Inspect.h"
#include "passes/targets/gfx950/DeviceHeaders.h"
#include "passes/targets/gfx950/Gfx950Schedules.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace m3c {
namespace {

// Waves of 64 lanes, 160 KiB of LDS of a compute unit (64 bytes of it hold an answer that waves
// give each other), 512 vector registers of each lane that the waves of a SIMD share, four SIMDs:
// CDNA4 instruction set architecture reference guide and white paper. Bandwidth, compute units and
// dense peaks are those of the MI355X's data sheet.
const Chip chipRows[] = {
    {.name = "gfx950",
     .features = {"gfx950"},
     .lanes = 64,
     .vectorRegisters = 512,
     .sharedBytes = 160 * 1024 - 64,
     .cluster = 1,
     .matrix = {.lanes = 64,
                .columns = 16,
                .k = 32,
                .k8 = 128,
                .e4m3 = true,
                .turn = 3,
                .roleBarriers = false,
                .countsUses = true},
     .facts = {.units = 256,
               .unitSharedBytes = 160 * 1024,
               .registers = 4 * 512 * 64,
               .bytesPerSecond = 8e12,
               .fp16 = 2.5e15,
               .fp8 = 5e15,
               .source = "CDNA4 ISA guide and data sheets of the vendor, not looked up again",
               .unitThreads = 2048}},
};

const Atom atomRows[] = {
    {"mfma_16x16x128_e4m3", "tile.mma", "e4m3", "", "mmaFragments", "v_mfma_f32_16x16x128_f8f6f4"},
    {"mfma_16x16x32_f16", "tile.mma", "f16", "", "mmaFragments", "v_mfma_f32_16x16x32_f16"},
    {"cached_e2m1", "tile.load_cached", "e2m1", "", "cached_e2m1", "v_perm_b32"},
    {"cached_e4m3", "tile.load_cached", "e4m3", "", "cached_e4m3", "v_perm_b32"},
    {"fma_f32_lanes_b", "tile.mma", "", "", "mma", "v_(pk_)?fma"},
    {"fma_f32", "tile.fma", "", "", "fma", "v_(pk_)?fma"},
    {"group_e4m3", "tile.dequant_group", "", "", "dequantGroup", "ds_bpermute_b32"},
    {"load_lds", "tile.fill_stage", "", "", "copyToShared", "global_load_lds_dwordx4"},
};

uint32_t threadsOf(tile::KernelOp kernel) { return 64 * uint32_t(kernel.getWarps().value_or(1)); }

// By the beginnings of names in the vendor's ISA text.
constexpr PipeRule pipeRows[] = {
    {"v_mfma", "matrix"},
    {"v_smfmac", "matrix"},
    {"v_fma", "FP32"},
    {"v_fmac", "FP32"},
    {"v_mul_f32", "FP32"},
    {"v_add_f32", "FP32"},
    {"v_sub_f32", "FP32"},
    {"v_max_f32", "FP32"},
    {"v_max3_f32", "FP32"},
    {"v_pk_fma", "FP32"},
    {"v_pk_mul_f32", "FP32"},
    {"v_pk_add_f32", "FP32"},
    {"v_exp", "special"},
    {"v_log", "special"},
    {"v_rcp", "special"},
    {"v_rsq", "special"},
    {"v_sqrt", "special"},
    {"v_cvt", "conversion"},
    {"v_perm", "movement"},
    {"v_mov", "movement"},
    {"v_accvgpr", "movement"},
    {"v_readlane", "movement"},
    {"v_readfirstlane", "movement"},
    {"v_cndmask", "movement"},
    {"v_", "integer"},
    {"ds_", "shared memory"},
    {"global_load_lds", "bulk copy"},
    {"global_", "memory"},
    {"buffer_", "memory"},
    {"flat_", "memory"},
    {"scratch_", "memory"},
    {"s_load", "memory"},
    {"s_waitcnt", "barrier"},
    {"s_barrier", "barrier"},
    {"s_cbranch", "control"},
    {"s_branch", "control"},
    {"s_endpgm", "control"},
    {"s_nop", "control"},
    {"s_", "uniform"},
};

class Gfx950Target final : public Target {
public:
  llvm::StringRef name() const override { return "gfx950"; }
  llvm::ArrayRef<Chip> chips() const override { return chipRows; }
  llvm::ArrayRef<Atom> atoms() const override { return atomRows; }
  Schedule schedule(llvm::StringRef family, const Schedule &problem,
                    const Chip &chip) const override {
    return gfx950Schedule(family, problem, chip);
  }

  bool emits(llvm::StringRef family, const Schedule &problem) const override {
    constexpr int64_t mostRows = 16; // of a decode step
    if (problem.at("rows") > mostRows)
      return false;
    if (family == "block_topk")
      return problem.at("k") <= 32; // a lane for each choice
    if (family != "index_score" && family != "attention")
      return false;
    return problem.at("matrix") || isOn(problem, "plain");
  }
  llvm::StringRef fallback() const override { return "x86-avx2"; }
  llvm::StringRef emitted() const override {
    return "index_score, block_topk, attention of NVFP4 and FP8 caches, in steps of up to 16 rows";
  }

  codegen::EntryStyle entryStyle() const override {
    return {"#include \"tile.h\"\n\n", [](tile::KernelOp kernel, llvm::ArrayRef<std::string> types,
                                          llvm::ArrayRef<std::string> names) {
              std::string parameters;
              for (auto [type, parameter] : llvm::zip(types, names))
                parameters += (parameters.empty() ? "" : ", ") + type + " " + parameter;
              return llvm::formatv("extern \"C\" __global__ M3_THREADS({0}) void {1}({2}) {{\n"
                                   "  [[maybe_unused]] u8 *const shared = sharedMemory();\n"
                                   "  [[maybe_unused]] const i64 blockX = blockNumberX(), blockY = "
                                   "blockNumberY(), blockZ = blockNumberZ();\n",
                                   threadsOf(kernel), kernel.getSymName(), parameters)
                  .str();
            }};
  }

  const std::map<std::string, std::string> &deviceHeaders() const override {
    return gfx950DeviceHeaders();
  }

  std::vector<std::byte> build(const std::string &kernel, const std::string &text,
                               const Chip &chip) const override {
    toolchains::HipCompileOptions options;
    options.arch = chip.name;
    return toolchains::compileHipObject(kernel, text, deviceHeaders(), options);
  }

  void inspect(const std::string &kernel, std::span<const std::byte> object,
               const std::vector<std::string> &patterns) const override {
    // A flat access counts as one of both memories: waits would wait for all.
    toolchains::checkPatterns(kernel, toolchains::inspectObject(kernel, object),
                              {patterns, {"^flat_(load|store|atomic)"}});
  }

  CodeFacts facts(const std::string &kernel, std::span<const std::byte> object) const override {
    CodeFacts facts;
    for (const toolchains::HipResources &entry : toolchains::readHipResources(kernel, object)) {
      facts.registers = entry.vectorRegisters;
      facts.spillBytes = entry.scratchBytes;
    }
    facts.codeBytes = toolchains::inspectObject(kernel, object).textBytes;
    return facts;
  }

  std::string toolchain(const Chip &chip) const override {
    return toolchains::hostToolchainVersion() + " " + chip.name;
  }
  Inspector inspector() const override { return {toolchains::inspectorVersion()}; }
  std::string disassemble(const std::string &kernel,
                          std::span<const std::byte> object) const override {
    return toolchains::inspectObject(kernel, object).text();
  }
  std::map<std::string, unsigned> mnemonics(const std::string &kernel,
                                            std::span<const std::byte> object) const override {
    return toolchains::inspectObject(kernel, object).counts;
  }
  llvm::ArrayRef<PipeRule> pipes() const override { return pipeRows; }
  /// Options as hipRTC takes them.
  SourceBuild sourceBuild() const override {
    return {{"gfx950"}, {"--offload-arch=gfx950", "-std=c++20", "-O3", "-ffp-contract=off"}};
  }
  std::pair<llvm::StringRef, llvm::StringRef> fileSuffixes() const override {
    return {".hip", ".co"};
  }
  uint32_t threadsPerItem(tile::KernelOp kernel) const override { return threadsOf(kernel); }
  llvm::StringRef proof() const override {
    return "executed in the emulator; machine code inspected";
  }
};

} // namespace

std::unique_ptr<Target> makeGfx950Target() { return std::make_unique<Gfx950Target>(); }

} // namespace m3c
