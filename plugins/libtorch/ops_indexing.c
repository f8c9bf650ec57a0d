/* ops_indexing.c: operators that read or write where indices point, and those that give indices.
 * Indices may be negative; torch's own advanced indexing takes and checks these, its gather and
 * scatter do not: for them indices are brought into range first, and those that no axis has become
 * one too large, which torch reports. */
#include <string.h>

#include "ops.h"

enum { kMaxIndices = kMaxRank };

static int64_t Axis(const Build* b, int64_t otherwise, int rank) {
  const int64_t axis = IntAttr(b, "axis", otherwise);
  return axis < 0 ? axis + rank : axis;
}

/* i64 indices of an axis of `size` in [0, size], the latter for all that are out of range. */
static int InRange(Build* b, int index, int64_t size) {
  index = Casted(b, index, WEFT_I64);
  if (b->status != WEFT_OK) return 0;
  const Type type = *TypeOf(b, index), flags = Sized(&type, WEFT_BOOL);
  const int top = Number(b, WEFT_I64, (double)size);
  if (size == 0) return Expanded(b, top, type.rank, type.dims);
  const int low =
      Binary(b, "aten::lt", "Tensor_out", index, Number(b, WEFT_I64, (double)-size), &flags);
  const int high = Binary(b, "aten::ge", "Tensor_out", index, top, &flags);
  const int bad = Binary(b, "aten::logical_or", "out", low, high, &flags);
  const int wrapped = Binary(b, "aten::remainder", "Tensor_out", index, top, &type);
  return Select(b, bad, top, wrapped, &type);
}

static WeftStatus BuildGather(Build* b, const void* how) {
  int indices[kMaxIndices];
  Type data, index;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &data));
  TRY(NeedIn(b, 1, kInts, &index));
  const int64_t axis = Axis(b, 0, data.rank);
  if (axis < 0 || axis >= data.rank) return Refuse(b, "axis out of range");
  CHECKED(b);
  for (int64_t d = 0; d < axis; ++d) indices[d] = -1;
  indices[axis] = In(b, 1);
  Emit(b, "aten::index", "Tensor_out", "tUt>-", In(b, 0), (int)axis + 1, indices, Out(b, 0));
  return b->status;
}

/* The index tuples of GatherND as one index tensor an axis, behind those of the batch. */
static WeftStatus IndexTuples(Build* b, int at, int64_t batch, int* indices, int* count) {
  int64_t dims[kMaxRank];
  const int tuples = In(b, at);
  if (b->status != WEFT_OK) return b->status;
  const Type type = *TypeOf(b, tuples);
  const int last = type.rank - 1;
  for (int64_t d = 0; d < batch; ++d) {
    const int table = Constant(b, WEFT_I64, 1, &type.dims[d], NULL);
    int64_t* places = (int64_t*)ConstantData(b, table);
    for (int64_t i = 0; places && i < type.dims[d]; ++i) places[i] = i;
    for (int k = 0; k < last; ++k) dims[k] = k == d ? type.dims[d] : 1;
    indices[d] = Reshaped(b, table, last, dims);
  }
  for (int64_t k = 0; k < type.dims[last]; ++k) {
    const int column = Narrowed(b, tuples, last, k, 1, 1);
    if (b->status != WEFT_OK) return b->status;
    const Value value = b->plan->values[column];
    indices[batch + k] = View(b, column, 0, last, value.type.dims, value.strides);
  }
  *count = (int)(batch + type.dims[last]);
  return b->status;
}

static WeftStatus CheckTuples(Build* b, const Type* data, const Type* tuples, int64_t batch) {
  if (tuples->rank < 1 || tuples->dims[tuples->rank - 1] < 0)
    return Refuse(b, "index tuples whose length is not known");
  const int64_t length = tuples->dims[tuples->rank - 1];
  if (length < 1 || batch + length > data->rank || batch >= tuples->rank)
    return Refuse(b, "index tuples of length %lld", (long long)length);
  return WEFT_OK;
}

static WeftStatus BuildGatherND(Build* b, const void* how) {
  int indices[kMaxIndices], count = 0;
  Type data, tuples;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &data));
  TRY(NeedIn(b, 1, kInts, &tuples));
  const int64_t batch = IntAttr(b, "batch_dims", 0);
  TRY(CheckTuples(b, &data, &tuples, batch));
  CHECKED(b);
  TRY(IndexTuples(b, 1, batch, indices, &count));
  Emit(b, "aten::index", "Tensor_out", "tUt>-", In(b, 0), count, indices, Out(b, 0));
  return b->status;
}

