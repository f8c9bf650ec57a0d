/// driver_api.h: the entry points of the CUDA driver, as a table of function
/// pointers; private to src/backends/cuda.
///
/// Nothing is linked and no header of CUDA is read: the driver (libcuda) is opened when the
/// backend is first asked for, and the prototypes are declared here, as of CUDA 12.0. Tests have
/// tables of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace weft::cuda {

using DevicePointer = unsigned long long;  // CUdeviceptr
using DriverResult = int;                  // CUresult; 0: success
struct ContextHandle;                      // CUctx_st, and so on: opaque
struct StreamHandle;
struct EventHandle;
struct LibraryHandle;
struct KernelHandle;
struct PoolHandle;
struct GraphHandle;
struct GraphNodeHandle;
struct GraphExecHandle;

/// CUDA_KERNEL_NODE_PARAMS of version 2.
struct KernelNodeParams {
  void* function = nullptr;  ///< CUfunction, or null where `kernel` is set
  unsigned grid_x = 1, grid_y = 1, grid_z = 1, block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  void** params = nullptr;
  void** extra = nullptr;
  KernelHandle* kernel = nullptr;
  ContextHandle* context = nullptr;  ///< null: the current one
};
/// CUDA_MEMSET_NODE_PARAMS.
struct MemsetNodeParams {
  DevicePointer to = 0;
  size_t pitch = 0;
  unsigned value = 0, element_bytes = 1;
  size_t width = 0, height = 1;
};
/// CUDA_MEMCPY3D.
struct Memcpy3D {
  size_t from_x = 0, from_y = 0, from_z = 0, from_lod = 0;
  unsigned from_type = 0;  ///< kHostMemory, kDeviceMemory
  const void* from_host = nullptr;
  DevicePointer from_device = 0;
  void* from_array = nullptr;
  void* reserved0 = nullptr;
  size_t from_pitch = 0, from_height = 0;
  size_t to_x = 0, to_y = 0, to_z = 0, to_lod = 0;
  unsigned to_type = 0;
  void* to_host = nullptr;
  DevicePointer to_device = 0;
  void* to_array = nullptr;
  void* reserved1 = nullptr;
  size_t to_pitch = 0, to_height = 0;
  size_t width_bytes = 0, height = 1, depth = 1;
};
constexpr unsigned kHostMemory = 1, kDeviceMemory = 2;  // CUmemorytype
/// CUmemPoolProps, 128 bytes in CUDA 12 and 13.
struct PoolProps {
  int allocation_type = 1;  ///< pinned
  int handle_types = 0;
  int location_type = 1;  ///< a device
  int location_id = 0;
  void* security = nullptr;
  size_t max_bytes = 0;
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};

/// CUgraphExecUpdateResultInfo.
struct GraphExecUpdateResult {
  int result = 0;
  GraphNodeHandle *node = nullptr, *from = nullptr;
};

