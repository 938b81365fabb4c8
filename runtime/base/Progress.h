// Progress of a long operation on standard error: one line that is redrawn on a terminal, plain
// lines elsewhere, or JSON lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace m3c {

enum class ProgressMode { Auto, Plain, Json, Silent };

/// "auto", "plain", "json", "none"; nothing for another text.
std::optional<ProgressMode> parseProgressMode(std::string_view text);

/// "1.5 GiB".
std::string byteText(uint64_t bytes);
/// Largest resident size of this process so far, in bytes.
uint64_t peakMemory();

class Progress {
public:
  explicit Progress(ProgressMode mode = ProgressMode::Auto);
  /// A stage that is still open was broken off by an error: it gets no closing line.
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// Finishes the stage before and begins one, for instance "reading weights"; `total` in any unit,
  /// 0 when not known.
  void stage(std::string name, uint64_t total = 0);
  /// `item` is what is worked on now. Lines are limited in rate: 10 a second on a terminal, else
  /// one every 2 s.
  void update(uint64_t done, std::string_view item = "");
  /// Ends the stage with a line that has its time.
  void finish();

private:
  using Clock = std::chrono::steady_clock;
  void show(uint64_t done, std::string_view item, bool last);
  std::string line(uint64_t done, std::string_view item, double elapsed, bool last) const;
  std::string jsonLine(uint64_t done, std::string_view item, double elapsed, bool last) const;

  ProgressMode mode;
  bool terminal = false;
  std::string name;
  uint64_t total = 0, lastDone = 0;
  Clock::time_point begun, shown;
};

} // namespace m3c
