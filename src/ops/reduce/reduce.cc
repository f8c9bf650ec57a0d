/// reduce.cc: ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceSumSquare, ReduceL1,
/// ReduceL2, ReduceLogSum, ReduceLogSumExp: one table of maps before and after a reduction over the
/// axes in the second input.
///
/// Over nothing at all a sum is 0, a product 1, a maximum the least value of the dtype (-inf for
/// floats), a mean NaN. A maximum shared by k elements gives each 1 / k of the gradient.
#include <algorithm>

#include "ops/util/demand.h"
#include "weft/core/op/onnx_body.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct ReduceParam : OpParam<ReduceParam> {
  int64_t keepdims, noop_with_empty_axes;
  WEFT_OP_PARAM(ReduceParam) {
    WEFT_FIELD(keepdims).set_default(1).set_range(0, 1).describe(
        "1: reduced axes stay with size 1");
    WEFT_FIELD(noop_with_empty_axes)
        .set_default(0)
        .set_range(0, 1)
        .describe("no axes mean 0: all axes; 1: none");
  }
};
WEFT_REGISTER_OP_PARAM(ReduceParam);

std::vector<int> AllOr(const NodePtr& n, const std::vector<int64_t>& axes, int rank) {
  std::vector<int> out = NormalizeAxes(axes, rank, n);
  if (out.empty() && !ParamOf<ReduceParam>(n).noop_with_empty_axes) {
    for (int k = 0; k < rank; ++k) out.push_back(k);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<int> ReducedAxes(const NodePtr& n, const std::vector<TensorArg>& in, size_t axes_input,
                             int rank) {
  const bool given = HasInput(in, axes_input) &&
                     !(in[axes_input].shape.rank() == 1 && in[axes_input].shape[0].is(0));
  return AllOr(n, given ? KnownInts(n, in[axes_input], "axes") : std::vector<int64_t>(), rank);
}

/// One element of the value of a reduced shape vector.
using Fold = SymInt (*)(SymInt, SymInt);
SymInt AddRule(SymInt a, SymInt b) { return a + b; }
SymInt MulRule(SymInt a, SymInt b) { return a * b; }

void ReduceShape(InferShapeContext& ctx, Fold fold) {
  const NodePtr& n = ctx.node();
  const auto& p = ParamOf<ReduceParam>(n);
  const Shape& x = ctx.in(0);
  std::optional<std::vector<int64_t>> given = std::vector<int64_t>();
  if (HasInput(ctx, 1) && VectorLength(ctx, 1) != std::optional<int64_t>(0))
    given = InputInts(ctx, 1);
  if (!x.has_rank()) {
    if (!p.keepdims && given && given->empty() && !p.noop_with_empty_axes)
      return ctx.set_out(0, Shape::Scalar());
    return Unknown(ctx, 0, "the rank of x is unknown");
  }
  if (!given) {
    const auto count = VectorLength(ctx, 1);
    if (p.keepdims)
      ctx.set_out(0, Shape::OfRank(x.rank()));
    else if (count && *count <= x.rank())
      ctx.set_out(0, Shape::OfRank(x.rank() - int(*count)));
    return Unknown(ctx, 0, "the axes are not known at compile time");
  }
  std::vector<bool> reduced(size_t(x.rank()), false);
  for (int a : AllOr(n, *given, x.rank())) reduced[size_t(a)] = true;
  std::vector<SymInt> dims;
  for (int k = 0; k < x.rank(); ++k) {
    if (!reduced[size_t(k)])
      dims.push_back(x[k]);
    else if (p.keepdims)
      dims.push_back(1);
  }
  const Shape out(std::move(dims));
  ctx.set_out(0, out);
  if (!fold || x.rank() != 1 || !reduced[0]) return;
  const SymTensorPtr v = InputValue(ctx, 0);
  if (!v || (v->elements.empty() && fold != AddRule && fold != MulRule)) return;
  SetValue(ctx, 0, out, [&](int64_t) {
    SymInt all = v->elements.empty() ? SymInt(fold == MulRule ? 1 : 0) : v->elements[0];
    for (size_t i = 1; i < v->elements.size(); ++i) all = fold(all, v->elements[i]);
    return all;
  });
}
FInferShape ShapeRule(Fold fold) {
  return [fold](InferShapeContext& ctx) { ReduceShape(ctx, fold); };
}
SymInt MinRule(SymInt a, SymInt b) { return a.known() && b.known() ? Min(a, b) : SymInt(); }
SymInt MaxRule(SymInt a, SymInt b) { return a.known() && b.known() ? Max(a, b) : SymInt(); }

/// Position in x from a position in y and in the reduced axes.
Indices Join(const Indices& y, const std::vector<int>& axes, bool keepdims, const Indices& r,
             int rank) {
  Indices at;
  size_t a = 0, o = 0;
  for (int k = 0; k < rank; ++k) {
    if (a < axes.size() && axes[a] == k) {
      at.push_back(r[a++]);
      if (keepdims) ++o;
    } else {
      at.push_back(y[o++]);
    }
  }
  return at;
}

/// The dtype that a reduction computes in: sums of floats in f32 or wider; where a root or
/// logarithm follows, integers in f64.
DType ComputeType(DType t, bool real) {
  return real && !IsFloat(t) ? DType::kF64 : AccumulatorOf(t);
}

struct Kind {
  ReduceOp op;
  bool real = false;  ///< a real function of the elements
  Expr (*before)(const Expr&) = nullptr;
  Expr (*after)(const Expr& y, const Expr& count) = nullptr;
};

FCodeGen ReduceCode(Kind kind) {
  return [kind](const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) -> Exprs {
    const TensorArg& x = in[0];
    const bool keepdims = ParamOf<ReduceParam>(n).keepdims != 0;
    const std::vector<int> axes = ReducedAxes(n, in, 1, x.rank());
    const DType t = ComputeType(x.dtype, kind.real);
    std::vector<SymInt> extents;
    for (int a : axes) extents.push_back(x.shape[a]);
    Expr y = ReduceOver(kind.op, extents, [&](const Indices& r) {
      const Expr e = Expr::Cast(t, x(Join(at(0), axes, keepdims, r, x.rank())));
      return kind.before ? kind.before(e) : e;
    });
    if (kind.after) y = kind.after(y, CountOf(extents, t));
    return {Expr::Cast(x.dtype, y)};
  };
}

Exprs LogSumExpCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const bool keepdims = ParamOf<ReduceParam>(n).keepdims != 0;
  const std::vector<int> axes = ReducedAxes(n, in, 1, x.rank());
  const DType t = ComputeType(x.dtype, true);
  std::vector<SymInt> extents;
  for (int a : axes) extents.push_back(x.shape[a]);
  auto read = [&](const Indices& r) {
    return Expr::Cast(t, x(Join(at(0), axes, keepdims, r, x.rank())));
  };
  const Expr max = ReduceOver(ReduceOp::kMax, extents, read);
  // An infinite maximum would make inf - inf.
  const Expr shift = Expr::Select(Expr::Unary(UnOp::kIsInf, max), Expr::Const(t, 0), max);
  const Expr sum = ReduceOver(ReduceOp::kSum, extents, [&](const Indices& r) {
    return CallMath(CallOp::kExp, read(r) - shift);
  });
  return {Expr::Cast(x.dtype, CallMath(CallOp::kLog, sum) + shift)};
}

Expr Square(const Expr& x) { return x * x; }
Expr Absolute(const Expr& x) { return Expr::Unary(UnOp::kAbs, x); }
Expr Root(const Expr& y, const Expr&) { return Expr::Unary(UnOp::kSqrt, y); }
Expr Logarithm(const Expr& y, const Expr&) { return CallMath(CallOp::kLog, y); }
Expr Divide(const Expr& y, const Expr& count) { return y / count; }

// ---- gradients ----

/// An output (or its gradient) with the reduced axes put back, so that it broadcasts against x.
NodeEntry WithAxes(const NodePtr& n, const NodeEntry& y) {
  if (ParamOf<ReduceParam>(n).keepdims || !HasInput(n, 1)) return y;
  return ApplyOp("Unsqueeze", {y, n->inputs[1]});
}
using Rule = NodeEntry (*)(const NodePtr& n, const NodeEntry& x, const NodeEntry& y,
                           const NodeEntry& dy);
FGradient ReduceGrad(Rule rule) {
  return [rule](const NodePtr& n, const std::vector<NodeEntry>& dy) {
    std::vector<NodeEntry> dx(n->inputs.size());
    if (dy[0]) dx[0] = rule(n, n->inputs[0], WithAxes(n, NodeEntry(n, 0)), WithAxes(n, dy[0]));
    return dx;
  };
}
NodeEntry SumRule(const NodePtr&, const NodeEntry& x, const NodeEntry&, const NodeEntry& dy) {
  return ExpandLike(dy, x);
}
NodeEntry MeanRule(const NodePtr& n, const NodeEntry& x, const NodeEntry&, const NodeEntry& dy) {
  // 1 / count by way of f64: a count may be beyond f16.
  const NodeEntry count =
      ApplyOp("Div", {ApplyOp("Size", {x}), ApplyOp("Size", {NodeEntry(n, 0)})});
  const NodeEntry inverse =
      ApplyOp("Reciprocal", {ApplyOp("Cast", {count}, {{"to", DType::kF64}})});
  return ExpandLike(dy * ApplyOp("CastLike", {inverse, dy}), x);
}
NodeEntry ExtremeRule(const NodePtr& n, const NodeEntry& x, const NodeEntry& y,
                      const NodeEntry& dy) {
  const NodeEntry mask = ApplyOp("CastLike", {ApplyOp("Equal", {x, y}), dy});
  std::vector<NodeEntry> args{mask};
  if (HasInput(n, 1)) args.push_back(n->inputs[1]);
  const NodeEntry count = ApplyOp(
      "ReduceSum", args,
      {{"keepdims", 1}, {"noop_with_empty_axes", ParamOf<ReduceParam>(n).noop_with_empty_axes}});
  return mask * (dy / count);
}
NodeEntry ProdRule(const NodePtr& n, const NodeEntry& x, const NodeEntry&, const NodeEntry& dy) {
  std::vector<NodeEntry> args{dy, x};
  if (HasInput(n, 1)) args.push_back(n->inputs[1]);
  return ApplyOp("weft::ReduceProdGrad", args,
                 {{"noop_with_empty_axes", ParamOf<ReduceParam>(n).noop_with_empty_axes}});
}
NodeEntry SumSquareRule(const NodePtr&, const NodeEntry& x, const NodeEntry&, const NodeEntry& dy) {
  return dy * (x + x);
}
NodeEntry L1Rule(const NodePtr&, const NodeEntry& x, const NodeEntry&, const NodeEntry& dy) {
  return dy * ApplyOp("Sign", {x});
}
/// x / y, and 0 where all of x is 0.
NodeEntry L2Rule(const NodePtr&, const NodeEntry& x, const NodeEntry& y, const NodeEntry& dy) {
  const NodeEntry zero = ScalarOf(dy, 0);
  return ApplyOp("Where", {ApplyOp("Equal", {y, zero}), zero, dy * (x / y)});
}
NodeEntry LogSumRule(const NodePtr&, const NodeEntry& x, const NodeEntry& y, const NodeEntry& dy) {
  return ExpandLike(dy / ApplyOp("Exp", {y}), x);
}
NodeEntry LogSumExpRule(const NodePtr&, const NodeEntry& x, const NodeEntry& y,
                        const NodeEntry& dy) {
  return dy * ApplyOp("Exp", {x - y});
}

/// The product of x over the reduced axes without the element at `self` and, where given, without
/// the one at `also`, on the line through `at`.
Expr ProductOfOthers(const TensorArg& x, const std::vector<int>& axes, const Indices& at,
                     const Indices* also) {
  const DType t = AccumulatorOf(x.dtype);
  std::vector<SymInt> extents;
  for (int a : axes) extents.push_back(x.shape[a]);
  return ReduceOver(ReduceOp::kProd, extents, [&](const Indices& r) {
    Indices from = at;
    Expr self = Expr::Bool(true), other = Expr::Bool(true);
    for (size_t k = 0; k < axes.size(); ++k) {
      self = And(self, Eq(r[k], at[size_t(axes[k])]));
      if (also) other = And(other, Eq(r[k], (*also)[k]));
      from[size_t(axes[k])] = r[k];
    }
    return Expr::Select(also ? Or(self, other) : self, Expr::ConstInt(t, 1),
                        Expr::Cast(t, x(from)));
  });
}
/// dy has every axis (extent 1 where reduced), or is a scalar.
Expr ReadOverAxes(const TensorArg& dy, const Shape& out, const Indices& at) {
  Indices where;
  for (int k = 0; k < dy.rank(); ++k)
    where.push_back(BroadcastIndex(dy.shape[k], out[k], at[size_t(k)]));
  return dy(where);
}

/// dx[i] = dy times the product of the other elements: right with any number of zeros, quadratic in
/// the reduced extent.
Exprs ProdGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &x = in[1];
  const std::vector<int> axes = ReducedAxes(n, in, 2, x.rank());
  const Expr others = ProductOfOthers(x, axes, at(0), nullptr);
  const Expr seed = Expr::Cast(others->dtype(), ReadOverAxes(dy, at.shape[0], at(0)));
  return {Expr::Cast(x.dtype, others * seed)};
}
/// out[k] = dy sum over i != k of g[i] times the product of all elements but i and k: cubic.
Exprs ProdGradPairsCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &x = in[1], &g = in[2];
  const std::vector<int> axes = ReducedAxes(n, in, 3, x.rank());
  const DType t = AccumulatorOf(x.dtype);
  std::vector<SymInt> extents;
  for (int a : axes) extents.push_back(x.shape[a]);
  const Expr sum = ReduceOver(ReduceOp::kSum, extents, [&](const Indices& r) {
    Indices from = at(0);
    Expr self = Expr::Bool(true);
    for (size_t k = 0; k < axes.size(); ++k) {
      self = And(self, Eq(r[k], at(0)[size_t(axes[k])]));
      from[size_t(axes[k])] = r[k];
    }
    const Expr term = Expr::Cast(t, g(from)) * ProductOfOthers(x, axes, at(0), &r);
    return Expr::Select(self, Zero(t), term);
  });
  return {Expr::Cast(x.dtype, sum * Expr::Cast(t, ReadOverAxes(dy, at.shape[0], at(0))))};
}
std::vector<NodeEntry> ProdGradGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!g[0]) return d;
  const NodeEntry dy = n->inputs[0], x = n->inputs[1];
  std::vector<NodeEntry> alone{ScalarOf(x, 1), x}, pairs{dy, x, g[0]};
  if (HasInput(n, 2)) {
    alone.push_back(n->inputs[2]);
    pairs.push_back(n->inputs[2]);
  }
  d[0] = SumTo(g[0] * ApplyOp("weft::ReduceProdGrad", alone, AttrsOf(n)), dy);
  d[1] = ApplyOp("weft::ReduceProdGradPairs", pairs, AttrsOf(n));
  return d;
}

