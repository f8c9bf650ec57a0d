/* ops_normalization.c: normalization by statistics. */
#include <string.h>

#include "ops.h"

/* The statistics in f32, or in f64 of f64. */
static WeftStatus CheckStash(const Build* b, WeftDType dtype) {
  const int64_t stash = IntAttr(b, "stash_type", 1);
  if (stash != 1 && !(stash == 11 && dtype == WEFT_F64))
    return Refuse(b, "statistics of type %lld", (long long)stash);
  return WEFT_OK;
}

/* Does a scale of this type broadcast within the axes from `axis` on? */
static bool FitsAxes(const Type* scale, const Type* x, int64_t axis) {
  return scale->rank <= x->rank - axis;
}

static WeftStatus BuildLayerNormalization(Build* b, const void* how) {
  Type x, scale, bias = {0};
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &x));
  TRY(NeedIn(b, 1, kSingles, &scale));
  const bool has_bias = HasIn(b, 2);
  if (has_bias) TRY(NeedIn(b, 2, kSingles, &bias));
  int64_t axis = IntAttr(b, "axis", -1);
  if (axis < 0) axis += x.rank;
  if (axis < 0 || axis >= x.rank) return Refuse(b, "axis out of range");
  if (!FitsAxes(&scale, &x, axis) || (has_bias && !FitsAxes(&bias, &x, axis)))
    return Refuse(b, "a scale along axes that are not normalized");
  TRY(CheckStash(b, x.dtype));
  for (int64_t d = axis; d < x.rank; ++d)
    if (x.dims[d] == 0) return Refuse(b, "an axis of size 0");
  CHECKED(b);
  const int rank = x.rank - (int)axis;
  const int64_t* shape = &x.dims[axis];
  Type few = x;
  for (int64_t d = axis; d < x.rank; ++d) few.dims[d] = 1;
  const int weight = Expanded(b, In(b, 1), rank, shape);
  const int shift = has_bias ? Expanded(b, In(b, 2), rank, shape) : -1;
  const int y = Owned(b, x.dtype, x.rank, x.dims);
  const int mean = Owned(b, few.dtype, few.rank, few.dims);
  const int deviation = Owned(b, few.dtype, few.rank, few.dims);
  Emit(b, "aten::native_layer_norm", "", "tL??d>ooo", In(b, 0), rank, shape, weight, shift,
       FloatAttr(b, "epsilon", 1e-5), y, mean, deviation);
  Give(b, 0, y);
  if (IsUsed(b, 1)) Give(b, 1, mean);
  if (IsUsed(b, 2)) Give(b, 2, deviation);
  return b->status;
}

static WeftStatus BuildRMSNormalization(Build* b, const void* how) {
  int64_t axes[kMaxRank];
  Type x, scale;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &x));
  TRY(NeedIn(b, 1, kSingles, &scale));
  int64_t axis = IntAttr(b, "axis", -1);
  if (axis < 0) axis += x.rank;
  if (axis < 0 || axis >= x.rank) return Refuse(b, "axis out of range");
  TRY(CheckStash(b, x.dtype));
  for (int64_t d = axis; d < x.rank; ++d)
    if (x.dims[d] == 0) return Refuse(b, "an axis of size 0");
  CHECKED(b);
  Type few = x;
  int count = 0;
  for (int64_t d = axis; d < x.rank; ++d) few.dims[d] = 1, axes[count++] = d;
  const int value = In(b, 0), mean = Scratch(b, few.dtype, few.rank, few.dims);
  Emit(b, "aten::mean", "out", "tObYt>-", Binary(b, "aten::mul", "out", value, value, &x), count,
       axes, 1, (int)x.dtype, mean);
  const int sum = Subtract(b, mean, Number(b, x.dtype, FloatAttr(b, "epsilon", 1e-5)), -1, &few);
  const int y = Binary(b, "aten::mul", "out", value, Unary(b, "aten::rsqrt", sum), &x);
  BinaryTo(b, "aten::mul", "out", y, In(b, 1), Out(b, 0));
  return b->status;
}

/* Inference: the statistics are operands. */
static WeftStatus BuildBatchNormalization(Build* b, const void* how) {
  Type x, other;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &x));
  if (IntAttr(b, "training_mode", 0) != 0)
    return Refuse(b, "training: torch's running variance is another one");
  if (x.rank < 2) return Refuse(b, "rank %d", (int)x.rank);
  for (int i = 1; i <= 4; ++i) {
    TRY(NeedIn(b, i, kSingles, &other));
    if (other.dtype != x.dtype) return Refuse(b, "operands of two element types");
  }
  CHECKED(b);
  const int y = Owned(b, x.dtype, x.rank, x.dims);
  Emit(b, "aten::native_batch_norm", "", "t????bdd>o--", In(b, 0), In(b, 1), In(b, 2), In(b, 3),
       In(b, 4), 0, 0.0, FloatAttr(b, "epsilon", 1e-5), y);
  Give(b, 0, y);
  return b->status;
}

