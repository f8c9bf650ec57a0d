/// counting_device.cc: see counting_device.h.
#include "counting_device.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>

#include "tests/support/e2e_util.h"
#include "weft/core/module/backend_module.h"
#include "weft/support/check.h"

namespace weft::e2e {
namespace {

/// Addresses of the device, which nobody can follow but its streams while they work: whoever takes
/// them for the host's ends the test.
class Memory {
 public:
  static Memory& Get() {
    static Memory memory;
    return memory;
  }
  void* Take(size_t bytes) {
    std::lock_guard lock(mutex_);
    const auto free = free_.lower_bound(bytes);
    if (free != free_.end() && free->first == bytes) {
      void* p = free->second;
      free_.erase(free);
      return p;
    }
    if (used_ + bytes > kSize) return nullptr;
    void* p = base_ + used_;
    used_ += bytes;
    if (working_ > 0) Open();
    return p;
  }
  void GiveBack(void* p, size_t bytes) {
    std::lock_guard lock(mutex_);
    madvise(p, bytes, MADV_DONTNEED);
    free_.emplace(bytes, p);
  }
  struct Working {
    Working() {
      std::lock_guard lock(Get().mutex_);
      if (Get().working_++ == 0) Get().Open();
    }
    ~Working() {
      std::lock_guard lock(Get().mutex_);
      if (--Get().working_ == 0) mprotect(Get().base_, Get().used_, PROT_NONE);
    }
  };

