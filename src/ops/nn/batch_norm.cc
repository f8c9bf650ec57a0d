/// batch_norm.cc: BatchNormalization, with given statistics (inference) or those of the batch
/// (training).
///
/// Training is rewritten as soon as the rank is known; the FCodeGen below is its meaning:
///   m, v, e = weft::Moments(x, axes)     Y = weft::Normalize(x, m, v, scale, B, e)
///   running_mean = input_mean momentum + m (1 - momentum), running_var likewise from v
/// with row values [1, c, 1, ..], so that statistics, results and what follows element by
/// element are one kernel. The gradient takes the same Moments of x: forward and backward part
/// share m, v and e.
#include <algorithm>

#include "ops/util/channel_util.h"
#include "ops/util/row_moments.h"

namespace weft::ops {
namespace {

struct BatchNormParam : OpParam<BatchNormParam> {
  double epsilon, momentum;
  int64_t training_mode;
  WEFT_OP_PARAM(BatchNormParam) {
    WEFT_FIELD(epsilon).set_default(1e-5).set_lower_bound(0).describe("added to the variance");
    WEFT_FIELD(momentum).set_default(0.9).describe(
        "training: weight of the old running statistics");
    WEFT_FIELD(training_mode)
        .set_default(0)
        .set_range(0, 1)
        .describe("1: statistics of the batch, and running ones as outputs 1 and 2");
  }
};
WEFT_REGISTER_OP_PARAM(BatchNormParam);

bool Training(const NodePtr& n) { return ParamOf<BatchNormParam>(n).training_mode != 0; }

/// One output, three in training.
uint32_t OutputsOf(const NodeAttrs& attrs) {
  const AttrValue* mode = attrs.dict.find("training_mode");
  return mode && mode->is<int64_t>() && mode->get<int64_t>() != 0 ? 3 : 1;
}

void BatchNormType(InferTypeContext& ctx) {
  const Type t = CommonInputType(ctx, kFloats, 0, 1);
  CommonInputType(ctx, kFloats, 1, 3);
  const Type stats = CommonInputType(ctx, kFloats, 3, 5);
  if (t.known()) ctx.set_out(0, t);
  for (int k = 1; k < ctx.num_outputs() && stats.known(); ++k) ctx.set_out(k, stats);
}
void BatchNormShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  SymInt channels = !x.has_rank() ? SymInt() : x.rank() < 2 ? SymInt(1) : x[1];
  for (int i = 1; i < 5; ++i) {
    if (CheckRank(ctx, i, 1, "a channel vector"))
      channels = UnifyDims(ctx, ctx.in(i)[0], channels, "channels");
  }
  for (int k = 1; k < ctx.num_outputs(); ++k) ctx.set_out(k, Shape({channels}));
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  ctx.set_out(0, x);
}

/// Of channel c of the batch.
RowMoments BatchStats(const TensorArg& x, const Expr& c, DType t) {
  std::vector<SymInt> extents = x.shape.dims();
  if (extents.size() > 1) extents.erase(extents.begin() + 1);
  return MomentsOver(extents, t, [&](const Indices& r) {
    Indices from = r;
    if (x.rank() > 1) from.insert(from.begin() + 1, c);
    return x(from);
  });
}

Exprs BatchNormCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<BatchNormParam>(n);
  const TensorArg& x = in[0];
  const DType t = std::max(AccumulatorOf(x.dtype), AccumulatorOf(in[3].dtype));
  const auto vector = [&](size_t i, const Expr& c) { return Expr::Cast(t, in[i]({c})); };
  const Expr c = x.rank() < 2 ? Expr::Int(0) : at(0)[1];
  Expr h;
  if (Training(n)) {
    const RowMoments batch = BatchStats(x, c, t);
    h = batch.Normal(x(at(0)), p.epsilon);
  } else {
    const Expr inverse = CallMath(CallOp::kRsqrt, vector(4, c) + Expr::Const(t, p.epsilon));
    h = (Expr::Cast(t, x(at(0))) - vector(3, c)) * inverse;
  }
  Exprs out{Expr::Cast(x.dtype, h * vector(1, c) + vector(2, c))};
  for (size_t k = 1; k < at.index.size(); ++k) {
    const Expr channel = at(int(k))[0];
    const RowMoments batch = BatchStats(x, channel, t);
    const Expr now = Expr::Cast(t, k == 1 ? batch.mean + batch.rest : batch.variance);
    out.push_back(Expr::Cast(in[3].dtype, vector(k + 2, channel) * Expr::Const(t, p.momentum) +
                                              now * Expr::Const(t, 1 - p.momentum)));
  }
  return out;
}

