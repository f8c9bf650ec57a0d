/// sides_test.cc: which engine takes which node, against every division of small graphs.
#include "sides.h"

#include <doctest/doctest.h>

#include <random>

#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/pass/provide.h"
#include "weft/core/plan/storage.h"

namespace weft {
namespace {

struct Problem {
  Graph graph;
  std::vector<NodePtr> order;
  std::vector<std::vector<int>> candidates;
  std::vector<std::vector<double>> us;  ///< by node and side, ours first
};

/// What a tensor that crosses costs, and a MiB of it, where nobody has measured: as sides.cc says.
constexpr double kTensor = 40, kMiB = 2 * double(1 << 20) / 1e4;

/// What sides.cc says it minimises, microseconds.
double CostOf(const Problem& p, const std::vector<int>& sides, double tensor = kTensor,
              double mib = kMiB) {
  const ShapeMap& shapes = p.graph.GetAttr<ShapeMap>("shape");
  const TypeMap& types = p.graph.GetAttr<TypeMap>("dtype");
  std::unordered_map<NodeId, int> side_of;
  double cost = 0;
  for (size_t i = 0; i < p.order.size(); ++i) {
    side_of[p.order[i]->id()] = sides[i];
    if (!p.order[i]->is_variable()) cost += p.us[i][size_t(sides[i] + 1)];
  }
  for (const NodePtr& n : p.order)
    for (const NodeEntry& e : n->inputs)
      if (!e.node->is_variable() && side_of[e.node->id()] != side_of[n->id()])
        cost += tensor + mib * double(ArenaBytes(types[e], shapes[e]).value()) / (1 << 20);
  return cost;
}

/// Up to seven nodes over one variable, each with costs here and by `engines` engines, of which
/// some do not take it.
Problem MakeProblem(uint64_t seed, int engines) {
  std::mt19937_64 rng(seed);
  Problem p;
  const int64_t extent = 1 + int64_t(rng() % 30000);
  std::vector<NodeEntry> made{
      NodeEntry(p.graph.AddInput("x", Type(DType::kF32), Shape({SymInt(extent)})))};
  const size_t count = 2 + rng() % 6;
  for (size_t i = 0; i < count; ++i) {
    const NodeEntry a = made[rng() % made.size()], b = made[rng() % made.size()];
    made.emplace_back(rng() % 2 ? p.graph.AddNode("Add", {a, b}) : p.graph.AddNode("Neg", {a}));
  }
  for (const NodeEntry& e : made)
    if (e.node->uses().empty()) p.graph.outputs.push_back(e);
  p.graph = ProvideTypes(std::move(p.graph));
  p.order = p.graph.TopoOrder();
  NodeMap<Floats> costs;
  for (const NodePtr& n : p.order) {
    std::vector<double> us;
    std::vector<int> takers;
    for (int side = -1; side < engines; ++side) {
      us.push_back(double(rng() % 240));
      if (side >= 0 && !n->is_variable() && rng() % 4) takers.push_back(side);
    }
    costs.set(n, Floats(us.begin(), us.end()));
    p.us.push_back(us);
    p.candidates.push_back(takers);
  }
  p.graph.SetAttr("delegate_costs", std::move(costs));
  return p;
}

double LeastCost(const Problem& p, int engines, double tensor = kTensor, double mib = kMiB) {
  std::vector<int> sides(p.order.size(), -1);
  double least = CostOf(p, sides, tensor, mib);
  for (;;) {
    size_t i = 0;
    for (; i < sides.size(); ++i) {
      const auto allowed = [&](int side) {
        return std::count(p.candidates[i].begin(), p.candidates[i].end(), side) != 0;
      };
      do ++sides[i];
      while (sides[i] < engines && !allowed(sides[i]));
      if (sides[i] < engines) break;
      sides[i] = -1;
    }
    if (i == sides.size()) return least;
    least = std::min(least, CostOf(p, sides, tensor, mib));
  }
}

std::vector<int> Choose(const Problem& p, int engines) {
  const std::vector<bool> follows(p.order.size(), false);
  DivisionCosts costs(p.graph, p.order, follows);
  return CheapestSides(&costs, p.candidates, size_t(engines));
}

TEST_CASE("one engine: the cheapest of all divisions") {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    const Problem p = MakeProblem(seed, 1);
    CHECK(CostOf(p, Choose(p, 1)) == doctest::Approx(LeastCost(p, 1)).epsilon(1e-3));
  }
}

TEST_CASE("borders cost what was measured") {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    Problem p = MakeProblem(seed, 1);
    p.graph.SetAttr("delegate_border_costs", Floats{std::vector<double>{3, 500}});
    CHECK(CostOf(p, Choose(p, 1), 3, 500) ==
          doctest::Approx(LeastCost(p, 1, 3, 500)).epsilon(1e-3));
  }
}