std::vector<NodeEntry> SimplifyNoop(RewriteContext& ctx, const NodePtr& n) {
  // Nothing is reduced, or only extents of 1: a sum, mean, maximum or product of one element is
  // that element.
  return ReplaceIfSame(ctx, n, n->inputs[0]);
}

/// dy, x, for the second derivative g, and axes: the result lies over x.
void ProductsShape(InferShapeContext& ctx) {
  const Shape &dy = ctx.in(0), &x = ctx.in(1);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  WEFT_CHECK(!dy.has_rank() || dy.rank() == 0 || dy.rank() == x.rank(), kShapeMismatch,
             "{}: dy {} for x {}: neither a scalar nor of the same rank", ctx.node()->Describe(),
             dy.ToString(), x.ToString());
  DemandBroadcastTo(ctx, 0, x);
  if (IsOp(ctx.node(), "weft::ReduceProdGradPairs")) DemandShape(ctx, 2, x);
  ctx.set_out(0, x);
}

/// ONNX's operators divide: the product of the others is the product of what is not 0 over x where
/// nothing is 0; where one element is 0, that product belongs to it and the rest have 0.
std::string ReduceProdGradBody(const OnnxBodyRequest& r) {
  const bool axes = r.node->num_inputs() > 2 && r.node->inputs[2];
  const auto reduce = [&](const char* op, const char* x) {
    return fmt::format("{}<keepdims = 1, noop_with_empty_axes = {}>({}{})", op,
                       r.node->attr<int64_t>("noop_with_empty_axes"), x, axes ? ", i2" : "");
  };
  return fmt::format(R"(zero32 = Constant<value_float = 0.0>()
one32 = Constant<value_float = 1.0>()
zero = CastLike(zero32, i1)
one = CastLike(one32, i1)
is_zero = Equal(i1, zero)
safe = Where(is_zero, one, i1)
marks = Where(is_zero, one, zero)
count = {}
product = {}
others = Div(product, safe)
none = Equal(count, zero)
single = Equal(count, one)
alone = And(single, is_zero)
there = Where(alone, product, zero)
d = Where(none, others, there)
o0 = Mul(i0, d))",
                     reduce("ReduceSum", "marks"), reduce("ReduceProd", "safe"));
}

