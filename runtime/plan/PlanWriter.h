// Builds a plan file in memory and publishes it whole or not at all. Equal input, equal bytes.
#pragma once

#include "runtime/plan/PlanFormat.h"
#include "runtime/plan/plan_generated.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace m3c::plan {

class PlanWriter {
public:
  /// Adds a section and returns its index, which the tables may then name: 2, 3, … in the order of
  /// calls. Kind Code, Source or Extra.
  uint32_t addSection(SectionKind kind, std::span<const std::byte> bytes);
  uint32_t addSection(SectionKind kind, std::string_view text);

  /// Section 0. The overload takes a finished FlatBuffers root.
  void setTables(const TablesT &tables);
  void setTables(std::span<const std::byte> finished);
  /// Section 1: JSON without timings or host names (equal input must give equal bytes).
  void setManifest(std::string_view json);

  /// The whole file. Throws Error when tables or manifest are missing, or the tables do not pass
  /// checkTables.
  std::vector<std::byte> bytes() const;
  /// Writes `bytes()` beside `path` and renames it there; a full disk or a read-only folder is an
  /// Error and leaves what was there before.
  void publish(const std::filesystem::path &path) const;

private:
  struct Section {
    SectionKind kind;
    std::vector<std::byte> bytes;
  };
  Section tables{SectionKind::Tables, {}}, manifest{SectionKind::Manifest, {}};
  std::vector<Section> others;
};

} // namespace m3c::plan
