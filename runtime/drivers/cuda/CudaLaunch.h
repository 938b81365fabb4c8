// One launch or copy with everything that the driver API asks for, made once and used by streams
// and graphs alike.
#pragma once

#include "runtime/drivers/cuda/CudaDevice.h"

namespace m3c::hal::cuda {

class LaunchRecord {
public:
  /// Replaces what is here. Throws Error naming `label` for a wrong number of parameters and for a
  /// grid that the device cannot run.
  void set(const CudaKernel &kernel, Grid grid, std::span<const uint64_t> parameters,
           std::string_view label);

  bool isEmpty() const { return grid.items() == 0; }
  bool overlaps() const { return shape.overlaps; }
  const std::string &label() const { return name; }
  /// "layers.0.norm (kernel norm, grid 3 x 1 x 1, 128 threads, 1024 shared bytes)".
  std::string text() const;

  /// Starts it on the stream. `alone`: it begins only when everything before has ended.
  Result launch(const CudaDevice &device, StreamHandle stream, bool alone) const;
  /// Adds it to a graph behind `before`, which may be null. `beforeIsKernel`: an overlapping launch
  /// may begin before `before` has ended. Throws Error naming the launch.
  GraphNode add(const CudaDevice &device, GraphHandle graph, GraphNode before,
                bool beforeIsKernel) const;

private:
  Function function = nullptr;
  KernelShape shape;
  std::string kernelName, name;
  Grid grid;
  std::vector<uint64_t> values;
  std::vector<void *> pointers; ///< to the values, as the driver takes them
};

struct CopyRecord {
  DevicePtr to = 0, from = 0;
  uint64_t bytes = 0;
  std::string label;
};

/// Throws Error naming `label` when a range does not lie within its buffer.
CopyRecord copyRecord(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset,
                      uint64_t bytes, std::string_view label);

} // namespace m3c::hal::cuda
