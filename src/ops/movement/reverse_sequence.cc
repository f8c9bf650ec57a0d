/// reverse_sequence.cc: ReverseSequence: a batch of sequences of different lengths, each reversed.
/// Source: ONNX ReverseSequence-10.
#include "ops/util/shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct ReverseSequenceParam : OpParam<ReverseSequenceParam> {
  int64_t batch_axis, time_axis;
  WEFT_OP_PARAM(ReverseSequenceParam) {
    WEFT_FIELD(batch_axis).set_default(1).set_range(0, 1).describe("0 or 1");
    WEFT_FIELD(time_axis).set_default(0).set_range(0, 1).describe("the other one");
  }
};
WEFT_REGISTER_OP_PARAM(ReverseSequenceParam);

void ReverseSequenceShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<ReverseSequenceParam>(ctx.node());
  WEFT_CHECK(p.batch_axis != p.time_axis, kBadAttribute, "{}: batch_axis and time_axis are both {}",
             ctx.node()->Describe(), p.time_axis);
  const Shape& x = ctx.in(0);
  WEFT_CHECK(!x.has_rank() || x.rank() >= 2, kShapeMismatch, "{}: x has shape {}",
             ctx.node()->Describe(), x.ToString());
  if (CheckRank(ctx, 1, 1, "sequence_lens") && x.has_rank())
    UnifyDims(ctx, x[int(p.batch_axis)], ctx.in(1)[0], "the batch");
  UnaryShape(ctx);
}
Exprs ReverseSequenceCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<ReverseSequenceParam>(n);
  const Expr length = in[1]({at(0)[size_t(p.batch_axis)]});
  const Expr t = at(0)[size_t(p.time_axis)];
  Indices from = at(0);
  from[size_t(p.time_axis)] = Expr::Select(Lt(t, length), length - Expr::Int(1) - t, t);
  return {in[0](from)};
}
/// It is its own inverse.
std::vector<NodeEntry> ReverseSequenceGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry(), NodeEntry()};
  return {ApplyOp("ReverseSequence", {dy[0], n->inputs[1]}, AttrsOf(n)), NodeEntry()};
}

}  // namespace

WEFT_REGISTER_OP(ReverseSequence)
    .describe(
        "The first sequence_lens[b] slices of the time axis in reverse, the others unchanged.\n"
        "Gradient: the same reversal of dy. Source: ONNX ReverseSequence-10.")
    .input("input", TypeDoc(kAllTypes))
    .input("sequence_lens", "i64", "[batch], in [1, size of the time axis]")
    .output("Y", "T", "the shape of input")
    .param<ReverseSequenceParam>()
    .example({"f32[4, 3]", "i64[3] = [1, 4, 2]"})
    .example({"f32[2, n]", "i64[2] = [1, 1]"}, "batch_axis = 0, time_axis = 1")
    .set_attr<FInferType>("FInferType", TypeOfDataInput(kAllTypes, {1}))
    .set_attr<FInferShape>("FInferShape", ReverseSequenceShape)
    .set_attr<FCodeGen>("FCodeGen", ReverseSequenceCode)
    .set_attr<TMovesElements>("TMovesElements", true)
    .set_attr<FGradient>("FGradient", ReverseSequenceGrad);

}  // namespace weft::ops
