// Runs a fuzz target on kept inputs, without libFuzzer: replay FILE|FOLDER…
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace fs = std::filesystem;

static void replay(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(file)), {});
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(content.data()), content.size());
}

int main(int argc, char **argv) {
  int count = 0;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      replay(argv[i]);
      ++count;
      continue;
    }
    for (const fs::directory_entry &entry : fs::recursive_directory_iterator(argv[i]))
      if (entry.is_regular_file()) {
        replay(entry.path());
        ++count;
      }
  }
  std::printf("%d inputs replayed\n", count);
  return count == 0; // an empty corpus tests nothing
}