/// Training, of known rank, as above.
std::vector<NodeEntry> SimplifyTraining(RewriteContext& ctx, const NodePtr& n) {
  const auto& p = ParamOf<BatchNormParam>(n);
  const NodeEntry x = n->inputs[0], mean = n->inputs[3], var = n->inputs[4];
  const Shape& shape = ctx.shape(x);
  const DType t = ctx.dtype(x), stats = ctx.dtype(mean);
  if (!Training(n) || !shape.has_rank() || shape.rank() < 2 || t == DType::kUnknown ||
      stats == DType::kUnknown || ctx.dtype(n->inputs[1]) == DType::kUnknown)
    return {};
  std::vector<int64_t> axes{0}, column{1, -1};
  for (int k = 2; k < shape.rank(); ++k) axes.push_back(k), column.push_back(1);
  const DType own = AccumulatorOf(t), wide = std::max(own, AccumulatorOf(stats));
  const NodePtr moments = ApplyOp("weft::Moments", {x, IntsLike(x, axes)}).node;
  const NodeEntry m(moments, 0), v(moments, 1);
  const auto row = [&](size_t i) {
    return ApplyOp("Reshape",
                   {CastFrom(n->inputs[i], ctx.dtype(n->inputs[i]), own), IntsLike(x, column)});
  };
  const auto running = [&](const NodeEntry& old, const NodeEntry& now) {
    const NodeEntry a = ScalarLike(x, wide, p.momentum), b = ScalarLike(x, wide, 1 - p.momentum);
    const NodeEntry flat = ApplyOp("Reshape", {now, IntsLike(x, {-1})});
    return CastFrom(CastFrom(old, stats, wide) * a + CastFrom(flat, own, wide) * b, wide, stats);
  };
  return {ApplyOp("weft::Normalize", {x, m, v, row(1), row(2), NodeEntry(moments, 2)},
                  {{"epsilon", p.epsilon}}),
          running(mean, m), running(var, v)};
}

/// Everything is affine in x per channel, so the op itself spreads the channel vectors.
std::vector<NodeEntry> InferenceGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(5);
  if (!dys[0]) return d;
  const NodeEntry dy = dys[0], x = n->inputs[0], scale = n->inputs[1], mean = n->inputs[3],
                  var = n->inputs[4];
  const NodeEntry zero = ZerosLike(scale), zero_mean = ZerosLike(mean);
  auto norm = [&](const NodeEntry& e, const NodeEntry& s, const NodeEntry& b, const NodeEntry& m) {
    return ApplyOp("BatchNormalization", {e, s, b, m, var}, AttrsOf(n));
  };
  d[0] = norm(dy, scale, zero, zero_mean);
  const NodeEntry h = norm(x, ExpandLike(ScalarOf(scale, 1), scale), zero, mean);
  const NodeEntry dscale = ApplyOp("weft::ChannelSum", {dy * h});
  d[1] = CastTo(dscale, scale);
  d[2] = CastTo(ApplyOp("weft::ChannelSum", {dy}), n->inputs[2]);
  d[3] = CastTo(-ApplyOp("weft::ChannelSum", {d[0]}), mean);
  const NodeEntry half = ScalarOf(var, -0.5),
                  epsilon = ScalarOf(var, ParamOf<BatchNormParam>(n).epsilon);
  d[4] = half * CastTo(dscale * scale, var) / (var + epsilon);
  return d;
}

