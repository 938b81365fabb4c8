// libcuda, opened and bound once for a path; every call of the driver goes through here.
#pragma once

#include "runtime/base/Error.h"
#include "runtime/drivers/cuda/CudaApi.h"

#include <memory>
#include <string>
#include <string_view>

namespace m3c::hal::cuda {

/// "CUDA 13.0" for 13000.
std::string versionText(int version);

class Library {
public:
  /// Opens `path`, binds the table and initialises the driver. Throws Error when there is no such
  /// library, when it is too old, and when the driver refuses to start.
  static std::shared_ptr<const Library> open(const std::string &path);
  ~Library();
  Library(const Library &) = delete;
  Library &operator=(const Library &) = delete;

  const Table &call() const { return table; }
  int version() const { return apiVersion; } ///< 1000·major + 10·minor
  /// "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)".
  std::string text(Result result) const;
  /// What to do about an error that stays until the process ends, because a kernel faulted in it;
  /// empty for other errors.
  static std::string remedy(Result result);
  /// Throws Error naming the call, what it was for and the driver's error, unless it succeeded.
  void check(Result result, const char *function, std::string_view what) const;

private:
  explicit Library(const std::string &path);
  void bind(const std::string &path);
  void start();

  void *handle = nullptr;
  Table table;
  int apiVersion = 0;
};

} // namespace m3c::hal::cuda
