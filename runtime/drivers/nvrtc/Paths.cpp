#include "runtime/drivers/nvrtc/Paths.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace fs = std::filesystem;

namespace m3c::nvrtc {

namespace {

// PREFIX/lib/python3.*/{site,dist}-packages.
void addPackagesOf(const fs::path &prefix, std::vector<fs::path> &folders) {
  for (const char *lib : {"lib", "lib64", "local/lib"})
    for (const fs::path &python : filesStarting(prefix / lib, "python3"))
      for (const char *packages : {"site-packages", "dist-packages"}) {
        std::error_code ignored;
        fs::path folder = fs::canonical(python / packages, ignored);
        if (!ignored && !std::ranges::count(folders, folder))
          folders.push_back(folder);
      }
}

void addVenvsAbove(fs::path folder, std::vector<fs::path> &folders) {
  for (; !folder.empty(); folder = folder.parent_path()) {
    addPackagesOf(folder / ".venv", folders);
    if (folder == folder.root_path())
      return;
  }
}

void addPathPythons(std::vector<fs::path> &folders) {
  const char *path = std::getenv("PATH");
  std::istringstream entries(path ? path : "");
  for (std::string entry; std::getline(entries, entry, ':');) {
    std::error_code ignored;
    fs::path python = fs::path(entry) / "python3";
    if (!fs::exists(python, ignored))
      continue;
    addPackagesOf(fs::path(entry).parent_path(), folders); // a virtual environment's own
    addPackagesOf(fs::canonical(python, ignored).parent_path().parent_path(), folders);
  }
}

} // namespace

std::vector<fs::path> filesStarting(const fs::path &folder, const std::string &prefix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end;
       at.increment(ignored))
    if (at->path().filename().string().starts_with(prefix))
      found.push_back(at->path());
  std::ranges::sort(found, std::greater());
  return found;
}

std::vector<fs::path> pythonPackageFolders() {
  std::vector<fs::path> folders;
  for (const char *variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char *prefix = std::getenv(variable))
      addPackagesOf(prefix, folders);
  std::error_code ignored;
  addPackagesOf(fs::current_path(ignored) / ".venv", folders);
  addVenvsAbove(fs::canonical("/proc/self/exe", ignored).parent_path(), folders);
  addPathPythons(folders);
  if (const char *home = std::getenv("HOME"))
    addPackagesOf(fs::path(home) / ".local", folders);
  return folders;
}

std::vector<fs::path> cudaToolkitFolders() {
  std::vector<fs::path> folders;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *folder = std::getenv(variable))
      folders.push_back(folder);
  folders.push_back("/usr/local/cuda");
  for (const fs::path &folder : filesStarting("/usr/local", "cuda-"))
    folders.push_back(folder);
  return folders;
}

} // namespace m3c::nvrtc
