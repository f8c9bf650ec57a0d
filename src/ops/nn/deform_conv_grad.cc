/// deform_conv_grad.cc: the gradient of DeformConv: products over the columns that it reads.
///
///   columns[b, c, k, o] = X[b, c, .] read at position k of the window at o, displaced by offset
///   y = B + W (mask columns): a product per group, so dW, d mask and d columns are products too;
///   d columns reaches X by the adjoint of reading, and offset by the slope of reading.
///
/// Kernel holds the extents k... of W. At an element itself the slope is that of
/// the interval above it.
///   throws  as DeformConv; kUnsupported where kernel is not known when code is made
#include "deform_conv.h"
#include "ops/util/adjoint.h"

namespace weft::ops {
namespace {

std::vector<SymInt> KernelOf(const NodePtr& n, const SymTensor* value) {
  WEFT_CHECK(value, kUnsupported, "{}: the kernel's dimensions must be known", n->Describe());
  return value->elements;
}

/// The extents of columns, and one more axis for the slope.
void ColumnsShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  const Shape &x = ctx.in(0), &offset = ctx.in(1);
  const SymTensorPtr kernel = InputValue(ctx, 2);
  if (!x.has_rank() || !kernel) return Unknown(ctx, 0, "the rank of X or the kernel is unknown");
  WEFT_CHECK(x.rank() >= 3 && int(kernel->elements.size()) == x.rank() - 2, kShapeMismatch,
             "{}: X {} and a kernel of {} dimensions", n->Describe(), x.ToString(),
             kernel->elements.size());
  CheckTaps(n, 2, size_t(x.rank()) - 2);
  const Window w = DemandDeformed(ctx, x, kernel->elements, 1);
  std::vector<SymInt> dims{x[0], x[1], Product(kernel->elements)};
  for (int k = 0; k < w.rank(); ++k)
    dims.push_back(offset.has_rank()
                       ? UnifyDims(ctx, w.out[size_t(k)], offset[k + 2], "output dimensions")
                       : w.out[size_t(k)]);
  if (IsOp(n, "weft::DeformColumnsSlope")) dims.push_back(int64_t(w.rank()));
  ctx.set_out(0, Shape(std::move(dims)));
}

Exprs ColumnsCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &x = in[0], &offset = in[1];
  const auto& p = ParamOf<DeformConvParam>(n);
  const DType t = AccumulatorOf(x.dtype);
  const Window w = DeformWindow(n, Tail(x.shape, 2), KernelOf(n, in[2].value), nullptr);
  const DeformReads reads{w, offset, p.offset_group, x.shape[1]};
  const Expr b = at(0)[0], c = at(0)[1];
  const Indices k = Delinearize(at(0)[2], w.kernel);
  const Indices o(at(0).begin() + 3, at(0).begin() + 3 + w.rank());
  const Exprs position = reads.At(t, b, reads.Row(c, k), o, k);
  if (at(0).size() == size_t(w.rank()) + 3) {
    Indices from = At(b, c, k);
    return {Expr::Cast(x.dtype, ReadBetween(x, t, position, 0, Expr::Bool(true), &from))};
  }
  Expr y = Zero(t);
  for (int d = 0; d < w.rank(); ++d) {
    Indices from = At(b, c, k);
    const Expr slope = ReadBetween(x, t, position, 0, Expr::Bool(true), &from, d);
    y = Expr::Select(Eq(at(0).back(), Expr::Int(d)), slope, y);
  }
  return {Expr::Cast(x.dtype, y)};
}

/// Reading linearly weighs element i at position p with max(0, 1 - |p - i|).
Exprs ColumnsGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &offset = in[1];
  const auto& p = ParamOf<DeformConvParam>(n);
  const DType t = AccumulatorOf(dy.dtype);
  const Shape& x = at.shape[0];
  const Window w = DeformWindow(n, Tail(x, 2), KernelOf(n, in[2].value), nullptr);
  const DeformReads reads{w, offset, p.offset_group, x[1]};
  const Expr b = at(0)[0], c = at(0)[1];
  std::vector<SymInt> extents = w.kernel;
  for (int k = 0; k < w.rank(); ++k) extents.push_back(dy.shape[k + 3]);
  const Expr sum = ReduceOver(ReduceOp::kSum, extents, [&](const Indices& r) {
    const Indices k(r.begin(), r.begin() + w.rank()), o(r.begin() + w.rank(), r.end());
    const Exprs position = reads.At(t, b, reads.Row(c, k), o, k);
    Indices from{b, c, Linearize(k, w.kernel)};
    from.insert(from.end(), o.begin(), o.end());
    Expr v = Expr::Cast(t, dy(from));
    for (size_t d = 0; d < position.size(); ++d) {
      const Expr away = position[d] - Expr::Cast(t, at(0)[d + 2]);
      v = v * Max(Zero(t), 1.0 - Expr::Unary(UnOp::kAbs, away));
    }
    return v;
  });
  return {Expr::Cast(dy.dtype, sum)};
}

