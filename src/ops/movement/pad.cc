/// pad.cc: Pad (constant, edge, reflect, wrap) and weft::PadGrad.
#include <algorithm>

#include "ops/util/adjoint.h"
#include "ops/util/onnx_body_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct PadParam : OpParam<PadParam> {
  std::string mode;
  WEFT_OP_PARAM(PadParam) {
    WEFT_FIELD(mode)
        .set_default("constant")
        .describe("constant, edge, reflect (border not repeated) or wrap");
  }
};
WEFT_REGISTER_OP_PARAM(PadParam);

const std::string& Mode(const NodePtr& n) {
  const std::string& m = ParamOf<PadParam>(n).mode;
  WEFT_CHECK(m == "constant" || m == "edge" || m == "reflect" || m == "wrap", kBadAttribute,
             "{}: mode '{}'", n->Describe(), m);
  return m;
}

std::vector<int> AllAxes(int rank) {
  std::vector<int> axes;
  for (int k = 0; k < rank; ++k) axes.push_back(k);
  return axes;
}

void PadShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  const Shape& x = ctx.in(0);
  const bool continued = Mode(n) != "constant";
  if (HasInput(ctx, 2) && ctx.in(2).has_rank())
    for (SymInt d : ctx.in(2).dims())
      UnifyDims(ctx, d, 1, "the dimensions of constant_value and 1");
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  std::vector<int> axes = AllAxes(x.rank());
  if (HasInput(ctx, 3)) {
    const auto given = InputInts(ctx, 3);
    if (!given) {
      ctx.set_out(0, Shape::OfRank(x.rank()));
      return Unknown(ctx, 0, "the axes are not known at compile time");
    }
    axes = NormalizeAxes(*given, x.rank(), n);
  }
  CheckRank(ctx, 1, 1, "pads");
  if (const auto length = VectorLength(ctx, 1)) {
    WEFT_CHECK(*length == int64_t(axes.size()) * 2, kShapeMismatch, "{}: {} pads for {} axes",
               n->Describe(), *length, axes.size());
  }
  const SymTensorPtr pads = InputValue(ctx, 1);
  std::vector<SymInt> dims = x.dims();
  for (size_t k = 0; k < axes.size(); ++k) {
    SymInt& d = dims[size_t(axes[k])];
    const SymInt begin = pads ? pads->elements[k] : SymInt(),
                 end = pads ? pads->elements[k + axes.size()] : SymInt();
    if (!begin.known() || !end.known()) {
      d = ctx.unbacked(axes[k]);
      continue;
    }
    const SymInt kept = d + MinOf(begin, 0, ctx.facts()) + MinOf(end, 0, ctx.facts());
    d = d + begin + end;
    DemandAtLeast(ctx, d, 0, "what the pads leave");
    if (continued) DemandElement(ctx, kept, d, "elements to continue beyond the border");
  }
  ctx.set_out(0, Shape(std::move(dims)));
}

/// Where position i reads `count` elements that are continued on both sides; for constant mode the
/// position itself, maybe outside. The mirror image of one element is that element: period 1, m =
/// 0, min(0, 1) = 0.
Expr Continued(const std::string& mode, const Expr& i, const Expr& count) {
  const Expr zero = Expr::Int(0), one = Expr::Int(1);
  if (mode == "edge") return Max(zero, Min(i, count - one));
  if (mode == "wrap") return FloorModExpr(i, Max(count, one));
  if (mode == "reflect") {
    const Expr last = count - one, period = Max(last * Expr::Int(2), one);
    const Expr m = FloorModExpr(i, period);
    return Min(m, period - m);
  }
  return i;
}

/// Continued where all is known and x is met once on either side: pieces of a loop, in each of
/// which memory is walked through one way. Null elsewhere.
Expr ContinuedOnce(const std::string& mode, const Expr& i, const Expr& begin, const Expr& end,
                   const Expr& count) {
  for (const Expr& e : {begin, end, count})
    if (e->kind() != ExprKind::kConst) return Expr();
  const int64_t most = std::max(begin->const_int(), end->const_int()), n = count->const_int();
  if (std::min(begin->const_int(), end->const_int()) < 0 || n < 1) return Expr();
  const Expr zero = Expr::Int(0);
  Expr before, behind;
  if (mode == "edge") {
    before = zero, behind = Expr::Int(n - 1);
  } else if (mode == "wrap" && most <= n) {
    before = i + count, behind = i - count;
  } else if (mode == "reflect" && most < n) {
    before = zero - i, behind = Expr::Int(2 * (n - 1)) - i;
  } else {
    return Expr();
  }
  return Expr::Select(Lt(i, zero), before, Expr::Select(Lt(i, count), i, behind));
}

