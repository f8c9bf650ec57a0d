/* ops_elementwise.c: operators of one element each. Those that torch lacks are put together from
 * others, for f32 and f64 only: between two of torch's a 16-bit float is rounded. */
#include <math.h>
#include <string.h>

#include "ops.h"

typedef struct Simple {
  const char *op, *overload;
  uint32_t types;
} Simple;

static WeftStatus BuildUnary(Build* b, const void* how) {
  const Simple* simple = (const Simple*)how;
  Type type;
  TRY(NeedIn(b, 0, simple->types, &type));
  CHECKED(b);
  UnaryTo(b, simple->op, In(b, 0), Out(b, 0));
  return b->status;
}

static WeftStatus BuildBinary(Build* b, const void* how) {
  const Simple* simple = (const Simple*)how;
  Type x, y;
  TRY(NeedIn(b, 0, simple->types, &x));
  TRY(NeedIn(b, 1, simple->types, &y));
  if (x.dtype != y.dtype) return Refuse(b, "operands of two element types");
  CHECKED(b);
  BinaryTo(b, simple->op, simple->overload, In(b, 0), In(b, 1), Out(b, 0));
  return b->status;
}

/* Unsigned integers that torch sees as signed keep their order with the highest bit flipped. */
static int Ordered(Build* b, int v) {
  if (b->status != WEFT_OK || !IsIn(TypeOf(b, v)->dtype, kUnsigned)) return v;
  const Type type = *TypeOf(b, v);
  const int64_t highest = (int64_t)((uint64_t)1 << (8 * ElementBytes(type.dtype) - 1));
  return Binary(b, "aten::bitwise_xor", "Tensor_out", v, Constant(b, type.dtype, 0, NULL, &highest),
                &type);
}

static WeftStatus BuildComparison(Build* b, const void* how) {
  Type x, y;
  TRY(NeedIn(b, 0, kNumbers | kUnsigned, &x));
  TRY(NeedIn(b, 1, kNumbers | kUnsigned, &y));
  CHECKED(b);
  const int left = Ordered(b, In(b, 0)), right = Ordered(b, In(b, 1));
  BinaryTo(b, (const char*)how, "Tensor_out", left, right, Out(b, 0));
  return b->status;
}

static WeftStatus BuildSum(Build* b, const void* how) {
  const double sign = *(const double*)how;
  Type type;
  TRY(NeedIn(b, 0, kNumbers | kUnsigned, &type));
  TRY(NeedOut(b, 0, kNumbers | kUnsigned, &type));
  CHECKED(b);
  GiveSum(b, 0, In(b, 0), In(b, 1), sign);
  return b->status;
}

/* Sum and Mean. */
static WeftStatus BuildSums(Build* b, const void* how) {
  const bool mean = how != NULL;
  const int count = weft->node_num_inputs(b->node);
  Type type;
  TRY(NeedOut(b, 0, kSingles, &type));
  CHECKED(b);
  int sum = In(b, 0);
  for (int i = 1; i < count; ++i) sum = Subtract(b, sum, In(b, i), -1.0, &type);
  if (mean && count > 1)
    BinaryTo(b, "aten::div", "out", sum, Number(b, type.dtype, count), Out(b, 0));
  else
    Give(b, 0, sum);
  return b->status;
}

/* Max and Min. */
static WeftStatus BuildExtremum(Build* b, const void* how) {
  const int count = weft->node_num_inputs(b->node);
  Type type;
  TRY(NeedOut(b, 0, kNumbers | kUnsigned, &type));
  CHECKED(b);
  const bool flips = IsIn(type.dtype, kUnsigned);
  if (count == 1) Give(b, 0, In(b, 0));
  int best = count > 1 ? Ordered(b, In(b, 0)) : 0;
  for (int i = 1; i < count; ++i) {
    const bool more = i + 1 < count || flips;
    const int to = more ? Scratch(b, type.dtype, type.rank, type.dims) : Out(b, 0);
    BinaryTo(b, (const char*)how, "out", best, Ordered(b, In(b, i)), to);
    best = to;
  }
  if (count > 1 && flips) Give(b, 0, Ordered(b, best));
  return b->status;
}

