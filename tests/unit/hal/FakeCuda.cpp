// A libcuda without a GPU: the functions of the driver's table over ordinary memory, with failures
// on request. "Modules" are texts whose .entry names are kernels of TestKernels.cpp, which run on
// the calling thread; `crash` faults the device as a bad address would: later calls report it.
//
// Built twice: with FAKE_CUDA_OLD it lacks a function, as an old driver would.
#include "tests/unit/hal/FakeCuda.h"
#include "runtime/drivers/cuda/CudaApi.h"
#include "runtime/hal/HostKernel.h"
#include "runtime/weights/MadeUp.h"

#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

using namespace m3c::hal::cuda;
namespace madeup = m3c::madeup;

extern "C" {
void add_to(void *const *, uint32_t, uint32_t, uint32_t, void *);
void write_index(void *const *, uint32_t, uint32_t, uint32_t, void *);
void use_shared(void *const *, uint32_t, uint32_t, uint32_t, void *);
void nothing(void *const *, uint32_t, uint32_t, uint32_t, void *);
void toy_insert(void *const *, uint32_t, uint32_t, uint32_t, void *);
void toy_taps(void *const *, uint32_t, uint32_t, uint32_t, void *);
void toy_logits(void *const *, uint32_t, uint32_t, uint32_t, void *);
}

