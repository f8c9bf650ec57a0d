/// request.cc: the scopes of one thread, innermost first.
#include "weft/support/request.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "weft/support/check.h"

namespace weft {
namespace {

/// What a thread has open; in one place, since finding a variable of a thread is what a poll costs.
struct Open {
  const RequestScope* scope = nullptr;
  PollCallback* callback = nullptr;
};
thread_local Open t_open;

/// A clock that is read in some nanoseconds and goes by the tick of the system, some milliseconds.
int64_t CoarseNanoseconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

int64_t PhysicalBytes() {
  static const int64_t bytes = [] {
    const int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? pages * size : INT64_MAX;
  }();
  return bytes;
}

}  // namespace

CancelToken::CancelToken() : state_(std::make_shared<std::atomic<bool>>(false)) {}
void CancelToken::Cancel() { static_cast<std::atomic<bool>*>(state_.get())->store(true); }
bool CancelToken::cancelled() const {
  return static_cast<std::atomic<bool>*>(state_.get())->load();
}
void CancelToken::Check() const {
  WEFT_CHECK(!cancelled(), kCancelled, "cancelled by the caller");
  RequestScope::Poll();  // what polls for cancellation polls the deadline with it
}

RequestScope::RequestScope(const Limits& limits, const CancelToken* cancel)
    : limits_(limits),
      cancel_(cancel),
      deadline_(limits.deadline_s > 0 ? Deadline(limits.deadline_s) : Deadline()) {
  Open& mine = t_open;
  outer_ = mine.scope;
  mine.scope = this;
  for (PollCallback* c = outer_ ? nullptr : mine.callback; c; c = c->outer_) c->has_thrown_ = false;
}
RequestScope::~RequestScope() { t_open.scope = outer_; }
const RequestScope* RequestScope::Current() { return t_open.scope; }
RequestScope::Borrow::Borrow(const RequestScope* current)
    : before_(std::exchange(t_open.scope, current)) {}
RequestScope::Borrow::~Borrow() { t_open.scope = before_; }

void RequestScope::Poll() {
  const Open mine = t_open;
  for (const RequestScope* s = mine.scope; s; s = s->outer_) {
    WEFT_CHECK(!s->cancel_ || !s->cancel_->cancelled(), kCancelled, "cancelled by the caller");
    s->deadline_.Check("the request");
  }
  for (PollCallback* c = mine.callback; c; c = c->outer_) c->Call();
}

PollCallback::PollCallback(std::function<void()> callback, double interval_s)
    : callback_(std::move(callback)),
      interval_ns_(int64_t(interval_s * 1e9)),
      due_ns_(CoarseNanoseconds() + interval_ns_),
      outer_(t_open.callback) {
  t_open.callback = this;
}
PollCallback::~PollCallback() { t_open.callback = outer_; }
bool PollCallback::IsOpen() { return t_open.callback != nullptr; }

void PollCallback::Call() {
  if (is_called_) return;
  const int64_t now = CoarseNanoseconds();
  if (now < due_ns_) return;
  due_ns_ = now + interval_ns_;
  struct Called {
    bool& is;
    explicit Called(bool& flag) : is(flag) { is = true; }
    ~Called() { is = false; }
  } called(is_called_);
  try {
    callback_();
  } catch (...) {
    has_thrown_ = true;
    throw;
  }
}
void PollCallback::PassOn() {
  for (const PollCallback* c = t_open.callback; c; c = c->outer_)
    if (c->has_thrown_) throw;
}

void RequestScope::CheckTensor(int64_t bytes) {
  for (const RequestScope* s = t_open.scope; s; s = s->outer_)
    Limits::Check("tensor_bytes", bytes, s->limits_.tensor_bytes);
}

void RequestScope::CheckIterations(int64_t run) {
  for (const RequestScope* s = t_open.scope; s; s = s->outer_)
    WEFT_CHECK(run < s->limits_.iterations, kLimit, "more than the limit of {} iterations",
               s->limits_.iterations);
}

void RequestScope::CheckMemory(int64_t bytes) {
  WEFT_CHECK(bytes <= PhysicalBytes(), kOutOfMemory,
             "{} bytes of memory are needed, the machine has {}", bytes, PhysicalBytes());
}

}  // namespace weft
