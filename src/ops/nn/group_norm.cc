/// group_norm.cc: GroupNormalization: the channels of an image in groups, each normalised by its
/// own mean and variance.
///
/// Rewritten as soon as the shape is known; the FCodeGen below is its meaning:
///   x: [n, c, spatial..]   v = Reshape(x, [n, groups, c / groups, points])
///   m, s, e = weft::Moments(v, [2, 3])
///   y = Reshape(weft::Normalize(v, m, s, scale, bias, e), Shape(x))
/// with scale and bias as [groups, c / groups, 1]. Views cost nothing, so that it is one kernel,
/// which fuses like any other.
///
///   grad  with h = (x - mean) inverse and g = dy scale: dx = inverse (g - mean(g) - h mean(g h))
///         over each group, dscale = ChannelSum(dy h), dbias = ChannelSum(dy)

#include "ops/util/channel_util.h"
#include "ops/util/demand.h"
#include "ops/util/row_moments.h"
#include "ops/util/window.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/op/onnx_body.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct GroupNormParam : OpParam<GroupNormParam> {
  int64_t num_groups, stash_type;
  double epsilon;
  WEFT_OP_PARAM(GroupNormParam) {
    WEFT_FIELD(num_groups).set_lower_bound(1).describe("divides the channels");
    WEFT_FIELD(epsilon).set_default(1e-5).set_lower_bound(0).describe("added to the variance");
    WEFT_FIELD(stash_type)
        .set_default(1)
        .describe("ONNX number of the dtype of computing, which is at least f32: 1, 10, 11, 16");
  }
};
WEFT_REGISTER_OP_PARAM(GroupNormParam);

DType ComputeOf(const NodePtr& n, DType x) {
  const DType stash = StashType(n, ParamOf<GroupNormParam>(n).stash_type);
  return stash == DType::kF64 ? stash : AccumulatorOf(x);
}

void GroupNormType(InferTypeContext& ctx) {
  const Type t = CommonInputType(ctx, kFloats, 0, 1);
  CommonInputType(ctx, kFloats, 1, 3);
  if (!t.known()) return;
  ComputeOf(ctx.node(), t.dtype);
  ctx.set_out(0, t);
}
void GroupNormShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  const int64_t groups = ParamOf<GroupNormParam>(ctx.node()).num_groups;
  WEFT_CHECK(!x.has_rank() || x.rank() >= 2, kShapeMismatch,
             "{}: x must have rank 2 or more, got {}", ctx.node()->Describe(), x.ToString());
  SymInt channels = x.has_rank() ? x[1] : SymInt();
  for (int i = 1; i < 3; ++i) {
    if (CheckRank(ctx, i, 1, "a channel vector"))
      channels = UnifyDims(ctx, ctx.in(i)[0], channels, "channels");
  }
  DemandMultiple(ctx, channels, groups, "channels by groups");
  UnaryShape(ctx);
}

Exprs GroupNormCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<GroupNormParam>(n);
  const TensorArg& x = in[0];
  const DType t = ComputeOf(n, x.dtype);
  const Expr c = at(0)[1];
  std::vector<SymInt> extents = Tail(x.shape, 2);
  extents.insert(extents.begin(), ExactDiv(x.shape[1], p.num_groups));
  const Expr size = Expr::Dim(extents[0]), first = FloorDivExpr(c, size) * size;
  const RowMoments group = MomentsOver(extents, t, [&](const Indices& r) {
    return x(At(at(0)[0], first + r[0], Indices(r.begin() + 1, r.end())));
  });
  const Expr h = group.Normal(x(at(0)), p.epsilon);
  return {Expr::Cast(x.dtype, Expr::Fma(h, Expr::Cast(t, in[1]({c})), Expr::Cast(t, in[2]({c}))))};
}

std::vector<NodeEntry> AsMoments(RewriteContext& ctx, const NodePtr& n) {
  const auto& p = ParamOf<GroupNormParam>(n);
  const NodeEntry x = n->inputs[0];
  const Shape& shape = ctx.shape(x);
  const DType t = ctx.dtype(x), given = ctx.dtype(n->inputs[1]);
  if (!shape.fully_known() || t == DType::kUnknown || given == DType::kUnknown ||
      ctx.dtype(n->inputs[2]) != given)
    return {};
  const DType own = AccumulatorOf(t);
  if (ComputeOf(n, t) != own) return {};
  const SymInt size = ExactDiv(shape[1], p.num_groups);
  const auto reshaped = [&](const NodeEntry& e, const std::vector<SymInt>& dims) {
    const NodeEntry shape(ctx.graph().AddNode(builtin::kShapeTensor, {}, {{"dims", Shape(dims)}}));
    return ApplyOp("Reshape", {e, shape}, {{"allowzero", 1}});
  };
  const NodeEntry v = reshaped(x, {shape[0], p.num_groups, size, Product(Tail(shape, 2))});
  const NodePtr moments = ApplyOp("weft::Moments", {v, IntsLike(x, {2, 3})}).node;
  const auto row = [&](size_t i) {
    const NodeEntry e = n->inputs[i];
    return reshaped(given == own ? e : ApplyOp("Cast", {e}, {{"to", own}}),
                    {p.num_groups, size, 1});
  };
  const NodeEntry y = ApplyOp(
      "weft::Normalize",
      {v, NodeEntry(moments, 0), NodeEntry(moments, 1), row(1), row(2), NodeEntry(moments, 2)},
      {{"epsilon", p.epsilon}});
  return {reshaped(y, shape.dims())};
}

