/// deform_conv.cc: DeformConv: a convolution whose reads are displaced by an input, over any number
/// of spatial axes.
///
///   in      X : T[n, C, d...], W : T[M, C/group, k...], offset : T[n, G K r, o...], B : T[M],
///           mask : T[n, G K, o...]; K positions of the kernel, r spatial axes, G offset groups
///   out     Y : T[n, M, o...]
///   formula y[b, m, o] = B[m] + sum over c, k of W[m, c, k] mask[b, g K + k, o]
///           X[b, c, o stride + k dilation - begin + offset[b, (g K + k) r + ., o]], read linearly
///           between elements, 0 outside; g the offset group of c
///   grad    deform_conv_grad.cc
#include "deform_conv.h"

namespace weft::ops {

WEFT_REGISTER_OP_PARAM(DeformConvParam);

namespace {

void DeformConvShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  const auto& p = ParamOf<DeformConvParam>(n);
  if (!ctx.in(0).has_rank() && !ctx.in(1).has_rank())
    return Unknown(ctx, 0, "the ranks of X and W are unknown");
  const auto [rank, xs, ws, kernel] = ConvOperandsOf(ctx, p.kernel_shape);
  CheckTaps(n, 2, size_t(rank) - 2);
  for (int i : {2, 4})
    if (i == 2 || HasInput(ctx, i)) CheckRank(ctx, i, rank, "an image");
  UnifyDims(ctx, xs[1], ws[1] * p.group, "the channels of X and group times those of W");
  DemandMultiple(ctx, ws[0], p.group, "filters by groups");
  if (HasInput(ctx, 3) && CheckRank(ctx, 3, 1, "B"))
    UnifyDims(ctx, ctx.in(3)[0], ws[0], "the bias and the filters");
  const Window win = DemandDeformed(ctx, xs, kernel, 2);
  std::vector<SymInt> dims{xs[0], ws[0]};
  for (SymInt d : win.out) dims.push_back(d);
  if (HasInput(ctx, 4)) DemandRows(ctx, 4, xs, Product(kernel) * p.offset_group, win);
  // The offsets may know more.
  for (int k = 2; k < rank && ctx.in(2).has_rank(); ++k)
    dims[size_t(k)] = UnifyDims(ctx, ctx.in(2)[k], dims[size_t(k)], "output dimensions");
  ctx.set_out(0, Shape(std::move(dims)));
}

Exprs DeformConvCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<DeformConvParam>(n);
  const TensorArg &x = in[0], &w = in[1], &offset = in[2];
  const DType t = AccumulatorOf(x.dtype);
  const Window win = DeformWindow(n, Tail(x.shape, 2), Tail(w.shape, 2), nullptr);
  const DeformReads reads{win, offset, p.offset_group, x.shape[1]};
  const Expr b = at(0)[0], filter = at(0)[1];
  const Indices o = Tail(at(0), 2);
  const Expr first = p.group == 1 ? Expr::Int(0)
                                  : FloorDivExpr(filter, Expr::Dim(ExactDiv(w.shape[0], p.group))) *
                                        Expr::Dim(w.shape[1]);
  std::vector<SymInt> extents{w.shape[1]};
  extents.insert(extents.end(), win.kernel.begin(), win.kernel.end());
  Expr y = Expr::Reduce(ReduceOp::kSum, extents, [&](const Indices& r) {
    const Indices k = Tail(r, 1);
    const Expr c = first + r[0];
    const Expr row = reads.Row(c, k);
    const Exprs position = reads.At(t, b, row, o, k);
    Indices from = At(b, c, k);
    Expr v = ReadBetween(x, t, position, 0, Expr::Bool(true), &from) *
             Expr::Cast(t, w(At(filter, r[0], k)));
    if (HasInput(in, 4)) v = v * Expr::Cast(t, in[4](At(b, row, o)));
    return v;
  });
  if (HasInput(in, 3)) y = y + Expr::Cast(t, in[3]({filter}));
  return {Expr::Cast(x.dtype, y)};
}

}  // namespace

WEFT_REGISTER_OP(DeformConv)
    .describe(
        "Conv whose reads are displaced by `offset` and weighed by `mask`: between elements "
        "linearly, 0 outside.\n"
        "f16 and bf16 compute in f32. Gradient: products over weft::DeformColumns. Errors: "
        "dimensions that do not fit (kShapeMismatch), attributes of the wrong length or sign "
        "(kBadAttribute). Source: ONNX DeformConv-22.")
    .input("X", TypeDoc(kFloats), "[n, C, spatial...]")
    .input("W", "T", "[M, C/group, kernel...]")
    .input("offset", "T", "[n, offset_group K axes, out spatial...]")
    .optional_input("B", "T", "[M]")
    .optional_input("mask", "T", "[n, offset_group K, out spatial...]")
    .output("Y", "T", "[n, M, out spatial...]")
    .param<DeformConvParam>()
    .example({"f32[1, 2, 4, 4]", "f32[3, 2, 2, 2]", "f32[1, 8, 3, 3]", "f32[3]", "f32[1, 4, 3, 3]"})
    .example({"f32[n, 4, 5]", "f32[2, 2, 3]", "f32[n, 6, 3]"}, "group = 2, offset_group = 2")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", DeformConvShape)
    .set_attr<FCodeGen>("FCodeGen", DeformConvCode)
    .set_attr<FGradient>("FGradient", DeformConvGradient)
    .set_attr<FFlops>("FFlops", [](const NodePtr&, const std::vector<Shape>& in,
                                   const std::vector<Shape>& out) {
      const Shape& w = in.at(1);
      return w.has_rank() ? out.at(0).num_elements() * Product(Tail(w, 1)) * 12 : SymInt();
    });

}  // namespace weft::ops
