/// inverse.cc: weft::Inverse, inverses of matrices by elimination, on the host. ONNX has none.
#include <algorithm>
#include <cmath>

#include "ops/util/host_util.h"
#include "weft/support/request.h"

namespace weft::ops {
namespace {

void InverseShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  WEFT_CHECK(x.rank() >= 2, kShapeMismatch, "{}: x has shape {}, expected matrices",
             ctx.node()->Describe(), x.ToString());
  UnifyDims(ctx, x[x.rank() - 2], x[x.rank() - 1], "the sides of the matrices");
  ctx.set_out(0, x);
}

/// Gauss and Jordan's elimination with the largest pivot of each column, on rows [a | y]. A matrix
/// that is singular divides by zero, and the result says so.
void Invert(std::vector<double>* rows, int64_t n) {
  const int64_t width = 2 * n;
  const auto row = [&](int64_t r) { return rows->begin() + r * width; };
  for (int64_t c = 0; c < n; ++c) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < n; ++r)
      if (std::fabs(row(r)[c]) > std::fabs(row(pivot)[c])) pivot = r;
    if (pivot != c) std::swap_ranges(row(c), row(c) + width, row(pivot));
    const double p = row(c)[c];
    for (int64_t k = 0; k < width; ++k) row(c)[k] /= p;
    for (int64_t r = 0; r < n; ++r) {
      const double f = row(r)[c];
      if (r == c || f == 0) continue;
      for (int64_t k = 0; k < width; ++k) row(r)[k] -= f * row(c)[k];
    }
  }
}

Tensors InverseHost(const NodePtr&, const Tensors& in) {
  const Tensor& x = *in[0];
  const int64_t n = x.dims().back();
  auto y = NewTensor(x.dtype(), x.dims());
  for (int64_t at = 0; at < y->num_elements(); at += n * n) {
    RequestScope::Poll();
    std::vector<double> rows(static_cast<size_t>(2 * n * n));
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < n; ++c) rows[size_t(r * 2 * n + c)] = x.at(at + r * n + c);
      rows[size_t(r * 2 * n + n + r)] = 1;
    }
    Invert(&rows, n);
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = 0; c < n; ++c) y->set(at + r * n + c, rows[size_t(r * 2 * n + n + c)]);
  }
  return {y};
}

/// dx = -y' dy y', of the matrices transposed.
std::vector<NodeEntry> InverseGrad(const NodePtr& node, const std::vector<NodeEntry>& dys) {
  if (!dys[0]) return {NodeEntry()};
  const NodeEntry rows = ApplyOp("Einsum", {NodeEntry(node)}, {{"equation", "...ij->...ji"}});
  return {ApplyOp("Neg", {ApplyOp("MatMul", {ApplyOp("MatMul", {rows, dys[0]}), rows})})};
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Inverse)
    .describe(
        "The inverse of each matrix in the last two axes; infinities and NaN where it has none. "
        "Gradient: -y' dy y' with y' the transposed inverse; retains y.\n"
        "Errors: not square (kShapeMismatch). Source: com.microsoft's Inverse.")
    .input("X", TypeDoc(kFloats), "[..., n, n]")
    .output("Y", "T", "the shape of X")
    .param<NoParam>()
    .example({"f32[3, 3]"})
    .example({"f64[n, 2, 2]"})
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", InverseShape)
    .set_attr<FHostEval>("FHostEval", InverseHost)
    .set_attr<FGradient>("FGradient", InverseGrad);

}  // namespace weft::ops
