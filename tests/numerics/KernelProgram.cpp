#include "tests/numerics/KernelProgram.h"

#include "compiler/driver/Kernels.h"
#include "compiler/driver/PassSteps.h"
#include "compiler/driver/Register.h"
#include "dialects/m3/M3.h"
#include "dialects/plan/Plan.h"
#include "dialects/tile/Tile.h"
#include "passes/kernel/Passes.h"
#include "passes/targets/common/Emulated.h"
#include "runtime/base/Error.h"
#include "runtime/drivers/Drivers.h"
#include "runtime/drivers/emulator/EmulatorDriver.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <bit>
#include <cstring>
#include <fmt/format.h>

using namespace mlir;

namespace m3c::numerics {
namespace {

bool isEmulated(const std::string &chip) {
  return findEmulatedTarget(std::string_view(findChip(chip).first->name())) != nullptr;
}

std::unique_ptr<hal::Device> openHost(unsigned threads) {
  for (const std::unique_ptr<hal::Driver> &driver : hal::allDrivers())
    if (driver->name() == "host")
      return driver->open(0, {threads, /*pin=*/false});
  throw Error("no host driver", "numerics", "this build has none", "build runtime/drivers");
}

std::unique_ptr<hal::Device> openFor(const std::string &chip, unsigned threads, uint64_t seed) {
  if (!isEmulated(chip))
    return openHost(threads);
  return hal::openEmulatedDevice(hal::loadEmulator(),
                                 {findChip(chip).first->name().str(), seed, threads});
}

/// What the chip's device loads.
std::vector<std::byte> codeOf(const KernelText &kernel) {
  if (!isEmulated(kernel.chip.name))
    return buildKernel(kernel).object;
  hal::SourceText source{kernel.source, {}, {}};
  source.headers.assign(kernel.target->deviceHeaders().begin(),
                        kernel.target->deviceHeaders().end());
  return openFor(kernel.chip.name, 1, 1)->build(source, kernel.name);
}

Argument argumentOf(mlir::Value value, const llvm::DenseMap<mlir::Value, size_t> &numbers) {
  Operation *op = value.getDefiningOp();
  if (auto buffer = dyn_cast<planir::BufferOp>(op))
    return {Argument::Buffer, buffer.getName().str(), int64_t(numbers.at(value))};
  if (auto weight = dyn_cast<planir::WeightOp>(op))
    return {Argument::Weight, weight.getSymbol().str(), 0};
  if (auto pool = dyn_cast<planir::PoolOp>(op))
    return {Argument::Pool, "", int64_t(pool.getOffset())};
  if (auto scalar = dyn_cast<planir::ScalarOp>(op))
    return {Argument::Scalar, "", int64_t(scalar.getValue())};
  return {Argument::Batch, "", int64_t(cast<planir::BatchOp>(op).getArray())};
}

/// The batch as the arrays that kernels read.
struct BatchArrays {
  std::vector<int32_t> counts, table, counters = std::vector<int32_t>(plan::counters);
  const interpreter::Batch &batch;
  std::vector<int32_t> ids, positions, sequences;
  /// Arrays of rows are as long as the bucket; what no row has is no number of anything.
  BatchArrays(const interpreter::Batch &batch, int64_t blocks, int64_t bucket)
      : batch(batch), ids(batch.tokenIds), positions(batch.positions),
        sequences(batch.sequenceOfRow) {
    for (std::vector<int32_t> *list : {&ids, &positions, &sequences})
      list->resize(std::max(list->size(), size_t(bucket)), -1);
    counts = {int32_t(batch.rows()), int32_t(batch.pageTable.size()),
              int32_t(batch.logitRows.size()), int32_t(blocks)};
    for (std::vector<int32_t> pages : batch.pageTable) {
      pages.resize(size_t(blocks), 0);
      table.insert(table.end(), pages.begin(), pages.end());
    }
  }
  const std::vector<int32_t> &list(int64_t array) const {
    const std::vector<int32_t> *lists[] = {
        &counts, &ids, &positions, &sequences, &table, &batch.logitRows, &counters};
    return *lists[array];
  }
};

} // namespace

interpreter::Batch oneText(int64_t rows, int32_t position) {
  interpreter::Batch batch;
  for (int64_t r = 0; r < rows; ++r) {
    batch.tokenIds.push_back(int32_t(r));
    batch.positions.push_back(int32_t(r) + position);
    batch.sequenceOfRow.push_back(0);
  }
  batch.pageTable = {std::vector<int32_t>(16, 0)};
  return batch;
}

std::vector<std::string> hostChips() {
  std::unique_ptr<hal::Device> device = openHost(1);
  std::vector<std::string> chips;
  for (const std::unique_ptr<Target> &target : allTargets())
    for (const Chip &chip : target->chips())
      if (llvm::all_of(chip.features,
                       [&](const std::string &f) { return device->info().supports(f); }))
        chips.push_back(chip.name);
  return chips;
}

std::vector<std::string> runnableChips() {
  std::vector<std::string> chips = hostChips();
  for (const std::unique_ptr<Target> &target : allTargets())
    if (isEmulated(target->chips().front().name))
      chips.push_back(target->chips().front().name);
  return chips;
}

std::vector<std::string> incompleteChips() {
  std::vector<std::string> chips = runnableChips();
  std::erase_if(chips,
                [](const std::string &chip) { return findChip(chip).first->fallback().empty(); });
  return chips;
}

KernelProgram::KernelProgram(const std::string &module, const std::string &chip, int64_t rows,
                             const std::vector<std::string> &schedule)
    : chip(chip), rows(rows) {
  lower(module, chip, schedule);
}

void KernelProgram::lower(const std::string &text, const std::string &chipName,
                          const std::vector<std::string> &schedule) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::string messages;
  ScopedDiagnosticHandler collect(&context, [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(messages) << diagnostic << "\n";
    return success();
  });
  auto check = [&](bool good, const char *what) {
    if (!good)
      throw Error(what, "numerics", messages, "look at the module of the test");
  };
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  check(bool(module), "the module does not parse");
  (*module->getOps<func::FuncOp>().begin())->setAttr(m3::stepAttr, UnitAttr::get(&context));
  PassManager passes(&context);
  kernel::LowerToTileOptions options;
  options.chip = chipName;
  options.buckets.push_back(rows);
  for (const std::string &choice : schedule)
    options.overrides.push_back(choice);
  passes.addPass(kernel::createLowerToTile(options));
  passes.enableVerifier(false); // reads a cache that it does not write
  check(succeeded(passes.run(*module)), "the module cannot be lowered");

