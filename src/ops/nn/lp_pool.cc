/// lp_pool.cc: LpPool, GlobalLpPool, and weft::SumPool with its adjoint, which the gradient of
/// LpPool is made of; over any number of spatial axes.
#include "ops/util/adjoint.h"
#include "ops/util/channel_util.h"
#include "ops/util/window.h"
#include "weft/support/checked.h"

namespace weft::ops {
namespace {

struct LpPoolParam : OpParam<LpPoolParam> {
  std::string auto_pad;
  Ints dilations, kernel_shape, pads, strides;
  int64_t ceil_mode, p;
  WEFT_OP_PARAM(LpPoolParam) {
    WEFT_FIELD(auto_pad).set_default("NOTSET").describe("NOTSET, SAME_UPPER, SAME_LOWER or VALID");
    WEFT_FIELD(ceil_mode).set_default(0).set_range(0, 1).describe("1: output dimensions round up");
    WEFT_FIELD(dilations).set_default({}).describe("positive, one a spatial axis; default 1");
    WEFT_FIELD(kernel_shape).describe("positive dimensions of the window");
    WEFT_FIELD(p).set_default(2).set_range(1, INT32_MAX).describe("the exponent; LpPool only");
    WEFT_FIELD(pads).set_default({}).describe("all begins, then all ends; default 0");
    WEFT_FIELD(strides).set_default({}).describe("positive, one a spatial axis; default 1");
  }
};
WEFT_REGISTER_OP_PARAM(LpPoolParam);

struct GlobalLpPoolParam : OpParam<GlobalLpPoolParam> {
  int64_t p;
  WEFT_OP_PARAM(GlobalLpPoolParam) {
    WEFT_FIELD(p).set_default(2).set_range(1, INT32_MAX).describe("the exponent");
  }
};
WEFT_REGISTER_OP_PARAM(GlobalLpPoolParam);

WindowAttrs WindowOf(const LpPoolParam& p) {
  return {p.auto_pad, p.strides, p.dilations, p.pads, p.ceil_mode != 0};
}
Window PoolWindow(const NodePtr& n, const Shape& x) {
  const auto& p = ParamOf<LpPoolParam>(n);
  return PoolingWindow(n, WindowOf(p), p.kernel_shape, x, nullptr);
}
void PoolShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<LpPoolParam>(ctx.node());
  const Shape y = PooledShape(ctx, WindowOf(p), p.kernel_shape);
  ctx.set_out(0, y);
}

/// |e|^p and its inverse; e of a dtype that arithmetic is done in.
Expr Power(const Expr& e, int64_t p) {
  if (p == 2) return e * e;
  const Expr a = Expr::Unary(UnOp::kAbs, e);
  return p == 1 ? a : Expr::Call(CallOp::kPow, {a, ConstOf(a, double(p))});
}
Expr Root(const Expr& e, int64_t p) {
  if (p == 1) return e;
  return p == 2 ? Expr::Unary(UnOp::kSqrt, e)
                : Expr::Call(CallOp::kPow, {e, ConstOf(e, 1 / double(p))});
}

/// Sum of f(x) over the window at output position y, in AccumulatorOf(dtype).
Expr WindowSum(const Window& w, const TensorArg& x, const Indices& y,
               const std::function<Expr(const Expr&)>& f) {
  const DType t = AccumulatorOf(x.dtype);
  return Expr::Reduce(ReduceOp::kSum, w.kernel, [&](const Indices& k) {
    const auto [i, inside] = WindowRead(w, Tail(y, 2), k);
    return ReadWhere(inside, f(Expr::Cast(t, x(At(y[0], y[1], i)))), Zero(t));
  });
}

Exprs LpPoolCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const int64_t p = ParamOf<LpPoolParam>(n).p;
  const Expr sum = WindowSum(PoolWindow(n, in[0].shape), in[0], at(0),
                             [p](const Expr& e) { return Power(e, p); });
  return {Expr::Cast(in[0].dtype, Root(sum, p))};
}
Exprs SumPoolCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  return {Expr::Cast(in[0].dtype, WindowSum(PoolWindow(n, in[0].shape), in[0], at(0),
                                            [](const Expr& e) { return e; }))};
}
Exprs SumPoolGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& dy = in[0];
  const Window w = PoolWindow(n, at.shape[0]);
  const DType t = AccumulatorOf(dy.dtype);
  const Indices& x = at(0);
  const Expr sum = Expr::Reduce(ReduceOp::kSum, w.kernel, [&](const Indices& k) {
    const auto [o, hit] = WindowScatter(w, Tail(x, 2), k);
    return ReadWhere(hit, Expr::Cast(t, dy(At(x[0], x[1], o))), Zero(t));
  });
  return {Expr::Cast(dy.dtype, sum)};
}

/// dy y^(1 - p), 0 where y is 0 (as is every x there).
NodeEntry Outer(const NodeEntry& y, const NodeEntry& dy, int64_t p) {
  if (p == 1) return dy;
  const NodeEntry none = ApplyOp("Equal", {y, ScalarOf(y, 0)});
  const NodeEntry safe = ApplyOp("Where", {none, ScalarOf(y, 1), y});
  const NodeEntry power = ApplyOp("Pow", {safe, ScalarOf(y, double(1 - p))});
  return ApplyOp("Where", {none, ScalarOf(y, 0), dy * power});
}
/// sign(x) |x|^(p - 1).
NodeEntry Inner(const NodeEntry& x, int64_t p) {
  if (p == 2) return x;
  const NodeEntry sign = ApplyOp("Sign", {x});
  if (p == 1) return sign;
  return sign * ApplyOp("Pow", {ApplyOp("Abs", {x}), ScalarOf(x, double(p - 1))});
}
NodeEntry LpPoolGrad(const NodePtr& n, const NodeEntry& x, const NodeEntry& y,
                     const NodeEntry& dy) {
  const int64_t p = ParamOf<LpPoolParam>(n).p;
  return Inner(x, p) * ApplyOp("weft::SumPoolGrad", {Outer(y, dy, p), ShapeOf(x)}, AttrsOf(n));
}

