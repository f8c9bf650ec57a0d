/// sides.cc: see sides.h.
///
/// A cut chooses, for every node that engine k may take, between k and the side it is on. Along an
/// edge between two nodes, of which x and y say that they take k, the border costs w where the
/// sides differ then: w |x - y| where they are on one side now, w (1 - x y) where they are not.
/// Both are costs of nodes and of edges with a direction, so a least cut is the best choice.
#include "sides.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "weft/core/op/flops.h"
#include "weft/core/plan/storage.h"
#include "weft/support/min_cut.h"

namespace weft {
namespace {

/// Of a machine of two cores, where nobody has measured: operations and bytes a microsecond.
constexpr double kFlops = 1e5, kBytes = 1e4;
/// What a tensor that crosses a border costs where nobody has measured: its share of a call, that
/// two teams of threads take turns, and that it is read again by who may have kept it in blocks or
/// registers. Microseconds, and for a MiB; with 5 an encoder was cut in pieces that took twice the
/// time.
constexpr double kCall = 40, kMiB = 1 << 20, kPerMiB = 2 * kMiB / kBytes;
constexpr int64_t kMostWork = int64_t{1} << 28, kMostRounds = 8;

/// Looks for the cheapest sides.
class Search {
 public:
  Search(DivisionCosts* costs, const std::vector<std::vector<int>>& candidates, size_t engines)
      : costs_(*costs),
        candidates_(candidates),
        engines_(engines),
        sides_(costs->size(), kOursSide) {}

  std::vector<int> Run() {
    for (int64_t round = 0; round < kMostRounds; ++round) {
      bool moved = false;
      for (int k = kOursSide; k < int(engines_); ++k) moved = Expand(k) || moved;
      if (!moved) break;
    }
    return sides_;
  }

 private:
  static int64_t Nanoseconds(double us) { return int64_t(std::llround(1000 * us)); }
  bool MayTake(size_t i, int side) const {
    if (candidates_[i].empty()) return false;
    return side == kOursSide || std::count(candidates_[i].begin(), candidates_[i].end(), side) != 0;
  }

  /// Nodes take side k where the whole becomes cheaper so; true: some did.
  bool Expand(int k) {
    MinCut cut;
    std::vector<int> node(sides_.size(), -1);
    std::vector<int64_t> stays(sides_.size(), 0), takes(sides_.size(), 0);
    for (size_t i = 0; i < sides_.size(); ++i) {
      if (sides_[i] == k || !MayTake(i, k)) continue;
      node[i] = cut.AddNode();
      stays[i] = Nanoseconds(costs_.NodeUs(i, sides_[i]));
      takes[i] = Nanoseconds(costs_.NodeUs(i, k));
    }
    for (const DivisionCosts::Edge& e : costs_.edges()) {
      const int a = node[size_t(e.from)], b = node[size_t(e.to)];
      const int from = sides_[size_t(e.from)], to = sides_[size_t(e.to)];
      const int64_t cost = Nanoseconds(e.us);
      if (a < 0 && b < 0) continue;
      if (a >= 0 && b >= 0 && from == to) {
        cut.AddEdge(a, b, cost);
        cut.AddEdge(b, a, cost);
      } else if (a >= 0 && b >= 0) {
        stays[size_t(e.from)] += cost;
        cut.AddEdge(b, a, cost);
      } else {
        const size_t free = size_t(a >= 0 ? e.from : e.to);
        const int fixed = a >= 0 ? to : from;
        if (fixed == sides_[free])
          takes[free] += cost;
        else if (fixed == k)
          stays[free] += cost;
      }
    }
    // With the sink: takes k. Of equally cheap cuts the one that moves the fewest.
    for (size_t i = 0; i < sides_.size(); ++i) {
      if (node[i] < 0) continue;
      cut.AddEdge(MinCut::kSource, node[i], takes[i]);
      cut.AddEdge(node[i], MinCut::kSink, stays[i]);
    }
    if (!cut.Solve(kMostWork)) return false;
    bool moved = false;
    for (size_t i = 0; i < sides_.size(); ++i)
      if (node[i] >= 0 && cut.IsWithSink(node[i])) sides_[i] = k, moved = true;
    return moved;
  }

