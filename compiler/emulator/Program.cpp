#include "compiler/emulator/Program.h"

#include "compiler/emulator/CountInstructions.h"
#include "compiler/toolchains/HostCompiler.h"
#include "passes/targets/common/RegisterBudget.h"
#include "runtime/base/ContentCache.h"
#include "runtime/base/Error.h"

#include "llvm/DebugInfo/DWARF/DWARFContext.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/TargetParser/Host.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace m3c::emulator {

namespace {

constexpr const char *entryName = "m3emuEntry", *parametersName = "m3emuParameters";

/// As fast as this machine can; floating-point operations round one by one.
const toolchains::HostCompileOptions &options() {
  static const toolchains::HostCompileOptions all = [] {
    toolchains::HostCompileOptions made;
    made.isa.cpu = llvm::sys::getHostCPUName().str();
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
      made.isa.features.push_back((feature.second ? "+" : "-") + feature.first().str());
    std::sort(made.isa.features.begin(), made.isa.features.end());
    made.optimisation = 2;
    made.extra = {"-debug-info-kind=line-tables-only", "-dwarf-version=5"};
    made.passes = addInstructionCounts;
    return made;
  }();
  return all;
}

std::string fileOf(const std::string &kernel) { return kernel + ".text"; }

/// The kernel's text between what it takes for granted and its entry.
std::string wholeText(const KernelSource &source, const EmulatedTarget &target) {
  return fmt::format("#include \"{}\"\n#line 1 \"{}\"\n{}\n"
                     "extern \"C\" __attribute__((visibility(\"default\"))) void {}(const unsigned "
                     "long *values) {{\n  m3emu::call({}, values);\n}}\n"
                     "extern \"C\" __attribute__((visibility(\"default\"))) const unsigned {} = "
                     "m3emu::parametersOf({});\n",
                     target.prelude, fileOf(source.kernel), source.text, entryName, source.kernel,
                     parametersName, source.kernel);
}

toolchains::HeaderMap headersOf(const KernelSource &source, const EmulatedTarget &target) {
  toolchains::HeaderMap headers = source.headers;
  for (const auto &[name, text] : target.headers())
    headers[name] = text;
  return headers;
}

} // namespace

/// Number `place` of an attribute before the kernel's name, `__cluster_dims__(4, 1, 1)`.
static unsigned numberInText(const KernelSource &source, llvm::StringRef attribute, int place,
                             unsigned otherwise) {
  llvm::StringRef text(source.text);
  llvm::StringRef before = text.take_front(text.find(" " + source.kernel + "("));
  std::string open = (attribute + "(").str();
  size_t at = before.rfind(open);
  if (at == llvm::StringRef::npos || before.substr(at).contains('{'))
    return otherwise;
  llvm::StringRef numbers = before.substr(at + open.size()).split(')').first;
  for (; place > 0; --place)
    numbers = numbers.split(',').second;
  unsigned number = 0;
  return numbers.ltrim().consumeInteger(10, number) ? otherwise : number;
}

Program::Program(KernelSource source, const EmulatedTarget &target)
    : given(std::move(source)), target(target) {
  given.cluster = std::max(given.cluster, numberInText(given, "__cluster_dims__", 0, 1));
  given.overlaps = llvm::any_of(
      std::initializer_list<llvm::StringRef>{"awaitLaunch()", "allowLaunch()"},
      [&](llvm::StringRef call) { return llvm::StringRef(given.text).contains(call); });
  unsigned most = numberInText(given, "__launch_bounds__", 0, given.threads);
  if (given.threads > most)
    throw Error(fmt::format("kernel {} cannot be launched", given.kernel), given.kernel,
                fmt::format("its text is for work items of {} threads (__launch_bounds__), not {}",
                            most, given.threads),
                "launch it with as many threads as it was printed for");
  if (unsigned residents = numberInText(given, "__launch_bounds__", 1, 0))
    given.registers = unsigned(registersAtEntry(
        target.registers, (given.threads + target.lanes - 1) / target.lanes, residents));
}

Program::~Program() {
  if (handle)
    dlclose(handle);
  if (descriptor >= 0)
    close(descriptor);
}

