/// fold_constants.cc: FoldConstants. Evaluates what depends on constants only.
///   needs      shape, dtype
///   provides   -
///   preserves  rows of what stays; results get theirs by inference
///   never      folds an effect, a random draw, what would grow the model past the budget, or a
///              weight of few bits that the target's products read as it is (FoldDequantize)
///   cost       the evaluation itself, bounded by Limits::folded_bytes_*
#include <algorithm>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// Small results always; larger ones only when they are not much more than what
/// they were made from.
bool WithinBudget(int64_t bytes, int64_t input_bytes, int64_t total, const Limits& limits) {
  constexpr int64_t kAlways = int64_t{1} << 16, kGrowth = 2;
  if (bytes > limits.folded_bytes_each || total + bytes > limits.folded_bytes_total) return false;
  return bytes <= kAlways || bytes <= kGrowth * input_bytes;
}

/// Do nothing but products read it, as their second operand, transposed or not?
bool OnlyProductsRead(const NodePtr& n, bool transposed = false) {
  return std::all_of(n->uses().begin(), n->uses().end(), [&](const Use& u) {
    const NodePtr user(u.user);
    if (u.control) return false;
    if (IsOp(user, "MatMul") || IsOp(user, "Gemm")) return u.slot == 1;
    return !transposed && IsOp(user, "Transpose") && OnlyProductsRead(user, true);
  });
}
bool StaysInFewBits(const Graph& g, const NodePtr& n, const Target& target) {
  if (!IsOp(n, "DequantizeLinear") || g.is_output(n)) return false;
  const TensorPtr codes = Graph::ConstantOf(n->inputs[0]);
  return target.has_call("weft::DequantizedMatMul") && codes && codes->rank() == 2 &&
         DTypeBits(codes->dtype()) <= 8 && OnlyProductsRead(n);
}

Graph FoldConstants(Graph g, PassContext& ctx) {
  const Evaluator* evaluator = GetEvaluator();
  WEFT_CHECK(evaluator, kUnsupported, "FoldConstants needs an evaluator, and none is registered");
  const ShapeMap shapes = g.GetAttr<ShapeMap>("shape");
  const TypeMap types = g.GetAttr<TypeMap>("dtype");
  int64_t total = 0;
  for (NodePtr n : g.TopoOrder()) {
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n)) || n->num_inputs() == 0 ||
        !IsRepeatable(n))
      continue;
    std::vector<TensorPtr> inputs;
    int64_t input_bytes = 0, bytes = 0;
    bool ready = true;
    for (const NodeEntry& e : n->inputs) {
      inputs.push_back(e.node ? Graph::ConstantOf(e) : nullptr);
      if (e.node && !inputs.back()) ready = false;
      if (inputs.back()) input_bytes += inputs.back()->num_bytes();
    }
    for (uint32_t i = 0; ready && i < n->num_outputs(); ++i) {
      const Shape& s = shapes[NodeEntry(n, i)];
      const Type t = types[NodeEntry(n, i)];
      ready = s.is_static() && t.is_tensor() && DTypeBits(t.dtype) > 0;
      if (ready) bytes += DTypeBytes(t.dtype, NumElements(s.ints()));
    }
    if (!ready || !WithinBudget(bytes, input_bytes, total, ctx.limits()) ||
        !evaluator->WhyNot(n).empty() || StaysInFewBits(g, n, ctx.target()))
      continue;
    if (!ctx.Fuel("fold", n)) break;
    ctx.cancel().Check();
    const std::vector<TensorPtr> results = evaluator->EvalNode(n, inputs, {});
    total += bytes;
    std::vector<NodeEntry> to;
    for (const TensorPtr& t : results) to.push_back(g.AddConstant(t));
    g.ReplaceNode(n, to);
    ctx.Count("folded");
  }
  // Sizes that were data may be known by the values: what mentions them is inferred anew.
  if (total > 0 && g.HasAttr("introduced"))
    for (const char* rows : {"shape", "value"}) g.DropAttr(rows);
  ctx.Count("bytes", total);
  ctx.Count("dead", g.EraseDead());
  return g;
}

WEFT_REGISTER_PASS(FoldConstants)
    .describe("evaluates what depends on constants only, within a size budget")
    .set_body(FoldConstants)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .statistic("folded", "nodes replaced by their value")
    .rewrite("fold", "a node replaced by its value")
    .statistic("bytes", "bytes of the constants made")
    .statistic("dead", "nodes that nothing uses any more");

}  // namespace
}  // namespace weft
