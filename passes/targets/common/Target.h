// What the compiler knows of a target: its chips as data, its atoms, its schedules, and how the
// text of a kernel becomes machine code. Everything else about a chip stays in the target's folder.
#pragma once

#include "compiler/codegen/CppPrinter.h"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace m3c {

/// Matrix instructions as kernels that multiply cached pages use them: a left operand of 16 rows.
struct MatrixUnit {
  int64_t lanes = 32;  ///< of a warp; four of them share a row of the accumulator
  int64_t columns = 8; ///< of an accumulator of four elements in each lane
  int64_t k = 16;      ///< of one instruction with elements of 16 bits
  int64_t k8 = 32;     ///< of one with elements of 8 bits
  bool e4m3 = false;   ///< queries and keys are multiplied as E4M3 codes, else as FP16
  /// Tokens of lane q of a row follow each other in the order of their number XOR q, of the lowest
  /// bits that this has: what lanes read together then lies in different banks.
  int64_t turn = 1;
  bool roleBarriers = true; ///< the warps of one role can meet
  bool countsUses = false;  ///< rings count their uses; else barriers know a phase from the next
};

/// Figures of a chip: they bound what kernels can reach, and schedules divide work by `units`. 0:
/// not known.
struct ChipFacts {
  int64_t units = 0;           ///< multiprocessors or compute units
  int64_t unitSharedBytes = 0; ///< on-chip memory that the work items of a unit share
  int64_t tensorColumns = 0;   ///< of tensor memory, 128 lanes of 32 bits
  int64_t registers = 0;       ///< 32-bit registers of a unit
  double bytesPerSecond = 0;   ///< of device memory
  double fp16 = 0, fp8 = 0;    ///< dense products with FP32 sums, FLOP/s
  std::string source;          ///< where the figures are from
  bool confirmed = false;      ///< by the vendor's own documents
  double fp32 = 0;             ///< multiply-adds of vectors, FLOP/s
  int64_t unitThreads = 0;     ///< that a unit holds
  int64_t unitItems = 0;       ///< work items that a unit holds
  int64_t reservedBytes = 0;   ///< of the unit's shared memory, taken by each work item
};

/// One chip row.
struct Chip {
  std::string name;                  ///< as the plan file and the driver spell it
  std::vector<std::string> features; ///< what the driver must report to run this code
  int64_t lanes;                     ///< FP32 lanes of one vector register
  int64_t vectorRegisters;           ///< per thread
  int64_t sharedBytes;               ///< on-chip memory that one work item may use
  int64_t cluster;                   ///< work items that may reach each other's, at most
  bool overlaps = false;             ///< a launch may begin before the one before it has ended
  MatrixUnit matrix = {};
  ChipFacts facts = {}; ///< what the vendor says of it, for figures and people
  /// Warps that take or give up registers together; 0: a role has what a work item begins with.
  int64_t registerWarps = 0;
};

/// Registers of a thread of `kernel` when a work item begins, of those that the unit holds at once;
/// 0 where the kernel or the chip row does not say.
int64_t registersAtEntry(tile::KernelOp kernel, const Chip &chip);

/// One instruction, or the short sequence that stands for it: a row of the target's table.
struct Atom {
  std::string name;     ///< for people and `explain`
  std::string op;       ///< the tile op that it serves, e.g. "tile.dequant_words"
  std::string format;   ///< as `atomFormat` gives it
  std::string chip;     ///< empty: every chip of the target
  std::string function; ///< device function
  std::string pattern;  ///< regular expression that the machine code must show
};

/// The format that an op's atom depends on: that of its codes ("e2m1", or with the way in which
/// they are multiplied "e2m1.exact"), the operands' of a matrix instruction, whether a role has
/// "more" or "fewer" registers than the work item begins with, empty where it depends on none.
llvm::StringRef atomFormat(mlir::Operation *op);

/// Choices of a kernel family by name, e.g. {"rows": 6, "panels": 1, "k_chunk": 256}.
using Schedule = std::map<std::string, int64_t>;

/// What a problem says of a form that its family has a kernel for: 1, and this where the user asks
/// for it although the target would not offer it.
constexpr int64_t askedForm = 2;

/// Whether a schedule has a choice, and not 0.
inline bool isOn(const Schedule &schedule, const char *choice) {
  auto found = schedule.find(choice);
  return found != schedule.end() && found->second;
}

/// What a choice is, or else `fallback`.
inline int64_t choiceOf(const Schedule &schedule, const char *choice, int64_t fallback = 0) {
  auto found = schedule.find(choice);
  return found == schedule.end() ? fallback : found->second;
}

/// In a Schedule: its figures were measured, and its kernel must keep its values in registers. Not
/// a choice: it stands in no kernel's name, and a schedule with an override loses it.
constexpr const char *tunedMark = "tuned";

/// What the machine code of a kernel takes.
struct CodeFacts {
  uint64_t spillBytes = 0; ///< of one thread, in memory for want of registers
  uint64_t codeBytes = 0;  ///< instructions alone
  uint32_t registers = 0;  ///< of one thread, where the object says so
};

/// Instructions whose names begin so belong to this pipe, or group of instructions; of several
/// rules that fit, the longest counts.
struct PipeRule {
  llvm::StringRef prefix, pipe;
};

