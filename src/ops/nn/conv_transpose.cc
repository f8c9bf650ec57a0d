/// conv_transpose.cc: ConvTranspose and its two adjoints, weft::ConvTransposeGradData and
/// weft::ConvTransposeGradWeight, over any number of spatial axes.
///
/// The transpose of Conv as a linear map:
///   y gets x[c, o] W[c, m, k] at o stride + k dilation - begin
/// Sizes and padding: weft/core/op/window.h. The three ops are one trilinear form, so each is the
/// gradient of the others.
#include "ops/util/adjoint.h"
#include "ops/util/window.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct ConvTransposeParam : OpParam<ConvTransposeParam> {
  std::string auto_pad;
  Ints dilations, kernel_shape, output_padding, output_shape, pads, strides;
  int64_t group;
  WEFT_OP_PARAM(ConvTransposeParam) {
    WEFT_FIELD(auto_pad).set_default("NOTSET").describe("NOTSET, SAME_UPPER, SAME_LOWER or VALID");
    WEFT_FIELD(dilations).set_default({}).describe("positive, one a spatial axis; default 1");
    WEFT_FIELD(group)
        .set_default(1)
        .set_range(1, INT32_MAX)
        .describe("channels and filters split into this many groups");
    WEFT_FIELD(kernel_shape).set_default({}).describe("must equal the dimensions of W where given");
    WEFT_FIELD(output_padding)
        .set_default({})
        .describe("added to the end of the output, less than stride or dilation; default 0");
    WEFT_FIELD(output_shape)
        .set_default({})
        .describe("spatial dimensions of the output; padding then follows from them");
    WEFT_FIELD(pads).set_default({}).describe("all begins, then all ends; default 0");
    WEFT_FIELD(strides).set_default({}).describe("positive, one a spatial axis; default 1");
  }
};
WEFT_REGISTER_OP_PARAM(ConvTransposeParam);

/// The window in which Conv's input is our output: in = extents of y, out = extents of x.
Window TransposedWindow(const NodePtr& n, const std::vector<SymInt>& x,
                        const std::vector<SymInt>& kernel, const Facts* facts) {
  const auto& p = ParamOf<ConvTransposeParam>(n);
  return MakeTransposedWindow(n,
                              {p.auto_pad, p.strides, p.dilations, p.pads, /*ceil_mode=*/false,
                               p.output_padding, p.output_shape},
                              x, kernel, facts);
}

void ConvTransposeShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  const auto& p = ParamOf<ConvTransposeParam>(n);
  const auto [rank, xs, ws, kernel] = ConvOperandsOf(ctx, p.kernel_shape);
  if (rank == 0) return;
  const SymInt channels = UnifyDims(ctx, xs[1], ws[0], "the channels of x and the filters of W");
  DemandMultiple(ctx, channels, p.group, "channels by groups");
  const SymInt maps = ws[1] * p.group;
  if (HasInput(ctx, 2) && CheckRank(ctx, 2, 1, "B"))
    UnifyDims(ctx, ctx.in(2)[0], maps, "the bias and the output channels");
  std::vector<SymInt> dims{xs[0], maps};
  for (SymInt d : TransposedWindow(n, Tail(xs, 2), kernel, &ctx.facts()).in) {
    DemandAtLeast(ctx, d, 0, "what the padding leaves");
    dims.push_back(d);
  }
  ctx.set_out(0, Shape(std::move(dims)));
}

int64_t GroupOf(const NodePtr& n) { return ParamOf<ConvTransposeParam>(n).group; }
/// Index of the group that `channel` is in, where a group has `size` of them.
Expr GroupIndex(const NodePtr& n, const Expr& channel, SymInt size) {
  return GroupOf(n) == 1 ? Expr::Int(0) : FloorDivExpr(channel, Expr::Dim(size));
}

Exprs ConvTransposeCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &x = in[0], &w = in[1];
  Window win = TransposedWindow(n, Tail(x.shape, 2), Tail(w.shape, 2), nullptr);
  const SymInt maps = w.shape[1], channels = ExactDiv(w.shape[0], GroupOf(n));
  const Expr m = at(0)[1], g = GroupIndex(n, m, maps), map = m - g * Expr::Dim(maps);
  std::vector<SymInt> extents{channels};
  extents.insert(extents.end(), win.kernel.begin(), win.kernel.end());
  Expr y = SumOver(extents, [&](const Indices& r) {
    const Indices k = Tail(r, 1);
    const auto [o, hit] = WindowScatter(win, Tail(at(0), 2), k);
    const Expr c = g * Expr::Dim(channels) + r[0];
    return ReadInside(hit, WideProduct(x(At(at(0)[0], c, o)), w(At(c, map, k))));
  });
  if (HasInput(in, 2)) y = y + Expr::Cast(AccumulatorOf(x.dtype), in[2]({m}));
  return {Expr::Cast(x.dtype, y)};
}

