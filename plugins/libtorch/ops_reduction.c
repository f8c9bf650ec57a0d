/* ops_reduction.c: reductions over axes, soft-max, and losses over classes. */
#include <string.h>

#include "ops.h"

enum { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kSumSquare, kLogSum, kLogSumExp };

/* The axes that are reduced, from operand 1. */
static WeftStatus ReadAxes(Build* b, int rank, int64_t* axes, int* count) {
  *count = 0;
  if (HasIn(b, 1)) {
    *count = ConstantInts(b, 1, axes, kMaxRank);
    if (*count < 0) return Refuse(b, "axes that are not constant");
  }
  if (*count == 0 && IntAttr(b, "noop_with_empty_axes", 0) == 0) {
    for (int d = 0; d < rank; ++d) axes[d] = d;
    *count = rank;
  }
  for (int i = 0; i < *count; ++i) {
    if (axes[i] < 0) axes[i] += rank;
    if (axes[i] < 0 || axes[i] >= rank) return Refuse(b, "axis out of range");
  }
  return WEFT_OK;
}

static void Extremes(Build* b, const char* op, int x, const int64_t* axes, int count, bool keep,
                     int to) {
  Emit(b, op, "out", "tLbt>-", x, count, axes, (int)keep, to);
}

static WeftStatus BuildReduce(Build* b, const void* how) {
  const int kind = *(const int*)how;
  int64_t axes[kMaxRank];
  int count;
  Type x_type, type;
  uint32_t types = kSingles;
  if (kind == kSum) types = kNumbers | kUnsigned;
  if (kind == kMean) types = kFloats;
  if (kind == kMax || kind == kMin) types = kNumbers | kBools;
  if (kind == kProd || kind == kL1 || kind == kSumSquare) types = kSingles | kInts;
  TRY(NeedIn(b, 0, types, &x_type));
  TRY(NeedOut(b, 0, types, &type));
  TRY(ReadAxes(b, x_type.rank, axes, &count));
  for (int i = 0; i < count && kind != kSum; ++i)
    if (x_type.dims[axes[i]] == 0) return Refuse(b, "an axis of size 0");
  const bool keep = IntAttr(b, "keepdims", 1) != 0;
  CHECKED(b);
  int x = In(b, 0);
  if (kind == kL1) x = Unary(b, "aten::abs", x);
  if (kind == kL2 || kind == kSumSquare) x = Binary(b, "aten::mul", "out", x, x, &x_type);
  if (count == 0) { /* each element alone */
    if (kind == kL2)
      UnaryTo(b, "aten::sqrt", x, Out(b, 0));
    else if (kind == kLogSum)
      UnaryTo(b, "aten::log", x, Out(b, 0));
    else
      Give(b, 0, x);
    return b->status;
  }
  switch (kind) {
    case kMean:
      Emit(b, "aten::mean", "out", "tObYt>-", x, count, axes, (int)keep, (int)type.dtype,
           Out(b, 0));
      break;
    case kMax:
    case kMin:
      Extremes(b, kind == kMax ? "aten::amax" : "aten::amin", x, axes, count, keep, Out(b, 0));
      break;
    case kLogSumExp:
      Extremes(b, "aten::logsumexp", x, axes, count, keep, Out(b, 0));
      break;
    case kProd: {
      Type rest = x_type;
      for (int i = 0; i < count; ++i) {
        rest.dims[axes[i]] = 1;
        const int to =
            i + 1 < count || !keep ? Scratch(b, rest.dtype, rest.rank, rest.dims) : Out(b, 0);
        Emit(b, "aten::prod", "int_out", "tibYt>-", x, axes[i], 1, (int)type.dtype, to);
        x = to;
      }
      if (!keep) Give(b, 0, Reshaped(b, x, type.rank, type.dims));
      break;
    }
    case kL2:
    case kLogSum: {
      const int sum = Scratch(b, type.dtype, type.rank, type.dims);
      SumTo(b, x, axes, count, keep, sum);
      UnaryTo(b, kind == kL2 ? "aten::sqrt" : "aten::log", sum, Out(b, 0));
      break;
    }
    default:
      SumTo(b, x, axes, count, keep, Out(b, 0));
  }
  return b->status;
}

static WeftStatus BuildSumTo(Build* b, const void* how) {
  Type x, y;
  (void)how;
  TRY(NeedIn(b, 0, kNumbers | kUnsigned, &x));
  TRY(NeedOut(b, 0, kNumbers | kUnsigned, &y));
  CHECKED(b);
  if (SameDims(&x, &y))
    Give(b, 0, In(b, 0));
  else
    SumToDims(b, In(b, 0), Out(b, 0));
  return b->status;
}

