/* ops_matrix.c: products of matrices. Transposed operands are views, which torch's BLAS reads. */
#include <ctype.h>
#include <string.h>

#include "ops.h"

/* x with the axes of perm attribute `name`, x itself where there is none. */
static int PermutedBy(Build* b, const char* name, int x) {
  int64_t perm[2 * kMaxRank];
  return IntsAttr(b, name, perm) == 0 ? x : Permuted(b, x, perm);
}

static int Transposed(Build* b, int x) {
  int64_t perm[kMaxRank];
  if (b->status != WEFT_OK) return 0;
  const int rank = TypeOf(b, x)->rank;
  for (int d = 0; d < rank; ++d) perm[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
  return Permuted(b, x, perm);
}

static WeftStatus BuildMatMul(Build* b, const void* how) {
  Type x, y;
  TRY(NeedIn(b, 0, kNumbers, &x));
  TRY(NeedIn(b, 1, kNumbers, &y));
  CHECKED(b);
  int left = In(b, 0), right = In(b, 1);
  if (how) left = PermutedBy(b, "a_perm", left), right = PermutedBy(b, "b_perm", right);
  BinaryTo(b, "aten::matmul", "out", left, right, Out(b, 0));
  return b->status;
}

static WeftStatus BuildGemm(Build* b, const void* how) {
  Type x, c, y;
  (void)how;
  TRY(NeedIn(b, 0, kSingles | kInts, &x));
  TRY(NeedOut(b, 0, kSingles | kInts, &y));
  const bool has_c = HasIn(b, 2);
  const double alpha = FloatAttr(b, "alpha", 1), beta = has_c ? FloatAttr(b, "beta", 1) : 0;
  if (has_c) TRY(NeedIn(b, 2, kSingles | kInts, &c));
  if (!IsFloat(y.dtype) && (alpha != 1 || (has_c && beta != 1)))
    return Refuse(b, "integers with a factor");
  CHECKED(b);
  const int left = IntAttr(b, "transA", 0) ? Transposed(b, In(b, 0)) : In(b, 0);
  const int right = IntAttr(b, "transB", 0) ? Transposed(b, In(b, 1)) : In(b, 1);
  const bool is_row = has_c && IsFloat(y.dtype) && NumElements(&c) == y.dims[1] &&
                      (c.rank == 1 || (c.rank == 2 && c.dims[0] == 1));
  if (alpha == 1 && beta == 1 && is_row) {
    Emit(b, "aten::linear", "out", "tt?t>-", left, Transposed(b, right),
         Reshaped(b, In(b, 2), 1, &y.dims[1]), Out(b, 0));
    return b->status;
  }
  if (beta == 0) {
    const int product = alpha == 1 ? Out(b, 0) : Scratch(b, y.dtype, 2, y.dims);
    BinaryTo(b, "aten::mm", "out", left, right, product);
    if (alpha != 1) BinaryTo(b, "aten::mul", "out", product, Number(b, y.dtype, alpha), Out(b, 0));
    return b->status;
  }
  const int product = Binary(b, "aten::mm", "out", left, right, &y);
  if (IsFloat(y.dtype))
    Give(b, 0, Subtract(b, Scale(b, product, alpha), In(b, 2), -beta, &y));
  else
    GiveSum(b, 0, product, In(b, 2), 1);
  return b->status;
}

/* dy b' or a' dy, summed over the axes that the operand was broadcast along. */
static WeftStatus BuildMatMulGrad(Build* b, const void* how) {
  Type dy, other, d;
  (void)how;
  TRY(NeedIn(b, 0, kSingles | kHalves, &dy));
  TRY(NeedIn(b, 1, kSingles | kHalves, &other));
  TRY(NeedOut(b, 0, kSingles | kHalves, &d));
  const bool right = IntAttr(b, "of", 0) != 0;
  if (dy.rank < 2 || other.rank < 2 || d.rank < 2) return Refuse(b, "a vector");
  CHECKED(b);
  int g = In(b, 0), with = In(b, 1);
  bool same = dy.rank == other.rank;
  for (int k = 0; same && k < dy.rank - 1; ++k) same = dy.dims[k] == other.dims[k];
  if (right && d.rank == 2 && dy.rank > 2 && same) { /* one product over all of the batch */
    const int64_t rows = dy.dims[dy.rank - 1] ? NumElements(&dy) / dy.dims[dy.rank - 1] : 0;
    const int64_t g_dims[2] = {rows, dy.dims[dy.rank - 1]};
    const int64_t with_dims[2] = {rows, other.dims[other.rank - 1]};
    if (g_dims[1] && with_dims[1]) {
      g = Reshaped(b, g, 2, g_dims), with = Reshaped(b, with, 2, with_dims);
      BinaryTo(b, "aten::mm", "out", Transposed(b, with), g, Out(b, 0));
      return b->status;
    }
  }
  Type product = {.dtype = d.dtype, .rank = dy.rank > other.rank ? dy.rank : other.rank};
  for (int k = 0; k < product.rank - 2; ++k) {
    const int i = k - (product.rank - dy.rank), j = k - (product.rank - other.rank);
    const int64_t m = i < 0 ? 1 : dy.dims[i], n = j < 0 ? 1 : other.dims[j];
    product.dims[k] = m == 1 ? n : m;
  }
  product.dims[product.rank - 2] = d.dims[d.rank - 2];
  product.dims[product.rank - 1] = d.dims[d.rank - 1];
  with = Transposed(b, with);
  const int to =
      SameDims(&product, &d) ? Out(b, 0) : Scratch(b, d.dtype, product.rank, product.dims);
  BinaryTo(b, "aten::matmul", "out", right ? with : g, right ? g : with, to);
  if (!SameDims(&product, &d)) SumToDims(b, to, Out(b, 0));
  return b->status;
}

/* softmax(scale Q K' + mask) V. */
static WeftStatus BuildAttention(Build* b, const void* how) {
  int64_t perm[2 * kMaxRank];
  Type q_type, y_type;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &q_type));
  TRY(NeedOut(b, 0, kSingles, &y_type));
  if (IntAttr(b, "safe", 0) != 0) return Refuse(b, "rows without a soft-max that are to be 0");
  if (q_type.rank < 2) return Refuse(b, "rank %d", (int)q_type.rank);
  CHECKED(b);
  const int q = Scale(b, PermutedBy(b, "q_perm", In(b, 0)), FloatAttr(b, "scale", 1));
  const int k = PermutedBy(b, "k_perm", In(b, 1)), v = PermutedBy(b, "v_perm", In(b, 2));
  if (b->status != WEFT_OK) return b->status;
  const int num_perm = IntsAttr(b, "y_perm", perm), rank = y_type.rank;
  Type result = y_type, scores = y_type;
  for (int d = 0; d < num_perm; ++d) result.dims[perm[d]] = y_type.dims[d];
  scores = result;
  scores.dims[rank - 1] = TypeOf(b, k)->dims[TypeOf(b, k)->rank - 2];
  int products = Binary(b, "aten::matmul", "out", q, Transposed(b, k), &scores);
  if (HasIn(b, 3)) products = Subtract(b, products, In(b, 3), -1, &scores);
  const int weights = Scratch(b, scores.dtype, rank, scores.dims);
  Emit(b, "aten::_softmax", "out", "tibt>-", products, (int64_t)(rank - 1), 0, weights);
  if (num_perm == 0) {
    BinaryTo(b, "aten::matmul", "out", weights, v, Out(b, 0));
  } else {
    const int y = Binary(b, "aten::matmul", "out", weights, v, &result);
    Give(b, 0, Permuted(b, y, perm));
  }
  return b->status;
}

