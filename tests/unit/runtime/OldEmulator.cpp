// A library that is the emulator by name, of another version of the interface.
#include "runtime/drivers/emulator/EmulatorApi.h"

extern "C" const m3c::hal::emulator::Api *m3EmulatorApi() {
  static m3c::hal::emulator::Api api;
  api.version = 1;
  return &api;
}
