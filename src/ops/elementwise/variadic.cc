/// variadic.cc: Max, Min, Sum, Mean of any number of inputs.
///
/// Equal extrema share dy, PyTorch's rule: giving each the whole dy would count it twice. f16 and
/// bf16 are combined in f32 and rounded once.
#include "ops/util/op_util.h"

namespace weft::ops {
namespace {

SymInt MaxValue(const std::vector<SymInt>& x, const ValueArgs&) {
  SymInt y = x[0];
  for (size_t i = 1; i < x.size(); ++i) y = Max(y, x[i]);
  return y;
}
SymInt MinValue(const std::vector<SymInt>& x, const ValueArgs&) {
  SymInt y = x[0];
  for (size_t i = 1; i < x.size(); ++i) y = Min(y, x[i]);
  return y;
}
SymInt SumValue(const std::vector<SymInt>& x, const ValueArgs&) {
  SymInt y = x[0];
  for (size_t i = 1; i < x.size(); ++i) y = y + x[i];
  return y;
}

std::vector<NodeEntry> ExtremumGradient(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  if (!dys.at(0)) return NoGradient(n, dys);
  const NodeEntry dy = dys[0], y(n, 0);
  if (n->inputs.size() == 1) return {dy};
  std::vector<NodeEntry> attains, grads;
  NodeEntry count;
  for (const NodeEntry& x : n->inputs) {
    attains.push_back(ApplyOp("Equal", {x, y}));
    const NodeEntry one = ApplyOp("CastLike", {attains.back(), dy});
    count = count ? count + one : one;
  }
  const NodeEntry share = dy / count;
  for (size_t i = 0; i < attains.size(); ++i)
    grads.push_back(ReduceLike(MaskedGrad(attains[i], share), n->inputs[i]));
  return grads;
}
std::vector<NodeEntry> SumGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy.at(0)) return NoGradient(n, dy);
  std::vector<NodeEntry> grads;
  for (const NodeEntry& x : n->inputs) grads.push_back(ReduceLike(dy[0], x));
  return grads;
}
std::vector<NodeEntry> MeanGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy.at(0)) return NoGradient(n, dy);
  if (n->inputs.size() == 1) return {dy[0]};
  return SumGradient(n, {dy[0] / ScalarOf(dy[0], double(n->inputs.size()))});
}

Exprs MeanCode(const NodePtr&, const Exprs& x) {
  return {WithCompute(x, [](const Exprs& v) {
    Expr y = v.at(0);
    for (size_t i = 1; i < v.size(); ++i) y = y + v[i];
    return y / ConstOf(y, double(v.size()));
  })};
}

/// One input: it is the result.
std::vector<NodeEntry> SimplifyOne(RewriteContext&, const NodePtr& n) {
  if (n->inputs.size() != 1) return {};
  return {n->inputs[0]};
}
/// Max(a, b, a) -> Max(a, b): extrema do not count repetitions.
std::vector<NodeEntry> SimplifyExtremum(RewriteContext& ctx, const NodePtr& n) {
  std::vector<NodeEntry> distinct;
  for (const NodeEntry& x : n->inputs) {
    bool seen = false;
    for (const NodeEntry& d : distinct) seen = seen || d == x;
    if (!seen) distinct.push_back(x);
    if (distinct.size() > 64) return {};  // quadratic only in a bounded number
  }
  if (distinct.size() == 1) return {distinct[0]};
  if (distinct.size() == n->inputs.size()) return {};
  return {NodeEntry(ctx.graph().AddNode(n->op(), distinct))};
}

}  // namespace

#define WEFT_REGISTER_VARIADIC_OP(Name, Set, Doc)                            \
  WEFT_REGISTER_OP(Name)                                                     \
      .describe(Doc)                                                         \
      .set_num_inputs(1, kVarg)                                              \
      .variadic_input("x", TypeDoc(Set), "at least one, numpy broadcasting") \
      .output("y", "T", "the broadcast shape of all inputs")                 \
      .param<NoParam>()                                                      \
      .include("ElementwiseVariadic")                                        \
      .set_attr<FInferType>("FInferType", SameType(Set))                     \
      .example({"f32[2, n, 3]"})                                             \
      .example({"f32[2, n, 3]", "f32[2, n, 3]"})                             \
      .example({"f32[m, 1, 3]", "f32[4, 1]", "f32[]"})

WEFT_REGISTER_VARIADIC_OP(
    Max, kNumeric,
    "y = the largest of all inputs; NaN in any gives NaN. Gradient: dy shared equally by the "
    "inputs that "
    "equal y (k of them: dy / k; none where y is NaN), each summed to its shape; retains inputs "
    "and "
    "y. Source: ONNX Max-13.")
    .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(MaxValue))
    .set_attr<FCodeGen>("FCodeGen", FoldCodeGen(BinOp::kMax))
    .set_attr<FGradient>("FGradient", ExtremumGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyExtremum)
    .example({"u8[3]", "u8[2, 3]"});

WEFT_REGISTER_VARIADIC_OP(
    Min, kNumeric,
    "y = the smallest of all inputs; NaN in any gives NaN. Gradient: dy shared equally by the "
    "inputs that "
    "equal y (k of them: dy / k; none where y is NaN), each summed to its shape; retains inputs "
    "and "
    "y. Source: ONNX Min-13.")
    .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(MinValue))
    .set_attr<FCodeGen>("FCodeGen", FoldCodeGen(BinOp::kMin))
    .set_attr<FGradient>("FGradient", ExtremumGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyExtremum)
    .example({"i64[3]", "i64[2, 3]"});

WEFT_REGISTER_VARIADIC_OP(
    Sum, kFloats,
    "y = x_0 + x_1 + ..., from the left. Gradient: SumTo(dy, x_i) each; retains nothing. "
    "Source: ONNX Sum-13.")
    .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(SumValue))
    .set_attr<FCodeGen>("FCodeGen", FoldCodeGen(BinOp::kAdd))
    .set_attr<FGradient>("FGradient", SumGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyOne);

WEFT_REGISTER_VARIADIC_OP(Mean, kFloats,
                          "y = (x_0 + x_1 + ...) / number of inputs. Gradient: SumTo(dy / number, "
                          "x_i) each; retains nothing. "
                          "Source: ONNX Mean-13.")
    .set_attr<FCodeGen>("FCodeGen", MeanCode)
    .set_attr<FGradient>("FGradient", MeanGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyOne);

}  // namespace weft::ops