/// Where position i of the result reads an axis of extent d. Negative pads cut first, what
/// they leave is continued.
Expr Source(const std::string& mode, const Expr& i, const Expr& begin, const Expr& end,
            const Expr& d) {
  if (mode == "constant") return i - begin;
  if (const Expr once = ContinuedOnce(mode, i - begin, begin, end, d)) return once;
  const Expr zero = Expr::Int(0);
  const Expr cut = Max(zero, zero - begin), count = d - cut - Max(zero, zero - end);
  return cut + Continued(mode, i - Max(begin, zero), count);
}

std::vector<int> AxesArg(const NodePtr& n, const std::vector<TensorArg>& in, size_t i, int rank) {
  return HasInput(in, i) ? NormalizeAxes(KnownInts(n, in[i], "axes"), rank, n) : AllAxes(rank);
}

/// Channels of an image.
constexpr int64_t kMostBehind = 16;

Exprs PadCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const std::vector<int> axes = AxesArg(n, in, 3, x.rank());
  const std::string& mode = Mode(n);
  Indices from = at(0);
  Expr inside = Expr::Bool(true);
  const auto untouched = [&](size_t k) {
    return in[1].value && in[1].value->elements[k].is(0) &&
           x.shape[axes[k]] == at.shape[0][axes[k]];
  };
  int last = -1;
  for (size_t k = 0; k < axes.size(); ++k)
    if (!untouched(k)) last = std::max(last, axes[k]);
  // Few elements behind each position of the last axis that is touched: they are walked through
  // together with it.
  const std::vector<SymInt> tail(x.shape.dims().begin() + last + 1, x.shape.dims().end());
  const SymInt behind = Product(tail);
  const bool flat = behind.is_const() && behind.value() > 1 && behind.value() <= kMostBehind;
  for (size_t k = 0; k < axes.size(); ++k) {
    if (untouched(k)) continue;
    Expr& i = from[size_t(axes[k])];
    const Expr d = x.dim(axes[k]);
    i = Source(mode, i, ElementI64(in[1], int64_t(k)), ElementI64(in[1], int64_t(k + axes.size())),
               d);
    if (mode != "constant") continue;
    if (flat && axes[k] == last) {
      Indices at_tail(from.begin() + last + 1, from.end());
      const Expr element = i * Expr::Dim(behind) + Linearize(at_tail, tail);
      inside = And(inside, InRange(element, d * Expr::Dim(behind)));
    } else {
      inside = And(inside, InRange(i, d));
    }
  }
  if (mode != "constant") return {x(from)};
  const Expr fill =
      !HasInput(in, 2) ? Zero(x.dtype) : in[2](Indices(size_t(in[2].rank()), Expr::Int(0)));
  return {ReadWhere(inside, x(from), fill)};
}

/// dx[i] = sum of dy over the padded positions that read i.
Exprs PadGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& dy = in[0];
  const std::vector<int> axes = AxesArg(n, in, 3, dy.rank());
  const std::string& mode = Mode(n);
  std::vector<SymInt> extents;
  for (int a : axes) extents.push_back(dy.shape[a]);
  return {SumOver(extents, [&](const Indices& r) {
    Indices from = at(0);
    Expr hit = Expr::Bool(true);
    for (size_t k = 0; k < axes.size(); ++k) {
      from[size_t(axes[k])] = r[k];
      const Expr source =
          Source(mode, r[k], ElementI64(in[2], int64_t(k)),
                 ElementI64(in[2], int64_t(k + axes.size())), Expr::Dim(at.shape[0][axes[k]]));
      hit = And(hit, Eq(source, at(0)[size_t(axes[k])]));
    }
    return Expr::Select(hit, dy(from), Zero(dy.dtype));
  })};
}

/// Constant mode: the adjoint cuts what was added (and pads what was cut) by negated pads.
std::vector<NodeEntry> PadGradient(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!dys[0]) return d;
  const NodeEntry axes = HasInput(n, 3) ? n->inputs[3] : NodeEntry();
  if (Mode(n) != "constant") {
    d[0] =
        ApplyOp("weft::PadGrad", {dys[0], ShapeOf(n->inputs[0]), n->inputs[1], axes}, AttrsOf(n));
    return d;
  }
  d[0] = ApplyOp("Pad", {dys[0], ApplyOp("Neg", {n->inputs[1]}), NodeEntry(), axes}, AttrsOf(n));
  if (HasInput(n, 2)) {
    auto total = [](const NodeEntry& e) { return ApplyOp("ReduceSum", {e}, {{"keepdims", 0}}); };
    // What dy holds outside of x went into the constant. Cut positions of x count on neither side.
    const NodeEntry ones = ExpandLike(ScalarOf(n->inputs[0], 1), n->inputs[0]);
    const NodeEntry from_x = ApplyOp("Pad", {ones, n->inputs[1], NodeEntry(), axes}, AttrsOf(n));
    d[2] = ReshapeLike(total(dys[0] * (ScalarOf(dys[0], 1) - from_x)), n->inputs[2]);
  }
  return d;
}
/// Linear in dy, and Pad reads where PadGrad sums.
std::vector<NodeEntry> PadGradGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (g[0])
    d[0] = ApplyOp("Pad",
                   {g[0], n->inputs[2], NodeEntry(), HasInput(n, 3) ? n->inputs[3] : NodeEntry()},
                   AttrsOf(n));
  return d;
}

