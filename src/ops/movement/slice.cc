/// slice.cc: Slice and its adjoint weft::SliceGrad: a strided box of a tensor.
///
/// Extents follow the values of starts and ends as expressions and stay sound for every size:
/// x[-3:] of [h] has min(h, 3) elements, x[:-1] has max(h - 1, 0), x[i:INT64_MAX] has max(h - i,
/// 0). Where the sign of a symbolic bound is not known the extent is data-dependent (an unbacked
/// symbol), never a guess.
#include <algorithm>
#include <optional>

#include "elements_beside.h"
#include "ops/util/adjoint.h"
#include "ops/util/bounded_size.h"
#include "ops/util/onnx_body_util.h"
#include "weft/core/op/alias.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::ops {
namespace {

// bounds beyond this mean "to the end": no extent reaches them
constexpr int64_t kFar = INT64_MAX / 2;

/// Number of elements of [start : end : step] in an extent d; unknown where it cannot be said.
SymInt SliceExtent(SymInt d, SymInt s, SymInt e, int64_t step, const Facts& facts) {
  if (!d.known()) return s.is(0) && e.known() && e.is(0) ? SymInt(0) : SymInt();
  const bool s_const = s.known() && s.is_const(), e_const = e.known() && e.is_const();
  const int s_sign = SignOf(s, facts), e_sign = SignOf(e, facts);
  if (s_sign == 0 || e_sign == 0) return SymInt();
  if (step > 0) {
    // end' in [0, d]
    SymInt end;
    if (e_const && e.value() >= kFar) {
      end = d;
    } else if (e_sign > 0) {
      end = MinOf(e, d, facts);
    } else {
      end = e_const && e.value() <= -kFar ? SymInt(0) : MaxOf(d + e, 0, facts);
    }
    SymInt length;
    if (s_const && s.value() >= kFar) {
      length = 0;
    } else if (s_sign > 0) {
      length = MaxOf(end - s, 0, facts);  // start' = min(s, d) >= end where the clamp matters
    } else if (s_const && s.value() <= -kFar) {
      length = end;
    } else if (end == d) {
      length = MinOf(-s, d, facts);
    } else {
      length = MaxOf(MinOf(end - d - s, end, facts), 0, facts);  // end - max(d + s, 0)
    }
    return step == 1 ? length : CeilDiv(length, step);
  }
  // step < 0: start' in [0, d-1], end' in [-1, d-1]
  const bool from_last = s_const && (s.value() == -1 || s.value() >= kFar);
  SymInt start = d - 1;
  if (!from_last)
    start = s_sign > 0                      ? MinOf(s, d - 1, facts)
            : s_const && s.value() <= -kFar ? SymInt(0)
                                            : MaxOf(d + s, 0, facts);
  SymInt end;
  if (e_const && e.value() <= -kFar) {
    end = -1;
  } else if (e_const && e.value() >= kFar) {
    end = d - 1;
  } else {
    end = e_sign > 0 ? MinOf(e, d - 1, facts) : MaxOf(d + e, -1, facts);
  }
  const SymInt steps = CeilDiv(start - end, CheckedNeg(step));
  if (from_last && end.is(-1)) return steps;
  // Nothing can be taken from an extent of 0, to which the clamped start does not bow.
  return MinOf(MaxOf(steps, 0, facts), d, facts);
}

std::vector<int64_t> DefaultAxes(size_t n) {
  std::vector<int64_t> axes;
  for (size_t k = 0; k < n; ++k) axes.push_back(int64_t(k));
  return axes;
}
void CheckSteps(const NodePtr& n, const std::vector<int64_t>& steps, size_t count) {
  WEFT_CHECK(steps.size() == count, kShapeMismatch, "{}: {} steps for {} axes", n->Describe(),
             steps.size(), count);
  for (int64_t s : steps)
    WEFT_CHECK(s != 0 && s > -kFar && s < kFar, kBadAttribute, "{}: step {}", n->Describe(), s);
}

void SliceShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  const NodePtr& n = ctx.node();
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  CheckRank(ctx, 1, 1, "starts");
  CheckRank(ctx, 2, 1, "ends");
  const auto count = VectorLength(ctx, 1);
  const auto ends_count = VectorLength(ctx, 2);
  if (count && ends_count) {
    WEFT_CHECK(*count == *ends_count, kShapeMismatch, "{}: {} starts and {} ends", n->Describe(),
               *count, *ends_count);
  }
  auto given_axes = HasInput(ctx, 3) ? InputInts(ctx, 3)
                    : count          ? std::optional(DefaultAxes(size_t(*count)))
                                     : std::nullopt;
  if (!given_axes) {
    ctx.set_out(0, Shape::OfRank(x.rank()));
    return Unknown(ctx, 0, "the axes are not known at compile time");
  }
  const std::vector<int> axes = NormalizeAxes(*given_axes, x.rank(), n);
  WEFT_CHECK(!count || size_t(*count) == axes.size(), kShapeMismatch, "{}: {} starts for {} axes",
             n->Describe(), *count, axes.size());
  auto steps =
      HasInput(ctx, 4) ? InputInts(ctx, 4) : std::optional(std::vector<int64_t>(axes.size(), 1));
  if (steps) CheckSteps(n, *steps, axes.size());
  const SymTensorPtr starts = InputValue(ctx, 1), ends = InputValue(ctx, 2);
  std::vector<SymInt> dims = x.dims();
  for (size_t k = 0; k < axes.size(); ++k) {
    const SymInt s = starts ? starts->elements.at(k) : SymInt(),
                 e = ends ? ends->elements.at(k) : SymInt();
    SymInt& d = dims[size_t(axes[k])];
    const SymInt extent = steps ? SliceExtent(d, s, e, (*steps)[k], ctx.facts()) : SymInt();
    if (!extent.known() && !d.known()) {
      d = SymInt();
      Unknown(ctx, 0, fmt::format("dimension {} of x is unknown", axes[k]));
    } else {
      d = extent.known() ? extent : UnbackedAtMost(ctx, axes[k], d);
    }
  }
  const Shape out(std::move(dims));
  ctx.set_out(0, out);
  if (x.rank() != 1 || axes.size() != 1 || !starts || !ends || !steps || !x.is_static() ||
      !out.is_static())
    return;
  const SymTensorPtr v = InputValue(ctx, 0);
  if (!v || !starts->is_const()) return;
  const int64_t d = x[0].value(), step = (*steps)[0];
  int64_t start = starts->ints()[0];
  start = start < -kFar ? 0 : start < 0 ? start + d : start;
  start = std::min(std::max<int64_t>(start, 0), step > 0 ? d : d - 1);
  SetValue(ctx, 0, out, [&](int64_t i) { return v->elements.at(size_t(start + i * step)); });
}

