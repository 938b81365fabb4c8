#include "compiler/driver/Kernels.h"

#include "compiler/codegen/CppPrinter.h"
#include "compiler/driver/Interrupt.h"
#include "compiler/driver/PassSteps.h"
#include "runtime/base/Error.h"

#include "mlir/IR/Diagnostics.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace m3c {

namespace {

template <typename T> std::string printed(T value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

// The row that tile-select-atoms chose for `op`; null where it has none.
const Atom *atomOf(mlir::Operation *op, const Target &target, const Chip &chip) {
  auto function = op->getAttrOfType<mlir::StringAttr>("atom");
  if (!function)
    return nullptr;
  for (const Atom &atom : target.atoms())
    if (op->getName().getStringRef() == atom.op && function.getValue() == atom.function &&
        atomFormat(op) == atom.format && (atom.chip.empty() || atom.chip == chip.name))
      return &atom;
  return nullptr;
}

std::vector<std::string> patternsOf(tile::KernelOp kernel, const Target &target, const Chip &chip) {
  std::set<std::string> patterns;
  kernel.walk([&](mlir::Operation *op) {
    if (const Atom *atom = atomOf(op, target, chip); atom && !atom->pattern.empty())
      patterns.insert(atom->pattern);
  });
  return {patterns.begin(), patterns.end()};
}

/// What a parameter points to; codes of 16 bits are BF16 (passes/kernel).
plan::Element elementOf(mlir::Type parameter) {
  auto view = llvm::dyn_cast<tile::ViewType>(parameter);
  if (!view)
    return plan::Element::Number;
  if (view.getElement().isF32())
    return plan::Element::F32;
  if (view.getElement().isInteger(16) || view.getElement().isBF16())
    return plan::Element::Bf16;
  return view.getElement().isInteger(32) ? plan::Element::I32 : plan::Element::Bytes;
}

KernelText printOne(tile::KernelOp kernel, const Chip &moduleChip) {
  auto [owner, row] = chipOf(kernel, moduleChip.name);
  const Target &target = *owner;
  std::string message, where;
  mlir::ScopedDiagnosticHandler handler(kernel.getContext(), [&](mlir::Diagnostic &diagnostic) {
    if (message.empty()) {
      message = diagnostic.str();
      where = placeOf(diagnostic.getLocation());
    }
    return mlir::success();
  });
  mlir::FailureOr<std::string> source = codegen::printKernel(kernel, target.entryStyle());
  if (failed(source))
    throw Error(fmt::format("kernel {} cannot be printed", kernel.getSymName().str()), where,
                message,
                "use what kernels of m3c use (docs/reference); in one of those this is a defect");
  KernelText text;
  text.target = owner;
  text.chip = *row;
  text.name = kernel.getSymName().str();
  text.family = kernel.getFamily().str();
  for (mlir::NamedAttribute choice : kernel.getSchedule()) {
    auto number = llvm::dyn_cast<mlir::IntegerAttr>(choice.getValue());
    text.isTuned |= choice.getName() == tunedMark && number && number.getInt();
    text.schedule +=
        fmt::format("{}{} = {}", text.schedule.empty() ? "" : ", ", choice.getName().str(),
                    number ? std::to_string(number.getInt()) : printed(choice.getValue()));
  }
  text.params = uint32_t(kernel.getArgumentTypes().size());
  for (mlir::Type type : kernel.getArgumentTypes())
    text.elements.push_back(elementOf(type));
  text.shape.sharedBytes = uint64_t(kernel.getSharedBytes().value_or(0));
  text.shape.threads = target.threadsPerItem(kernel);
  text.shape.overlaps = !kernel.getBody().front().getOps<tile::AwaitLaunchOp>().empty();
  text.source = std::move(*source);
  text.tile = printed(kernel) + "\n";
  text.patterns = patternsOf(kernel, target, *row);
  return text;
}

std::string headersDigest(const Target &target) {
  CacheKey key("headers");
  for (const auto &[path, text] : target.deviceHeaders())
    key.add(path, text);
  return key.digest().hex();
}

} // namespace

const Target &requireTarget(const std::string &name) {
  if (const Target *target = findTarget(name))
    return *target;
  std::vector<std::string> built;
  for (const auto &target : allTargets())
    built.push_back(target->name().str());
  throw Error(fmt::format("unknown target '{}'", name), "--target",
              fmt::format("it compiles for {}", fmt::join(built, ", ")), "`m3c targets` lists them",
              ExitCode::Usage);
}

std::vector<KernelText> printKernels(mlir::ModuleOp module, const Chip &chip) {
  std::vector<KernelText> kernels;
  for (auto kernel : module.getOps<tile::KernelOp>())
    kernels.push_back(printOne(kernel, chip));
  return kernels;
}

CacheKey kernelKey(const KernelText &kernel) {
  const Target &target = *kernel.target;
  CacheKey key("kernel");
  key.add("name", kernel.name)
      .add("source", kernel.source)
      .add("headers", headersDigest(target))
      .add("chip", kernel.chip.name)
      .add("toolchain", target.toolchain(kernel.chip))
      .add("inspector", target.inspector().name)
      .add("program", programIdentity());
  return key;
}

void checkSpills(const KernelText &kernel, const CodeFacts &facts) {
  if (!kernel.isTuned || facts.spillBytes == 0)
    return;
  throw Error(
      fmt::format("kernel {} spills registers on {}", kernel.name, kernel.chip.name),
      fmt::format("{} on {}, schedule {}", kernel.family, kernel.chip.name, kernel.schedule),
      fmt::format("{} bytes of each thread lie in memory for want of registers{}; its "
                  "schedule is marked as tuned, which allows none",
                  facts.spillBytes,
                  facts.registers ? fmt::format(" ({} are used)", facts.registers) : ""),
      "take smaller tiles in the target's schedule table, or the mark away; a schedule "
      "given by --schedule may spill");
}

BuildResult buildKernel(const KernelText &kernel) {
  const Target &target = *kernel.target;
  auto begun = std::chrono::steady_clock::now();
  BuildResult result;
  result.object = target.build(kernel.name, kernel.source, kernel.chip);
  std::string name = kernel.name + " for " + kernel.chip.name;
  result.facts = target.facts(name, result.object);
  checkSpills(kernel, result.facts);
  target.inspect(name, result.object, kernel.patterns);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return result;
}

std::vector<BuildResult>
buildKernels(const std::vector<KernelText> &kernels, ContentCache &cache, unsigned threads,
             const std::function<void(size_t, const std::string &)> &progress) {
  std::vector<BuildResult> results(kernels.size());
  std::atomic<size_t> next = 0, done = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  auto buildOne = [&](const KernelText &kernel) -> BuildResult {
    CacheKey key = kernelKey(kernel);
    if (std::optional<std::vector<std::byte>> known = cache.load(key)) {
      CodeFacts facts = kernel.target->facts(kernel.name, *known);
      checkSpills(kernel, facts); // the mark is in no key
      return {std::move(*known), 0, facts};
    }
    BuildResult built = buildKernel(kernel);
    cache.store(key, built.object);
    return built;
  };
  auto work = [&] {
    for (size_t i; (i = next++) < kernels.size();) {
      try {
        checkInterrupted();
        results[i] = buildOne(kernels[i]);
      } catch (...) {
        std::lock_guard lock(mutex);
        failure = failure ? failure : std::current_exception();
        next = kernels.size();
        return;
      }
      std::lock_guard lock(mutex);
      progress(++done, kernels[i].name);
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < threads && i < kernels.size(); ++i)
    workers.emplace_back(work);
  work();
  for (std::thread &worker : workers)
    worker.join();
  if (failure)
    std::rethrow_exception(failure);
  return results;
}

} // namespace m3c
