// State of lowering one step function to the kernels and launches of one bucket.
#pragma once

#include "dialects/m3/M3.h"
#include "dialects/plan/Plan.h"
#include "passes/kernel/KernelBuilder.h"

#include "llvm/ADT/StringMap.h"

#include <optional>

namespace m3c::kernel {

/// Elements of buffers past the last row: register tiles of rows may read (never write) that many.
inline constexpr int64_t paddingRows = 16;
/// Outputs of one panel of a packed weight.
inline constexpr int64_t panelOutputs = 16;
/// Panels that lie side by side in memory where a matrix has an even number of them: 128 bytes, the
/// unit in which memory is fetched, and no more than a narrow register tile takes at once.
inline constexpr int64_t panelsAbreast = 2;

/// A weight as kernels read it: names of its buffers, and its sizes in elements.
struct PackedWeight {
  m3::Encoding encoding;
  bool fragments = false;            ///< operands of matrix instructions, else panels of words
  std::string words, scales, global; ///< buffer symbols; empty where there is none
  int64_t outputs = 0;               ///< of one matrix, unpadded
  int64_t panels = 0;                ///< of one matrix
  int64_t abreast = 1;               ///< panels side by side in memory, divides `panels`
  int64_t k = 0;
  int64_t matrices = 1; ///< of a stack

  int64_t group() const; ///< elements along K that share a scale, 0 = none
  int64_t perWord() const;
  tile::Format format() const;
};

/// A buffer of rows and the element that its views have: f32, or i16 for BF16 codes. Split, it has
/// FP32 rows as BF16 codes of two parts (SplitRows.h).
struct RowBuffer {
  Value buffer;
  Type element;
  bool isSplit = false;
  explicit operator bool() const { return bool(buffer); }
};

/// The element of views of an m3 tensor's buffer.
Type storedElement(Value tensor);
/// Part of a kernel's name: how each of several tensors or buffers is stored; nothing if all are
/// f32, else a letter each.
std::string spellElements(llvm::ArrayRef<Type> elements);

/// Parts of kernel names: a weight, e.g. "mxfp8_1024x256", and the choices of a schedule.
std::string spell(const PackedWeight &weight);
std::string spell(const Schedule &schedule);

/// What `--schedule family.form=0` turns off, for the next one of: products in tensor memory, pages
/// that rows share (attention alone), products on matrix instructions; a choice of blocks by
/// several warps. Without any there is the plain sibling. A kernel whose target has the form says
/// so in its schedule where the user has asked for it or turned it off.
struct SwitchableForm {
  llvm::StringLiteral family, form;
};
llvm::ArrayRef<SwitchableForm> switchableForms();

struct LaunchArgument {
  Value value;
  planir::Access access;
};
inline LaunchArgument read(Value value) { return {value, planir::Access::Read}; }
inline LaunchArgument write(Value value) { return {value, planir::Access::Write}; }

class StepLowering {
public:
  StepLowering(mlir::ModuleOp module, mlir::ModuleOp source, const Target &target, const Chip &chip,
               const Schedule &overrides, int64_t rows, mlir::OpBuilder bucket)
      : module(module), source(source), chip(chip), overrides(overrides), rows(rows),
        bucket(bucket), target(target) {}

  //===- Values of the bucket
  /// The buffer of an m3 tensor that was lowered before.
  Value bufferOf(Value tensor);
  /// A new buffer for a result: rows of the tensor's width.
  Value makeBuffer(Value tensor, llvm::StringRef name);
  void bind(Value tensor, Value buffer) { buffers[tensor] = buffer; }
  Value scratch(llvm::StringRef name, int64_t rowBytes, int64_t blockBytes, int64_t fixedBytes);
  /// Both with the element of the tensor, and a scratch of `count` · rows rows of `width` elements.
  RowBuffer rowsOf(Value tensor) {
    return {bufferOf(tensor), storedElement(tensor), split.contains(tensor)};
  }
  RowBuffer makeRows(Value tensor, llvm::StringRef name) {
    return {makeBuffer(tensor, name), storedElement(tensor)};
  }
  /// Notes that the tensor's buffer is split.
  void setSplit(Value tensor) { split.insert(tensor); }
  RowBuffer scratchRows(llvm::StringRef name, int64_t width, Type element, int64_t count = 1);
  Value weight(llvm::StringRef symbol);
  Value batch(planir::BatchArray array);
  /// Counters for `count` meetings of work items (`tile.arrive`) of one launch.
  mlir::FailureOr<Value> counters(int64_t count);
  Value pool(int64_t offset);

