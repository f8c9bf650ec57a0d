/// ordered_keys.h: elements of any number type as signed integers in their order, so that choosing
/// and sorting is written for two types: NaN is above all numbers and all NaN are equal, and so are
/// -0 and 0.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "weft/core/tensor/visit_element.h"

namespace weft::cpu {

/// 32 bits where the element has no more.
template <class Element>
using KeyOf = std::conditional_t<sizeof(typename Element::Storage) <= 4, int32_t, int64_t>;

/// The bits of a float by sign and magnitude; `infinity`: the largest magnitude of a number.
template <class Key, class Bits>
inline Key FloatKey(Bits bits, Bits infinity) {
  constexpr Bits kSign = Bits(Bits(1) << (sizeof(Bits) * 8 - 1));
  const Bits magnitude = Bits(bits & Bits(~kSign));
  if (magnitude > infinity) return std::numeric_limits<Key>::max();
  return (bits & kSign) ? Key(-Key(magnitude)) : Key(magnitude);
}

/// Of an element as it lies in memory.
template <class Element>
inline KeyOf<Element> OrderedKey(typename Element::Storage stored) {
  using T = typename Element::Storage;
  using Key = KeyOf<Element>;
  if constexpr (std::is_same_v<Element, BoolElement>) {
    return Key(stored != 0);
  } else if constexpr (Element::kNarrowFloat) {
    // The exponent of a half has 5 bits, that of a bfloat16 has 8.
    constexpr bool kHalf =
        std::is_same_v<Element, NarrowElement<uint16_t, HalfToFloat, FloatToHalf>>;
    return FloatKey<Key>(uint16_t(stored), uint16_t(kHalf ? 0x7c00 : 0x7f80));
  } else if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr Bits kInfinity = sizeof(T) == 4 ? Bits(0x7f800000u) : Bits(uint64_t{0x7ff0} << 48);
    Bits bits;
    std::memcpy(&bits, &stored, sizeof bits);
    return FloatKey<Key>(bits, kInfinity);
  } else if constexpr (std::is_unsigned_v<T> && sizeof(T) >= 4) {
    return Key(T(stored) ^ T(T(1) << (sizeof(T) * 8 - 1)));
  } else {
    return Key(T(stored));
  }
}

}  // namespace weft::cpu
