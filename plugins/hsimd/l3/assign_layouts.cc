/// assign_layouts.cc: the layout planner. Candidates that another is never worse than are dropped;
/// what is left is eliminated where the tables fit. Where they do not, a choice found by search and
/// a bound from moving costs between tables drop candidates that no better choice can have, and it
/// starts again; the last resort are split buckets.
#include "assign_layouts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "layout_network.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

using Kept = std::vector<std::vector<int>>;

/// Most entries of a table that ties hubs, a producer and a reader together.
constexpr double kHubEntries = 1 << 20;
/// What one step of the search around a node may look at.
constexpr double kSearchWork = 2e6;
constexpr size_t kSearchNodes = 24;
/// Passes of moving costs between tables in one round: the bound has settled by then on all graphs
/// that were measured.
constexpr int kPasses = 30;
/// Costs are whole; what rounding may take off a bound, in parts of it.
constexpr double kRounding = 1e-9;

int64_t WholeBound(double bound) {
  return std::max<int64_t>(0, int64_t(std::ceil(bound - kRounding * (1 + std::abs(bound)))));
}

void CheckProblem(const LayoutProblem& problem) {
  const int n = int(problem.nodes.size());
  int64_t most = 0;
  const auto add = [&most](int64_t cost) {
    if (cost < kNeverCost) most += cost;
    WEFT_CHECK(most < kNeverCost, kOverflow, "costs of layouts leave 2^52 cycles");
  };
  const auto largest = [](const std::vector<int64_t>& costs) {
    int64_t largest = 0;
    for (int64_t cost : costs) {
      WEFT_ICHECK(cost >= 0, "cost {} is negative", cost);
      if (cost < kNeverCost) largest = std::max(largest, cost);
    }
    return largest;
  };
  for (const LayoutProblem::Node& node : problem.nodes) {
    WEFT_ICHECK(!node.cost.empty(), "node '{}' has no candidate", node.name);
    WEFT_ICHECK(node.family.empty() || node.family.size() == node.cost.size(),
                "node '{}': {} families for {} candidates", node.name, node.family.size(),
                node.cost.size());
    add(largest(node.cost));
  }
  for (size_t v = 0; v < problem.values.size(); ++v) {
    const LayoutProblem::Value& value = problem.values[v];
    WEFT_ICHECK(
        value.layouts > 0 && value.switches.size() == size_t(value.layouts) * size_t(value.layouts),
        "value {}: {} switches for {} layouts", v, value.switches.size(), value.layouts);
    const auto check = [&](int node, const std::vector<int>& layouts, int least) {
      WEFT_ICHECK(node >= 0 && node < n, "value {}: node {} of {}", v, node, n);
      WEFT_ICHECK(layouts.size() == problem.nodes[size_t(node)].cost.size(),
                  "value {}: {} layouts for the candidates of node '{}'", v, layouts.size(),
                  problem.nodes[size_t(node)].name);
      for (int l : layouts)
        WEFT_ICHECK(l >= least && l < value.layouts, "value {}: layout {} of {}", v, l,
                    value.layouts);
    };
    check(value.producer, value.made, 0);
    const int64_t each = largest(value.switches);
    for (const LayoutProblem::Reader& reader : value.readers) {
      check(reader.node, reader.wanted, -1);
      WEFT_ICHECK(reader.node != value.producer, "node '{}' reads what it makes",
                  problem.nodes[size_t(reader.node)].name);
      add(each);
    }
  }
}

/// What a value costs under a choice: each distinct layout once.
int64_t CostOfValue(const LayoutProblem::Value& value, const std::vector<int>& candidate) {
  const int made = value.made[size_t(candidate[size_t(value.producer)])];
  int64_t cost = 0;
  for (size_t r = 0; r < value.readers.size(); ++r) {
    const auto wanted = [&](size_t k) {
      const LayoutProblem::Reader& reader = value.readers[k];
      return reader.wanted[size_t(candidate[size_t(reader.node)])];
    };
    bool before = false;
    for (size_t k = 0; k < r && !before; ++k) before = wanted(k) == wanted(r);
    if (!before) cost = std::min(kNeverCost, cost + SwitchCost(value, made, wanted(r)));
  }
  return cost;
}

/// The values that touch each node.
std::vector<std::vector<int>> ValuesAt(const LayoutProblem& problem) {
  std::vector<std::vector<int>> at(problem.nodes.size());
  for (size_t v = 0; v < problem.values.size(); ++v) {
    std::set<int> nodes{problem.values[v].producer};
    for (const LayoutProblem::Reader& reader : problem.values[v].readers) nodes.insert(reader.node);
    for (int n : nodes) at[size_t(n)].push_back(int(v));
  }
  return at;
}