/* Can no element of operand i be 0 or -1? torch refuses to divide by 0, and the least integer by -1
 * is a trap of the processor. */
static bool DividesSafely(Build* b, int i) {
  const WeftView* view = InConstant(b, i);
  if (!view || view->num_elements > 4096) return false;
  for (int64_t k = 0; k < view->num_elements; ++k) {
    const unsigned char* at = (const unsigned char*)view->data;
    const int64_t width = ElementBytes(view->dtype);
    int64_t zero = 1, ones = 1;
    for (int64_t byte = 0; byte < width; ++byte) {
      zero = zero && at[k * width + byte] == 0;
      ones = ones && at[k * width + byte] == 255;
    }
    if (zero || ones) return false;
  }
  return true;
}

typedef struct Divisor {
  int safe, zero, minus; /* the divisor with 1 for 0 and -1; where it is 0, where it is -1 */
} Divisor;
static Divisor SafeDivisor(Build* b) {
  Divisor d = {In(b, 1), -1, -1};
  if (b->status != WEFT_OK || DividesSafely(b, 1)) return d;
  const Type type = *TypeOf(b, d.safe), flags = Sized(&type, WEFT_BOOL);
  const int given = d.safe, one = Number(b, type.dtype, 1);
  d.zero = Binary(b, "aten::eq", "Tensor_out", given, Number(b, type.dtype, 0), &flags);
  d.safe = Select(b, d.zero, one, given, &type);
  if (type.dtype == WEFT_U8) return d;
  d.minus = Binary(b, "aten::eq", "Tensor_out", given, Number(b, type.dtype, -1), &flags);
  d.safe = Select(b, d.minus, one, d.safe, &type);
  return d;
}

static WeftStatus BuildDiv(Build* b, const void* how) {
  Type type, by;
  (void)how;
  TRY(NeedIn(b, 0, kNumbers, &type));
  TRY(NeedIn(b, 1, kNumbers, &by));
  TRY(NeedOut(b, 0, kNumbers, &type));
  CHECKED(b);
  if (IsFloat(type.dtype)) {
    BinaryTo(b, "aten::div", "out", In(b, 0), In(b, 1), Out(b, 0));
    return b->status;
  }
  const Divisor d = SafeDivisor(b);
  const int x = In(b, 0);
  int quotient = d.zero < 0 ? Out(b, 0) : Scratch(b, type.dtype, type.rank, type.dims);
  Emit(b, "aten::div", "out_mode", "ttSt>-", x, d.safe, "trunc", quotient);
  if (d.minus >= 0) quotient = Select(b, d.minus, Unary(b, "aten::neg", x), quotient, &type);
  if (d.zero >= 0) SelectTo(b, d.zero, Number(b, type.dtype, 0), quotient, Out(b, 0));
  return b->status;
}

static WeftStatus BuildMod(Build* b, const void* how) {
  Type type, by;
  (void)how;
  /* torch's fmod of floats makes NaN of subnormal and of very large numbers. */
  TRY(NeedIn(b, 0, kInts, &type));
  TRY(NeedIn(b, 1, kInts, &by));
  const bool fmod = IntAttr(b, "fmod", 0) != 0;
  CHECKED(b);
  /* By 0 the remainder is 0 in Weft, as it is by 1. */
  BinaryTo(b, fmod ? "aten::fmod" : "aten::remainder", "Tensor_out", In(b, 0), SafeDivisor(b).safe,
           Out(b, 0));
  return b->status;
}

