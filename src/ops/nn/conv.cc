/// conv.cc: Conv and its two adjoints, weft::ConvGradData and weft::ConvGradWeight, over any number
/// of spatial axes.
///
/// All three are one trilinear form read three ways, so each is the gradient of the others and Conv
/// can be differentiated any number of times. Definitions are direct sums with guarded reads: the
/// meaning, not the fast way.
#include "ops/util/adjoint.h"
#include "ops/util/convolution.h"
#include "weft/support/check.h"
#include "window_body.h"

namespace weft::ops {
namespace {

void ConvShape(InferShapeContext& ctx) { ConvolutionShape(ctx, 1, 2); }

Exprs ConvCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &x = in[0], &w = in[1];
  Expr y = ConvolutionSum(n, x.shape, w.shape, at(0), [&](const Indices& xi, const Indices& wi) {
    return WideProduct(x(xi), w(wi));
  });
  if (HasInput(in, 2)) y = y + Expr::Cast(AccumulatorOf(x.dtype), in[2]({at(0)[1]}));
  return {Expr::Cast(x.dtype, y)};
}

/// dx[b, c, i] = sum over filters m of c's group and offsets k of dy[b, m, o(i, k)] w[m, c mod (C /
/// g), k].
Exprs ConvGradDataCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &w = in[1];
  Window win = ConvWindow(n, at.shape[0], w.shape, nullptr);
  win.out = Tail(dy.shape, 2);
  const SymInt filters = ExactDiv(w.shape[0], ParamOf<ConvParam>(n).group), per_group = w.shape[1];
  const Expr c = at(0)[1];
  const Expr g =
      ParamOf<ConvParam>(n).group == 1 ? Expr::Int(0) : FloorDivExpr(c, Expr::Dim(per_group));
  const Expr channel = c - g * Expr::Dim(per_group);
  std::vector<SymInt> extents{filters};
  extents.insert(extents.end(), win.kernel.begin(), win.kernel.end());
  const Expr dx = SumOver(extents, [&](const Indices& r) {
    const Indices k = Tail(r, 1);
    const auto [o, hit] = WindowScatter(win, Tail(at(0), 2), k);
    const Expr m = g * Expr::Dim(filters) + r[0];
    return ReadInside(hit, WideProduct(dy(At(at(0)[0], m, o)), w(At(m, channel, k))));
  });
  return {Expr::Cast(dy.dtype, dx)};
}

/// dw[m, c, k] = sum over the batch and positions o of dy[b, m, o] x[b, group(m) C / g + c, i(o,
/// k)].
Exprs ConvGradWeightCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &x = in[1];
  Window win = ConvWindow(n, x.shape, at.shape[0], nullptr);
  const Expr m = at(0)[0];
  const int64_t group = ParamOf<ConvParam>(n).group;
  const Expr first = group == 1 ? Expr::Int(0)
                                : FloorDivExpr(m, Expr::Dim(ExactDiv(at.shape[0][0], group))) *
                                      Expr::Dim(at.shape[0][1]);
  std::vector<SymInt> extents{dy.shape[0]};
  for (SymInt d : Tail(dy.shape, 2)) extents.push_back(d);
  const Expr dw = SumOver(extents, [&](const Indices& r) {
    const Indices o = Tail(r, 1);
    const auto [from, inside] = WindowRead(win, o, Tail(at(0), 2));
    return ReadInside(inside, WideProduct(dy(At(r[0], m, o)), x(At(r[0], first + at(0)[1], from))));
  });
  return {Expr::Cast(dy.dtype, dw)};
}

