/// link_plan.h: what an operation under a mask touches, found once for all its elements.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "places.h"

namespace hsimd {

/// Interned sets of places. A set is known by its number.
class PlaceSets {
 public:
  int Intern(PlaceSet set);
  const PlaceSet& At(int id) const { return sets_[size_t(id)]; }
  /// The first place in both; -1: none.
  int64_t FirstCommon(int a, int b) const;
  int Union(int a, int b);

 private:
  std::deque<PlaceSet> sets_;
  std::map<std::vector<uint64_t>, int> ids_;
  std::map<std::pair<int, int>, int> unions_;
};

/// Words of a row of one memory paired with words of another: near[first + i] with
/// far[base + i * step], i < n. A row of a memory is one address in all places.
struct PairRun {
  int64_t near_first = 0, far_base = 0, far_step = 0, n = 0;
};

struct LinkPlan {
  int target_set = 0;  ///< places that receive, of the target's level
  int source_set = 0;  ///< places that are read, of the sources' level
  /// Of down and up links: the parent's words are base + offset, in these places of its level.
  struct Offset {
    int64_t offset;
    int set;
  };
  std::vector<Offset> offsets;
  int64_t reach = 0;  ///< the largest offset
  /// Down, ring: near = the target; up without reduction: near = the source, far = the parent.
  std::vector<PairRun> runs;
  /// Up with a reduction: `far[d]` is made of child words `members[k * far.size() + d]`, in order
  /// of k; words in the parent are offset * places + place.
  std::vector<int64_t> far, members;
};

LinkPlan MakeLinkPlan(const Machine& machine, const Unit& unit, const UnitOp& op, const Mask& mask,
                      PlaceSets* sets);

}  // namespace hsimd