static WeftStatus BuildPow(Build* b, const void* how) {
  Type type, exponent;
  (void)how;
  TRY(NeedIn(b, 0, kSingles | kInts, &type));
  TRY(NeedIn(b, 1, IsFloat(type.dtype) ? kInts | kSingles : kInts, &exponent));
  if (ElementBytes(exponent.dtype) > ElementBytes(type.dtype) &&
      (!IsFloat(type.dtype) || IsFloat(exponent.dtype)))
    return Refuse(b, "an exponent of more precision than the base");
  if (type.dtype == WEFT_U8 && exponent.dtype != WEFT_U8)
    return Refuse(b, "a signed exponent of u8");
  CHECKED(b);
  BinaryTo(b, "aten::pow", "Tensor_Tensor_out", In(b, 0), Casted(b, In(b, 1), type.dtype),
           Out(b, 0));
  return b->status;
}

static WeftStatus BuildWhere(Build* b, const void* how) {
  Type condition, type;
  (void)how;
  TRY(NeedIn(b, 0, kBools, &condition));
  TRY(NeedIn(b, 1, kMovable, &type));
  CHECKED(b);
  SelectTo(b, In(b, 0), In(b, 1), In(b, 2), Out(b, 0));
  return b->status;
}

static WeftStatus BuildCast(Build* b, const void* how) {
  Type from, to;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &from));
  TRY(NeedOut(b, 0, kMovable, &to));
  TRY(CheckCast(b, from.dtype, to.dtype));
  CHECKED(b);
  if (from.dtype == to.dtype)
    Give(b, 0, In(b, 0));
  else
    CastTo(b, In(b, 0), Out(b, 0));
  return b->status;
}

static WeftStatus BuildRelu(Build* b, const void* how) {
  Type type;
  (void)how;
  TRY(NeedIn(b, 0, kNumbers, &type));
  CHECKED(b);
  BinaryTo(b, "aten::maximum", "out", In(b, 0), Number(b, type.dtype, 0), Out(b, 0));
  return b->status;
}

static WeftStatus BuildClip(Build* b, const void* how) {
  Type type, bound;
  (void)how;
  TRY(NeedIn(b, 0, kNumbers, &type));
  for (int i = 1; i <= 2; ++i)
    if (HasIn(b, i)) TRY(NeedIn(b, i, kNumbers, &bound));
  CHECKED(b);
  int bounds[2];
  for (int i = 0; i < 2; ++i) {
    bounds[i] = In(b, i + 1);
    if (bounds[i] >= 0 && b->status == WEFT_OK) bounds[i] = Reshaped(b, bounds[i], 0, NULL);
  }
  if (bounds[0] < 0 && bounds[1] < 0)
    Give(b, 0, In(b, 0));
  else
    Emit(b, "aten::clamp", "Tensor_out", "t??t>-", In(b, 0), bounds[0], bounds[1], Out(b, 0));
  return b->status;
}

static WeftStatus BuildGelu(Build* b, const void* how) {
  Type type;
  (void)how;
  TRY(NeedIn(b, 0, kSingles | TYPE_BIT(WEFT_F16), &type));
  const bool tanh = TextAttrIs(b, "approximate", "tanh");
  CHECKED(b);
  const int x = In(b, 0);
  if (tanh || type.dtype == WEFT_F64) {
    Emit(b, "aten::gelu", "out", "tst>-", x, tanh ? "tanh" : "none", Out(b, 0));
    return b->status;
  }
  /* The kernel of oneDNN, which torch takes then, overflows; from some tens on the result is x. */
  const Type flags = Sized(&type, WEFT_BOOL);
  const int y = Scratch(b, type.dtype, type.rank, type.dims);
  Emit(b, "aten::gelu", "out", "tst>-", x, "none", y);
  const int large = Binary(b, "aten::gt", "Tensor_out", x, Number(b, type.dtype, 100), &flags);
  SelectTo(b, large, x, y, Out(b, 0));
  return b->status;
}

static WeftStatus BuildSign(Build* b, const void* how) {
  Type type;
  (void)how;
  TRY(NeedIn(b, 0, kNumbers, &type));
  CHECKED(b);
  const int x = In(b, 0);
  if (!IsFloat(type.dtype)) {
    UnaryTo(b, "aten::sign", x, Out(b, 0));
    return b->status;
  }
  const Type flags = Sized(&type, WEFT_BOOL); /* of NaN torch's sign is 0 */
  SelectTo(b, Binary(b, "aten::ne", "Tensor_out", x, x, &flags), x, Unary(b, "aten::sign", x),
           Out(b, 0));
  return b->status;
}

