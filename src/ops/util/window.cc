/// window.cc: checks and index expressions of sliding windows (window.h).
#include "window.h"

#include "weft/support/check.h"

namespace weft::ops {

std::vector<SymInt> Tail(const Shape& s, int from) {
  return std::vector<SymInt>(s.dims().begin() + from, s.dims().end());
}

namespace {

void CheckAttrs(const NodePtr& n, WindowAttrs* attrs, size_t axes, size_t rank) {
  WEFT_CHECK(axes == rank, kShapeMismatch, "{}: a kernel of rank {} on {} spatial axes",
             n->Describe(), rank, axes);
  if (const auto fault = CompleteWindowAttrs(attrs, rank))
    WEFT_THROW(kBadAttribute, "{}: {}", n->Describe(), *fault);
}

}  // namespace

Window MakeWindow(const NodePtr& n, WindowAttrs attrs, const std::vector<SymInt>& in,
                  const std::vector<SymInt>& kernel, const Facts* facts) {
  CheckAttrs(n, &attrs, in.size(), kernel.size());
  Window w = ResolveWindow(attrs, in, kernel, facts);
  for (size_t k = 0; k < w.room.size(); ++k)
    WEFT_CHECK(!w.room[k].known() || !w.room[k].is_const() || w.room[k].value() >= 0,
               kShapeMismatch, "{}: a window of {} does not fit dimension {} with pads {} and {}",
               n->Describe(), w.reach(k).ToString(), in[k].ToString(), w.begin[k].ToString(),
               w.end[k].ToString());
  return w;
}

Window MakeTransposedWindow(const NodePtr& n, WindowAttrs attrs, const std::vector<SymInt>& x,
                            const std::vector<SymInt>& kernel, const Facts* facts) {
  CheckAttrs(n, &attrs, x.size(), kernel.size());
  return ResolveTransposedWindow(attrs, x, kernel, facts);
}

void DemandFit(const NodePtr& n, const Window& w, Facts* facts) {
  for (SymInt room : w.room) {
    if (!room.known() || room.is_const()) continue;
    try {
      facts->SetRange(room, {0, INT64_MAX});
    } catch (Error& e) {
      e.AddPlace(n->Describe());
      throw;
    }
  }
}

Window PoolingWindow(const NodePtr& n, const WindowAttrs& attrs,
                     const std::vector<int64_t>& kernel_shape, const Shape& x, const Facts* facts) {
  // Every output walks its window, and a kernel that has begun cannot be stopped.
  constexpr int64_t kMaxWindow = int64_t{1} << 22;
  std::vector<SymInt> kernel;
  int64_t positions = 1;
  for (int64_t k : kernel_shape) {
    WEFT_CHECK(k > 0, kBadAttribute, "{}: kernel_shape must be positive, got {}", n->Describe(), k);
    positions = k > kMaxWindow ? kMaxWindow + 1 : positions * k;
    WEFT_CHECK(positions <= kMaxWindow, kLimit, "{}: a window of more than {} positions",
               n->Describe(), kMaxWindow);
    kernel.push_back(k);
  }
  return MakeWindow(n, attrs, Tail(x, 2), kernel, facts);
}

Shape PooledShape(InferShapeContext& ctx, const WindowAttrs& attrs,
                  const std::vector<int64_t>& kernel_shape) {
  const int rank = int(kernel_shape.size()) + 2;
  const Shape x = CheckRank(ctx, 0, rank, "x") ? ctx.in(0) : Shape::OfRank(rank);
  const Window w = PoolingWindow(ctx.node(), attrs, kernel_shape, x, &ctx.facts());
  DemandFit(ctx.node(), w, &ctx.facts());
  std::vector<SymInt> dims{x[0], x[1]};
  dims.insert(dims.end(), w.out.begin(), w.out.end());
  return Shape(std::move(dims));
}

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

std::pair<Indices, Expr> WindowRead(const Window& w, const Indices& o, const Indices& k) {
  Indices at;
  Expr inside = Expr::Bool(true);
  for (int d = 0; d < w.rank(); ++d) {
    const size_t s = size_t(d);
    const Expr i =
        o[s] * Expr::Int(w.strides[s]) + k[s] * Expr::Int(w.dilations[s]) - Expr::Dim(w.begin[s]);
    // Without padding every window of floor mode lies inside.
    const bool bounded = w.begin[s].is(0) && w.end[s].is(0) &&
                         w.out[s] == FloorDiv(w.in[s] - w.reach(s), w.strides[s]) + 1;
    if (!bounded) inside = And(inside, InRange(i, Expr::Dim(w.in[s])));
    at.push_back(i);
  }
  return {at, inside};
}

std::pair<Indices, Expr> WindowScatter(const Window& w, const Indices& i, const Indices& k) {
  Indices at;
  Expr hit = Expr::Bool(true);
  for (int d = 0; d < w.rank(); ++d) {
    const size_t s = size_t(d);
    const Expr offset = i[s] + Expr::Dim(w.begin[s]) - k[s] * Expr::Int(w.dilations[s]);
    const Expr stride = Expr::Int(w.strides[s]);
    const Expr o = FloorDivExpr(offset, stride);
    if (w.strides[s] != 1) hit = And(hit, Eq(FloorModExpr(offset, stride), Expr::Int(0)));
    hit = And(hit, InRange(o, Expr::Dim(w.out[s])));
    at.push_back(o);
  }
  return {at, hit};
}

/// Every stride-th offset along axis s reads a position.
static bool SkipsOffsets(const Window& w, size_t s) {
  return w.strides[s] > 1 && w.dilations[s] == 1;
}

std::vector<SymInt> WindowTaps(const Window& w) {
  std::vector<SymInt> taps = w.kernel;
  for (size_t s = 0; s < taps.size(); ++s)
    if (SkipsOffsets(w, s)) taps[s] = CeilDiv(taps[s], w.strides[s]);
  return taps;
}

WindowHit WindowTap(const Window& w, const Indices& i, const Indices& t) {
  WindowHit h{{}, {}, Expr::Bool(true)};
  for (size_t s = 0; s < t.size(); ++s) {
    const Expr at = i[s] + Expr::Dim(w.begin[s]), stride = Expr::Int(w.strides[s]);
    Expr k = t[s], o;
    if (SkipsOffsets(w, s)) {
      k = FloorModExpr(at, stride) + t[s] * stride;
      o = FloorDivExpr(at, stride) - t[s];
      h.hit = And(h.hit, Lt(k, Expr::Dim(w.kernel[s])));
    } else {
      const Expr begin = at - k * Expr::Int(w.dilations[s]);
      o = FloorDivExpr(begin, stride);
      if (w.strides[s] != 1) h.hit = And(h.hit, Eq(FloorModExpr(begin, stride), Expr::Int(0)));
    }
    h.hit = And(h.hit, InRange(o, Expr::Dim(w.out[s])));
    h.k.push_back(k);
    h.o.push_back(o);
  }
  return h;
}

ConvOperands ConvOperandsOf(InferShapeContext& ctx, const std::vector<int64_t>& kernel_shape,
                            int filters) {
  const NodePtr& n = ctx.node();
  const Shape &x = ctx.in(0), &w = ctx.in(filters);
  const int rank = x.has_rank()           ? x.rank()
                   : w.has_rank()         ? w.rank()
                   : kernel_shape.empty() ? 0
                                          : int(kernel_shape.size()) + 2;
  if (rank == 0 && !x.has_rank() && !w.has_rank()) {
    Unknown(ctx, 0, "the ranks of X and W are unknown");
    return {};
  }
  WEFT_CHECK(rank >= 3, kShapeMismatch, "{}: X must have rank 3 or more, got {}", n->Describe(),
             rank);
  if (x.has_rank() && w.has_rank()) CheckRank(ctx, filters, rank, "W");
  ConvOperands o{
      rank, x.has_rank() ? x : Shape::OfRank(rank), w.has_rank() ? w : Shape::OfRank(rank), {}};
  WEFT_CHECK(kernel_shape.empty() || int(kernel_shape.size()) == rank - 2, kBadAttribute,
             "{}: kernel_shape of length {}", n->Describe(), kernel_shape.size());
  o.kernel = Tail(o.w, 2);
  for (size_t k = 0; k < kernel_shape.size(); ++k)
    o.kernel[k] = UnifyDims(ctx, o.kernel[k], kernel_shape[k], "kernel_shape and W");
  return o;
}

}  // namespace weft::ops
