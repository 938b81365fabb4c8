// Which rows each expert has: the list that the router makes and that products of experts read.
#pragma once

#include "passes/kernel/StepLowering.h"

namespace m3c::kernel {

/// A list of 32-bit integers: the number of active experts, their ids, the first entry of each (and
/// the end of the last), then the entries (row · top-k + slot) expert by expert.
class Groups {
public:
  Groups(KernelBuilder &kb, Value list, int64_t experts) : kb(kb), list(list), experts(experts) {}
  static int64_t fixedBytes(int64_t experts) { return 4 * (2 * experts + 2); }

  Value active() { return kb.loadIndex(list, {kb.index(0)}); }
  Value expert(Value i) { return kb.loadIndex(list, {kb.add(i, 1)}); }
  Value begin(Value i) { return kb.loadIndex(list, {kb.add(i, 1 + experts)}); }
  Value end(Value i) { return kb.loadIndex(list, {kb.add(i, 2 + experts)}); }
  Value entry(Value i) { return kb.loadIndex(list, {kb.add(i, firstEntry())}); }
  Value view() { return list; }
  int64_t firstEntry() const { return 2 + 2 * experts; } ///< its place in the list

  /// Writes the list for the ids [entries] of the experts that rows chose, by all warps of the work
  /// item.
  void emit(Value ids, Value entries);

  /// Writes one expert's part of it, by all warps of a work item that each expert has. All experts
  /// are then active, those that nobody chose without entries. Calls `body` in one warp with the
  /// first entry and the end of the expert's.
  void emitExpert(Value ids, Value entries, Value expert,
                  llvm::function_ref<void(Value begin, Value end)> body);

  int64_t count() const { return experts; }

private:
  struct Share; // of a warp

  void countEntries(Value ids, Value from, Value to, Value counts);
  void writeExperts(Value counts, Value begins, Value entries);
  void writeEntries(Value ids, Value from, Value to, Value next);

  KernelBuilder &kb;
  Value list;
  int64_t experts;
};

/// Whether a launch of its own lists the rows of each expert (`Groups::emitExpert`), not the last
/// work item of the choice.
bool listsExpertsApart(StepLowering &step, int64_t experts, int64_t topK);

} // namespace m3c::kernel