static WeftStatus BuildScatterND(Build* b, const void* how) {
  int indices[kMaxIndices], count = 0;
  Type data, tuples;
  (void)how;
  TRY(NeedIn(b, 0, kInts, &data));
  TRY(NeedIn(b, 1, kInts, &tuples));
  if (!TextAttrIs(b, "reduction", "add"))
    return Refuse(b, "of equal indices torch may keep any, and of reductions it has sums alone");
  TRY(CheckTuples(b, &data, &tuples, 0));
  CHECKED(b);
  TRY(IndexTuples(b, 1, 0, indices, &count));
  const int y = Out(b, 0);
  Copy(b, y, In(b, 0));
  Emit(b, "aten::index_put_", "", "tUtb>-", y, count, indices, In(b, 2), 1);
  return b->status;
}

static WeftStatus BuildGatherElements(Build* b, const void* how) {
  Type data, index;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &data));
  TRY(NeedIn(b, 1, kInts, &index));
  const int64_t axis = Axis(b, 0, data.rank);
  if (axis < 0 || axis >= data.rank) return Refuse(b, "axis out of range");
  CHECKED(b);
  Emit(b, "aten::gather", "out", "titbt>-", In(b, 0), axis, InRange(b, In(b, 1), data.dims[axis]),
       0, Out(b, 0));
  return b->status;
}

static WeftStatus BuildScatterElements(Build* b, const void* how) {
  static const char* const kinds[][2] = {
      {"add", "sum"}, {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
  const char* reduce = NULL;
  Type data, index;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &data));
  TRY(NeedIn(b, 1, kInts, &index));
  for (int i = 0; i < 4; ++i)
    if (TextAttrIs(b, "reduction", kinds[i][0])) reduce = kinds[i][1];
  if (reduce && !IsIn(data.dtype, kInts | kSingles))
    return Refuse(b, "a reduction of these elements");
  const int64_t axis = Axis(b, 0, data.rank);
  if (axis < 0 || axis >= data.rank) return Refuse(b, "axis out of range");
  CHECKED(b);
  const int at = InRange(b, In(b, 1), data.dims[axis]);
  if (reduce)
    Emit(b, "aten::scatter_reduce", "two_out", "tittsbt>-", In(b, 0), axis, at, In(b, 2), reduce, 1,
         Out(b, 0));
  else
    Emit(b, "aten::scatter", "src_out", "tittt>-", In(b, 0), axis, at, In(b, 2), Out(b, 0));
  return b->status;
}

/* dy, the dimensions of data, indices. */
static WeftStatus BuildGatherElementsGrad(Build* b, const void* how) {
  Type dy, index, dx;
  (void)how;
  TRY(NeedIn(b, 0, kInts | kSingles, &dy));
  TRY(NeedIn(b, 2, kInts, &index));
  TRY(NeedOut(b, 0, kInts | kSingles, &dx));
  const int64_t axis = Axis(b, 0, dx.rank);
  if (axis < 0 || axis >= dx.rank) return Refuse(b, "axis out of range");
  CHECKED(b);
  Fill(b, Out(b, 0), 0);
  Emit(b, "aten::scatter_add_", "", "titt>-", Out(b, 0), axis, InRange(b, In(b, 2), dx.dims[axis]),
       In(b, 0));
  return b->status;
}

/* The rows of a table that were read; advanced indexing adds up in any order. */
static WeftStatus BuildGatherGrad(Build* b, const void* how) {
  Type dy, index, dx;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &dy));
  TRY(NeedIn(b, 2, kInts, &index));
  TRY(NeedOut(b, 0, kSingles, &dx));
  if (Axis(b, 0, dx.rank) != 0) return Refuse(b, "an axis other than the first");
  CHECKED(b);
  const int64_t count = NumElements(&index), rows = dx.dims[0];
  int64_t flat[2] = {count, 1}, table[2] = {rows, 1};
  for (int d = 1; d < dx.rank; ++d) flat[1] *= dx.dims[d], table[1] *= dx.dims[d];
  const int at = Reshaped(b, InRange(b, In(b, 2), rows), 1, &count);
  const int sums = Owned(b, dx.dtype, 2, table);
  Emit(b, "aten::embedding_dense_backward", "", "ttiib>o", Reshaped(b, In(b, 0), 2, flat), at, rows,
       (int64_t)-1, 0, sums);
  Give(b, 0, Reshaped(b, sums, dx.rank, dx.dims));
  return b->status;
}

