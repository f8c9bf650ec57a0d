/// pool.cc: MaxPool, AveragePool, their gradients, GlobalMaxPool and GlobalAveragePool, over any
/// number of spatial axes.
#include <algorithm>
#include <limits>

#include "channel_util.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "window.h"

namespace weft::ops {
namespace {

struct PoolParam : OpParam<PoolParam> {
  std::string auto_pad;
  Ints dilations, kernel_shape, pads, strides;
  int64_t ceil_mode, count_include_pad, storage_order;
  WEFT_OP_PARAM(PoolParam) {
    WEFT_FIELD(auto_pad).set_default("NOTSET").describe("NOTSET, SAME_UPPER, SAME_LOWER or VALID");
    WEFT_FIELD(ceil_mode).set_default(0).set_range(0, 1).describe("1: output extents round up");
    WEFT_FIELD(count_include_pad)
        .set_default(0)
        .set_range(0, 1)
        .describe("AveragePool: padding counts as zeros");
    WEFT_FIELD(dilations).set_default({}).describe("positive, one a spatial axis; default 1");
    WEFT_FIELD(kernel_shape).describe("positive extents of the window");
    WEFT_FIELD(pads).set_default({}).describe("all begins, then all ends; default 0");
    WEFT_FIELD(storage_order)
        .set_default(0)
        .set_range(0, 1)
        .describe("MaxPool: 1: Indices count column-major");
    WEFT_FIELD(strides).set_default({}).describe("positive, one a spatial axis; default 1");
  }
};
WEFT_REGISTER_OP_PARAM(PoolParam);

constexpr DTypeSet kPoolTypes = kFloats | DTypeSet{DType::kI8, DType::kU8};

WindowAttrs WindowOf(const PoolParam& p) {
  return {p.auto_pad, p.strides, p.dilations, p.pads, p.ceil_mode != 0};
}
Window PoolWindow(const NodePtr& n, const Shape& x) {
  const auto& p = ParamOf<PoolParam>(n);
  return PoolingWindow(n, WindowOf(p), p.kernel_shape, x, nullptr);
}
void PoolShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<PoolParam>(ctx.node());
  const Shape y = PooledShape(ctx, WindowOf(p), p.kernel_shape);
  for (int k = 0; k < ctx.num_outputs(); ++k) ctx.set_out(k, y);
}

/// The least value of a dtype: what padding counts as in a maximum.
Expr Lowest(DType t) {
  if (IsFloat(t)) return Expr::Const(t, -std::numeric_limits<double>::infinity());
  return Expr::ConstInt(t, t == DType::kI8 ? INT8_MIN : 0);
}

/// Position counted inside the whole tensor [n, c, spatial], rows first or columns first within one
/// spatial plane.
Expr FlatPosition(const NodePtr& n, const Shape& x, const Expr& b, const Expr& c,
                  const Indices& i) {
  std::vector<SymInt> dims = Tail(x, 2);
  Indices spatial = i;
  if (ParamOf<PoolParam>(n).storage_order) {
    std::reverse(dims.begin(), dims.end());
    std::reverse(spatial.begin(), spatial.end());
  }
  return (b * Expr::Dim(x[1]) + c) * Expr::Dim(Product(dims)) + Linearize(spatial, dims);
}

Exprs MaxPoolCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const Window w = PoolWindow(n, x.shape);
  const DType acc = AccumulatorOf(x.dtype);
  auto reduce = [&](ReduceOp op, const Indices& y) {
    return Expr::Reduce(op, w.kernel, [&](const Indices& k) {
      const auto [i, inside] = WindowRead(w, Tail(y, 2), k);
      return ReadWhere(inside, Expr::Cast(acc, x(At(y[0], y[1], i))), Lowest(acc));
    });
  };
  Exprs out{Expr::Cast(x.dtype, reduce(ReduceOp::kMax, at(0)))};
  if (at.index.size() > 1) {
    const Indices& y = at(1);
    const Indices k = Delinearize(reduce(ReduceOp::kArgMax, y), w.kernel);
    out.push_back(FlatPosition(n, x.shape, y[0], y[1], WindowRead(w, Tail(y, 2), k).first));
  }
  return out;
}
std::vector<NodeEntry> MaxPoolGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry()};
  return {Apply("weft::MaxPoolGrad", {dy[0], NodeEntry(n, 1), ShapeOf(n->inputs[0])}, AttrsOf(n))};
}
/// dx[i] = sum of dy[o] over the windows o that took i.
Exprs MaxPoolGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &taken = in[1];
  const Window w = PoolWindow(n, at.shape[0]);
  const Indices& x = at(0);
  const Expr self = FlatPosition(n, at.shape[0], x[0], x[1], Tail(x, 2));
  return {SumOver(w.kernel, [&](const Indices& k) {
    const auto [o, hit] = WindowScatter(w, Tail(x, 2), k);
    const Indices y = At(x[0], x[1], o);
    const Expr zero = Zero(dy.dtype);
    return ReadWhere(hit, Expr::Select(Eq(taken(y), self), dy(y), zero), zero);
  })};
}
/// Linear in dy: g read where each window took its maximum.
std::vector<NodeEntry> MaxPoolGradGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  std::vector<NodeEntry> d(3);
  if (!g[0] || ParamOf<PoolParam>(n).storage_order) return d;
  const NodeEntry flat = Apply("Reshape", {g[0], IntsLike(g[0], {-1})});
  d[0] = Apply("Gather", {flat, n->inputs[1]}, {{"axis", 0}});
  return d;
}

