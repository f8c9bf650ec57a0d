/// layers.h: the results of every node of a graph, as outputs, those in bodies of If, Loop and Scan
/// among them. The graph computes what it did, and whatever runs graphs runs it: a result in the
/// body of a loop is stacked as the loop stacks its own, one in a branch is given by both branches,
/// as zeros where the other one is taken.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"

namespace weft::tool {

/// The graph with every result whose type and shape are known as an output, producers first, but
/// for those that `wanted` (null: all are) leaves out; and what they are called. A result of a node
/// of `g` keeps its id. Bodies are not entered.
Graph ExposeAll(Graph g, std::vector<std::string>* names,
                const std::function<bool(const NodeEntry&)>& wanted = nullptr);

/// One of them; what a body gets anew in each iteration is one, too.
struct Layer {
  std::string name;        ///< "%3 'y' (Tanh)"; in a body "loop_3/body: %3 'y' (Tanh)"
  size_t scope = 0;        ///< Layers::scopes
  EntryKey entry;          ///< of the scope's graph
  int64_t place = 0;       ///< there, in the order of execution
  bool is_given = false;   ///< to a body: no node has computed it
  bool is_output = false;  ///< of the model
};

class Layers {
 public:
  /// Values of a run, by layer, and what it was fed with.
  struct Run {
    const std::vector<TensorPtr>& results;
    const std::map<std::string, TensorPtr>& inputs;
  };
  /// One number for each loop around, outermost first.
  using Iteration = std::vector<int64_t>;

  explicit Layers(Graph g);
  /// Output k is layer k.
  const Graph& graph() const { return graph_; }
  const std::vector<Layer>& all() const { return layers_; }
  /// The entry of a layer, in the graph or body that it is of.
  NodeEntry EntryOf(size_t layer) const;
  /// Iterations of which the runs have a part of the layer, in order.
  std::vector<Iteration> Iterations(size_t layer, const Run& a, const Run& b) const;
  /// What an iteration gave for it; null: it ran another branch.
  TensorPtr Part(size_t layer, const Iteration& iteration, const Run& run) const;
  /// What an iteration had for an entry of the graph or body that `layer` is of; null: that is no
  /// layer.
  TensorPtr Operand(size_t layer, const NodeEntry& e, const Iteration& iteration,
                    const Run& run) const;
  /// Sorts layers and iterations as they ran.
  std::vector<int64_t> Order(size_t layer, const Iteration& iteration) const;

 private:
  /// The graph, or a body.
  struct Scope {
    GraphPtr graph;    ///< null: the graph itself
    std::string name;  ///< "loop_3/body"
    size_t parent = 0;
    size_t loops = 0;  ///< around its nodes
    bool is_loop = false;
    std::ptrdiff_t branch = -1;  ///< the layer that says which branch was taken
    bool taken_where = false;
    std::map<EntryKey, size_t> layers;    ///< by entry
    std::map<NodeId, EntryKey> captured;  ///< by input: an entry of the parent's graph
    std::vector<int64_t> place;           ///< of its node, from the outermost graph on
  };
  class Exposer;
  const Graph& GraphOf(const Scope& s) const { return s.graph ? *s.graph : graph_; }
  TensorPtr Value(size_t scope, EntryKey e, const Iteration& iteration, const Run& run) const;

  Graph graph_;
  std::vector<Layer> layers_;
  std::vector<Scope> scopes_;
};

}  // namespace weft::tool
