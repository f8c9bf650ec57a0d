/// scalar_io.cc: elements of every dtype as numbers; sub-byte elements are packed low bits first,
/// as in ONNX.
#include "scalar_io.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "weft/core/tensor/visit_element.h"
#include "weft/support/check.h"

namespace weft {
namespace {

template <class T>
T Load(const void* data, int64_t i) {
  T v;
  std::memcpy(&v, static_cast<const char*>(data) + i * int64_t(sizeof(T)), sizeof v);
  return v;
}

template <class T>
void Store(void* data, int64_t i, T v) {
  std::memcpy(static_cast<char*>(data) + i * int64_t(sizeof(T)), &v, sizeof v);
}

uint8_t LoadBits(const void* data, int64_t i, int bits) {
  const int64_t at = i * bits;
  return uint8_t((static_cast<const uint8_t*>(data)[at / 8] >> (at % 8)) & ((1 << bits) - 1));
}

void StoreBits(void* data, int64_t i, int bits, int v) {
  const int64_t at = i * bits;
  uint8_t& byte = static_cast<uint8_t*>(data)[at / 8];
  const int mask = ((1 << bits) - 1) << (at % 8);
  byte = uint8_t((byte & ~mask) | (int(unsigned(v) << (at % 8)) & mask));
}

/// A float of at most 8 bits.
struct MiniFloat {
  int exponent_bits, mantissa_bits, bias;
  FloatSpecials specials;
};

std::optional<MiniFloat> MiniFloatOf(DType t) {
  const DTypeTraits& f = TraitsOf(t);
  if (f.precision == 0) return std::nullopt;
  return MiniFloat{f.bits - f.precision, f.precision - 1, 1 - f.min_exponent, f.specials};
}

double DecodeMini(const MiniFloat& f, int code) {
  const int sign = code >> (f.exponent_bits + f.mantissa_bits);
  const int exponent = (code >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const int mantissa = code & ((1 << f.mantissa_bits) - 1);
  const int top = (1 << f.exponent_bits) - 1, full = (1 << f.mantissa_bits) - 1;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (f.specials == FloatSpecials::kFnuz && sign && !exponent && !mantissa) return nan;
  if (f.specials == FloatSpecials::kTopNan && exponent == top && mantissa == full) return nan;
  if (f.specials == FloatSpecials::kIeee && exponent == top) {
    if (mantissa) return nan;
    return sign ? -std::numeric_limits<double>::infinity()
                : std::numeric_limits<double>::infinity();
  }
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits)
                                         : std::ldexp((1 << f.mantissa_bits) + mantissa,
                                                      exponent - f.bias - f.mantissa_bits);
  return sign ? -magnitude : magnitude;
}

/// Nearest code, ties to the even one; beyond the range the largest finite value (ONNX's saturating
/// cast).
int EncodeMini(const MiniFloat& f, double v) {
  const int half = 1 << (f.exponent_bits + f.mantissa_bits);
  if (std::isnan(v)) {
    if (f.specials == FloatSpecials::kFnuz) return half;
    return f.specials == FloatSpecials::kFinite ? 0 : half - 1;
  }
  const double want = std::fabs(v);
  int best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code < half; ++code) {
    const double have = DecodeMini(f, code);
    if (!std::isfinite(have)) continue;
    // Far beyond all of them the difference would lose the smaller number.
    const double distance = want > 0x1p32 ? -have : std::fabs(want - have);
    if (distance < best_distance || (distance == best_distance && code % 2 == 0))
      best = code, best_distance = distance;
  }
  if (f.specials == FloatSpecials::kFnuz && best == 0) return 0;
  return std::signbit(v) ? best + half : best;
}

template <class T>
T Saturate(double v) {
  if (std::isnan(v)) return 0;
  v = std::trunc(v);
  // The upper bound as a double may round up to 2^k, which no longer converts; hence >=.
  if (v <= double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (v >= double(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return T(v);
}

int Clamp(double v, int lo, int hi) {
  if (std::isnan(v)) return 0;
  return v <= lo ? lo : v >= hi ? hi : int(v);
}

int SignExtend(int code, int bits) { return code >= (1 << (bits - 1)) ? code - (1 << bits) : code; }

[[noreturn]] void Refuse(DType t) {
  WEFT_THROW(kTypeMismatch, "an element of dtype {} cannot be read or written as a number",
             DTypeName(t));
}

}  // namespace

double LoadDouble(DType t, const void* data, int64_t i) {
  if (IsComputable(t)) {
    return VisitElement(
        t, [&](auto e) { return double(e.Load(Load<typename decltype(e)::Storage>(data, i))); });
  }
  if (t == DType::kF8E8M0) {
    const uint8_t code = Load<uint8_t>(data, i);
    return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
  }
  if (const auto mini = MiniFloatOf(t)) {
    return DecodeMini(*mini,
                      DTypeBits(t) == 8 ? Load<uint8_t>(data, i) : LoadBits(data, i, DTypeBits(t)));
  }
  return double(LoadInt(t, data, i));
}

int64_t LoadInt(DType t, const void* data, int64_t i) {
  if (IsInt(t) || t == DType::kBool) {
    return VisitElement(
        t, [&](auto e) { return int64_t(e.Load(Load<typename decltype(e)::Storage>(data, i))); });
  }
  switch (t) {
    case DType::kU4:
    case DType::kU2:
      return LoadBits(data, i, DTypeBits(t));
    case DType::kI4:
    case DType::kI2:
      return SignExtend(LoadBits(data, i, DTypeBits(t)), DTypeBits(t));
    case DType::kUnknown:
    case DType::kString:
    case DType::kC64:
    case DType::kC128:
      Refuse(t);
    default:
      return Saturate<int64_t>(LoadDouble(t, data, i));
  }
}

void StoreDouble(DType t, void* data, int64_t i, double v) {
  if (IsComputable(t)) {
    return VisitElement(t, [&](auto e) {
      using Value = typename decltype(e)::Value;
      // Narrow floats by way of float: a double that float rounds to a tie of the narrow type may
      // land one unit off; exact for every value that a float holds, which is all that callers
      // store.
      if constexpr (std::is_same_v<Value, bool>)
        Store(data, i, e.Store(v != 0));
      else if constexpr (std::is_floating_point_v<Value>)
        Store(data, i, e.Store(Value(v)));
      else
        Store(data, i, Saturate<Value>(v));
    });
  }
  switch (t) {
    case DType::kI4:
      return StoreBits(data, i, 4, Clamp(v, -8, 7));
    case DType::kU4:
      return StoreBits(data, i, 4, Clamp(v, 0, 15));
    case DType::kI2:
      return StoreBits(data, i, 2, Clamp(v, -2, 1));
    case DType::kU2:
      return StoreBits(data, i, 2, Clamp(v, 0, 3));
    case DType::kF8E8M0:
      return Store(data, i,
                   std::isnan(v) || v <= 0
                       ? uint8_t(255)
                       : uint8_t(Clamp(std::nearbyint(std::log2(v)) + 127, 0, 254)));
    default:
      break;
  }
  const auto mini = MiniFloatOf(t);
  if (!mini) Refuse(t);
  const int code = EncodeMini(*mini, v);
  DTypeBits(t) == 8 ? Store(data, i, uint8_t(code)) : StoreBits(data, i, DTypeBits(t), code);
}

void StoreInt(DType t, void* data, int64_t i, int64_t v) {
  if (IsInt(t) || t == DType::kBool) {
    return VisitElement(t, [&](auto e) {
      if constexpr (std::is_integral_v<typename decltype(e)::Value>)
        Store(data, i, e.Store(typename decltype(e)::Value(v)));
    });
  }
  switch (t) {
    case DType::kI4:
    case DType::kU4:
      return StoreBits(data, i, 4, int(v & 15));
    case DType::kI2:
    case DType::kU2:
      return StoreBits(data, i, 2, int(v & 3));
    default:
      return StoreDouble(t, data, i, double(v));
  }
}

}  // namespace weft
