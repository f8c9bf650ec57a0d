/// multi.h: groups that have nothing to do with each other, side by side in
/// one launch (form multi).
#pragma once

#include <unordered_map>
#include <vector>

#include "groups.h"
#include "nodes.h"
#include "sweep.h"
#include "weft/core/pass/pass.h"

namespace weft {

/// For each group that shares a launch with others the first of them, itself included; kAlone for
/// all others. Levels of the groups are raised to those of the launches. `written`: the variables
/// that groups write. `works`: the group is more than views.
struct LaunchPlan {
  static constexpr int kAlone = -1;
  std::vector<int> first;  ///< by group; empty: all are alone
  int64_t shared = 0;      ///< groups that share a launch
};
LaunchPlan PlanLaunches(const FusionPlan& plan,
                        const std::unordered_map<int, std::vector<NodeId>>& written,
                        const std::vector<uint8_t>& works, FusionNodes& nodes, FusionGroups& groups,
                        PassContext& ctx);

}  // namespace weft
