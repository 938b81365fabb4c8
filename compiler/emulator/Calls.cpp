#include "compiler/emulator/Calls.h"

#include "compiler/emulator/Registers.h"
#include "compiler/emulator/TensorMemory.h"
#include "compiler/emulator/Transfers.h"
#include "compiler/emulator/groups/GroupProducts.h"

#include <string>

namespace m3c::emulator {

namespace {

/// The thread that calls, and where: the call's return address is in the kernel's code.
#define M3C_CALLER(thread)                                                                         \
  auto &caller = static_cast<FibreThread &>(*(thread));                                            \
  caller.place = __builtin_return_address(0);                                                      \
  Cluster &cluster = *caller.cluster

void meet(m3emu::Thread *thread, const char *what, unsigned long mask, void (*all)(void *const *),
          bool orders) {
  M3C_CALLER(thread);
  cluster.meet(caller, what, mask, all, orders);
}
void readShared(m3emu::Thread *thread, unsigned long offset, unsigned bytes) {
  M3C_CALLER(thread);
  cluster.readShared(caller, offset, bytes);
}
void writeShared(m3emu::Thread *thread, unsigned long offset, unsigned bytes) {
  M3C_CALLER(thread);
  cluster.writeShared(caller, offset, bytes);
}
void checkGlobal(m3emu::Thread *thread, const void *address, unsigned bytes, bool writes) {
  M3C_CALLER(thread);
  cluster.checkGlobal(caller, address, bytes, writes);
}
void fail(m3emu::Thread *thread, const char *what) {
  M3C_CALLER(thread);
  cluster.fail(caller, what);
}
void barrier(m3emu::Thread *thread, unsigned id, unsigned threads, bool waits) {
  M3C_CALLER(thread);
  cluster.barrier(caller, id, threads, waits);
}
bool barrierOr(m3emu::Thread *thread, bool holds) {
  M3C_CALLER(thread);
  return cluster.barrierOr(caller, holds);
}
void clusterBarrier(m3emu::Thread *thread) {
  M3C_CALLER(thread);
  cluster.clusterBarrier(caller);
}
void arriveAtCluster(m3emu::Thread *thread) {
  M3C_CALLER(thread);
  cluster.arriveAtCluster(caller);
}
void awaitCluster(m3emu::Thread *thread) {
  M3C_CALLER(thread);
  cluster.awaitCluster(caller);
}
void initBarrier(m3emu::Thread *thread, void *barrier, unsigned arrivals) {
  M3C_CALLER(thread);
  cluster.copies().initBarrier(caller, barrier, arrivals);
}
void fenceBarriers(m3emu::Thread *thread) {
  M3C_CALLER(thread);
  cluster.copies().fenceBarriers(caller);
}
void awaitLaunch(m3emu::Thread *thread) {
  M3C_CALLER(thread);
  cluster.awaitLaunch(caller);
}
void countIn(m3emu::Thread *thread) {
  M3C_CALLER(thread);
  cluster.countIn(caller);
}
void arrive(m3emu::Thread *thread, void *barrier, unsigned arrivals, unsigned bytes) {
  M3C_CALLER(thread);
  cluster.copies().arrive(caller, barrier, arrivals, bytes);
}
void arriveAtPeer(m3emu::Thread *thread, void *barrier, unsigned rank) {
  M3C_CALLER(thread);
  cluster.copies().arriveAtPeer(caller, barrier, rank);
}
void waitBarrier(m3emu::Thread *thread, void *barrier, unsigned parity) {
  M3C_CALLER(thread);
  cluster.copies().wait(caller, barrier, parity);
}
bool testBarrier(m3emu::Thread *thread, void *barrier, unsigned parity) {
  M3C_CALLER(thread);
  return cluster.copies().test(caller, barrier, parity);
}
void startCounter(m3emu::Thread *thread, void *counter) {
  M3C_CALLER(thread);
  cluster.copies().startCounter(caller, counter);
}
void raise(m3emu::Thread *thread, void *counter, unsigned by) {
  M3C_CALLER(thread);
  cluster.copies().raise(caller, counter, by);
}
void awaitCounter(m3emu::Thread *thread, void *counter, unsigned least) {
  M3C_CALLER(thread);
  cluster.copies().awaitCounter(caller, counter, least);
}
void copyAsync(m3emu::Thread *thread, void *shared, const void *global, unsigned bytes,
               unsigned given) {
  M3C_CALLER(thread);
  cluster.copies().copyAsync(caller, shared, global, bytes, given);
}
void commitCopies(m3emu::Thread *thread) {
  M3C_CALLER(thread);
  cluster.copies().commit(caller);
}
void waitCopies(m3emu::Thread *thread, unsigned most) {
  M3C_CALLER(thread);
  cluster.copies().waitGroups(caller, most);
}
void arriveAfterCopies(m3emu::Thread *thread, void *barrier, bool counted) {
  M3C_CALLER(thread);
  cluster.copies().arriveAfter(caller, barrier, counted);
}
void copyBulk(m3emu::Thread *thread, void *shared, const void *global, unsigned bytes,
              void *barrier) {
  M3C_CALLER(thread);
  cluster.copies().copyBulk(caller, shared, global, bytes, barrier);
}
void storeBulk(m3emu::Thread *thread, void *global, const void *shared, unsigned bytes) {
  M3C_CALLER(thread);
  cluster.copies().storeBulk(caller, global, shared, bytes);
}
void commitBulk(m3emu::Thread *thread) {
  M3C_CALLER(thread);
  cluster.copies().commitBulk(caller);
}
/// Landing is one moment here: what has been read has been written as well.
void waitBulk(m3emu::Thread *thread, unsigned most, bool) {
  M3C_CALLER(thread);
  cluster.copies().waitBulk(caller, most);
}
void fenceProxy(m3emu::Thread *thread) {
  M3C_CALLER(thread);
  cluster.copies().fence(caller);
}
void readSharedAsync(m3emu::Thread *thread, unsigned long offset, unsigned bytes) {
  M3C_CALLER(thread);
  cluster.copies().readAsync(caller, offset, bytes);
}
void tensorAllocate(m3emu::Thread *thread, void *shared, unsigned columns, bool pair) {
  M3C_CALLER(thread);
  cluster.tensor(caller).allocate(caller, shared, columns, pair);
}
void tensorFree(m3emu::Thread *thread, unsigned address, unsigned columns, bool pair) {
  M3C_CALLER(thread);
  cluster.tensor(caller).release(caller, address, columns, pair);
}
void tensorRelinquish(m3emu::Thread *thread, bool pair) {
  M3C_CALLER(thread);
  cluster.tensor(caller).relinquish(caller, pair);
}
void tensorLoad(m3emu::Thread *thread, unsigned lane, unsigned column) {
  M3C_CALLER(thread);
  cluster.tensor(caller).load(caller, lane, column);
}
void tensorStore(m3emu::Thread *thread, unsigned lane, unsigned column, unsigned value) {
  M3C_CALLER(thread);
  cluster.tensor(caller).store(caller, lane, column, value);
}
void tensorWait(m3emu::Thread *thread, bool stores) {
  M3C_CALLER(thread);
  cluster.tensor(caller).wait(caller, stores);
}
void tensorTake(m3emu::Thread *thread, unsigned *values, unsigned count) {
  M3C_CALLER(thread);
  cluster.tensor(caller).take(caller, values, count);
}
void tensorFence(m3emu::Thread *thread, bool after) {
  M3C_CALLER(thread);
  cluster.tensor(caller).fence(caller, after);
}
void tensorMultiply(m3emu::Thread *thread, const m3emu::TensorProduct &product) {
  M3C_CALLER(thread);
  cluster.tensor(caller).multiply(caller, product);
}
void tensorCommit(m3emu::Thread *thread, void *barrier, bool pair, unsigned ranks) {
  M3C_CALLER(thread);
  cluster.tensor(caller).commit(caller, barrier, pair, ranks);
}
void groupFence(m3emu::Thread *thread) {
  M3C_CALLER(thread);
  cluster.groupProducts(caller).fence(caller);
}
void groupMultiply(m3emu::Thread *thread, const m3emu::GroupProduct &product) {
  M3C_CALLER(thread);
  cluster.groupProducts(caller).multiply(caller, product);
}
void groupCommit(m3emu::Thread *thread) {
  M3C_CALLER(thread);
  cluster.groupProducts(caller).commit(caller);
}
void groupWait(m3emu::Thread *thread, unsigned most, float *const *sums, unsigned count) {
  M3C_CALLER(thread);
  cluster.groupProducts(caller).wait(caller, most, sums, count);
}
void setRegisters(m3emu::Thread *thread, const char *what, unsigned count, unsigned together,
                  bool increases) {
  M3C_CALLER(thread);
  cluster.registers(caller).set(caller, what, count, together, increases);
}
#undef M3C_CALLER

} // namespace

const m3emu::Calls &calls() {
  static constexpr m3emu::Calls table = {meet,
                                         readShared,
                                         writeShared,
                                         checkGlobal,
                                         fail,
                                         barrier,
                                         barrierOr,
                                         clusterBarrier,
                                         arriveAtCluster,
                                         awaitCluster,
                                         initBarrier,
                                         fenceBarriers,
                                         arrive,
                                         arriveAtPeer,
                                         waitBarrier,
                                         testBarrier,
                                         startCounter,
                                         raise,
                                         awaitCounter,
                                         awaitLaunch,
                                         countIn,
                                         copyAsync,
                                         commitCopies,
                                         waitCopies,
                                         arriveAfterCopies,
                                         copyBulk,
                                         storeBulk,
                                         commitBulk,
                                         waitBulk,
                                         fenceProxy,
                                         readSharedAsync,
                                         tensorAllocate,
                                         tensorFree,
                                         tensorRelinquish,
                                         tensorLoad,
                                         tensorStore,
                                         tensorWait,
                                         tensorTake,
                                         tensorFence,
                                         tensorMultiply,
                                         tensorCommit,
                                         groupFence,
                                         groupMultiply,
                                         groupCommit,
                                         groupWait,
                                         setRegisters};
  return table;
}

} // namespace m3c::emulator
