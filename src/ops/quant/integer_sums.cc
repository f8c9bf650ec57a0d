/// integer_sums.cc: see integer_sums.h.
#include "integer_sums.h"

#include <algorithm>

#include "weft/core/tensor/demand.h"
#include "weft/support/check.h"

namespace weft::ops {

void CheckPerFilter(InferShapeContext& ctx, int i, const Shape& rows, const char* what) {
  if (!HasInput(ctx, i) || !ctx.in(i).has_rank()) return;
  const Shape& s = ctx.in(i);
  WEFT_CHECK(s.rank() <= 1, kShapeMismatch, "{}: {} has shape {}, expected {}",
             ctx.node()->Describe(), what, s.ToString(),
             rows.has_rank() ? "one number, or one a filter" : "one number");
  if (s.rank() == 0 || s[0].is(1)) return;
  if (rows.has_rank())
    UnifyDims(ctx, s[0], rows[0], "the filters or columns and their scales, zeros or offsets");
  else
    UnifyDims(ctx, s[0], 1, "the number of scales, zeros or offsets and 1");
}

void CheckZeroType(InferTypeContext& ctx, int operand, int zero) {
  const bool given = zero < ctx.num_inputs() && ctx.has_input(zero);
  const Type t = ctx.in(operand), z = given ? ctx.in(zero) : Type();
  WEFT_CHECK(!t.known() || !z.known() || t == z, kTypeMismatch,
             "{}: input {} is {} and its zero point {}", ctx.node()->Describe(), operand,
             t.ToString(), z.ToString());
}

Expr PerFilter(const std::vector<TensorArg>& in, size_t i, const Expr& filter, DType t) {
  if (!HasInput(in, i)) return {};
  Indices at;
  if (in[i].rank() == 1) at = {in[i].shape[0].is(1) ? Expr::Int(0) : filter};
  return Expr::Cast(t, in[i](at));
}

Expr IntegerConvolution(const NodePtr& n, const TensorArg& x, const TensorArg& w,
                        const Expr& x_zero, const Expr& w_zero, const Indices& at) {
  const auto centred = [](const TensorArg& t, const Indices& i, const Expr& zero) {
    const Expr v = Expr::Cast(DType::kI32, t(i));
    return zero ? v - zero : v;
  };
  return ConvolutionSum(n, x.shape, w.shape, at, [&](const Indices& xi, const Indices& wi) {
    return centred(x, xi, x_zero) * centred(w, wi, w_zero);
  });
}

Shape IntegerProductShape(InferShapeContext& ctx, const Shape& a, const Shape& b) {
  const auto batch = [](const Shape& s) {
    return Shape(std::vector<SymInt>(s.dims().begin(), s.dims().end() - std::min(s.rank(), 2)));
  };
  WEFT_CHECK(a.rank() > 0 && b.rank() > 0, kShapeMismatch, "{}: a scalar operand",
             ctx.node()->Describe());
  UnifyDims(ctx, a[a.rank() - 1], b.rank() == 1 ? b[0] : b[b.rank() - 2], "the inner dimensions");
  std::vector<SymInt> dims = BroadcastDemanded(batch(a), batch(b), &ctx.facts()).dims();
  if (a.rank() > 1) dims.push_back(a[a.rank() - 2]);
  if (b.rank() > 1) dims.push_back(b[b.rank() - 1]);
  return Shape(std::move(dims));
}

void CheckPerRow(InferShapeContext& ctx, int i, const Shape& operand, SymInt own, bool row) {
  if (!HasInput(ctx, i) || !ctx.in(i).has_rank() || ctx.in(i).rank() == 0) return;
  const Shape& s = ctx.in(i);
  if (s.rank() == 1) {
    if (!s[0].is(1) && own.known())
      UnifyDims(ctx, own, s[0], "the rows or columns and their zeros");
    return;
  }
  WEFT_CHECK(s.rank() == operand.rank(), kShapeMismatch, "{}: input {} has shape {} for {}",
             ctx.node()->Describe(), i, s.ToString(), operand.ToString());
  for (int d = 0; d < s.rank() - 2; ++d)
    UnifyDims(ctx, operand[d], s[d], "the batch and that of the zeros");
  const int kept = row ? s.rank() - 2 : s.rank() - 1, summed = row ? s.rank() - 1 : s.rank() - 2;
  if (!s[kept].is(1)) UnifyDims(ctx, operand[kept], s[kept], "the rows or columns and their zeros");
  UnifyDims(ctx, s[summed], 1, "the summed axis of the zeros and 1");
}
SymInt RowsOf(const Shape& a) { return a.rank() > 1 ? a[a.rank() - 2] : SymInt(1); }
SymInt ColumnsOf(const Shape& b) { return b.rank() > 1 ? b[b.rank() - 1] : SymInt(1); }

Expr IntegerProduct(const TensorArg& a, const TensorArg& b, const TensorArg* a_zero,
                    const TensorArg* b_zero, const Indices& at) {
  const size_t tail = size_t(a.rank() > 1) + size_t(b.rank() > 1);
  const Indices batch(at.begin(), at.end() - long(tail));
  const Expr row = a.rank() > 1 ? at[batch.size()] : Expr();
  const Expr column = b.rank() > 1 ? at.back() : Expr();
  const auto lead = [&](const TensorArg& x) {
    Indices from;
    const int own = std::max(x.rank() - 2, 0);
    for (int i = 0; i < own; ++i)
      from.push_back(x.shape[i].is(1) ? Expr::Int(0) : batch[batch.size() - size_t(own - i)]);
    return from;
  };
  // A zero for all, or one a row of a / one a column of b.
  const auto zero_at = [](const TensorArg* z, const Expr& own, const Indices& batch_at) {
    if (!z || !z->present) return Expr::ConstInt(DType::kI32, 0);
    Indices from;
    if (z->rank() == 1) from = {z->shape[0].is(1) || !own ? Expr::Int(0) : own};
    if (z->rank() > 1) {
      from = batch_at;
      for (int i = int(from.size()); i < z->rank(); ++i)
        from.push_back(z->shape[i].is(1) || !own ? Expr::Int(0) : own);
    }
    return Expr::Cast(DType::kI32, (*z)(from));
  };
  const Expr za = zero_at(a_zero, row, lead(a)), zb = zero_at(b_zero, column, lead(b));
  return SumOver({a.shape[a.rank() - 1]}, [&](const Indices& k) {
    Indices ia = lead(a), ib = lead(b);
    if (row) ia.push_back(row);
    ia.push_back(k[0]);
    ib.push_back(k[0]);
    if (column) ib.push_back(column);
    return (Expr::Cast(DType::kI32, a(ia)) - za) * (Expr::Cast(DType::kI32, b(ib)) - zb);
  });
}

SymInt IntegerConvolutionFlops(const Shape& y, const Shape& w) {
  return w.has_rank() && w.rank() > 0 ? y.num_elements() * Product(Tail(w, 1)) * 2 : SymInt();
}

SymInt IntegerProductFlops(const Shape& y, const Shape& b) {
  if (!b.has_rank() || b.rank() == 0) return SymInt();
  return y.num_elements() * b[std::max(b.rank() - 2, 0)] * 2;
}

}  // namespace weft::ops
