/// pool_util.cc: windows of pooling, read from both sides.
#include "pool_util.h"

#include <algorithm>
#include <limits>

#include "weft/support/checked.h"

namespace weft::ops {

WEFT_REGISTER_OP_PARAM(PoolParam);

namespace {

/// The least value of a dtype: what padding counts as in a maximum.
Expr Lowest(DType t) {
  if (IsFloat(t)) return Expr::Const(t, -std::numeric_limits<double>::infinity());
  return Expr::ConstInt(t, t == DType::kI8 ? INT8_MIN : 0);
}

}  // namespace

WindowAttrs WindowOf(const PoolParam& p) {
  return {p.auto_pad, p.strides, p.dilations, p.pads, p.ceil_mode != 0};
}
Window PoolWindow(const NodePtr& n, const Shape& x, const Facts* facts) {
  const auto& p = ParamOf<PoolParam>(n);
  return PoolingWindow(n, WindowOf(p), p.kernel_shape, x, facts);
}

void PoolShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<PoolParam>(ctx.node());
  const Shape y = PooledShape(ctx, WindowOf(p), p.kernel_shape);
  for (int k = 0; k < ctx.num_outputs(); ++k) ctx.set_out(k, y);
}
SymInt WindowFlops(const NodePtr& n, const std::vector<Shape>&, const std::vector<Shape>& out) {
  return out.at(0).num_elements() * CheckedProduct(ParamOf<PoolParam>(n).kernel_shape);
}

Expr PooledElement(const TensorArg& x, const Window& w, const Indices& y, const Indices& k) {
  const DType acc = AccumulatorOf(x.dtype);
  const auto [i, inside] = WindowRead(w, Tail(y, 2), k);
  return ReadWhere(inside, Expr::Cast(acc, x(At(y[0], y[1], i))), Lowest(acc));
}

Expr PooledMax(const TensorArg& x, const Window& w, const Indices& y) {
  return Expr::Reduce(ReduceOp::kMax, w.kernel,
                      [&](const Indices& k) { return PooledElement(x, w, y, k); });
}

Expr PooledWinner(const TensorArg& x, const Window& w, const Indices& y) {
  const Expr first = Expr::Reduce(ReduceOp::kArgMax, w.kernel,
                                  [&](const Indices& k) { return PooledElement(x, w, y, k); });
  if (std::all_of(w.begin.begin(), w.begin.end(), [](SymInt b) { return b.is(0); })) return first;
  // The least value ties with the padding before it; the first offset behind that padding does not.
  Indices inside;
  for (int d = 0; d < w.rank(); ++d) {
    const size_t s = size_t(d);
    const Expr before = Expr::Dim(w.begin[s]) - y[s + 2] * Expr::Int(w.strides[s]);
    const Expr dilation = Expr::Int(w.dilations[s]);
    const Expr k = FloorDivExpr(before + dilation - Expr::Int(1), dilation);
    inside.push_back(Min(Max(k, Expr::Int(0)), Expr::Dim(w.kernel[s] - 1)));
  }
  return Expr::Select(Eq(PooledMax(x, w, y), Lowest(AccumulatorOf(x.dtype))),
                      Linearize(inside, w.kernel), first);
}

namespace {

/// Some window may lie in padding alone, before the input, behind it, or with the input between
/// two of its elements.
bool MayMiss(const Window& w) {
  for (int d = 0; d < w.rank(); ++d) {
    const size_t s = size_t(d);
    if (w.begin[s].is(0) && w.end[s].is(0)) continue;
    const SymInt reach = w.reach(s);
    const auto is_less = [](SymInt a, SymInt b) {
      const SymInt gap = b - a;
      return gap.known() && gap.is_const() && gap.value() > 0;
    };
    // What auto_pad adds is less than the reach by its definition, whatever the extents.
    const bool same = w.room.empty();
    if (!same && !(is_less(w.begin[s], reach) && is_less(w.end[s], reach))) return true;
    if (w.dilations[s] > 1 && !is_less(w.dilations[s] - 1, w.in[s])) return true;
  }
  return false;
}

}  // namespace

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
  // The mean of nothing is 0, as in ONNX Runtime: one padded corner makes no NaN.
  if (!padding && MayMiss(w)) count = Max(count, Expr::Int(1));
  return Expr::Cast(t, count);
}

void FirstFloat(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kFloats);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}

bool AreDisjoint(const Window& w) {
  for (int d = 0; d < w.rank(); ++d) {
    const SymInt kernel = w.kernel[size_t(d)];
    if (kernel.is(1)) continue;
    if (!kernel.is_const() || w.dilations[size_t(d)] != 1 || kernel.value() > w.strides[size_t(d)])
      return false;
  }
  return true;
}

WindowSlot SlotOf(const Window& w, const Indices& i) {
  WindowSlot slot{{}, {}, Expr::Bool(true)};
  for (int d = 0; d < w.rank(); ++d) {
    const size_t s = size_t(d);
    const Expr stride = Expr::Int(w.strides[s]);
    const Expr at = w.begin[s].is(0) ? i[s] : i[s] + Expr::Dim(w.begin[s]);
    const Expr o = FloorDivExpr(at, stride), k = FloorModExpr(at, stride);
    if (!w.kernel[s].is(w.strides[s]))
      slot.inside = And(slot.inside, Lt(k, Expr::Dim(w.kernel[s])));
    // Where windows end before the input does, the rest is in none.
    const SymInt covered = w.out[s] * w.strides[s] - w.in[s] - w.begin[s];
    if (!covered.is_const() || covered.value() < 0)
      slot.inside = And(slot.inside, Lt(o, Expr::Dim(w.out[s])));
    slot.o.push_back(o);
    slot.k.push_back(k);
  }
  return slot;
}

}  // namespace weft::ops