static WeftStatus BuildIsNaN(Build* b, const void* how) {
  Type type;
  (void)how;
  TRY(NeedIn(b, 0, kFloats, &type));
  CHECKED(b);
  BinaryTo(b, "aten::ne", "Tensor_out", In(b, 0), In(b, 0), Out(b, 0));
  return b->status;
}

static WeftStatus BuildIsInf(Build* b, const void* how) {
  Type type;
  (void)how;
  TRY(NeedIn(b, 0, kFloats, &type));
  const bool negative = IntAttr(b, "detect_negative", 1) != 0;
  const bool positive = IntAttr(b, "detect_positive", 1) != 0;
  CHECKED(b);
  if (!negative && !positive) {
    Fill(b, Out(b, 0), 0);
    return b->status;
  }
  const int x = negative && positive ? Unary(b, "aten::abs", In(b, 0)) : In(b, 0);
  BinaryTo(b, "aten::eq", "Tensor_out", x, Number(b, type.dtype, positive ? INFINITY : -INFINITY),
           Out(b, 0));
  return b->status;
}

/* ---- put together ---- */

enum {
  kLeaky,
  kPRelu,
  kElu,
  kCelu,
  kSelu,
  kThresholded,
  kShrink,
  kSoftplus,
  kSoftsign,
  kSwish,
  kHardSigmoid,
  kHardSwish /* torch's own overflows at the largest values */
};

static WeftStatus BuildActivation(Build* b, const void* how) {
  const int kind = *(const int*)how;
  Type t;
  TRY(NeedIn(b, 0, kSingles, &t));
  const double alpha = FloatAttr(b, "alpha", 1), gamma = FloatAttr(b, "gamma", 1);
  if (kind == kCelu && !(alpha > 0)) return Refuse(b, "alpha is not positive");
  CHECKED(b);
  const Type flags = Sized(&t, WEFT_BOOL);
  const int x = In(b, 0), zero = Number(b, t.dtype, 0);
  switch (kind) {
    case kLeaky:
    case kPRelu:
    case kElu:
    case kCelu: {
      const int positive = Binary(b, "aten::ge", "Tensor_out", x, zero, &flags);
      int below;
      if (kind == kLeaky)
        below = Scale(b, x, alpha);
      else if (kind == kPRelu)
        below = Binary(b, "aten::mul", "out", x, In(b, 1), &t);
      else if (kind == kElu)
        below = Scale(b, Unary(b, "aten::expm1", x), alpha);
      else
        below = Scale(b, Unary(b, "aten::expm1", Scale(b, x, 1 / alpha)), alpha);
      SelectTo(b, positive, x, below, Out(b, 0));
      break;
    }
    case kSelu: {
      const int positive = Binary(b, "aten::gt", "Tensor_out", x, zero, &flags);
      SelectTo(b, positive, Scale(b, x, gamma), Scale(b, Unary(b, "aten::expm1", x), gamma * alpha),
               Out(b, 0));
      break;
    }
    case kThresholded:
      SelectTo(b, Binary(b, "aten::gt", "Tensor_out", x, Number(b, t.dtype, alpha), &flags), x,
               zero, Out(b, 0));
      break;
    case kShrink: {
      const double bias = FloatAttr(b, "bias", 0), lambd = FloatAttr(b, "lambd", 0.5);
      const int shift = Number(b, t.dtype, bias);
      const int low = Binary(b, "aten::lt", "Tensor_out", x, Number(b, t.dtype, -lambd), &flags);
      const int high = Binary(b, "aten::gt", "Tensor_out", x, Number(b, t.dtype, lambd), &flags);
      const int inner = Select(b, high, Subtract(b, x, shift, 1, &t), zero, &t);
      SelectTo(b, low, Subtract(b, x, shift, -1, &t), inner, Out(b, 0));
      break;
    }
    case kSoftplus: {
      const int tail = Unary(
          b, "aten::log1p", Unary(b, "aten::exp", Unary(b, "aten::neg", Unary(b, "aten::abs", x))));
      GiveSum(b, 0, Binary(b, "aten::maximum", "out", x, zero, &t), tail, 1);
      break;
    }
    case kSoftsign:
      BinaryTo(b, "aten::div", "out", x,
               Subtract(b, Unary(b, "aten::abs", x), Number(b, t.dtype, 1), -1, &t), Out(b, 0));
      break;
    case kSwish:
      if (alpha == 1)
        UnaryTo(b, "aten::silu", x, Out(b, 0));
      else
        BinaryTo(b, "aten::mul", "out", x, Unary(b, "aten::sigmoid", Scale(b, x, alpha)),
                 Out(b, 0));
      break;
    case kHardSwish: {
      const int sixth = Scale(b, x, 1.0 / 6);
      const int line = Subtract(b, sixth, Number(b, t.dtype, 0.5), -1, &t);
      const int gate = Scratch(b, t.dtype, t.rank, t.dims);
      Emit(b, "aten::clamp", "Tensor_out", "t??t>-", line, zero, Number(b, t.dtype, 1), gate);
      BinaryTo(b, "aten::mul", "out", x, gate, Out(b, 0));
      break;
    }
    default: { /* HardSigmoid */
      const int line =
          Subtract(b, Scale(b, x, alpha), Number(b, t.dtype, FloatAttr(b, "beta", 0.5)), -1, &t);
      Emit(b, "aten::clamp", "Tensor_out", "t??t>-", line, zero, Number(b, t.dtype, 1), Out(b, 0));
    }
  }
  return b->status;
}

