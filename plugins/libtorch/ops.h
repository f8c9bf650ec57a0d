/* ops.h: how operators of Weft become calls of aten operators. A builder checks what torch would do
 * otherwise than Weft and refuses it with a reason; then, unless it was only asked, emits calls. */
#ifndef WEFT_PLUGINS_LIBTORCH_OPS_H_
#define WEFT_PLUGINS_LIBTORCH_OPS_H_

#include "plan.h"

typedef struct OpRow {
  const char* op;
  WeftStatus (*build)(Build* b, const void* how);
  const void* how;
} OpRow;
typedef struct OpTable {
  const OpRow* rows;
  size_t count;
} OpTable;
extern const OpTable kElementwiseOps, kMovementOps, kIndexingOps, kReductionOps, kMatrixOps,
    kWindowOps, kPoolingOps, kNormalizationOps, kLossOps, kImageOps;
const OpRow* FindOp(const char* op); /* null: not among them */

/* Sets of element types. */
#define TYPE_BIT(dtype) (1u << (dtype))
enum {
  kSingles = TYPE_BIT(WEFT_F32) | TYPE_BIT(WEFT_F64),
  kHalves = TYPE_BIT(WEFT_F16) | TYPE_BIT(WEFT_BF16),
  kFloats = kSingles | kHalves,
  /* torch has the arithmetic of these; of the wider unsigned ones it has the bits. */
  kInts = TYPE_BIT(WEFT_I8) | TYPE_BIT(WEFT_I16) | TYPE_BIT(WEFT_I32) | TYPE_BIT(WEFT_I64) |
          TYPE_BIT(WEFT_U8),
  kUnsigned = TYPE_BIT(WEFT_U16) | TYPE_BIT(WEFT_U32) | TYPE_BIT(WEFT_U64),
  kBools = TYPE_BIT(WEFT_BOOL),
  kNumbers = kInts | kFloats,
  kEights = TYPE_BIT(WEFT_F8E4M3FN) | TYPE_BIT(WEFT_F8E4M3FNUZ) | TYPE_BIT(WEFT_F8E5M2) |
            TYPE_BIT(WEFT_F8E5M2FNUZ) | TYPE_BIT(WEFT_F8E8M0),
  kMovable = kNumbers | kUnsigned | kBools | kEights
};
static inline bool IsIn(WeftDType dtype, uint32_t types) {
  return dtype > 0 && dtype < 32 && (TYPE_BIT(dtype) & types) != 0;
}
static inline bool IsFloat(WeftDType dtype) { return IsIn(dtype, kFloats); }

/* "Op: reason", and the status of a refusal. */
WeftStatus Refuse(const Build* b, const char* format, ...) __attribute__((format(printf, 2, 3)));
/* The types of operand i, result k, which must be of these element types. */
WeftStatus NeedIn(Build* b, int i, uint32_t types, Type* type);
WeftStatus NeedOut(Build* b, int k, uint32_t types, Type* type);
#define TRY(expression)                           \
  do {                                            \
    const WeftStatus try_status = (expression);   \
    if (try_status != WEFT_OK) return try_status; \
  } while (0)
/* Everything is checked: what follows may only fail for want of memory. */
#define CHECKED(b)                \
  do {                            \
    if ((b)->dry) return WEFT_OK; \
  } while (0)

int64_t IntAttr(const Build* b, const char* name, int64_t otherwise);
double FloatAttr(const Build* b, const char* name, double otherwise);
bool TextAttrIs(const Build* b, const char* name, const char* text);
/* How many there are, at most kMaxRank * 2 of them. */
int IntsAttr(const Build* b, const char* name, int64_t* values);
/* A constant vector or scalar of i32 or i64; -1: it is none, or longer than `capacity`. */
int ConstantInts(Build* b, int i, int64_t* values, int capacity);
bool SameDims(const Type* a, const Type* b);
bool KnownDims(const Type* type);

/* Values from values, in scratch; `type` is that of the result. `To`: written to a value. */
int Unary(Build* b, const char* op, int x);
void UnaryTo(Build* b, const char* op, int x, int to);
int Binary(Build* b, const char* op, const char* overload, int x, int y, const Type* type);
void BinaryTo(Build* b, const char* op, const char* overload, int x, int y, int to);
int Select(Build* b, int condition, int x, int y, const Type* type);
void SelectTo(Build* b, int condition, int x, int y, int to);
/* x + y, x - y in the element type of both; integers wrap. */
int Add(Build* b, int x, int y, const Type* type);
void GiveSum(Build* b, int k, int x, int y, double sign);
int Scale(Build* b, int x, double factor); /* floats; x where it is 1 */
/* As the operator Cast: floats to integers truncate and saturate. */
WeftStatus CheckCast(const Build* b, WeftDType from, WeftDType to);
void CastTo(Build* b, int from, int to);
int Casted(Build* b, int v, WeftDType dtype);  /* v where it is of that type */
Type Sized(const Type* type, WeftDType dtype); /* of another element type */
void Fill(Build* b, int v, double number);
/* Sums over axes that stay with size 1 in `to`, or are dropped. */
void SumTo(Build* b, int x, const int64_t* axes, int num_axes, bool keep, int to);
/* Sums to dimensions that broadcast to those of x. */
void SumToDims(Build* b, int x, int to);
/* x with `begin` and `end` elements of `number` around it; negative ones cut. */
int Padded(Build* b, int x, const int64_t* begin, const int64_t* end, double number);

#endif /* WEFT_PLUGINS_LIBTORCH_OPS_H_ */