/// dx[b, c, o] = sum over maps m of c's group and offsets k of dy[b, m, i(o, k)] W[c, m, k].
Exprs GradDataCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &w = in[1];
  Window win = TransposedWindow(n, Tail(at.shape[0], 2), Tail(w.shape, 2), nullptr);
  win.in = Tail(dy.shape, 2);
  const SymInt maps = w.shape[1], channels = ExactDiv(w.shape[0], GroupOf(n));
  const Expr c = at(0)[1], g = GroupIndex(n, c, channels);
  std::vector<SymInt> extents{maps};
  extents.insert(extents.end(), win.kernel.begin(), win.kernel.end());
  const Expr dx = SumOver(extents, [&](const Indices& r) {
    const Indices k = Tail(r, 1);
    const auto [i, inside] = WindowRead(win, Tail(at(0), 2), k);
    const Expr m = g * Expr::Dim(maps) + r[0];
    return ReadInside(inside, WideProduct(dy(At(at(0)[0], m, i)), w(At(c, r[0], k))));
  });
  return {Expr::Cast(dy.dtype, dx)};
}

/// dW[c, m, k] = sum over the batch and positions o of
///   x[b, c, o] dy[b, group(c) M / g + m, i(o, k)].
Exprs GradWeightCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &x = in[1];
  Window win = TransposedWindow(n, Tail(x.shape, 2), Tail(at.shape[0], 2), nullptr);
  win.in = Tail(dy.shape, 2);
  const SymInt maps = at.shape[0][1], channels = ExactDiv(at.shape[0][0], GroupOf(n));
  const Expr c = at(0)[0];
  const Expr m = GroupIndex(n, c, channels) * Expr::Dim(maps) + at(0)[1];
  std::vector<SymInt> extents{x.shape[0]};
  for (SymInt d : Tail(x.shape, 2)) extents.push_back(d);
  const Expr dw = SumOver(extents, [&](const Indices& r) {
    const Indices o = Tail(r, 1);
    const auto [i, inside] = WindowRead(win, o, Tail(at(0), 2));
    return ReadInside(inside, WideProduct(dy(At(r[0], m, i)), x(At(r[0], c, o))));
  });
  return {Expr::Cast(dy.dtype, dw)};
}

/// Attributes of the Conv whose transpose this is; nothing where the padding is not in them, or
/// output_padding adds a window.
std::optional<AttrDict> ConvAttrs(const NodePtr& n) {
  const auto& p = ParamOf<ConvTransposeParam>(n);
  if (!p.output_shape.empty() || !(p.auto_pad.empty() || p.auto_pad == "NOTSET"))
    return std::nullopt;
  for (size_t k = 0; k < p.output_padding.size(); ++k)
    if (p.output_padding[k] >= (p.strides.empty() ? 1 : p.strides.at(k))) return std::nullopt;
  AttrDict attrs = AttrsOf(n);
  attrs.erase("output_padding");
  attrs.erase("output_shape");
  return attrs;
}
std::vector<NodeEntry> ConvTransposeGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!dy[0]) return d;
  const NodeEntry x = n->inputs[0], w = n->inputs[1];
  if (const auto attrs = ConvAttrs(n)) {
    d[0] = ApplyOp("Conv", {dy[0], w}, *attrs);
    d[1] = ApplyOp("weft::ConvGradWeight", {x, dy[0], ShapeOf(w)}, *attrs);
  } else {
    d[0] = ApplyOp("weft::ConvTransposeGradData", {dy[0], w, ShapeOf(x)}, AttrsOf(n));
    d[1] = ApplyOp("weft::ConvTransposeGradWeight", {dy[0], x, ShapeOf(w)}, AttrsOf(n));
  }
  if (HasInput(n, 2)) d[2] = ApplyOp("weft::ChannelSum", {dy[0]});
  return d;
}
std::vector<NodeEntry> GradDataGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  if (!g[0]) return {NodeEntry(), NodeEntry(), NodeEntry()};
  const NodeEntry dy = n->inputs[0], w = n->inputs[1];
  return {ApplyOp("ConvTranspose", {g[0], w}, AttrsOf(n)),
          ApplyOp("weft::ConvTransposeGradWeight", {dy, g[0], ShapeOf(w)}, AttrsOf(n)),
          NodeEntry()};
}
std::vector<NodeEntry> GradWeightGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  if (!g[0]) return {NodeEntry(), NodeEntry(), NodeEntry()};
  const NodeEntry dy = n->inputs[0], x = n->inputs[1];
  return {ApplyOp("ConvTranspose", {x, g[0]}, AttrsOf(n)),
          ApplyOp("weft::ConvTransposeGradData", {dy, g[0], ShapeOf(x)}, AttrsOf(n)), NodeEntry()};
}

