#include "two_way_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace weft {
namespace {

struct Set {
  std::vector<int> of;
  int64_t cost;
};
struct Problem {
  std::vector<std::pair<int64_t, int64_t>> costs;  // of false, of true
  std::vector<Set> sets;

  std::vector<bool> Solve(int64_t steps = 1'000'000) const {
    TwoWayChoice c;
    for (auto [f, t] : costs) c.Pay(c.AddVariable(), f, t);
    for (const Set& s : sets) c.PayUnlessAlike(s.of, s.cost);
    return c.Solve(steps);
  }
  int64_t Cost(const std::vector<bool>& values) const {
    int64_t sum = 0;
    for (size_t v = 0; v < costs.size(); ++v) sum += values[v] ? costs[v].second : costs[v].first;
    for (const Set& s : sets) {
      bool any = false, all = true;
      for (int v : s.of) any |= values[size_t(v)], all &= bool(values[size_t(v)]);
      if (any && !all) sum += s.cost;
    }
    return sum;
  }
};

TEST_CASE("no other choice is cheaper, and none as cheap has fewer that are true") {
  std::mt19937 random(7);
  const auto below = [&](int n) { return int(random() % uint32_t(n)); };
  for (int round = 0; round < 400; ++round) {
    Problem p;
    const int n = 1 + below(9);
    for (int v = 0; v < n; ++v) {
      const int kind = below(6);
      p.costs.emplace_back(kind == 0 ? TwoWayChoice::kForbidden : below(20),
                           kind == 1 ? TwoWayChoice::kForbidden : below(20));
    }
    for (int s = below(10); s > 0; --s) {
      Set set{{}, below(15)};
      for (int v = 0; v < n; ++v)
        if (below(3) == 0) set.of.push_back(v);
      if (set.of.size() > 1) p.sets.push_back(set);
    }
    int64_t best = INT64_MAX;
    std::vector<bool> fewest;
    for (int mask = 0; mask < 1 << n; ++mask) {
      std::vector<bool> values;
      for (int v = 0; v < n; ++v) values.push_back(mask >> v & 1);
      const int64_t cost = p.Cost(values);
      const auto trues = [](const std::vector<bool>& x) {
        return std::count(x.begin(), x.end(), true);
      };
      if (cost < best || (cost == best && trues(values) < trues(fewest))) {
        best = cost;
        fewest = values;
      }
    }
    CHECK(p.Solve() == fewest);
  }
}

TEST_CASE("a chain is cut where that is cheapest; what has no time left stays false") {
  Problem p;
  for (int v = 0; v < 1000; ++v) p.costs.emplace_back(v < 500 ? 10 : 0, v < 500 ? 0 : 2);
  for (int v = 0; v + 1 < 1000; ++v) p.sets.push_back({{v, v + 1}, v == 600 ? 3 : 1000});
  p.costs[999] = {0, TwoWayChoice::kForbidden};
  const std::vector<bool> values = p.Solve(100'000'000);
  CHECK(std::count(values.begin(), values.end(), true) == 601);
  CHECK(values[600]);
  CHECK(!values[601]);
  p.costs[3] = {TwoWayChoice::kForbidden, 0};
  const std::vector<bool> hasty = p.Solve(100);
  CHECK(std::count(hasty.begin(), hasty.end(), true) == 1);
  CHECK(hasty[3]);
}

}  // namespace
}  // namespace weft
