/// failing_driver.cc: see failing_driver.h.
#include "failing_driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <string_view>
#include <utility>

namespace weft::cuda {

// What the handles of the driver are here.
struct StreamHandle {
  std::deque<std::function<void()>> queue;
  GraphHandle* capture = nullptr;
  /// Pieces of work and events. Events ask for it when the stream is gone.
  struct Progress {
    StreamHandle* stream = nullptr;
    int64_t given = 0, done = 0;
  };
  std::shared_ptr<Progress> progress = std::make_shared<Progress>();
};
struct EventHandle {
  std::shared_ptr<StreamHandle::Progress> progress;
  int64_t number = 0;
};
struct GraphHandle {
  std::vector<std::function<void()>> work;
};
struct GraphExecHandle {
  std::vector<std::function<void()>> work;
};
struct GraphNodeHandle {};
struct LibraryHandle {};
struct PoolHandle {};
struct ContextHandle {};
struct KernelHandle {
  const EmulatedEntry* entry;
};

}  // namespace weft::cuda

namespace weft::e2e {
namespace {

using namespace weft::cuda;
using Work = std::function<void()>;

FailingDriver& D() { return FailingDriver::Get(); }
void Problem(const std::string& text) { D().problems.push_back(text); }

ContextHandle device_context, callers_context;
/// The last one is current.
thread_local std::vector<ContextHandle*> current_contexts;

/// The result of a call, 0 unless it is to fail.
int Called(const char* name) {
  FailingDriver& d = D();
  const std::string_view entry = name;
  const bool needs_none = entry == "Init" || entry.substr(0, 3) == "Ctx" ||
                          entry.substr(0, 6) == "Device" || entry.substr(0, 6) == "Driver";
  // A device that has failed for ever makes none current either.
  const bool is_current = !current_contexts.empty() && current_contexts.back() == &device_context;
  if (!needs_none && !is_current && d.failure.entry != "*") {
    Problem(std::string(entry) + ": the device's context is not current on this thread");
    return 201;
  }
  const int64_t number = d.calls[name]++;
  if (d.failure.entry == name && d.failure.call == number && d.failure.result != 0) {
    if (d.failure.for_ever) d.failure.entry = "*";
    return d.failure.result;
  }
  return d.failure.entry == "*" ? d.failure.result : 0;
}
#define CALLED(name) \
  if (const int failed = Called(name)) return failed

void CheckDevice(DevicePointer p, size_t bytes, const char* what) {
  const auto& memory = D().memory;
  auto it = memory.upper_bound(p);
  if (it == memory.begin() || p + bytes > (--it)->first + uint64_t(it->second))
    Problem(std::string(what) + ": not memory of the device");
}
void* Host(DevicePointer p) { return reinterpret_cast<void*>(p); }

int Give(StreamHandle* s, Work work) {
  if (s->capture)
    s->capture->work.push_back(std::move(work));
  else
    s->queue.push_back([work = std::move(work), p = s->progress, number = ++s->progress->given] {
      work();
      p->done = number;
    });
  return 0;
}
/// Does what was given up to that number, or, where the device has failed, forgets it.
void Drain(StreamHandle* s, int64_t number, bool failed) {
  while (!s->queue.empty() && (failed || s->progress->done < number)) {
    const Work work = std::move(s->queue.front());
    s->queue.pop_front();
    if (!failed) work();
  }
  s->progress->done = std::max(s->progress->done, number);
}

bool IsPinned(const void* p, size_t bytes) {
  const auto& memory = D().pinned_memory;
  const auto at = reinterpret_cast<uint64_t>(p);
  auto it = memory.upper_bound(at);
  return it != memory.begin() && at + bytes <= (--it)->first + uint64_t(it->second);
}

Work LaunchWork(KernelHandle* kernel, EmuDim grid, EmuDim block, unsigned shared, void** params) {
  const EmulatedEntry* entry = kernel->entry;
  std::vector<uint64_t> words;
  std::vector<std::string> tables;
  for (size_t i = 0; i < entry->parameter_bytes.size(); ++i) {
    if (entry->parameter_bytes[i] == 8) {
      words.push_back(*static_cast<uint64_t*>(params[i]));
    } else {  // by value; the emulator takes its address
      tables.emplace_back(static_cast<const char*>(params[i]), entry->parameter_bytes[i]);
      words.push_back(0);
    }
  }
  return [=] {
    std::vector<uint64_t> own = words;
    std::vector<std::vector<uint64_t>> aligned;
    for (size_t i = 0, t = 0; i < own.size(); ++i) {
      if (entry->parameter_bytes[i] == 8) continue;
      aligned.emplace_back((tables[t].size() + 7) / 8);
      std::memcpy(aligned.back().data(), tables[t].data(), tables[t].size());
      own[i] = reinterpret_cast<uint64_t>(aligned.back().data());
      ++t;
    }
    D().launched.push_back(entry->name);
    const std::string problem = entry->Launch({grid, block, shared, 2}, own);
    if (!problem.empty()) Problem(entry->name + ": " + problem);
  };
}

DriverApi Table() {
  DriverApi a;
  a.Init = [](unsigned) { return Called("Init"); };
  a.DriverGetVersion = [](int* v) {
    *v = D().version;
    return Called("DriverGetVersion");
  };
  a.GetErrorName = [](DriverResult r, const char** text) {
    *text = r == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : r == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
            : r == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                       : "CUDA_ERROR";
    return 0;
  };
  a.GetErrorString = [](DriverResult r, const char** text) {
    *text = r == 2 ? "out of memory" : r == 700 ? "an illegal memory access" : "an error";
    return 0;
  };
  a.DeviceGetCount = [](int* n) {
    *n = D().devices;
    return Called("DeviceGetCount");
  };
  a.DeviceGet = [](int* device, int ordinal) {
    *device = ordinal;
    return Called("DeviceGet");
  };
  a.DeviceGetName = [](char* name, int bytes, int) {
    std::strncpy(name, "emulated", size_t(bytes));
    return Called("DeviceGetName");
  };
  a.DeviceGetAttribute = [](int* value, int which, int) {
    *value = which == 75   ? D().architecture / 10
             : which == 76 ? D().architecture % 10
             : which == 16 ? D().multiprocessors
                           : 1;
    return Called("DeviceGetAttribute");
  };
  a.DeviceTotalMem = [](size_t* bytes, int) {
    *bytes = size_t(D().memory_bytes);
    return Called("DeviceTotalMem");
  };
  a.DevicePrimaryCtxRetain = [](ContextHandle** c, int) {
    CALLED("DevicePrimaryCtxRetain");
    *c = &device_context;
    ++D().contexts;
    return 0;
  };
  a.DevicePrimaryCtxRelease = [](int) {
    --D().contexts;
    return Called("DevicePrimaryCtxRelease");
  };
  a.CtxPushCurrent = [](ContextHandle* c) {
    if (!c) Problem("no context");
    CALLED("CtxPushCurrent");
    current_contexts.push_back(c);
    return 0;
  };
  a.CtxPopCurrent = [](ContextHandle** c) {
    if (current_contexts.empty()) {
      Problem("no context to give back");
      return 201;
    }
    *c = current_contexts.back();
    current_contexts.pop_back();
    if (*c != &device_context) Problem("the caller's context is taken away");
    return Called("CtxPopCurrent");  // it may tell what went wrong before
  };
  a.MemGetInfo = [](size_t* free, size_t* total) {
    int64_t used = 0;
    for (const auto& [at, bytes] : D().memory) used += bytes;
    *total = size_t(D().memory_bytes);
    *free = size_t(D().memory_bytes - used);
    return Called("MemGetInfo");
  };
  a.MemPoolCreate = [](PoolHandle** pool, const PoolProps*) {
    CALLED("MemPoolCreate");
    *pool = new PoolHandle;
    ++D().pools;
    return 0;
  };
  a.MemPoolDestroy = [](PoolHandle* pool) {
    delete pool;
    --D().pools;
    return Called("MemPoolDestroy");
  };
  a.MemPoolSetAttribute = [](PoolHandle*, int, void*) { return Called("MemPoolSetAttribute"); };
  a.MemAllocFromPoolAsync = [](DevicePointer* p, size_t bytes, PoolHandle*, StreamHandle*) {
    CALLED("MemAllocFromPoolAsync");
    int64_t used = int64_t(bytes);
    for (const auto& [at, taken] : D().memory) used += taken;
    if (used > D().memory_bytes) return 2;
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    // What nobody wrote shows; of what is very large the pages that nobody wrote are not there.
    std::memset(memory, 0xAB, std::min(bytes, size_t{1} << 28));
    *p = reinterpret_cast<DevicePointer>(memory);
    D().memory[*p] = int64_t(bytes);
    return 0;
  };
  a.MemFreeAsync = [](DevicePointer p, StreamHandle*) {
    if (D().memory.erase(p) == 0) Problem("memory given back twice");
    std::free(Host(p));
    return Called("MemFreeAsync");
  };
  a.MemHostAlloc = [](void** p, size_t bytes, unsigned) {
    CALLED("MemHostAlloc");
    *p = std::malloc(bytes);
    ++D().pinned;
    D().pinned_memory[reinterpret_cast<uint64_t>(*p)] = int64_t(bytes);
    return 0;
  };
  a.MemFreeHost = [](void* p) {
    D().pinned_memory.erase(reinterpret_cast<uint64_t>(p));
    std::free(p);
    --D().pinned;
    return Called("MemFreeHost");
  };
  a.MemcpyHtoDAsync = [](DevicePointer to, const void* from, size_t bytes, StreamHandle* s) {
    CALLED("MemcpyHtoDAsync");
    CheckDevice(to, bytes, "MemcpyHtoDAsync");
    return Give(s, [=] {
      CheckDevice(to, bytes, "a copy from the host, when it is done");
      std::memcpy(Host(to), from, bytes);
    });
  };
  a.MemcpyDtoHAsync = [](void* to, DevicePointer from, size_t bytes, StreamHandle* s) {
    CALLED("MemcpyDtoHAsync");
    CheckDevice(from, bytes, "MemcpyDtoHAsync");
    Give(s, [=] {
      CheckDevice(from, bytes, "a copy to the host, when it is done");
      std::memcpy(to, Host(from), bytes);
    });
    if (IsPinned(to, bytes)) return 0;
    ++D().pageable;
    Drain(s, s->progress->given, false);
    return 0;
  };
  a.MemcpyDtoDAsync = [](DevicePointer to, DevicePointer from, size_t bytes, StreamHandle* s) {
    CALLED("MemcpyDtoDAsync");
    CheckDevice(to, bytes, "MemcpyDtoDAsync");
    CheckDevice(from, bytes, "MemcpyDtoDAsync");
    return Give(s, [=] { std::memcpy(Host(to), Host(from), bytes); });
  };
  a.MemsetD8Async = [](DevicePointer to, unsigned char value, size_t bytes, StreamHandle* s) {
    CALLED("MemsetD8Async");
    CheckDevice(to, bytes, "MemsetD8Async");
    return Give(s, [=] {
      CheckDevice(to, bytes, "a memset, when it is done");
      std::memset(Host(to), value, bytes);
    });
  };
  a.StreamCreate = [](StreamHandle** s, unsigned) {
    CALLED("StreamCreate");
    *s = new StreamHandle;
    (*s)->progress->stream = *s;
    ++D().streams;
    return 0;
  };
  a.StreamDestroy = [](StreamHandle* s) {
    if (!s->queue.empty()) Problem("a stream with work in it is destroyed");
    s->progress->stream = nullptr;
    s->progress->done = s->progress->given;
    delete s;
    --D().streams;
    return Called("StreamDestroy");
  };
  a.StreamSynchronize = [](StreamHandle* s) {
    const int failed = Called("StreamSynchronize");
    if (s->capture) Problem("somebody waits for a stream that is captured");
    if (failed == 0 || D().failure.for_ever) Drain(s, s->progress->given, failed != 0);
    return failed;
  };
  a.StreamBeginCapture = [](StreamHandle* s, int) {
    CALLED("StreamBeginCapture");
    s->capture = new GraphHandle;
    ++D().graphs;
    return 0;
  };
  a.StreamEndCapture = [](StreamHandle* s, GraphHandle** graph) {
    *graph = std::exchange(s->capture, nullptr);
    const int failed = Called("StreamEndCapture");
    if (failed) {  // there is none then
      delete std::exchange(*graph, nullptr);
      --D().graphs;
    }
    return failed;
  };
  a.LibraryLoadData = [](LibraryHandle** library, const void*, int*, void**, unsigned, int*, void**,
                         unsigned) {
    CALLED("LibraryLoadData");
    *library = new LibraryHandle;
    ++D().libraries;
    return 0;
  };
  a.LibraryUnload = [](LibraryHandle* library) {
    delete library;
    --D().libraries;
    return Called("LibraryUnload");
  };
  a.LibraryGetKernel = [](KernelHandle** kernel, LibraryHandle*, const char* name) {
    CALLED("LibraryGetKernel");
    static std::map<std::string, KernelHandle> handles;
    const EmulatedEntry* entry = D().kernels ? D().kernels->Find(name) : nullptr;
    const std::string& lacks = D().lacks;
    const std::string_view text = name;
    if (!entry || (!lacks.empty() && text.size() >= lacks.size() &&
                   text.substr(text.size() - lacks.size()) == lacks))
      return 500;
    handles[name].entry = entry;
    *kernel = &handles[name];
    return 0;
  };
  a.KernelSetAttribute = [](int, int, KernelHandle*, int) { return Called("KernelSetAttribute"); };
  a.LaunchKernel = [](KernelHandle* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                      StreamHandle* s, void** params, void**) {
    CALLED("LaunchKernel");
    return Give(s, LaunchWork(kernel, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared,
                              params));
  };
  a.GraphCreate = [](GraphHandle** graph, unsigned) {
    CALLED("GraphCreate");
    *graph = new GraphHandle;
    ++D().graphs;
    return 0;
  };
  a.GraphDestroy = [](GraphHandle* graph) {
    delete graph;
    --D().graphs;
    return Called("GraphDestroy");
  };
  static GraphNodeHandle node;
  static const auto add = [](GraphNodeHandle** made, GraphHandle* graph, size_t after, Work work) {
    if ((after > 0) != !graph->work.empty()) Problem("a node that does not follow the one before");
    *made = &node;
    graph->work.push_back(std::move(work));
    return 0;
  };
  a.GraphAddKernelNode = [](GraphNodeHandle** made, GraphHandle* graph, GraphNodeHandle* const*,
                            size_t after, const KernelNodeParams* p) {
    CALLED("GraphAddKernelNode");
    return add(made, graph, after,
               LaunchWork(p->kernel, {p->grid_x, p->grid_y, p->grid_z},
                          {p->block_x, p->block_y, p->block_z}, p->shared_bytes, p->params));
  };
  a.GraphAddMemcpyNode = [](GraphNodeHandle** made, GraphHandle* graph, GraphNodeHandle* const*,
                            size_t after, const Memcpy3D* m, ContextHandle* c) {
    CALLED("GraphAddMemcpyNode");
    if (!c) Problem("GraphAddMemcpyNode: no context");
    const size_t bytes = m->width_bytes;
    constexpr size_t kMostPitch = (size_t{1} << 31) - 1;
    if (std::max(m->from_pitch, m->to_pitch) > kMostPitch ||
        std::min(m->from_pitch, m->to_pitch) < bytes)
      return 1;
    D().graph_copies.push_back(int64_t(bytes));
    const void* from = m->from_type == kHostMemory ? m->from_host : Host(m->from_device);
    if (m->from_type == kDeviceMemory) CheckDevice(m->from_device, bytes, "GraphAddMemcpyNode");
    CheckDevice(m->to_device, bytes, "GraphAddMemcpyNode");
    return add(made, graph, after, [=, to = m->to_device] { std::memcpy(Host(to), from, bytes); });
  };
  a.GraphAddMemsetNode = [](GraphNodeHandle** made, GraphHandle* graph, GraphNodeHandle* const*,
                            size_t after, const MemsetNodeParams* m, ContextHandle* c) {
    CALLED("GraphAddMemsetNode");
    if (!c) Problem("GraphAddMemsetNode: no context");
    CheckDevice(m->to, m->width, "GraphAddMemsetNode");
    return add(made, graph, after,
               [p = *m] { std::memset(Host(p.to), int(p.value), p.width * p.height); });
  };
  a.GraphAddChildGraphNode = [](GraphNodeHandle** made, GraphHandle* graph, GraphNodeHandle* const*,
                                size_t after, GraphHandle* child) {
    CALLED("GraphAddChildGraphNode");
    return add(made, graph, after, [work = child->work] {
      for (const Work& w : work) w();
    });
  };
  a.GraphInstantiate = [](GraphExecHandle** exec, GraphHandle* graph, unsigned long long) {
    CALLED("GraphInstantiate");
    *exec = new GraphExecHandle{graph->work};
    ++D().graphs;
    return 0;
  };
  a.GraphLaunch = [](GraphExecHandle* exec, StreamHandle* s) {
    CALLED("GraphLaunch");
    for (const Work& w : exec->work) Give(s, w);
    return 0;
  };
  a.GraphExecDestroy = [](GraphExecHandle* exec) {
    delete exec;
    --D().graphs;
    return Called("GraphExecDestroy");
  };
  a.GraphExecUpdate = [](GraphExecHandle* exec, GraphHandle* graph, GraphExecUpdateResult* result) {
    CALLED("GraphExecUpdate");
    result->result = exec->work.size() == graph->work.size() ? 0 : 1;
    if (result->result != 0) return 910;
    exec->work = graph->work;
    return 0;
  };
  a.EventCreate = [](EventHandle** event, unsigned) {
    CALLED("EventCreate");
    *event = new EventHandle;
    ++D().events;
    return 0;
  };
  a.EventDestroy = [](EventHandle* event) {
    delete event;
    --D().events;
    return Called("EventDestroy");
  };
  a.EventRecord = [](EventHandle* event, StreamHandle* s) {
    CALLED("EventRecord");
    event->progress = s->progress;
    event->number = ++s->progress->given;
    return 0;
  };
  a.EventQuery = [](EventHandle* event) {
    CALLED("EventQuery");
    return event->progress->done >= event->number ? 0 : 600;
  };
  a.EventSynchronize = [](EventHandle* event) {
    const int failed = Called("EventSynchronize");
    StreamHandle* s = event->progress->stream;
    if (s && (failed == 0 || D().failure.for_ever)) Drain(s, event->number, failed != 0);
    return failed;
  };
  return a;
}

}  // namespace

void GiveWork(StreamHandle* stream, std::function<void()> work) { Give(stream, std::move(work)); }

void FailingDriver::BecomeCaller() { current_contexts = {&callers_context}; }
bool FailingDriver::CallerIsCurrent() {
  return current_contexts == std::vector<ContextHandle*>{&callers_context};
}

FailingDriver& FailingDriver::Get() {
  static FailingDriver driver;
  return driver;
}
void FailingDriver::Reset() {
  failure = {};
  lacks.clear();
  pageable = 0;
  graph_copies.clear();
  calls.clear();
  launched.clear();
  problems.clear();
}

std::shared_ptr<const DriverApi> FailingDriverTable() {
  static const auto table = std::make_shared<const DriverApi>(Table());
  return table;
}

}  // namespace weft::e2e