class Planner {
 public:
  Planner(const LayoutProblem& problem, const LayoutEffort& effort)
      : problem_(problem), effort_(effort), work_(effort.work), at_(ValuesAt(problem)) {}

  LayoutChoice Plan() {
    for (size_t n = 0; n < problem_.nodes.size(); ++n) {
      const auto& cost = problem_.nodes[n].cost;
      kept_.emplace_back();
      for (size_t i = 0; i < cost.size(); ++i)
        if (cost[i] < kNeverCost) kept_.back().push_back(int(i));
      WEFT_CHECK(!kept_.back().empty(), kUnsupported,
                 "node '{}': none of its {} layouts is possible{}{}", problem_.nodes[n].name,
                 cost.size(), problem_.nodes[n].why.empty() ? "" : ": ", problem_.nodes[n].why);
    }
    for (const auto& start :
         {EachNodeForItself(problem_), GreedyInOrder(problem_), BestSingleFamily(problem_)})
      Offer(Descended(start));
    DropWithoutHubs();
    while (!Done() && !Round()) {
    }
    WEFT_CHECK(best_.cost < kNeverCost, kUnsupported, "no choice of layouts is possible: {}",
               WhatForbids());
    best_.bound = std::min(std::max(bound_, best_.bound), best_.cost);
    best_.work = effort_.work - work_;
    return best_;
  }

 private:
  /// True when there is nothing more to do.
  bool Round() {
    LayoutNetwork net = BuildLayoutNetwork(problem_, kept_, kHubEntries);
    if (Drop(net)) net = BuildLayoutNetwork(problem_, kept_, kHubEntries);
    const EliminationOrder order = OrderOf(net.network);
    best_.width = order.width;
    if (order.largest <= double(effort_.table_entries) &&
        order.kept <= 3 * double(effort_.table_entries) && order.work <= double(work_)) {
      work_ -= int64_t(order.work);
      std::vector<int> values;
      const double least = Eliminate(net.network, order, &values);
      Offer(Descended(CandidatesOf(values)));
      Prove(least);
      if (net.exact || Done()) return true;
    } else {
      Search(net);
    }
    if (Done()) return true;
    CostNetwork moved = net.network;
    const double bound = Reparametrize(&moved, kPasses, &work_);
    Prove(bound);
    if (Done()) return true;
    const int64_t dropped = DropCostly(moved, bound);
    if (Done()) return true;
    if (dropped > 0 && work_ > 0) return false;
    SplitBuckets(BuildLayoutNetwork(problem_, kept_, kHubEntries));
    return true;
  }

  /// Without hubs tables are small: drops what is far from any good choice before they are built.
  void DropWithoutHubs() {
    int64_t all = 0, dropped = 0;
    for (const auto& candidates : kept_) all += int64_t(candidates.size());
    do {
      LayoutNetwork net = BuildLayoutNetwork(problem_, kept_, 0);
      Search(net);
      const double bound = Reparametrize(&net.network, kPasses, &work_);
      Prove(bound);
      dropped = DropCostly(net.network, bound);
      all -= dropped;
    } while (50 * dropped > all && !Done());
  }

  /// Drops candidates with which no choice is better than the best; how many. `moved` is over the
  /// kept candidates, after Reparametrize.
  int64_t DropCostly(const CostNetwork& moved, double bound) {
    int64_t dropped = 0;
    const auto excess = LeastExcess(moved);
    for (size_t n = 0; n < kept_.size(); ++n) {
      std::vector<int> left;
      for (size_t i = 0; i < kept_[n].size(); ++i)
        if (WholeBound(bound + excess[n][i]) < best_.cost) left.push_back(kept_[n][i]);
      // Nothing that is left is better than the best.
      if (left.empty()) bound_ = best_.cost;
      dropped += int64_t(kept_[n].size() - left.size());
      kept_[n] = std::move(left);
    }
    best_.pruned += dropped;
    return dropped;
  }

  void SplitBuckets(const LayoutNetwork& net) {
    const double entries = std::min(1e6, double(effort_.table_entries));
    CostNetwork moved = net.network;
    Prove(Reparametrize(&moved, kPasses, &work_));
    std::vector<int> values;
    Prove(MiniBuckets(moved, OrderOf(moved), entries, &values));
    Offer(Descended(CandidatesOf(values)));
    if (!Done()) Search(net);
  }

