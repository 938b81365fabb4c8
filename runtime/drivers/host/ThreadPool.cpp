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
// barrier of a step and for the time between two steps. At least 16 µs, about what it takes a
// sleeper to be back at work (13 to 18 µs were seen): who sleeps sooner loses more than is saved.
constexpr unsigned mostPatience = 4000, leastPatience = 1000;

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
  phase.advance();
  for (std::thread &thread : threads)
    thread.join();
}

void ThreadPool::workerMain(unsigned worker, int core) {
  if (core >= 0)
    pinTo(core);
  unsigned idlePatience = patience, jobPatience = patience;
  for (;;) {
    uint32_t seen = phase.load(); // before the state, so that no change of it is missed
    if (stopping)
      return;
    if (!takeItems(worker))
      phase.waitWhile(seen, state.load() == closed ? idlePatience : jobPatience);
  }
}

void ThreadPool::run(const Job *list, size_t listCount, double *times) {
  jobs = list;
  jobCount = listCount;
  seconds = times;
  if (count == 1)
    return runSerially();
  proceed(0, 0);
  for (;;) {
    uint32_t seen = phase.load();
    if (takeItems(0))
      continue;
    if (state.load(std::memory_order_acquire) == closed)
      return;
    phase.waitWhile(seen, callerPatience);
  }
}

void ThreadPool::runSerially() {
  for (size_t i = 0; i < jobCount; ++i)
    runAlone(jobs[i], i);
}

void ThreadPool::runAlone(const Job &job, size_t index) {
  double begun = seconds ? now() : 0;
  if (job.items > 0)
    job.run(job.context, 0, job.items, 0);
  if (seconds)
    seconds[index] = now() - begun;
}

bool ThreadPool::takeItems(unsigned worker) {
  uint64_t current = state.load(std::memory_order_acquire);
  while (uint64_t left = uint32_t(current)) {
    // Neighbouring items read neighbouring memory, so that a run of them is one stream. Runs shrink
    // towards the end, where they would leave the other workers idle.
    uint64_t run = std::max<uint64_t>(1, left / (2 * count));
    if (!state.compare_exchange_weak(current, current - run, std::memory_order_acq_rel,
                                     std::memory_order_acquire))
      continue;
    // The job stays open until these items are done, so its description may be read now.
    size_t index = size_t(current >> 32);
    const Job &job = jobs[index];
    uint64_t items = job.items, first = items - left;
    job.run(job.context, first, first + run, worker);
    if (itemsDone.fetch_add(run, std::memory_order_acq_rel) + run == items) {
      if (seconds)
        seconds[index] = now() - jobBegun;
      proceed(index + 1, worker);
    }
    return true;
  }
  return false;
}

/// Runs the jobs of one item from `index` on, then opens the next job with more, or ends the list.
/// One thread at a time is here: the caller, or the worker that did a job's last item.
void ThreadPool::proceed(size_t index, unsigned worker) {
  for (; index < jobCount && jobs[index].items <= 1; ++index) {
    double begun = seconds ? now() : 0;
    if (jobs[index].items == 1)
      jobs[index].run(jobs[index].context, 0, 1, worker);
    if (seconds)
      seconds[index] = now() - begun;
  }
  if (index == jobCount) {
    state.store(closed, std::memory_order_release);
  } else {
    if (seconds)
      jobBegun = now();
    itemsDone.store(0, std::memory_order_relaxed);
    state.store(uint64_t(index) << 32 | jobs[index].items, std::memory_order_release);
  }
  phase.advance();
}

} // namespace m3c::hal