// ---- average ----

/// Elements that window o averages over.
Expr WindowCount(const NodePtr& n, const Window& w, const Indices& o, DType t) {
  const bool padding = ParamOf<PoolParam>(n).count_include_pad != 0;
  Expr count = Expr::Int(1);
  for (int d = 0; d < w.rank(); ++d) {
    const size_t s = size_t(d);
    const Expr start = o[s] * Expr::Int(w.strides[s]) - Expr::Dim(w.begin[s]);
    // Offsets k in [0, kernel) with lo <= start + k dilation < hi. Padding counts, what ceil mode
    // adds beyond it does not.
    const Expr lo = padding ? Expr::Dim(-w.begin[s]) : Expr::Int(0);
    const Expr hi = Expr::Dim(padding ? w.in[s] + w.end[s] : w.in[s]);
    const Expr dilation = Expr::Int(w.dilations[s]), one = Expr::Int(1);
    const Expr first = Max(Expr::Int(0), FloorDivExpr(lo - start + dilation - one, dilation));
    const Expr last =
        Min(Expr::Dim(w.kernel[s]), FloorDivExpr(hi - start + dilation - one, dilation));
    count = count * Max(last - first, Expr::Int(0));
  }
  return Expr::Cast(t, count);
}
Exprs AveragePoolCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const Window w = PoolWindow(n, x.shape);
  const DType acc = AccumulatorOf(x.dtype);
  const Indices& y = at(0);
  const Expr sum = SumOver(w.kernel, [&](const Indices& k) {
    const auto [i, inside] = WindowRead(w, Tail(y, 2), k);
    return ReadWhere(inside, Expr::Cast(acc, x(At(y[0], y[1], i))), Zero(acc));
  });
  return {Expr::Cast(x.dtype, sum / WindowCount(n, w, Tail(y, 2), acc))};
}
Exprs AveragePoolGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& dy = in[0];
  const Window w = PoolWindow(n, at.shape[0]);
  const DType acc = AccumulatorOf(dy.dtype);
  const Indices& x = at(0);
  const Expr sum = SumOver(w.kernel, [&](const Indices& k) {
    const auto [o, hit] = WindowScatter(w, Tail(x, 2), k);
    return ReadWhere(hit, Expr::Cast(acc, dy(At(x[0], x[1], o))) / WindowCount(n, w, o, acc),
                     Zero(acc));
  });
  return {Expr::Cast(dy.dtype, sum)};
}

void FirstFloat(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kFloats);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}

// ---- global ----

void GlobalShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  WEFT_CHECK(x.rank() >= 2, kShapeMismatch, "{}: x must have rank 2 or more, got {}",
             ctx.node()->Describe(), x.ToString());
  std::vector<SymInt> dims(static_cast<size_t>(x.rank()), SymInt(1));
  dims[0] = x[0];
  dims[1] = x[1];
  ctx.set_out(0, Shape(std::move(dims)));
}
Exprs GlobalCode(const std::vector<TensorArg>& in, const OutputAt& at, ReduceOp op) {
  const TensorArg& x = in[0];
  const DType acc = AccumulatorOf(x.dtype);
  const std::vector<SymInt> extents = Tail(x.shape, 2);
  Expr y = ReduceOver(
      op, extents, [&](const Indices& r) { return Expr::Cast(acc, x(At(at(0)[0], at(0)[1], r))); });
  if (op == ReduceOp::kSum) y = y / CountOf(extents, acc);
  return {Expr::Cast(x.dtype, y)};
}
SymInt WindowFlops(const NodePtr& n, const std::vector<Shape>&, const std::vector<Shape>& out) {
  return out.at(0).num_elements() * CheckedProduct(ParamOf<PoolParam>(n).kernel_shape);
}
SymInt ReadFlops(const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
  return in.at(0).num_elements();
}

}  // namespace

WEFT_REGISTER_OP(MaxPool)
    .describe(
        "y[b, c, o] = max of x over the window at o; padding never wins. Indices: flat position of "
        "the first maximum in x.\n"
        "Gradient: weft::MaxPoolGrad (all of dy to the first maximum); keeps Indices.\n"
        "Errors: ranks differ, a window larger than the padded input (kShapeMismatch), bad "
        "attributes (kBadAttribute).\n"
        "Source: ONNX MaxPool-22.")
    .input("X", TypeDoc(kPoolTypes), "[n, c, spatial...]")
    .output("Y", "T")
    .optional_output("Indices", "i64")
    .set_num_inputs(1)
    .set_num_outputs(2)
    .param<PoolParam>()
    .example({"f32[1, 2, 5, 5]"}, "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]")
    .example({"f32[n, 1, 7]"}, "kernel_shape = [2], strides = [2], ceil_mode = 1")
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& ctx) {
                            CheckInputType(ctx, 0, kPoolTypes);
                            if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
                            if (ctx.num_outputs() > 1) ctx.set_out(1, DType::kI64);
                          })
    .set_attr<FInferShape>("FInferShape", PoolShape)
    .set_attr<FCodeGen>("FCodeGen", MaxPoolCode)
    .set_attr<FGradient>("FGradient", MaxPoolGradient)
    .set_attr<FFlops>("FFlops", WindowFlops);

WEFT_REGISTER_OP_IN(weft, MaxPoolGrad)
    .describe(
        "Gradient of MaxPool from dy, its Indices and the shape of x. Gradient: a Gather at "
        "Indices. Source: Weft.")
    .input("dy", TypeDoc(kFloats))
    .input("indices", "i64", "of MaxPool")
    .input("shape", "i64", "extents of x")
    .output("dx", "T")
    .set_num_inputs(3)
    .set_num_outputs(1)
    .param<PoolParam>()
    .example({"f32[1, 1, 2]", "i64[1, 1, 2] = [1, 2]", "i64[3] = [1, 1, 4]"},
             "kernel_shape = [2], strides = [2]")
    .set_attr<FInferType>("FInferType", FirstFloat)
    .set_attr<FInferShape>("FInferShape", ShapeOfValueInput(2))
    .set_attr<FCodeGen>("FCodeGen", MaxPoolGradCode)
    .set_attr<FGradient>("FGradient", MaxPoolGradGradient)
    .set_attr<FFlops>("FFlops", WindowFlops);

WEFT_REGISTER_OP(AveragePool)
    .describe(
        "y[b, c, o] = mean of x over the window at o; padding counts only with count_include_pad.\n"
        "Gradient: weft::AveragePoolGrad; keeps the shape of x. Errors: as MaxPool. Source: ONNX "
        "AveragePool-22.")
    .input("X", TypeDoc(kFloats), "[n, c, spatial...]")
    .output("Y", "T")
    .set_num_inputs(1)
    .set_num_outputs(1)
    .param<PoolParam>()
    .example({"f32[1, 2, 5, 5]"}, "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]")
    .example({"f32[n, 1, 7]"},
             "kernel_shape = [2], strides = [2], ceil_mode = 1, count_include_pad = 1")
    .set_attr<FInferType>("FInferType", FirstFloat)
    .set_attr<FInferShape>("FInferShape", PoolShape)
    .set_attr<FCodeGen>("FCodeGen", AveragePoolCode)
    .set_attr<FGradient>(
        "FGradient",
        [](const NodePtr& n, const std::vector<NodeEntry>& dy) -> std::vector<NodeEntry> {
          if (!dy[0]) return {NodeEntry()};
          return {Apply("weft::AveragePoolGrad", {dy[0], ShapeOf(n->inputs[0])}, AttrsOf(n))};
        })
    .set_attr<FFlops>("FFlops", WindowFlops);

