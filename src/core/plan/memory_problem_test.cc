/// memory_problem_test.cc: the account against bytes counted by hand, and against a second one that
/// keeps a set of what is alive.
#include "weft/core/plan/memory_problem.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>

#include "weft/support/error.h"

namespace weft {
namespace {

/// A chain a -> b -> c, each of ten bytes, with a read again by the last.
MemoryProblem Chain() {
  MemoryProblem p;
  p.values = {{10, 0}, {10, 1}, {10, 2}};
  p.nodes.resize(3);
  p.nodes[0].outputs = {0};
  p.nodes[1].inputs = {0}, p.nodes[1].outputs = {1};
  p.nodes[2].inputs = {1, 0}, p.nodes[2].outputs = {2};
  for (MemoryNode& n : p.nodes) n.cost = 1;
  return p;
}

TEST_CASE("memory account: operands are alive beside results, and die with their last reader") {
  const MemoryUse use = UseOf(Chain(), {0, 1, 2});
  CHECK(use.live == std::vector<int64_t>{10, 20, 30});
  CHECK(use.peak == 30);
  CHECK(use.at == 2);
  CHECK(use.cost == 3);
}

TEST_CASE("memory account: in place, views, scratch, kept values") {
  MemoryProblem p = Chain();
  p.nodes[2].inplace = {{0, 0}};
  CHECK(UseOf(p, {0, 1, 2}).live == std::vector<int64_t>{10, 20, 20});
  p.values[0].keep = true;
  p.nodes[2].inplace = {{1, 0}};  // what is kept is not written over
  CHECK(UseOf(p, {0, 1, 2}).live == std::vector<int64_t>{10, 20, 30});
  p.nodes[1].scratch = 7;
  CHECK(UseOf(p, {0, 1, 2}).live == std::vector<int64_t>{10, 27, 30});
  p.values[1].shows = 0;
  CHECK(UseOf(p, {0, 1, 2}).live == std::vector<int64_t>{10, 17, 20});
}

TEST_CASE("memory account: a copy lets the value go in between") {
  MemoryProblem p = Chain();
  p.nodes.emplace_back();
  p.nodes[3].inputs = {2, 0}, p.nodes[3].outputs = {3};
  p.nodes[2].inputs = {1};
  p.values.push_back({10, 3});
  CHECK(UseOf(p, {0, 1, 2, 3}).live == std::vector<int64_t>{10, 20, 30, 30});
  CHECK(UseOf(p, {0, 1, 2, 0, 3}).live == std::vector<int64_t>{10, 20, 20, 20, 30});
  CHECK(UseOf(p, {0, 1, 2, 0, 3}).cost == 4);
}

TEST_CASE("memory account: what is no problem and no order is refused") {
  MemoryProblem p = Chain();
  CHECK_NOTHROW(CheckProblem(p));
  CHECK_NOTHROW(CheckOrder(p, GivenOrder(p)));
  CHECK_THROWS_AS(CheckOrder(p, {0, 2, 1}), UserError);
  CHECK_THROWS_AS(CheckOrder(p, {0, 1}), UserError);
  p.nodes[0].recompute = false;
  CHECK_THROWS_AS(CheckOrder(p, {0, 1, 0, 2}), UserError);
  CHECK_NOTHROW(CheckProblem(p));
  p.values[0].bytes = -1;
  CHECK_THROWS_AS(CheckProblem(p), UserError);
}

/// Counts by asking at every step, of every value made so far, whether someone still reads it.
int64_t PeakByAsking(const MemoryProblem& p, const MemoryOrder& order) {
  int64_t peak = 0;
  for (size_t now = 0; now < order.size(); ++now) {
    int64_t live = 0;
    for (size_t v = 0; v < p.values.size(); ++v) {
      bool made = false, needed = false;
      for (size_t s = 0; s <= now; ++s) made |= order[s] == p.values[v].producer;
      if (order[now] == p.values[v].producer) needed = true;
      for (size_t s = now; s < order.size(); ++s) {
        if (s > now && order[s] == p.values[v].producer) break;  // a new copy
        for (int in : p.nodes[size_t(order[s])].inputs) needed |= in == int(v);
      }
      bool again = false;
      for (size_t s = now + 1; s < order.size(); ++s) again |= order[s] == p.values[v].producer;
      if (p.values[v].keep && !again) needed = true;
      if (made && needed) live += p.values[v].bytes;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

TEST_CASE("memory account: random orders with copies, against the slow account") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    MemoryProblem p;
    const int n = 3 + int(random() % 12);
    for (int k = 0; k < n; ++k) {
      MemoryNode node;
      for (int i = 0; i < k; ++i)
        if (random() % 3 == 0) node.inputs.push_back(i);
      node.outputs = {k};
      p.nodes.push_back(node);
      p.values.push_back({int64_t(random() % 100), k, -1, random() % 8 == 0});
    }
    CheckProblem(p);
    MemoryOrder order;
    for (int k = 0; k < n; ++k) {
      order.push_back(k);
      while (random() % 3 == 0) order.push_back(int(random() % unsigned(k + 1)));
    }
    CheckOrder(p, order);
    CHECK(UseOf(p, order).peak == PeakByAsking(p, order));
  }
}

}  // namespace
}  // namespace weft
