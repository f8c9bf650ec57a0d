/// convolution.cc: see convolution.h.
#include "convolution.h"

#include "demand.h"

namespace weft::ops {

WEFT_REGISTER_OP_PARAM(ConvParam);

Window ConvWindow(const NodePtr& n, const Shape& x, const Shape& w, const Facts* facts) {
  return MakeWindow(n, WindowAttrsOf(n), Tail(x, 2), Tail(w, 2), facts);
}

Shape ConvolutionShape(InferShapeContext& ctx, int w, int bias) {
  const NodePtr& n = ctx.node();
  const auto [rank, xs, ws, kernel] = ConvOperandsOf(ctx, n->attr<Ints>("kernel_shape"), w);
  if (rank == 0) return {};
  UnifyDims(ctx, xs[1], ws[1] * n->attr<int64_t>("group"),
            "the channels of x and group times those of W");
  DemandMultiple(ctx, ws[0], n->attr<int64_t>("group"), "filters by groups");
  if (bias >= 0 && HasInput(ctx, bias) && CheckRank(ctx, bias, 1, "B"))
    UnifyDims(ctx, ctx.in(bias)[0], ws[0], "the bias and the filters");
  std::vector<SymInt> dims{xs[0], ws[0]};
  const Window window = MakeWindow(n, WindowAttrsOf(n), Tail(xs, 2), kernel, &ctx.facts());
  DemandFit(n, window, &ctx.facts());
  for (SymInt d : window.out) dims.push_back(d);
  ctx.set_out(0, Shape(std::move(dims)));
  return Shape({ws[0]});
}

Expr ConvolutionSum(const NodePtr& n, const Shape& x, const Shape& w, const Indices& at,
                    const std::function<Expr(const Indices&, const Indices&)>& product) {
  const Window win = ConvWindow(n, x, w, nullptr);
  const int64_t group = n->attr<int64_t>("group");
  const SymInt per_group = w[1];
  const Expr filter = at[1];
  const Expr first =
      group == 1 ? Expr::Int(0)
                 : FloorDivExpr(filter, Expr::Dim(ExactDiv(w[0], group))) * Expr::Dim(per_group);
  std::vector<SymInt> extents{per_group};
  extents.insert(extents.end(), win.kernel.begin(), win.kernel.end());
  return SumOver(extents, [&](const Indices& r) {
    const Indices k = Tail(r, 1);
    const auto [from, inside] = WindowRead(win, Tail(at, 2), k);
    return ReadInside(inside, product(At(at[0], first + r[0], from), At(filter, r[0], k)));
  });
}

}  // namespace weft::ops
