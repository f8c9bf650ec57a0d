/// request.cc: the scopes of one thread, innermost first.
#include "weft/support/request.h"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "weft/support/check.h"

namespace weft {
namespace {

thread_local const RequestScope* innermost = nullptr;

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
      deadline_(limits.deadline_s > 0 ? Deadline(limits.deadline_s) : Deadline()),
      outer_(innermost) {
  innermost = this;
}
RequestScope::~RequestScope() { innermost = outer_; }
const RequestScope* RequestScope::Current() { return innermost; }
RequestScope::Borrow::Borrow(const RequestScope* current)
    : before_(std::exchange(innermost, current)) {}
RequestScope::Borrow::~Borrow() { innermost = before_; }

void RequestScope::Poll() {
  for (const RequestScope* s = innermost; s; s = s->outer_) {
    WEFT_CHECK(!s->cancel_ || !s->cancel_->cancelled(), kCancelled, "cancelled by the caller");
    s->deadline_.Check("the request");
  }
}

void RequestScope::CheckTensor(int64_t bytes) {
  for (const RequestScope* s = innermost; s; s = s->outer_)
    Limits::Check("tensor_bytes", bytes, s->limits_.tensor_bytes);
}

void RequestScope::CheckIterations(int64_t run) {
  for (const RequestScope* s = innermost; s; s = s->outer_)
    WEFT_CHECK(run < s->limits_.iterations, kLimit, "more than the limit of {} iterations",
               s->limits_.iterations);
}

void RequestScope::CheckMemory(int64_t bytes) {
  WEFT_CHECK(bytes <= PhysicalBytes(), kOutOfMemory,
             "{} bytes of memory are needed, the machine has {}", bytes, PhysicalBytes());
}

}  // namespace weft