  auto program = *module->getOps<planir::ProgramOp>().begin();
  auto bucket = *program.getBody().front().getOps<planir::BucketOp>().begin();
  llvm::DenseMap<mlir::Value, size_t> numbers;
  for (auto buffer : bucket.getBody().front().getOps<planir::BufferOp>()) {
    numbers[buffer.getResult()] = buffers.size();
    buffers.push_back({buffer.getName().str(), int64_t(buffer.getRowBytes()),
                       int64_t(buffer.getBlockBytes()), int64_t(buffer.getFixedBytes())});
  }
  for (auto op : bucket.getBody().front().getOps<planir::LaunchOp>()) {
    Launch launch{op.getKernel().str(), op.getLabel().str(), {}, {}, {}};
    for (mlir::Value value : op.getArguments())
      launch.arguments.push_back(argumentOf(value, numbers));
    std::copy_n(op.getGridCount().begin(), 3, launch.count);
    std::copy_n(op.getGridBlocksPerItem().begin(), 3, launch.blocksPerItem);
    launches.push_back(std::move(launch));
  }

  // Kernels alone: the launches are no part of what a chip's compiler sees.
  program.erase();
  const Chip *chip = findChip(chipName).second;
  std::vector<PassStep> steps = chipSteps(chipName, schedule);
  std::erase_if(steps, [](const PassStep &step) { return step.anchor != "tile.kernel"; });
  runSteps(*module, steps, {});
  for (const KernelText &kernel : printKernels(*module, *chip)) {
    hal::KernelShape shape;
    shape.parameters = kernel.params;
    shape.sharedBytes = kernel.shape.sharedBytes;
    shape.threads = kernel.shape.threads;
    shape.cluster = kernel.shape.cluster;
    kernels[kernel.name] = {kernel.source, codeOf(kernel), shape, kernel.chip.name != chipName};
  }
}

size_t KernelProgram::numberOf(const std::string &name) const {
  for (size_t i = buffers.size(); i-- > 0;)
    if (buffers[i].name == name)
      return i;
  throw Error("no buffer " + name, "numerics", "the bucket has none of that name",
              "see m3-to-tile's output");
}

/// Where a device sees the arrays of a run: the host where they are, another device in buffers of
/// its own.
class KernelProgram::Placement {
public:
  Placement(hal::Device &device, hal::Stream &stream, bool copies)
      : device(device), stream(stream), copies(copies) {}