/// First element taken on an axis of extent d; meaningful only where something is taken.
Expr StartOf(const Expr& s, const Expr& d, int64_t step) {
  const Expr zero = Expr::Int(0);
  const Expr start = Expr::Select(Lt(s, zero), Max(Max(s, Expr::Int(-kFar)) + d, zero), s);
  return step > 0 ? start : Min(start, d - Expr::Int(1));
}

std::vector<int> AxesArg(const NodePtr& n, const std::vector<TensorArg>& in, size_t i, size_t count,
                         int rank) {
  return NormalizeAxes(HasInput(in, i) ? KnownInts(n, in[i], "axes") : DefaultAxes(count), rank, n);
}
std::vector<int64_t> StepsArg(const NodePtr& n, const std::vector<TensorArg>& in, size_t i,
                              size_t count) {
  std::vector<int64_t> steps =
      HasInput(in, i) ? KnownInts(n, in[i], "steps") : std::vector<int64_t>(count, 1);
  CheckSteps(n, steps, count);
  return steps;
}
size_t CountArg(const NodePtr& n, const TensorArg& starts) {
  WEFT_CHECK(starts.shape.is_static(), kUnsupported, "{}: the number of starts must be known",
             n->Describe());
  return size_t(starts.shape.ints().at(0));
}

Exprs SliceCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const size_t count = CountArg(n, in[1]);
  const std::vector<int> axes = AxesArg(n, in, 3, count, in[0].rank());
  const std::vector<int64_t> steps = StepsArg(n, in, 4, count);
  Indices from = at(0);
  for (size_t k = 0; k < axes.size(); ++k) {
    Expr& i = from[size_t(axes[k])];
    i = StartOf(ElementI64(in[1], int64_t(k)), in[0].dim(axes[k]), steps[k]) +
        i * Expr::Int(steps[k]);
  }
  return {in[0](from)};
}

