/// device.h: one GPU: its context, its memory, its streams. Private to src/backends/cuda.
///
/// The primary context is used, as every other user of the device in the process does. Memory comes
/// from a pool of ours that keeps what is given back. An error that the driver reports for ever
/// after (an illegal address, a failed launch) ends the device: every later call throws kDevice and
/// says what it was.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "driver_api.h"
#include "weft/runtime/backend/device.h"

namespace weft::cuda {

class Device : public std::enable_shared_from_this<Device> {
 public:
  /// Throws kUnsupported, with the reason, where there is no such device.
  static std::shared_ptr<Device> Open(int ordinal, std::shared_ptr<const DriverApi> api);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DriverApi& api() const { return *api_; }
  const std::string& name() const { return name_; }
  int architecture() const { return architecture_; }  ///< 90: sm_90
  int multiprocessors() const { return multiprocessors_; }
  int64_t parameter_bytes() const { return parameter_bytes_; }  ///< that a launch may have
  int64_t memory_bytes() const { return memory_bytes_; }
  int ordinal() const { return ordinal_; }
  ContextHandle* context() const { return context_; }

  /// The device's context is this thread's current one while it lives; then that of the caller is
  /// again, who may have one of another device, or none.
  class Current {
   public:
    explicit Current(const DriverApi* api) : api_(api) {}
    Current(Current&& o) noexcept : api_(std::exchange(o.api_, nullptr)) {}
    Current& operator=(Current&&) = delete;
    ~Current() {
      ContextHandle* ours = nullptr;
      if (api_) api_->CtxPopCurrent(&ours);
    }
    /// False where the driver has refused it.
    explicit operator bool() const { return api_ != nullptr; }

   private:
    const DriverApi* api_;
  };
  /// Throws where the device has ended.
  [[nodiscard]] Current Use() const;
  /// The same for who gives back or asks, also where the device has ended.
  [[nodiscard]] Current Enter() const noexcept {
    // What the driver tells here may be of work given before, which it tells once.
    const bool entered = api_->CtxPushCurrent(context_) == 0 || api_->CtxPushCurrent(context_) == 0;
    return Current(entered ? api_.get() : nullptr);
  }
  /// Throws kOutOfMemory or kDevice unless `r` is success. `what`: the call.
  void Check(DriverResult r, const char* what) const;
  /// 256-byte aligned, given back when the last owner goes. Throws kOutOfMemory.
  std::shared_ptr<void> Allocate(int64_t bytes);
  /// Host memory that the device reads and writes by itself.
  std::shared_ptr<void> AllocatePinned(int64_t bytes);

 private:
  Device() = default;
  std::string Text(DriverResult r) const;

  std::shared_ptr<const DriverApi> api_;
  int ordinal_ = 0, handle_ = 0, architecture_ = 0, multiprocessors_ = 0;
  int64_t memory_bytes_ = 0, parameter_bytes_ = 0;
  std::string name_;
  ContextHandle* context_ = nullptr;
  PoolHandle* pool_ = nullptr;
  StreamHandle* memory_stream_ = nullptr;  ///< of the pool; waited for at once
  mutable std::mutex mutex_;
  mutable std::string ended_;  ///< why, for ever
  mutable std::atomic<bool> has_ended_{false};
};

/// How one kernel is launched.
struct Launch {
  KernelHandle* kernel = nullptr;
  unsigned grid_x = 1, grid_y = 1, block = 1, shared_bytes = 0;
};

class Stream final : public DeviceStream {
 public:
  explicit Stream(std::shared_ptr<Device> device);
  ~Stream() override;

  void CopyIn(void* device, const void* host, int64_t bytes) override;
  void CopyOut(void* host, const void* device, int64_t bytes) override;
  void Copy(void* to, const void* from, int64_t bytes) override;
  void Clear(void* device, int64_t bytes) override;
  void Wait() override;
  std::shared_ptr<Point> Mark() override;
  void Wait(const Point& point) override;
  void EndRun() override;
  void Give(const std::function<void(void* native)>& work) override {
    Run([&](StreamHandle* stream) { work(stream); });
  }
  std::unique_ptr<Recording> Record(const std::function<void()>& give,
                                    std::unique_ptr<Recording> earlier) override;
  void Replay(const Recording& recording) override;

  /// `params`: addresses of the arguments, read before this returns.
  void Run(const Launch& launch, void** params);
  /// Work of a library that takes a stream.
  void Run(const std::function<void(StreamHandle*)>& library);
  /// Memory for what is given next, 256-byte aligned; its content is anything. What is given later
  /// may use it again.
  void* Workspace(int64_t bytes);
  Device& device() const { return *device_; }

 private:
  class Graph;
  class Event;
  struct Pending {
    void* host;
    const char* staged;
    int64_t bytes;
  };
  /// Pinned memory.
  struct Piece {
    std::shared_ptr<void> memory;
    /// else the stream is done with it when it comes to what is given next
    bool has_results = false;
  };
  /// What was given between two points.
  struct Batch {
    std::vector<Piece> staging;
    int64_t staged = 0;                           ///< bytes of the last of it
    std::vector<Pending> pending;                 ///< for the host, when the stream has come so far
    std::vector<std::shared_ptr<void>> outgrown;  ///< workspaces that it may use
    std::shared_ptr<const Event> end;
  };
  /// A place in pinned memory until what is given now is done; null where there is enough of that
  /// already. What a `result` is copied to may have held operands before, and may lie beyond what
  /// is enough, since it cannot be waited for here.
  char* Stage(int64_t bytes, bool result);
  bool NextPiece(bool result);
  /// Brings the results to the host when `wait` returns; where it throws, whoever asks for them
  /// later is told, too.
  void Settle(std::deque<Batch> given, const std::function<void()>& wait);

  std::shared_ptr<Device> device_;
  StreamHandle* stream_ = nullptr;
  std::shared_ptr<void> workspace_;
  int64_t workspace_bytes_ = 0;
  Batch now_;
  std::deque<Batch> marked_;  ///< those before, the oldest first
  std::vector<std::shared_ptr<void>> idle_staging_;
  int num_staging_ = 0;                      ///< idle or not
  int most_staging_ = 0;                     ///< not idle at once, in this run
  std::deque<int> runs_staging_;             ///< the same of the runs before
  std::vector<std::shared_ptr<void>> lost_;  ///< that unfinished work may still use
  Graph* graph_ = nullptr;                   ///< that is being recorded
};

}  // namespace weft::cuda