/* GroupNormalization; InstanceNormalization, whose groups are channels. */
static WeftStatus BuildGroupNormalization(Build* b, const void* how) {
  const bool instance = how != NULL;
  Type x, other;
  TRY(NeedIn(b, 0, kSingles, &x));
  if (x.rank < 3) return Refuse(b, "rank %d", (int)x.rank);
  for (int i = 1; i <= 2; ++i) {
    TRY(NeedIn(b, i, kSingles, &other));
    if (other.dtype != x.dtype) return Refuse(b, "operands of two element types");
  }
  if (!instance) TRY(CheckStash(b, x.dtype));
  CHECKED(b);
  if (NumElements(&x) == 0) return Refuse(b, "an empty operand");
  const int64_t n = x.dims[0], c = x.dims[1], spatial = NumElements(&x) / (n * c);
  const int y = Owned(b, x.dtype, x.rank, x.dims);
  Emit(b, "aten::native_group_norm", "", "t??iiiid>o--", In(b, 0), In(b, 1), In(b, 2), n, c,
       spatial, instance ? c : IntAttr(b, "num_groups", 1), FloatAttr(b, "epsilon", 1e-5), y);
  Give(b, 0, y);
  return b->status;
}

/* In f64, as Weft sums; what the mean loses in f32 is the third result. */
static WeftStatus BuildMoments(Build* b, const void* how) {
  int64_t axes[kMaxRank];
  Type x;
  (void)how;
  TRY(NeedIn(b, 0, kFloats & ~TYPE_BIT(WEFT_F64), &x));
  const int count = ConstantInts(b, 1, axes, kMaxRank);
  if (count < 1) return Refuse(b, "axes that are not constant, or none");
  for (int i = 0; i < count; ++i) {
    if (axes[i] < 0) axes[i] += x.rank;
    if (axes[i] < 0 || axes[i] >= x.rank) return Refuse(b, "axis out of range");
    if (x.dims[axes[i]] == 0) return Refuse(b, "an axis of size 0");
  }
  CHECKED(b);
  Type few = Sized(&x, WEFT_F64);
  for (int i = 0; i < count; ++i) few.dims[axes[i]] = 1;
  const int variance = Owned(b, few.dtype, few.rank, few.dims);
  const int mean = Owned(b, few.dtype, few.rank, few.dims);
  Emit(b, "aten::var_mean", "dim", "tObb>oo", Casted(b, In(b, 0), WEFT_F64), count, axes, 0, 1,
       variance, mean);
  Copy(b, Out(b, 0), mean);
  Copy(b, Out(b, 1), variance);
  if (IsUsed(b, 2)) Copy(b, Out(b, 2), Subtract(b, mean, Casted(b, Out(b, 0), WEFT_F64), 1, &few));
  return b->status;
}

/* (x - mean - rest) / sqrt(variance + epsilon) scale + bias. */
static WeftStatus BuildNormalize(Build* b, const void* how) {
  Type x, other;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &x));
  for (int i = 1; i <= 5; ++i) {
    if (i == 5 && !HasIn(b, i)) continue;
    TRY(NeedIn(b, i, kSingles, &other));
    if (other.dtype != x.dtype) return Refuse(b, "operands of two element types");
  }
  CHECKED(b);
  const int variance = In(b, 2);
  if (b->status != WEFT_OK) return b->status;
  const Type few = *TypeOf(b, variance);
  int y = Subtract(b, In(b, 0), In(b, 1), 1, &x);
  if (HasIn(b, 5)) y = Subtract(b, y, In(b, 5), 1, &x);
  const int sum =
      Subtract(b, variance, Number(b, x.dtype, FloatAttr(b, "epsilon", 1e-5)), -1, &few);
  y = Binary(b, "aten::div", "out", y, Unary(b, "aten::sqrt", sum), &x);
  y = Binary(b, "aten::mul", "out", y, In(b, 3), &x);
  GiveSum(b, 0, y, In(b, 4), 1);
  return b->status;
}

static WeftStatus BuildMeanVarianceNormalization(Build* b, const void* how) {
  int64_t axes[2 * kMaxRank];
  Type x;
  (void)how;
  TRY(NeedIn(b, 0, TYPE_BIT(WEFT_F32), &x));
  int count = IntsAttr(b, "axes", axes);
  for (int d = 0, all = count == 0; all && d < x.rank; ++d) axes[count++] = d;
  for (int i = 0; i < count; ++i) {
    if (axes[i] < 0) axes[i] += x.rank;
    if (axes[i] < 0 || axes[i] >= x.rank) return Refuse(b, "axis out of range");
    if (x.dims[axes[i]] == 0) return Refuse(b, "an axis of size 0");
  }
  CHECKED(b);
  Type few = x;
  for (int i = 0; i < count; ++i) few.dims[axes[i]] = 1;
  const int variance = Owned(b, few.dtype, few.rank, few.dims);
  const int mean = Owned(b, few.dtype, few.rank, few.dims);
  Emit(b, "aten::var_mean", "dim", "tObb>oo", In(b, 0), count, axes, 0, 1, variance, mean);
  const int by = Subtract(b, Unary(b, "aten::sqrt", variance), Number(b, x.dtype, 1e-9), -1, &few);
  BinaryTo(b, "aten::div", "out", Subtract(b, In(b, 0), mean, 1, &x), by, Out(b, 0));
  return b->status;
}

static const OpRow kRows[] = {
    {"LayerNormalization", BuildLayerNormalization, NULL},
    {"RMSNormalization", BuildRMSNormalization, NULL},
    {"BatchNormalization", BuildBatchNormalization, NULL},
    {"GroupNormalization", BuildGroupNormalization, NULL},
    {"InstanceNormalization", BuildGroupNormalization, "instance"},
    {"weft::Moments", BuildMoments, NULL},
    {"weft::Normalize", BuildNormalize, NULL},
    {"MeanVarianceNormalization", BuildMeanVarianceNormalization, NULL},
};
const OpTable kNormalizationOps = {kRows, sizeof kRows / sizeof *kRows};