std::vector<NodeEntry> SimplifyPad(RewriteContext& ctx, const NodePtr& n) {
  const SymTensorPtr pads = ctx.value(n->inputs[1]);
  if (!pads) return {};
  for (SymInt p : pads->elements) {
    if (!p.is(0)) return {};
  }
  return ReplaceIfSame(ctx, n, n->inputs[0]);
}

std::string PadGradBody(const OnnxBodyRequest& r) {
  const std::string mode = r.node->attr<std::string>("mode");
  std::string inputs = mode == "constant" ? "numbers, i2, count" : "numbers, i2";
  if (r.node->inputs.size() > 3 && r.node->inputs[3])
    inputs += mode == "constant" ? ", i3" : ", , i3";
  return MovementAdjoint("i1", fmt::format("Pad<mode = \"{}\">({})", mode, inputs));
}

}  // namespace

WEFT_REGISTER_OP(Pad)
    .describe(
        "x with pads[k] elements before and pads[k + count] after it on axes[k]; negative pads cut "
        "first. Added elements are constant_value, the border, the mirror image or the other end "
        "of what is left.\n"
        "Gradient: constant: Pad of dy by -pads, and the sum outside x for constant_value; else "
        "weft::PadGrad.\n"
        "Errors: 2 pads an axis, a negative dimension, nothing left to continue (kShapeMismatch), "
        "unknown mode (kBadAttribute). Source: ONNX Pad-24.")
    .input("data", TypeDoc(kAllTypes))
    .input("pads", "i64", "1-D: all begins, then all ends")
    .optional_input("constant_value", "T", "one element; default 0")
    .optional_input("axes", TypeDoc(kIndexTypes, "Tind"), "default: all")
    .output("output", "T")
    .param<PadParam>()
    .example({"f32[2, 3]", "i64[4] = [1, 0, 0, 2]", "f32[] = [9]"})
    .example({"f32[n, 3]", "i64[2] = [1, 2]", "_", "i64[1] = [1]"}, "mode = \"reflect\"")
    .example({"f32[4]", "i64[2] = [-1, 2]"}, "mode = \"edge\"")
    .example({"f32[4]", "i64[2] = [2, 3]"}, "mode = \"wrap\"")
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& ctx) {
                            CheckInputType(ctx, 0, kAllTypes);
                            CheckInputType(ctx, 1, kI64Only);
                            CheckInputType(ctx, 3, kIndexTypes);
                            const Type x = ctx.in(0);
                            if (ctx.num_inputs() > 2 && ctx.has_input(2) && ctx.in(2).known())
                              WEFT_CHECK(!x.known() || x == ctx.in(2), kTypeMismatch,
                                         "{}: data {} and constant_value {}",
                                         ctx.node()->Describe(), x.ToString(),
                                         ctx.in(2).ToString());
                            if (x.known()) ctx.set_out(0, x);
                          })
    .set_attr<FInferShape>("FInferShape", PadShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1, 3})
    .set_attr<FCodeGen>("FCodeGen", PadCode)
    .set_attr<FGradient>("FGradient", PadGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyPad)
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP_IN(weft, PadGrad)
    .describe(
        "Adjoint of Pad: dx[i] = sum of dy over the positions that Pad fills from i. Gradient: "
        "Pad. Source: Weft.")
    .input("dy", TypeDoc(kNumeric))
    .input("shape", "i64", "dimensions of the padded tensor before padding")
    .input("pads", "i64")
    .optional_input("axes", TypeDoc(kIndexTypes, "Tind"))
    .output("dx", "T")
    .param<PadParam>()
    .example({"f32[6]", "i64[1] = [3]", "i64[2] = [2, 1]"}, "mode = \"reflect\"")
    .set_attr<FInferType>("FInferType", TypeOfDataInput(kNumeric, {1, 2, 3}))
    .set_attr<FInferShape>("FInferShape", AdjointShape(PadShape, 1, {kSought, 2, kAbsent, 3}))
    .set_attr<FCodeGen>("FCodeGen", PadGradCode)
    .set_attr<FGradient>("FGradient", PadGradGradient)
    .set_attr<FOnnxBody>("FOnnxBody", PadGradBody);

}  // namespace weft::ops
