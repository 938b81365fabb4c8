// Every planted fault is found, in every order of threads that is tried; without it nothing is.
#include "tests/unit/emulator/Faults.h"

#include <set>

using namespace m3c;
using namespace m3c::test;

namespace {

const BenchKernel &kernelOf(const std::string &name) {
  for (const BenchKernel &kernel : soundKernels())
    if (kernel.name == name)
      return kernel;
  throw Error("no kernel " + name, "tests");
}

std::vector<std::byte> input() {
  std::vector<uint32_t> values(1024);
  for (uint32_t i = 0; i < values.size(); ++i)
    values[i] = i * i + 7;
  return bytesOf(values);
}

class Planted : public testing::TestWithParam<PlantedFault> {};

TEST_P(Planted, IsFound) {
  const PlantedFault &fault = GetParam();
  BenchKernel kernel = kernelOf(fault.kernel);
  kernel.text = "#define " + std::string(fault.name) + "\n" + kernel.text;
  for (uint64_t seed : {1, 2, 3}) {
    std::vector<std::byte> data = input();
    try {
      runEmulated(kernel, {&data}, seed);
      ADD_FAILURE() << "nothing was found with seed " << seed;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(fault.says), std::string::npos) << error.what();
      EXPECT_NE(error.where().find(fault.at), std::string::npos) << error.what();
      EXPECT_NE(error.where().find("kernel " + kernel.name + ", work item ("), std::string::npos)
          << error.what();
      EXPECT_NE(error.next().find("seed " + std::to_string(seed)), std::string::npos);
    }
  }
}

std::string nameOf(const testing::TestParamInfo<PlantedFault> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Emulator, Planted, testing::ValuesIn(plantedFaults()), nameOf);

class Sound : public testing::TestWithParam<BenchKernel> {};

TEST_P(Sound, RunsInManyOrders) {
  std::vector<std::byte> first;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<std::byte> data = input();
    runEmulated(GetParam(), {&data}, seed);
    EXPECT_NE(data, input());
    first = first.empty() ? data : first;
    EXPECT_EQ(data, first) << "with seed " << seed;
  }
}

std::string kernelName(const testing::TestParamInfo<BenchKernel> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Emulator, Sound, testing::ValuesIn(soundKernels()), kernelName);

/// A fault without its switch in the text would test nothing.
TEST(PlantedFaults, AreAllInTheTexts) {
  std::set<std::string> names;
  for (const PlantedFault &fault : plantedFaults()) {
    EXPECT_TRUE(names.insert(fault.name).second) << fault.name;
    const std::string &text = kernelOf(fault.kernel).text;
    EXPECT_NE(text.find("defined(" + std::string(fault.name) + ")"), std::string::npos)
        << fault.name;
  }
  for (const BenchKernel &kernel : soundKernels())
    for (size_t at = 0; (at = kernel.text.find("defined(", at)) != std::string::npos; ++at) {
      size_t begin = at + 8, end = kernel.text.find(')', at);
      EXPECT_TRUE(names.count(kernel.text.substr(begin, end - begin)))
          << kernel.text.substr(begin, end - begin);
    }
}

TEST(Reports, NameTheRole) {
  BenchKernel kernel = kernelOf("pipeline");
  kernel.text = "#define FullStageNotWaitedFor\n" + kernel.text;
  std::vector<std::byte> data = input();
  try {
    runEmulated(kernel, {&data});
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(error.where().find("role add"), std::string::npos) << error.what();
  }
}

} // namespace
