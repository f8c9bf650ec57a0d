/// det.cc: Det, determinants by elimination, on the host.
/// Source: ONNX Det-22.
#include <algorithm>
#include <cmath>

#include "ops/util/host_util.h"
#include "weft/support/request.h"

namespace weft::ops {
namespace {

void DetShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  WEFT_CHECK(x.rank() >= 2, kShapeMismatch, "{}: x has shape {}, expected matrices",
             ctx.node()->Describe(), x.ToString());
  UnifyDims(ctx, x[x.rank() - 2], x[x.rank() - 1], "the sides of the matrices");
  ctx.set_out(0, Shape(std::vector<SymInt>(x.dims().begin(), x.dims().end() - 2)));
}
/// Elimination with the largest pivot of each column.
double Determinant(std::vector<double> a, int64_t n) {
  double det = 1;
  for (int64_t c = 0; c < n; ++c) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < n; ++r)
      if (std::fabs(a[size_t(r * n + c)]) > std::fabs(a[size_t(pivot * n + c)])) pivot = r;
    if (a[size_t(pivot * n + c)] == 0) return 0;
    if (pivot != c) {
      std::swap_ranges(a.begin() + c * n, a.begin() + (c + 1) * n, a.begin() + pivot * n);
      det = -det;
    }
    const double p = a[size_t(c * n + c)];
    det *= p;
    for (int64_t r = c + 1; r < n; ++r) {
      const double f = a[size_t(r * n + c)] / p;
      for (int64_t k = c; k < n; ++k) a[size_t(r * n + k)] -= f * a[size_t(c * n + k)];
    }
  }
  return det;
}
Tensors DetHost(const NodePtr&, const Tensors& in) {
  const Tensor& x = *in[0];
  const int64_t n = x.dims().back();
  auto y = NewTensor(x.dtype(), Dims(x.dims().begin(), x.dims().end() - 2));
  for (int64_t m = 0; m < y->num_elements(); ++m) {
    RequestScope::Poll();
    std::vector<double> a(static_cast<size_t>(n * n));
    for (int64_t i = 0; i < n * n; ++i) a[size_t(i)] = x.at(m * n * n + i);
    y->set(m, Determinant(std::move(a), n));
  }
  return {y};
}

/// dx = dy times the cofactors, themselves determinants of what is left without a row and a column:
/// defined for singular matrices too, and differentiable again. n^2 determinants of n - 1.
std::vector<NodeEntry> DetGrad(const NodePtr& node, const std::vector<NodeEntry>& dys) {
  if (!dys[0]) return {NodeEntry()};
  const NodeEntry x = node->inputs[0], dy = dys[0];
  const auto number = [&](int64_t v) { return ScalarLike(x, DType::kI64, double(v)); };
  const auto ints = [&](const std::vector<int64_t>& v) { return IntsLike(x, v); };
  const NodeEntry side = ApplyOp("Shape", {x}, {{"start", -1}});
  const NodeEntry n = ApplyOp("Squeeze", {side, ints({0})});
  const NodeEntry count = ApplyOp("Unsqueeze", {ApplyOp("Size", {dy}), ints({0})});
  const NodeEntry shape = ApplyOp("Concat", {count, side, side}, {{"axis", 0}});
  const NodeEntry matrices = ApplyOp("Reshape", {x, shape}, {{"allowzero", 1}});
  // others[i] = all numbers below n but i.
  const NodeEntry row = ApplyOp("Range", {number(0), n, number(1)});
  const NodeEntry column = ApplyOp("Unsqueeze", {row, ints({1})});
  const NodeEntry fewer = ApplyOp("Range", {number(0), n - number(1), number(1)});
  const NodeEntry skips =
      ApplyOp("Cast", {ApplyOp("GreaterOrEqual", {fewer, column})}, {{"to", DType::kI64}});
  const NodeEntry others = fewer + skips;
  const NodeEntry rows = ApplyOp("Gather", {matrices, others}, {{"axis", 1}});
  const NodeEntry both = ApplyOp("Gather", {rows, others}, {{"axis", 3}});
  const NodeEntry minors =
      ApplyOp("Det", {ApplyOp("Transpose", {both}, {{"perm", Ints{0, 1, 3, 2, 4}}})});
  const NodeEntry odd = ApplyOp("Mod", {row + column, number(2)});
  const NodeEntry sign = ApplyOp("CastLike", {number(1) - odd - odd, dy});
  const NodeEntry flat = ApplyOp("Reshape", {dy, count}, {{"allowzero", 1}});
  const NodeEntry seeds = ApplyOp("Unsqueeze", {flat, ints({1, 2})});
  return {ReshapeLike(minors * sign * seeds, x)};
}

}  // namespace

WEFT_REGISTER_OP(Det)
    .describe(
        "The determinant of each matrix in the last two axes. Gradient: the cofactors, of singular "
        "matrices too.\nSource: ONNX Det-22.")
    .input("X", TypeDoc(kFloats), "[..., n, n]")
    .output("Y", "T", "[...]")
    .param<NoParam>()
    .example({"f32[3, 3]"})
    .example({"f64[n, 2, 2]"})
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", DetShape)
    .set_attr<FHostEval>("FHostEval", DetHost)
    .set_attr<FGradient>("FGradient", DetGrad);

}  // namespace weft::ops
