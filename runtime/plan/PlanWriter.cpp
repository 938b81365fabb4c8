#include "runtime/plan/PlanWriter.h"

#include "runtime/base/Error.h"
#include "runtime/base/FileWriter.h"
#include "runtime/plan/Checksum.h"
#include "runtime/plan/PlanFile.h"

#include <cstring>

namespace m3c::plan {

namespace {

std::vector<std::byte> copyOf(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

} // namespace

uint32_t PlanWriter::addSection(SectionKind kind, std::span<const std::byte> bytes) {
  if (kind == SectionKind::Tables || kind == SectionKind::Manifest)
    throw Error("tables and manifest have their own setters", "plan writer");
  others.push_back({kind, copyOf(bytes)});
  return uint32_t(others.size() + 1);
}

uint32_t PlanWriter::addSection(SectionKind kind, std::string_view text) {
  return addSection(kind, std::as_bytes(std::span(text)));
}

void PlanWriter::setTables(const TablesT &value) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Tables::Pack(builder, &value), TablesIdentifier());
  setTables(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())));
}

void PlanWriter::setTables(std::span<const std::byte> finished) { tables.bytes = copyOf(finished); }

void PlanWriter::setManifest(std::string_view json) {
  manifest.bytes = copyOf(std::as_bytes(std::span(json)));
}

std::vector<std::byte> PlanWriter::bytes() const {
  if (tables.bytes.empty() || manifest.bytes.empty())
    throw Error("a plan needs tables and a manifest", "plan writer");
  std::vector<const Section *> sections = {&tables, &manifest};
  for (const Section &section : others)
    sections.push_back(&section);

  std::vector<SectionEntry> entries;
  uint64_t end = sizeof(Header) + sections.size() * sizeof(SectionEntry);
  for (const Section *section : sections) {
    bool blob = section->kind == SectionKind::Code;
    uint64_t alignment = blob ? blobAlignment : tablesAlignment;
    SectionEntry entry = {};
    entry.kind = uint32_t(section->kind);
    entry.offset = alignUp(end, alignment);
    entry.size = section->bytes.size();
    entry.alignment = alignment;
    storeDigest(entry.digest, hash128(section->bytes));
    entries.push_back(entry);
    end = entry.offset + entry.size;
  }

  std::vector<std::byte> file(end);
  Header header = {};
  header.magic = planMagic;
  header.version = formatVersion;
  header.minimumReader = minimumReader;
  header.length = end;
  header.sectionCount = uint32_t(entries.size());
  storeDigest(header.checksum, headerChecksum(header, entries));
  std::memcpy(file.data(), &header, sizeof(header));
  std::memcpy(file.data() + sizeof(header), entries.data(), entries.size() * sizeof(SectionEntry));
  for (size_t i = 0; i < sections.size(); ++i)
    std::memcpy(file.data() + entries[i].offset, sections[i]->bytes.data(), entries[i].size);
  PlanFile::fromBytes(file, "plan writer"); // what is written can be read
  return file;
}

void PlanWriter::publish(const std::filesystem::path &path) const {
  std::vector<std::byte> file = bytes();
  FileWriter out(path);
  out.write(file);
  out.publish();
}

} // namespace m3c::plan
