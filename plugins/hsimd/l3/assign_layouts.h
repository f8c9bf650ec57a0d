/// assign_layouts.h: chooses a layout for every node of a graph: the layout planner as an algorithm
/// on a plain problem, exact where the graph is narrow, with a proven bound everywhere.
///
/// A node has candidates, each with its own cost. A value is made by one node and read by others;
/// the candidate of the node that makes it says in which layout it comes, the candidate of a reader
/// in which layout it is wanted. Where they differ the value is switched, *once* for every distinct
/// layout that its readers want, however many readers want it. The cost of a choice is the sum of
/// the candidates' own costs and of the switches; the planner finds the least.
///
/// This is a partitioned boolean quadratic problem with shared switches: NP-hard in general, linear
/// in the nodes where the width (how many nodes a cut has to remember) is bounded, as it is for
/// networks. Source: Scholz, Eckstein, LCTES 2002 (register allocation by PBQP); Dechter,
/// Artificial Intelligence 113, 1999 (bucket elimination).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hsimd {

/// A cost that forbids: of a candidate, or of a switch that no mover can do.
constexpr int64_t kNeverCost = int64_t{1} << 52;

struct LayoutProblem {
  struct Node {
    std::string name;           ///< for messages
    std::vector<int64_t> cost;  ///< of each candidate, cycles, >= 0; at least one candidate
    /// Of each candidate: its family, any number >= 0 (the same split of the machine in every
    /// node). Only the baselines of one layout read it; empty: all of family 0.
    std::vector<int> family;
    std::string why = {};  ///< a candidate is forbidden, for messages; empty: not known
  };
  struct Reader {
    int node = 0;
    std::vector<int> wanted;  ///< layout by candidate of the reader; -1: reads it in any
  };
  struct Value {
    int producer = 0;
    std::vector<int> made;        ///< layout by candidate of the producer
    std::vector<Reader> readers;  ///< a node may stand here twice
    int layouts = 0;              ///< `made` and `wanted` are below it
    /// [from * layouts + to], cycles; 0 from a layout to itself is implied.
    std::vector<int64_t> switches;
  };
  std::vector<Node> nodes;
  std::vector<Value> values;
};

/// How much the planner may do, counted in looks at table entries, so that a plan does not depend
/// on the machine that makes it.
struct LayoutEffort {
  int64_t work = 4'000'000'000;        ///< looks at table entries, about 1 ns each
  int64_t table_entries = 24'000'000;  ///< most entries of one table; 8 bytes each
};

struct LayoutChoice {
  std::vector<int> candidate;  ///< by node
  int64_t cost = 0;            ///< of that choice
  int64_t bound = 0;           ///< proven: no choice costs less
  /// The most variables that a table of the elimination ranges over (after pruning).
  int width = 0;
  int64_t pruned = 0;  ///< candidates that cannot be part of a better choice
  int64_t work = 0;
  bool exact() const { return cost == bound; }
  double gap() const { return cost == bound ? 0 : double(cost - bound) / double(cost); }
};

/// Throws weft::Error: InternalError for a problem out of shape, kOverflow where costs leave 2^52,
/// kUnsupported where no choice is possible, naming a node or a value all of whose choices are
/// forbidden. Deterministic.
LayoutChoice AssignLayouts(const LayoutProblem& problem, const LayoutEffort& effort = {});

/// The cost of one choice, from the definition; >= kNeverCost where it is forbidden.
int64_t CostOfLayouts(const LayoutProblem& problem, const std::vector<int>& candidate);

/// What one would do without a planner. All deterministic, ties by the lower candidate.
std::vector<int> EachNodeForItself(const LayoutProblem& problem);
/// Nodes in their order (a topological one): the cheapest including the switches of what is chosen.
std::vector<int> GreedyInOrder(const LayoutProblem& problem);
/// Every node takes its cheapest candidate of `family`, or its cheapest where it has none of it.
std::vector<int> OnlyFamily(const LayoutProblem& problem, int family);
/// The best of OnlyFamily over all families.
std::vector<int> BestSingleFamily(const LayoutProblem& problem);

}  // namespace hsimd
