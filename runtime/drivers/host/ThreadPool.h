// Workers that run a list of launches together, with a barrier after each. The calling thread is
// worker 0. Between lists the others spin for a moment and then sleep.
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
  /// of one item runs on the calling thread. Allocates nothing. `seconds`, where not null, gets the
  /// time of each job. One caller at a time.
  void run(const Job *jobs, size_t jobCount, double *seconds = nullptr);

private:
  void workerMain(unsigned worker, int core);
  void runJobs(unsigned worker, unsigned &jobPatience);
  void barrier(unsigned &jobPatience);

  size_t count;
  unsigned patience;       ///< of every worker at first, in spins
  unsigned callerPatience; ///< of worker 0
  std::vector<std::thread> threads;

  const Job *jobs = nullptr;
  size_t jobCount = 0;
  double *seconds = nullptr;
  bool stopping = false;

  alignas(64) WaitWord start;                // advanced once a list
  alignas(64) std::atomic<uint64_t> next{0}; // first item of the job not yet handed out
  alignas(64) std::atomic<uint32_t> arrived{0};
  alignas(64) WaitWord phase; // advanced once a barrier
};

} // namespace m3c::hal
