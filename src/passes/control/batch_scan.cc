/// batch_scan.cc: BatchScan. Products that the body of a Scan computes of its slices alone are one
/// product over all steps, in front of it.
///   needs      shape, dtype
///   provides   -
///   preserves  -
///   never      moves element-wise operators by themselves: in the loop a kernel that runs anyway
///              computes them on the way, outside they would go through memory
///   cost       linear in nodes and bodies
///
///   Scan(h, x) {Tanh(MatMul(x_t, %w) + MatMul(h, %r))}
///     ->  Scan(h, MatMul(x, %w)) {Tanh(xw_t + MatMul(h, %r))}
///
/// A step of a recurrent network multiplies a vector, or a few, which takes as long as to read the
/// matrix. Over all steps it is read once.
#include <algorithm>
#include <set>

#include "body_exit.h"
#include "over_steps.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

/// Slices lie on the first axis and come in one direction.
bool SlicesAreAlike(const NodePtr& scan) {
  const auto all_equal = [&](const char* name, bool zero) {
    if (!scan->has_attr(name)) return true;
    const Ints& list = scan->attr<Ints>(name);
    return std::all_of(list.begin(), list.end(), [&](int64_t v) {
      return zero ? v == 0
                  : v == list.front() &&
                        (v == 0 || int64_t(list.size()) == scan->attr<int64_t>("num_scan_inputs"));
    });
  };
  return all_equal("scan_input_axes", true) && all_equal("scan_input_directions", false);
}

/// Of the nodes that can leave, producers first: products, what they are made of, and what follows
/// them.
std::vector<NodePtr> WithProducts(const std::vector<NodePtr>& can_leave) {
  std::set<NodeId> wanted;
  for (const NodePtr& n : can_leave) {
    const bool follows = std::any_of(n->inputs.begin(), n->inputs.end(), [&](const NodeEntry& e) {
      return wanted.count(e.node->id()) != 0;
    });
    if (IsMatrixProduct(n) || follows) wanted.insert(n->id());
  }
  for (size_t i = can_leave.size(); i-- > 0;)
    if (wanted.count(can_leave[i]->id()))
      for (const NodeEntry& e : can_leave[i]->inputs) wanted.insert(e.node->id());
  std::vector<NodePtr> out;
  for (const NodePtr& n : can_leave)
    if (wanted.count(n->id())) out.push_back(n);
  return out;
}

bool Batch(const NodePtr& scan, BodyExit& exit, PassContext& ctx) {
  if (!SlicesAreAlike(scan)) return false;
  const ShapeMap shapes = exit.body().GetAttr<ShapeMap>("shape");
  std::set<NodeId> leaving;
  const auto is_stacked = [&](const NodeEntry& e) {
    return leaving.count(e.node->id()) != 0 || exit.role(e) == BodyRole::kSlice;
  };
  const auto can_leave = [&](const NodePtr& n) {
    return !n->is_variable() && IsRepeatable(n) &&
           std::all_of(n->inputs.begin(), n->inputs.end(),
                       [&](const NodeEntry& e) {
                         return e.node && (is_stacked(e) || exit.role(e) == BodyRole::kInvariant);
                       }) &&
           CanRunOverSteps(n, shapes, is_stacked);
  };
  std::vector<NodePtr> nodes;
  for (NodePtr n : exit.body().TopoOrder()) {
    if (!can_leave(n)) continue;
    leaving.insert(n->id());
    nodes.push_back(n);
  }
  bool any = false;
  for (const NodePtr& n : WithProducts(nodes)) {
    if (!ctx.Fuel("batched", n)) break;
    std::vector<NodeEntry> operands;
    for (const NodeEntry& e : n->inputs) operands.push_back(exit.outside(e));
    exit.Leave(n, RunOverSteps(exit.graph(), n, operands), BodyRole::kSlice);
    ctx.Count("batched");
    any = true;
  }
  return any;
}

Graph BatchScan(Graph g, PassContext& ctx) {
  return LeaveLoops(std::move(g), {"Scan"},
                    [&](const NodePtr& scan, BodyExit& exit) { return Batch(scan, exit, ctx); });
}

WEFT_REGISTER_PASS(BatchScan)
    .describe("multiplies all slices of a Scan at once, in front of it")
    .set_body(BatchScan)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .statistic("batched", "nodes that left a body");

}  // namespace
}  // namespace weft
