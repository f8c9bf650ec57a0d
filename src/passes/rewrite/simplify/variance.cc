/// variance.cc: variances that were written out as E[x^2] - E[x]^2, as the function
/// bodies of ONNX's GroupNormalization, LayerNormalization and
/// MeanVarianceNormalization do, become weft::Moments.
///   Sub(ReduceMean(Mul(x, x)), Mul(m, m)), m = ReduceMean(x)  -> variance of weft::Moments(x)
///   ReduceMean(x) beside weft::Moments(x)                     -> mean of weft::Moments(x)
///   Sub(x, mean of weft::Moments(x))                          -> Sub(Sub(x, mean), rest)
///
/// Mean and square in any spelling: sums divided by the count, Pow, ReduceSumSquare ..
///
/// The one exception to "floating point is not reordered": the left side is the difference of two
/// nearly equal numbers, and has no right digit where mean / deviation is 3000 (f32). The right
/// side is never worse.
#include <algorithm>
#include <cmath>
#include <optional>

#include "build.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/rewrite_rule.h"

namespace weft::simplify {
namespace {

constexpr const char* kMoments = "weft::Moments";

/// factor n^power times the sum over `axes` of x, or of x^2, where n is the
/// number of elements summed.
struct Sum {
  NodeEntry x;
  std::vector<int> axes;
  SymInt n;
  double factor = 1;
  int power = 0;
  double slack = 0;  ///< how far the factor may be off, as its constants are rounded
};

/// What stands around a sum: numbers that it is multiplied with and divided by, the latter perhaps
/// extents of a run.
struct Around {
  double factor = 1, slack = 0;
  std::vector<SymInt> divisors;
};

bool IsFloatCast(RewriteContext& ctx, const NodePtr& n) {
  return (IsOp(n, "Cast") || IsOp(n, "CastLike")) && IsFloat(ctx.dtype(n->inputs[0])) &&
         IsFloat(ctx.dtype(NodeEntry(n)));
}

/// A number that stands in a graph, and how far it may be from what was meant: half a unit
/// in the last place.
struct Number {
  double value, slack;
};
std::optional<Number> NumberIn(RewriteContext& ctx, const NodeEntry& e) {
  const TensorPtr t = e.node ? ctx.constant(e) : nullptr;
  if (!t || t->num_elements() != 1 || !IsFloat(t->dtype())) return std::nullopt;
  return Number{t->at(0), LimitsOf(t->dtype()).roundoff};
}

/// A number of elements that only the run tells: an integer, or what it was cast to.
std::optional<SymInt> CountIn(RewriteContext& ctx, NodeEntry e) {
  if (IsOp(e.node, "Cast") && IsInt(ctx.dtype(e.node->inputs[0]))) e = e.node->inputs[0];
  const SymTensorPtr v = ctx.value(e);
  if (!v || v->elements.size() != 1 || !v->elements[0].known()) return std::nullopt;
  return v->elements[0];
}

/// Takes factors, views and casts off; a few, so that long chains are not walked from
/// each of their nodes.
NodeEntry Inside(RewriteContext& ctx, NodeEntry e, Around* around) {
  static const auto& is_view = Op::GetAttr<TIsView>("TIsView");
  constexpr int kMaxAround = 6;
  for (int k = 0; k < kMaxAround && e.node && !e.node->is_variable(); ++k) {
    const NodePtr n = e.node;
    if (IsOp(n, "Neg")) {
      around->factor = -around->factor;
    } else if (IsOp(n, "Mul")) {
      const auto a = NumberIn(ctx, n->inputs[0]), b = NumberIn(ctx, n->inputs[1]);
      if (!a && !b) return e;
      around->factor *= (a ? a : b)->value;
      around->slack += (a ? a : b)->slack;
      e = n->inputs[a ? 1 : 0];
      continue;
    } else if (IsOp(n, "Div")) {
      if (const auto b = NumberIn(ctx, n->inputs[1])) {
        around->factor /= b->value;
        around->slack += b->slack;
      } else if (const auto count = CountIn(ctx, n->inputs[1])) {
        around->divisors.push_back(*count);
      } else {
        return e;
      }
    } else if (!is_view.get(n->op(), false) && !IsFloatCast(ctx, n)) {
      return e;
    }
    e = n->inputs[0];
  }
  return e;
}

/// x of x^2.
NodeEntry Root(RewriteContext& ctx, const NodeEntry& e) {
  if (IsOp(e.node, "Mul") && e.node->inputs[0] == e.node->inputs[1]) return e.node->inputs[0];
  if (!IsOp(e.node, "Pow")) return {};
  // An exponent of more axes would move those of x.
  const TensorPtr t = ctx.constant(e.node->inputs[1]);
  const bool square = t && t->num_elements() == 1 && t->at(0) == 2;
  return square && ctx.same_shape(e, e.node->inputs[0]) ? e.node->inputs[0] : NodeEntry();
}

/// The axes that a reduction names; none where they are not known.
std::vector<int> AxesOf(RewriteContext& ctx, const NodePtr& n, int rank) {
  std::vector<int> axes;
  if (IsOp(n, "GlobalAveragePool")) {
    for (int k = 2; k < rank; ++k) axes.push_back(k);
    return axes;
  }
  if (n->num_inputs() > 1 && n->inputs[1].node) {
    const SymTensorPtr v = ctx.value(n->inputs[1]);
    if (!v || !v->is_const()) return {};
    for (int64_t a : v->ints()) axes.push_back(NormalizeAxis(a, rank));
  } else if (!IsOp(n, kMoments) && n->attr<int64_t>("noop_with_empty_axes") == 0) {
    for (int k = 0; k < rank; ++k) axes.push_back(k);
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

/// The divisors around a sum, each a number or the count of what is summed; false: another one.
bool DivideBy(RewriteContext& ctx, const Around& around, Sum* s) {
  for (SymInt d : around.divisors) {
    if (ctx.facts().ProvedEqual(d, s->n))
      --s->power;
    else if (d.is_const() && d.value() != 0)
      s->factor /= double(d.value());
    else
      return false;
  }
  return true;
}

/// The sum that `e` is, of squares or not.
std::optional<Sum> SumIn(RewriteContext& ctx, const NodeEntry& e, bool squares) {
  Around around;
  const NodeEntry inner = Inside(ctx, e, &around);
  const NodePtr n = inner.node;
  if (!n || n->is_variable()) return std::nullopt;
  const bool mean = IsOp(n, "ReduceMean") || IsOp(n, "GlobalAveragePool");
  const bool of_squares = IsOp(n, "ReduceSumSquare");
  if (!mean && !of_squares && !IsOp(n, "ReduceSum")) return std::nullopt;
  if (of_squares && !squares) return std::nullopt;
  Sum s;
  s.x = squares && !of_squares ? Root(ctx, n->inputs[0]) : n->inputs[0];
  if (!s.x.node || !IsFloat(ctx.dtype(s.x))) return std::nullopt;
  const Shape& shape = ctx.shape(s.x);
  if (!shape.fully_known()) return std::nullopt;
  s.axes = AxesOf(ctx, n, shape.rank());
  if (s.axes.empty()) return std::nullopt;
  std::vector<SymInt> extents;
  for (int a : s.axes) extents.push_back(shape[a]);
  s.n = Product(extents);
  s.factor = around.factor;
  s.slack = around.slack;
  s.power = mean ? -1 : 0;
  return DivideBy(ctx, around, &s) ? std::optional(s) : std::nullopt;
}

/// `e` as factor n^power (sum of x)^2.
std::optional<Sum> SquaredSumIn(RewriteContext& ctx, const NodeEntry& e) {
  Around around;
  const NodeEntry inner = Inside(ctx, e, &around);
  if (!inner.node || inner.node->is_variable()) return std::nullopt;
  NodeEntry a = Root(ctx, inner), b = a;
  if (!a.node && IsOp(inner.node, "Mul")) a = inner.node->inputs[0], b = inner.node->inputs[1];
  if (!a.node) return std::nullopt;
  std::optional<Sum> s = SumIn(ctx, a, false);
  const std::optional<Sum> t = a == b ? s : SumIn(ctx, b, false);
  if (!s || !t || s->x != t->x || s->axes != t->axes) return std::nullopt;
  s->factor *= around.factor * t->factor;
  s->slack += around.slack + t->slack;
  s->power += t->power;
  return DivideBy(ctx, around, &*s) ? s : std::nullopt;
}

/// factor n^power as a number.
std::optional<double> ValueOf(double factor, SymInt n, int power) {
  if (power == 0) return factor;
  if (!n.is_const()) return std::nullopt;
  return factor * std::pow(double(n.value()), power);
}

/// `value` is one, but for the rounding of constants and of the arithmetic here.
bool IsOne(double value, double slack) { return std::fabs(value - 1) <= slack + 1e-14; }

NodeEntry CastFrom(RewriteContext& ctx, const NodeEntry& e, DType from, DType to) {
  return from == to ? e : NodeEntry(ctx.graph().AddNode("Cast", {e}, {{"to", to}}));
}

std::vector<NodeEntry> WrittenVariance(RewriteContext& ctx, const NodePtr& n) {
  const bool minus = IsOp(n, "Sub");
  if (!IsFloat(ctx.dtype(NodeEntry(n)))) return {};
  const NodeEntry out(n);
  if (!ctx.same_shape(n->inputs[0], out) || !ctx.same_shape(n->inputs[1], out)) return {};
  for (const size_t k : {size_t{0}, size_t{1}}) {
    const std::optional<Sum> squares = SumIn(ctx, n->inputs[k], true);
    if (!squares) continue;
    const std::optional<Sum> square = SquaredSumIn(ctx, n->inputs[1 - k]);
    if (!square || square->x != squares->x || square->axes != squares->axes) continue;
    // s2 sum(x^2) + s1 sum(x)^2 = s2 n variance where s1 = -s2 / n.
    const double s2 = minus && k == 1 ? -squares->factor : squares->factor,
                 s1 = minus && k == 0 ? -square->factor : square->factor;
    const auto ratio = ValueOf(-s1 / s2, square->n, square->power - squares->power + 1);
    const auto scale = ValueOf(s2, squares->n, squares->power + 1);
    const DType t = ctx.dtype(squares->x);
    const double slack = squares->slack + square->slack;
    if (!ratio || !scale || !IsOne(*ratio, slack) || !std::isfinite(*scale)) continue;
    Graph& g = ctx.graph();
    const std::vector<int64_t> axes(squares->axes.begin(), squares->axes.end());
    const NodeEntry v(g.AddNode(kMoments, {squares->x, g.AddConstant(Tensor::Ints(axes))}), 1);
    const DType wide = AccumulatorOf(t);
    NodeEntry y = v;
    if (!IsOne(*scale, wide == DType::kF64 ? 0 : 0x1p-23))
      y = NodeEntry(g.AddNode("Mul", {y, g.AddConstant(Tensor::Scalar(wide, *scale))}));
    return {ReshapeTo(g, CastFrom(ctx, y, wide, ctx.dtype(out)), ctx.shape(out).dims())};
  }
  return {};
}
WEFT_REGISTER_REWRITE_RULE("written-variance")
    .group("variance")
    .root("Add", "Sub")
    .describe("differences of moments made weft::Moments")
    .apply(WrittenVariance);

/// weft::Moments of x over those axes, where there is one.
NodePtr MomentsOf(RewriteContext& ctx, const NodeEntry& x, const std::vector<int>& axes) {
  for (const Use& u : x.node->uses()) {
    const NodePtr m(u.user);
    if (!u.control && IsOp(m, kMoments) && m->inputs[0] == x &&
        AxesOf(ctx, m, ctx.shape(x).rank()) == axes)
      return m;
  }
  return {};
}

std::vector<NodeEntry> MeanOfMoments(RewriteContext& ctx, const NodePtr& n) {
  const NodeEntry out(n);
  if (!IsFloat(ctx.dtype(out)) || !ctx.shape(out).fully_known()) return {};
  const std::optional<Sum> s = SumIn(ctx, out, false);
  const NodePtr m = s ? MomentsOf(ctx, s->x, s->axes) : NodePtr();
  if (!m) return {};
  const DType t = ctx.dtype(s->x);
  const auto is_mean = ValueOf(s->factor, s->n, s->power + 1);
  if (!is_mean || !IsOne(*is_mean, s->slack)) return {};
  const NodeEntry mean = CastFrom(ctx, NodeEntry(m, 0), AccumulatorOf(t), ctx.dtype(out));
  return {ReshapeTo(ctx.graph(), mean, ctx.shape(out).dims())};
}
WEFT_REGISTER_REWRITE_RULE("mean-of-moments")
    .group("variance")
    .root("ReduceMean", "GlobalAveragePool", "Div", "Mul")
    .describe("means that weft::Moments gives as well")
    .apply(MeanOfMoments);

/// The weft::Moments whose output `index` `e` is, through views and casts.
NodePtr MomentsBehind(RewriteContext& ctx, const NodeEntry& e, uint32_t index) {
  Around around;
  const NodeEntry inner = Inside(ctx, e, &around);
  const bool plain = around.factor == 1 && around.divisors.empty();
  return plain && inner.node && IsOp(inner.node, kMoments) && inner.index == index ? inner.node
                                                                                   : NodePtr();
}

std::vector<NodeEntry> CenteredTwice(RewriteContext& ctx, const NodePtr& n) {
  const NodeEntry x = n->inputs[0], mean = n->inputs[1], out(n);
  const NodePtr m = MomentsBehind(ctx, mean, 0);
  if (!m || m->inputs[0] != x || !ctx.shape(mean).fully_known()) return {};
  for (const Use& u : n->uses())
    if (!u.control && IsOp(u.user, "Sub") && MomentsBehind(ctx, u.user->inputs[1], 2) == m)
      return {};
  Graph& g = ctx.graph();
  const DType wide = AccumulatorOf(ctx.dtype(x));
  const auto part = [&](uint32_t k) {
    return ReshapeTo(g, NodeEntry(m, k), ctx.shape(mean).dims());
  };
  const NodeEntry from = CastFrom(ctx, x, ctx.dtype(x), wide);
  const NodeEntry centered(g.AddNode("Sub", {from, part(0)}));
  const NodeEntry y = AddOp(ctx, "Sub", {centered, part(2)});
  return {CastFrom(ctx, y, wide, ctx.dtype(out))};
}
WEFT_REGISTER_REWRITE_RULE("centered-twice")
    .group("variance")
    .root("Sub")
    .describe("differences to a mean that take both its parts")
    .apply(CenteredTwice);

}  // namespace
}  // namespace weft::simplify
