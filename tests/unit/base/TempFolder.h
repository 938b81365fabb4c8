// A folder under the system's temporary folder, removed with what is in it.
#pragma once

#include "runtime/base/Error.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace m3c::test {

class TempFolder {
public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "m3c-test-XXXXXX").string();
    if (!::mkdtemp(name.data()))
      throw std::runtime_error("no temporary folder");
    root = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::permissions(root, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(root, ignored);
  }
  TempFolder(const TempFolder &) = delete;
  TempFolder &operator=(const TempFolder &) = delete;

  std::filesystem::path path(std::string_view name = "") const {
    return name.empty() ? root : root / name;
  }
  std::filesystem::path write(std::string_view name, std::string_view content) const {
    std::filesystem::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

private:
  std::filesystem::path root;
};

/// The message of the Error that `run` throws; a test failure and "" when it throws none.
template <typename Run> std::string errorOf(Run run) {
  try {
    run();
  } catch (const Error &error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

/// Expects `run` to throw an Error whose message has every one of `parts`.
template <typename Run> void expectError(Run run, std::initializer_list<const char *> parts) {
  std::string message = errorOf(run);
  for (const char *part : parts)
    EXPECT_NE(message.find(part), message.npos) << "\"" << part << "\" is not in:\n" << message;
}

} // namespace m3c::test