/// A disassembler with its version; or, where this machine has none, what that means and what to
/// do.
struct Inspector {
  std::string name;
  std::string absence = "";
};

/// How devices that a plan has no code for build its sources themselves.
struct SourceBuild {
  std::vector<std::string> features; ///< one of them the device must have; empty: none can
  std::vector<std::string> options;  ///< of the device's own compiler
  /// Patterns of atoms (`Atom::pattern`) that the target's own chips alone have: they alone can
  /// build kernels that must show one.
  std::vector<std::string> ownPatterns = {};
};

class Target {
public:
  virtual ~Target() = default;
  virtual llvm::StringRef name() const = 0;
  virtual llvm::ArrayRef<Chip> chips() const = 0;
  virtual llvm::ArrayRef<Atom> atoms() const = 0;

  /// The schedule, with tunedMark where it deserves it, of `family` for a problem (its sizes by
  /// name: "rows", "n", "k", "group"…).
  virtual Schedule schedule(llvm::StringRef family, const Schedule &problem,
                            const Chip &chip) const = 0;

  /// Choices of `--numerics activations`, the default first. The kernel families have both.
  virtual std::vector<std::string> activations() const { return {"f32", "bf16"}; }

  /// Whether the target has a kernel of its own for `family` and a problem. Where not, the kernel
  /// is lowered for `fallback()` instead, and a device of the target cannot run the plan.
  virtual bool emits(llvm::StringRef /*family*/, const Schedule & /*problem*/) const {
    return true;
  }
  /// The chip that stands in for kernels that the target does not have yet: one of the CPU's. Empty
  /// for a target that has all.
  virtual llvm::StringRef fallback() const { return ""; }
  /// What it emits, for people; empty where it emits everything.
  virtual llvm::StringRef emitted() const { return ""; }

  /// What of a chip's kernels is not as one would think, for the plan's decisions.
  struct Remark {
    std::string what, choice, why;
  };
  virtual std::vector<Remark> remarks(const Chip & /*chip*/) const { return {}; }

  virtual codegen::EntryStyle entryStyle() const = 0;
  /// Device headers by include path.
  virtual const std::map<std::string, std::string> &deviceHeaders() const = 0;
  /// Text to machine code. Throws Error with the compiler's message.
  virtual std::vector<std::byte> build(const std::string &kernel, const std::string &text,
                                       const Chip &chip) const = 0;
  /// Reads a built object; needs nothing but this program.
  virtual CodeFacts facts(const std::string &kernel, std::span<const std::byte> object) const = 0;
  /// Throws Error when an instruction that `patterns` (regular expressions) ask for is missing;
  /// without an inspector (see below) the instructions are not looked at.
  virtual void inspect(const std::string &kernel, std::span<const std::byte> object,
                       const std::vector<std::string> &patterns) const = 0;
  /// The machine code as text, one instruction a line.
  virtual std::string disassemble(const std::string &kernel,
                                  std::span<const std::byte> object) const = 0;
  /// How many instructions of each name stand in the code; empty where this machine has no
  /// disassembler.
  virtual std::map<std::string, unsigned> mnemonics(const std::string & /*kernel*/,
                                                    std::span<const std::byte> /*object*/) const {
    return {};
  }
  /// Which pipe each instruction is of; "matrix" is what matrix units run.
  virtual llvm::ArrayRef<PipeRule> pipes() const { return {}; }
  virtual SourceBuild sourceBuild() const { return {}; }
  /// Ends of the names of files that hold a kernel's text and its object: ".cpp", ".so".
  virtual std::pair<llvm::StringRef, llvm::StringRef> fileSuffixes() const = 0;
  /// Threads that run one work item together.
  virtual uint32_t threadsPerItem(tile::KernelOp kernel) const = 0;
  /// Compiler name, version and flags: part of cache keys and of the manifest.
  virtual std::string toolchain(const Chip &chip) const = 0;
  /// What reads the instructions of built code: part of cache keys and of the manifest.
  virtual Inspector inspector() const = 0;
  /// Processor time to build a kernel, as measured on a current machine: for the forecast of a dry
  /// run.
  virtual double secondsPerKernel() const { return 0.25; }
  /// How results on this target are proven, for `m3c targets`.
  virtual llvm::StringRef proof() const = 0;
};

/// One column of a plan: what code is built for.
struct ChipTarget {
  const Target *target;
  Chip chip;
};

/// Every target that was built in, in the order in which `m3c targets` lists them.
const std::vector<std::unique_ptr<Target>> &allTargets();
/// Null if there is none of that name.
const Target *findTarget(llvm::StringRef name);
/// The target that has a chip of that name, and the chip.
std::pair<const Target *, const Chip *> findChip(llvm::StringRef name);
/// The same for a pass over `op`, which gets an error where there is none.
std::pair<const Target *, const Chip *> findChip(mlir::Operation *op, llvm::StringRef name);
/// That of a kernel: its own, or where it has none the one that a pass is run for.
std::pair<const Target *, const Chip *> chipOf(tile::KernelOp kernel, llvm::StringRef passChip);

} // namespace m3c
