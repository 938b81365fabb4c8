#include "runtime/base/Progress.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace m3c {

std::optional<ProgressMode> parseProgressMode(std::string_view text) {
  if (text == "auto")
    return ProgressMode::Auto;
  if (text == "plain")
    return ProgressMode::Plain;
  if (text == "json")
    return ProgressMode::Json;
  if (text == "none")
    return ProgressMode::Silent;
  return std::nullopt;
}

std::string byteText(uint64_t bytes) {
  const char *units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = double(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

uint64_t peakMemory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return uint64_t(usage.ru_maxrss) * 1024;
}

Progress::Progress(ProgressMode mode) : mode(mode) {
  terminal = mode == ProgressMode::Auto && ::isatty(STDERR_FILENO);
}

Progress::~Progress() {
  if (!name.empty() && terminal)
    std::fputc('\n', stderr);
}

void Progress::stage(std::string stageName, uint64_t stageTotal) {
  finish();
  name = std::move(stageName);
  total = stageTotal;
  lastDone = 0;
  begun = shown = Clock::now();
}

void Progress::update(uint64_t done, std::string_view item) {
  lastDone = done;
  if (name.empty() || mode == ProgressMode::Silent)
    return;
  if (Clock::now() - shown >= std::chrono::milliseconds(terminal ? 100 : 2000))
    show(done, item, false);
}

void Progress::finish() {
  if (!name.empty() && mode != ProgressMode::Silent)
    show(lastDone, "", true);
  name.clear();
}

void Progress::show(uint64_t done, std::string_view item, bool last) {
  shown = Clock::now();
  double elapsed = std::chrono::duration<double>(shown - begun).count();
  std::string text = mode == ProgressMode::Json ? jsonLine(done, item, elapsed, last)
                                                : line(done, item, elapsed, last);
  if (terminal)
    text = "\r\033[K" + text;
  if (!terminal || last)
    text += '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

std::string Progress::line(uint64_t done, std::string_view item, double elapsed, bool last) const {
  std::string text = name;
  if (last)
    return text +
           fmt::format(": done in {:.1f} s, peak memory {}", elapsed, byteText(peakMemory()));
  if (total)
    text += fmt::format(": {:.0f}%", 100.0 * double(done) / double(total));
  if (!item.empty())
    text += fmt::format(", {}", item);
  text += fmt::format(", {:.0f} s", elapsed);
  if (total && done)
    text += fmt::format(", {:.0f} s left", elapsed * (double(total) / double(done) - 1));
  return text + fmt::format(", peak memory {}", byteText(peakMemory()));
}

std::string Progress::jsonLine(uint64_t done, std::string_view item, double elapsed,
                               bool last) const {
  nlohmann::ordered_json out = {{"stage", name}, {"done", done}, {"total", total}};
  if (!item.empty())
    out["item"] = std::string(item);
  out["elapsed_s"] = elapsed;
  if (total && done && !last)
    out["eta_s"] = elapsed * (double(total) / double(done) - 1);
  out["peak_memory_bytes"] = peakMemory();
  out["finished"] = last;
  return out.dump();
}

} // namespace m3c
