/// offset_instance.h: the planning problem as the planners behind PlanOffsets see it.
/// Private to the core.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "weft/core/plan/offset_planner.h"
#include "weft/support/checked.h"

namespace weft {

inline bool TakesRoom(const PlanItem& i) { return i.size > 0 && i.begin < i.end; }

/// The items that take room, by numbers of their own. Steps are numbered densely, so that trees
/// over steps are no larger than the items. Bytes are counted in units: every offset is a multiple
/// of all that the alignments have in common, so a size may be rounded up to that.
struct Instance {
  explicit Instance(const std::vector<PlanItem>& all) {
    std::vector<int> steps;
    int64_t common = 0;
    for (uint32_t i = 0; i < all.size(); ++i) {
      if (!TakesRoom(all[i])) continue;
      id.push_back(i);
      steps.push_back(all[i].begin);
      steps.push_back(all[i].end);
      common = std::gcd(common, all[i].alignment);
    }
    for (const uint32_t i : id)
      unit = std::gcd(unit, std::gcd(CheckedRoundUp(all[i].size, common), all[i].alignment));
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    const auto rank = [&steps](int s) {
      return uint32_t(std::lower_bound(steps.begin(), steps.end(), s) - steps.begin());
    };
    for (const uint32_t i : id) {
      size.push_back(CheckedRoundUp(all[i].size, common) / unit);
      alignment.push_back(all[i].alignment / unit);
      slack = std::max(slack, size.back() * unit - all[i].size);
      begin.push_back(rank(all[i].begin));
      end.push_back(rank(all[i].end));
    }
    num_steps = steps.empty() ? 0 : uint32_t(steps.size()) - 1;
    live.resize(num_steps + 1);
    for (uint32_t i = 0; i < n(); ++i) {
      live[begin[i]] += size[i];
      live[end[i]] -= size[i];
    }
    std::partial_sum(live.begin(), live.end(), live.begin());
    for (const int64_t units : live) peak = std::max(peak, units);
  }

  uint32_t n() const { return uint32_t(id.size()); }
  bool Meet(uint32_t a, uint32_t b) const { return begin[a] < end[b] && begin[b] < end[a]; }
  int64_t Aligned(uint32_t i, int64_t offset) const {
    return alignment[i] == 1 ? offset : CheckedRoundUp(offset, alignment[i]);
  }

  std::vector<uint32_t> id;              ///< index in what was given
  std::vector<int64_t> size, alignment;  ///< in units
  std::vector<uint32_t> begin, end;      ///< dense steps
  std::vector<int64_t> live;             ///< units alive, by step
  int64_t peak = 0;                      ///< most of `live`
  int64_t unit = 0;                      ///< bytes
  int64_t slack = 0;                     ///< most bytes by which a size was rounded up
  uint32_t num_steps = 0;
};

/// Offsets by item and the least height that holds them, in units.
struct Packing {
  std::vector<int64_t> at;
  int64_t height = 0;
  void Place(const Instance& in, uint32_t item, int64_t offset) {
    at[item] = offset;
    height = std::max(height, CheckedAdd(offset, in.size[item]));
  }
};

inline Packing EmptyPacking(const Instance& in) {
  return Packing{std::vector<int64_t>(in.n(), 0), 0};
}

/// Numbers that are the same everywhere.
class Draws {
 public:
  explicit Draws(uint64_t seed = 1) : state_(seed) {}
  /// In [0, n).
  uint32_t Below(size_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return uint32_t((state_ >> 33) % n);
  }

 private:
  uint64_t state_;
};

// offset_greedy.cc
/// Up to this many items first fit is n^2 / 2, else it looks at pairs that share a step.
constexpr uint32_t kShelf = 4096;
/// In the order of time, best fit into a free list, as an allocator at run time would: n log n.
Packing Sweep(const Instance& in);
/// Each item on top of all that share a step with it: n log n by a tree of heights. What is nested,
/// longest first, leaves no gaps.
Packing Skyline(const Instance& in, const std::vector<uint32_t>& order);
/// In the order of time or against it, each item into the gap that it fills best and beside what
/// ends when it does, so that room comes free in one piece; `closeness` weighs the second. No
/// higher than the bound where that is possible. Nothing where it takes more than `*work`, or the
/// height would reach `limit`. Items x what is alive at once.
std::optional<Packing> SweepByEnds(const Instance& in, double closeness, bool backwards,
                                   int64_t limit, int64_t* work);
/// Each item into the lowest gap among those that share a step with it. Nothing where that takes
/// more than `*work` (about 1 ns each, and counted down), or the height would reach `limit`.
std::optional<Packing> FirstFit(const Instance& in, const std::vector<uint32_t>& order,
                                int64_t limit, int64_t* work);

// offset_valleys.cc
/// Fills the lowest valley first: the lowest of several packings, or the first that is at most
/// `enough` high. Nothing where one takes more than `*work`.
std::optional<Packing> FillValleys(const Instance& in, int64_t enough, int64_t* work);

// offset_windows.cc
/// Items of one stretch.
constexpr int64_t kStretch = 1000;
/// First fit, large items first, stretch by stretch. Nothing where that takes more than `*work`, or
/// the height would reach `limit`.
std::optional<Packing> PackStretches(const Instance& in, int64_t limit, int64_t* work);
/// Takes what lies around the highest places out and packs it anew, `best` getting lower, until it
/// is at most `enough` high.
void RepairWindows(const Instance& in, int64_t enough, int64_t* work, Packing* best);

// offset_search.cc
enum class Found { kPacking, kNone, kUnknown };
/// Is there a packing at most `height` high? kNone is a proof; kUnknown, where `*work` is spent or
/// the instance is too large to be searched.
Found SearchPacking(const Instance& in, int64_t height, int64_t* work, Packing* out);

}  // namespace weft
