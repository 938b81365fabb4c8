// Workers that run a list of jobs one after another, the items of a job shared out among them. The
// calling thread is worker 0. Items are taken in runs that shrink towards the end of a job. A job
// is over when its items are done, whoever did them: a worker that has lost its core holds nobody
// up unless it lost it within its run. Workers that wait spin for a moment and then sleep.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace m3c::hal {

/// 32-bit word that threads wait on: a moment of spinning, then sleep in the kernel.
class WaitWord {
public:
  uint32_t load() const { return value.load(std::memory_order_acquire); }
  /// Adds one and wakes the sleepers.
  void advance();
  /// Returns when the word is no longer `old`: spins as often as `patience` allows, then sleeps.
  /// Patience grows when spinning was enough and halves when it was not, so that on a busy machine,
  /// where the other thread has lost its core, waiting soon costs no processor time.
  void waitWhile(uint32_t old, unsigned &patience);

private:
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};
};

class ThreadPool {
public:
  /// `run` does work items [begin, end) on worker `worker`.
  struct Job {
    void (*run)(const void *context, uint64_t begin, uint64_t end, unsigned worker);
    const void *context;
    uint64_t items;
  };

  struct Options {
    bool pin = true;  ///< worker i stays on cores[i]; worker 0, the calling thread, is never pinned
    bool spin = true; ///< wait by spinning first; false where workers share cores
  };
  /// One worker for each entry of `cores`.
  ThreadPool(std::vector<int> cores, Options options);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  unsigned workers() const { return unsigned(count); }

  /// Runs the jobs one after another; items of one job are handed out to all workers, a job
  /// of one item runs where the one before it ended. A job has less than 2^32 items. Allocates
  /// nothing. `seconds`, where not null, gets the
  /// time of each job. One caller at a time.
  void run(const Job *jobs, size_t jobCount, double *seconds = nullptr);

private:
  void workerMain(unsigned worker, int core);
  bool takeItems(unsigned worker);
  void proceed(size_t job, unsigned worker);
  void runAlone(const Job &job, size_t index);
  void runSerially();

  size_t count;
  unsigned patience;       ///< of every worker at first, in spins
  unsigned callerPatience; ///< of worker 0
  std::vector<std::thread> threads;

  // Of the list at hand. Written while no item is handed out, read after taking one.
  const Job *jobs = nullptr;
  size_t jobCount = 0;
  double *seconds = nullptr;
  double jobBegun = 0;

  /// Job number in the high half, items not yet handed out in the low one; `closed` between lists.
  alignas(64) std::atomic<uint64_t> state{closed};
  alignas(64) std::atomic<uint64_t> itemsDone{0};
  alignas(64) WaitWord phase; ///< advanced when `state` has a new job, or none
  std::atomic<bool> stopping{false};

  static constexpr uint64_t closed = ~uint64_t(0) << 32; // no items
};

} // namespace m3c::hal
