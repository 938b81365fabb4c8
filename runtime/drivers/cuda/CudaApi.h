// The part of the CUDA driver API that this driver calls, declared here so that the runtime builds
// on machines without CUDA. Names and layouts are those of NVIDIA's "CUDA Driver API" reference; a
// function is named as the library exports it, with its version suffix.
#pragma once

#include <cstddef>
#include <cstdint>

namespace m3c::hal::cuda {

using Result = int;
using DeviceId = int;
using DevicePtr = unsigned long long;
using Context = struct ContextHandle *;
using ModuleHandle = struct ModuleRecord *;
using Function = struct FunctionRecord *;
using StreamHandle = struct StreamRecord *;
using EventHandle = struct EventRecord *;
using GraphHandle = struct GraphRecord *;
using GraphNode = struct GraphNodeRecord *;
using GraphExec = struct GraphExecRecord *;
using MemoryHandle = unsigned long long;

// CUresult
enum : Result {
  Success = 0,
  OutOfMemory = 2,
  NoDevice = 100,
  InvalidImage = 200,
  NoBinaryForGpu = 209,
  UnsupportedPtxVersion = 222,
  NotFound = 500,
  NotReady = 600,
  PeerAccessEnabled = 704,
  IllegalAddress = 700,
  Assertion = 710,
  FirstFault = 714, // the hardware's reports of a kernel's fault: stack, instruction, alignment, …
  LastFault = 719
};

// CUdevice_attribute
enum : int {
  AttributeClockKilohertz = 13,
  AttributeMultiprocessors = 16,
  AttributeCacheBytes = 38,
  AttributeSharedBytesPerMultiprocessor = 81,
  AttributeComputeMajor = 75,
  AttributeComputeMinor = 76,
  AttributeSharedBytesPerBlock = 97, // after the kernel has opted in
  AttributeVirtualMemory = 102
};

// CUfunction_attribute
enum : int {
  FunctionMaxThreads = 0,
  FunctionSharedBytes = 1, // declared in the code
  FunctionLocalBytes = 3,
  FunctionRegisters = 4,
  FunctionMaxDynamicSharedBytes = 8,
  FunctionNonPortableCluster = 14
};

// CUjit_option
enum : int { JitErrorLog = 5, JitErrorLogBytes = 6 };

// CUlaunchAttribute
enum : int { LaunchCluster = 4, LaunchProgrammaticSerialization = 6 };
struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int programmaticSerialization;
  } value;
};

struct LaunchConfig {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  StreamHandle stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};

// CUDA_KERNEL_NODE_PARAMS_v2
struct KernelNodeParams {
  Function function;
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  void **parameters, **extra;
  void *kernel;
  Context context;
};

// CUDA_MEMCPY3D
enum : int { MemoryUnified = 4 };
struct CopySide {
  size_t xBytes, y, z, lod;
  int memoryType;
  const void *host;
  DevicePtr device;
  void *array, *reserved;
  size_t pitch, height;
};
struct CopyParams {
  CopySide from, to;
  size_t widthBytes, height, depth;
};

// CUgraphEdgeData; a programmatic edge lets the next kernel begin before the one before has ended.
enum : unsigned char { PortProgrammatic = 1, DependencyProgrammatic = 1 };
struct GraphEdge {
  unsigned char fromPort, toPort, type, reserved[5];
};

// CUDA_GRAPH_INSTANTIATE_PARAMS
enum : uint64_t { InstantiateUpload = 2 };
struct InstantiateParams {
  uint64_t flags;
  StreamHandle uploadStream;
  GraphNode failedNode;
  int result;
};

