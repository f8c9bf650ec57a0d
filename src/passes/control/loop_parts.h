/// loop_parts.h: what the operands of a Loop or Scan, the inputs and the outputs of its body are.
#pragma once

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph.h"

namespace weft {

/// Operands and inputs of the body, in one order: of a Loop the number and the condition, then of
/// both states, slices (none of a Loop), captures. Outputs of the body: of a Loop the condition,
/// then of both states and results, which are the outputs of the node.
struct LoopParts {
  explicit LoopParts(const NodePtr& loop)
      : node(loop),
        is_scan(IsOp(loop, "Scan")),
        first_state(is_scan ? 0 : 2),
        first_output(is_scan ? 0 : 1),
        slices(is_scan ? size_t(loop->attr<int64_t>("num_scan_inputs")) : 0),
        captures(size_t(loop->attr<int64_t>("num_captures"))),
        states(loop->num_inputs() - first_state - slices - captures),
        results(loop->num_outputs() - states) {}

  NodePtr node;
  bool is_scan;
  size_t first_state, first_output;
  size_t slices, captures, states, results;

  size_t first_slice() const { return first_state + states; }
  size_t first_capture() const { return first_slice() + slices; }
  size_t first_result() const { return first_output + states; }  ///< of the body's outputs
  int64_t slice_axis(size_t k) const { return Entry("scan_input_axes", k); }
  /// From the front, of an operand of that rank.
  int slice_axis(size_t k, int rank) const {
    const auto axis = int(slice_axis(k));
    return axis < 0 ? axis + rank : axis;
  }
  int64_t slice_direction(size_t k) const { return Entry("scan_input_directions", k); }
  int64_t result_axis(size_t k) const { return Entry("scan_output_axes", k); }
  int64_t result_direction(size_t k) const { return Entry("scan_output_directions", k); }

 private:
  /// Of a list that may be left out or too short: zeros stand behind it.
  int64_t Entry(const char* list, size_t k) const {
    if (!node->has_attr(list)) return 0;
    const Ints& all = node->attr<Ints>(list);
    return k < all.size() ? all[k] : 0;
  }
};

/// `to` takes the place of the outputs of a loop, which goes at once: one with an effect would live
/// on, and run too.
inline void ReplaceLoop(Graph& g, const NodePtr& loop, const std::vector<NodeEntry>& to) {
  g.ReplaceNode(loop, to);
  g.Erase(loop);
}
/// The same of a node with as many outputs.
inline void ReplaceLoop(Graph& g, const NodePtr& loop, const NodePtr& made) {
  std::vector<NodeEntry> to;
  for (uint32_t k = 0; k < loop->num_outputs(); ++k) to.emplace_back(made, k);
  ReplaceLoop(g, loop, to);
}

/// Sets a list of `scan_...` axes or directions, or takes it away where it says what is the case
/// without it.
inline void SetScanList(AttrDict* attrs, const char* name, Ints list) {
  attrs->erase(name);
  for (int64_t v : list)
    if (v != 0) {
      (*attrs)[name] = std::move(list);
      return;
    }
}

}  // namespace weft