std::vector<NodeEntry> ConvGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!dy[0]) return d;
  const NodeEntry x = n->inputs[0], w = n->inputs[1];
  d[0] = ApplyOp("weft::ConvGradData", {dy[0], w, ShapeOf(x)}, AttrsOf(n));
  d[1] = ApplyOp("weft::ConvGradWeight", {dy[0], x, ShapeOf(w)}, AttrsOf(n));
  if (HasInput(n, 2)) d[2] = ApplyOp("weft::ChannelSum", {dy[0]});
  return d;
}
/// Gradient of one of the adjoints, whose inputs are dy, the other operand of Conv and the shape of
/// what it gives: g stands for what it gives (the data or the weights), and `op` is the adjoint
/// that gives the other operand.
std::vector<NodeEntry> AdjointGradient(const NodePtr& n, const NodeEntry& g, bool g_is_data,
                                       const char* op) {
  if (!g) return std::vector<NodeEntry>(3);
  const NodeEntry dy = n->inputs[0], other = n->inputs[1];
  const std::vector<NodeEntry> operands =
      g_is_data ? std::vector<NodeEntry>{g, other} : std::vector<NodeEntry>{other, g};
  return {ApplyOp("Conv", operands, AttrsOf(n)), ApplyOp(op, {dy, g, ShapeOf(other)}, AttrsOf(n)),
          NodeEntry()};
}
std::vector<NodeEntry> ConvGradDataGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  return AdjointGradient(n, g[0], true, "weft::ConvGradWeight");
}
std::vector<NodeEntry> ConvGradWeightGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  return AdjointGradient(n, g[0], false, "weft::ConvGradData");
}

/// Two operations per multiplication: dy counts the windows, W what each reads.
SymInt GradFlops(const Shape& dy, const Shape& w) {
  return w.has_rank() && w.rank() > 0 && w[0].known() ? dy.num_elements() * Product(Tail(w, 1)) * 2
                                                      : SymInt();
}

// ---- weft::ChannelSum ----

void ChannelSumShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return ctx.set_out(0, Shape::OfRank(1));
  WEFT_CHECK(x.rank() >= 2, kShapeMismatch, "{}: x must have rank 2 or more, got {}",
             ctx.node()->Describe(), x.ToString());
  ctx.set_out(0, Shape({x[1]}));
}
Exprs ChannelSumCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  std::vector<SymInt> extents = Tail(in[0].shape, 2);
  extents.insert(extents.begin(), in[0].shape[0]);
  return {
      SumOver(extents, [&](const Indices& r) { return in[0](At(r[0], at(0)[0], Tail(r, 1))); })};
}
std::vector<NodeEntry> SimplifyChannelSum(RewriteContext& ctx, const NodePtr& n) {
  const Shape& x = ctx.shape(n->inputs[0]);
  if (!x.has_rank()) return {};
  std::vector<int64_t> axes{0};
  for (int k = 2; k < x.rank(); ++k) axes.push_back(k);
  return {ApplyOp("ReduceSum", {n->inputs[0], IntsLike(n->inputs[0], axes)}, {{"keepdims", 0}})};
}
/// [c] spread over x: the channel vector as [c, 1, 1 ...], the rank taken from Shape(x).
std::vector<NodeEntry> ChannelSumGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  if (!g[0]) return {NodeEntry()};
  const NodeEntry x = n->inputs[0];
  const NodeEntry spatial = ApplyOp("Shape", {ApplyOp("Shape", {x}, {{"start", 2}})});
  const NodeEntry ones = ApplyOp("ConstantOfShape", {spatial}, {{"value", Tensor::Ints({1})}});
  const NodeEntry shape = ApplyOp("Concat", {ShapeOf(g[0]), ones}, {{"axis", 0}});
  return {ExpandLike(ApplyOp("Reshape", {g[0], shape}, {{"allowzero", 1}}), x)};
}

// ---- in ONNX's operators ----

/// Any rank: [b, c, ...] seen as [b, c, rest].
std::string ChannelSumBody(const OnnxBodyRequest&) {
  return IntsConstant("view", {0, 0, -1}) + IntsConstant("axes", {0, 2}) +
         "flat = Reshape(i0, view)\no0 = ReduceSum<keepdims = 0>(flat, axes)";
}

