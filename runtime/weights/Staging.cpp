#include "runtime/weights/Staging.h"

#include "runtime/base/Error.h"

namespace m3c {

Staging::Staging(hal::Device &device, uint64_t bytes) : stream(device.createStream()) {
  for (Stage &stage : stages) {
    stage.memory = device.allocate(bytes, hal::MemoryKind::Host, "weights on their way");
    stage.sent = device.createEvent();
  }
}

Staging::~Staging() {
  try {
    stream->synchronize();
  } catch (const Error &) { // what went wrong is on its way up already
  }
}

std::byte *Staging::stage() {
  stages[current].sent->wait();
  return stages[current].memory->host();
}

void Staging::send(hal::Buffer &to, uint64_t offset, uint64_t bytes) {
  Stage &stage = stages[current];
  stream->copy(to, offset, *stage.memory, 0, bytes);
  stream->record(*stage.sent);
  current = (current + 1) % stages.size();
}

void Staging::finish() { stream->synchronize(); }

} // namespace m3c
