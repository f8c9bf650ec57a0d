/// unroll.cc: Unroll. A Scan of few iterations of a small body is its iterations, one after the
/// other.
///   needs      shape, dtype
///   provides   -
///   preserves  -
///   never      copies loops, effects or draws
///   cost       nodes that it makes, bounded by its options
///
///   h, y = Scan(h0, x) {h, v -> h + v, h}  of two slices
///     ->  h1 = h0 + x[0];  h = h1 + x[1];  y = [h0, h1]
///
/// Element-wise iterations are one kernel then, and what stands behind the loop joins it. It pays
/// while an iteration is little more than a step of the program; of larger ones the kernel is worse
/// than theirs: three Sin of 4096 elements after one another took 28.7 us in one loop, 19.3 in
/// three (AVX-512), since each waits for the one before. One iteration alone is no loop.
#include <algorithm>
#include <utility>
#include <vector>

#include "loop_parts.h"
#include "passes/rewrite/inline_body.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

class Unroller {
 public:
  Unroller(Graph& g, const NodePtr& scan, Graph body)
      : g_(g), scan_(scan), body_(std::move(body)) {}

  /// Looks at the graph as it was given; after this it may have changed around the node.
  bool Can(const ShapeMap& shapes, int64_t most_trips, int64_t most_nodes, int64_t most_elements) {
    for (size_t k = 0; k < scan_.slices; ++k) {
      const Shape& x = shapes[scan_.node->inputs[scan_.first_slice() + k]];
      if (!x.has_rank() || x.rank() == 0) return false;
      axes_.push_back(scan_.slice_axis(k, x.rank()));
      const SymInt length = x[int(axes_.back())];
      if (length.known() && length.is_const()) trips_ = length.value();
    }
    int64_t nodes = 0;
    const auto& inside = body_.GetAttr<ShapeMap>("shape");
    for (const NodePtr& n : body_.TopoOrder()) {
      if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
      if (!IsRepeatable(n) || HasControlBodies(n)) return false;
      ++nodes;
      for (uint32_t k = 0; k < n->num_outputs(); ++k) {
        const Shape& y = inside[NodeEntry(n, k)];
        const SymInt elements = y.is_static() ? y.num_elements() : SymInt();
        if (!elements.known() || !elements.is_const()) return false;
        if (trips_ > 1 && elements.value() > most_elements) return false;
        most_elements -= elements.value();
      }
    }
    return trips_ > 0 && trips_ <= most_trips && nodes <= most_nodes / trips_ && CanInline(body_);
  }
  void Apply() {
    const std::vector<NodeEntry> inputs(scan_.node->inputs.begin(), scan_.node->inputs.end());
    std::vector<NodeEntry> states(inputs.begin(), inputs.begin() + long(scan_.states));
    std::vector<std::vector<NodeEntry>> results(scan_.results);
    for (int64_t t = 0; t < trips_; ++t) {
      std::vector<NodeEntry> operands = states;
      for (size_t k = 0; k < scan_.slices; ++k) operands.push_back(SliceAt(k, t));
      operands.insert(operands.end(), inputs.end() - long(scan_.captures), inputs.end());
      const std::vector<NodeEntry> out = InlineBody(g_, body_, operands);
      std::copy(out.begin(), out.begin() + long(scan_.states), states.begin());
      for (size_t k = 0; k < results.size(); ++k) results[k].push_back(out[scan_.states + k]);
    }
    for (size_t k = 0; k < results.size(); ++k) states.push_back(Stacked(k, results[k]));
    ReplaceLoop(g_, scan_.node, states);
  }

 private:
  NodeEntry SliceAt(size_t k, int64_t t) {
    const bool backward = scan_.slice_direction(k) == 1;
    const NodeEntry at =
        g_.AddConstant(Tensor::Scalar(DType::kI64, double(backward ? trips_ - 1 - t : t)));
    return NodeEntry(g_.AddNode("Gather", {scan_.node->inputs[scan_.first_slice() + k], at},
                                {{"axis", axes_[k]}}));
  }
  NodeEntry Stacked(size_t k, std::vector<NodeEntry> all) {
    const int64_t axis = scan_.result_axis(k);
    if (scan_.result_direction(k) == 1) std::reverse(all.begin(), all.end());
    for (NodeEntry& e : all)
      e = NodeEntry(g_.AddNode("Unsqueeze", {e, g_.AddConstant(Tensor::Ints({axis}))}));
    return all.size() == 1 ? all[0] : NodeEntry(g_.AddNode("Concat", all, {{"axis", axis}}));
  }

  Graph& g_;
  const LoopParts scan_;
  const Graph body_;
  int64_t trips_ = 0;
  std::vector<int64_t> axes_;  ///< of the slices
};

Graph Unroll(Graph g, PassContext& ctx) {
  std::vector<Unroller> small;
  const int64_t most_trips = ctx.option<int64_t>("most_trips"),
                most_nodes = ctx.option<int64_t>("most_nodes"),
                most_elements = ctx.option<int64_t>("most_elements");
  for (const NodePtr& n : g.TopoOrder()) {
    if (!IsOp(n, "Scan")) continue;
    const auto& shapes = g.GetAttr<ShapeMap>("shape");
    Unroller unroller(g, n, TypedBody(n, "body", shapes, g.GetAttr<TypeMap>("dtype")));
    if (unroller.Can(shapes, most_trips, most_nodes, most_elements) && ctx.Fuel("unrolled", n))
      small.push_back(std::move(unroller));
  }
  for (Unroller& u : small) u.Apply();
  ctx.Count("unrolled", int64_t(small.size()));
  if (!small.empty()) g.EraseDead();
  return g;
}

WEFT_REGISTER_PASS(Unroll)
    .describe("writes out the iterations of a Scan of few iterations and a small body")
    .set_body(Unroll)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .option("most_trips", int64_t{8}, "iterations of a Scan that is written out")
    .option("most_nodes", int64_t{64}, "nodes that it may become")
    .option("most_elements", int64_t{1024}, "that an iteration computes")
    .statistic("unrolled", "loops");

}  // namespace
}  // namespace weft
