/// stream.cc: a stream of a GPU, and what it has recorded: a graph made node by node, each
/// after the one before.
#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <utility>

#include "device.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::cuda {
namespace {

constexpr unsigned kNonBlocking = 1;   // CUstream_flags
constexpr int kRelaxedCapture = 2;     // CUstreamCaptureMode: others may allocate meanwhile
constexpr int64_t kStaging = 4 << 20;  // larger copies go piece by piece
constexpr int kMostStaging = 64;       // pieces of a stream, whose copies wait for one another then
constexpr int64_t kStagingAlign = 64;
constexpr int64_t kContents = 16 << 10;  // of recorded copies, pinned at once
constexpr size_t kRunsRemembered = 16;   // whose pinned memory is kept for the next
constexpr int64_t kLargestNode = 1
                                 << 30;  // a graph's copy has a pitch, which must be less than 2^31
constexpr unsigned kNoTiming = 2;        // CUevent_flags
constexpr DriverResult kNotReady = 600;

DevicePointer At(const void* p) { return reinterpret_cast<DevicePointer>(p); }

}  // namespace

/// The graph under way, and then the one that can be launched.
class Stream::Graph final : public Recording {
 public:
  explicit Graph(std::shared_ptr<Device> device) : device_(std::move(device)) {
    const Device::Current current = device_->Use();
    device_->Check(api().GraphCreate(&graph_, 0), "cuGraphCreate");
  }
  ~Graph() override {
    const Device::Current current = device_->Enter();
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
    char* content = Content(bytes);
    std::memcpy(content, host, size_t(bytes));
    InPieces(bytes, [&](int64_t at, Memcpy3D m) {
      m.from_type = kHostMemory;
      m.from_host = content + at;
      m.to_type = kDeviceMemory;
      m.to_device = At(device) + DevicePointer(at);
      Copy(m);
    });
  }
  void Copy(void* to, const void* from, int64_t bytes) {
    InPieces(bytes, [&](int64_t at, Memcpy3D m) {
      m.from_type = m.to_type = kDeviceMemory;
      m.from_device = At(from) + DevicePointer(at);
      m.to_device = At(to) + DevicePointer(at);
      Copy(m);
    });
  }
  void Clear(void* device, int64_t bytes) {
    MemsetNodeParams m;
    m.to = At(device);
    m.width = size_t(bytes);
    Add("cuGraphAddMemsetNode", [&](auto* node, auto* after, size_t count) {
      return api().GraphAddMemsetNode(node, graph_, after, count, &m, device_->context());
    });
  }
  void Child(GraphHandle* child) {
    Add("cuGraphAddChildGraphNode", [&](auto* node, auto* after, size_t count) {
      return api().GraphAddChildGraphNode(node, graph_, after, count, child);
    });
  }
  /// Making one costs the driver a multiple of changing the addresses in one that there is.
  void Instantiate(Graph* earlier) {
    GraphExecUpdateResult result;
    if (earlier && api().GraphExecUpdate(earlier->exec_, graph_, &result) == 0) {
      exec_ = std::exchange(earlier->exec_, nullptr);
      return;
    }
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
  /// Pinned memory, which small contents share: to pin some takes the driver as long as many
  /// launches.
  char* Content(int64_t bytes) {
    if (bytes > contents_left_) {
      const int64_t size = std::max(bytes, kContents);
      contents_.push_back(device_->AllocatePinned(size));
      contents_at_ = static_cast<char*>(contents_.back().get());
      contents_left_ = size;
    }
    char* at = contents_at_;
    const int64_t used = std::min(CheckedRoundUp(bytes, kStagingAlign), contents_left_);
    contents_at_ += used;
    contents_left_ -= used;
    return at;
  }
  template <class F>
  static void InPieces(int64_t bytes, F&& copy) {
    for (int64_t at = 0; at < bytes; at += kLargestNode) {
      Memcpy3D m;
      m.from_pitch = m.to_pitch = m.width_bytes = size_t(std::min(bytes - at, kLargestNode));
      copy(at, m);
    }
  }
  void Copy(const Memcpy3D& m) {
    Add("cuGraphAddMemcpyNode", [&](auto* node, auto* after, size_t count) {
      return api().GraphAddMemcpyNode(node, graph_, after, count, &m, device_->context());
    });
  }

  std::shared_ptr<Device> device_;
  GraphHandle* graph_ = nullptr;
  GraphExecHandle* exec_ = nullptr;
  GraphNodeHandle* last_ = nullptr;
  std::vector<std::shared_ptr<void>> contents_;
  char* contents_at_ = nullptr;  ///< in the last of them that holds contents
  int64_t contents_left_ = 0;
};

/// A point in a stream.
class Stream::Event final : public Point {
 public:
  Event(std::shared_ptr<Device> device, StreamHandle* stream) : device_(std::move(device)) {
    const DriverApi& a = device_->api();
    const Device::Current current = device_->Use();
    device_->Check(a.EventCreate(&event_, kNoTiming), "cuEventCreate");
    try {
      device_->Check(a.EventRecord(event_, stream), "cuEventRecord");
    } catch (...) {
      a.EventDestroy(event_);
      throw;
    }
  }
  ~Event() override {
    const Device::Current current = device_->Enter();
    device_->api().EventDestroy(event_);
  }
  /// Also where the device has failed, which Wait tells.
  bool Reached() const override {
    const Device::Current current = device_->Enter();
    return !current || device_->api().EventQuery(event_) != kNotReady;
  }
  void Wait() const override {
    const Device::Current current = device_->Use();
    device_->Check(device_->api().EventSynchronize(event_), "cuEventSynchronize");
  }
  /// Why what was given before it has no results; for the stream and who waits by it.
  mutable std::exception_ptr failure;