static WeftStatus BuildDivideCount(Build* b, const void* how) {
  Type type, count;
  (void)how;
  TRY(NeedIn(b, 0, kSingles, &type));
  TRY(NeedIn(b, 1, kInts, &count));
  CHECKED(b);
  BinaryTo(b, "aten::div", "out", In(b, 0), Casted(b, In(b, 1), type.dtype), Out(b, 0));
  return b->status;
}

/* The bits, which take no call. */
static WeftStatus BuildBitCast(Build* b, const void* how) {
  Type from, to;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &from));
  TRY(NeedOut(b, 0, kMovable & ~kBools, &to)); /* torch's bools are 0 and 1 */
  if (ElementBytes(from.dtype) != ElementBytes(to.dtype)) return Refuse(b, "another width");
  CHECKED(b);
  Give(b, 0, Reread(b, In(b, 0), to.dtype));
  return b->status;
}

/* Inference only. */
static WeftStatus BuildDropout(Build* b, const void* how) {
  Type type;
  (void)how;
  TRY(NeedIn(b, 0, kMovable, &type));
  if (HasIn(b, 2)) {
    const WeftView* training = InConstant(b, 2);
    if (!training || training->num_elements != 1 || *(const unsigned char*)training->data)
      return Refuse(b, "training draws by Weft's generator");
  }
  CHECKED(b);
  Give(b, 0, In(b, 0));
  if (IsUsed(b, 1)) Fill(b, Out(b, 1), 1);
  return b->status;
}

#define UNARY(name, aten, types)                                      \
  {                                                                   \
    name, BuildUnary, &(const Simple) { "aten::" aten, "out", types } \
  }
#define BINARY(name, aten, overload, types)                               \
  {                                                                       \
    name, BuildBinary, &(const Simple) { "aten::" aten, overload, types } \
  }
static const double kPlus = 1, kMinus = -1;
#define ACTIVATION(name, kind)                   \
  {                                              \
    name, BuildActivation, &(const int) { kind } \
  }