/// Two operations per multiplication: x counts the positions, W what each writes.
SymInt Flops(const Shape& x, const Shape& w) {
  return w.has_rank() && w.rank() > 0 ? x.num_elements() * Product(Tail(w, 1)) * 2 : SymInt();
}

}  // namespace

WEFT_REGISTER_OP(ConvTranspose)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "Transpose of Conv: y[b, m, i] = B[m] + sum of x[b, c, o] W[c, m mod M/g, k] over channels "
        "c of m's group and offsets k with o stride + k dilation - begin = i. f16 and bf16 "
        "accumulate in f32.\n"
        "Gradient: Conv and weft::ConvGradWeight where the padding is given, else "
        "weft::ConvTransposeGradData and weft::ConvTransposeGradWeight; weft::ChannelSum; keeps x "
        "and W.\n"
        "Errors: channels do not fit W, ranks differ, padding larger than the output "
        "(kShapeMismatch), attributes of the wrong length or sign (kBadAttribute). Source: ONNX "
        "ConvTranspose-22.")
    .input("X", TypeDoc(kFloats), "[n, C, spatial...]")
    .input("W", "T", "[C, M/group, kernel...]")
    .optional_input("B", "T", "[M]")
    .output("Y", "T", "[n, M, spatial...]")
    .param<ConvTransposeParam>()
    .example({"f32[1, 2, 3, 3]", "f32[2, 3, 3, 3]", "f32[3]"},
             "pads = [1, 1, 1, 1], strides = [2, 2], output_padding = [1, 0]")
    .example({"f32[n, 4, 5]", "f32[4, 2, 3]"}, "group = 2, strides = [2], dilations = [2]")
    .example({"f32[1, 1, 3, 3]", "f32[1, 2, 3, 3]"}, "auto_pad = \"SAME_UPPER\", strides = [2, 2]")
    .example({"f32[1, 1, 3, 3]", "f32[1, 2, 3, 3]"}, "output_shape = [6, 8], strides = [2, 3]")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", ConvTransposeShape)
    .set_attr<FCodeGen>("FCodeGen", ConvTransposeCode)
    .set_attr<FGradient>("FGradient", ConvTransposeGradient)
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
                        return Flops(in.at(0), in.at(1));
                      });

WEFT_REGISTER_OP_IN(weft, ConvTransposeGradData)
    .describe(
        "Gradient of ConvTranspose by x, from dy, W and the shape of x. Gradient: ConvTranspose, "
        "weft::ConvTransposeGradWeight.\n"
        "Source: Weft.")
    .input("dy", TypeDoc(kFloats))
    .input("W", "T")
    .input("shape", "i64", "dimensions of x")
    .output("dx", "T")
    .param<ConvTransposeParam>()
    .example({"f32[1, 2, 6]", "f32[4, 2, 3]", "i64[3] = [1, 4, 3]"},
             "auto_pad = \"SAME_LOWER\", strides = [2]")
    .set_attr<FInferType>("FInferType", AdjointType)
    .set_attr<FInferShape>("FInferShape", AdjointShape(ConvTransposeShape, 2, {kSought, 1}))
    .set_attr<FCodeGen>("FCodeGen", GradDataCode)
    .set_attr<FGradient>("FGradient", GradDataGradient)
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in,
                         const std::vector<Shape>& out) { return Flops(out.at(0), in.at(1)); });

WEFT_REGISTER_OP_IN(weft, ConvTransposeGradWeight)
    .describe(
        "Gradient of ConvTranspose by W, from dy, x and the shape of W. Gradient: ConvTranspose, "
        "weft::ConvTransposeGradData.\n"
        "Source: Weft.")
    .input("dy", TypeDoc(kFloats))
    .input("X", "T")
    .input("shape", "i64", "dimensions of W")
    .output("dw", "T")
    .param<ConvTransposeParam>()
    .example({"f32[1, 2, 6]", "f32[1, 4, 3]", "i64[3] = [4, 2, 3]"},
             "auto_pad = \"SAME_LOWER\", strides = [2]")
    .set_attr<FInferType>("FInferType", AdjointType)
    .set_attr<FInferShape>("FInferShape", AdjointShape(ConvTransposeShape, 2, {1, kSought}))
    .set_attr<FCodeGen>("FCodeGen", GradWeightCode)
    .set_attr<FGradient>("FGradient", GradWeightGradient)
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in,
                         const std::vector<Shape>& out) { return Flops(in.at(1), out.at(0)); });

}  // namespace weft::ops