  /// Drops candidates that another is never worse than.
  bool Drop(const LayoutNetwork& net) {
    int64_t work = std::min<int64_t>(work_, effort_.work / 8);
    const int64_t before = work;
    const auto keep = Undominated(net.network, &work);
    work_ -= before - work;
    bool dropped = false;
    for (size_t n = 0; n < kept_.size(); ++n) {
      if (net.relaxed[n]) continue;
      std::vector<int> left;
      for (size_t i = 0; i < kept_[n].size(); ++i)
        if (keep[n][i]) left.push_back(kept_[n][i]);
      dropped = dropped || left.size() < kept_[n].size();
      best_.pruned += int64_t(kept_[n].size() - left.size());
      kept_[n] = std::move(left);
    }
    return dropped;
  }

  /// Solves the neighbourhood of one node after the other exactly, the rest as in the best choice.
  void Search(const LayoutNetwork& net) {
    if (best_.cost >= kNeverCost) return;
    std::vector<std::set<int>> near(net.network.domain.size());
    for (const CostTable& table : net.network.tables)
      for (int x : table.scope)
        for (int y : table.scope)
          if (x != y) near[size_t(x)].insert(y);
    const int64_t least_work = work_ - effort_.work / 4;
    for (bool better = true; better && work_ > least_work;) {
      better = false;
      for (size_t n = 0; n < kept_.size() && work_ > least_work; ++n)
        better = SolveAround(net, near, int(n)) || better;
    }
  }

  bool SolveAround(const LayoutNetwork& net, const std::vector<std::set<int>>& near, int center) {
    // The best choice, with kept candidates in place of pruned ones.
    std::vector<int> candidate = best_.candidate;
    for (size_t n = 0; n < kept_.size(); ++n)
      if (!std::binary_search(kept_[n].begin(), kept_[n].end(), candidate[n]))
        candidate[n] = kept_[n].front();
    const std::vector<int> values = ValuesOf(problem_, net, kept_, candidate);
    // Grows from the center while elimination stays cheap.
    std::vector<int> free{center};
    std::set<int> seen{center};
    size_t fits = 0;
    for (size_t done = 0; done < free.size() && free.size() <= kSearchNodes; ++done) {
      for (int y : near[size_t(free[done])])
        if (seen.insert(y).second) free.push_back(y);
      if (OrderOf(Condition(net.network, values, free, false)).work > kSearchWork) break;
      fits = free.size();
    }
    if (fits == 0) return false;
    free.resize(fits);
    const CostNetwork part = Condition(net.network, values, free, true);
    const EliminationOrder order = OrderOf(part);
    work_ -= int64_t(order.work) + int64_t(free.size()) * 1000;
    for (const CostTable& table : part.tables) work_ -= 10 * int64_t(table.entries.size());
    std::vector<int> solved;
    Eliminate(part, order, &solved);
    for (size_t k = 0; k < solved.size(); ++k)
      if (size_t(free[k]) < kept_.size())
        candidate[size_t(free[k])] = kept_[size_t(free[k])][size_t(solved[k])];
    return Offer(candidate);
  }

  /// One node after the other takes what is cheapest beside the others, until none changes.
  std::vector<int> Descended(std::vector<int> candidate) {
    for (bool better = true; better && work_ > 0;) {
      better = false;
      for (size_t n = 0; n < candidate.size(); ++n) {
        const auto cost_of = [&](int i) {
          const int before = candidate[n];
          candidate[n] = i;
          int64_t cost = problem_.nodes[n].cost[size_t(i)];
          for (int v : at_[n]) cost += CostOfValue(problem_.values[size_t(v)], candidate);
          candidate[n] = before;
          return cost;
        };
        int64_t least = cost_of(candidate[n]);
        for (int i : kept_[n]) {
          const int64_t cost = cost_of(i);
          work_ -= 4 * int64_t(at_[n].size());
          if (cost < least) least = cost, candidate[n] = i, better = true;
        }
      }
    }
    return candidate;
  }

  std::vector<int> CandidatesOf(const std::vector<int>& values) const {
    std::vector<int> candidate;
    for (size_t n = 0; n < kept_.size(); ++n) candidate.push_back(kept_[n][size_t(values[n])]);
    return candidate;
  }

  bool Offer(const std::vector<int>& candidate) {
    const int64_t cost = CostOfLayouts(problem_, candidate);
    if (!best_.candidate.empty() && cost >= best_.cost) return false;
    best_.candidate = candidate;
    best_.cost = cost;
    return true;
  }