  uint64_t of(std::span<const std::byte> data, const std::string &name) {
    if (!copies)
      return uint64_t(data.data());
    std::unique_ptr<hal::Buffer> &buffer = buffers[data.data()];
    if (!buffer) {
      buffer = device.allocate(data.size(), hal::MemoryKind::Device, name);
      stream.write(*buffer, 0, data);
    }
    return buffer->address();
  }

  uint64_t ofPool(const StepInput &input) {
    if (!copies || !input.pool)
      return uint64_t(input.pool);
    std::unique_ptr<hal::Buffer> &buffer = buffers[input.pool];
    if (!buffer) {
      buffer = device.allocate(uint64_t(input.poolPages * input.pageBytes), hal::MemoryKind::Device,
                               "the cache");
      for (const std::vector<int32_t> &pages : input.batch->pageTable)
        for (int32_t page : pages)
          if (page < input.poolPages)
            stream.write(*buffer, uint64_t(page * input.pageBytes),
                         {input.pool + page * input.pageBytes, size_t(input.pageBytes)});
    }
    return buffer->address();
  }

  void readBack(std::span<std::byte> data) {
    if (auto found = buffers.find(data.data()); found != buffers.end())
      stream.read(*found->second, 0, data);
  }

private:
  hal::Device &device;
  hal::Stream &stream;
  bool copies;
  std::map<const std::byte *, std::unique_ptr<hal::Buffer>> buffers;
};

void KernelProgram::run(const StepInput &input) {
  int64_t blocks =
      input.blocks ? input.blocks : int64_t(std::bit_ceil(uint64_t(input.batch->blocks())));
  BatchArrays arrays(*input.batch, blocks, rows);
  memory.clear();
  for (const ArenaBuffer &buffer : buffers)
    memory.emplace_back(
        size_t(buffer.rowBytes * rows + buffer.blockBytes * blocks + buffer.fixedBytes),
        std::byte(0xff));
  for (const auto &[name, values] : input.given)
    std::memcpy(memory.at(numberOf(name)).data(), values.data(), values.size() * sizeof(float));
  std::unique_ptr<hal::Device> device = openFor(chip, input.threads, input.seed);
  std::unique_ptr<hal::Stream> stream = device->createStream();
  Placement placement(*device, *stream, isEmulated(chip));
  auto weight = [&](const std::string &buffer) -> const std::vector<float> & {
    auto own = input.weights.find(buffer);
    return own == input.weights.end() ? input.weights.at(buffer.substr(0, buffer.rfind('.')))
                                      : own->second;
  };
  auto value = [&](const Argument &argument) -> uint64_t {
    switch (argument.kind) {
    case Argument::Buffer:
      return placement.of(memory[size_t(argument.value)], argument.name);
    case Argument::Weight:
      return placement.of(std::as_bytes(std::span(weight(argument.name))), argument.name);
    case Argument::Pool:
      return placement.ofPool(input) + uint64_t(argument.value);
    case Argument::Scalar:
      return uint64_t(argument.value);
    case Argument::Batch:
      return placement.of(std::as_bytes(std::span(arrays.list(argument.value))), "a batch array");
    }
    return 0;
  };
  std::vector<std::unique_ptr<hal::Module>> modules;
  std::vector<std::unique_ptr<hal::Kernel>> loaded;
  for (unsigned time = 0; time < input.times; ++time)
    for (const Launch &launch : launches) {
      if (!StringRef(launch.label).ends_with(input.only))
        continue;
      const BuiltKernel &built = kernels.at(launch.kernel);
      modules.push_back(built.standsIn ? device->loadFallback(built.code, launch.kernel)
                                       : device->load(built.code, launch.kernel));
      loaded.push_back(modules.back()->kernel(launch.kernel, built.shape));
      std::vector<uint64_t> parameters;
      for (const Argument &argument : launch.arguments)
        parameters.push_back(value(argument));
      auto size = [&](int d) {
        int64_t per = launch.blocksPerItem[d];
        return uint32_t(per ? (blocks + per - 1) / per : launch.count[d]);
      };
      hal::Grid grid = {size(0), size(1), size(2)};
      stream->launch(*loaded.back(), grid, parameters, launch.label);
    }
  stream->synchronize();
  for (std::vector<std::byte> &buffer : memory)
    placement.readBack(buffer);
  placement.readBack(std::as_writable_bytes(std::span(arrays.counters)));
  if (llvm::any_of(arrays.counters, [](int32_t count) { return count != 0; }))
    throw Error("a counter is not zero after the step", "numerics", "the next one begins with it",
                "see who counts in");
}

} // namespace m3c::numerics