// ---- global ----

Exprs GlobalLpPoolCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const int64_t p = ParamOf<GlobalLpPoolParam>(n).p;
  const Expr sum = ReduceOver(ReduceOp::kSum, Tail(x.shape, 2), [&](const Indices& r) {
    return Power(Expr::Cast(AccumulatorOf(x.dtype), x(At(at(0)[0], at(0)[1], r))), p);
  });
  return {Expr::Cast(x.dtype, Root(sum, p))};
}

SymInt WindowFlops(const NodePtr& n, const std::vector<Shape>& in, const std::vector<Shape>& out) {
  const int64_t window = CheckedProduct(ParamOf<LpPoolParam>(n).kernel_shape);
  return (IsOp(n, "weft::SumPoolGrad") ? in.at(0) : out.at(0)).num_elements() * window * 2;
}

}  // namespace

WEFT_REGISTER_OP(LpPool)
    .describe(
        "y[b, c, o] = (sum of |x|^p over the window at o)^(1/p); padding counts as 0.\n"
        "Gradient: sign(x) |x|^(p-1) times weft::SumPoolGrad of dy y^(1-p); keeps x and y. Errors: "
        "as MaxPool.\n"
        "Source: ONNX LpPool-22.")
    .input("X", TypeDoc(kFloats), "[n, c, spatial...]")
    .output("Y", "T")
    .param<LpPoolParam>()
    .example({"f32[1, 2, 5, 5]"}, "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]")
    .example({"f32[n, 1, 7]"}, "kernel_shape = [2], strides = [2], ceil_mode = 1, p = 3")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", PoolShape)
    .set_attr<FCodeGen>("FCodeGen", LpPoolCode)
    .set_attr<FGradient>("FGradient", UnaryNodeGradient(LpPoolGrad))
    .set_attr<FFlops>("FFlops", WindowFlops);

WEFT_REGISTER_OP_IN(weft, SumPool)
    .describe(
        "y[b, c, o] = sum of x over the window at o; padding counts as 0. Gradient: "
        "weft::SumPoolGrad. Source: Weft.")
    .input("X", TypeDoc(kFloats), "[n, c, spatial...]")
    .output("Y", "T")
    .param<LpPoolParam>()
    .example({"f32[1, 1, 5]"}, "kernel_shape = [3], strides = [2], pads = [1, 1]")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", PoolShape)
    .set_attr<FCodeGen>("FCodeGen", SumPoolCode)
    .set_attr<FGradient>(
        "FGradient",
        [](const NodePtr& n, const std::vector<NodeEntry>& dy) -> std::vector<NodeEntry> {
          if (!dy[0]) return {NodeEntry()};
          return {ApplyOp("weft::SumPoolGrad", {dy[0], ShapeOf(n->inputs[0])}, AttrsOf(n))};
        })
    .set_attr<FFlops>("FFlops", WindowFlops);

WEFT_REGISTER_OP_IN(weft, SumPoolGrad)
    .describe(
        "dx[i] = sum of dy over the windows that hold i, from dy and the shape of x. Gradient: "
        "weft::SumPool. Source: Weft.")
    .input("dy", TypeDoc(kFloats))
    .input("shape", "i64", "dimensions of x")
    .output("dx", "T")
    .param<LpPoolParam>()
    .example({"f32[1, 1, 2]", "i64[3] = [1, 1, 4]"}, "kernel_shape = [2], strides = [2]")
    .set_attr<FInferType>("FInferType", TypeOfDataInput(kFloats, {1}))
    .set_attr<FInferShape>("FInferShape", AdjointShape(PoolShape, 1, {kSought}))
    .set_attr<FCodeGen>("FCodeGen", SumPoolGradCode)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& n,
                            const std::vector<NodeEntry>& g) -> std::vector<NodeEntry> {
                           if (!g[0]) return {NodeEntry(), NodeEntry()};
                           return {ApplyOp("weft::SumPool", {g[0]}, AttrsOf(n)), NodeEntry()};
                         })
    .set_attr<FFlops>("FFlops", WindowFlops);

WEFT_REGISTER_OP(GlobalLpPool)
    .describe(
        "y[b, c, 1...] = (sum of |x[b, c, ...]|^p)^(1/p). Gradient: ordinary ops; keeps x and y. "
        "Errors: rank below 2 (kShapeMismatch). Source: ONNX GlobalLpPool-22.")
    .input("X", TypeDoc(kFloats), "[n, c, spatial...]")
    .output("Y", "T")
    .param<GlobalLpPoolParam>()
    .example({"f32[2, 3, 4, 5]"})
    .example({"f32[2, 3, n]"}, "p = 1")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", GlobalShape)
    .set_attr<FCodeGen>("FCodeGen", GlobalLpPoolCode)
    .set_attr<FGradient>("FGradient",
                         UnaryNodeGradient([](const NodePtr& n, const NodeEntry& x,
                                              const NodeEntry& y, const NodeEntry& dy) {
                           const int64_t p = ParamOf<GlobalLpPoolParam>(n).p;
                           return Inner(x, p) * Outer(y, dy, p);
                         }))
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
                        return in.at(0).num_elements() * 2;
                      });

}  // namespace weft::ops
