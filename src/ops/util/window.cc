/// window.cc: output extents and index expressions of sliding windows (window.h).
#include "window.h"

#include "weft/support/check.h"

namespace weft::ops {

std::vector<SymInt> Tail(const Shape& s, int from) {
  return std::vector<SymInt>(s.dims().begin() + from, s.dims().end());
}

namespace {

SymInt AtLeast0(SymInt e, const Facts* facts) {
  if (!e.known()) return e;
  return facts ? MaxOf(e, 0, *facts) : Max(e, 0);
}

void CheckPositive(const NodePtr& n, std::vector<int64_t>* values, size_t rank, const char* what) {
  if (values->empty()) values->assign(rank, 1);
  WEFT_CHECK(values->size() == rank, kBadAttribute, "{}: {} {} for {} spatial axes", n->Describe(),
             values->size(), what, rank);
  for (int64_t v : *values)
    WEFT_CHECK(v > 0, kBadAttribute, "{}: {} must be positive, got {}", n->Describe(), what, v);
}

}  // namespace

bool HasSamePadding(const NodePtr& n, const std::string& auto_pad) {
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  WEFT_CHECK(same || auto_pad.empty() || auto_pad == "NOTSET" || auto_pad == "VALID", kBadAttribute,
             "{}: auto_pad '{}'", n->Describe(), auto_pad);
  return same;
}

std::pair<SymInt, SymInt> SplitPadding(SymInt total, const std::string& auto_pad) {
  const SymInt small = FloorDiv(total, 2), large = total - small;
  return auto_pad == "SAME_UPPER" ? std::pair(small, large) : std::pair(large, small);
}

Window MakeWindow(const NodePtr& n, const WindowAttrs& attrs, const std::vector<SymInt>& in,
                  const std::vector<SymInt>& kernel, const Facts* facts) {
  Window w;
  w.in = in;
  w.kernel = kernel;
  w.strides = attrs.strides;
  w.dilations = attrs.dilations;
  const size_t rank = kernel.size();
  WEFT_CHECK(in.size() == rank, kShapeMismatch, "{}: a kernel of rank {} on {} spatial axes",
             n->Describe(), rank, in.size());
  CheckPositive(n, &w.strides, rank, "strides");
  CheckPositive(n, &w.dilations, rank, "dilations");
  const bool same = HasSamePadding(n, attrs.auto_pad);
  std::vector<int64_t> pads = attrs.pads;
  if (attrs.auto_pad == "VALID" || pads.empty()) pads.assign(2 * rank, 0);
  WEFT_CHECK(pads.size() == 2 * rank, kBadAttribute, "{}: {} pads for {} spatial axes",
             n->Describe(), pads.size(), rank);
  for (size_t k = 0; k < rank; ++k) {
    const SymInt reach = (kernel[k] - 1) * w.dilations[k] + 1, stride = w.strides[k];
    if (same) {
      const SymInt out = CeilDiv(in[k], stride);
      const SymInt total = AtLeast0((out - 1) * stride + reach - in[k], facts);
      const auto [begin, end] = SplitPadding(total, attrs.auto_pad);
      w.begin.push_back(begin);
      w.end.push_back(end);
      w.out.push_back(out);
      continue;
    }
    WEFT_CHECK(pads[k] >= 0 && pads[k + rank] >= 0, kBadAttribute, "{}: negative pads",
               n->Describe());
    w.begin.push_back(pads[k]);
    w.end.push_back(pads[k + rank]);
    const SymInt room = in[k] + pads[k] + pads[k + rank] - reach;
    SymInt out = FloorDiv(room, stride) + 1;
    if (attrs.ceil_mode) {
      const SymInt up = CeilDiv(room, stride) + 1, limit = CeilDiv(in[k] + pads[k], stride);
      out = !up.known() ? SymInt() : facts ? MinOf(up, limit, *facts) : Min(up, limit);
    }
    w.room.push_back(attrs.ceil_mode ? room + stride - 1 : room);
    WEFT_CHECK(!room.known() || !room.is_const() || w.room[k].value() >= 0, kShapeMismatch,
               "{}: a window of {} does not fit dimension {} with pads {} and {}", n->Describe(),
               reach.ToString(), in[k].ToString(), pads[k], pads[k + rank]);
    w.out.push_back(out);
  }
  return w;
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
    const bool bounded =
        w.begin[s].is(0) && w.end[s].is(0) &&
        w.out[s] == FloorDiv(w.in[s] - ((w.kernel[s] - 1) * w.dilations[s] + 1), w.strides[s]) + 1;
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

}  // namespace weft::ops
