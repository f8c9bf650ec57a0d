/// dft.cc: DFT and STFT by their definition, a sum for each result.
///
///   X[k] = sum over n of x[n] e^(-2 pi i k n / N); inverse: with + and divided by N
/// The angle is taken from (k n) mod N, so that it stays exact for long signals. Complex numbers
/// are pairs on the last axis. All in double precision, since results near zero are differences of
/// large sums. Quadratic in N: right for every length, slow for large ones.
///   throws  kShapeMismatch; kUnsupported where the length or the axis is not known
///           when code is made
#include "ops/util/demand.h"
#include "ops/util/host_util.h"

namespace weft::ops {
namespace {

struct DftParam : OpParam<DftParam> {
  int64_t inverse, onesided;
  WEFT_OP_PARAM(DftParam) {
    WEFT_FIELD(inverse).set_default(0).set_range(0, 1).describe(
        "1: from frequencies to the signal");
    WEFT_FIELD(onesided).set_default(0).set_range(0, 1).describe(
        "1: N / 2 + 1 frequencies; with `inverse` they give a real signal");
  }
};
WEFT_REGISTER_OP_PARAM(DftParam);

struct StftParam : OpParam<StftParam> {
  int64_t onesided;
  WEFT_OP_PARAM(StftParam) {
    WEFT_FIELD(onesided).set_default(1).set_range(0, 1).describe("1: N / 2 + 1 frequencies");
  }
};
WEFT_REGISTER_OP_PARAM(StftParam);

constexpr double kTau = 6.283185307179586476925286766559;

/// cos and sin of 2 pi (a b mod n) / n in dtype c.
std::pair<Expr, Expr> Rotation(DType c, const Expr& a, const Expr& b, const Expr& n) {
  const Expr turn = Expr::Cast(c, FloorModExpr(a * b, n)) / Expr::Cast(c, n);
  const Expr angle = turn * Expr::Const(c, kTau);
  return {CallMath(CallOp::kCos, angle), CallMath(CallOp::kSin, angle)};
}

/// The last axis holds real parts, or real and imaginary ones.
void DemandParts(InferShapeContext& ctx, const Shape& x) {
  DemandRange(ctx, x[x.rank() - 1], {1, 2}, "the parts that the last axis holds");
}
/// The imaginary part at `from`, whose last index is set; 0 where x is real.
Expr ImaginaryPart(const TensorArg& x, DType c, Indices from) {
  const SymInt parts = x.shape[x.rank() - 1];
  if (parts.is(1)) return Zero(c);
  from.back() = Expr::Int(1);
  const Expr im = Expr::Cast(c, x(from));
  return parts.is(2) ? im : ReadWhere(Lt(Expr::Int(1), Expr::Dim(parts)), im, Zero(c));
}

/// Length of the transform where it is known.
SymInt LengthOf(int64_t inverse_onesided, SymInt extent, const SymTensor* given) {
  if (given && given->elements.size() == 1) return given->elements[0];
  if (!extent.known()) return {};
  return inverse_onesided ? (extent - 1) * 2 : extent;
}

void DftType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kFloats);
  CheckInputType(ctx, 1, kIndexTypes);
  CheckInputType(ctx, 2, kI64Only);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
void DftShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<DftParam>(ctx.node());
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  const auto given = HasInput(ctx, 2) ? InputInts(ctx, 2) : std::vector<int64_t>{-2};
  if (!given) return Unknown(ctx, 0, "the axis is not known");
  WEFT_CHECK(given->size() == 1, kShapeMismatch, "{}: the axis has {} elements",
             ctx.node()->Describe(), given->size());
  const int axis = AxisOf((*given)[0], x.rank(), ctx.node());
  WEFT_CHECK(x.rank() >= 2 && axis != x.rank() - 1, kShapeMismatch,
             "{}: axis {} of x {}, whose last axis holds real and imaginary parts",
             ctx.node()->Describe(), axis, x.ToString());
  DemandParts(ctx, x);
  const SymTensorPtr length = HasInput(ctx, 1) ? InputValue(ctx, 1) : nullptr;
  SymInt n = HasInput(ctx, 1) && !length ? SymInt()
                                         : LengthOf(p.inverse && p.onesided, x[axis], length.get());
  if (!n.known()) n = ctx.unbacked(0);
  std::vector<SymInt> dims = x.dims();
  dims[size_t(axis)] = p.onesided && !p.inverse ? FloorDiv(n, 2) + 1 : n;
  dims.back() = p.onesided && p.inverse ? 1 : 2;
  ctx.set_out(0, Shape(std::move(dims)));
}
Exprs DftCode(const NodePtr& node, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<DftParam>(node);
  const TensorArg& x = in[0];
  const int axis =
      AxisOf(HasInput(in, 2) ? KnownInts(node, in[2], "the axis").at(0) : -2, x.rank(), node);
  const bool to_real = p.onesided && p.inverse;
  WEFT_CHECK(!HasInput(in, 1) || in[1].value, kUnsupported,
             "{}: the length must be known at compile time", node->Describe());
  const SymInt length = LengthOf(to_real, x.shape[axis], HasInput(in, 1) ? in[1].value : nullptr);
  WEFT_CHECK(length.known(), kUnsupported, "{}: the length must be known at compile time",
             node->Describe());
  const Expr n = Expr::Dim(length);
  const DType c = DType::kF64;
  const Expr k = at(0)[size_t(axis)];
  const auto part = [&](bool imaginary) {
    return Expr::Reduce(ReduceOp::kSum, {x.shape[axis]}, [&](const Indices& r) {
      Indices from = at(0);
      from[size_t(axis)] = r[0];
      from.back() = Expr::Int(0);
      const Expr re = Expr::Cast(c, x(from));
      const Expr im = ImaginaryPart(x, c, from);
      const auto [cosine, sine] = Rotation(c, k, r[0], n);
      const Expr turn = p.inverse ? sine : -sine;
      Expr term = imaginary ? im * cosine + re * turn : re * cosine - im * turn;
      if (to_real) {
        // The frequencies that are not there are conjugates of those that are: all but the first,
        // and for an even length the last, count twice.
        const Expr once = Or(Eq(r[0], Expr::Int(0)), Eq(r[0] * Expr::Int(2), n));
        term = Expr::Select(once, term, term * Expr::Const(c, 2));
        return Expr::Select(Le(r[0] * Expr::Int(2), n), term, Zero(c));
      }
      return Expr::Select(Lt(r[0], n), term, Zero(c));  // a longer signal is cut
    });
  };
  Expr y =
      to_real ? part(false) : Expr::Select(Eq(at(0).back(), Expr::Int(0)), part(false), part(true));
  if (p.inverse) y = y / Expr::Cast(c, n);
  return {Expr::Cast(x.dtype, y)};
}

