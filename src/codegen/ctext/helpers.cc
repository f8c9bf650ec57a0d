/// helpers.cc: text of the functions that generated C and CUDA sources are built on.
#include "helpers.h"

#include <cmath>

#include "codegen/expr/scalar.h"
#include "weft/support/check.h"

namespace weft::ctext {
namespace {

std::string Type(DType t) { return std::string(DTypeName(t)); }

/// 2^exponent as a literal of float type `t`.
std::string Power(DType t, int exponent) {
  return fmt::format("0x1p+{}{}", exponent, t == DType::kF32 ? "f" : "");
}

constexpr const char* kTypes =
    R"(typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef float f32; typedef double f64;
)";

// Loads and stores of N elements as one access of up to 16 bytes where the address allows it.
constexpr const char* kVectors = R"(template <int B> struct Raw;
template <> struct Raw<1> { typedef unsigned char type; };
template <> struct Raw<2> { typedef unsigned short type; };
template <> struct Raw<4> { typedef unsigned int type; };
template <> struct Raw<8> { typedef uint2 type; };
template <> struct Raw<16> { typedef uint4 type; };
template <class T, int N> union Vec { typename Raw<sizeof(T) * N>::type raw; T v[N]; };
template <int B> FN bool IsAligned(const void* p) { return ((u64)p & (B - 1)) == 0; }
template <int N, class T> FN u32 ToAligned(const T* p) {
  return (0u - (u32)((u64)p / sizeof(T))) & (N - 1);
}
template <int N, class T> FN Vec<T, N> LoadVec(const T* p) {
  Vec<T, N> r;
  if (IsAligned<sizeof(T) * N>(p)) {
    r.raw = *(const typename Raw<sizeof(T) * N>::type*)p;
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) r.v[k] = p[k];
  }
  return r;
}
template <int N, class T> FN void StoreVec(T* p, const Vec<T, N>& r) {
  if (IsAligned<sizeof(T) * N>(p)) {
    *(typename Raw<sizeof(T) * N>::type*)p = r.raw;
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) p[k] = r.v[k];
  }
}
template <int N, class T> FN Vec<T, N> LoadAligned(const T* p) {
  Vec<T, N> r;
  r.raw = *(const typename Raw<sizeof(T) * N>::type*)p;
  return r;
}
template <int N, class T> FN void StoreAligned(T* p, const Vec<T, N>& r) {
  *(typename Raw<sizeof(T) * N>::type*)p = r.raw;
}
)";

constexpr const char* kPhilox = R"({
  u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0;
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
    c1 = (u32)p1;
    c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c3 = (u32)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0;
})";

// A carry out of the mantissa moves into the exponent, as rounding must; NaN is kept away from
// infinity.
constexpr const char* kToHalf = R"({
  const u32 x = bits_f32_u32(v), s = x >> 16 & 0x8000u, a = x & 0x7fffffffu;
  if (a > 0x7f800000u) return (u16)(s | 0x7e00u);
  if (a >= 0x477ff000u) return (u16)(s | 0x7c00u);
  if (a < 0x38800000u) return (u16)(s | (bits_f32_u32(fabsf(v) + 0.5f) - 0x3f000000u));
  return (u16)(s | (a + 0xfffu + (a >> 13 & 1u) - 0x38000000u) >> 13);
})";
constexpr const char* kFromHalf = R"({
  const u32 s = (u32)(h & 0x8000u) << 16, e = h >> 10 & 31u, m = h & 1023u;
  if (e == 31u) return bits_u32_f32(s | 0x7f800000u | m << 13);
  if (e == 0u) return s ? -((f32)m * 0x1p-24f) : (f32)m * 0x1p-24f;
  return bits_u32_f32(s | (e + 112u) << 23 | m << 13);
})";
constexpr const char* kToBFloat = R"({
  const u32 x = bits_f32_u32(v);
  if ((x & 0x7fffffffu) > 0x7f800000u) return (u16)(x >> 16 | 0x40u);
  return (u16)((x + 0x7fffu + (x >> 16 & 1u)) >> 16);
})";
constexpr const char* kCudaToHalf = R"({
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
})";
constexpr const char* kCudaFromHalf = R"({
  f32 v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
  return v;
})";

}  // namespace

std::string ValueType(DType t) {
  if (t == DType::kBool) return "pred";
  WEFT_ICHECK(IsComputable(t), "type {} has no values in a kernel", DTypeName(t));
  return Type(AccumulatorOf(t));
}