/* ---- positions ---- */

/* 0, 1, .. as `dtype` along axis `axis` of so many, for broadcasting. */
static int Iota(Build* b, WeftDType dtype, int64_t first, int64_t count, int rank, int axis) {
  int64_t dims[kMaxRank];
  const int table = Constant(b, WEFT_I64, 1, &count, NULL);
  int64_t* places = (int64_t*)ConstantData(b, table);
  for (int64_t i = 0; places && i < count; ++i) places[i] = first + i;
  for (int d = 0; d < rank; ++d) dims[d] = d == axis ? count : 1;
  return Casted(b, Reshaped(b, table, rank, dims), dtype);
}

/* With an axis of size 1 at `axis`. */
static int WithAxis(Build* b, int x, int64_t axis) {
  int64_t dims[kMaxRank];
  if (b->status != WEFT_OK) return 0;
  const Type type = *TypeOf(b, x);
  for (int d = 0; d <= type.rank; ++d)
    dims[d] = d < axis ? type.dims[d] : d == axis ? 1 : type.dims[d - 1];
  return Reshaped(b, x, type.rank + 1, dims);
}

static WeftStatus BuildOneHot(Build* b, const void* how) {
  Type index, values, y;
  (void)how;
  TRY(NeedIn(b, 0, kNumbers, &index));
  TRY(NeedIn(b, 2, kMovable, &values));
  TRY(NeedOut(b, 0, kMovable, &y));
  if (index.rank + 1 >= kMaxRank) return Refuse(b, "%d axes", (int)index.rank);
  const int64_t axis = Axis(b, -1, y.rank);
  if (axis < 0 || axis >= y.rank) return Refuse(b, "axis out of range");
  CHECKED(b);
  const Type flags = Sized(&y, WEFT_BOOL);
  const int64_t depth = y.dims[axis];
  const int at = WithAxis(b, In(b, 0), axis);
  const int front = Binary(b, "aten::eq", "Tensor_out", at,
                           Iota(b, index.dtype, 0, depth, y.rank, (int)axis), &flags);
  const int back = index.dtype == WEFT_U8
                       ? front
                       : Binary(b, "aten::eq", "Tensor_out", at,
                                Iota(b, index.dtype, -depth, depth, y.rank, (int)axis), &flags);
  const int hit = Binary(b, "aten::logical_or", "out", front, back, &flags);
  SelectTo(b, hit, View(b, In(b, 2), 1, 0, NULL, NULL), View(b, In(b, 2), 0, 0, NULL, NULL),
           Out(b, 0));
  return b->status;
}

static WeftStatus BuildHardmax(Build* b, const void* how) {
  Type type;
  (void)how;
  TRY(NeedIn(b, 0, kFloats, &type));
  const int64_t axis = Axis(b, -1, type.rank);
  if (axis < 0 || axis >= type.rank) return Refuse(b, "axis out of range");
  CHECKED(b);
  Type best = Sized(&type, WEFT_I64);
  best.dims[axis] = 1;
  const Type flags = Sized(&type, WEFT_BOOL);
  const int at = Scratch(b, WEFT_I64, best.rank, best.dims);
  Emit(b, "aten::argmax", "out", "tIbt>-", In(b, 0), axis, 1, at);
  const int hit = Binary(b, "aten::eq", "Tensor_out", at,
                         Iota(b, WEFT_I64, 0, type.dims[axis], type.rank, (int)axis), &flags);
  Copy(b, Out(b, 0), hit);
  return b->status;
}

static WeftStatus BuildArg(Build* b, const void* how) {
  Type type, y;
  TRY(NeedIn(b, 0, kNumbers, &type));
  TRY(NeedOut(b, 0, TYPE_BIT(WEFT_I64), &y));
  const int64_t axis = Axis(b, 0, type.rank);
  const bool keep = IntAttr(b, "keepdims", 1) != 0, last = IntAttr(b, "select_last_index", 0) != 0;
  if (axis < 0 || axis >= type.rank || type.dims[axis] == 0) return Refuse(b, "no such axis");
  CHECKED(b);
  if (!last) {
    Emit(b, (const char*)how, "out", "tIbt>-", In(b, 0), axis, (int)keep, Out(b, 0));
    return b->status;
  }
  /* The first one from the end. */
  const int64_t size = type.dims[axis];
  const int back = Owned(b, type.dtype, type.rank, type.dims);
  Emit(b, "aten::flip", "", "tL>o", In(b, 0), 1, &axis, back);
  const int at = Scratch(b, WEFT_I64, y.rank, y.dims);
  Emit(b, (const char*)how, "out", "tIbt>-", back, axis, (int)keep, at);
  const int table = Constant(b, WEFT_I64, 1, &size, NULL);
  int64_t* places = (int64_t*)ConstantData(b, table);
  for (int64_t i = 0; places && i < size; ++i) places[i] = size - 1 - i;
  Emit(b, "aten::take", "out", "ttt>-", table, at, Out(b, 0));
  return b->status;
}

