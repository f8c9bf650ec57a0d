/// device_session.cc: see device_session.h.
#include "device_session.h"

#include <algorithm>
#include <utility>

#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

constexpr int64_t kAlign = 256;
/// Memory that so many runs had no need of goes.
constexpr int64_t kRunsRemembered = 16;

}  // namespace

DeviceSession::DeviceSession(std::shared_ptr<Backend> backend, int flags, const ProgramStats& stats)
    : backend_(std::move(backend)),
      stats_(stats),
      num_flags_(flags),
      stream_(backend_->device()->NewStream()) {
  if (flags > 0) flags_ = backend_->Allocate(flags);
}
DeviceSession::~DeviceSession() { Drain(); }

std::shared_ptr<void> DeviceSession::Memory(int64_t bytes, int64_t* size) {
  *size = CheckedRoundUp(std::max<int64_t>(bytes, 1), kAlign);
  const auto it = pool_->idle.lower_bound(*size);
  if (it != pool_->idle.end() && it->first / 2 <= *size) {
    std::shared_ptr<void> memory = std::move(it->second.memory);
    *size = it->first;
    pool_->idle.erase(it);
    return memory;
  }
  try {
    return backend_->Allocate(*size);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kOutOfMemory || pool_->idle.empty() || recorded_) throw;
    stream_->Wait();
    pool_->idle.clear();
    return backend_->Allocate(*size);
  }
}

std::shared_ptr<Tensor> DeviceSession::NewTensor(DType dtype, std::vector<int64_t> dims) {
  int64_t size = 0;
  std::shared_ptr<void> memory = Memory(DTypeBytes(dtype, NumElements(dims)), &size);
  Use(memory);
  void* at = memory.get();
  std::shared_ptr<void> owner(at, [pool = pool_, memory = std::move(memory), size](void*) {
    pool->idle.emplace(size, Pool::Block{memory, pool->run});
  });
  return std::make_shared<Tensor>(dtype, std::move(dims), at, std::move(owner));
}
std::shared_ptr<Tensor> DeviceSession::Bring(const Tensor& host) {
  std::shared_ptr<Tensor> t = NewTensor(host.dtype(), host.dims());
  if (host.num_bytes() > 0) stream_->CopyIn(t->mutable_data(), host.data(), host.num_bytes());
  return t;
}
std::shared_ptr<Tensor> DeviceSession::Fetch(const Tensor& on_device) {
  auto t = std::make_shared<Tensor>(on_device.dtype(), on_device.dims());
  Hold(t);
  if (t->num_bytes() > 0) stream_->CopyOut(t->mutable_data(), on_device.data(), t->num_bytes());
  return t;
}

void DeviceSession::WaitForHost() {
  CountAsked();
  stats_.host_waits.Add();
  const std::function<void()> check = FetchFlags();
  stream_->Wait();
  targets_.clear();
  check();
}
bool DeviceSession::Drain() {
  try {
    stream_->Wait();
    targets_.clear();
    return true;
  } catch (const std::exception&) {
    return false;  // Wait has reported the failure
  }
}
void DeviceSession::EndRun(bool later) {
  stream_->EndRun();
  targets_.clear();
  ++pool_->run;
  if (later) return;
  for (auto it = pool_->idle.begin(); it != pool_->idle.end();)
    it = it->second.run + kRunsRemembered < pool_->run ? pool_->idle.erase(it) : std::next(it);
}

uint8_t* DeviceSession::FlagsOf(const void* program, int count,
                                const std::function<void(const uint8_t* raised)>& check) {
  const auto [it, fresh] = flags_of_.try_emplace(program, Flags{flags_taken_, count, check});
  if (fresh) flags_taken_ += count;
  WEFT_ICHECK(flags_taken_ <= num_flags_, "{} range flags of {}", flags_taken_, num_flags_);
  return static_cast<uint8_t*>(flags_.get()) + it->second.at;
}
void DeviceSession::ClearFlags() {
  if (num_flags_ > 0) stream_->Clear(flags_.get(), num_flags_);
}
std::function<void()> DeviceSession::FetchFlags() {
  if (flags_taken_ == 0) return [] {};
  const auto raised = std::make_shared<std::vector<uint8_t>>(size_t(flags_taken_));
  Hold(raised);
  stream_->CopyOut(raised->data(), flags_.get(), flags_taken_);
  std::vector<Flags> all;
  for (const auto& [program, flags] : flags_of_) all.push_back(flags);
  std::sort(all.begin(), all.end(), [](const Flags& a, const Flags& b) { return a.at < b.at; });
  return [raised, all] {
    for (const Flags& f : all) f.check(raised->data() + f.at);
  };
}

void DeviceSession::Record(const std::function<void()>& give, Recorded* recorded) {
  struct Scope {
    Recorded*& now;
    Scope(Recorded*& at, Recorded* to) : now(at) { now = to; }
    ~Scope() { now = nullptr; }
  } scope(recorded_, recorded);
  recorded->memory.clear();
  recorded->recording = stream_->Record(give, std::move(recorded->recording));
}

}  // namespace weft