std::vector<std::byte> Program::compile(ContentCache &cache, bool &compiled) const {
  std::string text = wholeText(given, target);
  toolchains::HeaderMap headers = headersOf(given, target);
  CacheKey key("emulated");
  key.add("text", text)
      .add("isa", options().isa.text())
      .add("counted", countedInstructions)
      .add("toolchain", toolchains::hostToolchainVersion());
  for (const auto &[name, header] : headers)
    key.add(name, header);
  if (std::optional<std::vector<std::byte>> known = cache.load(key)) {
    compiled = false;
    return std::move(*known);
  }
  std::vector<std::byte> made =
      toolchains::compileHostObject(given.kernel, text, headers, options());
  cache.store(key, made);
  compiled = true;
  return made;
}

bool Program::build(ContentCache &cache) {
  if (function)
    return false;
  bool compiled = false;
  object = compile(cache, compiled);
  load();
  return compiled;
}

void Program::load() {
  auto fail = [&](const std::string &why) {
    throw Error(fmt::format("the emulated kernel {} cannot be loaded", given.kernel), given.kernel,
                why, "the system must allow executable memory files (sysctl vm.memfd_noexec)");
  };
  descriptor = memfd_create(given.kernel.c_str(), MFD_CLOEXEC);
  if (descriptor < 0)
    fail(std::strerror(errno));
  for (size_t done = 0; done < object.size();) {
    ssize_t put = write(descriptor, object.data() + done, object.size() - done);
    if (put < 0)
      fail(std::strerror(errno));
    done += size_t(put);
  }
  handle = dlopen(fmt::format("/proc/self/fd/{}", descriptor).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    fail(dlerror());
  void *entry = dlsym(handle, entryName);
  auto *takes = static_cast<const unsigned *>(dlsym(handle, parametersName));
  Dl_info info;
  if (!entry || !takes || !dladdr(entry, &info))
    fail("it has no entry");
  if (*takes != given.parameters)
    throw Error(fmt::format("kernel {} cannot be launched", given.kernel), given.kernel,
                fmt::format("its text has {} parameters, {} are given", *takes, given.parameters),
                "give it as many arguments as it was printed for");
  function = reinterpret_cast<Entry>(entry);
  loadedAt = reinterpret_cast<uint64_t>(info.dli_fbase);
}

unsigned Program::lineOf(uint64_t offset) const {
  llvm::StringRef bytes(reinterpret_cast<const char *>(object.data()), object.size());
  auto file =
      llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, given.kernel));
  if (!file) {
    llvm::consumeError(file.takeError());
    return 0;
  }
  std::unique_ptr<llvm::DWARFContext> debug = llvm::DWARFContext::create(**file);
  // The call, not what comes after it; of nested inlined functions the outermost in the text.
  llvm::DIInliningInfo frames = debug->getInliningInfoForAddress(
      {offset - 1, llvm::object::SectionedAddress::UndefSection}, {});
  for (uint32_t i = frames.getNumberOfFrames(); i-- > 0;)
    if (llvm::StringRef(frames.getFrame(i).FileName).ends_with(fileOf(given.kernel)))
      return frames.getFrame(i).Line;
  return 0;
}

std::string Program::lineText(unsigned line) const {
  llvm::StringRef rest = given.text, text;
  for (unsigned i = 0; i < line; ++i)
    std::tie(text, rest) = rest.split('\n');
  return text.trim().str();
}

/// The nearest block around the line that was opened for a role.
std::string Program::roleAt(unsigned line) const {
  int depth = 0; // of blocks that end between here and the line
  for (unsigned i = line; i > 0; --i) {
    std::string text = lineText(i);
    auto [code, comment] = llvm::StringRef(text).split("//");
    for (size_t at = i == line ? 0 : code.size(); at-- > 0;) {
      depth += code[at] == '}' ? 1 : code[at] == '{' ? -1 : 0;
      if (depth >= 0)
        continue;
      depth = 0; // the line is in this block
      if (llvm::StringRef role = comment.trim(); role.consume_front("role "))
        return role.str();
    }
  }
  return "";
}

Place Program::placeOf(const void *address) const {
  Place place;
  auto at = reinterpret_cast<uint64_t>(address);
  if (!function || at < loadedAt || at - loadedAt > object.size() * 2)
    return place;
  place.line = lineOf(at - loadedAt);
  if (!place.line)
    return place;
  std::string text = lineText(place.line);
  auto [code, comment] = llvm::StringRef(text).split("//");
  place.text = code.trim().str();
  place.op = comment.trim().str();
  place.role = roleAt(place.line);
  return place;
}

} // namespace m3c::emulator
