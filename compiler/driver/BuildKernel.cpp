#include "compiler/driver/BuildKernel.h"

#include "compiler/driver/PassSteps.h"
#include "compiler/driver/Register.h"
#include "runtime/base/Error.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

namespace m3c {

static mlir::OwningOpRef<mlir::ModuleOp> readModule(const std::string &path,
                                                    mlir::MLIRContext &context) {
  if (!std::filesystem::is_regular_file(path))
    throw Error("cannot read " + path, path, "no such file");
  std::string where, message;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (message.empty()) {
      message = diagnostic.str();
      where = placeOf(diagnostic.getLocation());
    }
    return mlir::success();
  });
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
  if (!module)
    throw Error(path + " does not read as kernels", where, message,
                "`m3c extract` of a plan with --keep-sources gives examples");
  return module;
}

// A kernel's name stands in the printed text and names its files.
static void checkName(tile::KernelOp kernel) {
  constexpr size_t longest = 200; // with chip and ending in a file's name of 255 bytes
  llvm::StringRef name = kernel.getSymName();
  bool isIdentifier = !name.empty() && !llvm::isDigit(name.front()) &&
                      llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  if (!isIdentifier || name.size() > longest)
    throw Error("a kernel cannot have the name '" + name.str() + "'", placeOf(kernel.getLoc()),
                fmt::format("it is printed as the name of a function: letters, digits and _, no "
                            "digit first, {} at most",
                            longest),
                "choose another one");
}

// The kernel steps of the pipeline, without the lowering that makes kernels and the plan's own.
static std::vector<PassStep> kernelSteps(const std::string &chip) {
  std::vector<PassStep> steps = chipSteps(chip, {});
  std::erase_if(steps, [](const PassStep &step) { return step.anchor != "tile.kernel"; });
  return steps;
}

std::vector<BuiltKernel> buildKernelFile(const std::string &path, const Target &target,
                                         const std::vector<std::string> &chips) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  context.loadAllAvailableDialects();
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(path, context);
  for (auto kernel : module->getOps<tile::KernelOp>())
    checkName(kernel);
  std::vector<BuiltKernel> built;
  for (const Chip &chip : target.chips()) {
    if (!chips.empty() && !std::ranges::count(chips, chip.name))
      continue;
    mlir::OwningOpRef<mlir::ModuleOp> copy = module->clone();
    runSteps(*copy, kernelSteps(chip.name), {});
    for (KernelText &text : printKernels(*copy, chip)) {
      BuildResult result = buildKernel(text);
      built.push_back({text.name, text.chip.name, std::move(text), std::move(result)});
    }
  }
  if (built.empty())
    throw Error("nothing to build", path, "the file has no tile.kernel, or the target no such chip",
                "`m3c targets` lists the chips");
  return built;
}

} // namespace m3c