std::string StorageType(DType t) {
  if (t == DType::kBool) return "u8";
  if (IsNarrowFloat(t)) return fmt::format("u{}", DTypeBits(t));
  return ValueType(t);
}

std::string WrapType(DType t) { return DTypeBits(t) == 64 ? "u64" : "u32"; }

std::string Helpers::Add(const std::string& name, const std::string& result,
                         const std::string& args, const std::string& body) {
  if (known_.insert(name).second)
    text_ += fmt::format("FN {} {}({}) {}\n", result, name, args, body);
  return name;
}

std::string Helpers::Literal(DType t, uint64_t bits) {
  const auto f32 = [&](float v) {
    if (std::isfinite(v)) return fmt::format(std::signbit(v) ? "({:a}f)" : "{:a}f", double(v));
    return fmt::format("{}({:#x}u)", Bits(DType::kU32, DType::kF32), scalar::BitCast<uint32_t>(v));
  };
  if (t == DType::kF64) {
    const auto v = scalar::BitCast<double>(bits);
    if (std::isfinite(v)) return fmt::format(std::signbit(v) ? "({:a})" : "{:a}", v);
    return fmt::format("{}({:#x}ull)", Bits(DType::kU64, DType::kF64), bits);
  }
  if (IsFloat(t)) return f32(WidenFloat(t, uint32_t(bits)));
  switch (t) {
    case DType::kBool:
      return bits & 1 ? "1" : "0";
    case DType::kU8:
      return fmt::format("{}u", uint8_t(bits));
    case DType::kU16:
      return fmt::format("{}u", uint16_t(bits));
    case DType::kU32:
      return fmt::format("{}u", uint32_t(bits));
    case DType::kU64:
      return fmt::format("{}ull", bits);
    default:
      break;
  }
  const int width = DTypeBits(t);
  const auto v = int64_t(bits << (64 - width)) >> (64 - width);
  const char* suffix = v >= INT32_MIN && v <= INT32_MAX ? "" : "ll";
  // -2^31 and -2^63 have no literal of their own type.
  if (v == INT32_MIN || v == INT64_MIN) return fmt::format("(-{}{} - 1)", -(v + 1), suffix);
  return v < 0 ? fmt::format("({}{})", v, suffix) : fmt::format("{}{}", v, suffix);
}

std::string Helpers::Binary(BinOp op, DType t) {
  const std::string v = ValueType(t), w = WrapType(t), args = fmt::format("{0} a, {0} b", v);
  const bool floating = IsFloat(t), is_signed = IsSigned(t);
  const std::string negated = fmt::format("({})(({})0 - ({})a)", v, w, w);
  const auto name = [&](const char* op_name) { return fmt::format("{}_{}", op_name, v); };
  switch (op) {
    case BinOp::kMin:
    case BinOp::kMax: {
      const char* order = op == BinOp::kMin ? "<=" : ">=";
      const char* op_name = op == BinOp::kMin ? "min" : "max";
      return Add(
          name(op_name), v, args,
          fmt::format("{{ return a {} b{} ? a : b; }}", order, floating ? " || a != a" : ""));
    }
    case BinOp::kDiv:
      if (!is_signed)
        return Add(name("div"), v, args,
                   fmt::format("{{ return b == 0 ? ({0})0 : ({0})(a / b); }}", v));
      return Add(
          name("div"), v, args,
          fmt::format("{{ return b == 0 ? ({0})0 : b == -1 ? {1} : ({0})(a / b); }}", v, negated));
    case BinOp::kMod:
      if (floating) return t == DType::kF64 ? "fmod" : "fmodf";
      return Add(name("mod"), v, args,
                 fmt::format("{{ return b == 0{1} ? ({0})0 : ({0})(a % b); }}", v,
                             is_signed ? " || b == -1" : ""));
    case BinOp::kFloorDiv:
      if (!is_signed) return Binary(BinOp::kDiv, t);
      return Add(name("floordiv"), v, args,
                 fmt::format("{{\n  if (b == 0) return 0;\n  if (b == -1) return {1};\n"
                             "  const {0} q = ({0})(a / b);\n"
                             "  return ({0})(q - (a % b != 0 && (a < 0) != (b < 0)));\n}}",
                             v, negated));
    case BinOp::kFloorMod:
      if (!is_signed) return Binary(BinOp::kMod, t);
      return Add(
          name("floormod"), v, args,
          fmt::format("{{\n  if (b == 0 || b == -1) return 0;\n  const {0} r = ({0})(a % b);\n"
                      "  return ({0})(r != 0 && (r < 0) != (b < 0) ? r + b : r);\n}}",
                      v));
    case BinOp::kShl:
      return Add(name("shl"), v, args,
                 fmt::format("{{ return (u64)b < {0}u ? ({1})(({2})a << b) : ({1})0; }}",
                             DTypeBits(t), v, w));
    case BinOp::kShr:
      return Add(
          name("shr"), v, args,
          fmt::format("{{ return (u64)b < {0}u ? ({1})(a >> b) : ({1})0; }}", DTypeBits(t), v));
    default:
      WEFT_THROW(kInternal, "operator {} needs no function", int(op));
  }
}