// ---- gradients ----

NodeEntry Number(const NodeEntry& near, int64_t v) {
  return ScalarLike(near, DType::kI64, double(v));
}
/// e cut or filled with zeros at the end of an axis; `axis` and `extent` are
/// vectors of one element.
NodeEntry Fit(const NodeEntry& e, const NodeEntry& axis, const NodeEntry& extent) {
  const NodeEntry now = ApplyOp("Gather", {ShapeOf(e), axis}, {{"axis", 0}});
  const NodeEntry pads = ApplyOp("Concat", {IntsLike(e, {0}), extent - now}, {{"axis", 0}});
  return ApplyOp("Pad", {e, pads, NodeEntry(), axis});
}
/// e with as many parts on its last axis as x has.
NodeEntry FitParts(const NodeEntry& e, const NodeEntry& x) {
  return Fit(e, IntsLike(e, {-1}), ApplyOp("Shape", {x}, {{"start", -1}}));
}
/// DFT of e with a length given as a vector of one element.
NodeEntry Transform(const NodeEntry& e, const NodeEntry& length, const NodeEntry& axis,
                    int64_t inverse, int64_t onesided) {
  const NodeEntry scalar = IntsLike(e, {});
  return ApplyOp("DFT",
                 {e, ApplyOp("Reshape", {length, scalar}), ApplyOp("Reshape", {axis, scalar})},
                 {{"inverse", inverse}, {"onesided", onesided}});
}

