/// order_search_test.cc: orders against all orders, against an exact search of its own kind, and
/// against the given one.
#include "weft/core/plan/order_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <map>
#include <random>

#include "tests/support/random/small_world.h"

namespace weft {
namespace {

/// A random problem; `rich`: with views, results in place, edges without values, scratch, kept and
/// empty values.
MemoryProblem RandomProblem(std::mt19937* random, int n, bool rich) {
  const auto below = [random](int k) { return int((*random)() % unsigned(k)); };
  MemoryProblem p;
  p.nodes.resize(size_t(n));
  for (int k = 0; k < n; ++k) {
    MemoryNode& node = p.nodes[size_t(k)];
    const int readable = int(p.values.size());
    for (int tries = k == 0 ? 0 : 1 + below(3); tries > 0; --tries)
      node.inputs.push_back(std::max(below(readable), below(readable)));
    const int outputs = rich && below(4) == 0 ? 2 : 1;
    for (int o = 0; o < outputs; ++o) {
      node.outputs.push_back(int(p.values.size()));
      p.values.push_back({64 * (1 + below(8)), k});
      if (!rich) continue;
      MemoryValue& value = p.values.back();
      if (below(6) == 0) value.bytes = 0;
      value.keep = below(12) == 0;
      if (node.inputs.empty()) continue;
      const int input = below(int(node.inputs.size()));
      const int from = node.inputs[size_t(input)];
      if (below(6) == 0) {
        value.shows = from;
        value.bytes = 0;
      } else if (below(2) == 0) {
        if (p.values[size_t(from)].bytes > 0) value.bytes = p.values[size_t(from)].bytes;
        node.inplace.emplace_back(input, o);
      }
    }
    if (rich && below(6) == 0) node.scratch = 64 * below(6);
    if (rich && k > 0 && below(5) == 0) node.after.push_back(below(k));
  }
  return p;
}

std::vector<std::vector<int>> NeedsOf(const MemoryProblem& p) {
  std::vector<std::vector<int>> needs(p.nodes.size());
  for (size_t k = 0; k < p.nodes.size(); ++k) {
    needs[k] = p.nodes[k].after;
    for (int v : p.nodes[k].inputs) needs[k].push_back(p.values[size_t(v)].producer);
  }
  return needs;
}

/// Of all orders, by trying them.
int64_t LeastByTrying(const MemoryProblem& p) {
  const auto needs = NeedsOf(p);
  MemoryOrder order;
  std::vector<char> ran(p.nodes.size(), 0);
  int64_t least = INT64_MAX;
  const std::function<void()> extend = [&] {
    if (order.size() == p.nodes.size()) {
      least = std::min(least, UseOf(p, order).peak);
      return;
    }
    for (size_t k = 0; k < ran.size(); ++k) {
      if (ran[k] ||
          std::any_of(needs[k].begin(), needs[k].end(), [&](int n) { return !ran[size_t(n)]; }))
        continue;
      ran[k] = 1;
      order.push_back(int(k));
      extend();
      order.pop_back();
      ran[k] = 0;
    }
  };
  extend();
  return least;
}

/// Of problems with one value a node and nothing else: over all down-sets.
int64_t LeastByDownSets(const MemoryProblem& p) {
  const auto needs = NeedsOf(p);
  const size_t n = p.nodes.size();
  std::vector<uint64_t> need(n, 0), readers(n, 0);
  for (size_t k = 0; k < n; ++k)
    for (int from : needs[k]) {
      need[k] |= uint64_t{1} << from;
      readers[size_t(from)] |= uint64_t{1} << k;
    }
  std::map<uint64_t, int64_t> peaks = {{0, 0}};  // of the best order of a set
  for (size_t count = 0; count < n; ++count) {
    std::map<uint64_t, int64_t> next;
    for (const auto& [set, peak] : peaks) {
      int64_t live = 0;
      for (size_t v = 0; v < n; ++v)
        if (set >> v & 1 && readers[v] & ~set) live += p.values[v].bytes;
      for (size_t v = 0; v < n; ++v) {
        if (set >> v & 1 || need[v] & ~set) continue;
        const int64_t with = std::max(peak, live + p.values[v].bytes);
        const auto [it, fresh] = next.try_emplace(set | uint64_t{1} << v, with);
        if (!fresh) it->second = std::min(it->second, with);
      }
    }
    peaks = std::move(next);
  }
  return peaks.begin()->second;
}

void CheckPlan(const MemoryProblem& p, const OrderPlan& plan) {
  REQUIRE_NOTHROW(CheckOrder(p, plan.order));
  CHECK(plan.order.size() == p.nodes.size());
  CHECK(UseOf(p, plan.order).peak == plan.peak);
  CHECK(plan.lower_bound <= plan.peak);
  const int64_t given = UseOf(p, GivenOrder(p)).peak;
  CHECK(plan.peak <= given);
  if (plan.peak == given) CHECK(plan.order == GivenOrder(p));
  int64_t last = plan.peak;
  for (const MemoryOrder& other : plan.others) {
    REQUIRE_NOTHROW(CheckOrder(p, other));
    const int64_t peak = UseOf(p, other).peak;
    CHECK(peak < given);
    CHECK(peak >= last);
    last = peak;
  }
}

TEST_CASE(
    "order search: small problems with views, results in place, effects, against all orders") {
  std::mt19937 random(11);
  int met = 0, rounds = 0;
  for (int round = 0; round < 300; ++round) {
    const MemoryProblem p = RandomProblem(&random, 2 + round % 7, true);
    REQUIRE_NOTHROW(CheckProblem(p));
    const OrderPlan plan = SearchOrder(p);
    CheckPlan(p, plan);
    const int64_t least = LeastByTrying(p);
    CHECK(plan.lower_bound <= least);
    if (plan.optimal()) CHECK(plan.peak == least);
    ++rounds;
    met += plan.peak == least;
  }
  CHECK(met >= rounds * 99 / 100);
}

TEST_CASE("order search: small-world graphs, against all down-sets") {
  std::mt19937 random(12);
  for (int round = 0; round < 60; ++round) {
    const MemoryProblem p = SmallWorld(&random, 8 + round % 13);
    const OrderPlan plan = SearchOrder(p);
    CheckPlan(p, plan);
    CHECK(plan.optimal());
    CHECK(plan.peak == LeastByDownSets(p));
  }
}

TEST_CASE("order search: never above the given order, and the same again") {
  std::mt19937 random(13);
  for (int round = 0; round < 60; ++round) {
    const MemoryProblem p = RandomProblem(&random, 20 + 7 * round, round % 3 != 0);
    OrderEffort little;
    little.work = 50'000;
    const OrderPlan plan = SearchOrder(p, little);
    CheckPlan(p, plan);
    CHECK(SearchOrder(p, little).order == plan.order);
  }
}

TEST_CASE("order search: an order that is good enough stays") {
  std::mt19937 random(14);
  const MemoryProblem p = SmallWorld(&random, 40);
  OrderEffort effort;
  effort.enough = UseOf(p, GivenOrder(p)).peak;
  CHECK(SearchOrder(p).peak < effort.enough);
  CHECK(SearchOrder(p, effort).order == GivenOrder(p));
}

/// A network and its gradients as they are written down: forward, backward, and then all gradients
/// of weights, which hold what was kept for them until then.
TEST_CASE("order search: gradients of weights run when what they read is there") {
  MemoryProblem p;
  const auto add = [&p](std::vector<int> inputs, int64_t bytes) {
    const int v = int(p.values.size());
    p.nodes.emplace_back();
    p.nodes.back().inputs = std::move(inputs);
    p.nodes.back().outputs = {v};
    p.values.push_back({bytes, int(p.nodes.size()) - 1});
    return v;
  };
  constexpr int kLayers = 40;
  std::vector<int> x = {add({}, 1000)}, dy(kLayers + 1);
  for (int k = 0; k < kLayers; ++k) x.push_back(add({x.back()}, 1000));
  dy[kLayers] = add({x.back()}, 1000);
  for (int k = kLayers; k > 0; --k) dy[size_t(k - 1)] = add({dy[size_t(k)]}, 1000);
  for (int k = 0; k < kLayers; ++k) add({x[size_t(k)], dy[size_t(k + 1)]}, 0);
  const OrderPlan plan = SearchOrder(p);
  CheckPlan(p, plan);
  // All activations, and two gradients.
  CHECK(plan.peak == 1000 * (kLayers + 2));
  CHECK(UseOf(p, GivenOrder(p)).peak == 1000 * (2 * kLayers + 1));
}

TEST_CASE("order search: nothing, and a single node") {
  CHECK(SearchOrder({}).order.empty());
  MemoryProblem p;
  p.nodes.resize(1);
  p.nodes[0].outputs = {0};
  p.values = {{64, 0}};
  const OrderPlan plan = SearchOrder(p);
  CHECK(plan.order == MemoryOrder{0});
  CHECK(plan.peak == 64);
  CHECK(plan.optimal());
}

}  // namespace
}  // namespace weft