 private:
  const std::shared_ptr<Device> device_;
  EventHandle* event_ = nullptr;
};

Stream::Stream(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const Device::Current current = device_->Use();
  device_->Check(device_->api().StreamCreate(&stream_, kNonBlocking), "cuStreamCreate");
}

Stream::~Stream() {
  // What is under way may still write to what its owners give back.
  const DriverApi& a = device_->api();
  const Device::Current current = device_->Enter();
  a.StreamSynchronize(stream_);
  a.StreamDestroy(stream_);
}

char* Stream::Stage(int64_t bytes, bool result) {
  if (now_.staging.empty() || bytes > kStaging - now_.staged) {
    if (!NextPiece(result)) return nullptr;
    now_.staged = 0;
  }
  Piece& piece = now_.staging.back();
  piece.has_results |= result;
  char* at = static_cast<char*>(piece.memory.get()) + now_.staged;
  now_.staged = CheckedRoundUp(now_.staged + bytes, kStagingAlign);
  return at;
}

bool Stream::NextPiece(bool result) {
  if (result) {
    // The stream reads what is fed before it writes what is fetched.
    const auto read = std::find_if(now_.staging.begin(), now_.staging.end(),
                                   [](const Piece& p) { return !p.has_results; });
    if (read != now_.staging.end()) {
      std::rotate(read, read + 1, now_.staging.end());
      return true;
    }
  }
  while (idle_staging_.empty() && num_staging_ >= kMostStaging && !marked_.empty()) {
    const std::shared_ptr<const Event> oldest = marked_.front().end;
    Wait(*oldest);
  }
  if (idle_staging_.empty()) {
    const bool enough = num_staging_ >= kMostStaging;
    if (enough && !result) return false;
    try {
      idle_staging_.push_back(device_->AllocatePinned(kStaging));
    } catch (const Error& e) {
      if (!enough || e.code() != ErrorCode::kOutOfMemory) throw;
      return false;
    }
    ++num_staging_;
  }
  now_.staging.push_back({std::move(idle_staging_.back())});
  idle_staging_.pop_back();
  most_staging_ = std::max(most_staging_, num_staging_ - int(idle_staging_.size()));
  return true;
}

void Stream::CopyIn(void* device, const void* host, int64_t bytes) {
  if (graph_) return graph_->CopyIn(device, host, bytes);
  const Device::Current current = device_->Use();
  const DriverApi& a = device_->api();
  for (int64_t at = 0; at < bytes;) {
    const void* from = static_cast<const char*>(host) + at;
    int64_t part = std::min(bytes - at, kStaging);
    char* staged = Stage(part, /*result=*/false);
    if (staged)
      std::memcpy(staged, from, size_t(part));
    else
      part = bytes - at;
    device_->Check(a.MemcpyHtoDAsync(At(device) + DevicePointer(at), staged ? staged : from,
                                     size_t(part), stream_),
                   "cuMemcpyHtoDAsync");
    // Memory that the device can read by itself is read when the stream comes to it.
    if (!staged) device_->Check(a.StreamSynchronize(stream_), "cuStreamSynchronize");
    at += part;
  }
}

void Stream::CopyOut(void* host, const void* device, int64_t bytes) {
  WEFT_ICHECK(!graph_, "a copy to the host cannot be recorded");
  const Device::Current current = device_->Use();
  for (int64_t at = 0; at < bytes;) {
    char* to = static_cast<char*>(host) + at;
    int64_t part = std::min(bytes - at, kStaging);
    char* staged = Stage(part, /*result=*/true);
    // Where no memory can be pinned, the driver returns when the stream has come to it.
    if (!staged) part = bytes - at;
    device_->Check(device_->api().MemcpyDtoHAsync(
                       staged ? staged : to, At(device) + DevicePointer(at), size_t(part), stream_),
                   "cuMemcpyDtoHAsync");
    if (staged) now_.pending.push_back({to, staged, part});
    at += part;
  }
}

void Stream::Copy(void* to, const void* from, int64_t bytes) {
  if (graph_) return graph_->Copy(to, from, bytes);
  const Device::Current current = device_->Use();
  device_->Check(device_->api().MemcpyDtoDAsync(At(to), At(from), size_t(bytes), stream_),
                 "cuMemcpyDtoDAsync");
}

void Stream::Clear(void* device, int64_t bytes) {
  if (graph_) return graph_->Clear(device, bytes);
  const Device::Current current = device_->Use();
  device_->Check(device_->api().MemsetD8Async(At(device), 0, size_t(bytes), stream_),
                 "cuMemsetD8Async");
}

void Stream::Wait() {
  WEFT_ICHECK(!graph_, "a stream cannot be waited for while it is recorded");
  std::deque<Batch> all = std::exchange(marked_, {});
  all.push_back(std::exchange(now_, {}));
  Settle(std::move(all), [this] {
    const Device::Current current = device_->Use();
    device_->Check(device_->api().StreamSynchronize(stream_), "cuStreamSynchronize");
  });
}

std::shared_ptr<DeviceStream::Point> Stream::Mark() {
  WEFT_ICHECK(!graph_, "a stream cannot be marked while it is recorded");
  auto end = std::make_shared<Event>(device_, stream_);
  now_.end = end;
  marked_.push_back(std::exchange(now_, {}));
  return end;
}

void Stream::Wait(const Point& point) {
  const auto before = std::find_if(marked_.begin(), marked_.end(),
                                   [&](const Batch& b) { return b.end.get() == &point; });
  if (before == marked_.end()) {  // Wait has been here
    if (const std::exception_ptr& why = static_cast<const Event&>(point).failure)
      std::rethrow_exception(why);
    return;
  }
  std::deque<Batch> given(std::make_move_iterator(marked_.begin()),
                          std::make_move_iterator(before + 1));
  marked_.erase(marked_.begin(), before + 1);
  Settle(std::move(given), [&] { point.Wait(); });
}

void Stream::Settle(std::deque<Batch> given, const std::function<void()>& wait) {
  try {
    wait();
  } catch (...) {
    for (Batch& b : given) {
      if (b.end) b.end->failure = std::current_exception();
      num_staging_ -= int(b.staging.size());
      for (Piece& p : b.staging) lost_.push_back(std::move(p.memory));
      for (std::shared_ptr<void>& p : b.outgrown) lost_.push_back(std::move(p));
    }
    throw;
  }
  for (Batch& b : given) {
    for (const Pending& p : b.pending) std::memcpy(p.host, p.staged, size_t(p.bytes));
    for (Piece& p : b.staging) idle_staging_.push_back(std::move(p.memory));
  }
}

void Stream::EndRun() {
  const int in_use = num_staging_ - int(idle_staging_.size());
  runs_staging_.push_back(std::exchange(most_staging_, in_use));
  if (runs_staging_.size() > kRunsRemembered) runs_staging_.pop_front();
  const int most = std::max(*std::max_element(runs_staging_.begin(), runs_staging_.end()), in_use);
  if (num_staging_ <= most) return;
  idle_staging_.resize(size_t(most - in_use));
  num_staging_ = most;
}

void* Stream::Workspace(int64_t bytes) {
  if (bytes > workspace_bytes_) {
    if (workspace_) now_.outgrown.push_back(std::move(workspace_));
    workspace_bytes_ = 0;
    workspace_ = device_->Allocate(bytes);
    workspace_bytes_ = bytes;
  }
  if (graph_) graph_->Keep(workspace_);
  return workspace_.get();
}

void Stream::Run(const Launch& l, void** params) {
  if (graph_) return graph_->Kernel(l, params);
  const Device::Current current = device_->Use();
  device_->Check(device_->api().LaunchKernel(l.kernel, l.grid_x, l.grid_y, 1, l.block, 1, 1,
                                             l.shared_bytes, stream_, params, nullptr),
                 "cuLaunchKernel");
}

void Stream::Run(const std::function<void(StreamHandle*)>& library) {
  const Device::Current current = device_->Use();
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
  const std::unique_ptr<GraphHandle, DriverResult (*)(GraphHandle*)> owned(child, a.GraphDestroy);
  graph_->Child(child);  // which copies it
}

std::unique_ptr<DeviceStream::Recording> Stream::Record(const std::function<void()>& give,
                                                        std::unique_ptr<Recording> earlier) {
  const Device::Current current = device_->Use();
  auto graph = std::make_unique<Graph>(device_);
  graph_ = graph.get();
  try {
    give();
  } catch (...) {
    graph_ = nullptr;
    throw;
  }
  graph_ = nullptr;
  graph->Instantiate(static_cast<Graph*>(earlier.get()));
  return graph;
}

void Stream::Replay(const Recording& recording) {
  const Device::Current current = device_->Use();
  device_->Check(device_->api().GraphLaunch(static_cast<const Graph&>(recording).exec(), stream_),
                 "cuGraphLaunch");
}

}  // namespace weft::cuda
