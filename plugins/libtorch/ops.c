/* ops.c: what the builders of operators (ops.h) share. */
#include "ops.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const OpRow* FindOp(const char* op) {
  const OpTable* const tables[] = {
      &kElementwiseOps, &kMovementOps, &kIndexingOps,      &kReductionOps, &kMatrixOps,
      &kWindowOps,      &kPoolingOps,  &kNormalizationOps, &kLossOps,      &kImageOps};
  for (size_t t = 0; t < sizeof tables / sizeof *tables; ++t)
    for (size_t i = 0; i < tables[t]->count; ++i)
      if (strcmp(tables[t]->rows[i].op, op) == 0) return &tables[t]->rows[i];
  return NULL;
}

WeftStatus Refuse(const Build* b, const char* format, ...) {
  char text[512];
  va_list args;
  const int length = snprintf(text, sizeof text, "%.100s: ", weft->node_op(b->node));
  va_start(args, format);
  vsnprintf(text + length, sizeof text - (size_t)length, format, args);
  va_end(args);
  return weft->fail(WEFT_E_UNSUPPORTED, text);
}

static const char* NameOf(WeftDType dtype) {
  static const char* const names[] = {"unknown", "bool", "i8",   "i16", "i32",  "i64", "u8",
                                      "u16",     "u32",  "u64",  "f16", "bf16", "f32", "f64",
                                      "str",     "c64",  "c128", "i4",  "u4",   "i2",  "u2"};
  return dtype >= 0 && dtype < (int)(sizeof names / sizeof *names) ? names[dtype]
                                                                   : "an 8-bit float";
}

WeftStatus NeedIn(Build* b, int i, uint32_t types, Type* type) {
  TRY(InType(b, i, type));
  if (!HasIn(b, i)) return Refuse(b, "operand %d is absent", i);
  if (!IsIn(type->dtype, types)) return Refuse(b, "operand %d is %s", i, NameOf(type->dtype));
  return type->rank < 0 ? Refuse(b, "the rank of operand %d is not known", i) : WEFT_OK;
}

WeftStatus NeedOut(Build* b, int k, uint32_t types, Type* type) {
  TRY(OutType(b, k, type));
  if (!IsIn(type->dtype, types)) return Refuse(b, "result %d is %s", k, NameOf(type->dtype));
  return type->rank < 0 ? Refuse(b, "the rank of result %d is not known", k) : WEFT_OK;
}

int64_t IntAttr(const Build* b, const char* name, int64_t otherwise) {
  int64_t value;
  return weft->node_attr_int(b->node, name, &value) == WEFT_OK ? value : otherwise;
}
double FloatAttr(const Build* b, const char* name, double otherwise) {
  double value;
  return weft->node_attr_float(b->node, name, &value) == WEFT_OK ? value : otherwise;
}
bool TextAttrIs(const Build* b, const char* name, const char* text) {
  const char* value;
  return weft->node_attr_string(b->node, name, &value) == WEFT_OK && strcmp(value, text) == 0;
}
int IntsAttr(const Build* b, const char* name, int64_t* values) {
  const int64_t* given;
  size_t count;
  if (weft->node_attr_ints(b->node, name, &given, &count) != WEFT_OK) return 0;
  if (count > 2 * kMaxRank) count = 2 * kMaxRank;
  if (count) memcpy(values, given, count * sizeof *values);
  return (int)count;
}

int ConstantInts(Build* b, int i, int64_t* values, int capacity) {
  const WeftView* view = InConstant(b, i);
  if (!view || view->rank > 1 || view->num_elements > capacity) return -1;
  if (view->dtype != WEFT_I64 && view->dtype != WEFT_I32) return -1;
  for (int64_t k = 0; k < view->num_elements; ++k)
    values[k] =
        view->dtype == WEFT_I64 ? ((const int64_t*)view->data)[k] : ((const int32_t*)view->data)[k];
  return (int)view->num_elements;
}

bool SameDims(const Type* a, const Type* b) {
  if (a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; ++d)
    if (a->dims[d] != b->dims[d]) return false;
  return true;
}
bool KnownDims(const Type* type) {
  for (int d = 0; d < type->rank; ++d)
    if (type->dims[d] < 0) return false;
  return type->rank >= 0;
}

