#include "runtime/plan/PlanFile.h"

#include "runtime/base/Error.h"
#include "runtime/plan/Checksum.h"
#include "runtime/plan/PlanCheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace m3c::plan {

static_assert(std::endian::native == std::endian::little, "plan files are little endian");

namespace {

constexpr const char *recompile = "make the plan again with `m3c compile`";

[[noreturn]] void damaged(const std::string &file, std::string why) {
  throw Error(fmt::format("{} is damaged", file), file, std::move(why), recompile);
}

} // namespace

std::string_view sectionKindName(SectionKind kind) {
  switch (kind) {
  case SectionKind::Tables:
    return "tables";
  case SectionKind::Manifest:
    return "manifest";
  case SectionKind::Code:
    return "code";
  case SectionKind::Source:
    return "source";
  case SectionKind::Extra:
    return "extra";
  }
  return "unknown";
}

PlanFile PlanFile::open(const std::filesystem::path &path) {
  PlanFile plan;
  plan.fileName = path.string();
  plan.mapped = MappedFile::open(path);
  plan.load();
  return plan;
}

PlanFile PlanFile::fromBytes(std::vector<std::byte> bytes, std::string name) {
  PlanFile plan;
  plan.fileName = std::move(name);
  plan.owned = std::move(bytes);
  plan.load();
  return plan;
}

std::span<const std::byte> PlanFile::bytes() const {
  return owned.empty() ? mapped.bytes() : std::span<const std::byte>(owned);
}

void PlanFile::load() {
  readHeader();
  readTable();
  readTables();
}

void PlanFile::readHeader() {
  std::span<const std::byte> file = bytes();
  if (file.size() < sizeof(Header) ||
      std::memcmp(file.data(), planMagic.data(), planMagic.size()) != 0)
    throw Error(fmt::format("{} is not a plan file", fileName), fileName,
                file.size() < sizeof(Header)
                    ? fmt::format("{} bytes, a plan's header has {}", file.size(), sizeof(Header))
                    : "the first 8 bytes are not \"M3CPLAN\\n\"",
                "give a file that `m3c compile -o` wrote");
  std::memcpy(&header, file.data(), sizeof(header));
  if (header.version < oldestReadable || header.minimumReader > formatVersion)
    throw Error(fmt::format("{} has plan format {}", fileName, header.version), fileName,
                fmt::format("this program reads formats {} to {}; the file asks for reader {} or "
                            "newer",
                            oldestReadable, formatVersion, header.minimumReader),
                header.version < oldestReadable
                    ? recompile
                    : "use the m3c release that wrote the plan, or compile it again with this one");
  if (header.length != file.size())
    damaged(fileName,
            fmt::format("the header says {} bytes, the file has {}", header.length, file.size()));
}

void PlanFile::readTable() {
  std::span<const std::byte> file = bytes();
  if (header.sectionCount < 2 || header.sectionCount > maxSections ||
      header.sectionCount > (file.size() - sizeof(Header)) / sizeof(SectionEntry))
    damaged(fileName, fmt::format("section count {} does not fit {} bytes", header.sectionCount,
                                  file.size()));
  entries.resize(header.sectionCount);
  std::memcpy(entries.data(), file.data() + sizeof(Header), entries.size() * sizeof(SectionEntry));
  if (loadDigest(header.checksum) != headerChecksum(header, entries))
    damaged(fileName, "the checksum of header and section table does not match");
  uint64_t end = sizeof(Header) + entries.size() * sizeof(SectionEntry);
  for (size_t i = 0; i < entries.size(); ++i) {
    const SectionEntry &entry = entries[i];
    if (!std::has_single_bit(entry.alignment) || entry.offset % entry.alignment != 0 ||
        entry.offset < end || entry.offset > file.size() || entry.size > file.size() - entry.offset)
      damaged(fileName, fmt::format("section {} at {} + {} bytes, alignment {}, does not fit the "
                                    "file of {} bytes",
                                    i, entry.offset, entry.size, entry.alignment, file.size()));
    end = entry.offset + entry.size;
  }
  if (end != file.size())
    damaged(fileName, fmt::format("{} bytes follow the last section", file.size() - end));
  if (entries[0].kind != uint32_t(SectionKind::Tables) ||
      entries[1].kind != uint32_t(SectionKind::Manifest))
    damaged(fileName, "the first two sections are not tables and manifest");
}

void PlanFile::readTables() {
  std::span<const std::byte> section = sectionBytes(0);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(section.data()), section.size(),
                                 /*max_depth=*/16, /*max_tables=*/100'000'000);
  if (!VerifyTablesBuffer(verifier))
    damaged(fileName, "the tables section is not a well-formed FlatBuffers buffer of plan.fbs");
  root = GetTables(section.data());
  checkTables(*root, entries, fileName);
}

std::string_view PlanFile::manifest() const {
  std::span<const std::byte> section = sectionBytes(1);
  return {reinterpret_cast<const char *>(section.data()), section.size()};
}

std::span<const std::byte> PlanFile::sectionBytes(uint32_t index) const {
  const SectionEntry &entry = entries.at(index);
  std::span<const std::byte> section = bytes().subspan(entry.offset, entry.size);
  if (hash128(section) != loadDigest(entry.digest))
    damaged(fileName,
            fmt::format("section {} ({}, {} bytes at {}) does not match its digest", index,
                        sectionKindName(SectionKind(entry.kind)), entry.size, entry.offset));
  return section;
}

void PlanFile::verify() const {
  std::span<const std::byte> file = bytes();
  uint64_t end = sizeof(Header) + entries.size() * sizeof(SectionEntry);
  for (uint32_t i = 0; i < sectionCount(); ++i) {
    std::span<const std::byte> gap = file.subspan(end, entries[i].offset - end);
    auto stray = std::find_if(gap.begin(), gap.end(), [](std::byte b) { return b != std::byte(); });
    if (stray != gap.end())
      damaged(fileName, fmt::format("byte {} between sections is not zero",
                                    end + uint64_t(stray - gap.begin())));
    sectionBytes(i);
    end = entries[i].offset + entries[i].size;
  }
}

} // namespace m3c::plan
