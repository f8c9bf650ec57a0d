/// request.cc: the scopes of one thread, innermost first.
#include "weft/core/request.h"

#include <unistd.h>

#include <utility>

#include "weft/core/pass.h"
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

void RequestScope::CheckMemory(int64_t bytes) {
  WEFT_CHECK(bytes <= PhysicalBytes(), kOutOfMemory,
             "{} bytes of memory are needed, the machine has {}", bytes, PhysicalBytes());
}

}  // namespace weft
