/// driver_api.h: the entry points of the CUDA driver, as a table of function
/// pointers; private to src/backends/cuda.
///
/// The driver (libcuda) is opened when the backend is first asked for. The prototypes are those of
/// CUDA 12.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "codegen/cuda/nvrtc/library_table.h"

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

/// name, symbol, result, arguments
#define WEFT_CUDA_DRIVER_ENTRIES(X)                                                               \
  X(Init, "cuInit", DriverResult, (unsigned flags))                                               \
  X(DriverGetVersion, "cuDriverGetVersion", DriverResult, (int* version))                         \
  X(GetErrorName, "cuGetErrorName", DriverResult, (DriverResult result, const char** text))       \
  X(GetErrorString, "cuGetErrorString", DriverResult, (DriverResult result, const char** text))   \
  X(DeviceGetCount, "cuDeviceGetCount", DriverResult, (int* count))                               \
  X(DeviceGet, "cuDeviceGet", DriverResult, (int* device, int ordinal))                           \
  X(DeviceGetName, "cuDeviceGetName", DriverResult, (char* name, int bytes, int device))          \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", DriverResult,                                     \
    (int* value, int attribute, int device))                                                      \
  X(DeviceTotalMem, "cuDeviceTotalMem", DriverResult, (size_t * bytes, int device))               \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", DriverResult,                             \
    (ContextHandle * *context, int device))                                                       \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", DriverResult, (int device))             \
  X(CtxPushCurrent, "cuCtxPushCurrent", DriverResult, (ContextHandle * context))                  \
  X(CtxPopCurrent, "cuCtxPopCurrent", DriverResult, (ContextHandle * *context))                   \
  X(MemGetInfo, "cuMemGetInfo", DriverResult, (size_t * free, size_t * total))                    \
  X(MemPoolCreate, "cuMemPoolCreate", DriverResult, (PoolHandle * *pool, const PoolProps* props)) \
  X(MemPoolDestroy, "cuMemPoolDestroy", DriverResult, (PoolHandle * pool))                        \
  X(MemPoolSetAttribute, "cuMemPoolSetAttribute", DriverResult,                                   \
    (PoolHandle * pool, int attribute, void* value))                                              \
  X(MemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", DriverResult,                               \
    (DevicePointer * pointer, size_t bytes, PoolHandle * pool, StreamHandle * stream))            \
  X(MemFreeAsync, "cuMemFreeAsync", DriverResult, (DevicePointer pointer, StreamHandle * stream)) \
  X(MemHostAlloc, "cuMemHostAlloc", DriverResult, (void** pointer, size_t bytes, unsigned flags)) \
  X(MemFreeHost, "cuMemFreeHost", DriverResult, (void* pointer))                                  \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync", DriverResult,                                           \
    (DevicePointer to, const void* from, size_t bytes, StreamHandle* stream))                     \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync", DriverResult,                                           \
    (void* to, DevicePointer from, size_t bytes, StreamHandle* stream))                           \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync", DriverResult,                                           \
    (DevicePointer to, DevicePointer from, size_t bytes, StreamHandle * stream))                  \
  X(MemsetD8Async, "cuMemsetD8Async", DriverResult,                                               \
    (DevicePointer to, unsigned char value, size_t bytes, StreamHandle* stream))                  \
  X(StreamCreate, "cuStreamCreate", DriverResult, (StreamHandle * *stream, unsigned flags))       \
  X(StreamDestroy, "cuStreamDestroy", DriverResult, (StreamHandle * stream))                      \
  X(StreamSynchronize, "cuStreamSynchronize", DriverResult, (StreamHandle * stream))              \
  X(StreamBeginCapture, "cuStreamBeginCapture", DriverResult, (StreamHandle * stream, int mode))  \
  X(StreamEndCapture, "cuStreamEndCapture", DriverResult,                                         \
    (StreamHandle * stream, GraphHandle * *graph))                                                \
  X(EventCreate, "cuEventCreate", DriverResult, (EventHandle * *event, unsigned flags))           \
  X(EventDestroy, "cuEventDestroy", DriverResult, (EventHandle * event))                          \
  X(EventRecord, "cuEventRecord", DriverResult, (EventHandle * event, StreamHandle * stream))     \
  X(EventSynchronize, "cuEventSynchronize", DriverResult, (EventHandle * event))                  \
  X(EventQuery, "cuEventQuery", DriverResult, (EventHandle * event))                              \
  X(LibraryLoadData, "cuLibraryLoadData", DriverResult,                                           \
    (LibraryHandle * *library, const void* image, int* jit_options, void** jit_values,            \
     unsigned num_jit, int* options, void** values, unsigned num_options))                        \
  X(LibraryUnload, "cuLibraryUnload", DriverResult, (LibraryHandle * library))                    \
  X(LibraryGetKernel, "cuLibraryGetKernel", DriverResult,                                         \
    (KernelHandle * *kernel, LibraryHandle * library, const char* name))                          \
  X(KernelSetAttribute, "cuKernelSetAttribute", DriverResult,                                     \
    (int attribute, int value, KernelHandle* kernel, int device))                                 \
  X(LaunchKernel, "cuLaunchKernel", DriverResult,                                                 \
    (KernelHandle * kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,  \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle* stream,             \
     void** params, void** extra))                                                                \
  X(GraphCreate, "cuGraphCreate", DriverResult, (GraphHandle * *graph, unsigned flags))           \
  X(GraphDestroy, "cuGraphDestroy", DriverResult, (GraphHandle * graph))                          \
  X(GraphAddKernelNode, "cuGraphAddKernelNode", DriverResult,                                     \
    (GraphNodeHandle * *node, GraphHandle * graph, GraphNodeHandle* const* after,                 \
     size_t num_after, const KernelNodeParams* params))                                           \
  X(GraphAddMemcpyNode, "cuGraphAddMemcpyNode", DriverResult,                                     \
    (GraphNodeHandle * *node, GraphHandle * graph, GraphNodeHandle* const* after,                 \
     size_t num_after, const Memcpy3D* params, ContextHandle* context))                           \
  X(GraphAddMemsetNode, "cuGraphAddMemsetNode", DriverResult,                                     \
    (GraphNodeHandle * *node, GraphHandle * graph, GraphNodeHandle* const* after,                 \
     size_t num_after, const MemsetNodeParams* params, ContextHandle* context))                   \
  X(GraphAddChildGraphNode, "cuGraphAddChildGraphNode", DriverResult,                             \
    (GraphNodeHandle * *node, GraphHandle * graph, GraphNodeHandle* const* after,                 \
     size_t num_after, GraphHandle* child))                                                       \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags", DriverResult,                                \
    (GraphExecHandle * *exec, GraphHandle * graph, unsigned long long flags))                     \
  X(GraphLaunch, "cuGraphLaunch", DriverResult, (GraphExecHandle * exec, StreamHandle * stream))  \
  X(GraphExecDestroy, "cuGraphExecDestroy", DriverResult, (GraphExecHandle * exec))               \
  X(GraphExecUpdate, "cuGraphExecUpdate", DriverResult,                                           \
    (GraphExecHandle * exec, GraphHandle * graph, GraphExecUpdateResult * result))

struct DriverApi : LibraryTable {
  WEFT_LIBRARY_ENTRIES(WEFT_CUDA_DRIVER_ENTRIES)
};

/// Opens that file, for ever.
DriverApi OpenDriver(const std::string& file);
/// The driver of this process (libcuda.so.1, or what WEFT_LIBCUDA names), opened
/// on first use. Thread-safe.
std::shared_ptr<const DriverApi> Driver();

}  // namespace weft::cuda