/// [n, c, spatial..] as [n, groups, elements], whatever the rank.
NodeEntry Grouped(const NodeEntry& e, const NodeEntry& like, int64_t groups) {
  const NodeEntry sizes = ApplyOp("ReduceProd", {ApplyOp("Shape", {like}, {{"start", 1}})});
  const NodeEntry elements = ApplyOp("Div", {sizes, IntsLike(like, {groups})});
  const NodeEntry shape = ApplyOp(
      "Concat",
      {ApplyOp("Shape", {like}, {{"start", 0}, {"end", 1}}), IntsLike(like, {groups}), elements},
      {{"axis", 0}});
  return ApplyOp("Reshape", {e, shape}, {{"allowzero", 1}});
}

std::vector<NodeEntry> GroupNormGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  const auto& p = ParamOf<GroupNormParam>(n);
  std::vector<NodeEntry> d(3);
  if (!dys[0]) return d;
  const NodeEntry x = n->inputs[0], scale = n->inputs[1], axes = IntsLike(x, {2});
  const auto grouped = [&](const NodeEntry& e) { return Grouped(e, x, p.num_groups); };
  const auto mean_of = [&](const NodeEntry& e) { return MeanOver(e, axes); };
  const NodePtr moments = ApplyOp("weft::Moments", {grouped(x), axes}).node;
  const NodeEntry m(moments, 0), v(moments, 1), rest(moments, 2);
  const NodeEntry inverse = ApplyOp("Reciprocal", {ApplyOp("Sqrt", {v + ScalarOf(v, p.epsilon)})});
  const NodeEntry h = (CastTo(grouped(x), m) - m - rest) * inverse;
  const NodeEntry dy = CastTo(dys[0], m);
  const NodeEntry g = grouped(dy * ChannelColumn(CastTo(scale, m), x));
  d[0] = CastTo(ReshapeLike(inverse * (g - mean_of(g) - h * mean_of(g * h)), x), x);
  d[1] = CastTo(ApplyOp("weft::ChannelSum", {dy * ReshapeLike(h, x)}), scale);
  d[2] = CastTo(ApplyOp("weft::ChannelSum", {dy}), n->inputs[2]);
  return d;
}

/// ONNX has one dtype for x, scale and bias.
std::string GroupNormBody(const OnnxBodyRequest& r) {
  const auto& p = ParamOf<GroupNormParam>(r.node);
  const DType x = r.input_types[0].dtype;
  if (x == r.input_types[1].dtype && x == r.input_types[2].dtype) return {};
  return fmt::format(
      "x = Cast<to = {0}>(i0)\ns = Cast<to = {0}>(i1)\nb = Cast<to = {0}>(i2)\n"
      "y = GroupNormalization<num_groups = {1}, epsilon = {2:.9g}, stash_type = {0}>(x, s, b)\n"
      "o0 = CastLike(y, i0)",
      ComputeOf(r.node, x) == DType::kF64 ? 11 : 1, p.num_groups, p.epsilon);
}

}  // namespace

WEFT_REGISTER_OP(GroupNormalization)
    .describe(
        "y = (x - mean) / sqrt(variance + epsilon) scale[c] + bias[c], the statistics over the "
        "channels of a group and the spatial axes of each image. f16 and bf16 compute in f32, "
        "rounded once. Gradient: ordinary ops, the statistics computed again from x.\n"
        "Errors: rank below 2, a channel vector of another size, channels that num_groups "
        "does not divide (kShapeMismatch), a stash_type that is not a float dtype (kBadAttribute). "
        "Source: ONNX GroupNormalization-21.")
    .input("X", TypeDoc(kFloats), "[n, c, spatial...]")
    .input("scale", TypeDoc(kFloats, "U"), "[c]")
    .input("bias", "U", "[c]")
    .output("Y", "T")
    .param<GroupNormParam>()
    .example({"f32[2, 4, 3, 5]", "f32[4]", "f32[4]"}, "num_groups = 2")
    .example({"f32[n, 6, 7]", "f32[6]", "f32[6]"}, "num_groups = 3, epsilon = 0.01")
    .example({"f32[n, 4]", "f32[4]", "f32[4]"}, "num_groups = 1")
    .set_attr<FInferType>("FInferType", GroupNormType)
    .set_attr<FInferShape>("FInferShape", GroupNormShape)
    .set_attr<FCodeGen>("FCodeGen", GroupNormCode)
    .set_attr<FGradient>("FGradient", GroupNormGrad)
    .set_attr<FSimplify>("FSimplify", AsMoments)
    .set_attr<FOnnxBody>("FOnnxBody", GroupNormBody)
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
                        return in.at(0).num_elements() * 8;
                      });

}  // namespace weft::ops