/// The window of a gradient: x has the extents of the operand, y those of dy.
ConstantWindow BodyWindow(const NodePtr& n, const Shape& x, const Shape& w, const Shape& y) {
  return MakeConstantWindow(n, WindowAttrsOf(n), x, ConstantSpatial(w, "W"), y);
}
std::string ConvGradDataBody(const OnnxBodyRequest& r) {
  const ConstantWindow w =
      BodyWindow(r.node, r.output_shapes[0], r.input_shapes[1], r.input_shapes[0]);
  return TransposedConvText(w, ParamOf<ConvParam>(r.node).group, "o0", "i0, i1");
}

/// dW[m, c, k] is a convolution of x with dy where batch and channels change places, as do strides
/// and dilations; groups keep apart as groups of the batch.
std::string ConvGradWeightBody(const OnnxBodyRequest& r) {
  const ConstantWindow w =
      BodyWindow(r.node, r.input_shapes[1], r.output_shapes[0], r.input_shapes[0]);
  const int64_t group = ParamOf<ConvParam>(r.node).group;
  const auto channels = [&](size_t i) {
    const SymInt c = r.input_shapes[i][1];
    WEFT_CHECK(c.known() && c.is_const() && c.value() % group == 0, kUnsupported,
               "its form in ONNX's operators needs a constant number of channels");
    return c.value() / group;
  };
  const int64_t in = channels(1), out = channels(0);
  const auto shape = [](std::vector<int64_t> head, const std::vector<int64_t>& tail) {
    head.insert(head.end(), tail.begin(), tail.end());
    return head;
  };
  const auto perm = [&](std::vector<int64_t> head) {
    for (size_t k = 0; k < w.rank(); ++k) head.push_back(int64_t(head.size()));
    return ListText(head);
  };
  std::vector<int64_t> starts(w.rank(), 0), axes;
  for (size_t k = 0; k < w.rank(); ++k) axes.push_back(int64_t(k) + 2);
  std::string text = IntsConstant("x_groups", shape({0, group, in}, w.in)) +
                     IntsConstant("x_rows", shape({in, -1}, w.in)) +
                     IntsConstant("dy_groups", shape({0, group, out}, w.out)) +
                     IntsConstant("dy_rows", shape({group * out, -1}, w.out)) +
                     IntsConstant("starts", starts) + IntsConstant("ends", w.kernel) +
                     IntsConstant("axes", axes);
  text += fmt::format(R"(x1 = Reshape(i1, x_groups)
x2 = Transpose<perm = {}>(x1)
x3 = Reshape(x2, x_rows)
dy1 = Reshape(i0, dy_groups)
dy2 = Transpose<perm = {}>(dy1)
dy3 = Reshape(dy2, dy_rows)
wide = Conv<group = {}, strides = {}, dilations = {}, pads = {}>(x3, dy3)
dw = Slice(wide, starts, ends, axes)
o0 = Transpose<perm = {}>(dw))",
                      perm({2, 1, 0}), perm({1, 2, 0}), group, ListText(w.dilations),
                      ListText(w.strides), ListText(w.pads()), perm({1, 0}));
  return text;
}

}  // namespace