  /// The list of `Groups` that goes with a buffer of chosen expert ids; null if there is none.
  Value groupsOf(Value ids) { return groups.lookup(ids); }
  void bindGroups(Value ids, Value list) { groups[ids] = list; }

  //===- Kernels and launches
  /// The kernel of that name, built by `build` if the module does not have it, for the chip that
  /// its family's last schedule is of.
  tile::KernelOp kernel(llvm::StringRef name, llvm::function_ref<tile::KernelOp()> build);
  /// `grid` counts clusters along the first axis.
  void launch(tile::KernelOp kernel, llvm::ArrayRef<LaunchArgument> arguments,
              llvm::ArrayRef<planir::GridDim> grid, llvm::StringRef label);
  void tap(planir::TapKind kind, int64_t layer, int64_t rowBytes, Value buffer);
  /// The schedule of the family's next kernel, with the user's overrides ("family.choice"): the
  /// target's, or where it does not emit the family for this problem its fallback chip's. The
  /// problem says which of switchableForms() the family has a kernel for (1, else 0); a form that
  /// the user asks for and the target does not offer by itself becomes `askedForm`.
  Schedule schedule(llvm::StringRef family, Schedule problem);
  /// What the user says of a choice, "attention.flat".
  std::optional<int64_t> overrideOf(llvm::StringRef choice) const {
    auto found = overrides.find(choice.str());
    return found == overrides.end() ? std::nullopt : std::optional(found->second);
  }

  //===- Weights
  /// The weight op that `symbol` names.
  m3::WeightOp weightOp(llvm::StringRef symbol);
  /// Packs matrices side by side: the panels of source i start at panel i and step by the number of
  /// sources when `interleave`, else follow the sources before it. All share encoding and K; a
  /// stack of experts is packed expert by expert. With `fragments`, K must be a multiple of 64.
  mlir::FailureOr<PackedWeight> pack(llvm::StringRef name, llvm::ArrayRef<m3::WeightOp> sources,
                                     bool interleave, bool fragments = false);
  /// A vector as FP32, or a matrix as stored; the name of its buffer.
  std::string vector(m3::WeightOp weight);
  std::string raw(m3::WeightOp weight);

  mlir::ModuleOp module; ///< receives kernels and buffers
  mlir::ModuleOp source; ///< holds the weights
  const Chip &chip;      ///< the target's own
  const Schedule &overrides;
  const int64_t rows;
  mlir::OpBuilder bucket;
  int64_t launches = 0;

private:
  /// Who makes a kernel, the target itself or its fallback, and its choices.
  struct Offer {
    bool isOwn;
    Schedule choices;
    bool operator==(const Offer &) const = default;
  };
  Offer offer(llvm::StringRef family, const Schedule &problem) const;
  /// Takes from the problem the forms that the user turned off; gives what is to be said of forms.
  Schedule switchForms(llvm::StringRef family, Schedule &problem) const;
  mlir::Location loc() { return module.getLoc(); }
  void addWeightBuffer(llvm::StringRef symbol, planir::Recipe recipe, int64_t bits,
                       int64_t rowLength, int64_t panels, int64_t abreast, int64_t bytes,
                       llvm::ArrayRef<mlir::Attribute> pieces);

  const Target &target;
  llvm::StringMap<bool> emitted; ///< by family, of its last schedule
  llvm::DenseMap<Value, Value> buffers, groups;
  llvm::DenseSet<Value> split;
  llvm::StringMap<Value> weights;
  std::map<int, Value> batches;
};

/// Lowers one op or fused group.
using Family = mlir::LogicalResult (*)(mlir::Operation *op, StepLowering &step);
/// The family of an op: by name, or for `m3.fused` by kind. Null if none lowers it.
Family findFamily(mlir::Operation *op);

/// Bytes of one page slot: 128 tokens of one lane of `dims` elements, scales included.
int64_t slotBytes(m3::CacheStorage storage, int64_t dims);

/// Layer number in a weight's symbol ("layers.3.q_proj"), −1 if it has none.
int64_t layerOf(llvm::StringRef symbol);

} // namespace m3c::kernel