std::string Helpers::ToInt(DType from, DType to) {
  const std::string f = ValueType(from), v = ValueType(to);
  const DType ft = from == DType::kF64 ? DType::kF64 : DType::kF32;
  const int bits = DTypeBits(to);
  const std::string args = f + " x", name = fmt::format("{}_to_{}", f, v);
  if (IsUnsigned(to)) {
    return Add(name, v, args,
               fmt::format("{{ return !(x > 0) ? ({0})0 : x >= {1} ? ({0})~0ull : ({0})x; }}", v,
                           Power(ft, bits)));
  }
  const int64_t max = bits == 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1;
  return Add(name, v, args,
             fmt::format("{{ return x != x ? ({0})0 : x < -{1} ? ({0})(-{2}ll - 1) : x >= {1} ? "
                         "({0}){2}ll : ({0})x; }}",
                         v, Power(ft, bits - 1), max));
}

std::string Helpers::Bits(DType from, DType to) {
  const std::string a = ValueType(from), b = ValueType(to);
  return Add(fmt::format("bits_{}_{}", a, b), b, a + " v",
             fmt::format("{{ union {{ {0} from; {1} to; }} x; x.from = v; return x.to; }}", a, b));
}

std::string Helpers::Widen(DType from) {
  switch (FormatOf(from)) {
    case FloatFormat::kF16:
      if (dialect_ == Dialect::kCuda) return Add("f16_to_f32", "f32", "u16 h", kCudaFromHalf);
      Bits(DType::kU32, DType::kF32);
      return Add("f16_to_f32", "f32", "u16 h", kFromHalf);
    case FloatFormat::kBF16:
      Bits(DType::kU32, DType::kF32);
      return Add("bf16_to_f32", "f32", "u16 h", "{ return bits_u32_f32((u32)h << 16); }");
    case FloatFormat::kF32:
    case FloatFormat::kF64:
    case FloatFormat::kNone:
      break;
  }
  WEFT_THROW(kInternal, "{} is not widened", DTypeName(from));
}

std::string Helpers::Narrow(DType to) {
  switch (FormatOf(to)) {
    case FloatFormat::kF16:
      if (dialect_ == Dialect::kCuda) return Add("f32_to_f16", "u16", "f32 v", kCudaToHalf);
      Bits(DType::kF32, DType::kU32);
      return Add("f32_to_f16", "u16", "f32 v", kToHalf);
    case FloatFormat::kBF16:
      Bits(DType::kF32, DType::kU32);
      return Add("f32_to_bf16", "u16", "f32 v", kToBFloat);
    case FloatFormat::kF32:
    case FloatFormat::kF64:
    case FloatFormat::kNone:
      break;
  }
  WEFT_THROW(kInternal, "nothing is narrowed to {}", DTypeName(to));
}

std::string Helpers::Quotient() {
  return Add("quotient", "u64", "u64 a, u64 b",
             "{ return (a | b) >> 32 ? a / b : (u64)((u32)a / (u32)b); }");
}

std::string Helpers::Philox() { return Add("philox", "u32", "u64 seed, u64 counter", kPhilox); }

std::string Helpers::Broadcast() {
  return Add("bcast", "i64", "i64 a, i64 b", "{ return a == 1 ? b : a; }");
}

void Helpers::UseVectors() {
  if (known_.insert("Vec").second) text_ += kVectors;
}

std::string Helpers::Text() const {
  if (dialect_ == Dialect::kC) {
    return std::string("#include <math.h>\n") + kTypes +
           "typedef _Bool pred;\n#define FN static inline\n" + text_;
  }
  return std::string(kTypes) +
         "typedef bool pred;\n#define FN static __device__ __forceinline__\n" + text_;
}

}  // namespace weft::ctext
