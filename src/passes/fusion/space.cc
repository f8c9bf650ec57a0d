/// space.cc: numbering of extents, broadcasting and reduced positions.
#include "space.h"

#include <algorithm>

#include "weft/core/plan/size_hints.h"

namespace weft {

int ExtentLists::Find(const std::vector<SymInt>& dims) {
  uint64_t h = 0x9e3779b97f4a7c15ull + dims.size();
  for (SymInt d : dims)  // addresses: numbers follow first appearance, so no output depends on them
    h = (h ^ reinterpret_cast<uintptr_t>(d.node())) * 0x2545f4914f6cdd1dull;
  auto [it, end] = ids_.equal_range(h);
  for (; it != end; ++it)
    if (lists_[size_t(it->second)] == dims) return it->second;
  lists_.push_back(dims);
  ids_.emplace(h, size() - 1);
  return size() - 1;
}

int Spaces::ShapeNumber(const Shape* s) {
  constexpr int kMaskBits = 64;  // sets of axes are masks
  if (!s || !s->fully_known() || s->rank() > kMaskBits) return -1;
  const int shape = shapes_.Number(s->dims());
  if (size_t(shape) < space_of_.size()) return shape;
  std::vector<SymInt> dims;
  for (SymInt d : s->dims())
    if (!d.is(1)) dims.push_back(has_facts_ ? facts_.Simplify(d) : d);
  space_of_.push_back(spaces_.Number(dims));
  return shape;
}

int Spaces::Without(int space, uint64_t mask) {
  const std::vector<SymInt>& dims = spaces_[space];
  std::vector<SymInt> kept;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!(mask >> i & 1)) kept.push_back(dims[i]);
  return spaces_.Number(kept);
}

uint64_t Spaces::AxesMask(int shape, const std::vector<int>& axes) const {
  uint64_t mask = 0;
  int position = 0;
  const std::vector<SymInt>& dims = extents(shape);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].is(1)) continue;
    if (std::find(axes.begin(), axes.end(), int(d)) != axes.end()) mask |= uint64_t{1} << position;
    ++position;
  }
  return mask;
}

int64_t Spaces::Elements(int space) const {
  int64_t n = 1;
  for (SymInt d : spaces_[space])
    if (__builtin_mul_overflow(n, d.is_const() ? d.value() : kAssumedExtent, &n)) return INT64_MAX;
  return n;
}

std::optional<uint64_t> Spaces::BroadcastMask(int from_shape, int to_shape) const {
  if (from_shape == to_shape) return 0;
  const std::vector<SymInt>&from = extents(from_shape), &to = extents(to_shape);
  uint64_t mask = 0;
  int position = 0;
  const int shift = int(to.size()) - int(from.size());
  for (int d = 0; d < -shift; ++d)
    if (!from[size_t(d)].is(1)) return std::nullopt;
  for (int d = 0; d < int(to.size()); ++d) {
    const int k = d - shift;
    const SymInt extent = to[size_t(d)];
    if (extent.is(1)) {
      if (k >= 0 && !from[size_t(k)].is(1)) return std::nullopt;
      continue;
    }
    if (k < 0 || from[size_t(k)].is(1))
      mask |= uint64_t{1} << position;
    else if (!Same(from[size_t(k)], extent))
      return std::nullopt;
    ++position;
  }
  return mask;
}

}  // namespace weft
