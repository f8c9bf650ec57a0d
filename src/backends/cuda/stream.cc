/// stream.cc: a stream of a GPU, and what it has recorded: a graph made node by node, each after the one before.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cuda/device.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::cuda {
namespace {

constexpr unsigned kNonBlocking = 1;   // CUstream_flags
constexpr int kRelaxedCapture = 2;     // CUstreamCaptureMode: others may allocate meanwhile
constexpr int64_t kStaging = 4 << 20;  // larger copies go from where they are
constexpr int64_t kStagingAlign = 64;

DevicePointer At(const void* p) { return reinterpret_cast<DevicePointer>(p); }

}  // namespace

/// The graph under way, and then the one that can be launched.
class Stream::Graph final : public Recording {
 public:
  explicit Graph(std::shared_ptr<Device> device) : device_(std::move(device)) {
    device_->Use();
    device_->Check(api().GraphCreate(&graph_, 0), "cuGraphCreate");
  }
  ~Graph() override {
    if (exec_) api().GraphExecDestroy(exec_);
    if (graph_) api().GraphDestroy(graph_);
  }
  void Kernel(const Launch& l, void** params) {
    KernelNodeParams p;
    p.kernel = l.kernel;
    p.grid_x = l.grid_x;
    p.grid_y = l.grid_y;
    p.block_x = l.block;
    p.shared_bytes = l.shared_bytes;
    p.params = params;
    Add("cuGraphAddKernelNode", [&](auto* node, auto* after, size_t count) {
      return api().GraphAddKernelNode(node, graph_, after, count, &p);
    });
  }
  void CopyIn(void* device, const void* host, int64_t bytes) {
    // The graph reads it at every launch.
    contents_.push_back(device_->AllocatePinned(bytes));
    std::memcpy(contents_.back().get(), host, size_t(bytes));
    Memcpy3D m;
    m.from_type = kHostMemory;
    m.from_host = contents_.back().get();
    m.from_pitch = m.to_pitch = m.width_bytes = size_t(bytes);
    m.to_type = kDeviceMemory;
    m.to_device = At(device);
    Copy(m);
  }
  void Copy(void* to, const void* from, int64_t bytes) {
    Memcpy3D m;
    m.from_type = m.to_type = kDeviceMemory;
    m.from_device = At(from);
    m.to_device = At(to);
    m.from_pitch = m.to_pitch = m.width_bytes = size_t(bytes);
    Copy(m);
  }
  void Clear(void* device, int64_t bytes) {
    MemsetNodeParams m;
    m.to = At(device);
    m.width = size_t(bytes);
    Add("cuGraphAddMemsetNode", [&](auto* node, auto* after, size_t count) {
      return api().GraphAddMemsetNode(node, graph_, after, count, &m, nullptr);
    });
  }
  void Child(GraphHandle* child) {
    Add("cuGraphAddChildGraphNode", [&](auto* node, auto* after, size_t count) {
      return api().GraphAddChildGraphNode(node, graph_, after, count, child);
    });
  }
  void Instantiate() {
    device_->Check(api().GraphInstantiate(&exec_, graph_, 0), "cuGraphInstantiateWithFlags");
  }
  GraphExecHandle* exec() const { return exec_; }
  void Keep(std::shared_ptr<void> memory) { contents_.push_back(std::move(memory)); }

 private:
  const DriverApi& api() const { return device_->api(); }
  template <class F>
  void Add(const char* what, F&& add) {
    GraphNodeHandle* node = nullptr;
    device_->Check(add(&node, last_ ? &last_ : nullptr, size_t(last_ ? 1 : 0)), what);
    last_ = node;
  }
  void Copy(const Memcpy3D& m) {
    Add("cuGraphAddMemcpyNode", [&](auto* node, auto* after, size_t count) {
      return api().GraphAddMemcpyNode(node, graph_, after, count, &m, nullptr);
    });
  }

  std::shared_ptr<Device> device_;
  GraphHandle* graph_ = nullptr;
  GraphExecHandle* exec_ = nullptr;
  GraphNodeHandle* last_ = nullptr;
  std::vector<std::shared_ptr<void>> contents_;
};

Stream::Stream(std::shared_ptr<Device> device) : device_(std::move(device)) {
  device_->Use();
  device_->Check(device_->api().StreamCreate(&stream_, kNonBlocking), "cuStreamCreate");
}

Stream::~Stream() {
  // What is under way may still write to what its owners give back.
  const DriverApi& a = device_->api();
  a.StreamSynchronize(stream_);
  a.StreamDestroy(stream_);
}

