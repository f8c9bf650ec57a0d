/// interval.h: closed intervals of 64-bit integers with saturating ends.
///
/// INT64_MIN as `lo` and INT64_MAX as `hi` mean "no bound". Every operation returns an interval
/// that contains all results of the operation on mathematical integers, clipped to 64 bits: a value
/// that leaves 64 bits makes evaluation throw, so a clipped end is still a true bound of every
/// value that can be observed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/support/checked.h"
#include "weft/sym/sym.h"

namespace weft::sym {

inline constexpr int64_t kMinusInf = INT64_MIN;
inline constexpr int64_t kPlusInf = INT64_MAX;

inline int64_t Clip(__int128 v) {
  if (v < static_cast<__int128>(INT64_MIN)) return INT64_MIN;
  if (v > static_cast<__int128>(INT64_MAX)) return INT64_MAX;
  return static_cast<int64_t>(v);
}

inline Range RangeAdd(Range a, Range b) {
  return {
      a.lo == kMinusInf || b.lo == kMinusInf ? kMinusInf : Clip(static_cast<__int128>(a.lo) + b.lo),
      a.hi == kPlusInf || b.hi == kPlusInf ? kPlusInf : Clip(static_cast<__int128>(a.hi) + b.hi)};
}

/// One corner of a product; an infinite end times zero is zero, since the end stands for finite
/// values of any size.
inline __int128 Corner(int64_t a, int64_t b) {
  return a == 0 || b == 0 ? 0 : static_cast<__int128>(a) * b;
}

inline Range RangeMul(Range a, Range b) {
  // With infinite ends taken as the largest 64-bit values, a product of an infinite end with
  // anything but 0 is at least that large (|b| >= 1), so clipping gives back the infinite end of
  // the right sign.
  const __int128 c[4] = {Corner(a.lo, b.lo), Corner(a.lo, b.hi), Corner(a.hi, b.lo),
                         Corner(a.hi, b.hi)};
  __int128 lo = c[0], hi = c[0];
  for (const __int128 v : c) {
    lo = std::min(lo, v);
    hi = std::max(hi, v);
  }
  Range r{Clip(lo), Clip(hi)};
  // -INT64_MAX arises from +inf * -1: treat it as unbounded too.
  if (r.lo <= -INT64_MAX) r.lo = kMinusInf;
  return r;
}

inline Range RangeMeet(Range a, Range b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }
inline Range RangeJoin(Range a, Range b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

/// floor(p / q); a divisor of 0 has no result, so a non-negative q counts as positive.
inline Range RangeFloorDiv(Range p, Range q) {
  if (q.lo < 0) return {};
  q.lo = std::max<int64_t>(q.lo, 1);
  if (q.hi < q.lo) return {};
  Range r;
  if (p.lo != kMinusInf) {
    r.lo = p.lo >= 0 ? (q.hi == kPlusInf ? 0 : p.lo / q.hi) : FloorDivide(p.lo, q.lo);
  }
  if (p.hi != kPlusInf) {
    r.hi = p.hi >= 0 ? p.hi / q.lo : (q.hi == kPlusInf ? -1 : FloorDivide(p.hi, q.hi));
  }
  return r;
}

/// p mod q with the sign of q.
inline Range RangeMod(Range p, Range q) {
  if (q.lo < 0) return {};
  Range r{0, q.hi == kPlusInf ? kPlusInf : std::max<int64_t>(q.hi - 1, 0)};
  if (p.lo >= 0) r.hi = std::min(r.hi, p.hi);
  if (p.lo >= 0 && p.hi < q.lo) r.lo = p.lo;
  return r;
}

}  // namespace weft::sym
