// The printer of one kernel: its parts stand in CppPrinter.cpp (structure), PrintMemory.cpp,
// PrintArithmetic.cpp and PrintTensor.cpp.
#pragma once

#include "compiler/codegen/CppPrinter.h"
#include "compiler/codegen/TypeNames.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

namespace m3c::codegen {

using namespace mlir;
using namespace m3c::tile;
using llvm::formatv;

/// Walks one kernel and writes its text.
class Printer {
public:
  Printer(KernelOp kernel, const EntryStyle &style) : kernel(kernel), style(style) {}

  FailureOr<std::string> run();

private:
  std::string name(Value value) {
    auto found = names.find(value);
    assert(found != names.end() && "used before it was printed");
    return found->second;
  }
  std::string fresh(Value value, StringRef stem) {
    return names[value] = formatv("{0}{1}", stem, counter++);
  }
  void line(const Twine &text) {
    (out += std::string(size_t(2) * indent, ' ') + text.str()) += "\n";
  }
  /// `STATEMENT  // op (line)`
  LogicalResult statement(Operation *op, const Twine &text) {
    line(text + origin(op));
    return success();
  }
  /// `auto NAME = EXPRESSION;  // op (line)`
  LogicalResult define(Operation *op, StringRef stem, const Twine &expression) {
    std::string text = expression.str();
    return statement(op, "auto " + fresh(op->getResult(0), stem) + " = " + text + ";");
  }
  std::string origin(Operation *op) {
    if (auto loc = dyn_cast<FileLineColLoc>(op->getLoc()))
      return formatv("  // {0}, line {1}", op->getName().getStringRef(), loc.getLine());
    return "  // " + op->getName().getStringRef().str();
  }
  std::string list(ValueRange values) {
    SmallVector<std::string> texts;
    for (Value value : values)
      texts.push_back(name(value));
    return llvm::join(texts, ", ");
  }

  /// Pointer to an element of a view.
  std::string address(Value view, ValueRange indices);
  /// The device function of the selected atom; without one, that of the op itself.
  static std::string atomCall(std::optional<StringRef> atom, StringRef plain) {
    return (atom ? *atom : plain).str();
  }

  LogicalResult block(Block &block);
  LogicalResult op(Operation *op);
  LogicalResult forLoop(scf::ForOp loop);
  LogicalResult ifBranch(scf::IfOp branch);
  LogicalResult pipeline(PipelineOp pipeline);
  LogicalResult roles(RolesOp roles);
  LogicalResult budget(RoleOp role);
  std::string use(Value number) { return number ? name(number) : ""; }
  LogicalResult map(MapOp map);
  // Failure: the operation is of another kind, or an error was emitted.
  LogicalResult place(Operation *op);           ///< ids, buffers, views
  LogicalResult synchronisation(Operation *op); ///< barriers, launches, stages of rings
  LogicalResult tileAccess(Operation *op);
  LogicalResult listAccess(Operation *op);   ///< lists that the lanes of a warp make and read
  LogicalResult matrixAccess(Operation *op); ///< operands and sums of matrix instructions
  LogicalResult shareSlot(ShareSlotOp op);
  LogicalResult tensorMemory(Operation *op); ///< and gates
  LogicalResult tensorOperand(Operation *op);
  LogicalResult laneRows(Operation *op);
  LogicalResult arithmetic(Operation *op); ///< tiles in registers
  LogicalResult conversion(Operation *op); ///< codes to values and back
  void assign(ValueRange targets, ValueRange sources);

  KernelOp kernel;
  const EntryStyle &style;
  llvm::DenseMap<Value, std::string> names;
  std::string out;
  unsigned counter = 0, indent = 1;
};

} // namespace m3c::codegen