static WeftStatus BuildEinsum(Build* b, const void* how) {
  enum { kMost = 16 };
  const char* equation;
  int values[kMost];
  const int count = weft->node_num_inputs(b->node);
  Type y;
  (void)how;
  TRY(NeedOut(b, 0, kSingles, &y));
  if (count > kMost) return Refuse(b, "%d operands", count);
  TRY(weft->node_attr_string(b->node, "equation", &equation));
  for (const char* c = equation; *c; ++c)
    if (!islower((unsigned char)*c) && !strchr("., ->", *c))
      return Refuse(b, "an equation with other than small letters");
  CHECKED(b);
  const char* kept = KeepText(b, equation);
  for (int i = 0; i < count; ++i) values[i] = In(b, i);
  const int made = Owned(b, y.dtype, y.rank, y.dims);
  Emit(b, "aten::einsum", "", "sTN>o", kept, count, values, made);
  Give(b, 0, made);
  return b->status;
}

static WeftStatus BuildDet(Build* b, const void* how) {
  Type x, y;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &x));
  TRY(NeedOut(b, 0, kSingles, &y));
  CHECKED(b);
  const int made = Owned(b, y.dtype, y.rank, y.dims);
  Emit(b, "aten::linalg_det", "", "t>o", In(b, 0), made);
  Give(b, 0, made);
  return b->status;
}

static const OpRow kRows[] = {
    {"MatMul", BuildMatMul, NULL},
    {"weft::TransposedMatMul", BuildMatMul, "transposed"},
    {"weft::MatMulGrad", BuildMatMulGrad, NULL},
    {"Gemm", BuildGemm, NULL},
    {"weft::Attention", BuildAttention, NULL},
    {"Einsum", BuildEinsum, NULL},
    {"Det", BuildDet, NULL},
};
const OpTable kMatrixOps = {kRows, sizeof kRows / sizeof *kRows};