/* By a stable sort: of equal elements the lower index first, which torch's topk does not say. */
static WeftStatus BuildTopK(Build* b, const void* how) {
  int64_t k;
  Type type;
  (void)how;
  TRY(NeedIn(b, 0, kNumbers, &type));
  const int64_t axis = Axis(b, -1, type.rank);
  if (ConstantInts(b, 1, &k, 1) != 1) return Refuse(b, "K is not constant");
  if (axis < 0 || axis >= type.rank) return Refuse(b, "axis out of range");
  const bool largest = IntAttr(b, "largest", 1) != 0;
  CHECKED(b);
  const int values = Scratch(b, type.dtype, type.rank, type.dims);
  const int indices = Scratch(b, WEFT_I64, type.rank, type.dims);
  Emit(b, "aten::sort", "values_stable", "tIibtt>--", In(b, 0), (int64_t)1, axis, (int)largest,
       values, indices);
  Give(b, 0, Narrowed(b, values, (int)axis, 0, k, 1));
  Give(b, 1, Narrowed(b, indices, (int)axis, 0, k, 1));
  return b->status;
}

/* CumSum and CumProd. */
static WeftStatus BuildCumulate(Build* b, const void* how) {
  const char* op = (const char*)how;
  int64_t axis;
  Type type;
  TRY(NeedIn(b, 0, kInts | kSingles, &type));
  if (ConstantInts(b, 1, &axis, 1) != 1) return Refuse(b, "axis is not constant");
  if (axis < 0) axis += type.rank;
  if (axis < 0 || axis >= type.rank) return Refuse(b, "axis out of range");
  const bool exclusive = IntAttr(b, "exclusive", 0) != 0, reverse = IntAttr(b, "reverse", 0) != 0;
  CHECKED(b);
  const int64_t size = type.dims[axis];
  const int d = (int)axis,
            whole = reverse ? Scratch(b, type.dtype, type.rank, type.dims) : Out(b, 0);
  int x = In(b, 0), y = whole;
  if (reverse) {
    const int back = Owned(b, type.dtype, type.rank, type.dims);
    Emit(b, "aten::flip", "", "tL>o", x, 1, &axis, back);
    x = back;
  }
  if (exclusive && size > 0) {
    Fill(b, Narrowed(b, whole, d, 0, 1, 1), strcmp(op, "aten::cumprod") == 0);
    x = Narrowed(b, x, d, 0, size - 1, 1);
    y = Narrowed(b, whole, d, 1, size - 1, 1);
  }
  Emit(b, op, "out", "tiYt>-", x, axis, (int)type.dtype, y);
  if (reverse) {
    const int front = Owned(b, type.dtype, type.rank, type.dims);
    Emit(b, "aten::flip", "", "tL>o", whole, 1, &axis, front);
    Give(b, 0, front);
  }
  return b->status;
}

static const OpRow kRows[] = {
    {"Gather", BuildGather, NULL},
    {"GatherND", BuildGatherND, NULL},
    {"GatherElements", BuildGatherElements, NULL},
    {"ScatterElements", BuildScatterElements, NULL},
    {"ScatterND", BuildScatterND, NULL},
    {"weft::GatherGrad", BuildGatherGrad, NULL},
    {"weft::GatherElementsGrad", BuildGatherElementsGrad, NULL},
    {"OneHot", BuildOneHot, NULL},
    {"Hardmax", BuildHardmax, NULL},
    {"ArgMax", BuildArg, "aten::argmax"},
    {"ArgMin", BuildArg, "aten::argmin"},
    {"TopK", BuildTopK, NULL},
    {"CumSum", BuildCumulate, "aten::cumsum"},
    {"CumProd", BuildCumulate, "aten::cumprod"},
};
const OpTable kIndexingOps = {kRows, sizeof kRows / sizeof *kRows};
