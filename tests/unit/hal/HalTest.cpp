// The conformance suite over the drivers that every machine has, and what is particular to the null
// driver and to the choice of a target.
#include "runtime/base/Error.h"
#include "runtime/drivers/Drivers.h"
#include "runtime/drivers/cuda/CudaDriver.h"
#include "runtime/drivers/host/HostDriver.h"
#include "runtime/drivers/null/NullDevice.h"
#include "runtime/plan/PlanFile.h"
#include "tests/unit/hal/HalConformance.h"
#include "tests/unit/runtime/ToyPlan.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace m3c;
using namespace m3c::hal;
using namespace m3c::test;

namespace {

std::vector<std::byte> symbolList() {
  std::string text = "add_to write_index use_shared nothing";
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::vector<DriverUnderTest> drivers() {
  auto host = [](unsigned threads) {
    return [threads] { return createHostDriver()->open(0, {threads}); };
  };
  auto cuda = [](bool checked) {
    return [checked] {
      DeviceOptions options;
      options.checkLaunches = checked;
      return createCudaDriver(M3C_FAKE_CUDA)->open(0, options);
    };
  };
  return {{"host1", true, host(1), test::testKernelCode},
          {"host2", true, host(2), test::testKernelCode},
          {"host5", true, host(5), test::testKernelCode}, // more workers than cores
          {"cuda", true, cuda(false), ptxTestKernels},    // over a library without a GPU
          {"cudaChecked", true, cuda(true), ptxTestKernels},
          {"null", false, [] { return std::make_unique<NullDevice>(); }, symbolList}};
}

} // namespace

INSTANTIATE_TEST_SUITE_P(Drivers, Conformance, testing::ValuesIn(drivers()),
                         [](const auto &info) { return info.param.name; });

TEST(NullDriver, RecordsAndNamesTheFailingLaunch) {
  NullDevice device;
  std::unique_ptr<Stream> stream = device.createStream();
  std::unique_ptr<Module> module = device.load(symbolList(), "kernels");
  std::unique_ptr<Kernel> kernel = module->kernel("add_to", {2});
  std::unique_ptr<Graph> graph = device.createGraph();
  std::vector<uint64_t> parameters = {1, 2};
  graph->launch(*kernel, {3, 1, 1}, parameters, "layers.0.norm");
  graph->instantiate();
  stream->replay(*graph);
  stream->synchronize();
  ASSERT_EQ(device.records().size(), 3u);
  EXPECT_EQ(device.records()[1], (NullRecord{"launch", "layers.0.norm", {3, 1, 1}, {1, 2}}));
  device.failAt("layers.0.norm");
  stream->replay(*graph);
  try {
    stream->synchronize();
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("layers.0.norm"), std::string::npos);
  }
  stream->synchronize(); // reported once
}

TEST(NullDriver, HasBoundedMemory) {
  NullDevice device({}, 1000);
  std::unique_ptr<Buffer> first = device.allocate(900, MemoryKind::Device, "first");
  EXPECT_THROW(device.allocate(101, MemoryKind::Device, "second"), Error);
}

TEST(Targets, TheMostDemandingOneThatFitsIsTaken) {
  plan::PlanWriter writer;
  uint32_t code = writer.addSection(plan::SectionKind::Code, "code");
  plan::TablesT tables = test::toyTables(code);
  auto add = [&](const char *chip, std::vector<std::string> features) {
    auto target = std::move(test::toyTables(code).targets[0]);
    target->name = "toy";
    target->chip = chip;
    target->required_features = std::move(features);
    tables.targets.push_back(std::move(target));
  };
  tables.targets.clear();
  add("small", {"a"});
  add("big", {"a", "b", "c"});
  add("other", {"a", "d"});
  writer.setTables(tables);
  writer.setManifest("{}");
  plan::PlanFile plan = plan::PlanFile::fromBytes(writer.bytes(), "toy");
  auto chipFor = [&](std::vector<std::string> features) {
    const plan::Target *target = bestTarget(plan.tables(), NullDevice(features).info());
    return target ? target->chip()->str() : "none";
  };
  EXPECT_EQ(chipFor({"c", "b", "a"}), "big");
  EXPECT_EQ(chipFor({"a", "b"}), "small");
  EXPECT_EQ(chipFor({"a", "b", "d"}), "other");
  EXPECT_EQ(chipFor({"b"}), "none");

  // Three chips of one target: its name once.
  try {
    openDeviceFor(plan.tables(), "toy.m3plan", {.emulate = "wrong"});
    ADD_FAILURE();
  } catch (const Error &error) {
    EXPECT_EQ(error.why(), "it has code for toy");
  }
}
