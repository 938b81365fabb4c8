#include "passes/targets/common/nvidia/NvidiaTarget.h"

#include "compiler/toolchains/CudaInspect.h"
#include "compiler/toolchains/CudaResources.h"
#include "passes/targets/common/nvidia/Pipes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace m3c {
namespace {

const Atom commonRows[] = {
    {"fma_f32_lanes_b", "tile.mma", "", "", "mma", "FFMA"},
    {"fma_f32", "tile.fma", "", "", "fma", "FFMA"},
    {"words_f32", "tile.dequant_words", "f32", "", "words_f32", ""},
    {"words_bf16", "tile.dequant_words", "bf16", "", "words_bf16", ""},
    {"words_e4m3", "tile.dequant_words", "e4m3", "", "words_e4m3", ""},
    {"words_e2m1", "tile.dequant_words", "e2m1", "", "words_e2m1", ""},
    {"mma_m16n8k16_bf16", "tile.mma", "bf16", "", "mmaFragments", "HMMA\\.16816\\.F32\\.BF16"},
    {"fragment_f32", "tile.dequant_fragment", "f32", "", "fragment_f32", ""},
    {"mma_m16n8k16_f16", "tile.mma", "f16", "", "mmaFragments", "HMMA\\.16816\\.F32"},
    {"cached_e2m1", "tile.load_cached", "e2m1", "", "cached_e2m1", "F2FP\\.F16\\.E4M3\\.UNPACK_B"},
    {"cached_e4m3", "tile.load_cached", "e4m3", "", "cached_e4m3", "F2FP\\.F16\\.E4M3\\.UNPACK_B"},
    {"copy_bulk", "tile.fill_stage", "", "", "copyBulk", "UBLKCP"},
    {"fragment_bf16", "tile.dequant_fragment", "bf16", "", "fragment_bf16", ""},
    {"fragment_e4m3", "tile.dequant_fragment", "e4m3", "", "fragment_e4m3", "HMUL2\\.BF16"},
    {"fragment_e2m1", "tile.dequant_fragment", "e2m1", "", "fragment_e2m1", "HMUL2\\.BF16"},
    {"registers_up", "tile.role", "more", "", "takeRegisters", "USETMAXREG\\.TRY_ALLOC"},
    {"registers_down", "tile.role", "fewer", "", "giveRegisters", "USETMAXREG\\.DEALLOC"},
    {"await_launch", "tile.await_launch", "", "", "awaitLaunch", "ACQBULK"},
    {"allow_launch", "tile.allow_launch", "", "", "allowLaunch", "PREEXIT"},
    {"group_e4m3", "tile.dequant_group", "", "", "dequantGroup", "SHFL"},
    {"quant_group", "tile.quant_group", "", "", "quantGroup", "SHFL"},
    {"quant_groups", "tile.quant_groups", "", "", "quantGroups", "SHFL"},
};

std::string clusterOf(tile::KernelOp kernel) {
  if (auto cluster = kernel.getCluster())
    return llvm::formatv(" __cluster_dims__({0}, 1, 1)", *cluster).str();
  return "";
}

uint32_t threadsOf(tile::KernelOp kernel) { return 32 * uint32_t(kernel.getWarps().value_or(1)); }

} // namespace

NvidiaTarget::NvidiaTarget(llvm::ArrayRef<Atom> own) : rows(own.begin(), own.end()) {
  rows.insert(rows.end(), std::begin(commonRows), std::end(commonRows));
}

codegen::EntryStyle NvidiaTarget::entryStyle() const {
  return {"#include \"tile.h\"\n\n", [](tile::KernelOp kernel, llvm::ArrayRef<std::string> types,
                                        llvm::ArrayRef<std::string> names) {
            std::string parameters;
            for (auto [type, parameter] : llvm::zip(types, names))
              parameters += (parameters.empty() ? "" : ", ") + type + " " + parameter;
            return llvm::formatv(
                       "extern \"C\" __global__ __launch_bounds__({0}{3}){4} void {1}({2}) {{\n"
                       "  [[maybe_unused]] u8 *const shared = sharedMemory();\n"
                       "  [[maybe_unused]] const i64 blockX = blockIdx.x, blockY = blockIdx.y, "
                       "blockZ = blockIdx.z;\n",
                       threadsOf(kernel), kernel.getSymName(), parameters,
                       kernel.getResidents() ? llvm::formatv(", {0}", *kernel.getResidents()).str()
                                             : "",
                       clusterOf(kernel))
                .str();
          }};
}

std::vector<std::byte> NvidiaTarget::build(const std::string &kernel, const std::string &text,
                                           const Chip &chip) const {
  return toolchains::compileCudaObject(kernel, text, deviceHeaders(), options(chip));
}

void NvidiaTarget::inspect(const std::string &kernel, std::span<const std::byte> object,
                           const std::vector<std::string> &patterns) const {
  if (!toolchains::findNvdisasm().usable.empty())
    toolchains::checkPatterns(kernel, toolchains::inspectCudaObject(kernel, object),
                              {patterns, {}});
}

CodeFacts NvidiaTarget::facts(const std::string &kernel, std::span<const std::byte> object) const {
  CodeFacts facts;
  for (const toolchains::CudaResources &entry : toolchains::readCudaResources(kernel, object)) {
    facts.registers = entry.registers;
    facts.spillBytes = entry.stackBytes;
    facts.codeBytes = entry.codeBytes;
  }
  return facts;
}

std::string NvidiaTarget::toolchain(const Chip &chip) const {
  return toolchains::cudaToolchainVersion(chip.name);
}

Inspector NvidiaTarget::inspector() const {
  const toolchains::NvdisasmSearch &search = toolchains::findNvdisasm();
  if (!search.usable.empty())
    return {"nvdisasm " + search.usable.front().version()};
  return {"", "nvdisasm was not found, so it was not checked that kernels have the instructions "
              "that their atoms promise; " +
                  toolchains::nvdisasmHint()};
}

std::string NvidiaTarget::disassemble(const std::string &kernel,
                                      std::span<const std::byte> object) const {
  return toolchains::cudaDisassembly(kernel, object);
}

std::map<std::string, unsigned> NvidiaTarget::mnemonics(const std::string &kernel,
                                                        std::span<const std::byte> object) const {
  if (toolchains::findNvdisasm().usable.empty())
    return {};
  return toolchains::inspectCudaObject(kernel, object).counts;
}

llvm::ArrayRef<PipeRule> NvidiaTarget::pipes() const { return nvidiaPipes; }

uint32_t NvidiaTarget::threadsPerItem(tile::KernelOp kernel) const { return threadsOf(kernel); }

toolchains::CudaCompileOptions NvidiaTarget::options(const Chip &chip) {
  toolchains::CudaCompileOptions options;
  options.arch = chip.name;
  return options;
}

} // namespace m3c
