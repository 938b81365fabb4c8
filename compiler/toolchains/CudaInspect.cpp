#include "compiler/toolchains/CudaInspect.h"

#include "compiler/toolchains/CudaResources.h"
#include "compiler/toolchains/Subprocess.h"
#include "runtime/base/Error.h"
#include "runtime/drivers/nvrtc/Paths.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fs = std::filesystem;
using llvm::StringRef;

namespace m3c::toolchains {

namespace {

// "…, release 13.5, V13.5.37" -> 13, 5, 37.
std::vector<int> versionNumbers(StringRef text) {
  std::vector<int> numbers;
  StringRef rest = text.split(", V").second;
  rest = rest.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
  for (StringRef part : llvm::split(rest, '.'))
    if (int number = 0; !part.getAsInteger(10, number))
      numbers.push_back(number);
  return numbers;
}

class Finder {
public:
  NvdisasmSearch run() {
    if (const char *given = std::getenv("M3C_NVDISASM"); given && *given) {
      tryProgram(given);
      if (search.usable.empty() && search.refused.empty())
        search.refused.push_back(fmt::format("{} (M3C_NVDISASM): no such program", given));
      return std::move(search);
    }
    for (const fs::path &packages : nvrtc::pythonPackageFolders())
      for (const char *folder : {"nvidia/cu13/bin", "nvidia/cuda_nvdisasm/bin"})
        tryProgram(packages / folder / "nvdisasm");
    for (const fs::path &toolkit : nvrtc::cudaToolkitFolders())
      tryProgram(toolkit / "bin" / "nvdisasm");
    StringRef path = std::getenv("PATH") ? std::getenv("PATH") : "";
    for (StringRef folder : llvm::split(path, ':'))
      tryProgram(fs::path(folder.str()) / "nvdisasm");
    return std::move(search);
  }

private:
  void tryProgram(const fs::path &path) {
    std::error_code failed;
    fs::path real = fs::canonical(path, failed);
    if (failed || std::ranges::count(search.usable, real.string(), &Nvdisasm::path))
      return;
    try {
      Finished finished = runProgram(real.string(), {"--version"});
      Nvdisasm program{real.string(), versionNumbers(finished.output)};
      if (finished.status == 0 && !program.numbers.empty())
        add(std::move(program));
      else
        search.refused.push_back(fmt::format("{}: it does not say its version", real.string()));
    } catch (const Error &error) {
      search.refused.push_back(fmt::format("{}: {}", real.string(), error.why()));
    }
  }

  // Newest first; of equals, the first found.
  void add(Nvdisasm program) {
    auto place = std::ranges::find_if(
        search.usable, [&](const Nvdisasm &known) { return known.numbers < program.numbers; });
    search.usable.insert(place, std::move(program));
  }

  NvdisasmSearch search;
};

const Nvdisasm &newest() {
  const NvdisasmSearch &search = findNvdisasm();
  if (search.usable.empty())
    throw Error("the machine code of NVIDIA GPUs cannot be shown", "nvdisasm",
                search.refused.empty()
                    ? "it is in no Python environment, in no toolkit and not on PATH"
                    : fmt::format("{}", fmt::join(search.refused, "; ")),
                nvdisasmHint());
  return search.usable.front();
}

// "/*00f0*/ @P0 EXIT ;" -> address, "EXIT", "@P0".
bool parseInstruction(StringRef line, Instruction &out) {
  line = line.trim();
  if (!line.consume_front("/*"))
    return false;
  auto [address, text] = line.split("*/");
  if (address.getAsInteger(16, out.address))
    return false;
  text = text.take_until([](char c) { return c == ';'; }).trim();
  StringRef guard;
  if (text.starts_with("@"))
    std::tie(guard, text) = text.split(' ');
  auto [mnemonic, operands] = text.ltrim().split(' ');
  out.mnemonic = mnemonic.str();
  out.operands = (operands.trim() + (guard.empty() ? "" : " " + guard)).str();
  return !out.mnemonic.empty();
}

} // namespace

std::string Nvdisasm::version() const { return fmt::format("{}", fmt::join(numbers, ".")); }

const NvdisasmSearch &findNvdisasm() {
  static const NvdisasmSearch search = Finder().run();
  return search;
}

std::string nvdisasmHint() {
  return "pip install 'nvidia-cuda-nvdisasm==13.5.*' (in .venv or for the python3 on PATH), or set "
         "M3C_NVDISASM to the program";
}

std::string cudaDisassembly(const std::string &name, std::span<const std::byte> object) {
  const Nvdisasm &program = newest();
  Finished finished = runProgram(program.path, {"--print-code", inputFile}, object);
  if (finished.status != 0)
    throw Error(
        fmt::format("the machine code of kernel {} cannot be shown", name), program.path,
        fmt::format("exit status {}: {}", finished.status, StringRef(finished.errors).trim().str()),
        "build the plan again, or install a newer nvdisasm for a newer chip");
  return finished.output;
}

Inspection inspectCudaObject(const std::string &name, std::span<const std::byte> object) {
  Inspection result;
  for (const CudaResources &kernel : readCudaResources(name, object)) {
    result.exports.push_back(kernel.kernel);
    result.textBytes += kernel.codeBytes;
    result.spillBytes = std::max(result.spillBytes, kernel.stackBytes);
  }
  std::string text = cudaDisassembly(name, object), function;
  for (StringRef rest = text; !rest.empty();) {
    StringRef line;
    std::tie(line, rest) = rest.split('\n');
    Instruction instruction;
    if (line.starts_with(".text.") && line.ends_with(":"))
      function = line.drop_front(6).drop_back().str();
    else if (parseInstruction(line, instruction)) {
      instruction.function = function;
      ++result.counts[instruction.mnemonic];
      result.instructions.push_back(std::move(instruction));
    }
  }
  if (result.instructions.empty())
    throw Error(fmt::format("the machine code of kernel {} has no instruction", name),
                newest().path, "its disassembly is not as expected", "use another nvdisasm");
  return result;
}

} // namespace m3c::toolchains
