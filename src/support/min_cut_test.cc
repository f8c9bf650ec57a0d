/// min_cut_test.cc: least cuts of random networks against all cuts there are.
#include "weft/support/min_cut.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace weft {
namespace {

struct Edge {
  int from, to;
  int64_t capacity;
};

/// What the edges from the source's side to the sink's carry.
int64_t CostOf(const std::vector<Edge>& edges, uint32_t with_sink) {
  int64_t cost = 0;
  for (const Edge& e : edges)
    if (!(with_sink >> e.from & 1) && (with_sink >> e.to & 1)) cost += e.capacity;
  return cost;
}

TEST_CASE("min cut: random networks, against every cut") {
  std::mt19937_64 rng(7);
  for (int round = 0; round < 300; ++round) {
    const int nodes = 2 + int(rng() % 8);
    std::vector<Edge> edges;
    MinCut cut;
    for (int k = 2; k < nodes; ++k) CHECK(cut.AddNode() == k);
    for (int k = int(rng() % 24); k >= 0; --k) {
      const Edge e{int(rng() % uint64_t(nodes)), int(rng() % uint64_t(nodes)), int64_t(rng() % 9)};
      if (e.from == e.to) continue;
      edges.push_back(e);
      cut.AddEdge(e.from, e.to, e.capacity);
    }
    REQUIRE(cut.Solve(1 << 20));
    int64_t least = MinCut::kInfinite;
    int fewest = nodes;
    for (uint32_t side = 0; side < uint32_t{1} << nodes; ++side) {
      if ((side >> MinCut::kSource & 1) || !(side >> MinCut::kSink & 1)) continue;
      const int64_t cost = CostOf(edges, side);
      int count = 0;
      for (int k = 0; k < nodes; ++k) count += int(side >> k & 1);
      if (cost < least || (cost == least && count < fewest)) least = cost, fewest = count;
    }
    uint32_t found = 0;
    int count = 0;
    for (int k = 0; k < nodes; ++k)
      if (cut.IsWithSink(k)) found |= uint32_t{1} << k, ++count;
    CHECK(CostOf(edges, found) == least);
    CHECK(count == fewest);
  }
}

TEST_CASE("min cut: gives up where it would take too long") {
  MinCut cut;
  int last = MinCut::kSource;
  for (int k = 0; k < 1000; ++k) {
    const int node = cut.AddNode();
    cut.AddEdge(last, node, 5);
    last = node;
  }
  cut.AddEdge(last, MinCut::kSink, 3);
  CHECK_FALSE(cut.Solve(100));
}

}  // namespace
}  // namespace weft