Exprs SliceGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const size_t count = CountArg(n, in[2]);
  const std::vector<int> axes = AxesArg(n, in, 4, count, in[0].rank());
  const std::vector<int64_t> steps = StepsArg(n, in, 5, count);
  Indices from = at(0);
  Expr inside = Expr::Bool(true);
  for (size_t k = 0; k < axes.size(); ++k) {
    Expr& i = from[size_t(axes[k])];
    const Expr offset =
        i - StartOf(ElementI64(in[2], int64_t(k)), Expr::Dim(at.shape[0][axes[k]]), steps[k]);
    const Expr step = Expr::Int(steps[k]);
    i = FloorDivExpr(offset, step);
    if (steps[k] != 1) inside = And(inside, Eq(FloorModExpr(offset, step), Expr::Int(0)));
    inside = And(inside, InRange(i, in[0].dim(axes[k])));
  }
  return {ReadWhere(inside, in[0](from), Zero(in[0].dtype))};
}

std::vector<NodeEntry> SliceGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  std::vector<NodeEntry> dx(n->inputs.size());
  if (!dy[0]) return dx;
  std::vector<NodeEntry> args(n->inputs.begin(), n->inputs.end());
  args[0] = ShapeOf(n->inputs[0]);
  args.insert(args.begin(), dy[0]);
  dx[0] = ApplyOp("weft::SliceGrad", args);
  return dx;
}
std::vector<NodeEntry> SliceGradGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!g[0]) return d;
  std::vector<NodeEntry> args(n->inputs.begin(), n->inputs.end());
  args.erase(args.begin());
  args[0] = g[0];
  d[0] = ApplyOp("Slice", args);
  return d;
}

/// One step forward on every axis: what lies together is a box of which no axis in front of the
/// first that is cut has more than one position.
std::vector<AliasPart> SliceAlias(const AliasContext& ctx) {
  const NodePtr& n = ctx.node();
  const Shape &x = ctx.in(0), &y = ctx.out(0);
  const SymTensorPtr starts = ctx.in_value(1), given = ctx.in_value(3), steps = ctx.in_value(4);
  if (!starts || (HasInput(n, 3) && !(given && given->is_const())) ||
      (HasInput(n, 4) && !(steps && steps->is_const())))
    return {};
  const size_t count = starts->elements.size();
  const std::vector<int> axes =
      NormalizeAxes(given ? given->ints() : DefaultAxes(count), x.rank(), n);
  int last = -1;  // the last axis that is cut
  for (int d = 0; d < x.rank(); ++d)
    if (!(x[d] == y[d])) last = d;
  SymInt at = 0;
  for (size_t k = 0; k < count; ++k) {
    const int d = axes[k];
    if (steps && steps->ints().at(k) != 1) return {};
    if (x[d] == y[d]) continue;  // as many from the start
    const SymInt s = starts->elements[k];
    const int sign = SignOf(s, ctx.facts());
    if (sign == 0 || (s.is_const() && (s.value() >= kFar || s.value() <= -kFar))) return {};
    const SymInt start = sign > 0 ? s : MaxOf(x[d] + s, 0, ctx.facts());
    at = at + start * ElementsBehind(x, d);
  }
  return {{0, 0, at, ElementsBefore(y, std::max(last, 0)), false}};
}

std::vector<NodeEntry> SimplifySlice(RewriteContext& ctx, const NodePtr& n) {
  // Steps forward and as many elements as x has: x itself.
  if (HasInput(n, 4)) {
    const SymTensorPtr steps = ctx.value(n->inputs[4]);
    if (!steps || !steps->is_const()) return {};
    for (int64_t s : steps->ints()) {
      if (s < 1) return {};
    }
  }
  return ReplaceIfSame(ctx, n, n->inputs[0]);
}

void SliceType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kAllTypes);
  for (int i = 1; i < ctx.num_inputs(); ++i) CheckInputType(ctx, i, kIndexTypes);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}

/// Where the first element that is taken stands, by axis, for constant starts and steps of 1.
std::optional<std::vector<int64_t>> FirstTaken(const NodePtr& n, int rank) {
  const auto ints = [&](size_t i) -> std::optional<std::vector<int64_t>> {
    const TensorPtr t = Graph::ConstantOf(n->inputs[i]);
    if (!t) return std::nullopt;
    std::vector<int64_t> v;
    for (int64_t k = 0; k < t->num_elements(); ++k) v.push_back(t->at_int(k));
    return v;
  };
  const auto starts = ints(2);
  if (!starts) return std::nullopt;
  const auto axes = HasInput(n, 4) ? ints(4) : std::optional(DefaultAxes(starts->size()));
  const auto steps =
      HasInput(n, 5) ? ints(5) : std::optional(std::vector<int64_t>(starts->size(), 1));
  if (!axes || !steps || axes->size() != starts->size() ||
      std::any_of(steps->begin(), steps->end(), [](int64_t s) { return s != 1; }))
    return std::nullopt;
  std::vector<int64_t> first(size_t(rank), 0);
  const std::vector<int> at = NormalizeAxes(*axes, rank, n);
  for (size_t k = 0; k < at.size(); ++k) first[size_t(at[k])] = (*starts)[k];
  return first;
}