/// As a real-linear map the transform by F has the adjoint by its conjugate transpose: N times the
/// inverse, and 1 / N times the transform for an inverse. Frequencies left out count as 0.
std::vector<NodeEntry> DftGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!dys[0]) return d;
  const auto& p = ParamOf<DftParam>(n);
  const NodeEntry x = n->inputs[0], dy = dys[0];
  const auto vector = [&](size_t i) {
    const NodeEntry wide = ApplyOp("Cast", {n->inputs[i]}, {{"to", DType::kI64}});
    return ApplyOp("Reshape", {wide, IntsLike(x, {-1})});
  };
  const NodeEntry axis = HasInput(n, 2) ? vector(2) : IntsLike(x, {-2});
  const NodeEntry extent = ApplyOp("Gather", {ShapeOf(x), axis}, {{"axis", 0}});
  const bool to_real = p.inverse && p.onesided;
  const NodeEntry length = HasInput(n, 1) ? vector(1)
                           : to_real      ? (extent - Number(x, 1)) * Number(x, 2)
                                          : extent;
  const NodeEntry count = ApplyOp("CastLike", {length, dy});
  NodeEntry dx = Transform(dy, length, axis, p.inverse ? 0 : 1, to_real ? 1 : 0);
  dx = p.inverse ? dx / count : dx * count;
  if (to_real) {
    // All frequencies but the first, and for an even length the last, stand for two.
    const NodeEntry bins = ApplyOp("Gather", {ShapeOf(dx), axis}, {{"axis", 0}});
    const NodeEntry half = (length + Number(x, 1)) / Number(x, 2);
    const NodeEntry none = IntsLike(x, {0});
    const NodeEntry first = Fit(ApplyOp("Slice", {dx, none, IntsLike(x, {1}), axis}), axis, bins);
    const NodeEntry last = ApplyOp("Slice", {dx, half, bins, axis});
    const NodeEntry pads = ApplyOp("Concat", {half, none}, {{"axis", 0}});
    dx = dx + dx - first - ApplyOp("Pad", {last, pads, NodeEntry(), axis});
  }
  d[0] = FitParts(Fit(dx, axis, extent), x);
  return d;
}

/// Through the frames that the transform was taken of: x read at frame step + position.
std::vector<NodeEntry> StftGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!dys[0]) return d;
  const NodeEntry x = n->inputs[0], dy = dys[0];
  const auto scalar = [&](const NodeEntry& e) {
    const NodeEntry wide = ApplyOp("Cast", {e}, {{"to", DType::kI64}});
    return ApplyOp("Reshape", {wide, IntsLike(x, {})});
  };
  const auto range = [&](const NodeEntry& count) {
    return ApplyOp("Range", {Number(x, 0), count, Number(x, 1)});
  };
  const NodeEntry length = scalar(HasInput(n, 3) ? n->inputs[3] : ShapeOf(n->inputs[2]));
  const NodeEntry frames = scalar(ApplyOp("Shape", {NodeEntry(n)}, {{"start", 1}, {"end", 2}}));
  const NodeEntry starts = range(frames) * scalar(n->inputs[1]);
  const NodeEntry places = ApplyOp("Unsqueeze", {starts, IntsLike(x, {1})}) + range(length);
  const NodeEntry back =
      Transform(dy, length, IntsLike(x, {2}), 1, 0) * ApplyOp("CastLike", {length, dy});
  NodeEntry dframes = FitParts(back, x);  // [batch, frames, length, parts]
  if (HasInput(n, 2)) {
    const NodeEntry window = n->inputs[2];
    const NodeEntry read = ApplyOp("Gather", {x, places}, {{"axis", 1}});
    const NodeEntry sum =
        ApplyOp("ReduceSum", {dframes * read, IntsLike(x, {0, 1, 3})}, {{"keepdims", 0}});
    d[2] = ApplyOp("CastLike", {sum, window});
    dframes =
        dframes * ApplyOp("CastLike", {ApplyOp("Unsqueeze", {window, IntsLike(x, {1})}), dframes});
  }
  d[0] = ApplyOp("weft::GatherGrad", {dframes, ShapeOf(x), places}, {{"axis", 1}});
  return d;
}

// ---- STFT ----

void StftType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kFloats);
  CheckInputType(ctx, 1, kIndexTypes);
  CheckInputType(ctx, 2, kFloats);
  CheckInputType(ctx, 3, kIndexTypes);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