Type Sized(const Type* type, WeftDType dtype) {
  Type other = *type;
  other.dtype = dtype;
  return other;
}

/* ---- values from values ---- */

static int Fresh(Build* b, const Type* type) {
  return Scratch(b, type->dtype, type->rank, type->dims);
}

int Unary(Build* b, const char* op, int x) {
  if (b->status != WEFT_OK) return 0;
  const Type type = *TypeOf(b, x);
  const int y = Fresh(b, &type);
  UnaryTo(b, op, x, y);
  return y;
}
void UnaryTo(Build* b, const char* op, int x, int to) { Emit(b, op, "out", "tt>-", x, to); }

int Binary(Build* b, const char* op, const char* overload, int x, int y, const Type* type) {
  const int z = Fresh(b, type);
  BinaryTo(b, op, overload, x, y, z);
  return z;
}
void BinaryTo(Build* b, const char* op, const char* overload, int x, int y, int to) {
  Emit(b, op, overload, "ttt>-", x, y, to);
}

int Select(Build* b, int condition, int x, int y, const Type* type) {
  const int z = Fresh(b, type);
  SelectTo(b, condition, x, y, z);
  return z;
}
void SelectTo(Build* b, int condition, int x, int y, int to) {
  Emit(b, "aten::where", "self_out", "tttt>-", condition, x, y, to);
}

/* torch's add takes a Scalar, which a call cannot pass, and subtract a double, which integers do
 * not take: they are summed over an axis of two. */
static void AddIntegers(Build* b, int x, int y, int to) {
  int64_t dims[kMaxRank + 1];
  if (b->status != WEFT_OK) return;
  const Type type = *TypeOf(b, to);
  if (type.rank == kMaxRank) {
    b->status = Fail(WEFT_E_UNSUPPORTED, "too many axes to add integers");
    return;
  }
  dims[0] = 2;
  memcpy(dims + 1, type.dims, sizeof type.dims);
  const int both = Scratch(b, type.dtype, type.rank + 1, dims);
  const int64_t half = NumElements(&type), first = 0;
  Copy(b, View(b, both, 0, type.rank, type.dims, NULL), x);
  Copy(b, View(b, both, half, type.rank, type.dims, NULL), y);
  SumTo(b, both, &first, 1, false, to);
}

int Add(Build* b, int x, int y, const Type* type) {
  if (IsFloat(type->dtype)) return Subtract(b, x, y, -1.0, type);
  const int z = Fresh(b, type);
  AddIntegers(b, x, y, z);
  return z;
}

void GiveSum(Build* b, int k, int x, int y, double sign) {
  Type type;
  if (b->status != WEFT_OK) return;
  b->status = OutType(b, k, &type);
  if (b->status != WEFT_OK) return;
  if (IsFloat(type.dtype))
    Give(b, k, Subtract(b, x, y, -sign, &type));
  else
    AddIntegers(b, x, sign < 0 ? Unary(b, "aten::neg", y) : y, Out(b, k));
}

int Scale(Build* b, int x, double factor) {
  if (factor == 1 || b->status != WEFT_OK) return x;
  const Type type = *TypeOf(b, x);
  return Binary(b, "aten::mul", "out", x, Number(b, type.dtype, factor), &type);
}

WeftStatus CheckCast(const Build* b, WeftDType from, WeftDType to) {
  const uint32_t whole = kInts | kUnsigned | kBools;
  if (from == to && IsIn(from, kMovable)) return WEFT_OK;
  if (IsIn(from, kInts | kBools) && IsIn(to, whole | kFloats)) return WEFT_OK;
  if (IsIn(from, kUnsigned)) {
    if (IsIn(to, whole) && ElementBytes(to) <= ElementBytes(from)) return WEFT_OK;
  } else if (IsFloat(from)) {
    if (from == WEFT_F64 && IsIn(to, kHalves))
      return Refuse(b, "torch rounds twice from f64 to %s", NameOf(to));
    if (IsIn(to, kFloats | kInts | kBools)) return WEFT_OK;
  }
  return Refuse(b, "from %s to %s", NameOf(from), NameOf(to));
}

