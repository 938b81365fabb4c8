#include "runtime/drivers/host/Cpu.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include <fmt/format.h>

namespace m3c::hal {

namespace {

std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Cores' worth of time that the control group grants: "max 100000" or "150000 100000".
double grantedCores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0)
    return INFINITY;
  return std::max(1.0, std::strtod(quota.c_str(), nullptr) / period);
}

} // namespace

std::vector<std::string> cpuFeatures() {
  std::vector<std::string> features;
#if defined(__x86_64__)
  features.push_back("x86_64");
  __builtin_cpu_init();
  // The compiler's run-time check also asks XGETBV whether the wide registers are saved.
#define M3C_FEATURE(name)                                                                          \
  if (__builtin_cpu_supports(name))                                                                \
    features.push_back(name);
  M3C_FEATURE("avx2")
  M3C_FEATURE("fma")
  M3C_FEATURE("bmi2")
  M3C_FEATURE("avx512f")
  M3C_FEATURE("avx512bw")
  M3C_FEATURE("avx512dq")
  M3C_FEATURE("avx512vl")
  M3C_FEATURE("avx512vbmi")
  M3C_FEATURE("avx512vnni")
  M3C_FEATURE("avx512bf16")
#undef M3C_FEATURE
  // Every processor with AVX2 has it; GCC and clang differ in the name they accept.
  if (__builtin_cpu_supports("avx2"))
    features.push_back("f16c");
#endif
  std::sort(features.begin(), features.end());
  return features;
}

std::string cpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0)
      if (size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown processor";
}

bool streamsThroughCaches() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel");
#else
  return true;
#endif
}

std::vector<int> usableCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    std::set<std::string> seen; // sibling lists name a physical core
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed))
        continue;
      std::string siblings = firstLine(
          fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
      if (siblings.empty() || seen.insert(siblings).second)
        cores.push_back(cpu);
    }
  }
  if (cores.empty())
    cores.push_back(0);
  if (double granted = grantedCores(); granted < double(cores.size()))
    cores.resize(size_t(std::max(1.0, std::floor(granted))));
  return cores;
}

} // namespace m3c::hal