 private:
  static constexpr size_t kSize = size_t{16} << 30;
  Memory()
      : base_(static_cast<char*>(
            mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  void Open() { mprotect(base_, used_, PROT_READ | PROT_WRITE); }

  char* const base_;
  size_t used_ = 0;
  std::multimap<size_t, void*> free_;
  int working_ = 0;
  std::mutex mutex_;
};

bool IsOurs(CountingDevice& d, const void* p) {
  if (!p) return true;  // an absent operand
  std::lock_guard lock(d.mutex);
  const uintptr_t at = reinterpret_cast<uintptr_t>(p);
  auto it = d.blocks.upper_bound(at);
  if (it == d.blocks.begin()) return false;
  --it;
  return at < it->first + uintptr_t(it->second);
}
void Expect(const void* p) {
  CountingDevice& d = CountingDevice::Get();
  if (!IsOurs(d, p)) ++d.strangers;
}

/// The work of a stream. Those who wait for a point of it may do so when the stream is gone.
struct Queue {
  std::recursive_mutex mutex;
  int64_t given = 0, done = 0;
  std::deque<std::function<void()>> waiting;

  void Drain(int64_t until) {
    std::lock_guard lock(mutex);
    if (done == until) return;
    const Memory::Working working;
    while (done < until) {
      const std::function<void()> work = std::move(waiting.front());
      waiting.pop_front();
      ++done;
      work();
    }
  }
};

class CountingStream final : public DeviceStream {
 public:
  ~CountingStream() override { Wait(); }
  void CopyIn(void* device, const void* host, int64_t bytes) override {
    ++CountingDevice::Get().copies_in;
    Expect(device);
    const auto* from = static_cast<const char*>(host);
    Enqueue([device, content = std::vector<char>(from, from + bytes)] {
      Expect(device);
      std::memcpy(device, content.data(), content.size());
    });
  }
  void CopyOut(void* host, const void* device, int64_t bytes) override {
    ++CountingDevice::Get().copies_out;
    Expect(device);
    Enqueue([=] { std::memcpy(host, device, size_t(bytes)); });
  }
  void Copy(void* to, const void* from, int64_t bytes) override {
    Expect(to);
    Expect(from);
    Enqueue([=] { std::memcpy(to, from, size_t(bytes)); });
  }
  void Clear(void* device, int64_t bytes) override {
    Expect(device);
    Enqueue([=] {
      Expect(device);
      std::memset(device, 0, size_t(bytes));
    });
  }
  void Wait() override { work_->Drain(work_->given); }
  std::shared_ptr<Point> Mark() override { return std::make_shared<Here>(work_); }
  void Wait(const Point& point) override { point.Wait(); }

  void Enqueue(std::function<void()> work) {
    CountingDevice& d = CountingDevice::Get();
    if (d.fail_at >= 0 && d.fail_at-- <= 0) {
      d.fail_at = 0;
      WEFT_THROW(kDevice, "the counting device has failed");
    }
    if (recorded_) return recorded_->push_back(std::move(work));
    std::lock_guard lock(work_->mutex);
    ++work_->given;
    work_->waiting.push_back(std::move(work));
  }

  bool is_recording() const { return recorded_ != nullptr; }

  struct Work final : Recording {
    std::deque<std::function<void()>> queue;
  };
  std::unique_ptr<Recording> Record(const std::function<void()>& give,
                                    std::unique_ptr<Recording> earlier) override {
    CountingDevice::Get().updates += earlier != nullptr;
    ++CountingDevice::Get().recordings;
    auto work = std::make_unique<Work>();
    recorded_ = &work->queue;
    try {
      give();
      WEFT_CHECK(!CountingDevice::Get().refuses_to_record, kDevice, "this is not recorded");
    } catch (...) {
      recorded_ = nullptr;
      throw;
    }
    recorded_ = nullptr;
    return work;
  }
  void Replay(const Recording& recording) override {
    ++CountingDevice::Get().replays;
    for (const auto& work : static_cast<const Work&>(recording).queue) Enqueue(work);
  }

 private:
  struct Here final : Point {
    explicit Here(std::shared_ptr<Queue> w) : work(std::move(w)), at(work->given) {}
    bool Reached() const override {
      std::lock_guard lock(work->mutex);
      return work->done >= at;
    }
    void Wait() const override { work->Drain(at); }
    const std::shared_ptr<Queue> work;
    const int64_t at;
  };
  const std::shared_ptr<Queue> work_ = std::make_shared<Queue>();
  std::deque<std::function<void()>>* recorded_ = nullptr;
};

class CountingLauncher final : public DeviceLauncher {
 public:
  CountingLauncher(std::shared_ptr<KernelLauncher> cpu, size_t buffers, size_t dims)
      : cpu_(std::move(cpu)), buffers_(buffers), dims_(dims) {}
  void Enqueue(DeviceStream& stream, void* const* buffers, const int64_t* dims) const override {
    ++CountingDevice::Get().launches;
    for (size_t i = 0; i < buffers_; ++i) Expect(buffers[i]);
    static_cast<CountingStream&>(stream).Enqueue(
        [cpu = cpu_, b = std::vector<void*>(buffers, buffers + buffers_),
         d = std::vector<int64_t>(dims, dims + dims_)] {
          for (const void* p : b) Expect(p);
          cpu->Launch(b.data(), d.data());
        });
  }

 private:
  std::shared_ptr<KernelLauncher> cpu_;
  size_t buffers_, dims_;
};

class CountingCall final : public DeviceCall {
 public:
  CountingCall(std::unique_ptr<LibraryCall> cpu, size_t inputs, size_t outputs, int64_t greed)
      : cpu_(std::move(cpu)), inputs_(inputs), outputs_(outputs), greed_(greed) {}
  void Enqueue(DeviceStream& stream, const void* const* inputs, void* const* outputs,
               void* scratch) const override {
    ++CountingDevice::Get().calls;
    WEFT_CHECK(!CountingDevice::Get().refuses_calls ||
                   !static_cast<CountingStream&>(stream).is_recording(),
               kDevice, "this call is not recorded");
    std::vector<const void*> in(inputs, inputs + inputs_);
    std::vector<void*> out(outputs, outputs + outputs_);
    for (const void* p : in) Expect(p);
    for (const void* p : out) Expect(p);
    static_cast<CountingStream&>(stream).Enqueue(
        [cpu = cpu_, in = std::move(in), out = std::move(out), scratch, bytes = scratch_bytes()] {
          if (bytes > 0) {
            if (!IsOurs(CountingDevice::Get(), scratch))
              return void(++CountingDevice::Get().strangers);
            std::memset(scratch, 0xAB, size_t(bytes));
          }
          cpu->Run(in.data(), out.data(), scratch);
        });
  }
  int64_t scratch_bytes() const override { return cpu_->scratch_bytes() + greed_; }
  std::string description() const override { return cpu_->description(); }

 private:
  std::shared_ptr<LibraryCall> cpu_;
  size_t inputs_, outputs_;
  int64_t greed_;
};

class CountingBackend final : public DeviceBackend {
 public:
  std::string name() const override { return "counting"; }
  Target target() const override { return cpu_->target(); }
  bool Runs(const std::string& code_target) const override { return cpu_->Runs(code_target); }
  std::string default_pipeline() const override { return cpu_->default_pipeline(); }
  int threads() const override { return cpu_->threads(); }
  void set_threads(int n) override { cpu_->set_threads(n); }
  MemoryPlace place() const override { return {MemoryPlace::kExtension, 0}; }
  std::unique_ptr<DeviceStream> NewStream() override { return std::make_unique<CountingStream>(); }
  std::shared_ptr<void> Allocate(int64_t bytes) override {
    CountingDevice& d = CountingDevice::Get();
    const auto size = size_t((bytes + 4095) / 4096 * 4096);
    void* p = Memory::Get().Take(size);
    WEFT_CHECK(p, kOutOfMemory, "no memory");
    std::lock_guard lock(d.mutex);
    d.blocks[reinterpret_cast<uintptr_t>(p)] = bytes;
    return {p, [&d, size](void* block) {
              std::lock_guard freeing(d.mutex);
              d.blocks.erase(reinterpret_cast<uintptr_t>(block));
              Memory::Get().GiveBack(block, size);
            }};
  }
  std::shared_ptr<DeviceLauncher> Load(const Kernel& kernel,
                                       const CompiledKernel& compiled) override {
    return std::make_shared<CountingLauncher>(cpu_->host()->Load(kernel, compiled),
                                              kernel.buffers.size(), size_t(kernel.num_symbols));
  }
  std::unique_ptr<PreparedCall> Prepare(const FCompute& compute,
                                        const ComputeRequest& request) override {
    if (CountingDevice::Get().on_prepare) CountingDevice::Get().on_prepare();
    std::unique_ptr<LibraryCall> call = AsLibraryCall(cpu_->Prepare(compute, request));
    if (!call) return nullptr;
    size_t inputs = request.input_dims.size();
    for (const CallStep& s : request.epilogue)
      if (s.operand >= 0) inputs = std::max(inputs, size_t(s.operand) + 1);
    const int64_t greed =
        CountingDevice::Get().greedy_calls ? 64 * NumElements(request.output_dims[0]) : 0;
    return std::make_unique<CountingCall>(std::move(call), inputs, request.output_dims.size(),
                                          greed);
  }

 private:
  std::shared_ptr<Backend> cpu_ = GetBackend("cpu");
};

}  // namespace

CountingDevice& CountingDevice::Get() {
  static CountingDevice device;
  return device;
}
void CountingDevice::Reset() {
  std::lock_guard lock(mutex);
  for (Count* count :
       {&copies_in, &copies_out, &launches, &calls, &recordings, &replays, &updates, &strangers})
    *count = 0;
  fail_at = -1;
  greedy_calls = refuses_to_record = refuses_calls = false;
  on_prepare = nullptr;
}

bool StartCountingDevice() {
  if (!HasCpu()) {
    MESSAGE("the backend cpu does not load here");
    return false;
  }
  static const bool registered =
      RegisterBackendModule(BackendModule("counting").set_backend([](const BackendParameters&) {
        return std::make_shared<CountingBackend>();
      }));
  (void)registered;
  CountingDevice::Get().Reset();
  return true;
}

}  // namespace weft::e2e
