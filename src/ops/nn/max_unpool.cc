/// max_unpool.cc: MaxUnpool, the partial inverse of MaxPool: values go back to where their indices
/// say, everything else is 0.
#include "ops/util/window.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct MaxUnpoolParam : OpParam<MaxUnpoolParam> {
  Ints kernel_shape, pads, strides;
  WEFT_OP_PARAM(MaxUnpoolParam) {
    WEFT_FIELD(kernel_shape).describe("positive dimensions of the window");
    WEFT_FIELD(pads).set_default({}).describe("all begins, then all ends; default 0");
    WEFT_FIELD(strides).set_default({}).describe("positive, one a spatial axis; default 1");
  }
};
WEFT_REGISTER_OP_PARAM(MaxUnpoolParam);

/// Extents of the tensor that the indices count in: what MaxPool with these attributes had seen.
std::vector<SymInt> Unpooled(const NodePtr& n, const Shape& x) {
  const auto& p = ParamOf<MaxUnpoolParam>(n);
  const size_t rank = p.kernel_shape.size();
  WEFT_CHECK((p.strides.empty() || p.strides.size() == rank) &&
                 (p.pads.empty() || p.pads.size() == 2 * rank),
             kBadAttribute, "{}: {} strides and {} pads for {} spatial axes", n->Describe(),
             p.strides.size(), p.pads.size(), rank);
  std::vector<SymInt> dims{x[0], x[1]};
  for (size_t k = 0; k < rank; ++k) {
    const int64_t stride = p.strides.empty() ? 1 : p.strides[k];
    WEFT_CHECK(p.kernel_shape[k] > 0 && stride > 0, kBadAttribute,
               "{}: kernel_shape and strides must be positive", n->Describe());
    const SymInt padding = p.pads.empty() ? SymInt(0) : SymInt(p.pads[k]) + p.pads[k + rank];
    const SymInt d = (x[int(k) + 2] - 1) * stride - padding + p.kernel_shape[k];
    WEFT_CHECK(!d.known() || !d.is_const() || d.value() >= 0, kShapeMismatch,
               "{}: the padding leaves a size of {}", n->Describe(), d.ToString());
    dims.push_back(d);
  }
  return dims;
}

void MaxUnpoolShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  const int rank = int(ParamOf<MaxUnpoolParam>(n).kernel_shape.size()) + 2;
  CheckRank(ctx, 1, rank, "the indices");
  const Shape x = CheckRank(ctx, 0, rank, "x") ? ctx.in(0) : Shape::OfRank(rank);
  if (ctx.in(1).has_rank()) {
    for (int k = 0; k < rank; ++k) UnifyDims(ctx, x[k], ctx.in(1)[k], "x and the indices");
  }
  const std::vector<SymInt> dims = Unpooled(n, x);
  if (!HasInput(ctx, 2)) return ctx.set_out(0, Shape(dims));
  if (const auto length = VectorLength(ctx, 2)) {
    WEFT_CHECK(*length == rank, kShapeMismatch, "{}: output_shape of length {} for rank {}",
               n->Describe(), *length, rank);
  }
  ctx.set_out(0, ShapeFromInput(ctx, 2));
}

/// Of several values for one position the last one in row-major order stays, as in a loop of
/// writes. This definition searches; backends scatter.
Exprs MaxUnpoolCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &x = in[0], &index = in[1];
  const std::vector<SymInt> counted = Unpooled(n, x.shape);
  Expr inside = Expr::Bool(true);
  for (size_t k = 0; k < counted.size(); ++k) {
    if (!(at.shape[0][int(k)] == counted[k]))
      inside = And(inside, Lt(at(0)[k], Expr::Dim(counted[k])));
  }
  const Expr self = Linearize(at(0), counted), none = Expr::Int(-1);
  const Expr from = Expr::Reduce(ReduceOp::kMax, x.shape.dims(), [&](const Indices& r) {
    return Expr::Select(Eq(index(r), self), Linearize(r, x.shape.dims()), none);
  });
  const Expr found = And(inside, Le(Expr::Int(0), from));
  return {ReadWhere(found, x(Delinearize(from, x.shape.dims())), Zero(x.dtype))};
}

/// Linear in x: dy read where each value went. Positions are taken to be distinct.
std::vector<NodeEntry> MaxUnpoolGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!dys[0]) return d;
  NodeEntry dy = dys[0];
  const NodeEntry x = n->inputs[0];
  if (HasInput(n, 2)) {
    // The part of dy that the indices count in.
    const auto& p = ParamOf<MaxUnpoolParam>(n);
    const size_t rank = p.kernel_shape.size();
    std::vector<int64_t> stride{1, 1}, more{0, 0}, begin{0, 0}, axes{0, 1};
    for (size_t k = 0; k < rank; ++k) {
      stride.push_back(p.strides.empty() ? 1 : p.strides[k]);
      more.push_back(p.kernel_shape[k] - stride.back() -
                     (p.pads.empty() ? 0 : p.pads[k] + p.pads[k + rank]));
      begin.push_back(0);
      axes.push_back(int64_t(k) + 2);
    }
    const NodeEntry end = ShapeOf(x) * IntsLike(x, stride) + IntsLike(x, more);
    dy = ApplyOp("Slice", {dy, IntsLike(x, begin), end, IntsLike(x, axes)});
  }
  d[0] =
      ApplyOp("Gather", {ApplyOp("Reshape", {dy, IntsLike(x, {-1})}), n->inputs[1]}, {{"axis", 0}});
  return d;
}

}  // namespace

WEFT_REGISTER_OP(MaxUnpool)
    .describe(
        "y = 0 but for y[I[k]] = x[k], I counted row-major in the dimensions (in - 1) stride - "
        "pads + kernel; of several the last stays.\n"
        "output_shape gives other dimensions: the result is then at their origin. Indices outside "
        "are ignored.\n"
        "Gradient: a Gather at I, which must be distinct; keeps I. Errors: ranks or dimensions "
        "differ (kShapeMismatch), bad attributes (kBadAttribute). Source: ONNX MaxUnpool-22.")
    .input("X", TypeDoc(kFloats), "[n, c, spatial...]")
    .input("I", "i64", "of MaxPool, dimensions of X")
    .optional_input("output_shape", "i64", "dimensions of the output")
    .output("output", "T")
    .param<MaxUnpoolParam>()
    .example({"f32[1, 1, 2]", "i64[1, 1, 2] = [1, 2]"}, "kernel_shape = [2], strides = [2]")
    .example({"f32[1, 1, 2]", "i64[1, 1, 2] = [1, 2]", "i64[3] = [1, 1, 6]"},
             "kernel_shape = [2], strides = [2]")
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& ctx) {
                            CheckInputType(ctx, 0, kFloats);
                            CheckInputType(ctx, 1, kI64Only);
                            CheckInputType(ctx, 2, kI64Only);
                            if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
                          })
    .set_attr<FInferShape>("FInferShape", MaxUnpoolShape)
    .set_attr<TSizeOperands>("TSizeOperands", {2})
    .set_attr<FCodeGen>("FCodeGen", MaxUnpoolCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FGradient>("FGradient", MaxUnpoolGrad);

}  // namespace weft::ops
