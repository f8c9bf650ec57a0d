/// if_to_select.cc: IfToSelect. An If between cheap branches computes both and selects.
///   needs      shape, dtype
///   provides   -
///   preserves  -
///   never      computes what may fail, has an effect or draws; what a library does, loops, indices
///   cost       linear in nodes and bodies
///
///   If(c, x) {then: Exp(x); else: x + 1}  ->  Where(c, Exp(x), x + 1)
///
/// A branch is a step of the program, which ends every kernel; a selection is one more operation of
/// the kernel around it. It pays as long as what is computed in vain takes less than the step.
#include <algorithm>

#include "passes/rewrite/inline_body.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

constexpr const char* kBranches[] = {"then_branch", "else_branch"};
/// What a function costs beside an addition, in vectors of a CPU.
constexpr int64_t kOpsOfCall = 10;

/// Operations of one element of the node; negative: it is not to be computed in vain.
int64_t OpsOf(const NodePtr& n, const TypeMap& types) {
  static const auto& code = Op::GetAttr<FCodeGen>("FCodeGen");
  static const auto& domains = Op::GetAttr<FInputDomains>("FInputDomains");
  static const auto& views = Op::GetAttr<TIsView>("TIsView");
  if (views.get(n->op(), false)) return 0;
  const FCodeGen* f = code.find(n->op());
  if (!f || !f->elementwise || domains.find(n->op())) return -1;
  Exprs inputs;
  for (size_t i = 0; i < n->num_inputs(); ++i) {
    const NodeEntry e = n->inputs[i];
    inputs.push_back(e.node ? Expr::Slot(int(i), ValueTypeOf(types[e].dtype)) : Expr());
  }
  int64_t ops = 0;
  for (const ExprNode* x : PostOrder(f->elementwise(n, inputs))) {
    if (x->kind() == ExprKind::kBinary && !IsFloat(x->dtype()) &&
        (x->bin_op() == BinOp::kDiv || x->bin_op() == BinOp::kMod))
      return -1;
    if (x->kind() == ExprKind::kPhilox) return -1;
    ops += x->kind() == ExprKind::kCall ? kOpsOfCall : 1;
  }
  return ops;
}

bool IsPlainTensor(const Type& t) {
  return t.is_tensor() && t.known() && DTypeBits(t.dtype) > 0 && !IsLowBit(t.dtype);
}

/// Operations of the branch; negative: it stays one.
int64_t OpsOf(const Graph& body) {
  const auto& types = body.GetAttr<TypeMap>("dtype");
  const auto& shapes = body.GetAttr<ShapeMap>("shape");
  int64_t all = 0;
  for (const NodePtr& n : body.TopoOrder()) {
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
    if (!IsRepeatable(n) || n->num_outputs() != 1) return -1;
    // What sizes a branch asks for must hold where it is taken, and only there.
    for (const NodeEntry& e : n->inputs)
      if (e.node && (!IsPlainTensor(types[e]) || !shapes[e].is_static())) return -1;
    const Shape& y = shapes[NodeEntry(n)];
    if (!IsPlainTensor(types[NodeEntry(n)]) || !y.is_static()) return -1;
    const int64_t ops = OpsOf(n, types);
    if (ops < 0) return -1;
    const SymInt elements = y.num_elements();
    constexpr int64_t kFar = int64_t{1} << 30;
    if (!elements.is_const() || elements.value() > kFar) return -1;
    all += ops * elements.value();
    if (all > kFar) return -1;
  }
  return all;
}

/// Branches with what they get.
struct Choice {
  std::vector<Graph> branches;

  bool GiveAlike(int condition_rank) const {
    const Graph &a = branches[0], &b = branches[1];
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      const Type t = a.GetAttr<TypeMap>("dtype")[a.outputs[i]];
      const Shape s = a.GetAttr<ShapeMap>("shape")[a.outputs[i]];
      if (!IsPlainTensor(t) || !s.is_static() || s.rank() < condition_rank ||
          b.GetAttr<TypeMap>("dtype")[b.outputs[i]] != t ||
          !b.GetAttr<ShapeMap>("shape")[b.outputs[i]].same(s))
        return false;
    }
    return !a.outputs.empty();
  }
};

bool Select(Graph& g, const NodePtr& n, const ShapeMap& shapes, const TypeMap& types,
            PassContext& ctx) {
  const Shape& condition = shapes[n->inputs[0]];
  if (!condition.is_static() || !condition.num_elements().is(1)) return false;
  Choice choice;
  int64_t ops = 0;
  for (const char* name : kBranches) {
    std::optional<Graph> body = FittingBody(n, name, shapes, types);
    if (!body || !CanInline(*body)) return false;
    const int64_t own = OpsOf(*body);
    if (own < 0) return false;
    ops += own;
    choice.branches.push_back(*std::move(body));
  }
  if (ops > ctx.option<int64_t>("most_ops") || !choice.GiveAlike(condition.rank()) ||
      !ctx.Fuel("selected", n))
    return false;
  const std::vector<NodeEntry> operands(n->inputs.begin() + 1, n->inputs.end());
  std::vector<NodeEntry> of[2], results;
  for (size_t k = 0; k < 2; ++k) of[k] = InlineBody(g, choice.branches[k], operands);
  for (size_t i = 0; i < of[0].size(); ++i)
    results.push_back(of[0][i] == of[1][i]
                          ? of[0][i]
                          : NodeEntry(g.AddNode("Where", {n->inputs[0], of[0][i], of[1][i]})));
  g.ReplaceNode(n, results);
  g.Erase(n);
  ctx.Count("selected");
  return true;
}

Graph IfToSelect(Graph g, PassContext& ctx) {
  std::vector<NodePtr> all;
  for (const NodePtr& n : g.TopoOrder())
    if (IsOp(n, "If")) all.push_back(n);
  if (all.empty()) return g;
  const ShapeMap shapes = g.GetAttr<ShapeMap>("shape");
  const TypeMap types = g.GetAttr<TypeMap>("dtype");
  bool any = false;
  for (const NodePtr& n : all) any = Select(g, n, shapes, types, ctx) || any;
  if (any) g.EraseDead();
  return g;
}

WEFT_REGISTER_PASS(IfToSelect)
    .describe("computes both branches of an If between cheap ones, and selects")
    .set_body(IfToSelect)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .option("most_ops", int64_t{1 << 16}, "operations of both branches together")
    .statistic("selected", "nodes that became selections");

}  // namespace
}  // namespace weft
