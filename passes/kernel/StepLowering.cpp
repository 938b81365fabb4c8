#include "passes/kernel/StepLowering.h"

#include "runtime/plan/PlanFormat.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace m3c::kernel {

Value StepLowering::bufferOf(Value tensor) {
  auto found = buffers.find(tensor);
  return found == buffers.end() ? Value() : found->second;
}

Value StepLowering::makeBuffer(Value tensor, StringRef name) {
  auto type = cast<RankedTensorType>(tensor.getType());
  int64_t width = 1;
  for (int64_t size : type.getShape().drop_front())
    width *= size;
  int64_t rowBytes = width * type.getElementTypeBitWidth() / 8;
  return buffers[tensor] = scratch(name, rowBytes, 0, paddingRows * rowBytes);
}

Value StepLowering::scratch(StringRef name, int64_t rowBytes, int64_t blockBytes,
                            int64_t fixedBytes) {
  return planir::BufferOp::create(bucket, loc(), name, rowBytes, blockBytes, fixedBytes);
}

RowBuffer StepLowering::scratchRows(StringRef name, int64_t width, Type element, int64_t count) {
  int64_t rowBytes = width * tile::elementBytes(element);
  return {scratch(name, count * rowBytes, 0, paddingRows * rowBytes), element};
}

Type storedElement(Value tensor) {
  Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
  return element.isBF16() ? IntegerType::get(tensor.getContext(), 16) : element;
}

std::string spell(const Schedule &schedule) {
  std::string text;
  for (const auto &[name, value] : schedule)
    if (name != tunedMark)
      text += llvm::formatv("_{0}{1}", name, value);
  return text;
}

ArrayRef<SwitchableForm> switchableForms() {
  // Of a family the one that is tried first comes first.
  static constexpr SwitchableForm forms[] = {
      {"attention", "kv_outer"},     {"attention", "tensor"},       {"attention", "shared"},
      {"attention", "matrix"},       {"index_score", "tensor"},     {"index_score", "matrix"},
      {"block_topk", "by_warps"},    {"project", "packed_rows"},    {"gate_up", "packed_rows"},
      {"qkv_insert", "packed_rows"}, {"experts_up", "packed_rows"}, {"experts_down", "packed_rows"},
      {"project", "split_rows"},     {"gate_up", "split_rows"},     {"qkv_insert", "split_rows"}};
  return forms;
}

std::string spellElements(ArrayRef<Type> elements) {
  if (llvm::all_of(elements, [](Type element) { return element.isF32(); }))
    return "";
  std::string text = "_";
  for (Type element : elements)
    text += element.isF32() ? 'f' : 'b';
  return text;
}

Value StepLowering::weight(StringRef symbol) {
  Value &value = weights[symbol];
  if (!value)
    value = planir::WeightOp::create(bucket, loc(), symbol);
  return value;
}

Value StepLowering::batch(planir::BatchArray array) {
  Value &value = batches[int(array)];
  if (!value)
    value = planir::BatchOp::create(bucket, loc(), planir::PointerType::get(bucket.getContext()),
                                    array);
  return value;
}

FailureOr<Value> StepLowering::counters(int64_t count) {
  if (count > int64_t(plan::counters))
    return emitError(loc(), "a launch needs ")
           << count << " counters, a step has " << plan::counters << "; make its work items larger";
  return batch(planir::BatchArray::Counters);
}

Value StepLowering::pool(int64_t offset) {
  return planir::PoolOp::create(bucket, loc(), planir::PointerType::get(bucket.getContext()),
                                offset);
}

tile::KernelOp StepLowering::kernel(StringRef name, function_ref<tile::KernelOp()> build) {
  auto isOwn = [&](tile::KernelOp kernel) {
    return target.fallback().empty() || emitted.lookup(kernel.getFamily());
  };
  if (auto existing = module.lookupSymbol<tile::KernelOp>(name)) {
    assert(isOwn(existing) != bool(existing.getChip()) && "kernels of two chips have one name");
    return existing;
  }
  tile::KernelOp made = build();
  if (!isOwn(made))
    made.setChip(target.fallback());
  return made;
}

