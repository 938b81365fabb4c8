#include "runtime/drivers/cuda/CudaBuild.h"

#include "runtime/base/ContentCache.h"
#include "runtime/base/Error.h"
#include "runtime/drivers/nvrtc/Program.h"

#include <fmt/format.h>

namespace m3c::hal::cuda {

namespace {

const nvrtc::Library &libraryFor(const std::string &architecture, const std::string &name) {
  try {
    return nvrtc::libraryFor(architecture, fmt::format("kernel {} ({})", name, architecture));
  } catch (const Error &error) {
    throw Error(error.summary(), error.where(), error.why(),
                error.next() + ", or compile the plan for this chip where m3c is installed");
  }
}

CacheKey keyOf(const SourceText &source, const std::string &architecture,
               const nvrtc::Library &library) {
  CacheKey key("built");
  key.add("text", source.text).add("architecture", architecture);
  for (const auto &[name, text] : source.headers)
    key.add("header " + name, text);
  for (const std::string &option : source.options)
    key.add("option", option);
  return key.add("compiler", library.version() + " " + library.digest());
}

} // namespace

std::vector<std::byte> buildCuda(const SourceText &source, const std::string &name,
                                 const std::string &architecture) {
  const nvrtc::Library &library = libraryFor(architecture, name);
  static ContentCache cache(ContentCache::defaultFolder());
  CacheKey key = keyOf(source, architecture, library);
  if (std::optional<std::vector<std::byte>> known = cache.load(key))
    return std::move(*known);
  nvrtc::Program program(library, name, source.text, source.headers);
  std::vector<std::string> options = source.options;
  options.push_back("--gpu-architecture=" + architecture);
  if (!program.compile(options)) {
    constexpr size_t mostBytes = 4000;
    throw Error(fmt::format("kernel {} cannot be built from its source", name), library.path,
                program.log().substr(0, mostBytes),
                "compile the plan for this chip where m3c is installed");
  }
  std::vector<std::byte> code = program.code();
  cache.store(key, code);
  return code;
}

} // namespace m3c::hal::cuda