std::string SliceGradBody(const OnnxBodyRequest& r) {
  const Shape &from = r.input_shapes[0], &to = r.output_shapes[0];
  const int rank = from.has_rank() ? from.rank() : to.has_rank() ? to.rank() : -1;
  if (const auto first = rank < 0 ? std::nullopt : FirstTaken(r.node, rank))
    return PlacedText("i0", from, *first, "i1", to);
  std::string inputs = "numbers, i2, i3";
  const size_t given = r.node->inputs.size();
  for (size_t i = 4; i < given; ++i)
    inputs += r.node->inputs[i] ? fmt::format(", i{}", i) : std::string(", ");
  return MovementAdjoint("i1", "Slice(" + inputs + ")");
}

}  // namespace

WEFT_REGISTER_OP(Slice)
    .describe(
        "y = x[starts : ends : steps] on `axes`, bounds as in numpy: negative ones count from the "
        "end, then clamp.\n"
        "Gradient: weft::SliceGrad (dy in place, zeros elsewhere); keeps the shape of x only.\n"
        "Errors: a step of 0, an axis out of range or repeated (kBadAttribute), lengths that "
        "differ (kShapeMismatch), axes or steps that are not constant (kUnsupported when code is "
        "made). Source: ONNX Slice-13.")
    .input("data", TypeDoc(kAllTypes))
    .input("starts", TypeDoc(kIndexTypes, "Tind"))
    .input("ends", "Tind", "exclusive")
    .optional_input("axes", "Tind", "default [0, 1, ...]")
    .optional_input("steps", "Tind", "default 1; negative goes backward")
    .output("output", "T")
    .param<NoParam>()
    .example({"f32[5, 4]", "i64[2] = [1, -3]", "i64[2] = [9223372036854775807, -1]"})
    .example({"f32[n, 4]", "i64[1] = [-3]", "i64[1] = [9223372036854775807]", "i64[1] = [0]"})
    .example({"f32[7]", "i64[1] = [-1]", "i64[1] = [-9223372036854775807]", "i64[1] = [0]",
              "i64[1] = [-2]"})
    .set_attr<FInferType>("FInferType", SliceType)
    .set_attr<FInferShape>("FInferShape", SliceShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1, 2, 3, 4})
    .set_attr<FCodeGen>("FCodeGen", SliceCode)
    .set_attr<FGradient>("FGradient", SliceGradient)
    .set_attr<FSimplify>("FSimplify", SimplifySlice)
    .set_attr<FAlias>("FAlias", SliceAlias)
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP_IN(weft, SliceGrad)
    .describe(
        "Adjoint of Slice: a tensor of shape `shape` that holds dy where Slice would read, 0 "
        "elsewhere.\n"
        "Gradient: Slice. Errors: as Slice. Source: Weft.")
    .input("dy", TypeDoc(kComputable))
    .input("shape", "i64", "dimensions of the sliced tensor")
    .input("starts", TypeDoc(kIndexTypes, "Tind"))
    .input("ends", "Tind")
    .optional_input("axes", "Tind")
    .optional_input("steps", "Tind")
    .output("dx", "T")
    .param<NoParam>()
    .example({"f32[2]", "i64[1] = [5]", "i64[1] = [1]", "i64[1] = [5]", "i64[1] = [0]",
              "i64[1] = [2]"})
    .set_attr<FInferType>("FInferType", SliceType)
    .set_attr<FInferShape>("FInferShape", AdjointShape(SliceShape, 1, {kSought, 2, 3, 4, 5}))
    .set_attr<FCodeGen>("FCodeGen", SliceGradCode)
    .set_attr<FGradient>("FGradient", SliceGradGradient)
    .set_attr<FOnnxBody>("FOnnxBody", SliceGradBody);

}  // namespace weft::ops