void StepLowering::launch(tile::KernelOp kernel, ArrayRef<LaunchArgument> arguments,
                          ArrayRef<planir::GridDim> grid, StringRef label) {
  SmallVector<Value> values;
  SmallVector<planir::Access> accesses;
  for (const LaunchArgument &argument : arguments) {
    values.push_back(argument.value);
    accesses.push_back(argument.access);
  }
  SmallVector<planir::GridDim> full(grid.begin(), grid.end());
  full.resize(3);
  for (planir::GridDim &dim : full) // a dimension by blocks has no count of its own
    dim.count = std::max<int64_t>(1, dim.count);
  full[0].count *= int64_t(kernel.getCluster().value_or(1));
  planir::LaunchOp::create(bucket, loc(), kernel.getSymName(), values, accesses, full, label);
  ++launches;
}

void StepLowering::tap(planir::TapKind kind, int64_t layer, int64_t rowBytes, Value buffer) {
  planir::TapOp::create(bucket, loc(), kind, layer, rowBytes, buffer);
}

/// A choice that a kernel's name and schedule do not say: no registers for roles, one warp that
/// brings pages, parts of each row or tile.
static bool goesWithoutSaying(StringRef choice, int64_t value) {
  if (choice == "loaders")
    return value == 1;
  return (choice == "flat" || choice == "all_rows" || choice.ends_with("_registers")) && !value;
}

StepLowering::Offer StepLowering::offer(StringRef family, const Schedule &problem) const {
  if (target.fallback().empty() || target.emits(family, problem))
    return {true, target.schedule(family, problem, chip)};
  auto [maker, row] = findChip(target.fallback());
  return {false, maker->schedule(family, problem, *row)};
}

/// The problem of a family that has no kernel of a form; without matrix instructions there is none
/// of the other forms either.
static Schedule without(StringRef form, Schedule problem) {
  problem[form.str()] = 0;
  if (form != "matrix")
    return problem;
  for (const char *other : {"kv_outer", "tensor", "shared"})
    if (problem.count(other))
      problem[other] = 0;
  problem["plain"] = 1;
  return problem;
}

/// A target has a form where it offers something else with it than without.
Schedule StepLowering::switchForms(StringRef family, Schedule &problem) const {
  Schedule said;
  auto eachForm = [&](int64_t wanted) {
    for (const SwitchableForm &form : switchableForms()) {
      std::string name = form.form.str();
      if (form.family != family || !problem.count(name) || said.count(name) ||
          overrideOf((family + "." + form.form).str()) != wanted)
        continue;
      Schedule denied = without(form.form, problem), asked = problem;
      asked[name] = problem[name] ? askedForm : 0;
      if (offer(family, denied) == offer(family, asked))
        continue;
      said[name] = wanted;
      problem = wanted ? asked : denied;
    }
  };
  for (int64_t wanted : {0, 1, 0, 1}) // a form may be there only with another one
    eachForm(wanted);
  return said;
}

Schedule StepLowering::schedule(StringRef family, Schedule problem) {
  problem.emplace("rows", rows);
  Schedule said = switchForms(family, problem);
  auto [isOwn, result] = offer(family, problem);
  if (!target.fallback().empty())
    emitted[family] = isOwn;
  bool isOverridden = !said.empty();
  for (const auto &[choice, value] : result) {
    std::optional<int64_t> given = overrideOf((family + "." + choice).str());
    isOverridden |= given.has_value();
    if (given)
      said[choice] = *given;
    else if (!goesWithoutSaying(choice, value))
      said[choice] = value;
  }
  if (isOverridden)
    said.erase(tunedMark);
  return said;
}

m3::WeightOp StepLowering::weightOp(StringRef symbol) {
  return source.lookupSymbol<m3::WeightOp>(symbol);
}

int64_t layerOf(StringRef symbol) {
  int64_t layer;
  if (!symbol.consume_front("layers.") || symbol.consumeInteger(10, layer))
    return -1;
  return layer;
}

} // namespace m3c::kernel