static WeftStatus BuildChannelSum(Build* b, const void* how) {
  int64_t axes[kMaxRank];
  Type x;
  (void)how;
  TRY(NeedIn(b, 0, kNumbers | kUnsigned, &x));
  if (x.rank < 2) return Refuse(b, "rank %d", (int)x.rank);
  CHECKED(b);
  axes[0] = 0;
  for (int d = 2; d < x.rank; ++d) axes[d - 1] = d;
  SumTo(b, In(b, 0), axes, x.rank - 1, false, Out(b, 0));
  return b->status;
}

/* GlobalAveragePool and GlobalMaxPool. */
static WeftStatus BuildGlobalPool(Build* b, const void* how) {
  int64_t axes[kMaxRank];
  Type x;
  TRY(NeedIn(b, 0, kFloats, &x));
  if (x.rank < 3) return Refuse(b, "rank %d", (int)x.rank);
  for (int d = 2; d < x.rank; ++d)
    if (x.dims[d] == 0) return Refuse(b, "an axis of size 0");
  CHECKED(b);
  for (int d = 2; d < x.rank; ++d) axes[d - 2] = d;
  if (how)
    Extremes(b, "aten::amax", In(b, 0), axes, x.rank - 2, true, Out(b, 0));
  else
    Emit(b, "aten::mean", "out", "tObYt>-", In(b, 0), x.rank - 2, axes, 1, (int)x.dtype, Out(b, 0));
  return b->status;
}

static WeftStatus BuildSoftmax(Build* b, const void* how) {
  Type x;
  TRY(NeedIn(b, 0, kFloats, &x));
  int64_t axis = IntAttr(b, "axis", -1);
  if (axis < 0) axis += x.rank;
  if (axis < 0 || axis >= x.rank) return Refuse(b, "axis out of range");
  CHECKED(b);
  Emit(b, (const char*)how, "out", "tibt>-", In(b, 0), axis, 0, Out(b, 0));
  return b->status;
}

static WeftStatus BuildLpNormalization(Build* b, const void* how) {
  Type x;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &x));
  int64_t axis = IntAttr(b, "axis", -1);
  const int64_t p = IntAttr(b, "p", 2);
  if (axis < 0) axis += x.rank;
  if (axis < 0 || axis >= x.rank || (p != 1 && p != 2)) return Refuse(b, "axis or p out of range");
  CHECKED(b);
  Type one = x;
  one.dims[axis] = 1;
  const Type flags = Sized(&one, WEFT_BOOL);
  const int value = In(b, 0), zero = Number(b, x.dtype, 0);
  const int powers =
      p == 1 ? Unary(b, "aten::abs", value) : Binary(b, "aten::mul", "out", value, value, &x);
  int norm = Scratch(b, one.dtype, one.rank, one.dims);
  SumTo(b, powers, &axis, 1, true, norm);
  if (p == 2) norm = Unary(b, "aten::sqrt", norm);
  const int none = Binary(b, "aten::eq", "Tensor_out", norm, zero, &flags);
  SelectTo(b, none, zero, Binary(b, "aten::div", "out", value, norm, &x), Out(b, 0));
  return b->status;
}

static const OpRow kRows[] = {
#define REDUCE(name, kind)                            \
  {                                                   \
    "Reduce" name, BuildReduce, &(const int) { kind } \
  }
    REDUCE("Sum", kSum),
    REDUCE("Mean", kMean),
    REDUCE("Max", kMax),
    REDUCE("Min", kMin),
    REDUCE("Prod", kProd),
    REDUCE("L1", kL1),
    REDUCE("L2", kL2),
    REDUCE("SumSquare", kSumSquare),
    REDUCE("LogSum", kLogSum),
    REDUCE("LogSumExp", kLogSumExp),
    {"weft::SumTo", BuildSumTo, NULL},
    {"weft::ChannelSum", BuildChannelSum, NULL},
    {"GlobalAveragePool", BuildGlobalPool, NULL},
    {"GlobalMaxPool", BuildGlobalPool, "max"},
    {"Softmax", BuildSoftmax, "aten::_softmax"},
    {"LogSoftmax", BuildSoftmax, "aten::_log_softmax"},
    {"LpNormalization", BuildLpNormalization, NULL},
};
const OpTable kReductionOps = {kRows, sizeof kRows / sizeof *kRows};
