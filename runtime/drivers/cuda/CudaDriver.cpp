#include "runtime/drivers/cuda/CudaDriver.h"

#include "runtime/drivers/cuda/CudaDevice.h"
#include "runtime/drivers/cuda/CudaLibrary.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace m3c::hal {

namespace {

using namespace cuda;

/// Architectures whose code runs on a device of this compute capability, as compilers spell them:
/// every earlier one of the same major version, from 9.0 on the exact one with its own instructions
/// ("a"), from 10.0 on those of the family ("f").
std::vector<std::string> architectures(int major, int minor) {
  std::vector<std::string> names;
  for (int m = 0; m <= minor; ++m) {
    names.push_back(fmt::format("sm_{}{}", major, m));
    if (major >= 10)
      names.push_back(fmt::format("sm_{}{}f", major, m));
  }
  if (major >= 9)
    names.push_back(fmt::format("sm_{}{}a", major, minor));
  std::sort(names.begin(), names.end());
  return names;
}

/// "13.0, module 580.159.03".
std::string softwareText(int apiVersion) {
  std::string module;
  std::ifstream("/sys/module/nvidia/version") >> module;
  return versionText(apiVersion) + (module.empty() ? "" : ", driver " + module);
}

class CudaDriver final : public Driver {
public:
  explicit CudaDriver(std::string path) : path(std::move(path)) {}

  std::string_view name() const override { return "cuda"; }

  std::vector<DeviceInfo> devices() const override {
    std::vector<DeviceInfo> found;
    if (!load())
      return found;
    int count = 0;
    check(call().cuDeviceGetCount(&count), "cuDeviceGetCount", "counting devices");
    for (int i = 0; i < count; ++i)
      found.push_back(describe(i, count));
    if (found.empty())
      problem = "the NVIDIA driver finds no GPU";
    return found;
  }

  std::string absence() const override { return problem; }

  std::unique_ptr<Device> open(size_t index, const DeviceOptions &options) const override {
    std::vector<DeviceInfo> all = devices();
    if (index >= all.size())
      throw Error(fmt::format("there is no CUDA device {}", index), "cuda driver",
                  all.empty() ? problem
                              : fmt::format("{} of them are here, numbered from 0", all.size()),
                  "`m3c doctor` lists the devices");
    DeviceId device = 0;
    check(call().cuDeviceGet(&device, int(index)), "cuDeviceGet", all[index].name);
    return std::make_unique<CudaDevice>(library, device, all[index], options);
  }

private:
  const Table &call() const { return library->call(); }
  void check(Result result, const char *function, std::string_view what) const {
    library->check(result, function, what);
  }

  bool load() const {
    if (library)
      return true;
    try {
      library = Library::open(path);
    } catch (const Error &error) {
      problem = fmt::format("{}: {}; {}", error.summary(), error.why(), error.next());
    }
    return library != nullptr;
  }

  DeviceInfo describe(int ordinal, int count) const {
    DeviceId device = 0;
    char name[256] = "";
    size_t bytes = 0;
    DeviceInfo info;
    info.driver = "cuda";
    check(call().cuDeviceGet(&device, ordinal), "cuDeviceGet", "finding a device");
    check(call().cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName", "finding a device");
    info.name = name;
    check(call().cuDeviceTotalMem_v2(&bytes, device), "cuDeviceTotalMem", info.name);
    info.memoryBytes = bytes;
    auto attribute = [&](int which) {
      int value = 0;
      check(call().cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute", info.name);
      return value;
    };
    info.workers = unsigned(attribute(AttributeMultiprocessors));
    info.clockHertz = uint64_t(attribute(AttributeClockKilohertz)) * 1000;
    info.cacheBytes = uint64_t(attribute(AttributeCacheBytes));
    info.features =
        architectures(attribute(AttributeComputeMajor), attribute(AttributeComputeMinor));
    info.software = softwareText(library->version());
    for (int other = 0; other < count; ++other) {
      DeviceId peer = 0;
      int can = 0;
      if (other != ordinal && call().cuDeviceGet(&peer, other) == Success &&
          call().cuDeviceCanAccessPeer(&can, device, peer) == Success && can)
        info.peers.push_back(unsigned(other));
    }
    return info;
  }

  std::string path;
  mutable std::shared_ptr<const Library> library;
  mutable std::string problem;
};

} // namespace

std::unique_ptr<Driver> createCudaDriver(std::string library) {
  return std::make_unique<CudaDriver>(std::move(library));
}

} // namespace m3c::hal
