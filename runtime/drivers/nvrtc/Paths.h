// Where the parts of NVIDIA's toolchain may be on this machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace m3c::nvrtc {

/// Folders of Python packages, most specific first: those of $VIRTUAL_ENV and $CONDA_PREFIX, of a
/// .venv in the working folder or in one above this program, and of every python3 on PATH.
std::vector<std::filesystem::path> pythonPackageFolders();

/// Toolkits: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda and /usr/local/cuda-*, newest first.
std::vector<std::filesystem::path> cudaToolkitFolders();

/// Files named `prefix`* in `folder`, in descending order of name; empty when there is no folder.
std::vector<std::filesystem::path> filesStarting(const std::filesystem::path &folder,
                                                 const std::string &prefix);

} // namespace m3c::nvrtc
