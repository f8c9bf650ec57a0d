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
#include <unordered_map>

#include "body_exit.h"
#include "weft/codegen/expr/op_codegen.h"
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

bool IsProduct(const NodePtr& n) { return IsOp(n, "MatMul") || IsOp(n, "Gemm"); }

/// The operator computes the same over all steps, the steps on a new first axis of its slices.
class Batcher {
 public:
  Batcher(Graph& g, BodyExit& exit)
      : g_(g), exit_(exit), shapes_(exit.body().GetAttr<ShapeMap>("shape")) {}

  bool Can(const NodePtr& n, const std::set<NodeId>& leaving) const {
    if (n->is_variable() || n->num_outputs() != 1 || !IsRepeatable(n)) return false;
    bool any = false;
    for (const NodeEntry& e : n->inputs) {
      if (!e.node || !shapes_[e].has_rank()) return false;
      const bool sliced = IsSliced(e, leaving);
      if (!sliced && exit_.role(e) != BodyRole::kInvariant) return false;
      any = any || sliced;
    }
    return any && (IsProduct(n) ? CanMultiply(n, leaving) : CanApply(n, leaving));
  }

  NodeEntry Make(const NodePtr& n) {
    std::vector<NodeEntry> in;
    for (const NodeEntry& e : n->inputs) in.push_back(exit_.outside(e));
    if (!IsOp(n, "Gemm")) return NodeEntry(g_.AddCopy(n, in));
    const NodeEntry b = n->attr<int64_t>("transB")
                            ? NodeEntry(g_.AddNode("Transpose", {in[1]}, {{"perm", Ints{1, 0}}}))
                            : in[1];
    const NodeEntry y(g_.AddNode("MatMul", {in[0], b}));
    return in.size() > 2 ? NodeEntry(g_.AddNode("Add", {y, in[2]})) : y;
  }

 private:
  bool IsSliced(const NodeEntry& e, const std::set<NodeId>& leaving) const {
    return leaving.count(e.node->id()) || exit_.role(e) == BodyRole::kSlice;
  }
  /// Element-wise: operands are aligned from the last axis, so a slice needs all axes of the
  /// result.
  bool CanApply(const NodePtr& n, const std::set<NodeId>& leaving) const {
    static const auto& code = Op::GetAttr<FCodeGen>("FCodeGen");
    const FCodeGen* f = code.find(n->op());
    const Shape& result = shapes_[NodeEntry(n)];
    if (!f || !f->elementwise || !result.has_rank()) return false;
    const int rank = result.rank();
    return std::all_of(n->inputs.begin(), n->inputs.end(), [&](const NodeEntry& e) {
      const int own = shapes_[e].rank();
      return IsSliced(e, leaving) ? own == rank : own <= rank;
    });
  }
  /// Rows of a slice by an invariant matrix, or the other way round.
  bool CanMultiply(const NodePtr& n, const std::set<NodeId>& leaving) const {
    const bool left = IsSliced(n->inputs[0], leaving), right = IsSliced(n->inputs[1], leaving);
    const int rows = shapes_[n->inputs[0]].rank(), columns = shapes_[n->inputs[1]].rank();
    if (IsOp(n, "MatMul"))
      return left != right && (left ? columns == 2 : rows == 2 && columns == 2);
    if (!left || right || n->attr<int64_t>("transA") || n->attr<double>("alpha") != 1) return false;
    if (n->num_inputs() < 3) return true;
    const Shape& c = shapes_[n->inputs[2]];
    return n->attr<double>("beta") == 1 && !IsSliced(n->inputs[2], leaving) &&
           (c.rank() < 2 || c[0].is(1));
  }

  Graph& g_;
  BodyExit& exit_;
  const ShapeMap& shapes_;
};

/// Of the nodes that can leave, producers first: products, what they are made of, and what follows
/// them.
std::vector<NodePtr> WithProducts(const std::vector<NodePtr>& can_leave) {
  std::set<NodeId> wanted;
  for (const NodePtr& n : can_leave) {
    const bool follows = std::any_of(n->inputs.begin(), n->inputs.end(), [&](const NodeEntry& e) {
      return wanted.count(e.node->id()) != 0;
    });
    if (IsProduct(n) || follows) wanted.insert(n->id());
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
  Batcher batcher(exit.graph(), exit);
  std::set<NodeId> leaving;
  std::vector<NodePtr> can_leave;
  for (NodePtr n : exit.body().TopoOrder()) {
    if (!batcher.Can(n, leaving)) continue;
    leaving.insert(n->id());
    can_leave.push_back(n);
  }
  bool any = false;
  for (const NodePtr& n : WithProducts(can_leave)) {
    if (!ctx.Fuel("batched", n)) break;
    exit.Leave(n, batcher.Make(n), BodyRole::kSlice);
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