void ReduceType(InferTypeContext& ctx, DTypeSet set) {
  CheckInputType(ctx, 0, set);
  CheckInputType(ctx, 1, kI64Only);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
FInferType TypeRule(DTypeSet set) {
  return [set](InferTypeContext& ctx) { ReduceType(ctx, set); };
}
SymInt OneFlopARead(const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
  return in.at(0).num_elements();
}

std::string Docs(const char* formula, const char* gradient, const char* version) {
  return std::string(formula) +
         " over `axes` (without axes: all, or as noop_with_empty_axes says).\n" +
         "f16 and bf16 accumulate in f32. Gradient: " + gradient + ".\n" +
         "Errors: an axis out of range or repeated (kBadAttribute), axes that are not constant "
         "(kUnsupported when code is made). Source: ONNX " +
         version + ".";
}

}  // namespace

/// What all reductions say alike; FCodeGen follows each.
#define WEFT_REGISTER_REDUCTION(Name, Formula, Gradient, Version, Types, ValueFold, GradientRule) \
  WEFT_REGISTER_OP(Name)                                                                          \
      .describe(Docs(Formula, Gradient, #Name "-" Version))                                       \
      .input("data", TypeDoc(Types))                                                              \
      .optional_input("axes", "i64", "in [-rank, rank)")                                          \
      .output("reduced", "T")                                                                     \
      .param<ReduceParam>()                                                                       \
      .example({"f32[2, 3, 4]", "i64[1] = [1]"})                                                  \
      .example({"f32[n, 3]", "i64[1] = [-1]"}, "keepdims = 0")                                    \
      .example({"f32[2, 3]"}, "keepdims = 0")                                                     \
      .example({"f32[2, 3]"}, "noop_with_empty_axes = 1")                                         \
      .set_attr<FInferType>("FInferType", TypeRule(Types))                                        \
      .set_attr<FInferShape>("FInferShape", ShapeRule(ValueFold))                                 \
      .set_attr<FGradient>("FGradient", ReduceGrad(GradientRule))                                 \
      .set_attr<FFlops>("FFlops", OneFlopARead)

WEFT_REGISTER_REDUCTION(ReduceSum, "y = sum(x)", "dy spread over x", "13", kNumeric, AddRule,
                        SumRule)
    .set_attr<FCodeGen>("FCodeGen", ReduceCode({ReduceOp::kSum}))
    .set_attr<FSimplify>("FSimplify", SimplifyNoop);
WEFT_REGISTER_REDUCTION(ReduceMean, "y = sum(x) / count", "dy / count spread over x", "18",
                        kNumeric, nullptr, MeanRule)
    .set_attr<FCodeGen>("FCodeGen", ReduceCode({ReduceOp::kSum, false, nullptr, Divide}))
    .set_attr<FSimplify>("FSimplify", SimplifyNoop);
WEFT_REGISTER_REDUCTION(ReduceMax, "y = max(x)",
                        "dy shared equally by the elements equal to y; keeps x and y", "20",
                        kComputable, MaxRule, ExtremeRule)
    .set_attr<FCodeGen>("FCodeGen", ReduceCode({ReduceOp::kMax}))
    .set_attr<FSimplify>("FSimplify", SimplifyNoop);
WEFT_REGISTER_REDUCTION(ReduceMin, "y = min(x)",
                        "dy shared equally by the elements equal to y; keeps x and y", "20",
                        kComputable, MinRule, ExtremeRule)
    .set_attr<FCodeGen>("FCodeGen", ReduceCode({ReduceOp::kMin}))
    .set_attr<FSimplify>("FSimplify", SimplifyNoop);
WEFT_REGISTER_REDUCTION(ReduceProd, "y = prod(x)",
                        "dy times the product of the other elements, zeros included; keeps x", "18",
                        kNumeric, MulRule, ProdRule)
    .set_attr<FCodeGen>("FCodeGen", ReduceCode({ReduceOp::kProd}))
    .set_attr<FSimplify>("FSimplify", SimplifyNoop);
WEFT_REGISTER_REDUCTION(ReduceSumSquare, "y = sum(x^2)", "2 x dy; keeps x", "18", kNumeric, nullptr,
                        SumSquareRule)
    .set_attr<FCodeGen>("FCodeGen", ReduceCode({ReduceOp::kSum, false, Square}));
WEFT_REGISTER_REDUCTION(ReduceL1, "y = sum(|x|)", "sign(x) dy; keeps x", "18", kNumeric, nullptr,
                        L1Rule)
    .set_attr<FCodeGen>("FCodeGen", ReduceCode({ReduceOp::kSum, false, Absolute}));
WEFT_REGISTER_REDUCTION(ReduceL2, "y = sqrt(sum(x^2))", "x dy / y, 0 where y is 0; keeps x and y",
                        "18", kNumeric, nullptr, L2Rule)
    .set_attr<FCodeGen>("FCodeGen", ReduceCode({ReduceOp::kSum, true, Square, Root}));
WEFT_REGISTER_REDUCTION(ReduceLogSum, "y = log(sum(x))", "dy / exp(y); keeps y", "18", kNumeric,
                        nullptr, LogSumRule)
    .set_attr<FCodeGen>("FCodeGen", ReduceCode({ReduceOp::kSum, true, nullptr, Logarithm}))
    .set_attr<FInputDomains>("FInputDomains", Domains({Positive(), Any()}));
WEFT_REGISTER_REDUCTION(ReduceLogSumExp, "y = log(sum(exp(x))), shifted by the maximum",
                        "exp(x - y) dy; keeps x and y", "18", kNumeric, nullptr, LogSumExpRule)
    .set_attr<FCodeGen>("FCodeGen", FCodeGen(LogSumExpCode));

/// What the two operators of products of others say alike.
#define WEFT_REGISTER_PRODUCTS(Name, Doc, Operands)                                       \
  WEFT_REGISTER_OP_IN(weft, Name)                                                         \
      .describe(Doc)                                                                      \
      .param<ReduceParam>()                                                               \
      .set_num_inputs(Operands, Operands + 1)                                             \
      .set_attr<FInferType>("FInferType",                                                 \
                            [](InferTypeContext& ctx) {                                   \
                              const Type t = CommonInputType(ctx, kNumeric, 0, Operands); \
                              CheckInputType(ctx, Operands, kI64Only);                    \
                              if (t.known()) ctx.set_out(0, t);                           \
                            })                                                            \
      .set_attr<FInferShape>("FInferShape", ProductsShape)

WEFT_REGISTER_PRODUCTS(ReduceProdGrad,
                       "Gradient of ReduceProd: dx[i] = dy prod_{j != i} x[j], quadratic in the "
                       "reduced size. dy has the reduced axes (of size 1) or is a scalar. "
                       "Gradient: itself for dy, weft::ReduceProdGradPairs for x. Source: Weft.",
                       2)
    .input("dy", TypeDoc(kNumeric))
    .input("x", "T")
    .optional_input("axes", "i64")
    .output("dx", "T")
    .example({"f32[2, 1]", "f32[2, 3]", "i64[1] = [1]"})
    .set_attr<FCodeGen>("FCodeGen", ProdGradCode)
    .set_attr<FGradient>("FGradient", ProdGradGradient)
    .set_attr<FOnnxBody>("FOnnxBody", ReduceProdGradBody);

WEFT_REGISTER_PRODUCTS(
    ReduceProdGradPairs,
    "Second derivative of ReduceProd along g: out[k] = dy sum_{i != k} g[i] prod_{j != i, k} x[j], "
    "cubic in the reduced size. Gradient: none registered. Source: Weft.",
    3)
    .input("dy", TypeDoc(kNumeric), "has the reduced axes (of size 1), or a scalar")
    .input("x", "T")
    .input("g", "T", "the shape of x")
    .optional_input("axes", "i64")
    .output("d", "T")
    .example({"f32[2, 1]", "f32[2, 3]", "f32[2, 3]", "i64[1] = [1]"})
    .set_attr<FCodeGen>("FCodeGen", ProdGradPairsCode);

}  // namespace weft::ops
