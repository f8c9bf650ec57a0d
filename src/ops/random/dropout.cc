/// dropout.cc: Dropout: y = x in inference; in training each element is kept with probability
/// 1 - ratio and scaled by 1 / (1 - ratio), or becomes 0.
///
/// Element i is kept where its uniform draw (philox.h) is at least the ratio: at 0 all are, at 1
/// none and y is 0. With the attribute `seed` the draw is a function of seed and position, equal in
/// every run and on every machine; without it each run draws anew. Generators differ from one
/// implementation to the next: ONNX asks for the distribution only.
///
/// A rewrite gives the parts, which fuse with their neighbours and need no memory for the draw:
///   u = weft::RandomUniform(x, state)   mask = u >= ratio   y = Where(mask, x scale, 0)
/// where the state is (seed, 0), or weft::RandomState. Where training_mode is known in the run
/// only, it chooses between this mask and true, and between this scale and 1.
#include "ops/util/shape_util.h"
#include "philox.h"
#include "weft/core/graph/repeatable.h"
#include "weft/support/check.h"

namespace weft::ops {

struct DropoutParam : OpParam<DropoutParam> {
  int64_t seed;
  WEFT_OP_PARAM(DropoutParam) {
    WEFT_FIELD(seed).set_default(0).describe("where given, every run draws the same");
  }
};
WEFT_REGISTER_OP_PARAM(DropoutParam);

namespace {

constexpr double kDefaultRatio = 0.5;

/// The constant in the one element of input i, where it is one.
bool IsConstant(const NodePtr& n, size_t i, bool zero) {
  const TensorPtr t = HasInput(n, i) ? Graph::ConstantOf(n->inputs[i]) : nullptr;
  return t && t->num_elements() == 1 && (t->at(0) == 0) == zero;
}
bool IsInference(const NodePtr& n) {
  return !HasInput(n, 2) || IsConstant(n, 2, true) || IsConstant(n, 1, true);
}
bool IsTraining(const NodePtr& n) { return IsConstant(n, 2, false); }
bool HasSeed(const NodePtr& n) { return n->attrs.dict.find("seed") != nullptr; }
bool Draws(const NodePtr& n) { return !IsInference(n) && !HasSeed(n); }

void CheckComputable(const NodePtr& n, DType t) {
  WEFT_CHECK(kFloats.has(t), kUnsupported,
             "{}: training with x of dtype {} is not supported; training_mode must be absent or a "
             "constant false",
             n->Describe(), DTypeName(t));
}

void DropoutType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kFloats | kFloat8);
  CheckInputType(ctx, 1, kFloats | kFloat8);
  CheckInputType(ctx, 2, kBoolOnly);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
  ctx.set_out(1, DType::kBool);
}
void DropoutShape(InferShapeContext& ctx) {
  for (int i : {1, 2}) {
    if (!HasInput(ctx, i) || !ctx.in(i).has_rank()) continue;
    const Shape& s = ctx.in(i);
    WEFT_CHECK(s.rank() == 0 || (s.rank() == 1 && s[0].is(1)), kShapeMismatch,
               "{}: {} must be a scalar, its shape is {}", ctx.node()->Describe(),
               i == 1 ? "ratio" : "training_mode", s.ToString());
  }
  UnaryShape(ctx);
}

/// What the rewrite below makes, as one expression. Without a seed each expansion draws anew: the
/// reference evaluator expands in every run.
Exprs DropoutCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in.at(0);
  if (IsInference(n)) return {x(at(0)), Expr::Bool(true)};
  CheckComputable(n, x.dtype);
  const DType t = AccumulatorOf(x.dtype);
  const auto scalar = [&](size_t i) { return in[i](Indices(size_t(in[i].rank()), Expr::Int(0))); };
  const Expr training = scalar(2), one = Expr::Const(t, 1);
  const Expr ratio = HasInput(in, 1) ? scalar(1) : Expr::Const(DType::kF32, kDefaultRatio);
  const Expr key =
      PhiloxKey(Expr::Int(HasSeed(n) ? ParamOf<DropoutParam>(n).seed : int64_t(FreshSeed())),
                Expr::Int(0), 0);
  const auto kept = [&](int k) {
    const Expr u = PhiloxUniform(DType::kF32, key, Linearize(at(k), at.shape[size_t(k)].dims()));
    return Or(Not(training), Le(Expr::Cast(DType::kF32, ratio), u));
  };
  const Expr scale = Expr::Select(training, one / (one - Expr::Cast(t, ratio)), one);
  const Expr y = Expr::Select(kept(0), Expr::Cast(t, x(at(0))) * scale, Zero(t));
  return {Expr::Cast(x.dtype, y), kept(1)};
}

std::vector<NodeEntry> DropoutGradient(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> grads = NoGradient(n, dys);
  const NodeEntry dy = dys.at(0);
  if (!dy || IsInference(n)) {
    grads[0] = dy;
    return grads;
  }
  const auto like = [&dy](const NodeEntry& e) { return ApplyOp("CastLike", {e, dy}); };
  const NodeEntry one = ScalarOf(dy, 1);
  const NodeEntry ratio = HasInput(n, 1) ? like(n->inputs[1]) : ScalarOf(dy, kDefaultRatio);
  NodeEntry scale = ApplyOp("Reciprocal", {one - ratio});
  if (!IsTraining(n)) scale = ApplyOp("Where", {n->inputs[2], scale, one});
  // A scale of shape [1] would give a scalar dy an axis.
  grads[0] = ApplyOp("Where", {NodeEntry(n, 1), dy * scale, ScalarOf(dy, 0)});
  if (HasInput(n, 1) || !IsTraining(n)) grads[0] = ReshapeLike(grads[0], n->inputs[0]);
  return grads;
}