  /// `bound` holds for the candidates that are left; what was pruned is no better than the best.
  void Prove(double bound) { bound_ = std::max(bound_, std::min(WholeBound(bound), best_.cost)); }
  bool Done() const { return bound_ >= best_.cost; }

  std::string WhatForbids() const {
    for (size_t v = 0; v < problem_.values.size(); ++v)
      if (CostOfValue(problem_.values[v], best_.candidate) >= kNeverCost)
        return fmt::format("what node '{}' makes reaches none of its readers' layouts",
                           problem_.nodes[size_t(problem_.values[v].producer)].name);
    return "the nodes exclude each other";
  }

  const LayoutProblem& problem_;
  const LayoutEffort& effort_;
  int64_t work_;
  std::vector<std::vector<int>> at_;
  Kept kept_;
  LayoutChoice best_;
  int64_t bound_ = 0;
};

int Cheapest(const std::vector<int64_t>& cost) {
  return int(std::min_element(cost.begin(), cost.end()) - cost.begin());
}

}  // namespace

LayoutChoice AssignLayouts(const LayoutProblem& problem, const LayoutEffort& effort) {
  CheckProblem(problem);
  return Planner(problem, effort).Plan();
}

int64_t CostOfLayouts(const LayoutProblem& problem, const std::vector<int>& candidate) {
  int64_t cost = 0;
  for (size_t n = 0; n < problem.nodes.size(); ++n)
    cost = std::min(kNeverCost, cost + problem.nodes[n].cost[size_t(candidate[n])]);
  for (const LayoutProblem::Value& value : problem.values)
    cost = std::min(kNeverCost, cost + CostOfValue(value, candidate));
  return cost;
}

std::vector<int> EachNodeForItself(const LayoutProblem& problem) {
  std::vector<int> candidate;
  for (const LayoutProblem::Node& node : problem.nodes) candidate.push_back(Cheapest(node.cost));
  return candidate;
}

std::vector<int> GreedyInOrder(const LayoutProblem& problem) {
  const std::vector<std::vector<int>> at = ValuesAt(problem);
  std::vector<int> candidate(problem.nodes.size(), 0);
  std::vector<char> chosen(problem.nodes.size(), 0);
  for (size_t n = 0; n < candidate.size(); ++n) {
    // The values at n, with the readers and producers that are chosen alone.
    std::vector<LayoutProblem::Value> values;
    for (int v : at[n]) {
      const LayoutProblem::Value& value = problem.values[size_t(v)];
      if (value.producer != int(n) && !chosen[size_t(value.producer)]) continue;
      LayoutProblem::Value part = value;
      part.readers.clear();
      for (const LayoutProblem::Reader& reader : value.readers)
        if (reader.node == int(n) || chosen[size_t(reader.node)]) part.readers.push_back(reader);
      values.push_back(std::move(part));
    }
    int64_t least = -1;
    int best = 0;
    for (size_t i = 0; i < problem.nodes[n].cost.size(); ++i) {
      candidate[n] = int(i);
      int64_t cost = problem.nodes[n].cost[i];
      for (const LayoutProblem::Value& value : values)
        cost = std::min(kNeverCost, cost + CostOfValue(value, candidate));
      if (least < 0 || cost < least) least = cost, best = int(i);
    }
    candidate[n] = best;
    chosen[n] = 1;
  }
  return candidate;
}

std::vector<int> OnlyFamily(const LayoutProblem& problem, int family) {
  std::vector<int> candidate;
  for (const LayoutProblem::Node& node : problem.nodes) {
    int best = -1;
    for (size_t i = 0; i < node.cost.size(); ++i) {
      if ((node.family.empty() ? 0 : node.family[i]) != family) continue;
      if (best < 0 || node.cost[i] < node.cost[size_t(best)]) best = int(i);
    }
    candidate.push_back(best < 0 ? Cheapest(node.cost) : best);
  }
  return candidate;
}

std::vector<int> BestSingleFamily(const LayoutProblem& problem) {
  std::set<int> families{0};
  for (const LayoutProblem::Node& node : problem.nodes)
    families.insert(node.family.begin(), node.family.end());
  std::vector<int> best;
  int64_t least = 0;
  for (int family : families) {
    std::vector<int> candidate = OnlyFamily(problem, family);
    const int64_t cost = CostOfLayouts(problem, candidate);
    if (best.empty() || cost < least) least = cost, best = std::move(candidate);
  }
  return best;
}

}  // namespace hsimd