TEST_CASE(
    "what a division does: nodes of their sides, and each tensor once a piece that reads it") {
  Graph g;
  const NodeEntry x(g.AddInput("x", Type(DType::kF32), Shape({SymInt(256)})));
  const NodeEntry a(g.AddNode("Neg", {x})), b(g.AddNode("Add", {a, a})), c(g.AddNode("Abs", {a}));
  g.outputs = {b, c};
  g = ProvideTypes(std::move(g));
  const std::vector<NodePtr> order = g.TopoOrder();
  REQUIRE(order.size() == 4);
  NodeMap<Floats> us;
  for (const NodePtr& n : order) us.set(n, Floats{std::vector<double>{1, 10}});
  g.SetAttr("delegate_costs", std::move(us));
  const std::vector<bool> follows(4, false);
  DivisionCosts costs(g, order, follows);
  const auto at = [&](const NodeEntry& e) {
    return size_t(std::find(order.begin(), order.end(), g.at(e).node) - order.begin());
  };
  std::vector<SidePiece> pieces(4);
  CHECK(costs.SumOf(pieces).nodes_us == 3);
  CHECK(costs.SumOf(pieces).tensors == 0);
  pieces[at(b)] = {0, 0};
  CHECK(costs.SumOf(pieces).nodes_us == 12);
  CHECK(costs.SumOf(pieces).tensors == 1);
  CHECK(costs.SumOf(pieces).bytes == 1024);
  pieces[at(c)] = {0, 1};
  CHECK(costs.SumOf(pieces).tensors == 2);
  pieces[at(c)] = {0, 0};
  CHECK(costs.SumOf(pieces).tensors == 1);
}

TEST_CASE("pieces cost alike") {
  const Problem p = MakeProblem(5, 1);
  const std::vector<bool> follows(p.order.size(), false);
  DivisionCosts costs(p.graph, p.order, follows);
  const std::vector<std::vector<int>> all(p.order.size(), {0});
  for (int64_t count : {1, 2, 3, 100}) {
    const std::vector<int> pieces = EqualPieces(&costs, all, count);
    CHECK(std::is_sorted(pieces.begin(), pieces.end()));
    for (int piece : pieces) CHECK((piece >= 0 && piece < count));
  }
}

TEST_CASE("several engines: the cheapest nearly always, and never dearer than nothing given away") {
  int best = 0, all = 0;
  for (int engines : {2, 3})
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      CAPTURE(seed);
      const Problem p = MakeProblem(seed, engines);
      const std::vector<int> sides = Choose(p, engines);
      for (size_t i = 0; i < sides.size(); ++i)
        CHECK((sides[i] == -1 ||
               std::count(p.candidates[i].begin(), p.candidates[i].end(), sides[i]) == 1));
      const double cost = CostOf(p, sides), least = LeastCost(p, engines);
      CHECK(cost <= CostOf(p, std::vector<int>(sides.size(), -1)) + 1e-3);
      // The bound of expansion moves: twice the least, of its borders.
      CHECK(cost <= 2 * least + 1e-3);
      best += cost <= least * 1.001 + 1e-3;
      ++all;
    }
  MESSAGE(best << " of " << all << " are the cheapest");
  CHECK(best * 100 >= all * 95);
}

TEST_CASE("no measurement: nothing is given away") {
  Problem p = MakeProblem(3, 2);
  p.graph.DropAttr("delegate_costs");
  for (const int side : Choose(p, 2)) CHECK(side == -1);
}

}  // namespace
}  // namespace weft
