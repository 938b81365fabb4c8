// `m3c extract PLAN -o DIR`: sources, code objects (one file per kernel and chip) and tables as
// files.
#include "compiler/report/PlanReport.h"
#include "passes/targets/common/Target.h"
#include "runtime/base/Error.h"
#include "runtime/base/FileWriter.h"
#include "runtime/base/OutputPlace.h"
#include "runtime/plan/List.h"
#include "tools/m3c/Commands.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

namespace m3c {
namespace {

struct ExtractOptions {
  std::string plan, folder, target;
  bool disassembly = false, json = false;
};

class Extractor {
public:
  Extractor(const plan::PlanFile &file, const ExtractOptions &options)
      : file(file), options(options), root(options.folder) {
    selectChips();
  }

  /// Whole, or nothing new stays.
  void run() {
    try {
      writeAll();
    } catch (...) {
      std::error_code ignored;
      for (auto path = made.rbegin(); path != made.rend(); ++path)
        std::filesystem::remove(*path, ignored);
      throw;
    }
  }

  const std::vector<std::string> &files() const { return written; }

private:
  void writeAll() {
    writeText("manifest.json", manifestOf(file).dump(1) + "\n");
    writeText("tables.json", tablesJson(file).dump(1) + "\n");
    for (const plan::Kernel *kernel : plan::list(file.tables().kernels()))
      writeKernel(*kernel);
    for (const plan::NamedSection *extra : plan::list(file.tables().extras()))
      write("extras/" + fileNameOf(extra->name()->str()), file.sectionBytes(extra->section()));
  }

  // Chips of the target that --target names, by target or chip name; all without it.
  void selectChips() {
    std::vector<std::string> known;
    for (const plan::Target *target : plan::list(file.tables().targets())) {
      known.push_back(target->name()->str());
      known.push_back(target->chip()->str());
      if (options.target.empty() || target->name()->str() == options.target ||
          target->chip()->str() == options.target)
        chips.insert(target->chip()->str());
    }
    if (chips.empty() && !options.target.empty())
      throw Error(fmt::format("the plan has no code for '{}'", options.target), "--target", "",
                  fmt::format("it has {}", fmt::join(known, ", ")), ExitCode::Usage);
  }

  void writeKernel(const plan::Kernel &kernel) {
    std::string name = fileNameOf(kernel.name()->str());
    for (const plan::CodeObject *object : plan::list(kernel.objects())) {
      if (!chips.contains(object->chip()->str()))
        continue;
      if (object->source_section() >= 0)
        writeSource(name, object->chip()->str(),
                    file.sectionBytes(uint32_t(object->source_section())));
      std::string stem = fmt::format("code/{}.{}", name, fileNameOf(object->chip()->str()));
      std::span<const std::byte> code = file.sectionBytes(object->section());
      write(stem + suffixes(object->chip()->str()).second, code);
      if (options.disassembly)
        writeText(stem + ".s", disassembly(name, object->chip()->str(), code));
    }
  }

  /// Chips of a target mostly have the same text of a kernel, which is then written once.
  void writeSource(const std::string &name, const std::string &chip,
                   std::span<const std::byte> text) {
    std::string suffix = suffixes(chip).first, path = "source/" + name + suffix;
    auto [place, isNew] = sources.try_emplace(path, text);
    if (isNew)
      write(path, text);
    else if (!std::ranges::equal(place->second, text))
      write(fmt::format("source/{}.{}{}", name, fileNameOf(chip), suffix), text);
  }

  static std::pair<std::string, std::string> suffixes(const std::string &chip) {
    const Target *target = findChip(chip).first;
    if (!target)
      return {".txt", ".bin"}; // of a version that knew another chip
    auto [source, object] = target->fileSuffixes();
    return {source.str(), object.str()};
  }

  static std::string disassembly(const std::string &name, const std::string &chip,
                                 std::span<const std::byte> code) {
    const Target *target = findChip(chip).first;
    if (!target)
      throw Error(fmt::format("no disassembler for the chip '{}'", chip), name,
                  "this version of m3c does not compile for it", "leave --disassembly out");
    return target->disassemble(name, code);
  }

  void writeText(const std::string &name, const std::string &text) {
    write(name, std::as_bytes(std::span(text)));
  }

  /// With those above it that are not there.
  void makeFolder(const std::filesystem::path &folder) {
    std::error_code error;
    if (std::filesystem::is_directory(folder, error))
      return;
    if (folder.has_parent_path())
      makeFolder(folder.parent_path());
    std::filesystem::create_directory(folder, error);
    if (error)
      throw Error("cannot make the folder " + folder.string(), folder.string(), error.message());
    made.push_back(folder);
  }

  void write(const std::string &name, std::span<const std::byte> bytes) {
    std::filesystem::path path = root / name;
    makeFolder(path.parent_path());
    if (!std::filesystem::exists(path))
      made.push_back(path);
    FileWriter writer(path);
    writer.write(bytes);
    writer.publish();
    written.push_back(name);
  }

  const plan::PlanFile &file;
  const ExtractOptions &options;
  std::map<std::string, std::span<const std::byte>> sources; ///< written, by path
  std::vector<std::filesystem::path> made; ///< files and folders that were not there, in order
  std::filesystem::path root;
  std::set<std::string> chips;
  std::vector<std::string> written;
};

/// Files of two plans in one folder could not be told apart.
void requireEmpty(const std::string &folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error))
    return;
  if (!std::filesystem::is_directory(folder, error))
    throw Error("cannot write into " + folder, folder, "it is no folder",
                "name a folder that is empty or does not exist");
  if (!std::filesystem::is_empty(folder, error) || error)
    throw Error(fmt::format("the folder {} has other files", folder), folder,
                error ? error.message() : "what is extracted would mix with them",
                "name a folder that is empty or does not exist");
}

int runExtract(const ExtractOptions &options) {
  requireEmpty(options.folder);
  plan::PlanFile file = plan::PlanFile::open(options.plan);
  Extractor extractor(file, options);
  extractor.run();
  if (options.json) {
    nlohmann::ordered_json out = {{"folder", options.folder}, {"files", extractor.files()}};
    fmt::print("{}\n", out.dump(1));
  } else {
    fmt::print("{} files in {}\n", extractor.files().size(), options.folder);
  }
  return 0;
}

} // namespace

std::function<int()> setUpExtract(CLI::App &app) {
  auto options = std::make_shared<ExtractOptions>();
  app.add_option("PLAN", options->plan, "plan file")->required();
  app.add_option("-o,--output", options->folder, "folder to write to; empty or new")->required();
  app.add_option("--target", options->target, "code of this target or chip only");
  app.add_flag("--disassembly", options->disassembly, "also write the machine code as text");
  app.add_flag("--json", options->json, "print JSON");
  return [options] { return runExtract(*options); };
}

} // namespace m3c