/// With h = (x - m) inverse over N elements a channel:
///   dscale = sum(dy h), dB = sum(dy), dx = scale inverse (dy - (dB + h dscale) / N)
/// and what reaches x through the running statistics:
///   (1 - momentum) (d mean + 2 (x - m) d var) / N
/// The axes of the sums are all but 1: computed, for the rank is not known here.
std::vector<NodeEntry> TrainingGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  const auto& p = ParamOf<BatchNormParam>(n);
  std::vector<NodeEntry> d(5);
  if (AllNull(dys)) return d;
  const NodeEntry x = n->inputs[0], scale = n->inputs[1];
  const NodeEntry axes = ApplyOp("Concat", {IntsLike(x, {0}), SpatialAxes(x)}, {{"axis", 0}});
  const NodePtr moments = ApplyOp("weft::Moments", {x, axes}).node;
  const NodeEntry m(moments, 0), v(moments, 1);
  const auto sum = [&](const NodeEntry& e) {
    return ApplyOp("ReduceSum", {e, axes}, {{"keepdims", 1}});
  };
  const auto row = [&](const NodeEntry& e) { return ReshapeLike(CastTo(e, m), m); };
  const NodeEntry count =
      ApplyOp("ReduceProd", {ApplyOp("Gather", {ShapeOf(x), axes})}, {{"keepdims", 0}});
  const auto share = [&](const NodeEntry& e) { return ApplyOp("weft::DivideCount", {e, count}); };
  const NodeEntry centered = CastTo(x, m) - m - NodeEntry(moments, 2);
  NodeEntry dx;
  if (dys[0]) {
    const NodeEntry dy = CastTo(dys[0], m);
    const NodeEntry inverse =
        ApplyOp("Reciprocal", {ApplyOp("Sqrt", {v + ScalarOf(v, p.epsilon)})});
    const NodeEntry h = centered * inverse;
    const NodeEntry dscale = sum(dy * h), dbias = sum(dy);
    dx = (row(scale) * inverse) * (dy - (share(dbias) + h * share(dscale)));
    d[1] = CastTo(ReshapeLike(dscale, scale), scale);
    d[2] = CastTo(ReshapeLike(dbias, n->inputs[2]), n->inputs[2]);
  }
  const auto add = [&dx](const NodeEntry& e) { dx = dx ? dx + e : e; };
  const auto kept = [&p](const NodeEntry& dr) { return dr * ScalarOf(dr, p.momentum); };
  const auto taken = [&](const NodeEntry& dr) {
    return share(row(dr) * ScalarOf(m, 1 - p.momentum));
  };
  if (dys.size() > 1 && dys[1]) {
    add(taken(dys[1]));
    d[3] = kept(dys[1]);
  }
  if (dys.size() > 2 && dys[2]) {
    add(centered * (taken(dys[2]) * ScalarOf(m, 2)));
    d[4] = kept(dys[2]);
  }
  d[0] = CastTo(ExpandLike(dx, x), x);
  return d;
}

}  // namespace

WEFT_REGISTER_OP(BatchNormalization)
    .describe(
        "y = (x - mean[c]) / sqrt(var[c] + epsilon) scale[c] + B[c]. In inference the statistics "
        "are inputs; in training they are the mean and the population variance of the batch over "
        "all axes but 1 (PyTorch's running variance is the unbiased one), and running statistics "
        "come out: input momentum + batch (1 - momentum).\n"
        "Gradient: by all five inputs, ordinary ops. Errors: a channel vector of another size "
        "(kShapeMismatch).\n"
        "Source: ONNX BatchNormalization-15.")
    .input("X", TypeDoc(kFloats), "[n, c, ...]")
    .input("scale", TypeDoc(kFloats, "T1"), "[c]")
    .input("B", "T1", "[c]")
    .input("input_mean", TypeDoc(kFloats, "T2"), "[c]")
    .input("input_var", "T2", "[c]")
    .output("Y", "T")
    .optional_output("running_mean", "T2", "[c], in training")
    .optional_output("running_var", "T2", "[c], in training")
    .set_num_outputs(OutputsOf)
    .param<BatchNormParam>()
    .example({"f32[2, 3, 4]", "f32[3]", "f32[3]", "f32[3]", "f32[3]"})
    .example({"f32[n, 3, 2, 2]", "f32[3]", "f32[3]", "f32[3]", "f32[3]"},
             "training_mode = 1, momentum = 0.7")
    .set_attr<FInferType>("FInferType", BatchNormType)
    .set_attr<FInferShape>("FInferShape", BatchNormShape)
    .set_attr<FCodeGen>("FCodeGen", BatchNormCode)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& n, const std::vector<NodeEntry>& dy) {
                           return Training(n) ? TrainingGrad(n, dy) : InferenceGrad(n, dy);
                         })
    .set_attr<FSimplify>("FSimplify", SimplifyTraining)
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), Any(), Any(), Any(), Positive()}))
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
                        return in.at(0).num_elements() * 8;
                      });

}  // namespace weft::ops