// ---- gradients ----

NodeEntry Joined(const std::vector<NodeEntry>& extents) {
  return ApplyOp("Concat", extents, {{"axis", 0}});
}
NodeEntry Shaped(const NodeEntry& e, const std::vector<NodeEntry>& extents) {
  return ApplyOp("Reshape", {e, Joined(extents)}, {{"allowzero", 1}});
}
NodeEntry ExtentsOf(const NodeEntry& e, int64_t from, int64_t to = INT64_MAX) {
  return ApplyOp("Shape", {e}, {{"start", from}, {"end", to}});
}
NodeEntry Total(const NodeEntry& extents) { return ApplyOp("ReduceProd", {extents}); }
NodeEntry Sum(const NodeEntry& e, int64_t axis) {
  return ApplyOp("ReduceSum", {e, IntsLike(e, {axis})}, {{"keepdims", 0}});
}
NodeEntry Turned(const NodeEntry& e, std::vector<int64_t> perm) {
  return ApplyOp("Transpose", {e}, {{"perm", Ints(perm)}});
}
/// The attributes that say where a kernel reads.
AttrDict ReadingAttrs(const NodePtr& n) {
  const auto& p = ParamOf<DeformConvParam>(n);
  AttrDict attrs{{"offset_group", p.offset_group}};
  if (!p.dilations.empty()) attrs["dilations"] = p.dilations;
  if (!p.strides.empty()) attrs["strides"] = p.strides;
  if (!p.pads.empty()) attrs["pads"] = p.pads;
  return attrs;
}

/// What reaches the image and the offsets from the gradient of columns.
std::pair<NodeEntry, NodeEntry> BehindColumns(const NodePtr& n, const NodeEntry& x,
                                              const NodeEntry& offset, const NodeEntry& kernel,
                                              const NodeEntry& dcolumns, const NodeEntry& shape) {
  const AttrDict attrs = ReadingAttrs(n);
  const NodeEntry dx = ApplyOp("weft::DeformColumnsGrad", {dcolumns, offset, kernel, shape}, attrs);
  const NodeEntry slope = ApplyOp("weft::DeformColumnsSlope", {x, offset, kernel}, attrs);
  const NodeEntry each = ApplyOp("Unsqueeze", {dcolumns, IntsLike(x, {-1})}) * slope;
  const int64_t groups = ParamOf<DeformConvParam>(n).offset_group;
  const NodeEntry channels = ApplyOp("Div", {ExtentsOf(x, 1, 2), IntsLike(x, {groups})});
  const NodeEntry grouped =
      Shaped(each, {ExtentsOf(x, 0, 1), IntsLike(x, {groups}), channels, Total(kernel),
                    Total(ExtentsOf(dcolumns, 3)), ExtentsOf(each, -1)});
  return {dx, ReshapeLike(Turned(Sum(grouped, 2), {0, 1, 2, 4, 3}), offset)};
}

std::vector<NodeEntry> ColumnsGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  if (!g[0]) return {NodeEntry(), NodeEntry(), NodeEntry()};
  const NodeEntry x = n->inputs[0];
  const auto [dx, doffset] = BehindColumns(n, x, n->inputs[1], n->inputs[2], g[0], ShapeOf(x));
  return {dx, doffset, NodeEntry()};
}
/// Linear in d columns; in the offsets as DeformColumns of g.
std::vector<NodeEntry> ColumnsGradGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  std::vector<NodeEntry> d(4);
  if (!g[0]) return d;
  const NodeEntry offset = n->inputs[1], kernel = n->inputs[2];
  d[0] = ApplyOp("weft::DeformColumns", {g[0], offset, kernel}, ReadingAttrs(n));
  d[1] = BehindColumns(n, g[0], offset, kernel, n->inputs[0], n->inputs[3]).second;
  return d;
}

void ReadingType(InferTypeContext& ctx) {
  const Type t = CommonInputType(ctx, kFloats, 0, 2);
  for (int i = 2; i < ctx.num_inputs(); ++i) CheckInputType(ctx, i, kI64Only);
  if (t.known()) ctx.set_out(0, t);
}

}  // namespace

