#include "compiler/toolchains/ClangRun.h"

#include "runtime/base/Error.h"

#include "clang/Basic/DiagnosticOptions.h"
#include "clang/Basic/FileManager.h"
#include "clang/Basic/SourceManager.h"
#include "clang/Basic/Version.h"
#include "clang/CodeGen/CodeGenAction.h"
#include "clang/Driver/Driver.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/VirtualFileSystem.h"

#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <mutex>

namespace m3c::toolchains {

namespace {

// Keeps the first error with the line it is about.
class ErrorCollector final : public clang::DiagnosticConsumer {
public:
  void HandleDiagnostic(clang::DiagnosticsEngine::Level level,
                        const clang::Diagnostic &info) override {
    DiagnosticConsumer::HandleDiagnostic(level, info);
    if (level < clang::DiagnosticsEngine::Error || !message.empty())
      return;
    llvm::SmallString<256> text;
    info.FormatDiagnostic(text);
    message = text.str();
    if (!info.hasSourceManager() || info.getLocation().isInvalid())
      return;
    const clang::SourceManager &sources = info.getSourceManager();
    clang::PresumedLoc loc = sources.getPresumedLoc(info.getLocation());
    std::string file = loc.getFilename();
    if (file.starts_with(virtualRoot))
      file = file.substr(std::char_traits<char>::length(virtualRoot) + 1);
    where = fmt::format("{}:{}:{}", file, loc.getLine(), loc.getColumn());
    line = sourceLine(sources, info.getLocation());
  }

  std::string message, where, line;

private:
  static std::string sourceLine(const clang::SourceManager &sources, clang::SourceLocation loc) {
    auto [file, offset] = sources.getDecomposedExpansionLoc(loc);
    llvm::StringRef text = sources.getBufferData(file);
    size_t begin = text.rfind('\n', offset);
    begin = begin == llvm::StringRef::npos ? 0 : begin + 1;
    return text.slice(begin, text.find('\n', offset)).trim().str();
  }
};

llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem>
sourceFileSystem(const std::string &file, const std::string &source, const HeaderMap &headers) {
  auto memory = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  auto add = [&](const std::string &path, const std::string &text) {
    memory->addFile(fmt::format("{}/{}", virtualRoot, path), 0,
                    llvm::MemoryBuffer::getMemBuffer(text, path));
  };
  add(file, source);
  for (const auto &[path, text] : headers)
    add(path, text);
  auto overlay =
      llvm::makeIntrusiveRefCnt<llvm::vfs::OverlayFileSystem>(llvm::vfs::getRealFileSystem());
  overlay->pushOverlay(memory);
  return overlay;
}

[[noreturn]] void failCompile(const std::string &name, const ErrorCollector &errors) {
  std::string why = errors.message.empty() ? "clang failed without a message" : errors.message;
  if (!errors.line.empty())
    why += "\n         " + errors.line;
  throw Error(fmt::format("kernel {} does not compile", name), errors.where, why,
              "inspect the text with --keep-sources; a fault in unedited text is a defect of m3c");
}

} // namespace

// The folder with clang's own headers (immintrin.h), beside the library that is loaded.
static std::string findResourceFolder() {
  Dl_info info;
  auto *inClang = reinterpret_cast<void *>(&clang::getClangFullVersion);
  if (!dladdr(inClang, &info))
    return "";
  std::error_code ignored;
  std::filesystem::path library = std::filesystem::canonical(info.dli_fname, ignored);
  std::string version = std::to_string(CLANG_VERSION_MAJOR);
  for (const auto &folder :
       {library.parent_path() / "clang" / version,
        std::filesystem::path("/usr/lib/llvm-" + version) / "lib/clang" / version})
    if (std::filesystem::exists(folder / "include/stdint.h", ignored))
      return folder;
  throw Error("clang's own headers are not installed", library.string(),
              "no include/stdint.h in the resource folder of clang " + version,
              "install libclang-common-" + version + "-dev");
}

const std::string &clangResourceFolder() {
  static const std::string folder = findResourceFolder();
  return folder;
}

std::string clangVersion() { return CLANG_VERSION_STRING; }

void initialiseBackends() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();
    llvm::InitializeAllDisassemblers();
  });
}

llvm::SmallVector<char, 0> runClang(const std::string &name, const std::string &file,
                                    const std::string &source, const HeaderMap &headers,
                                    std::vector<std::string> args,
                                    const std::function<void(llvm::PassBuilder &)> &passes) {
  initialiseBackends();
  args.push_back(fmt::format("{}/{}", virtualRoot, file));
  std::vector<const char *> argv;
  for (const std::string &arg : args)
    argv.push_back(arg.c_str());

  ErrorCollector errors;
  auto files = sourceFileSystem(file, source, headers);
  clang::DiagnosticOptions diagnosticOptions;
  auto argumentDiagnostics = clang::CompilerInstance::createDiagnostics(
      *files, diagnosticOptions, &errors, /*ShouldOwnClient=*/false);
  auto invocation = std::make_shared<clang::CompilerInvocation>();
  if (!clang::CompilerInvocation::CreateFromArgs(*invocation, argv, *argumentDiagnostics))
    failCompile(name, errors);
  if (passes)
    invocation->getCodeGenOpts().PassBuilderCallbacks.push_back(passes);

  llvm::SmallVector<char, 0> output;
  clang::CompilerInstance compiler(std::move(invocation));
  compiler.setVirtualFileSystem(files);
  compiler.createDiagnostics(&errors, /*ShouldOwnClient=*/false);
  compiler.createFileManager();
  compiler.setVerboseOutputStream(llvm::nulls()); // no "1 error generated."
  compiler.setOutputStream(std::make_unique<llvm::raw_svector_ostream>(output));
  clang::EmitObjAction action;
  if (!compiler.ExecuteAction(action) || !errors.message.empty())
    failCompile(name, errors);
  return output;
}

} // namespace m3c::toolchains
