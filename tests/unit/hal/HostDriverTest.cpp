// What is particular to the host driver: refusals at load, the processor's features, threads.
#include "runtime/drivers/host/HostDriver.h"
#include "runtime/base/Error.h"
#include "runtime/drivers/Drivers.h"
#include "runtime/drivers/host/Cpu.h"
#include "runtime/drivers/host/ThreadPool.h"
#include "runtime/plan/PlanFile.h"
#include "tests/unit/runtime/ToyPlan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

using namespace m3c;
using namespace m3c::hal;

TEST(HostDriver, RefusesWhatIsNoSharedObject) {
  std::unique_ptr<Device> device = createHostDriver()->open(0, {1, true});
  std::vector<std::byte> junk(100, std::byte('x'));
  try {
    device->load(junk, "kernel 'norm'");
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("kernel 'norm'"), std::string::npos);
  }
  std::vector<std::byte> code = test::testKernelCode();
  code.resize(code.size() / 2);
  EXPECT_THROW(device->load(code, "half"), Error);
}

TEST(HostDriver, RefusesAnImpossibleAllocation) {
  std::unique_ptr<Device> device = createHostDriver()->open(0, {1, true});
  EXPECT_THROW(device->allocate(uint64_t(1) << 60, MemoryKind::Device, "the cache"), Error);
  EXPECT_GT(device->availableBytes(), 0u);
}

TEST(HostDriver, PlanForAnotherMachineIsRefusedWithTheReason) {
  plan::PlanFile plan =
      plan::PlanFile::fromBytes(test::toyPlan({.features = {"magic9"}}).bytes(), "toy.m3plan");
  try {
    openDeviceFor(plan.tables(), plan.name(), {});
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("magic9"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("toy.m3plan"), std::string::npos);
  }
}

TEST(HostDriver, FeaturesAreSorted) {
  std::vector<std::string> features = cpuFeatures();
  EXPECT_TRUE(std::is_sorted(features.begin(), features.end()));
#if defined(__x86_64__)
  EXPECT_TRUE(createHostDriver()->devices()[0].supports("x86_64"));
#endif
}

TEST(HostDriver, TooManyThreadsAreRefused) {
  EXPECT_THROW(createHostDriver()->open(0, {5000, true}), Error);
  EXPECT_THROW(createHostDriver()->open(1, {}), Error);
}

namespace {

struct Sum {
  std::atomic<uint64_t> total{0};
  std::atomic<uint64_t> finished{0};
  uint64_t expectedBefore = 0; ///< items of earlier jobs that must all be finished
  std::atomic<uint64_t> *before = nullptr;
  std::atomic<bool> early{false};
};

void addItem(const void *context, uint64_t begin, uint64_t end, unsigned) {
  Sum &sum = *static_cast<Sum *>(const_cast<void *>(context));
  if (sum.before && sum.before->load() != sum.expectedBefore)
    sum.early = true;
  for (uint64_t i = begin; i < end; ++i)
    sum.total += i;
  sum.finished += end - begin;
}

} // namespace

TEST(ThreadPool, JobsNeverOverlap) {
  for (auto [workers, spin] : {std::pair(1u, true), {2u, true}, {2u, false}, {4u, false}}) {
    ThreadPool pool(std::vector<int>(workers, 0), {.pin = false, .spin = spin});
    for (int round = 0; round < 200; ++round) {
      std::vector<Sum> sums(12);
      std::vector<ThreadPool::Job> jobs;
      std::vector<uint64_t> sizes = {100, 1, 1, 37, 0, 5, 1, 64, 0, 0, 1, 3};
      for (size_t i = 0; i < sums.size(); ++i) {
        if (i > 0) {
          sums[i].before = &sums[i - 1].finished;
          sums[i].expectedBefore = sizes[i - 1];
        }
        jobs.push_back({addItem, &sums[i], sizes[i]});
      }
      pool.run(jobs.data(), jobs.size());
      for (size_t i = 0; i < sums.size(); ++i) {
        EXPECT_EQ(sums[i].total, sizes[i] * (sizes[i] - (sizes[i] > 0)) / 2);
        EXPECT_FALSE(sums[i].early) << "job " << i << ", " << workers << " workers";
      }
    }
  }
}