char* Stream::Stage(int64_t bytes) {
  if (bytes > kStaging - staged_) return nullptr;
  if (!staging_) staging_ = device_->AllocatePinned(kStaging);
  char* at = static_cast<char*>(staging_.get()) + staged_;
  staged_ = CheckedRoundUp(staged_ + bytes, kStagingAlign);
  return at;
}

void Stream::CopyIn(void* device, const void* host, int64_t bytes) {
  if (graph_) return graph_->CopyIn(device, host, bytes);
  device_->Use();
  // Without a place in pinned memory the driver makes a copy before it returns.
  if (char* staged = Stage(bytes)) {
    std::memcpy(staged, host, size_t(bytes));
    host = staged;
  }
  device_->Check(device_->api().MemcpyHtoDAsync(At(device), host, size_t(bytes), stream_),
                 "cuMemcpyHtoDAsync");
}

void Stream::CopyOut(void* host, const void* device, int64_t bytes) {
  WEFT_ICHECK(!graph_, "a copy to the host cannot be recorded");
  device_->Use();
  void* to = host;
  if (char* staged = Stage(bytes)) {
    pending_.push_back({host, staged, bytes});
    to = staged;
  }
  device_->Check(device_->api().MemcpyDtoHAsync(to, At(device), size_t(bytes), stream_),
                 "cuMemcpyDtoHAsync");
}

void Stream::Copy(void* to, const void* from, int64_t bytes) {
  if (graph_) return graph_->Copy(to, from, bytes);
  device_->Use();
  device_->Check(device_->api().MemcpyDtoDAsync(At(to), At(from), size_t(bytes), stream_),
                 "cuMemcpyDtoDAsync");
}

void Stream::Clear(void* device, int64_t bytes) {
  if (graph_) return graph_->Clear(device, bytes);
  device_->Use();
  device_->Check(device_->api().MemsetD8Async(At(device), 0, size_t(bytes), stream_),
                 "cuMemsetD8Async");
}

void Stream::Wait() {
  WEFT_ICHECK(!graph_, "nobody waits while a stream is recorded");
  const std::vector<Pending> pending = std::exchange(pending_, {});
  device_->Use();
  device_->Check(device_->api().StreamSynchronize(stream_), "cuStreamSynchronize");
  staged_ = 0;
  outgrown_.clear();
  for (const Pending& p : pending) std::memcpy(p.host, p.staged, size_t(p.bytes));
}

void* Stream::Workspace(int64_t bytes) {
  if (bytes > workspace_bytes_) {
    if (workspace_) outgrown_.push_back(std::move(workspace_));
    workspace_bytes_ = 0;
    workspace_ = device_->Allocate(bytes);
    workspace_bytes_ = bytes;
  }
  if (graph_) graph_->Keep(workspace_);
  return workspace_.get();
}

void Stream::Run(const Launch& l, void** params) {
  if (graph_) return graph_->Kernel(l, params);
  device_->Use();
  device_->Check(device_->api().LaunchKernel(l.kernel, l.grid_x, l.grid_y, 1, l.block, 1, 1,
                                             l.shared_bytes, stream_, params, nullptr),
                 "cuLaunchKernel");
}

void Stream::Run(const std::function<void(StreamHandle*)>& library) {
  device_->Use();
  if (!graph_) return library(stream_);
  const DriverApi& a = device_->api();
  device_->Check(a.StreamBeginCapture(stream_, kRelaxedCapture), "cuStreamBeginCapture");
  GraphHandle* child = nullptr;
  try {
    library(stream_);
  } catch (...) {
    if (a.StreamEndCapture(stream_, &child) == 0 && child) a.GraphDestroy(child);
    throw;
  }
  device_->Check(a.StreamEndCapture(stream_, &child), "cuStreamEndCapture");
  graph_->Child(child);  // which copies it
  a.GraphDestroy(child);
}

std::unique_ptr<DeviceStream::Recording> Stream::Record(const std::function<void()>& give) {
  auto graph = std::make_unique<Graph>(device_);
  graph_ = graph.get();
  try {
    give();
  } catch (...) {
    graph_ = nullptr;
    throw;
  }
  graph_ = nullptr;
  graph->Instantiate();
  return graph;
}

void Stream::Replay(const Recording& recording) {
  device_->Use();
  device_->Check(device_->api().GraphLaunch(static_cast<const Graph&>(recording).exec(), stream_),
                 "cuGraphLaunch");
}

}  // namespace weft::cuda