// CUmemLocation, CUmemAllocationProp, CUmemAccessDesc
enum : int { LocationDevice = 1, AllocationPinned = 1, GranularityRecommended = 1 };
struct MemoryLocation {
  int type, id;
};
struct AllocationProperties {
  int type, handleTypes;
  MemoryLocation location;
  void *win32;
  struct {
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};
enum : int { AccessReadWrite = 3 };
struct MemoryAccess {
  MemoryLocation location;
  int flags;
};

enum : unsigned { HostPortable = 1, HostMapped = 2 };
enum : unsigned { StreamNonBlocking = 1, EventTimed = 0, EventNoTiming = 2 };

// Every function that is called, once: M3C_CUDA(name, parameters).
#define M3C_CUDA_FUNCTIONS(M3C_CUDA)                                                               \
  M3C_CUDA(cuInit, (unsigned flags))                                                               \
  M3C_CUDA(cuDriverGetVersion, (int *version))                                                     \
  M3C_CUDA(cuGetErrorName, (Result result, const char **name))                                     \
  M3C_CUDA(cuGetErrorString, (Result result, const char **text))                                   \
  M3C_CUDA(cuDeviceGetCount, (int *count))                                                         \
  M3C_CUDA(cuDeviceGet, (DeviceId * device, int ordinal))                                          \
  M3C_CUDA(cuDeviceGetName, (char *name, int length, DeviceId device))                             \
  M3C_CUDA(cuDeviceGetAttribute, (int *value, int attribute, DeviceId device))                     \
  M3C_CUDA(cuDeviceTotalMem_v2, (size_t *bytes, DeviceId device))                                  \
  M3C_CUDA(cuDeviceCanAccessPeer, (int *can, DeviceId device, DeviceId peer))                      \
  M3C_CUDA(cuDevicePrimaryCtxRetain, (Context * context, DeviceId device))                         \
  M3C_CUDA(cuDevicePrimaryCtxRelease_v2, (DeviceId device))                                        \
  M3C_CUDA(cuCtxSetCurrent, (Context context))                                                     \
  M3C_CUDA(cuCtxEnablePeerAccess, (Context other, unsigned flags))                                 \
  M3C_CUDA(cuMemGetInfo_v2, (size_t *free, size_t *total))                                         \
  M3C_CUDA(cuMemAlloc_v2, (DevicePtr * address, size_t bytes))                                     \
  M3C_CUDA(cuMemFree_v2, (DevicePtr address))                                                      \
  M3C_CUDA(cuMemHostAlloc, (void **address, size_t bytes, unsigned flags))                         \
  M3C_CUDA(cuMemFreeHost, (void *address))                                                         \
  M3C_CUDA(cuMemHostGetDevicePointer_v2, (DevicePtr * address, void *host, unsigned flags))        \
  M3C_CUDA(cuMemGetAllocationGranularity,                                                          \
           (size_t *bytes, const AllocationProperties *properties, int option))                    \
  M3C_CUDA(cuMemAddressReserve, (DevicePtr * address, size_t bytes, size_t alignment,              \
                                 DevicePtr fixed, unsigned long long flags))                       \
  M3C_CUDA(cuMemAddressFree, (DevicePtr address, size_t bytes))                                    \
  M3C_CUDA(cuMemCreate, (MemoryHandle * memory, size_t bytes,                                      \
                         const AllocationProperties *properties, unsigned long long flags))        \
  M3C_CUDA(cuMemRelease, (MemoryHandle memory))                                                    \
  M3C_CUDA(cuMemMap, (DevicePtr address, size_t bytes, size_t offset, MemoryHandle memory,         \
                      unsigned long long flags))                                                   \
  M3C_CUDA(cuMemUnmap, (DevicePtr address, size_t bytes))                                          \
  M3C_CUDA(cuMemSetAccess,                                                                         \
           (DevicePtr address, size_t bytes, const MemoryAccess *access, size_t count))            \
  M3C_CUDA(cuMemcpyAsync, (DevicePtr to, DevicePtr from, size_t bytes, StreamHandle stream))       \
  M3C_CUDA(cuMemcpyHtoDAsync_v2,                                                                   \
           (DevicePtr to, const void *from, size_t bytes, StreamHandle stream))                    \
  M3C_CUDA(cuMemcpyDtoHAsync_v2, (void *to, DevicePtr from, size_t bytes, StreamHandle stream))    \
  M3C_CUDA(cuMemsetD8Async,                                                                        \
           (DevicePtr to, unsigned char value, size_t bytes, StreamHandle stream))                 \
  M3C_CUDA(cuModuleLoadDataEx, (ModuleHandle * module, const void *image, unsigned count,          \
                                int *options, void **values))                                      \
  M3C_CUDA(cuModuleUnload, (ModuleHandle module))                                                  \
  M3C_CUDA(cuModuleGetFunction, (Function * function, ModuleHandle module, const char *name))      \
  M3C_CUDA(cuFuncGetAttribute, (int *value, int attribute, Function function))                     \
  M3C_CUDA(cuFuncSetAttribute, (Function function, int attribute, int value))                      \
  M3C_CUDA(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                            \
           (int *blocks, Function function, int threads, size_t sharedBytes))                      \
  M3C_CUDA(cuLaunchKernelEx,                                                                       \
           (const LaunchConfig *config, Function function, void **parameters, void **extra))       \
  M3C_CUDA(cuStreamCreate, (StreamHandle * stream, unsigned flags))                                \
  M3C_CUDA(cuStreamDestroy_v2, (StreamHandle stream))                                              \
  M3C_CUDA(cuStreamSynchronize, (StreamHandle stream))                                             \
  M3C_CUDA(cuStreamWaitEvent, (StreamHandle stream, EventHandle event, unsigned flags))            \
  M3C_CUDA(cuEventCreate, (EventHandle * event, unsigned flags))                                   \
  M3C_CUDA(cuEventDestroy_v2, (EventHandle event))                                                 \
  M3C_CUDA(cuEventRecord, (EventHandle event, StreamHandle stream))                                \
  M3C_CUDA(cuEventQuery, (EventHandle event))                                                      \
  M3C_CUDA(cuEventSynchronize, (EventHandle event))                                                \
  M3C_CUDA(cuEventElapsedTime, (float *milliseconds, EventHandle begin, EventHandle end))          \
  M3C_CUDA(cuGraphCreate, (GraphHandle * graph, unsigned flags))                                   \
  M3C_CUDA(cuGraphDestroy, (GraphHandle graph))                                                    \
  M3C_CUDA(cuGraphAddKernelNode_v2, (GraphNode * node, GraphHandle graph, const GraphNode *after,  \
                                     size_t count, const KernelNodeParams *params))                \
  M3C_CUDA(cuGraphKernelNodeSetAttribute, (GraphNode node, int attribute, const void *value))      \
  M3C_CUDA(cuGraphAddMemcpyNode, (GraphNode * node, GraphHandle graph, const GraphNode *after,     \
                                  size_t count, const CopyParams *params, Context context))        \
  M3C_CUDA(cuGraphAddEventRecordNode, (GraphNode * node, GraphHandle graph,                        \
                                       const GraphNode *after, size_t count, EventHandle event))   \
  M3C_CUDA(cuGraphAddDependencies_v2, (GraphHandle graph, const GraphNode *from,                   \
                                       const GraphNode *to, const GraphEdge *edges, size_t count)) \
  M3C_CUDA(cuGraphInstantiateWithParams,                                                           \
           (GraphExec * exec, GraphHandle graph, InstantiateParams * params))                      \
  M3C_CUDA(cuGraphExecDestroy, (GraphExec exec))                                                   \
  M3C_CUDA(cuGraphLaunch, (GraphExec exec, StreamHandle stream))

/// The library's functions; bound all or not at all.
struct Table {
#define M3C_CUDA(name, parameters) Result(*name) parameters = nullptr;
  M3C_CUDA_FUNCTIONS(M3C_CUDA)
#undef M3C_CUDA
};

} // namespace m3c::hal::cuda
