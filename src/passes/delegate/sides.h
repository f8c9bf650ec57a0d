/// sides.h: which engine takes which node, by what nodes and borders cost.
#pragma once

#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/graph/graph_attr_types.h"

namespace weft {

/// A side of a division: an engine, or our own kernels and calls.
constexpr int kOursSide = -1;

/// What a node of a division belongs to.
struct SidePiece {
  int side = kOursSide;
  int piece = 0;  ///< pieces of one side are regions of their own
  bool operator==(const SidePiece& o) const { return side == o.side && piece == o.piece; }
  bool operator!=(const SidePiece& o) const { return !(*this == o); }
};

/// What the nodes of a graph and tensors that cross borders cost. By the attributes
/// "delegate_costs" and "delegate_border_costs" of the graph where it has them, else by guesses: of
/// a node one that is the same for all sides.
class DivisionCosts {
 public:
  /// By node of `order`: `follows` are computed wherever they are read, so that they cross nothing.
  DivisionCosts(const Graph& graph, const std::vector<NodePtr>& order,
                const std::vector<bool>& follows);

  /// Along which something crosses where its ends are on two sides.
  struct Edge {
    int from, to;  ///< places in the order
    double us;
  };
  const std::vector<Edge>& edges() const { return edges_; }
  size_t size() const { return order_.size(); }
  /// Microseconds of the node at a place of the order.
  double NodeUs(size_t at, int side);

  /// What a division does, whatever a border costs.
  struct Sum {
    double nodes_us = 0;
    int64_t tensors = 0, bytes = 0;  ///< across borders, each once a piece that reads it
  };
  Sum SumOf(const std::vector<SidePiece>& pieces);

 private:
  double BytesOf(const NodeEntry& e) const;
  double GuessOf(const NodePtr& n) const;

  const std::vector<NodePtr>& order_;
  const std::vector<bool>& follows_;
  const ShapeMap& shapes_;
  const TypeMap& types_;
  const NodeMap<Floats> costs_;
  std::vector<double> guesses_;  ///< by place in the order, made when asked
  std::vector<int> at_;          ///< by node id
  std::vector<Edge> edges_;
};

/// By node of the order: an engine, or kOursSide. `candidates`: the engines that may take each, of
/// `engines`. Minimises the time of all nodes and of the borders between them: one engine after
/// another takes from the others what makes the whole cheaper, by a least cut, until nothing moves.
std::vector<int> CheapestSides(DivisionCosts* costs,
                               const std::vector<std::vector<int>>& candidates, size_t engines);

/// The places of an order in `count` consecutive pieces that cost alike on our side: their numbers.
std::vector<int> EqualPieces(DivisionCosts* costs, const std::vector<std::vector<int>>& candidates,
                             int64_t count);

}  // namespace weft