WEFT_REGISTER_OP(Conv)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "Cross-correlation: y[b, m, o] = B[m] + sum_{c, k} x[b, group(m) C/g + c, o stride - begin "
        "+ k dilation] W[m, c, k], reads outside x are 0. f16 and bf16 accumulate in f32.\n"
        "Gradient: weft::ConvGradData, weft::ConvGradWeight, weft::ChannelSum; keeps x and W.\n"
        "Errors: channels do not fit group x W, ranks differ, a window larger than the padded "
        "input (kShapeMismatch), attributes of the wrong length or sign (kBadAttribute). Source: "
        "ONNX Conv-22.")
    .input("X", TypeDoc(kFloats), "[n, C, spatial...]")
    .input("W", "T", "[M, C/group, kernel...]")
    .optional_input("B", "T", "[M]")
    .output("Y", "T", "[n, M, spatial...]")
    .param<ConvParam>()
    .example({"f32[1, 2, 5, 5]", "f32[3, 2, 3, 3]", "f32[3]"}, "pads = [1, 1, 1, 1]")
    .example({"f32[n, 4, 7]", "f32[4, 2, 3]"}, "group = 2, strides = [2], dilations = [2]")
    .example({"f32[1, 1, 6, 5]", "f32[2, 1, 3, 2]"}, "auto_pad = \"SAME_LOWER\", strides = [2, 2]")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", ConvShape)
    .set_attr<FCodeGen>("FCodeGen", ConvCode)
    .set_attr<FGradient>("FGradient", ConvGradient)
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in,
                         const std::vector<Shape>& out) { return GradFlops(out.at(0), in.at(1)); });

WEFT_REGISTER_OP_IN(weft, ConvGradData)
    .describe(
        "Gradient of Conv by x, from dy, W and the shape of x. Gradient: Conv, "
        "weft::ConvGradWeight. Source: Weft.")
    .input("dy", TypeDoc(kFloats))
    .input("W", "T")
    .input("shape", "i64", "dimensions of x")
    .output("dx", "T")
    .param<ConvParam>()
    .example({"f32[1, 4, 3]", "f32[4, 2, 3]", "i64[3] = [1, 4, 7]"}, "group = 2, strides = [2]")
    .set_attr<FInferType>("FInferType", AdjointType)
    .set_attr<FInferShape>("FInferShape", AdjointShape(ConvShape, 2, {kSought, 1}))
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FCodeGen>("FCodeGen", ConvGradDataCode)
    .set_attr<FGradient>("FGradient", ConvGradDataGradient)
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
                        return GradFlops(in.at(0), in.at(1));
                      })
    .set_attr<FOnnxBody>("FOnnxBody", ConvGradDataBody);

WEFT_REGISTER_OP_IN(weft, ConvGradWeight)
    .describe(
        "Gradient of Conv by W, from dy, x and the shape of W. Gradient: Conv, weft::ConvGradData. "
        "Source: Weft.")
    .input("dy", TypeDoc(kFloats))
    .input("X", "T")
    .input("shape", "i64", "dimensions of W")
    .output("dw", "T")
    .param<ConvParam>()
    .example({"f32[1, 4, 3]", "f32[1, 4, 7]", "i64[3] = [4, 2, 3]"}, "group = 2, strides = [2]")
    .set_attr<FInferType>("FInferType", AdjointType)
    .set_attr<FInferShape>("FInferShape", AdjointShape(ConvShape, 2, {1, kSought}))
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FCodeGen>("FCodeGen", ConvGradWeightCode)
    .set_attr<FGradient>("FGradient", ConvGradWeightGradient)
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in,
                         const std::vector<Shape>& out) { return GradFlops(in.at(0), out.at(0)); })
    .set_attr<FOnnxBody>("FOnnxBody", ConvGradWeightBody);

WEFT_REGISTER_OP_IN(weft, ChannelSum)
    .describe(
        "y[c] = sum of x[b, c, ...]: the gradient of a bias per channel, whatever the rank. "
        "Gradient: dy spread. Source: Weft.")
    .input("x", TypeDoc(kNumeric), "rank 2 or more")
    .output("y", "T")
    .param<NoParam>()
    .example({"f32[2, 3, 4]"})
    .set_attr<FInferType>("FInferType", SameType(kNumeric))
    .set_attr<FInferShape>("FInferShape", ChannelSumShape)
    .set_attr<FCodeGen>("FCodeGen", ChannelSumCode)
    .set_attr<FGradient>("FGradient", ChannelSumGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyChannelSum)
    .set_attr<FOnnxBody>("FOnnxBody", ChannelSumBody);

}  // namespace weft::ops
