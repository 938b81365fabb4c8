// `m3c build-kernel K.mlir --target T`: a tile kernel as text to machine code.
#include "compiler/driver/BuildKernel.h"
#include "compiler/driver/Kernels.h"
#include "runtime/base/Error.h"
#include "runtime/base/FileWriter.h"
#include "runtime/base/Log.h"
#include "tools/m3c/Commands.h"

#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace m3c {
namespace {

struct BuildKernelOptions {
  std::string file, target, folder = ".";
  std::vector<std::string> chips;
  bool printSource = false, printCode = false, json = false;
};

void write(const std::filesystem::path &path, std::span<const std::byte> bytes) {
  FileWriter file(path);
  file.write(bytes);
  file.publish();
}

int runBuildKernel(const BuildKernelOptions &options) {
  const Target *target =
      options.target.empty() ? allTargets().front().get() : &requireTarget(options.target);
  Inspector inspector = target->inspector();
  if (inspector.name.empty())
    log::warning("{}", inspector.absence);
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const BuiltKernel &kernel : buildKernelFile(options.file, *target, options.chips)) {
    std::filesystem::path stem =
        std::filesystem::path(options.folder) / fmt::format("{}.{}", kernel.name, kernel.chip);
    auto [sourceSuffix, objectSuffix] = target->fileSuffixes();
    std::string source = stem.string() + sourceSuffix.str(),
                object = stem.string() + objectSuffix.str();
    write(object, kernel.result.object);
    write(source, std::as_bytes(std::span(kernel.text.source)));
    const CodeFacts &facts = kernel.result.facts;
    out.push_back({{"kernel", kernel.name},
                   {"chip", kernel.chip},
                   {"object", object},
                   {"source", source},
                   {"bytes", kernel.result.object.size()},
                   {"code_bytes", facts.codeBytes},
                   {"registers", facts.registers},
                   {"spill_bytes", facts.spillBytes},
                   {"inspector", inspector.name},
                   {"shared_bytes", kernel.text.shape.sharedBytes}});
    if (!options.json)
      fmt::print("{}: {} bytes of code, {}{} bytes spilled, {} bytes of shared memory\n", object,
                 facts.codeBytes,
                 facts.registers ? fmt::format("{} registers, ", facts.registers) : "",
                 facts.spillBytes, kernel.text.shape.sharedBytes);
    if (options.printSource)
      fmt::print("{}\n", kernel.text.source);
    if (options.printCode)
      fmt::print("{}\n", target->disassemble(kernel.name, kernel.result.object));
  }
  if (options.json)
    fmt::print("{}\n", out.dump(1));
  return 0;
}

} // namespace

std::function<int()> setUpBuildKernel(CLI::App &app) {
  auto options = std::make_shared<BuildKernelOptions>();
  app.add_option("FILE", options->file, "MLIR text with tile.kernel operations")->required();
  app.add_option("--target", options->target, "what to build for; `m3c targets` lists them");
  app.add_option("--chip", options->chips, "chips of the target; all when absent")->delimiter(',');
  app.add_option("-o,--output", options->folder,
                 "folder for the source and the object of each kernel, KERNEL.CHIP.*");
  auto *source = app.add_flag("--print-source", options->printSource, "print the generated text");
  auto *code = app.add_flag("--print-code", options->printCode, "print the machine code");
  app.add_flag("--json", options->json, "print JSON")->excludes(source)->excludes(code);
  return [options] { return runBuildKernel(*options); };
}

} // namespace m3c
