// What is particular to the host driver: refusals at load, the processor's features, threads.
#include "runtime/drivers/host/HostDriver.h"
#include "runtime/base/Error.h"
#include "runtime/drivers/Drivers.h"
#include "runtime/drivers/host/Cpu.h"
#include "runtime/drivers/host/Streams.h"
#include "runtime/drivers/host/ThreadPool.h"
#include "runtime/plan/PlanFile.h"
#include "tests/unit/runtime/ToyPlan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <elf.h>
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

#if defined(__x86_64__)
namespace {
void expectRefused(std::span<std::byte> code, const std::vector<std::string> &parts) {
  try {
    streamThroughCaches(code, "kernels");
    FAIL() << "no error";
  } catch (const Error &error) {
    for (const std::string &part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}
} // namespace

TEST(HostDriver, StreamsGoWhereTheyAreFast) {
  std::unique_ptr<Device> device = createHostDriver()->open(0, {1, true});
  std::vector<std::byte> code = test::testKernelCode();
  std::unique_ptr<Module> module = device->load(code, "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("read_stream_hint", {1});
  std::unique_ptr<Buffer> out = device->allocate(4, MemoryKind::Device, "out");
  std::unique_ptr<Stream> stream = device->createStream();
  uint64_t parameter = out->address();
  stream->launch(*kernel, {1, 1, 1}, {&parameter, 1}, "read");
  int32_t seen = -1;
  stream->read(*out, 0, std::as_writable_bytes(std::span(&seen, 1)));
  stream->synchronize();
  EXPECT_EQ(seen, streamsThroughCaches());
}

TEST(HostDriver, PrefetchesOfTheListAreChangedOnce) {
  std::vector<std::byte> code = test::testKernelCode(), before = code;
  EXPECT_EQ(streamThroughCaches(code, "kernels"), 1u);
  auto [was, is] = std::ranges::mismatch(before, code);
  ASSERT_NE(was, before.end());
  EXPECT_EQ(std::to_integer<int>(*is) - std::to_integer<int>(*was), 8);
  EXPECT_TRUE(std::equal(was + 1, before.end(), is + 1));
  // Now it is no PREFETCHNTA.
  expectRefused(code, {"kernels", "entry 0", "PREFETCHNTA"});
}

TEST(HostDriver, AListThatLeavesTheObjectIsRefused) {
  std::vector<std::byte> code = test::testKernelCode();
  auto *header = reinterpret_cast<Elf64_Ehdr *>(code.data());
  auto *sections = reinterpret_cast<Elf64_Shdr *>(code.data() + header->e_shoff);
  const char *names =
      reinterpret_cast<char *>(code.data()) + sections[header->e_shstrndx].sh_offset;
  for (unsigned i = 0; i < header->e_shnum; ++i)
    if (std::string_view(names + sections[i].sh_name) == "m3_streams")
      sections[i].sh_addr += uint64_t(1) << 40;
  expectRefused(code, {"kernels", "in no segment of code"});
  header->e_shoff = code.size();
  expectRefused(code, {"kernels", "beyond"});
}
#endif

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
    EXPECT_EQ(std::string(error.what()).find("--emulate"), std::string::npos); // of a CPU
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
