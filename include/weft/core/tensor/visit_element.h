/// visit_element.h: C++ types of the elements that kernels compute with, chosen by dtype.
#pragma once

#include "weft/core/tensor/dtype.h"
#include "weft/support/check.h"

namespace weft {

/// An element that is computed with as it is stored.
template <class T>
struct PlainElement {
  using Storage = T;
  using Value = T;
  static constexpr bool kNarrowFloat = false;
  static T Load(T v) { return v; }
  static T Store(T v) { return v; }
};
/// Any byte but 0 is true.
struct BoolElement {
  using Storage = uint8_t;
  using Value = bool;
  static constexpr bool kNarrowFloat = false;
  static bool Load(uint8_t v) { return v != 0; }
  static uint8_t Store(bool v) { return v; }
};
/// A float that is computed with in f32.
template <class S, float (*widen)(S), S (*narrow)(float)>
struct NarrowElement {
  using Storage = S;
  using Value = float;
  static constexpr bool kNarrowFloat = true;
  static float Load(S bits) { return widen(bits); }
  static S Store(float v) { return narrow(v); }
};

/// f(element of dtype `t`), one of the classes above; `t` is computable. Call it before a loop, not
/// inside.
template <class F>
auto VisitElement(DType t, F&& f) {
  switch (t) {
    case DType::kBool:
      return f(BoolElement());
    case DType::kI8:
      return f(PlainElement<int8_t>());
    case DType::kI16:
      return f(PlainElement<int16_t>());
    case DType::kI32:
      return f(PlainElement<int32_t>());
    case DType::kI64:
      return f(PlainElement<int64_t>());
    case DType::kU8:
      return f(PlainElement<uint8_t>());
    case DType::kU16:
      return f(PlainElement<uint16_t>());
    case DType::kU32:
      return f(PlainElement<uint32_t>());
    case DType::kU64:
      return f(PlainElement<uint64_t>());
    default:
      break;
  }
  switch (FormatOf(t)) {
    case FloatFormat::kF16:
      return f(NarrowElement<uint16_t, HalfToFloat, FloatToHalf>());
    case FloatFormat::kBF16:
      return f(NarrowElement<uint16_t, BFloat16ToFloat, FloatToBFloat16>());
    case FloatFormat::kF32:
      return f(PlainElement<float>());
    case FloatFormat::kF64:
      return f(PlainElement<double>());
    case FloatFormat::kNone:
      break;
  }
  WEFT_THROW(kInternal, "elements of {} are not computed with", DTypeName(t));
}

}  // namespace weft