void StftShape(InferShapeContext& ctx) {
  if (!CheckRank(ctx, 0, 3, "signal")) return Unknown(ctx, 0, "the rank of signal is unknown");
  const Shape& x = ctx.in(0);
  const auto one = [&](int i) {
    const SymTensorPtr v = HasInput(ctx, i) ? InputValue(ctx, i) : nullptr;
    return v && v->elements.size() == 1 ? v->elements[0] : SymInt();
  };
  for (int i : {1, 3}) {
    const SymTensorPtr v = HasInput(ctx, i) ? InputValue(ctx, i) : nullptr;
    WEFT_CHECK(!v || v->elements.size() == 1, kShapeMismatch, "{}: input {} has {} elements",
               ctx.node()->Describe(), i, v ? v->elements.size() : 0);
  }
  DemandParts(ctx, x);
  const bool has_window = HasInput(ctx, 2) && CheckRank(ctx, 2, 1, "window");
  WEFT_CHECK(HasInput(ctx, 2) || HasInput(ctx, 3), kArity,
             "{}: neither a window nor a frame length", ctx.node()->Describe());
  const SymInt step = one(1);
  WEFT_CHECK(!step.known() || !step.is_const() || step.value() > 0, kShapeMismatch,
             "{}: a frame step of {}", ctx.node()->Describe(), step.ToString());
  SymInt n = one(3);
  if (has_window) n = UnifyDims(ctx, n, ctx.in(2)[0], "the frame length and the window");
  DemandAtMost(ctx, n, x[1], "the frame length and the signal");
  const bool onesided = ParamOf<StftParam>(ctx.node()).onesided != 0;
  const bool known = step.known() && step.is_const() && step.value() > 0 && n.known();
  const SymInt frames = known ? FloorDiv(x[1] - n, step) + 1 : ctx.unbacked(0);
  const SymInt bins = !n.known() ? ctx.unbacked(1) : onesided ? FloorDiv(n, 2) + 1 : n;
  ctx.set_out(0, Shape({x[0], frames, bins, SymInt(2)}));
}
Exprs StftCode(const NodePtr& node, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const int64_t step = KnownInts(node, in[1], "the frame step").at(0);
  const SymInt length =
      HasInput(in, 3) ? SymInt(KnownInts(node, in[3], "the frame length").at(0)) : in[2].shape[0];
  const Expr n = Expr::Dim(length);
  const DType c = DType::kF64;
  const Expr batch = at(0)[0], begin = at(0)[1] * Expr::Int(step), k = at(0)[2];
  const auto part = [&](bool imaginary) {
    return Expr::Reduce(ReduceOp::kSum, {length}, [&](const Indices& r) {
      const Expr w = HasInput(in, 2) ? Expr::Cast(c, in[2]({r[0]})) : Expr::ConstInt(c, 1);
      const Indices from{batch, begin + r[0], Expr::Int(0)};
      const Expr re = w * Expr::Cast(c, x(from)), im = w * ImaginaryPart(x, c, from);
      const auto [cosine, sine] = Rotation(c, k, r[0], n);
      return imaginary ? im * cosine - re * sine : re * cosine + im * sine;
    });
  };
  return {Expr::Cast(x.dtype, Expr::Select(Eq(at(0)[3], Expr::Int(0)), part(false), part(true)))};
}

}  // namespace

WEFT_REGISTER_OP(DFT)
    .describe(
        "The discrete Fourier transform along `axis`, the signal cut or filled with zeros to "
        "dft_length; `inverse` divides by it.\nGradient: DFT of dy the other way. Errors: the last "
        "axis as `axis` (kShapeMismatch). "
        "Source: ONNX DFT-20.")
    .input("input", TypeDoc(kFloats), "[..., 1] real or [..., 2] complex")
    .optional_input("dft_length", TypeDoc(kIndexTypes, "T2"), "default: the size of the axis")
    .optional_input("axis", "i64", "default -2")
    .output("output", "T", "[..., 2]; the inverse of one-sided frequencies: [..., 1]")
    .param<DftParam>()
    .example({"f32[2, 5, 1]"})
    .example({"f32[1, 6, 2]", "_", "i64[] = [1]"}, "inverse = 1")
    .set_attr<FInferType>("FInferType", DftType)
    .set_attr<FInferShape>("FInferShape", DftShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1, 2})
    .set_attr<FCodeGen>("FCodeGen", DftCode)
    .set_attr<FGradient>("FGradient", DftGrad);

WEFT_REGISTER_OP(STFT)
    .describe(
        "The DFT of frames of `frame_length`, `frame_step` apart, each times the window.\n"
        "Gradient: the inverse transform of dy, added up where frames overlap. Source: ONNX "
        "STFT-17.")
    .input("signal", TypeDoc(kFloats), "[batch, length, 1 or 2]")
    .input("frame_step", TypeDoc(kIndexTypes, "T2"))
    .optional_input("window", "T1", "[frame_length]; default: ones")
    .optional_input("frame_length", "T2", "default: the size of the window")
    .output("output", "T", "[batch, frames, frequencies, 2]")
    .param<StftParam>()
    .example({"f32[1, 12, 1]", "i64[] = [3]", "f32[6]"})
    .set_attr<FInferType>("FInferType", StftType)
    .set_attr<FInferShape>("FInferShape", StftShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1, 3})
    .set_attr<FCodeGen>("FCodeGen", StftCode)
    .set_attr<FGradient>("FGradient", StftGrad);

}  // namespace weft::ops