namespace {

/// The driver's own kernel, a block of it.
void made_up(void *const *params, uint32_t x, uint32_t, uint32_t, void *) {
  auto at = [&](int i) { return *static_cast<const uint64_t *>(params[i]); };
  auto word = [&](int i) { return madeup::Word(at(i)); };
  madeup::Values values = {word(2), word(3), word(4), word(5), std::bit_cast<float>(word(6)),
                           at(1)};
  madeup::Placement place = {word(7), word(8), word(9), word(10), at(11), at(12), at(13), at(14)};
  for (uint64_t i = 0; i < madeup::itemsOfBlock; ++i)
    if (uint64_t item = uint64_t(x) * madeup::itemsOfBlock + i; item < at(15))
      madeup::placeItem(reinterpret_cast<unsigned char *>(at(0)), values, place, item);
}

constexpr Result invalidValue = 1, invalidContext = 201, illegalAddress = 700;
constexpr size_t memoryBytes = 1 << 30;

struct FakeFunction {
  std::string name;
  m3c::hal::HostKernelFn run; ///< null: faults
  unsigned parameters;
  int maxDynamicShared = 48 * 1024;
};

const FakeFunction kernels[] = {{"add_to", add_to, 2},
                                {"write_index", write_index, 3},
                                {"use_shared", use_shared, 1},
                                {"nothing", nothing, 0},
                                {"toy_insert", toy_insert, 7},
                                {"toy_taps", toy_taps, 9},
                                {"toy_logits", toy_logits, 11},
                                {"crash", nullptr, 1},
                                {"made_up", made_up, madeup::parameterCount}};

struct FakeModule {
  std::string text;
  std::map<std::string, FakeFunction> functions;
};
struct FakeEvent {
  std::chrono::steady_clock::time_point time;
};
struct FakeNode {
  KernelNodeParams kernel = {};
  std::vector<uint64_t> values;
  CopyParams copy = {};
  FakeEvent *event = nullptr;
  unsigned cluster = 1;
};
struct FakeGraph {
  std::vector<std::unique_ptr<FakeNode>> nodes;
  std::vector<std::pair<FakeNode *, FakeNode *>> edges;
};
struct FakeExec {
  std::vector<FakeNode> nodes;
};

struct State {
  int version = 13000, devices = 1;
  std::map<std::string, std::pair<Result, int>> failures; // result, calls that still succeed
  Result sticky = Success;                                // of a faulted device
  Context current = nullptr;
  size_t used = 0;
  std::map<DevicePtr, size_t> allocated, reserved;
  std::map<MemoryHandle, size_t> memories;
  std::set<void *> pinned, handles;
  int retained = 0;
  std::vector<LaunchConfig> launches;
  std::vector<LaunchAttribute> attributes;
  unsigned earlyEdges = 0;
  std::set<std::pair<Context, Context>> peers;      // reader, owner
  std::set<std::pair<DevicePtr, DeviceId>> allowed; // of mapped memory
} state;

Result scripted(const char *function) {
  auto found = state.failures.find(function);
  if (found == state.failures.end() || found->second.second-- > 0)
    return Success;
  Result result = found->second.first;
  state.failures.erase(found);
  return result;
}

// Of a call that needs a context.
Result enter(const char *function) {
  if (Result result = scripted(function))
    return result;
  if (!state.current)
    return invalidContext;
  return state.sticky;
}

#define ENTER(name)                                                                                \
  if (Result result = enter(#name))                                                                \
  return result
#define SCRIPTED(name)                                                                             \
  if (Result result = scripted(#name))                                                             \
  return result

template <typename T, typename Handle> Handle hand(T *object) {
  state.handles.insert(object);
  return reinterpret_cast<Handle>(object);
}
template <typename T, typename Handle> Result drop(Handle handle) {
  auto *object = reinterpret_cast<T *>(handle);
  if (state.handles.erase(object) == 0)
    return invalidValue;
  delete object;
  return Success;
}

Result runKernel(FakeFunction &function, const LaunchConfig &config, void **parameters) {
  if (int(config.sharedBytes) > function.maxDynamicShared || config.blockX > 1024 ||
      config.gridX == 0 || config.gridY == 0 || config.gridZ == 0)
    return invalidValue;
  state.launches.push_back(config);
  if (!function.run) {
    state.sticky = illegalAddress;
    return Success;
  }
  std::unique_ptr<void, void (*)(void *)> shared(
      std::aligned_alloc(64, (config.sharedBytes + 127) / 64 * 64), std::free);
  for (unsigned z = 0; z < config.gridZ; ++z)
    for (unsigned y = 0; y < config.gridY; ++y)
      for (unsigned x = 0; x < config.gridX; ++x)
        function.run(parameters, x, y, z, shared.get());
  return Success;
}

Result runNode(FakeNode &node) {
  if (node.event) {
    node.event->time = std::chrono::steady_clock::now();
  } else if (node.kernel.function) {
    std::vector<void *> pointers;
    for (uint64_t &value : node.values)
      pointers.push_back(&value);
    const KernelNodeParams &k = node.kernel;
    LaunchConfig config = {k.gridX,  k.gridY,       k.gridZ, k.blockX, k.blockY,
                           k.blockZ, k.sharedBytes, nullptr, nullptr,  0};
    return runKernel(*reinterpret_cast<FakeFunction *>(k.function), config, pointers.data());
  } else {
    std::memmove(reinterpret_cast<void *>(node.copy.to.device),
                 reinterpret_cast<void *>(node.copy.from.device), node.copy.widthBytes);
  }
  return Success;
}

Result addNode(GraphNode *node, GraphHandle graph, const GraphNode *after, size_t count,
               FakeNode content) {
  auto *to = reinterpret_cast<FakeGraph *>(graph);
  FakeNode *added = to->nodes.emplace_back(std::make_unique<FakeNode>(std::move(content))).get();
  for (size_t i = 0; i < count; ++i)
    to->edges.push_back({reinterpret_cast<FakeNode *>(after[i]), added});
  *node = reinterpret_cast<GraphNode>(added);
  return Success;
}

} // namespace

extern "C" {

// What tests ask of it.
void fakeCudaReset(int version, int devices) {
  state = State();
  state.version = version;
  state.devices = devices;
}
void fakeCudaFail(const char *function, int result, int after) {
  state.failures[function] = {result, after};
}
bool fakeCudaReaches(unsigned long long address, int device) {
  return state.allowed.contains({address, device});
}
size_t fakeCudaPeers() { return state.peers.size(); }
size_t fakeCudaLive() {
  return state.handles.size() + state.allocated.size() + state.reserved.size() +
         state.memories.size() + state.pinned.size() + size_t(state.retained);
}
void fakeCudaLastLaunch(FakeCudaLaunch *out) {
  FakeCudaLaunch last;
  last.count = state.launches.size();
  if (!state.launches.empty()) {
    last.threads = state.launches.back().blockX;
    last.sharedBytes = state.launches.back().sharedBytes;
  }
  for (const LaunchAttribute &attribute : state.attributes) {
    if (attribute.id == LaunchCluster)
      last.cluster = attribute.value.cluster.x;
    if (attribute.id == LaunchProgrammaticSerialization)
      last.early = true;
  }
  last.earlyEdges = state.earlyEdges;
  *out = last;
}

Result cuInit(unsigned) {
  SCRIPTED(cuInit);
  return state.devices ? Success : NoDevice;
}
Result cuDriverGetVersion(int *version) {
  *version = state.version;
  return Success;
}
Result cuGetErrorName(Result result, const char **name) {
  static const std::map<Result, const char *> names = {
      {invalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {NoDevice, "CUDA_ERROR_NO_DEVICE"},
      {InvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
      {invalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {NoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {NotFound, "CUDA_ERROR_NOT_FOUND"},
      {illegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}};
  auto found = names.find(result);
  *name = found == names.end() ? nullptr : found->second;
  return Success;
}
Result cuGetErrorString(Result, const char **text) {
  *text = "as the test asked";
  return Success;
}
Result cuDeviceGetCount(int *count) {
  *count = state.devices;
  return Success;
}
Result cuDeviceGet(DeviceId *device, int ordinal) {
  *device = ordinal;
  return ordinal < state.devices ? Success : invalidValue;
}
Result cuDeviceGetName(char *name, int length, DeviceId) {
  std::strncpy(name, "Fake GPU", size_t(length));
  return Success;
}
Result cuDeviceGetAttribute(int *value, int attribute, DeviceId) {
  static const std::map<int, int> values = {
      {AttributeClockKilohertz, 1980000}, {AttributeMultiprocessors, 132},
      {AttributeCacheBytes, 50 << 20},    {AttributeComputeMajor, 9},
      {AttributeComputeMinor, 0},         {AttributeSharedBytesPerBlock, 232448},
      {AttributeVirtualMemory, 1}};
  *value = values.at(attribute);
  return Success;
}
Result cuDeviceTotalMem_v2(size_t *bytes, DeviceId) {
  *bytes = memoryBytes;
  return Success;
}
Result cuDeviceCanAccessPeer(int *can, DeviceId device, DeviceId peer) {
  *can = device < 2 && peer < 2; // a third one stands alone
  return Success;
}
Result cuDevicePrimaryCtxRetain(Context *context, DeviceId device) {
  SCRIPTED(cuDevicePrimaryCtxRetain);
  if (state.sticky)
    return state.sticky; // as on an H200 with driver 580: until the process ends
  state.retained++;
  *context = reinterpret_cast<Context>(reinterpret_cast<char *>(&state) + device);
  return Success;
}
Result cuDevicePrimaryCtxRelease_v2(DeviceId) {
  state.retained--;
  return Success;
}
Result cuCtxSetCurrent(Context context) {
  state.current = context;
  return Success;
}
Result cuCtxEnablePeerAccess(Context other, unsigned) {
  ENTER(cuCtxEnablePeerAccess);
  return state.peers.insert({state.current, other}).second ? Success : PeerAccessEnabled;
}
Result cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER(cuMemGetInfo_v2);
  *free = memoryBytes - state.used;
  *total = memoryBytes;
  return Success;
}
Result cuMemAlloc_v2(DevicePtr *address, size_t bytes) {
  ENTER(cuMemAlloc_v2);
  if (bytes > memoryBytes - state.used)
    return OutOfMemory;
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xa5, bytes);
  *address = reinterpret_cast<DevicePtr>(memory);
  state.allocated[*address] = bytes;
  state.used += bytes;
  return Success;
}
Result cuMemFree_v2(DevicePtr address) {
  auto found = state.allocated.find(address);
  if (found == state.allocated.end())
    return invalidValue;
  std::free(reinterpret_cast<void *>(address));
  state.used -= found->second;
  state.allocated.erase(found);
  return Success;
}
Result cuMemHostAlloc(void **address, size_t bytes, unsigned) {
  ENTER(cuMemHostAlloc);
  *address = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  state.pinned.insert(*address);
  return Success;
}
Result cuMemFreeHost(void *address) {
  if (!state.pinned.erase(address))
    return invalidValue;
  std::free(address);
  return Success;
}
Result cuMemHostGetDevicePointer_v2(DevicePtr *address, void *host, unsigned) {
  ENTER(cuMemHostGetDevicePointer_v2);
  *address = reinterpret_cast<DevicePtr>(host);
  return Success;
}
Result cuMemGetAllocationGranularity(size_t *bytes, const AllocationProperties *, int) {
  ENTER(cuMemGetAllocationGranularity);
  *bytes = 2 << 20;
  return Success;
}
Result cuMemAddressReserve(DevicePtr *address, size_t bytes, size_t, DevicePtr,
                           unsigned long long) {
  ENTER(cuMemAddressReserve);
  if (bytes > uint64_t(1) << 39) // more than the allocator of a sanitizer has
    return OutOfMemory;
  *address = reinterpret_cast<DevicePtr>(std::aligned_alloc(4096, bytes));
  state.reserved[*address] = bytes;
  return Success;
}
Result cuMemAddressFree(DevicePtr address, size_t bytes) {
  auto found = state.reserved.find(address);
  if (found == state.reserved.end() || found->second != bytes)
    return invalidValue;
  std::free(reinterpret_cast<void *>(address));
  state.reserved.erase(found);
  return Success;
}
Result cuMemCreate(MemoryHandle *memory, size_t bytes, const AllocationProperties *properties,
                   unsigned long long) {
  ENTER(cuMemCreate);
  if (properties->type != AllocationPinned || properties->location.type != LocationDevice)
    return invalidValue;
  if (bytes > memoryBytes - state.used)
    return OutOfMemory;
  static MemoryHandle next = 1;
  state.used += bytes;
  state.memories[ *memory = next++] = bytes;
  return Success;
}
Result cuMemRelease(MemoryHandle memory) {
  auto found = state.memories.find(memory);
  if (found == state.memories.end())
    return invalidValue;
  state.used -= found->second;
  state.memories.erase(found);
  return Success;
}
Result cuMemMap(DevicePtr, size_t bytes, size_t, MemoryHandle memory, unsigned long long) {
  ENTER(cuMemMap);
  return state.memories.at(memory) == bytes ? Success : invalidValue;
}
Result cuMemUnmap(DevicePtr, size_t) { return Success; }
Result cuMemSetAccess(DevicePtr address, size_t, const MemoryAccess *access, size_t) {
  ENTER(cuMemSetAccess);
  state.allowed.insert({address, access->location.id});
  return access->flags == AccessReadWrite ? Success : invalidValue;
}
Result cuMemcpyAsync(DevicePtr to, DevicePtr from, size_t bytes, StreamHandle) {
  ENTER(cuMemcpyAsync);
  std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
  return Success;
}
Result cuMemcpyHtoDAsync_v2(DevicePtr to, const void *from, size_t bytes, StreamHandle) {
  ENTER(cuMemcpyHtoDAsync_v2);
  std::memmove(reinterpret_cast<void *>(to), from, bytes);
  return Success;
}
Result cuMemcpyDtoHAsync_v2(void *to, DevicePtr from, size_t bytes, StreamHandle) {
  ENTER(cuMemcpyDtoHAsync_v2);
  std::memmove(to, reinterpret_cast<void *>(from), bytes);
  return Success;
}
Result cuMemsetD8Async(DevicePtr to, unsigned char value, size_t bytes, StreamHandle) {
  ENTER(cuMemsetD8Async);
  std::memset(reinterpret_cast<void *>(to), value, bytes);
  return Success;
}
Result cuModuleLoadDataEx(ModuleHandle *module, const void *image, unsigned count, int *options,
                          void **values) {
  if (Result result = enter("cuModuleLoadDataEx")) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == JitErrorLog)
        std::strcpy(static_cast<char *>(values[i]), "ptxas: line 7 is wrong");
    return result;
  }
  auto loaded = std::make_unique<FakeModule>();
  loaded->text = static_cast<const char *>(image);
  for (const FakeFunction &kernel : kernels)
    if (loaded->text.find(".entry " + kernel.name + "(") != std::string::npos)
      loaded->functions[kernel.name] = kernel;
  *module = hand<FakeModule, ModuleHandle>(loaded.release());
  return Success;
}
Result cuModuleUnload(ModuleHandle module) { return drop<FakeModule>(module); }
Result cuModuleGetFunction(Function *function, ModuleHandle module, const char *name) {
  ENTER(cuModuleGetFunction);
  auto &functions = reinterpret_cast<FakeModule *>(module)->functions;
  auto found = functions.find(name);
  if (found == functions.end())
    return NotFound;
  *function = reinterpret_cast<Function>(&found->second);
  return Success;
}
Result cuFuncGetAttribute(int *value, int attribute, Function) {
  ENTER(cuFuncGetAttribute);
  static const std::map<int, int> values = {{FunctionMaxThreads, 512},
                                            {FunctionSharedBytes, 256},
                                            {FunctionLocalBytes, 0},
                                            {FunctionRegisters, 128}};
  *value = values.at(attribute);
  return Success;
}
Result cuFuncSetAttribute(Function function, int attribute, int value) {
  ENTER(cuFuncSetAttribute);
  if (attribute == FunctionMaxDynamicSharedBytes)
    reinterpret_cast<FakeFunction *>(function)->maxDynamicShared = value;
  return Success;
}
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Function, int threads, size_t) {
  ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  *blocks = threads <= 512;
  return Success;
}
Result cuLaunchKernelEx(const LaunchConfig *config, Function function, void **parameters, void **) {
  ENTER(cuLaunchKernelEx);
  state.attributes.assign(config->attributes, config->attributes + config->attributeCount);
  return runKernel(*reinterpret_cast<FakeFunction *>(function), *config, parameters);
}
Result cuStreamCreate(StreamHandle *stream, unsigned) {
  ENTER(cuStreamCreate);
  *stream = hand<int, StreamHandle>(new int(0));
  return Success;
}
Result cuStreamDestroy_v2(StreamHandle stream) { return drop<int>(stream); }
Result cuStreamSynchronize(StreamHandle) {
  ENTER(cuStreamSynchronize);
  return Success;
}
Result cuStreamWaitEvent(StreamHandle, EventHandle, unsigned) {
  ENTER(cuStreamWaitEvent);
  return Success;
}
Result cuEventCreate(EventHandle *event, unsigned) {
  ENTER(cuEventCreate);
  *event = hand<FakeEvent, EventHandle>(new FakeEvent());
  return Success;
}
Result cuEventDestroy_v2(EventHandle event) { return drop<FakeEvent>(event); }
Result cuEventRecord(EventHandle event, StreamHandle) {
  ENTER(cuEventRecord);
  reinterpret_cast<FakeEvent *>(event)->time = std::chrono::steady_clock::now();
  return Success;
}
Result cuEventQuery(EventHandle) {
  ENTER(cuEventQuery);
  return Success;
}
Result cuEventSynchronize(EventHandle) {
  ENTER(cuEventSynchronize);
  return Success;
}
Result cuEventElapsedTime(float *milliseconds, EventHandle begin, EventHandle end) {
  ENTER(cuEventElapsedTime);
  *milliseconds =
      std::chrono::duration<float, std::milli>(reinterpret_cast<FakeEvent *>(end)->time -
                                               reinterpret_cast<FakeEvent *>(begin)->time)
          .count();
  return Success;
}
Result cuGraphCreate(GraphHandle *graph, unsigned) {
  ENTER(cuGraphCreate);
  *graph = hand<FakeGraph, GraphHandle>(new FakeGraph());
  return Success;
}
Result cuGraphDestroy(GraphHandle graph) { return drop<FakeGraph>(graph); }
Result cuGraphAddKernelNode_v2(GraphNode *node, GraphHandle graph, const GraphNode *after,
                               size_t count, const KernelNodeParams *params) {
  ENTER(cuGraphAddKernelNode_v2);
  FakeNode content;
  content.kernel = *params;
  for (unsigned i = 0; i < reinterpret_cast<FakeFunction *>(params->function)->parameters; ++i)
    content.values.push_back(*static_cast<uint64_t *>(params->parameters[i]));
  return addNode(node, graph, after, count, std::move(content));
}
Result cuGraphKernelNodeSetAttribute(GraphNode node, int attribute, const void *value) {
  ENTER(cuGraphKernelNodeSetAttribute);
  if (attribute != LaunchCluster)
    return invalidValue;
  std::memcpy(&reinterpret_cast<FakeNode *>(node)->cluster, value, sizeof(unsigned));
  return Success;
}
Result cuGraphAddMemcpyNode(GraphNode *node, GraphHandle graph, const GraphNode *after,
                            size_t count, const CopyParams *params, Context) {
  ENTER(cuGraphAddMemcpyNode);
  FakeNode content;
  content.copy = *params;
  return addNode(node, graph, after, count, std::move(content));
}
Result cuGraphAddEventRecordNode(GraphNode *node, GraphHandle graph, const GraphNode *after,
                                 size_t count, EventHandle event) {
  ENTER(cuGraphAddEventRecordNode);
  FakeNode content;
  content.event = reinterpret_cast<FakeEvent *>(event);
  return addNode(node, graph, after, count, std::move(content));
}
#ifndef FAKE_CUDA_OLD
Result cuGraphAddDependencies_v2(GraphHandle graph, const GraphNode *from, const GraphNode *to,
                                 const GraphEdge *edges, size_t count) {
  ENTER(cuGraphAddDependencies_v2);
  for (size_t i = 0; i < count; ++i) {
    state.earlyEdges += edges[i].type == DependencyProgrammatic;
    reinterpret_cast<FakeGraph *>(graph)->edges.push_back(
        {reinterpret_cast<FakeNode *>(from[i]), reinterpret_cast<FakeNode *>(to[i])});
  }
  return Success;
}
#endif
Result cuGraphInstantiateWithParams(GraphExec *exec, GraphHandle graph, InstantiateParams *params) {
  auto &given = *reinterpret_cast<FakeGraph *>(graph);
  if (Result result = enter("cuGraphInstantiateWithParams")) {
    if (!given.nodes.empty())
      params->failedNode = reinterpret_cast<GraphNode>(given.nodes.front().get());
    return result;
  }
  // One chain: every node but the first depends on the one before it.
  if (!given.nodes.empty() && given.edges.size() != given.nodes.size() - 1)
    return invalidValue;
  auto made = std::make_unique<FakeExec>();
  for (size_t i = 0; i < given.nodes.size(); ++i) {
    if (i > 0 && given.edges[i - 1] != std::pair(given.nodes[i - 1].get(), given.nodes[i].get()))
      return invalidValue;
    made->nodes.push_back(*given.nodes[i]);
  }
  *exec = hand<FakeExec, GraphExec>(made.release());
  return Success;
}
Result cuGraphExecDestroy(GraphExec exec) { return drop<FakeExec>(exec); }
Result cuGraphLaunch(GraphExec exec, StreamHandle) {
  ENTER(cuGraphLaunch);
  for (FakeNode &node : reinterpret_cast<FakeExec *>(exec)->nodes)
    if (Result result = runNode(node))
      return result;
  return Success;
}
}