  DivisionCosts& costs_;
  const std::vector<std::vector<int>>& candidates_;
  const size_t engines_;
  std::vector<int> sides_;
};

}  // namespace

DivisionCosts::DivisionCosts(const Graph& g, const std::vector<NodePtr>& order,
                             const std::vector<bool>& follows)
    : order_(order),
      follows_(follows),
      shapes_(g.GetAttr<ShapeMap>("shape")),
      types_(g.GetAttr<TypeMap>("dtype")),
      costs_(g.AttrOr<NodeMap<Floats>>("delegate_costs")),
      guesses_(order.size(), -1),
      at_(g.id_bound(), -1) {
  const auto border = g.AttrOr<Floats>("delegate_border_costs");
  const double call = border.size() == 2 ? border[0] : kCall;
  const double per_mib = border.size() == 2 ? border[1] : kPerMiB;
  for (size_t i = 0; i < order.size(); ++i) at_[order[i]->id()] = int(i);
  for (size_t i = 0; i < order.size(); ++i)
    for (const NodeEntry& e : order[i]->inputs) {
      if (!e.node || e.node->is_variable() || Graph::ConstantOf(e)) continue;
      const int from = at_[e.node->id()];
      if (follows[size_t(from)] || follows[i]) continue;
      if (const double us = call + per_mib * BytesOf(e) / kMiB; us > 0)
        edges_.push_back({from, int(i), us});
    }
}

double DivisionCosts::BytesOf(const NodeEntry& e) const {
  const SymInt bytes = ArenaBytes(types_[e], shapes_[e]);
  return bytes.known() && bytes.is_const() ? double(bytes.value()) : 0;
}

double DivisionCosts::GuessOf(const NodePtr& n) const {
  double bytes = 0, flops = 0;
  for (const NodeEntry& e : n->inputs)
    if (e.node) bytes += BytesOf(e);
  for (uint32_t i = 0; i < n->num_outputs(); ++i) bytes += BytesOf(NodeEntry(n, i));
  for (SymInt f : FlopsOfAll(n, shapes_))
    if (f.known() && f.is_const()) flops += double(f.value());
  return bytes / kBytes + flops / kFlops;
}

double DivisionCosts::NodeUs(size_t at, int side) {
  const Floats* row = costs_.find(order_[at]);
  const size_t column = size_t(side + 1);
  const double us = row && column < row->size() ? (*row)[column] : -1;
  if (us < 0 && guesses_[at] < 0) guesses_[at] = GuessOf(order_[at]);
  return us >= 0 ? us : guesses_[at];
}

DivisionCosts::Sum DivisionCosts::SumOf(const std::vector<SidePiece>& pieces) {
  Sum sum;
  std::set<std::tuple<EntryKey, int, int>> crossed;  // and who reads it
  for (size_t i = 0; i < order_.size(); ++i) {
    if (order_[i]->is_variable() || Graph::ConstantOf(NodeEntry(order_[i])) || follows_[i])
      continue;
    sum.nodes_us += NodeUs(i, pieces[i].side);
    for (const NodeEntry& e : order_[i]->inputs) {
      if (!e.node || e.node->is_variable() || Graph::ConstantOf(e)) continue;
      const size_t from = size_t(at_[e.node->id()]);
      if (follows_[from] || pieces[from] == pieces[i]) continue;
      if (!crossed.emplace(e.key(), pieces[i].side, pieces[i].piece).second) continue;
      ++sum.tensors;
      sum.bytes += int64_t(BytesOf(e));
    }
  }
  return sum;
}

std::vector<int> CheapestSides(DivisionCosts* costs,
                               const std::vector<std::vector<int>>& candidates, size_t engines) {
  return Search(costs, candidates, engines).Run();
}

std::vector<int> EqualPieces(DivisionCosts* costs, const std::vector<std::vector<int>>& candidates,
                             int64_t count) {
  const auto us = [&](size_t i) { return candidates[i].empty() ? 0 : costs->NodeUs(i, kOursSide); };
  count = std::min<int64_t>(count, std::numeric_limits<int>::max());
  double all = 0, before = 0;
  for (size_t i = 0; i < costs->size(); ++i) all += us(i);
  std::vector<int> pieces(costs->size(), 0);
  for (size_t i = 0; i < costs->size(); ++i) {
    // By the middle of a node, so that a large one falls into the piece that has most of it.
    const double middle = before + us(i) / 2;
    before += us(i);
    pieces[i] =
        all > 0 ? int(std::min<double>(double(count - 1), double(count) * middle / all)) : 0;
  }
  return pieces;
}

}  // namespace weft
