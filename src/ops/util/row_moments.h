/// row_moments.h: mean and variance of what a kernel reduces, right also where the mean is
/// large against the deviation.
///
/// E[x^2] - E[x]^2 is wrong where mean / deviation is some hundreds, and a mean of one float is
/// where it is 1e4. Three ways are right whatever the mean is:
///   shifted     n known, up to f32: with d = x - s for an element s of the row, mean = s + E[d],
///               variance = E[d^2] - E[d]^2, in one pass. The variance is off by some 2^-24 ((s -
///               mean) / deviation)^2 of itself; an element k deviations away is one of at most n /
///               k^2, and s is the middle one of three, so that no single outlier is taken.
///   corrected   otherwise: d = x - m where m is E[x] as rounded; E[d] corrects both results,
///               whatever m has lost
///   wide        E[x^2] - E[x]^2 in f64 for x up to f32, whose squares are exact: off by 2^-53
///               (mean / deviation)^2. As slow as the second, but one pass, which is what matters
///               where the row lies in pieces (BatchNormalization)
/// The mean comes in two parts; differences to it take both, which costs nothing
/// with a fused multiply-add.
///   source  Chan, Golub, LeVeque 1983: Algorithms for computing the sample variance
#pragma once

#include <algorithm>

#include "shape_util.h"

namespace weft::ops {

struct RowMoments {
  Expr mean, rest;  ///< the mean is their sum
  Expr variance;    ///< of the population, never below 0

  /// (x - mean) / sqrt(variance + epsilon)
  Expr Normal(const Expr& x, double epsilon) const {
    const Expr inverse = InverseDeviation(epsilon);
    return Expr::Fma(Expr::Cast(mean->dtype(), x) - mean, inverse,
                     Expr::Unary(UnOp::kNeg, rest * inverse));
  }
  Expr InverseDeviation(double epsilon) const {
    return CallMath(CallOp::kRsqrt, variance + Expr::Const(variance->dtype(), epsilon));
  }
};

/// What to do with rows whose length only the run knows.
enum class UnknownRows { kCorrected, kWide };

/// Over `extents`, in `t`, f32 or f64; `read` gives the elements, in any dtype up to
/// t. Over nothing: NaN.
inline RowMoments MomentsOver(const std::vector<SymInt>& extents, DType t,
                              const std::function<Expr(const Indices&)>& read,
                              UnknownRows unknown = UnknownRows::kCorrected) {
  const bool known =
      std::all_of(extents.begin(), extents.end(), [](SymInt e) { return e.is_const(); });
  const bool shifts = known && t == DType::kF32;
  const DType sums = !shifts && unknown == UnknownRows::kWide ? DType::kF64 : t;
  const auto value = [&](const Indices& r) { return Expr::Cast(sums, read(r)); };
  const auto mean_of = [&](const std::function<Expr(const Indices&)>& body) {
    return ReduceOver(ReduceOp::kSum, extents, body) / CountOf(extents, sums);
  };
  const auto square_of = [&](const Expr& from) {
    return mean_of([&](const Indices& r) {
      const Expr d = from ? value(r) - from : value(r);
      return d * d;
    });
  };
  // Never below 0: Max passes on a NaN.
  const auto without = [&](const Expr& square, const Expr& mean) {
    return Expr::Cast(t, Max(square - mean * mean, Expr::Const(sums, 0)));
  };
  RowMoments m;
  if (sums != t) {
    const Expr mean = mean_of(value);
    m.mean = Expr::Cast(t, mean);
    m.rest = Expr::Cast(t, mean - Expr::Cast(sums, m.mean));
    m.variance = without(square_of({}), mean);
    return m;
  }
  const SymInt n = Product(extents);
  if (!shifts) {
    m.mean = mean_of(value);
  } else if (n.is(0)) {
    m.mean = Expr::Const(t, 0);
  } else {
    const auto element = [&](int64_t k) { return value(Delinearize(Expr::Int(k), extents)); };
    const Expr a = element(0), b = element(n.value() / 2), c = element(n.value() - 1);
    m.mean = Max(Min(a, b), Min(Max(a, b), c));
  }
  m.rest = mean_of([&](const Indices& r) { return value(r) - m.mean; });
  m.variance = without(square_of(m.mean), m.rest);
  return m;
}

}  // namespace weft::ops
