/// polled_range.cc: the length of a piece follows the clock, because estimates are rough.
#include "polled_range.h"

#include <algorithm>
#include <chrono>

#include "kernel_launcher.h"
#include "weft/support/request.h"

namespace weft::cpu {

void FirstError::Keep(std::exception_ptr e) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(e);
  set_ = true;
}

bool WorkIsUncertain(const Kernel& kernel) {
  if (kernel.has_rows()) return false;
  Exprs values;
  for (const KernelStore& s : kernel.stores) values.push_back(s.value);
  for (const ExprNode* n : PostOrder(values)) {
    if (n->kind() != ExprKind::kReduce) continue;
    for (SymInt e : n->extents())
      if (!e.is_const()) return true;
  }
  return false;
}

void RunPolled(const KernelCall& c, int64_t begin, int64_t end, double us,
               const FirstError* others) {
  using Clock = std::chrono::steady_clock;
  const int64_t items = end - begin;
  if (!RunsInPieces(us, c.uncertain) || items < 2)
    return c.fn(c.buffers, c.dims, begin, end, c.memory);
  const int64_t align = items < 16 * kItemAlign ? 1 : kItemAlign;
  const double known = c.uncertain ? double(items) / 64 : double(items) * kPieceMicroseconds / us;
  int64_t piece = std::max<int64_t>(align, int64_t(known) / align * align);
  for (int64_t at = begin;;) {
    const int64_t next = end - at > piece ? at + piece : end;
    const auto start = Clock::now();
    c.fn(c.buffers, c.dims, at, next, c.memory);
    if (next == end || (others && others->set())) return;
    RequestScope::Poll();
    const double took = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    const double grown = double(piece) * std::min(4.0, kPieceMicroseconds / std::max(took, 1.0));
    piece = std::max<int64_t>(align, int64_t(std::min(grown, double(items))) / align * align);
    at = next;
  }
}

}  // namespace weft::cpu