static const OpRow kRows[] = {
    UNARY("Abs", "abs", kNumbers),
    UNARY("Neg", "neg", kNumbers),
    UNARY("Exp", "exp", kFloats),
    UNARY("Log", "log", kFloats),
    UNARY("Sqrt", "sqrt", kFloats),
    UNARY("Reciprocal", "reciprocal", kFloats),
    UNARY("Sigmoid", "sigmoid", kFloats),
    UNARY("Tanh", "tanh", kFloats),
    UNARY("Erf", "erf", kFloats),
    UNARY("Sin", "sin", kFloats),
    UNARY("Cos", "cos", kFloats),
    UNARY("Tan", "tan", kFloats),
    UNARY("Asin", "asin", kFloats),
    UNARY("Acos", "acos", kFloats),
    UNARY("Atan", "atan", kFloats),
    UNARY("Sinh", "sinh", kFloats),
    UNARY("Cosh", "cosh", kFloats),
    UNARY("Asinh", "asinh", kFloats),
    UNARY("Acosh", "acosh", kFloats),
    UNARY("Atanh", "atanh", kFloats),
    UNARY("Ceil", "ceil", kFloats),
    UNARY("Floor", "floor", kFloats),
    UNARY("Round", "round", kFloats),
    UNARY("Mish", "mish", kSingles),
    UNARY("Not", "logical_not", kBools),
    UNARY("BitwiseNot", "bitwise_not", kInts | kUnsigned),
    BINARY("Mul", "mul", "out", kNumbers | kUnsigned),
    BINARY("Equal", "eq", "Tensor_out", kNumbers | kUnsigned | kBools),
    {"Less", BuildComparison, "aten::lt"},
    {"LessOrEqual", BuildComparison, "aten::le"},
    {"Greater", BuildComparison, "aten::gt"},
    {"GreaterOrEqual", BuildComparison, "aten::ge"},
    BINARY("And", "logical_and", "out", kBools),
    BINARY("Or", "logical_or", "out", kBools),
    BINARY("Xor", "logical_xor", "out", kBools),
    BINARY("BitwiseAnd", "bitwise_and", "Tensor_out", kInts | kUnsigned),
    BINARY("BitwiseOr", "bitwise_or", "Tensor_out", kInts | kUnsigned),
    BINARY("BitwiseXor", "bitwise_xor", "Tensor_out", kInts | kUnsigned),
    {"Add", BuildSum, &kPlus},
    {"Sub", BuildSum, &kMinus},
    {"Sum", BuildSums, NULL},
    {"Mean", BuildSums, &kPlus},
    {"Max", BuildExtremum, "aten::maximum"},
    {"Min", BuildExtremum, "aten::minimum"},
    {"Div", BuildDiv, NULL},
    {"Mod", BuildMod, NULL},
    {"Pow", BuildPow, NULL},
    {"Where", BuildWhere, NULL},
    {"Cast", BuildCast, NULL},
    {"CastLike", BuildCast, NULL},
    {"Relu", BuildRelu, NULL},
    {"Clip", BuildClip, NULL},
    {"Gelu", BuildGelu, NULL},
    {"Sign", BuildSign, NULL},
    {"IsNaN", BuildIsNaN, NULL},
    {"IsInf", BuildIsInf, NULL},
    ACTIVATION("LeakyRelu", kLeaky),
    ACTIVATION("PRelu", kPRelu),
    ACTIVATION("Elu", kElu),
    ACTIVATION("Celu", kCelu),
    ACTIVATION("Selu", kSelu),
    ACTIVATION("ThresholdedRelu", kThresholded),
    ACTIVATION("Shrink", kShrink),
    ACTIVATION("Softplus", kSoftplus),
    ACTIVATION("Softsign", kSoftsign),
    ACTIVATION("Swish", kSwish),
    ACTIVATION("HardSigmoid", kHardSigmoid),
    ACTIVATION("HardSwish", kHardSwish),
    {"weft::DivideCount", BuildDivideCount, NULL},
    {"Dropout", BuildDropout, NULL},
    {"BitCast", BuildBitCast, NULL},
};
const OpTable kElementwiseOps = {kRows, sizeof kRows / sizeof *kRows};