/// name, symbol, arguments
#define WEFT_CUDA_DRIVER_ENTRIES(X)                                                                \
  X(Init, "cuInit", (unsigned flags))                                                              \
  X(DriverGetVersion, "cuDriverGetVersion", (int* version))                                        \
  X(GetErrorName, "cuGetErrorName", (DriverResult result, const char** text))                      \
  X(GetErrorString, "cuGetErrorString", (DriverResult result, const char** text))                  \
  X(DeviceGetCount, "cuDeviceGetCount", (int* count))                                              \
  X(DeviceGet, "cuDeviceGet", (int* device, int ordinal))                                          \
  X(DeviceGetName, "cuDeviceGetName", (char* name, int bytes, int device))                         \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))           \
  X(DeviceTotalMem, "cuDeviceTotalMem", (size_t * bytes, int device))                              \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (ContextHandle * *context, int device))    \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", (int device))                            \
  X(CtxPushCurrent, "cuCtxPushCurrent", (ContextHandle * context))                                 \
  X(CtxPopCurrent, "cuCtxPopCurrent", (ContextHandle * *context))                                  \
  X(MemGetInfo, "cuMemGetInfo", (size_t * free, size_t * total))                                   \
  X(MemPoolCreate, "cuMemPoolCreate", (PoolHandle * *pool, const PoolProps* props))                \
  X(MemPoolDestroy, "cuMemPoolDestroy", (PoolHandle * pool))                                       \
  X(MemPoolSetAttribute, "cuMemPoolSetAttribute", (PoolHandle * pool, int attribute, void* value)) \
  X(MemAllocFromPoolAsync, "cuMemAllocFromPoolAsync",                                              \
    (DevicePointer * pointer, size_t bytes, PoolHandle * pool, StreamHandle * stream))             \
  X(MemFreeAsync, "cuMemFreeAsync", (DevicePointer pointer, StreamHandle * stream))                \
  X(MemHostAlloc, "cuMemHostAlloc", (void** pointer, size_t bytes, unsigned flags))                \
  X(MemFreeHost, "cuMemFreeHost", (void* pointer))                                                 \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync",                                                          \
    (DevicePointer to, const void* from, size_t bytes, StreamHandle* stream))                      \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync",                                                          \
    (void* to, DevicePointer from, size_t bytes, StreamHandle* stream))                            \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync",                                                          \
    (DevicePointer to, DevicePointer from, size_t bytes, StreamHandle * stream))                   \
  X(MemsetD8Async, "cuMemsetD8Async",                                                              \
    (DevicePointer to, unsigned char value, size_t bytes, StreamHandle* stream))                   \
  X(StreamCreate, "cuStreamCreate", (StreamHandle * *stream, unsigned flags))                      \
  X(StreamDestroy, "cuStreamDestroy", (StreamHandle * stream))                                     \
  X(StreamSynchronize, "cuStreamSynchronize", (StreamHandle * stream))                             \
  X(StreamBeginCapture, "cuStreamBeginCapture", (StreamHandle * stream, int mode))                 \
  X(StreamEndCapture, "cuStreamEndCapture", (StreamHandle * stream, GraphHandle * *graph))         \
  X(EventCreate, "cuEventCreate", (EventHandle * *event, unsigned flags))                          \
  X(EventDestroy, "cuEventDestroy", (EventHandle * event))                                         \
  X(EventRecord, "cuEventRecord", (EventHandle * event, StreamHandle * stream))                    \
  X(EventSynchronize, "cuEventSynchronize", (EventHandle * event))                                 \
  X(EventQuery, "cuEventQuery", (EventHandle * event))                                             \
  X(LibraryLoadData, "cuLibraryLoadData",                                                          \
    (LibraryHandle * *library, const void* image, int* jit_options, void** jit_values,             \
     unsigned num_jit, int* options, void** values, unsigned num_options))                         \
  X(LibraryUnload, "cuLibraryUnload", (LibraryHandle * library))                                   \
  X(LibraryGetKernel, "cuLibraryGetKernel",                                                        \
    (KernelHandle * *kernel, LibraryHandle * library, const char* name))                           \
  X(KernelSetAttribute, "cuKernelSetAttribute",                                                    \
    (int attribute, int value, KernelHandle* kernel, int device))                                  \
  X(LaunchKernel, "cuLaunchKernel",                                                                \
    (KernelHandle * kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,   \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle* stream,              \
     void** params, void** extra))                                                                 \
  X(GraphCreate, "cuGraphCreate", (GraphHandle * *graph, unsigned flags))                          \
  X(GraphDestroy, "cuGraphDestroy", (GraphHandle * graph))                                         \
  X(GraphAddKernelNode, "cuGraphAddKernelNode",                                                    \
    (GraphNodeHandle * *node, GraphHandle * graph, GraphNodeHandle* const* after,                  \
     size_t num_after, const KernelNodeParams* params))                                            \
  X(GraphAddMemcpyNode, "cuGraphAddMemcpyNode",                                                    \
    (GraphNodeHandle * *node, GraphHandle * graph, GraphNodeHandle* const* after,                  \
     size_t num_after, const Memcpy3D* params, ContextHandle* context))                            \
  X(GraphAddMemsetNode, "cuGraphAddMemsetNode",                                                    \
    (GraphNodeHandle * *node, GraphHandle * graph, GraphNodeHandle* const* after,                  \
     size_t num_after, const MemsetNodeParams* params, ContextHandle* context))                    \
  X(GraphAddChildGraphNode, "cuGraphAddChildGraphNode",                                            \
    (GraphNodeHandle * *node, GraphHandle * graph, GraphNodeHandle* const* after,                  \
     size_t num_after, GraphHandle* child))                                                        \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags",                                               \
    (GraphExecHandle * *exec, GraphHandle * graph, unsigned long long flags))                      \
  X(GraphLaunch, "cuGraphLaunch", (GraphExecHandle * exec, StreamHandle * stream))                 \
  X(GraphExecDestroy, "cuGraphExecDestroy", (GraphExecHandle * exec))                              \
  X(GraphExecUpdate, "cuGraphExecUpdate",                                                          \
    (GraphExecHandle * exec, GraphHandle * graph, GraphExecUpdateResult * result))

struct DriverApi {
#define WEFT_ENTRY(name, symbol, arguments) DriverResult(*name) arguments = nullptr;
  WEFT_CUDA_DRIVER_ENTRIES(WEFT_ENTRY)
#undef WEFT_ENTRY
  std::string error;  ///< why there is no driver; empty: all of the above may be called

  bool ok() const { return error.empty(); }
};

/// Opens that file, for ever.
DriverApi OpenDriver(const std::string& file);
/// The driver of this process (libcuda.so.1, or what WEFT_LIBCUDA names), opened
/// on first use. Thread-safe.
std::shared_ptr<const DriverApi> Driver();

}  // namespace weft::cuda
