/// groups.h: the groups that Fusion forms, and the levels that keep them acyclic.
///
/// Every group has an integer level, and every edge between two groups goes to a strictly
/// higher level. So the partition is acyclic by construction, and two groups of one level
/// cannot reach each other: merging them is always legal. No search, no ancestor sets;
/// amortised O(alpha) an edge.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace weft {

/// Space of a group. `key`: id of its extents without the 1s. A row group reduces the extents of
/// `mask` (bits over those positions); `row_key` is what remains.
struct Space {
  int key = -1;
  int row_key = -1;  ///< -1: not a row group
  uint64_t mask = 0;
  bool is_row() const { return row_key >= 0; }
};

class FusionGroups {
 public:
  static constexpr int kNoConsumer = std::numeric_limits<int>::max();
  struct Group {
    int level = 0;
    /// a bound from below on the levels of the groups that read this one
    int min_consumer = kNoConsumer;
    int parent = -1;
    int size = 0;                    ///< operators
    std::vector<uint64_t> operands;  ///< distinct entries read from outside, packed
    int reductions = 0;
    int64_t open_uses = 0;  ///< uses of members' outputs outside the group, graph outputs included
    bool fusible = false;
    bool plain = true;    ///< every member is element-wise
    bool simple = true;   ///< no member is a loop inside a point
    bool writes = false;  ///< some member is a weft::Assign
    /// sets of axes that its space is reduced over behind it (FusionFuture); 0: free
    uint32_t future = 0;
    uint32_t stamp = 0;  ///< for the caller: when the group was last looked at
    Space space;
  };

  int New(int level, bool fusible) {
    if (size_ == groups_.size()) groups_.emplace_back();
    Group& g = groups_[size_];
    std::vector<uint64_t> operands = std::move(g.operands);  // with the room that it had
    operands.clear();
    g = Group();
    g.operands = std::move(operands);
    g.level = level;
    g.fusible = fusible;
    return int(size_++);
  }
  /// The newest group is forgotten: it was merged before anything else knew of it. Most nodes join
  /// a group at once, so there are few groups to remember.
  void DropNewest() { --size_; }
  int Find(int g) {
    while (groups_[g].parent >= 0) {
      const int up = groups_[g].parent;
      if (groups_[up].parent >= 0) groups_[g].parent = groups_[up].parent;
      g = up;
    }
    return g;
  }
  Group& operator[](int g) { return groups_[g]; }
  int size() const { return int(size_); }

  /// May the group rise to `level` and stay below everything that reads it?
  bool CanRise(int g, int level) const {
    return level <= groups_[g].level || level < groups_[g].min_consumer;
  }
  /// Distinct operands of a and b together; counts no further than `limit` + 1.
  int CountOperands(int a, int b, int limit) const {
    int n = int(groups_[a].operands.size());
    for (size_t i = 0; i < groups_[b].operands.size() && n <= limit; ++i)
      n += !Reads(a, groups_[b].operands[i]);
    return n;
  }
  /// b into a; both at one level now. Uses by one of the other stay counted as open:
  /// the caller corrects them.
  void Merge(int a, int b) {
    Group &x = groups_[a], &y = groups_[b];
    x.level = std::max(x.level, y.level);
    x.min_consumer = std::min(x.min_consumer, y.min_consumer);
    x.size += y.size;
    for (uint64_t e : y.operands)
      if (!Reads(a, e)) x.operands.push_back(e);
    y.operands.clear();
    x.reductions += y.reductions;
    x.plain &= y.plain;
    x.simple &= y.simple;
    x.writes |= y.writes;
    x.open_uses += y.open_uses;
    if (y.space.is_row() || x.space.key < 0) x.space = y.space;
    y.parent = a;
  }

 private:
  bool Reads(int g, uint64_t entry) const {
    const auto& o = groups_[g].operands;
    return std::find(o.begin(), o.end(), entry) != o.end();
  }
  std::vector<Group> groups_;
  size_t size_ = 0;
};

}  // namespace weft
