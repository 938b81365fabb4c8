#include "compiler/driver/PassSteps.h"

#include "compiler/driver/Interrupt.h"
#include "compiler/driver/Register.h"
#include "passes/graph/Passes.h"
#include "runtime/base/Error.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include <fmt/format.h>

namespace m3c {

std::vector<PassStep> graphSteps(const std::vector<int64_t> &buckets) {
  std::vector<PassStep> steps;
  for (const std::string &name : graph::pipelinePasses())
    steps.push_back({name, "", "", name == "m3-form-buckets"}); // kernels are made for buckets
  if (!buckets.empty())
    std::ranges::find(steps, "m3-form-buckets", &PassStep::name)->options =
        fmt::format("rows={}", fmt::join(buckets, ","));
  return steps;
}

std::vector<PassStep> chipSteps(const std::string &chip, const std::vector<std::string> &schedule) {
  std::string forChip = "chip=" + chip, lowering = forChip;
  if (!schedule.empty())
    lowering += fmt::format(" schedule={}", fmt::join(schedule, ","));
  return {{"m3-to-tile", "", lowering, true},
          {"tile-overlap-launches", "tile.kernel", forChip, false},
          {"tile-select-atoms", "tile.kernel", forChip, true},
          {"tile-assign-shared", "tile.kernel", "", true},
          {"tile-check-limits", "tile.kernel", forChip, false},
          {"plan-schedule-launches", "plan.program(plan.bucket", "", false},
          {"plan-assign-arena", "plan.program(plan.bucket", "", true},
          {"plan-verify-live-ranges", "plan.program(plan.bucket", "", false}};
}

static std::vector<PassStep> everyStep() {
  std::vector<PassStep> steps = graphSteps();
  for (PassStep &step : chipSteps("", {}))
    steps.push_back(std::move(step));
  return steps;
}

static const PassStep &findStep(const std::vector<PassStep> &steps, const std::string &name,
                                const char *option) {
  auto found = std::ranges::find(steps, name, &PassStep::name);
  if (found != steps.end())
    return *found;
  std::vector<std::string> names;
  for (const PassStep &step : steps)
    names.push_back(step.name);
  throw Error(fmt::format("the pipeline has no pass '{}'", name), option, "",
              fmt::format("it has {}", fmt::join(names, ", ")), ExitCode::Usage);
}

void checkDisabled(const std::vector<std::string> &disabled) {
  std::vector<PassStep> steps = everyStep();
  for (const std::string &name : disabled)
    if (findStep(steps, name, "--disable-pass").required)
      throw Error(fmt::format("the pass '{}' cannot be disabled", name), "--disable-pass",
                  "the passes after it need its result", "", ExitCode::Usage);
}

void checkDumped(const std::vector<std::string> &dumped) {
  std::vector<PassStep> steps = everyStep();
  for (const std::string &name : dumped)
    if (name != "all")
      findStep(steps, name, "--dump-after");
}

static std::string pipelineText(const PassStep &step) {
  std::string text = step.name + (step.options.empty() ? "" : "{" + step.options + "}");
  if (!step.anchor.empty())
    text = fmt::format("{}({}{}", step.anchor, text,
                       std::string(size_t(std::ranges::count(step.anchor, '(')) + 1, ')'));
  return text;
}

// A manager that runs this step alone. A graph pass works on the module or on its functions; which,
// it knows itself.
static std::unique_ptr<mlir::PassManager> managerFor(mlir::MLIRContext *context,
                                                     const PassStep &step) {
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  for (const char *anchor : {step.anchor.c_str(), "func.func"}) {
    auto manager = std::make_unique<mlir::PassManager>(context, mlir::ModuleOp::getOperationName());
    PassStep anchored{step.name, anchor, step.options, step.required};
    if (succeeded(mlir::parsePassPipeline(pipelineText(anchored), *manager, stream)))
      return manager;
  }
  throw Error(fmt::format("the pass {} cannot be set up", step.name), "", errors);
}

std::string placeOf(mlir::Location location) {
  if (isa<mlir::UnknownLoc>(location))
    return "";
  if (auto file = dyn_cast<mlir::FileLineColLoc>(location))
    return fmt::format("{}:{}:{}", file.getFilename().str(), file.getLine(), file.getColumn());
  if (auto name = dyn_cast<mlir::NameLoc>(location))
    return name.getName().str();
  std::string text;
  llvm::raw_string_ostream(text) << location;
  return text;
}

static void runStep(mlir::ModuleOp module, const PassStep &step) {
  std::unique_ptr<mlir::PassManager> manager = managerFor(module.getContext(), step);
  // Kernels are worked on by several threads; the first error in the order of the module counts.
  std::string where, message;
  std::mutex mutex;
  mlir::ScopedDiagnosticHandler handler(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
    std::lock_guard lock(mutex);
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && message.empty()) {
      message = diagnostic.str();
      where = placeOf(diagnostic.getLocation());
      // The operation itself, where its place is not known.
      for (mlir::Diagnostic &note : diagnostic.getNotes())
        if (where.empty() || !note.str().starts_with("see current operation"))
          message += "\n         " + note.str().substr(0, 400);
    }
    return mlir::success();
  });
  if (failed(manager->run(module)))
    throw Error(fmt::format("the pass {} failed", step.name), where, message,
                "with --dump-after=all --dump-dir DIR the last file holds the input");
}

void runSteps(mlir::ModuleOp module, const std::vector<PassStep> &steps,
              const PassRunOptions &options) {
  static std::once_flag once;
  std::call_once(once, registerAllPasses);
  for (const PassStep &step : steps) {
    checkInterrupted();
    if (std::ranges::find(options.disabled, step.name) != options.disabled.end())
      continue;
    auto begun = std::chrono::steady_clock::now();
    runStep(module, step);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    if (options.after)
      options.after(step, module, took.count());
  }
}

} // namespace m3c
