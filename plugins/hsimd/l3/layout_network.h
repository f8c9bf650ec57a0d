/// layout_network.h: a layout problem as cost tables. Private to the layout planner.
///
/// A value with one reader is a table over its producer and that reader. Readers that share a
/// switch meet in hubs: a hub is a variable that says in which further layout the value is made for
/// more than one reader, or in none; a reader whose layout is neither made nor the hub's pays for a
/// switch of its own. One hub is exact up to three readers, floor(readers / 2) hubs are always.
/// Where the tables of so many would be too large the value gets one hub, and the other switches
/// are charged by 1 / floor(readers / 2): a relaxation, whose least sum bounds the problem's.
#pragma once

#include <vector>

#include "assign_layouts.h"
#include "min_sum.h"

namespace hsimd {

struct LayoutNetwork {
  CostNetwork network;  ///< variables: the nodes, then the hubs
  /// By node: whether a table of it is a relaxation.
  std::vector<char> relaxed;
  bool exact = true;  ///< none is
  struct Hubs {
    int value = 0, first = 0, count = 0;  ///< variables first .. first + count - 1
    std::vector<int> layouts;             ///< of each value of a hub; [0] is -1: none
  };
  std::vector<Hubs> hubs;
};

/// `kept`: the candidates of each node that are still in question. No table of a hub gets more than
/// `entries` while a relaxation can avoid it. With `entries` 0 there are no hubs: every reader pays
/// by 1 / readers for a switch that others may want too, which bounds as well.
LayoutNetwork BuildLayoutNetwork(const LayoutProblem& problem,
                                 const std::vector<std::vector<int>>& kept, double entries);

/// The values of all variables that belong to a choice: hubs where they save most.
std::vector<int> ValuesOf(const LayoutProblem& problem, const LayoutNetwork& network,
                          const std::vector<std::vector<int>>& kept,
                          const std::vector<int>& candidate);

/// Cycles from one layout to another; 0 where `to` is -1 or the same.
int64_t SwitchCost(const LayoutProblem::Value& value, int from, int to);

}  // namespace hsimd