WEFT_REGISTER_OP_IN(weft, AveragePoolGrad)
    .describe(
        "Gradient of AveragePool from dy and the shape of x. Gradient: AveragePool. Source: Weft.")
    .input("dy", TypeDoc(kFloats))
    .input("shape", "i64", "extents of x")
    .output("dx", "T")
    .set_num_inputs(2)
    .set_num_outputs(1)
    .param<PoolParam>()
    .example({"f32[1, 1, 2]", "i64[3] = [1, 1, 4]"}, "kernel_shape = [2], strides = [2]")
    .set_attr<FInferType>("FInferType", FirstFloat)
    .set_attr<FInferShape>("FInferShape", ShapeOfValueInput(1))
    .set_attr<FCodeGen>("FCodeGen", AveragePoolGradCode)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& n,
                            const std::vector<NodeEntry>& g) -> std::vector<NodeEntry> {
                           if (!g[0]) return {NodeEntry(), NodeEntry()};
                           return {Apply("AveragePool", {g[0]}, AttrsOf(n)), NodeEntry()};
                         })
    .set_attr<FFlops>("FFlops", WindowFlops);

WEFT_REGISTER_OP(GlobalMaxPool)
    .describe(
        "y[b, c, 1...] = max of x[b, c, ...]. Gradient: dy shared equally by the elements equal to "
        "y; keeps x and y.\n"
        "Errors: rank below 2 (kShapeMismatch). Source: ONNX GlobalMaxPool-22.")
    .input("X", TypeDoc(kFloats), "[n, c, spatial...]")
    .output("Y", "T")
    .set_num_inputs(1)
    .set_num_outputs(1)
    .param<NoParam>()
    .example({"f32[2, 3, 4, 5]"})
    .example({"f32[2, 3, n]"})
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", GlobalShape)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
                          return GlobalCode(in, at, ReduceOp::kMax);
                        })
    .set_attr<FGradient>("FGradient", UnaryGradient([](const NodeEntry& x, const NodeEntry& y,
                                                       const NodeEntry& dy) {
                           const NodeEntry mask = Apply("CastLike", {Apply("Equal", {x, y}), dy});
                           return mask *
                                  (dy / Apply("ReduceSum", {mask, SpatialAxes(x)},
                                              {{"keepdims", 1}, {"noop_with_empty_axes", 1}}));
                         }))
    .set_attr<FFlops>("FFlops", ReadFlops);

WEFT_REGISTER_OP(GlobalAveragePool)
    .describe(
        "y[b, c, 1...] = mean of x[b, c, ...]. Gradient: dy / count spread over x. Errors: rank "
        "below 2 (kShapeMismatch).\n"
        "Source: ONNX GlobalAveragePool-22.")
    .input("X", TypeDoc(kFloats), "[n, c, spatial...]")
    .output("Y", "T")
    .set_num_inputs(1)
    .set_num_outputs(1)
    .param<NoParam>()
    .example({"f32[2, 3, 4, 5]"})
    .example({"f32[2, 3, n]"})
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", GlobalShape)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
                          return GlobalCode(in, at, ReduceOp::kSum);
                        })
    .set_attr<FGradient>(
        "FGradient", UnaryGradient([](const NodeEntry& x, const NodeEntry& y, const NodeEntry& dy) {
          const NodeEntry count = Apply("Div", {Apply("Size", {x}), Apply("Size", {y})});
          const NodeEntry inverse =
              Apply("Reciprocal", {Apply("Cast", {count}, {{"to", DType::kF64}})});
          return ExpandLike(dy * Apply("CastLike", {inverse, dy}), x);
        }))
    .set_attr<FFlops>("FFlops", ReadFlops);

}  // namespace weft::ops
