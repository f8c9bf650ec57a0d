/// body_gradient.h: gradients of operators with graphs for attributes (If, Loop, Scan): the
/// gradient of a body as a graph, and the run backwards over the iterations of a body.
#pragma once

#include <set>
#include <vector>

#include "body_util.h"
#include "weft/core/gradient/gradient.h"

namespace weft::ops {

/// A body with its gradients: of the sum of <seeds[k], output k> with respect to its inputs.
struct BodyGradient {
  Graph graph;                       ///< a copy of the body, and what was added to it
  std::vector<NodeEntry> operands;   ///< the inputs of the body in it
  std::vector<NodeEntry> outputs;    ///< the outputs of the body in it
  std::vector<NodeEntry> seeds;      ///< a new input for each output; null where none was asked for
  std::vector<NodeEntry> gradients;  ///< one each operand; null where there is none
};
/// Differentiates `body`, whose inputs have these types and shapes as far as they are known.
BodyGradient DifferentiateBody(const Graph& body, const std::vector<Type>& types,
                               const std::vector<Shape>& shapes, const std::vector<bool>& seeded);
/// What `outputs` need of their graph, as a body of these inputs. Throws kUnsupported, naming
/// `node`, where that holds an operator with effects or a state: it would give another result
/// when it runs again.
GraphPtr ExtractBody(const NodePtr& node, const std::vector<NodeEntry>& inputs,
                     const std::vector<NodeEntry>& outputs);
/// Ids of the variables that `outputs` reach.
std::set<NodeId> VariablesBehind(const std::vector<NodeEntry>& outputs);
/// The types and shapes of the operands of `n` from number `first` on, as gradients know them.
std::vector<Type> KnownTypes(const NodePtr& n, size_t first);
std::vector<Shape> KnownShapes(const NodePtr& n, size_t first);
/// What `entries` of a finished graph reach, added to the graph of `operands`, which take the
/// places of its inputs.
std::vector<NodeEntry> Inlined(const Graph& g, const std::vector<NodeEntry>& entries,
                               const std::vector<NodeEntry>& operands);

/// An operator that runs a body over and over. Inputs of the body are other ones, states, slices
/// and captures, behind which stand the operands of the same numbers; its outputs are other ones,
/// states and results, of which the last two are those of the node.
struct Recurrence {
  NodePtr node;
  /// what is differentiated: that of the node, where all iterations are alike
  const Graph* body = nullptr;
  size_t first_input = 0, first_output = 0;  ///< of the states in the body
  size_t states = 0, slices = 0, captures = 0, results = 0;
  Ints slice_axes, slice_directions, result_axes, result_directions;
  std::vector<Type> types;    ///< of the inputs of the body
  std::vector<Shape> shapes;  ///< of the inputs of the body in the first iteration

  const NodeEntry& operand(size_t input) const { return node->inputs[input]; }
  size_t first_slice() const { return first_input + states; }
  size_t first_capture() const { return first_slice() + slices; }
};
/// Gradients of the operands of `r.node` that are states, slices and captures, from
/// those of its results:
///
///   (s0, x, c) -> Scan(body) -> (sT, y)    with (s, x_t, c) -> (s', y_t)
///   (ds, dc = 0; S, x, dy; c) -> Scan backwards(gradient of body) -> (ds0, dc; dx)
///       with (ds', dc; s, x_t, dy_t; c) -> (ds, dc + dc_t; dx_t)
///
/// S are the states in front of each iteration, and results of products in it, which are not
/// computed again. States through which no gradient comes have no adjoint, captures that have none
/// no sum; what the gradient of the body does not read is not stacked.
std::vector<NodeEntry> RunBackwards(const Recurrence& r, const std::vector<NodeEntry>& dy);

}  // namespace weft::ops