bool IsUsed(const Graph& g, const NodePtr& n, uint32_t index) {
  for (const Use& u : n->uses()) {
    if (!u.control && u.user->inputs[u.slot].index == index) return true;
  }
  for (const NodeEntry& o : g.outputs) {
    if (o == NodeEntry(n, index)) return true;
  }
  return false;
}

/// Training: the parts named at the top.
std::vector<NodeEntry> Parts(RewriteContext& ctx, const NodePtr& n) {
  const NodeEntry x = n->inputs[0];
  const DType type = ctx.dtype(x), t = AccumulatorOf(type);
  if (!kFloats.has(type) || (HasInput(n, 1) && ctx.dtype(n->inputs[1]) == DType::kUnknown))
    return {};
  Graph& g = ctx.graph();
  for (size_t i : {1, 2})
    if (HasInput(n, i) && !ctx.shape(n->inputs[i]).has_rank()) return {};
  const auto scalar = [&](size_t i) {
    const NodeEntry e = n->inputs[i];
    return ctx.shape(e).rank() == 0 ? e : ApplyOp("Reshape", {e, IntsLike(x, {})});
  };
  const auto ratio = [&](DType to) {
    return HasInput(n, 1) ? CastFrom(scalar(1), ctx.dtype(n->inputs[1]), to)
                          : ScalarLike(x, to, kDefaultRatio);
  };
  const NodeEntry state = HasSeed(n) ? IntsLike(x, {ParamOf<DropoutParam>(n).seed, 0})
                                     : NodeEntry(g.AddNode("weft::RandomState", {}));
  const NodeEntry u = ApplyOp("weft::RandomUniform", {x, state});
  const NodeEntry one = ScalarLike(x, t, 1);
  NodeEntry mask = ApplyOp("GreaterOrEqual", {u, ratio(DType::kF32)});
  NodeEntry scale = ApplyOp("Reciprocal", {one - ratio(t)});
  if (!IsTraining(n)) {
    const NodeEntry training = scalar(2);
    mask = ApplyOp("Where", {training, mask, ScalarLike(x, DType::kBool, 1)});
    scale = ApplyOp("Where", {training, scale, one});
  }
  const NodeEntry y = ApplyOp("Where", {mask, CastFrom(x, type, t) * scale, ScalarLike(x, t, 0)});
  return {CastFrom(y, t, type), mask};
}

/// Inference: x, and a mask that is true everywhere.
std::vector<NodeEntry> SimplifyDropout(RewriteContext& ctx, const NodePtr& n) {
  if (!IsInference(n)) return Parts(ctx, n);
  const NodeEntry x = n->inputs[0];
  NodeEntry mask;
  if (IsUsed(ctx.graph(), n, 1))
    mask = ApplyOp("Expand", {ScalarLike(x, DType::kBool, 1), ApplyOp("Shape", {x})});
  return {x, mask};
}

}  // namespace

WEFT_REGISTER_OP(Dropout)
    .describe(
        "Inference (training_mode absent or false): y = x, mask = true everywhere. Training: y = "
        "Where(mask, x / (1 - ratio), 0), the mask true with probability 1 - ratio: with the "
        "attribute `seed` a function of seed and position (Philox4x32-10), without it drawn anew "
        "in every run. Gradient: dx = Where(mask, dy / (1 - ratio), 0); retains the mask. Errors: "
        "ratio or training_mode not a scalar (kShapeMismatch), training of 8-bit floats "
        "(kUnsupported). Source: ONNX Dropout-22.")
    .set_num_outputs(2)
    .input("x", TypeDoc(kFloats | kFloat8))
    .optional_input("ratio", TypeDoc(kFloats | kFloat8, "T1"),
                    "scalar in [0, 1]; 0.5 where absent; unused in inference")
    .optional_input("training_mode", "bool", "scalar; false where absent")
    .output("y", "T", "the shape of x")
    .optional_output("mask", "bool", "the shape of x")
    .param<DropoutParam>()
    .include("ElementwiseUnary")
    .set_attr<FInferType>("FInferType", DropoutType)
    .set_attr<FInferShape>("FInferShape", DropoutShape)
    .set_attr<FCodeGen>("FCodeGen", DropoutCode)
    .set_attr<FGradient>("FGradient", DropoutGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyDropout)
    .set_attr<FDrawsAnew>("FDrawsAnew", Draws)
    .example({"f32[2, n, 3]"})
    .example({"f32[2, n, 3]", "f32[] = [0.25]", "bool[] = [true]"}, "seed = 7")
    .example({"f64[4]", "_", "bool[]"}, "seed = 7")
    .example({"f64[]", "f64[] = [0.5]", "bool[] = [false]"});

}  // namespace weft::ops