void CastTo(Build* b, int from, int to) {
  if (b->status != WEFT_OK) return;
  const Type type = *TypeOf(b, from);
  const WeftDType target = TypeOf(b, to)->dtype;
  if (!IsFloat(type.dtype) || !IsIn(target, kInts)) {
    Copy(b, to, from);
    return;
  }
  /* In f64, which holds every float and every integer but those of 64 bits. */
  const Type wide = Sized(&type, WEFT_F64);
  const bool most = target == WEFT_I64;
  const int bits = (int)ElementBytes(target) * 8;
  const double reach = (double)((uint64_t)1 << (bits - 1));
  const double low = target == WEFT_U8 ? 0 : -reach;
  const double high = target == WEFT_U8 ? 255 : most ? reach - 1024 : reach - 1;
  const int x = Casted(b, from, WEFT_F64), bounded = Fresh(b, &wide);
  Emit(b, "aten::nan_to_num", "out", "tDDDt>-", x, 0.0, DBL_MAX, -DBL_MAX, bounded);
  const int clamped = Fresh(b, &wide);
  Emit(b, "aten::clamp", "Tensor_out", "t??t>-", bounded, Number(b, WEFT_F64, low),
       Number(b, WEFT_F64, high), clamped);
  if (!most) {
    Copy(b, to, clamped);
    return;
  }
  const Type whole = Sized(&type, target), flags = Sized(&type, WEFT_BOOL);
  const int y = Fresh(b, &whole);
  const int64_t largest = INT64_MAX;
  Copy(b, y, clamped);
  SelectTo(b, Binary(b, "aten::ge", "Tensor_out", x, Number(b, WEFT_F64, reach), &flags),
           Constant(b, WEFT_I64, 0, NULL, &largest), y, to);
}

int Casted(Build* b, int v, WeftDType dtype) {
  if (b->status != WEFT_OK || TypeOf(b, v)->dtype == dtype) return v;
  const Type type = Sized(TypeOf(b, v), dtype);
  const int to = Fresh(b, &type);
  CastTo(b, v, to);
  return to;
}

void Fill(Build* b, int v, double number) {
  if (b->status == WEFT_OK) Copy(b, v, Number(b, TypeOf(b, v)->dtype, number));
}

void SumTo(Build* b, int x, const int64_t* axes, int num_axes, bool keep, int to) {
  if (b->status != WEFT_OK) return;
  if (num_axes == 0) {
    Copy(b, to, x); /* no axes would mean all of them */
    return;
  }
  Emit(b, "aten::sum", "IntList_out", "tObYt>-", x, num_axes, axes, (int)keep,
       (int)TypeOf(b, to)->dtype, to);
}

void SumToDims(Build* b, int x, int to) {
  int64_t axes[kMaxRank], dims[kMaxRank];
  int count = 0;
  if (b->status != WEFT_OK) return;
  const Type from = *TypeOf(b, x), type = *TypeOf(b, to);
  const int missing = from.rank - type.rank;
  for (int d = 0; d < from.rank; ++d) {
    dims[d] = d < missing ? 1 : type.dims[d - missing];
    if (d < missing || (dims[d] == 1 && from.dims[d] != 1)) axes[count++] = d;
  }
  SumTo(b, x, axes, count, true, View(b, to, 0, from.rank, dims, NULL));
}

int Padded(Build* b, int x, const int64_t* begin, const int64_t* end, double number) {
  if (b->status != WEFT_OK) return 0;
  Type type = *TypeOf(b, x);
  bool any = false, more = false;
  for (int d = 0; d < type.rank; ++d) {
    any = any || begin[d] || end[d];
    more = more || begin[d] > 0 || end[d] > 0;
    if (begin[d] < 0 || end[d] < 0) {
      const int64_t first = begin[d] < 0 ? -begin[d] : 0;
      x = Narrowed(b, x, d, first, type.dims[d] - first - (end[d] < 0 ? -end[d] : 0), 1);
    }
    type.dims[d] += begin[d] + end[d];
  }
  if (!any || !more) return x;
  const int whole = Fresh(b, &type);
  Fill(b, whole, number);
  int inside = whole;
  for (int d = 0; d < type.rank; ++d) {
    const int64_t first = begin[d] > 0 ? begin[d] : 0, last = end[d] > 0 ? end[d] : 0;
    if (first || last) inside = Narrowed(b, inside, d, first, type.dims[d] - first - last, 1);
  }
  Copy(b, inside, x);
  return whole;
}
