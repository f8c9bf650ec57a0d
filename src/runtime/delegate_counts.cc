/// delegate_counts.cc: see delegate_counts.h.
#include "weft/runtime/delegate_counts.h"

#include <atomic>

namespace weft {
namespace {

std::atomic<int64_t> regions, runs, copied;

}  // namespace

DelegateCounts CountDelegates() { return {regions, runs, copied}; }
void CountDelegateRegion() { regions.fetch_add(1, std::memory_order_relaxed); }
void CountDelegateRun(int64_t copied_bytes) {
  runs.fetch_add(1, std::memory_order_relaxed);
  copied.fetch_add(copied_bytes, std::memory_order_relaxed);
}

}  // namespace weft
