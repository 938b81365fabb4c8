#include "runtime/drivers/host/ThreadPool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>

namespace m3c::hal {

namespace {

// A pause is 40 to 140 cycles on current cores: up to some 100 µs of spinning, enough for the next
// barrier of a step and for the time between two steps, and at least some µs.
constexpr unsigned mostPatience = 4000, leastPatience = 100;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void pinTo(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

long futex(std::atomic<uint32_t> &word, int operation, uint32_t value) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), operation | FUTEX_PRIVATE_FLAG,
                 value, nullptr, nullptr, 0);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

void WaitWord::advance() {
  // Sequentially consistent with the sleeper's count: either this thread sees the sleeper, or the
  // sleeper sees the new value.
  value.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0)
    futex(value, FUTEX_WAKE, INT_MAX);
}

void WaitWord::waitWhile(uint32_t old, unsigned &patience) {
  for (unsigned i = 0; i < patience; ++i) {
    if (load() != old) {
      patience = std::min(mostPatience, patience + patience / 16);
      return;
    }
    relax();
  }
  if (patience > 0)
    patience = std::max(leastPatience, patience / 2);
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (value.load(std::memory_order_seq_cst) == old)
    futex(value, FUTEX_WAIT, old);
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

ThreadPool::ThreadPool(std::vector<int> cores, Options options)
    : count(std::max<size_t>(1, cores.size())), patience(options.spin ? mostPatience : 0),
      callerPatience(patience) {
  for (size_t worker = 1; worker < count; ++worker)
    threads.emplace_back([this, worker, core = options.pin ? cores[worker] : -1] {
      workerMain(unsigned(worker), core);
    });
}

ThreadPool::~ThreadPool() {
  stopping = true;
  start.advance();
  for (std::thread &thread : threads)
    thread.join();
}

void ThreadPool::workerMain(unsigned worker, int core) {
  if (core >= 0)
    pinTo(core);
  unsigned idlePatience = patience, jobPatience = patience;
  for (uint32_t seen = 0;; ++seen) {
    start.waitWhile(seen, idlePatience);
    if (stopping)
      return;
    runJobs(worker, jobPatience);
  }
}

void ThreadPool::run(const Job *list, size_t listCount, double *times) {
  if (listCount == 0)
    return;
  jobs = list;
  jobCount = listCount;
  seconds = times;
  if (count > 1)
    start.advance();
  runJobs(0, callerPatience);
}

void ThreadPool::runJobs(unsigned worker, unsigned &jobPatience) {
  // Read once: after the last barrier the caller may already prepare the next list.
  const Job *list = jobs;
  size_t listCount = jobCount;
  double *times = worker == 0 ? seconds : nullptr;
  for (size_t i = 0; i < listCount; ++i) {
    const Job &job = list[i];
    double begun = times ? now() : 0;
    // A run of jobs with one item each stays on worker 0 and needs no barrier inside.
    bool alone = job.items <= 1;
    if (count == 1 || alone) {
      if (worker == 0 && job.items > 0)
        job.run(job.context, 0, job.items, 0);
    } else {
      for (uint64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < job.items;)
        job.run(job.context, item, item + 1, worker);
    }
    bool nextAlone = i + 1 < listCount && list[i + 1].items <= 1;
    if (count > 1 && !(alone && nextAlone))
      barrier(jobPatience);
    if (times)
      times[i] = now() - begun;
  }
}

void ThreadPool::barrier(unsigned &jobPatience) {
  uint32_t old = phase.load();
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    arrived.store(0, std::memory_order_relaxed);
    next.store(0, std::memory_order_relaxed);
    phase.advance();
  } else {
    phase.waitWhile(old, jobPatience);
  }
}

} // namespace m3c::hal
