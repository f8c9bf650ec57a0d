/// plan_recompute.h: `weft plan FILE.json`: an order of steps with recomputation.
#pragma once

#include <string>

namespace weft::tool {

/// `budget`: bytes with K, M or G, a share `50%` of the peak without recomputation, `min`, or empty
/// for no recomputation. 1 where the budget is not met.
int PlanRecomputation(const std::string& path, const std::string& budget, bool json);

}  // namespace weft::tool
