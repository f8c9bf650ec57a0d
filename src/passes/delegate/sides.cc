/// sides.cc: see sides.h.
///
/// A cut chooses, for every node that engine k may take, between k and the side it is on. Along an
/// edge between two nodes, of which x and y say that they take k, the border costs w where the
/// sides differ then: w |x - y| where they are on one side now, w (1 - x y) where they are not.
/// Both are costs of nodes and of edges with a direction, so a least cut is the best choice.
#include "sides.h"

#include <algorithm>
#include <cmath>

#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/flops.h"
#include "weft/core/plan/storage.h"
#include "weft/support/min_cut.h"

namespace weft {
namespace {

constexpr int kOurs = -1;
/// Of a machine of two cores, where nobody has measured: operations and bytes a microsecond.
constexpr double kFlops = 1e5, kBytes = 1e4;
/// What a tensor that crosses a border costs: its share of a call, that two teams of threads take
/// turns, and that it is read again by who may have kept it in blocks or registers. Microseconds;
/// with 5 an encoder was cut in pieces that took twice the time.
constexpr double kCall = 40;
constexpr int64_t kMostWork = int64_t{1} << 28, kMostRounds = 8;

class Sides {
 public:
  Sides(const Graph& g, const std::vector<NodePtr>& order,
        const std::vector<std::vector<int>>& candidates, size_t engines)
      : order_(order),
        candidates_(candidates),
        engines_(engines),
        shapes_(g.GetAttr<ShapeMap>("shape")),
        types_(g.GetAttr<TypeMap>("dtype")),
        costs_(g.AttrOr<NodeMap<Floats>>("delegate_costs")),
        guesses_(order.size(), -1),
        sides_(order.size(), kOurs),
        at_(g.id_bound(), -1) {
    for (size_t i = 0; i < order.size(); ++i) at_[order[i]->id()] = int(i);
    for (size_t i = 0; i < order.size(); ++i)
      for (const NodeEntry& e : order[i]->inputs) {
        if (!e.node || e.node->is_variable() || Graph::ConstantOf(e)) continue;
        if (const double w = BorderCost(e); w > 0)
          edges_.push_back({at_[e.node->id()], int(i), int64_t(w * 1000)});
      }
  }

  std::vector<int> Run() {
    for (int64_t round = 0; round < kMostRounds; ++round) {
      bool moved = false;
      for (int k = kOurs; k < int(engines_); ++k) moved = Expand(k) || moved;
      if (!moved) break;
    }
    return sides_;
  }

 private:
  struct Edge {
    int from, to;
    int64_t cost;  // nanoseconds, where its ends are on two sides
  };

  double BytesOf(const NodeEntry& e) const {
    const SymInt bytes = ArenaBytes(types_[e], shapes_[e]);
    return bytes.known() && bytes.is_const() ? double(bytes.value()) : 0;
  }
  double BorderCost(const NodeEntry& e) const { return kCall + 2 * BytesOf(e) / kBytes; }
  double Guess(const NodePtr& n) const {
    double bytes = 0, flops = 0;
    for (const NodeEntry& e : n->inputs)
      if (e.node) bytes += BytesOf(e);
    for (uint32_t i = 0; i < n->num_outputs(); ++i) bytes += BytesOf(NodeEntry(n, i));
    for (SymInt f : FlopsOfAll(n, shapes_))
      if (f.known() && f.is_const()) flops += double(f.value());
    return bytes / kBytes + flops / kFlops;
  }
  /// Nanoseconds.
  int64_t CostOf(size_t i, int side) {
    const Floats* row = costs_.find(order_[i]);
    const size_t column = size_t(side + 1);
    const double us = row && column < row->size() ? (*row)[column] : -1;
    if (us < 0 && guesses_[i] < 0) guesses_[i] = Guess(order_[i]);
    return int64_t(std::llround(1000 * (us >= 0 ? us : guesses_[i])));
  }
  bool MayTake(size_t i, int side) const {
    if (candidates_[i].empty()) return false;
    return side == kOurs || std::count(candidates_[i].begin(), candidates_[i].end(), side) != 0;
  }

  /// Nodes take side k where the whole becomes cheaper so; true: some did.
  bool Expand(int k) {
    MinCut cut;
    std::vector<int> node(order_.size(), -1);
    std::vector<int64_t> stays(order_.size(), 0), takes(order_.size(), 0);
    for (size_t i = 0; i < order_.size(); ++i) {
      if (sides_[i] == k || !MayTake(i, k)) continue;
      node[i] = cut.AddNode();
      stays[i] = CostOf(i, sides_[i]);
      takes[i] = CostOf(i, k);
    }
    for (const Edge& e : edges_) {
      const int a = node[size_t(e.from)], b = node[size_t(e.to)];
      const int from = sides_[size_t(e.from)], to = sides_[size_t(e.to)];
      if (a < 0 && b < 0) continue;
      if (a >= 0 && b >= 0 && from == to) {
        cut.AddEdge(a, b, e.cost);
        cut.AddEdge(b, a, e.cost);
      } else if (a >= 0 && b >= 0) {
        stays[size_t(e.from)] += e.cost;
        cut.AddEdge(b, a, e.cost);
      } else {
        const size_t free = size_t(a >= 0 ? e.from : e.to);
        const int fixed = a >= 0 ? to : from;
        if (fixed == sides_[free])
          takes[free] += e.cost;
        else if (fixed == k)
          stays[free] += e.cost;
      }
    }
    // With the sink: takes k. Of equally cheap cuts the one that moves the fewest.
    for (size_t i = 0; i < order_.size(); ++i) {
      if (node[i] < 0) continue;
      cut.AddEdge(MinCut::kSource, node[i], takes[i]);
      cut.AddEdge(node[i], MinCut::kSink, stays[i]);
    }
    if (!cut.Solve(kMostWork)) return false;
    bool moved = false;
    for (size_t i = 0; i < order_.size(); ++i)
      if (node[i] >= 0 && cut.IsWithSink(node[i])) sides_[i] = k, moved = true;
    return moved;
  }

  const std::vector<NodePtr>& order_;
  const std::vector<std::vector<int>>& candidates_;
  const size_t engines_;
  const ShapeMap& shapes_;
  const TypeMap& types_;
  const NodeMap<Floats> costs_;
  std::vector<double> guesses_;  ///< by place in the order, made when asked; microseconds
  std::vector<int> sides_, at_;
  std::vector<Edge> edges_;
};

}  // namespace

std::vector<int> CheapestSides(const Graph& graph, const std::vector<NodePtr>& order,
                               const std::vector<std::vector<int>>& candidates,
                               const std::vector<DelegateSpec>& engines) {
  return Sides(graph, order, candidates, engines.size()).Run();
}

}  // namespace weft
