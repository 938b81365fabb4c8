// Reads a plan file. Opening maps the file and checks header, section table and tables; the other
// sections are read, and their digests checked, when asked for.
#pragma once

#include "runtime/base/MappedFile.h"
#include "runtime/plan/PlanFormat.h"
#include "runtime/plan/plan_generated.h"

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace m3c::plan {

class PlanFile {
public:
  /// Throws Error for a file that is no plan, damaged, cut short, or of a version outside the
  /// support window (the error says how to get a readable one). Afterwards every index and offset
  /// in `tables()` is within bounds.
  static PlanFile open(const std::filesystem::path &path);
  /// The same from memory; `name` is what errors call it.
  static PlanFile fromBytes(std::vector<std::byte> bytes, std::string name);

  const std::string &name() const { return fileName; }
  const Tables &tables() const { return *root; }
  /// JSON text; its digest is checked.
  std::string_view manifest() const;

  uint32_t sectionCount() const { return uint32_t(entries.size()); }
  const SectionEntry &section(uint32_t index) const { return entries.at(index); }
  /// Bytes of a section; throws Error when its digest is not the recorded one.
  std::span<const std::byte> sectionBytes(uint32_t index) const;
  std::span<const std::byte> bytes() const;

  /// Reads everything: digests of all sections and the padding between them. Throws Error naming
  /// the first damaged part.
  void verify() const;

private:
  PlanFile() = default;
  void load();
  void readHeader();
  void readTable();
  void readTables();

  std::string fileName;
  MappedFile mapped;
  std::vector<std::byte> owned;
  Header header = {};
  std::vector<SectionEntry> entries;
  const Tables *root = nullptr;
};

/// "tables", "code", …
std::string_view sectionKindName(SectionKind kind);

} // namespace m3c::plan
