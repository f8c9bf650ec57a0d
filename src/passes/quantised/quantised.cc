/// quantised.cc: Quantised. Networks of 8-bit numbers compute in 8-bit numbers.
///   needs      shape, dtype
///   provides   -
///   preserves  shape, dtype
///   never      changes anything for a target whose library lacks these calls; takes a chain whose
///              scales are not constant, above zero and finite (but those of MatMulInteger and
///              ConvInteger, which may be data), whose sums might leave i32, or a part of which
///              something else reads
///   cost       linear in the nodes
///   source     QDQ graphs of ONNX Runtime's quantiser; integer-only inference (Jacob et al.,
///              arXiv:1712.05877)
///
///   before  %a = DequantizeLinear(%x, 0.1, 7)   %b = DequantizeLinear(%w, 0.2)
///           %c = Conv(%a, %b, %bias)  %d = Relu(%c)  %y = QuantizeLinear(%d, 0.5, 3)
///   after   %y = weft::QuantizedConv(%x, %w, [0.1 * 0.2 / 0.5], 7, _, bias) {zero = 3, low = 3}
///
/// The integer definition, equal on every machine to the last bit (ops/quant/quantized_call.cc):
///   - sums of (x - x_zero) (w - w_zero) in i32, exact; a bias in i32, in units of x_scale *
///     w_scale (to 2^-21, as quantisers round that product), is added to them;
///   - a result in floats is f32(sum) * (x_scale * w_scale), plus a bias that is a float;
///   - a result of 8 bits is round(f32(sum) * (x_scale * w_scale / y_scale), plus bias / y_scale),
///     ties to even, plus y_zero, saturated: QLinearConv of the standard. Relu and Clip between are
///     bounds of the integer, since rounding keeps order.
/// The float form rounds at every step instead, so that a result may be the next integer.
///
/// Operators that only move elements, or choose among them (MaxPool), between a DequantizeLinear
/// and a QuantizeLinear of equal scales move the 8-bit numbers themselves; a QuantizeLinear of what
/// a DequantizeLinear with equal scales gives is what that has read. Both are exact.
#include "codes.h"
#include "products.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/quantized_operands.h"
#include "weft/core/target.h"

namespace weft {
namespace {

using quantised::CodesOf;
using quantised::RoundedBy;

class Quantiser {
 public:
  Quantiser(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), edit_(g) {}

  void Run() {
    if (!ctx_.target().has_call("weft::QuantizedConv") ||
        !ctx_.target().has_call("weft::QuantizedMatMul"))
      return;
    for (const NodePtr& n : g_.TopoOrder())
      if (!n->is_variable() && IsOp(n, "QuantizeLinear")) MoveCodes(n);
    for (const NodePtr& n : g_.TopoOrder()) {
      if (n->is_variable()) continue;
      using quantised::RewriteDequantised;
      if (IsOp(n, "Conv") || IsOp(n, "MatMul") || IsOp(n, "Gemm"))
        RewriteDequantised(g_, edit_, ctx_, n);
      else if (IsOp(n, "QLinearConv") || IsOp(n, "QLinearMatMul"))
        quantised::RewriteQLinear(g_, edit_, ctx_, n);
      else if (IsOp(n, "ConvInteger") || IsOp(n, "MatMulInteger"))
        quantised::RewriteInteger(g_, edit_, ctx_, n);
    }
  }

 private:
  void MoveCodes(const NodePtr& n) {
    const auto to = RoundedBy(edit_, n);
    if (!to || !to->by.single() || !to->x.node || to->x.index != 0 || !n->control_deps.empty())
      return;
    if (const auto same = CodesOf(edit_, to->x)) {
      if (!same->by.same(to->by) || !ctx_.Fuel("round-trip", n)) return;
      edit_.Replace(n, {same->codes});
      ctx_.Count("round-trips");
      return;
    }
    const NodePtr move = to->x.node;
    size_t data = 0;
    if (move->is_variable() || !MovesElements(move, &data) || !move->control_deps.empty() ||
        g_.is_output(move))
      return;
    std::vector<NodeEntry> inputs(move->inputs.begin(), move->inputs.end());
    for (size_t i = 0; i < data; ++i) {
      const auto codes = CodesOf(edit_, inputs[i]);
      if (!codes || !codes->by.same(to->by)) return;
      inputs[i] = codes->codes;
    }
    if (!ctx_.Fuel("move-codes", n)) return;
    const NodeEntry y = edit_.Add(move->op()->name, inputs, move->attrs.dict, NodeEntry(n));
    g_.MergeOrigin(y.node, move);
    edit_.Replace(n, {y});
    ctx_.Count("moved");
  }

  Graph& g_;
  PassContext& ctx_;
  TypedEdit edit_;
};

Graph Quantised(Graph g, PassContext& ctx) {
  Quantiser(g, ctx).Run();
  ctx.Count("dead", g.EraseDead());
  return g;
}

WEFT_REGISTER_PASS(Quantised)
    .describe("computes with the 8-bit numbers of a quantised network instead of floats")
    .set_body(Quantised)
    .enters_bodies()
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .statistic("convolutions", "convolutions of integers")
    .statistic("products", "matmuls of integers")
    .statistic("requantised", "of both, those whose result is of 8 bits")
    .statistic("moved", "operators that move 8-bit numbers instead of floats")
    .statistic("round-trips", "QuantizeLinear of what was quantised so")
    .statistic("dead", "nodes that nothing uses any more")
    .rewrite("quantised", "a product of dequantised numbers as one of integers")
    .rewrite("move-codes", "an operator between DequantizeLinear and QuantizeLinear on integers")
    .rewrite("round-trip", "QuantizeLinear of DequantizeLinear as nothing");

}  // namespace
}  // namespace weft
