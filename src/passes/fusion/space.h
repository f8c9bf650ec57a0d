/// space.h: the extents that Fusion compares, as small numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "weft/core/tensor/shape.h"

namespace weft {

/// Numbers of distinct lists of extents, in order of first appearance.
class ExtentLists {
 public:
  int Number(const std::vector<SymInt>& dims) {
    // Neighbours mostly have the extents of the one before.
    if (last_ >= 0 && lists_[size_t(last_)] == dims) return last_;
    return last_ = Find(dims);
  }
  const std::vector<SymInt>& operator[](int number) const { return lists_[size_t(number)]; }
  int size() const { return int(lists_.size()); }

 private:
  int Find(const std::vector<SymInt>& dims);
  int last_ = -1;
  std::vector<std::vector<SymInt>> lists_;
  std::unordered_multimap<uint64_t, int> ids_;  // looked up only
};

/// Shapes and spaces. A *shape* is a number for a list of extents as written; a *space* is one for
/// the extents without their 1s, equal extents by the facts taken as one, so that [b], [b, 1] and
/// [1, b] are one space.
class Spaces {
 public:
  explicit Spaces(const Facts& facts) : facts_(facts), has_facts_(facts.assumptions() > 0) {}
  /// -1 where there is no shape or anything of it is unknown.
  int ShapeNumber(const Shape* s);
  const std::vector<SymInt>& extents(int shape) const { return shapes_[shape]; }
  const std::vector<SymInt>& space_extents(int space) const { return spaces_[space]; }
  /// Elements of a space, at most INT64_MAX. An extent that the run decides (a batch) counts as
  /// what it often is.
  int64_t Elements(int space) const;
  int SpaceOf(int shape) const { return space_of_[size_t(shape)]; }
  /// `space` without the positions of `mask`.
  int Without(int space, uint64_t mask);
  /// Bits of `axes` over the positions of the extents of `shape` that are not 1.
  uint64_t AxesMask(int shape, const std::vector<int>& axes) const;
  /// Positions (of `to` without 1s) over which `from` is spread when it broadcasts to `to`;
  /// nullopt where not proved.
  std::optional<uint64_t> BroadcastMask(int from, int to) const;

 private:
  bool Same(SymInt a, SymInt b) const {
    return a == b || (has_facts_ && facts_.Simplify(a) == facts_.Simplify(b));
  }
  const Facts& facts_;
  bool has_facts_;
  ExtentLists shapes_, spaces_;
  std::vector<int> space_of_;  // by shape
};

}  // namespace weft
