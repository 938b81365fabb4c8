#include "tools/m3-bench/Report.h"

#include "runtime/base/Error.h"
#include "runtime/base/FileWriter.h"
#include "runtime/base/Json.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/Progress.h"
#include "runtime/drivers/host/Cpu.h"
#include "runtime/drivers/host/HostLimits.h"

#include <chrono>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/utsname.h>

namespace m3c::bench {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processorTime() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

uint64_t memoryBytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  uint64_t kibibytes = 0;
  file >> word >> kibibytes;
  return kibibytes * 1024;
}

double loadAverage() {
  std::ifstream file("/proc/loadavg");
  double load = 0;
  file >> load;
  return load;
}

} // namespace

nlohmann::ordered_json machineJson() {
  nlohmann::ordered_json out;
  utsname system;
  uname(&system);
  out["processor"] = hal::cpuName();
  out["cores"] = hal::usableCores().size();
  out["features"] = hal::cpuFeatures();
  for (const hal::MemoryLevel &level : hal::memoryLevels(1))
    if (level.bytes)
      out["caches"].push_back(
          {{"name", level.name}, {"bytes", level.bytes}, {"shared_by", level.sharedBy}});
  out["memory_bytes"] = memoryBytes();
  out["system"] = fmt::format("{} {}", system.sysname, system.release);
  out["load_average"] = loadAverage();
  return out;
}

std::string machineText() {
  std::string caches;
  for (const hal::MemoryLevel &level : hal::memoryLevels(1))
    if (level.bytes)
      caches += fmt::format(", {} {}", level.name, byteText(level.bytes));
  return fmt::format("{}, {} cores{}, memory {}, load average {:.1f}\n  features {}",
                     hal::cpuName(), hal::usableCores().size(), caches, byteText(memoryBytes()),
                     loadAverage(), fmt::join(hal::cpuFeatures(), " "));
}

UsageClock::UsageClock() : wall(now()), cpu(processorTime()) {}
double UsageClock::wallSeconds() const { return now() - wall; }
double UsageClock::cpuSeconds() const { return processorTime() - cpu; }

nlohmann::ordered_json resultJson(const Result &result) {
  Summary summary = summarise(result.samples);
  nlohmann::ordered_json out;
  out["name"] = result.name;
  out["unit"] = result.unit;
  out["better"] = result.higherIsBetter ? "higher" : "lower";
  out["median"] = summary.median;
  out["q10"] = summary.low;
  out["q90"] = summary.high;
  out["least"] = summary.least;
  out.update(result.facts);
  out["samples"] = result.samples;
  return out;
}

std::vector<Result> readResults(const std::string &path) {
  MappedFile file = MappedFile::open(path);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  nlohmann::json report = parseJson(text, path);
  std::vector<Result> results;
  try {
    for (const nlohmann::json &entry : report.at("results")) {
      Result result;
      entry.at("name").get_to(result.name);
      entry.at("unit").get_to(result.unit);
      result.higherIsBetter = entry.at("better") == "higher";
      entry.at("samples").get_to(result.samples);
      results.push_back(std::move(result));
    }
  } catch (const nlohmann::json::exception &) {
    throw Error("this is no report of m3-bench", path,
                "\"results\" with name, unit, better and samples is expected",
                "give a file that `m3-bench … --output FILE` wrote");
  }
  return results;
}

void writeReport(const std::string &path, const nlohmann::ordered_json &report) {
  FileWriter file(path);
  file.write(report.dump(1) + "\n");
  file.publish();
}

} // namespace m3c::bench
