// What tests ask of the fake libcuda, by dlsym.
#pragma once

#include <cstddef>

struct FakeCudaLaunch {
  size_t count = 0; ///< launches so far
  unsigned threads = 0, sharedBytes = 0, cluster = 1;
  bool early = false;      ///< of the last direct launch
  unsigned earlyEdges = 0; ///< of all graphs so far
};

extern "C" {
void fakeCudaReset(int version, int devices);
/// The call of `function` after the next `after` ones returns `result`, once.
void fakeCudaFail(const char *function, int result, int after);
/// Objects that were made and not destroyed.
size_t fakeCudaLive();
/// Whether mapped memory at `address` may be reached by a device; pairs of contexts that may.
bool fakeCudaReaches(unsigned long long address, int device);
size_t fakeCudaPeers();
void fakeCudaLastLaunch(FakeCudaLaunch *last);
}