std::vector<NodeEntry> DeformConvGradient(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!dys[0]) return d;
  const auto& p = ParamOf<DeformConvParam>(n);
  const NodeEntry x = n->inputs[0], w = n->inputs[1], offset = n->inputs[2], dy = dys[0];
  const auto number = [&](int64_t v) { return IntsLike(x, {v}); };
  const NodeEntry kernel = ExtentsOf(w, 2);
  const NodeEntry columns = ApplyOp("weft::DeformColumns", {x, offset, kernel}, ReadingAttrs(n));
  const NodeEntry batch = ExtentsOf(x, 0, 1), places = Total(ExtentsOf(dy, 2));
  const NodeEntry positions = Total(kernel), per_group = ExtentsOf(w, 1, 2);
  const NodeEntry filters = ApplyOp("Div", {ExtentsOf(w, 0, 1), number(p.group)});
  const NodeEntry shared = ApplyOp("Div", {ExtentsOf(x, 1, 2), number(p.offset_group)});
  const std::vector<NodeEntry> by_offset{batch, number(p.offset_group), shared, positions, places};
  const std::vector<NodeEntry> by_group{batch, number(p.group), per_group * positions, places};
  const NodeEntry dy4 = Shaped(dy, {batch, number(p.group), filters, places});
  const NodeEntry w3 = Shaped(w, {number(p.group), filters, per_group * positions});

  const NodeEntry read = Shaped(columns, by_offset);
  NodeEntry weighed = read;
  NodeEntry back = Shaped(ApplyOp("MatMul", {Turned(w3, {0, 2, 1}), dy4}), by_offset);
  if (HasInput(n, 4)) {
    const NodeEntry mask = n->inputs[4];
    const NodeEntry m = Shaped(mask, {batch, number(p.offset_group), number(1), positions, places});
    d[4] = ReshapeLike(Sum(back * read, 2), mask);
    weighed = read * m;
    back = back * m;
  }
  const NodeEntry columns4 = Turned(Shaped(weighed, by_group), {0, 1, 3, 2});
  d[1] = ReshapeLike(Sum(ApplyOp("MatMul", {dy4, columns4}), 0), w);
  if (HasInput(n, 3)) d[3] = ApplyOp("weft::ChannelSum", {dy});
  std::tie(d[0], d[2]) =
      BehindColumns(n, x, offset, kernel, ReshapeLike(back, columns), ShapeOf(x));
  return d;
}

WEFT_REGISTER_OP_IN(weft, DeformColumns)
    .describe(
        "What DeformConv reads: columns[b, c, k, o]. Gradient: weft::DeformColumnsGrad for X, "
        "weft::DeformColumnsSlope for offset.\nSource: Weft.")
    .input("X", TypeDoc(kFloats), "[n, C, spatial...]")
    .input("offset", "T", "[n, offset_group K axes, out spatial...]")
    .input("kernel", "i64", "dimensions of the kernel")
    .output("columns", "T", "[n, C, K, out spatial...]")
    .param<DeformConvParam>()
    .example({"f32[1, 2, 4, 4]", "f32[1, 8, 3, 3]", "i64[2] = [2, 2]"})
    .set_attr<FInferType>("FInferType", ReadingType)
    .set_attr<FInferShape>("FInferShape", ColumnsShape)
    .set_attr<FCodeGen>("FCodeGen", ColumnsCode)
    .set_attr<FGradient>("FGradient", ColumnsGradient);

WEFT_REGISTER_OP_IN(weft, DeformColumnsSlope)
    .describe(
        "weft::DeformColumns derived by each coordinate of the position, on a last axis. Gradient: "
        "none registered. Source: Weft.")
    .input("X", TypeDoc(kFloats), "[n, C, spatial...]")
    .input("offset", "T")
    .input("kernel", "i64")
    .output("slope", "T", "[n, C, K, out spatial..., axes]")
    .param<DeformConvParam>()
    .example({"f32[1, 2, 4, 4]", "f32[1, 8, 3, 3]", "i64[2] = [2, 2]"})
    .set_attr<FInferType>("FInferType", ReadingType)
    .set_attr<FInferShape>("FInferShape", ColumnsShape)
    .set_attr<FCodeGen>("FCodeGen", ColumnsCode);

WEFT_REGISTER_OP_IN(weft, DeformColumnsGrad)
    .describe(
        "Adjoint of weft::DeformColumns in X. Gradient: weft::DeformColumns for dcolumns, "
        "weft::DeformColumnsSlope for offset.\nSource: Weft.")
    .input("dcolumns", TypeDoc(kFloats), "[n, C, K, out spatial...]")
    .input("offset", "T")
    .input("kernel", "i64")
    .input("shape", "i64", "dimensions of X")
    .output("dX", "T")
    .param<DeformConvParam>()
    .example({"f32[1, 2, 4, 3, 3]", "f32[1, 8, 3, 3]", "i64[2] = [2, 2]", "i64[4] = [1, 2, 4, 4]"})
    .set_attr<FInferType>("FInferType", ReadingType)
    .set_attr<FInferShape>("FInferShape", AdjointShape(ColumnsShape, 3, {kSought, 1, 2}))
    .set_attr<FCodeGen>("FCodeGen", ColumnsGradCode)
    .set_attr<FGradient>("FGradient", ColumnsGradGradient);

}  // namespace weft::ops
