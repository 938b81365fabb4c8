// What this GPU does at best, by kernels that do nothing else.
#include "runtime/drivers/cuda/CudaDevice.h"
#include "runtime/drivers/cuda/LimitKernels.h"

#include <algorithm>

namespace m3c::hal::cuda {

namespace {

constexpr uint64_t readBytes = 4ull << 30; // far more than any level of cache
constexpr uint32_t readBlocks = 8;         // of each multiprocessor: as many as run at once
constexpr uint32_t fmaBlocks = 8;

class Measurement {
public:
  explicit Measurement(CudaDevice &device) : device(device), stream(device.createStream()) {
    sink = device.allocate(64, MemoryKind::Device, "measuring");
  }

  DeviceLimits run() {
    DeviceLimits limits;
    std::unique_ptr<Module> general = load(generalLimitText());
    limits.readBytesPerSecond = read(*general);
    limits.arithmetic.push_back({"fma_f32", fma(*general)});
    if (device.info().supports("sm_90a")) {
      std::unique_ptr<Module> matrix = load(matrixLimitText());
      limits.arithmetic.push_back({"wgmma_bf16", products(*matrix)});
    }
    return limits;
  }

private:
  std::unique_ptr<Module> load(const std::string &text) {
    return device.load(std::as_bytes(std::span(text)), "limits");
  }

  double read(Module &module) {
    uint32_t blocks = readBlocks * device.info().workers;
    uint64_t step = 16ull * loadsPerIteration * limitThreads * blocks;
    uint64_t bytes = std::min(readBytes, device.availableBytes() / 2);
    uint64_t iterations = std::max<uint64_t>(1, bytes / step);
    std::unique_ptr<Buffer> data =
        device.allocate(iterations * step, MemoryKind::Device, "measuring");
    stream->fill(*data, 0, data->size(), 0x5a);
    std::unique_ptr<Kernel> kernel = module.kernel("read_all", {3, 0, limitThreads});
    return double(data->size()) /
           seconds(*kernel, blocks, {data->address(), iterations, sink->address()});
  }

  double fma(Module &module) {
    constexpr uint64_t iterations = 4000; // some milliseconds
    uint32_t blocks = fmaBlocks * device.info().workers;
    std::unique_ptr<Kernel> kernel = module.kernel("fma_f32", {2, 0, limitThreads});
    double operations = 2.0 * fmaPerIteration * iterations * blocks * limitThreads;
    return operations / seconds(*kernel, blocks, {iterations, sink->address()});
  }

  double products(Module &module) {
    constexpr uint64_t iterations = 4000;
    uint32_t blocks = device.info().workers;
    std::unique_ptr<Kernel> kernel =
        module.kernel("matrix_bf16", {2, matrixSharedBytes, limitThreads});
    double operations = 2.0 * double(matrixPerIteration) * iterations * blocks;
    return operations / seconds(*kernel, blocks, {iterations, sink->address()});
  }

  /// Median over launches one after the other, the first ones left out: clocks rise and settle.
  double seconds(const Kernel &kernel, uint32_t blocks, std::vector<uint64_t> parameters) {
    constexpr size_t launches = 30, warmUp = 9;
    std::unique_ptr<Graph> graph = device.createGraph();
    for (size_t i = 0; i < launches; ++i)
      graph->launch(kernel, {blocks, 1, 1}, parameters, kernel.name());
    graph->instantiate();
    std::vector<double> times(launches);
    stream->replayTimed(*graph, times);
    std::sort(times.begin() + warmUp, times.end());
    return times[warmUp + (launches - warmUp) / 2];
  }

  CudaDevice &device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Buffer> sink;
};

} // namespace

DeviceLimits measureCudaLimits(CudaDevice &device) { return Measurement(device).run(); }

} // namespace m3c::hal::cuda
