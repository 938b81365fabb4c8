#include "runtime/capsule/Capsule.h"

#include "runtime/base/Error.h"
#include "runtime/base/FileWriter.h"
#include "runtime/base/Hash.h"
#include "runtime/base/Json.h"
#include "runtime/base/MappedFile.h"
#include "runtime/capsule/CapsuleEntry.h"

#include <fmt/format.h>

#include <algorithm>

namespace m3c {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char *formatName = "m3c capsule 1";
/// Bytes that nothing wrote: NaN in every format of values. Buffers of them have no file.
constexpr std::byte unwritten{0xff};
constexpr uint64_t largestBuffer = uint64_t(1) << 36;
constexpr std::pair<CapsuleArgument::Element, const char *> elementNames[] = {
    {CapsuleArgument::Element::Bytes, "bytes"},
    {CapsuleArgument::Element::F32, "f32"},
    {CapsuleArgument::Element::Bf16, "bf16"}};

std::span<const std::byte> bytesOf(const std::string &text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class Writer {
public:
  explicit Writer(fs::path folder) : folder(std::move(folder)) {
    std::error_code error;
    fs::create_directories(this->folder, error);
    if (error)
      throw Error(fmt::format("{} cannot be made", this->folder.string()), this->folder.string(),
                  error.message());
  }
  /// {"file": …, "bytes": …, "digest": …}
  json file(const std::string &name, std::span<const std::byte> bytes) {
    FileWriter writer(folder / name);
    writer.write(bytes);
    writer.publish();
    return {{"file", name}, {"bytes", bytes.size()}, {"digest", hash128(bytes).hex()}};
  }

private:
  fs::path folder;
};

class Reader {
public:
  explicit Reader(fs::path folder) : folder(std::move(folder)) {}

  std::vector<std::byte> file(const CapsuleEntry &entry) const {
    std::string name = entry.at("file").text();
    if (fs::path(name).has_parent_path() || name.empty())
      fail(name, "a capsule's files lie in its folder");
    MappedFile mapped = MappedFile::open(folder / name);
    std::vector<std::byte> bytes(mapped.size());
    mapped.read(0, bytes);
    if (uint64_t written = entry.at("bytes").number(); bytes.size() != written)
      fail(name, fmt::format("it has {} bytes, {} were written", bytes.size(), written));
    if (hash128(bytes).hex() != entry.at("digest").text())
      fail(name, "its digest is not the one that capsule.json has");
    return bytes;
  }
  std::string text(const CapsuleEntry &entry) const {
    std::vector<std::byte> bytes = file(entry);
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
  }
  [[noreturn]] void fail(const std::string &name, const std::string &why) const {
    throw Error(fmt::format("the capsule {} is damaged", folder.string()), (folder / name).string(),
                why, "copy or make the capsule again");
  }

private:
  fs::path folder;
};

void checkParts(const Reader &reader, const CapsuleArgument &argument) {
  uint64_t end = 0, all = 0;
  for (const CapsulePart &part : argument.parts) {
    if (part.offset < end || part.bytes == 0 || part.offset > argument.size ||
        part.bytes > argument.size - part.offset)
      reader.fail("capsule.json", fmt::format("argument {}: its parts do not ascend within its {} "
                                              "bytes",
                                              argument.name, argument.size));
    end = part.offset + part.bytes;
    all += part.bytes;
  }
  if (!argument.parts.empty() && all != argument.input.size())
    reader.fail("capsule.json", fmt::format("argument {}: its parts have {} bytes, its input {}",
                                            argument.name, all, argument.input.size()));
  if (argument.bufferBytes() > largestBuffer)
    reader.fail("capsule.json", fmt::format("argument {}: a buffer of {} bytes is too large",
                                            argument.name, argument.bufferBytes()));
}

/// What replaying counts on, whatever capsule.json says: it has no digest of its own.
void checkArgument(const Reader &reader, const CapsuleArgument &argument, uint64_t offset,
                   const std::vector<CapsuleArgument> &earlier) {
  auto require = [&](bool holds, const char *rule) {
    if (!holds)
      reader.fail("capsule.json", fmt::format("argument {}: {}", argument.name, rule));
  };
  require(offset == 8 * earlier.size(), "its offset is not 8 bytes after the one before");
  if (argument.same)
    require(argument.isBuffer && *argument.same < earlier.size() &&
                earlier[*argument.same].isBuffer && !earlier[*argument.same].same,
            "`same` must be the number of an earlier argument that brings a buffer");
  const CapsuleArgument &brings = argument.same ? earlier[*argument.same] : argument;
  require(!argument.isBuffer || argument.value <= brings.bufferBytes(),
          "its value is beyond the buffer");
  if (!argument.expected)
    return;
  require(argument.isBuffer && !argument.same, "only an argument that brings a buffer has results");
  require(argument.expected->size() == argument.input.size(),
          "its results have another size than its input");
  require(argument.expected->size() % elementBytes(argument.element) == 0,
          "its results are no whole number of elements");
}

std::vector<std::byte> readInput(const Reader &reader, const CapsuleEntry &entry) {
  if (entry.has("input"))
    return reader.file(entry.at("input"));
  uint64_t bytes = entry.at("unwritten").number();
  if (bytes > largestBuffer)
    reader.fail("capsule.json", fmt::format("a buffer of {} bytes is too large", bytes));
  return std::vector<std::byte>(bytes, unwritten);
}

json partsJson(const std::vector<CapsulePart> &parts) {
  json out = json::array();
  for (const CapsulePart &part : parts)
    out.push_back({part.offset, part.bytes});
  return out;
}

CapsuleArgument readArgument(const Reader &reader, const CapsuleEntry &entry) {
  CapsuleArgument argument;
  argument.name = entry.at("name").text();
  argument.value = entry.at("value").number();
  std::string kind = entry.at("kind").text();
  argument.isBuffer = kind == "buffer";
  if (!argument.isBuffer && kind != "number")
    reader.fail("capsule.json", fmt::format("argument {}: its kind is neither \"buffer\" nor "
                                            "\"number\"",
                                            argument.name));
  if (entry.has("same"))
    argument.same = entry.at("same").number();
  else if (argument.isBuffer)
    argument.input = readInput(reader, entry);
  if (entry.has("parts")) {
    argument.size = entry.at("bytes").number();
    for (const CapsuleEntry &part : entry.at("parts").list()) {
      std::vector<CapsuleEntry> numbers = part.list();
      if (numbers.size() != 2)
        reader.fail("capsule.json", fmt::format("argument {}: a part has an offset and bytes, not "
                                                "{} numbers",
                                                argument.name, numbers.size()));
      argument.parts.push_back({numbers[0].number(), numbers[1].number()});
    }
  }
  checkParts(reader, argument);
  if (!entry.has("expected"))
    return argument;
  argument.expected = reader.file(entry.at("expected"));
  argument.tolerance = entry.at("tolerance").distance();
  auto found = std::ranges::find(elementNames, entry.at("element").text(),
                                 [](const auto &row) { return std::string(row.second); });
  if (found == std::end(elementNames))
    reader.fail("capsule.json",
                fmt::format("argument {}: its element is none of bytes, f32, bf16", argument.name));
  argument.element = found->first;
  return argument;
}

/// A launch that every device of today could take, and that ends.
void checkShape(const Reader &reader, const Capsule &capsule) {
  constexpr uint32_t mostThreads = 1024, mostCluster = 16; // of a work item; work items
  constexpr uint64_t mostShared = 1 << 20, mostItems = 1 << 24;
  const hal::KernelShape &shape = capsule.shape;
  if (shape.threads < 1 || shape.threads > mostThreads || shape.cluster < 1 ||
      shape.cluster > mostCluster)
    reader.fail("capsule.json",
                fmt::format("{} threads in clusters of {}; 1 to {} in clusters of 1 to {} can be",
                            shape.threads, shape.cluster, mostThreads, mostCluster));
  if (shape.sharedBytes > mostShared)
    reader.fail("capsule.json",
                fmt::format("{} shared_bytes; {} can be at most", shape.sharedBytes, mostShared));
  const auto &[x, y, z] = capsule.grid;
  if (uint64_t(x) * y > mostItems || uint64_t(x) * y * z > mostItems)
    reader.fail("capsule.json", fmt::format("a grid of {} x {} x {} work items; a capsule has {} "
                                            "at most",
                                            x, y, z, mostItems));
}

/// As many arguments as were written, and results to judge by.
void checkArguments(const Reader &reader, const Capsule &capsule, uint64_t written) {
  if (capsule.arguments.size() != written)
    reader.fail("capsule.json", fmt::format("it has {} arguments, {} were written",
                                            capsule.arguments.size(), written));
  if (std::ranges::none_of(capsule.arguments,
                           [](const auto &argument) { return bool(argument.expected); }))
    reader.fail("capsule.json", "no argument has expected results, so nothing could be judged");
}

/// What the launch is, without texts and arguments.
Capsule readLaunch(const Reader &reader, const CapsuleEntry &all) {
  Capsule capsule;
  capsule.kernel = all.at("kernel").text();
  capsule.label = all.at("label").text();
  capsule.target = all.at("target").text();
  capsule.chip = all.at("chip").text();
  for (const CapsuleEntry &feature : all.at("features").list())
    capsule.features.push_back(feature.text());
  capsule.madeBy = all.at("made_by").text();
  std::vector<CapsuleEntry> grid = all.at("grid").list();
  if (grid.size() != 3)
    reader.fail("capsule.json", fmt::format("grid has {} numbers, not 3", grid.size()));
  auto count = [](const CapsuleEntry &entry, uint32_t least) {
    return uint32_t(entry.number(least, INT32_MAX));
  };
  capsule.grid = {count(grid[0], 1), count(grid[1], 1), count(grid[2], 1)};
  capsule.shape.threads = count(all.at("threads"), 0);
  capsule.shape.sharedBytes = count(all.at("shared_bytes"), 0);
  capsule.shape.cluster = count(all.at("cluster"), 0);
  checkShape(reader, capsule);
  return capsule;
}

} // namespace

void writeCapsule(const Capsule &capsule, const fs::path &folder) {
  Writer writer(folder);
  json all = {{"format", formatName},
              {"kernel", capsule.kernel},
              {"label", capsule.label},
              {"target", capsule.target},
              {"chip", capsule.chip},
              {"features", capsule.features},
              {"made_by", capsule.madeBy},
              {"grid", {capsule.grid.x, capsule.grid.y, capsule.grid.z}},
              {"threads", capsule.shape.threads},
              {"shared_bytes", capsule.shape.sharedBytes},
              {"cluster", capsule.shape.cluster},
              {"headers", json::array()},
              {"parameters", capsule.arguments.size()},
              {"arguments", json::array()}};
  if (!capsule.source.text.empty())
    all["source"] = writer.file("kernel.text", bytesOf(capsule.source.text));
  if (!capsule.code.empty())
    all["code"] = writer.file("code.bin", capsule.code);
  for (const auto &[name, text] : capsule.source.headers)
    all["headers"].push_back(writer.file(name, bytesOf(text)));
  for (size_t i = 0; i < capsule.arguments.size(); ++i) {
    const CapsuleArgument &argument = capsule.arguments[i];
    json entry = {{"name", argument.name}, {"offset", 8 * i}, {"value", argument.value}};
    entry["kind"] = argument.isBuffer ? "buffer" : "number";
    if (argument.same)
      entry["same"] = *argument.same;
    else if (argument.isBuffer &&
             std::ranges::count(argument.input, unwritten) == std::ranges::ssize(argument.input))
      entry["unwritten"] = argument.input.size();
    else if (argument.isBuffer)
      entry["input"] = writer.file(fmt::format("argument{}.in", i), argument.input);
    if (!argument.parts.empty()) {
      entry["parts"] = partsJson(argument.parts);
      entry["bytes"] = argument.size;
    }
    if (argument.expected) {
      entry["expected"] = writer.file(fmt::format("argument{}.out", i), *argument.expected);
      entry["tolerance"] = argument.tolerance;
      for (auto [element, name] : elementNames)
        if (element == argument.element)
          entry["element"] = name;
    }
    all["arguments"].push_back(std::move(entry));
  }
  FileWriter file(folder / "capsule.json");
  file.write(all.dump(1) + "\n");
  file.publish();
}

Capsule readCapsule(const fs::path &folder) {
  Reader reader(folder);
  MappedFile mapped = MappedFile::open(folder / "capsule.json");
  std::string text(mapped.size(), '\0');
  mapped.read(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  const json whole = parseJson(text, (folder / "capsule.json").string());
  const CapsuleEntry all(whole, "",
                         [&](const std::string &why) { reader.fail("capsule.json", why); });
  if (all.at("format").text() != formatName)
    reader.fail("capsule.json", fmt::format("its format is not \"{}\"", formatName));
  Capsule capsule = readLaunch(reader, all);
  if (all.has("source"))
    capsule.source.text = reader.text(all.at("source"));
  for (const CapsuleEntry &header : all.at("headers").list())
    capsule.source.headers.emplace_back(header.at("file").text(), reader.text(header));
  if (all.has("code"))
    capsule.code = reader.file(all.at("code"));
  std::vector<CapsuleEntry> arguments = all.at("arguments").list();
  for (const CapsuleEntry &entry : arguments) {
    CapsuleArgument argument = readArgument(reader, entry);
    uint64_t offset = 8 * capsule.arguments.size(); // which the first capsules did not say
    if (entry.has("offset"))
      offset = entry.at("offset").number();
    checkArgument(reader, argument, offset, capsule.arguments);
    capsule.arguments.push_back(std::move(argument));
  }
  // Nor did they say how many there are.
  checkArguments(reader, capsule,
                 all.has("parameters") ? all.at("parameters").number() : arguments.size());
  capsule.shape.parameters = uint32_t(capsule.arguments.size());
  return capsule;
}

} // namespace m3c
