/// special_run.h: runs of random graphs on NaN, infinities, zeros of both signs,
/// subnormal and huge numbers.
///
/// The error bounds of the graph's entries hold for its intervals, which such numbers leave. What a
/// device may do with them is read off two oracles instead: the interpreter that rounds every value
/// to its dtype, as a device does, and the one in double precision. Where both have NaN, or the
/// same infinity, or nearly the same number, the result is well defined: the order of its sums does
/// not matter, nor where values were rounded, and a device must have it too, NaN for NaN. Where
/// they disagree, something overflowed, cancelled or fell below the smallest number on the way;
/// then an order of sums decides, and nothing is asked. (Sums of infinities need no exception: +inf
/// and -inf in one sum give NaN in any order.) MakeSpecialInputs keeps them away from the two
/// places where engines may or may not multiply by a zero that is not in the model: filters of
/// convolutions, beside padding, and taps of an interpolation with the weight 0.
#pragma once

#include <cmath>
#include <vector>

#include "error_bound.h"
#include "weft/core/pass/evaluator.h"

namespace weft::e2e {

/// What a run must give.
struct Oracles {
  std::vector<TensorPtr> exact;
  std::vector<TensorPtr> typed;  ///< of runs on special numbers; else empty
};
inline Oracles AskOracles(const Graph& g, const std::vector<TensorPtr>& inputs, bool special) {
  EvalOptions options;
  options.typed = false;
  Oracles o;
  o.exact = GetEvaluator()->Eval(g, inputs, options);
  if (special) o.typed = GetEvaluator()->Eval(g, inputs);
  return o;
}

/// How many elements were asked for, of all.
struct Asked {
  int64_t all = 0, asked = 0, nans = 0, infinities = 0;
};

inline double RoundingOf(DType t) {
  return t == DType::kF16 ? 0x1p-11 : t == DType::kBF16 ? 0x1p-8 : 0x1p-24;
}

/// Empty when `got` is what both oracles say. `error`: the bound of ordinary runs.
inline std::string CompareSpecial(const Tensor& got, const Tensor& exact, const Tensor& typed,
                                  double error, Asked* asked = nullptr) {
  std::ostringstream why;
  if (got.dtype() != exact.dtype() || got.dims() != exact.dims()) return "another dtype or extents";
  const bool real = IsFloat(got.dtype());
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const auto at = [&](const Tensor& t) { return real ? t.at(i) : double(t.at_int(i)); };
    const double g = at(got), e = at(exact), t = at(typed);
    if (asked) ++asked->all;
    double allowed = 0;
    if (std::isnan(e) || std::isnan(t) || std::isinf(e) || std::isinf(t)) {
      if (!(e == t || (std::isnan(e) && std::isnan(t)))) continue;
    } else if (real && error > 0) {
      const double spread = std::fabs(e - t),
                   scale = 64 * error + 1e3 * RoundingOf(got.dtype()) * std::fabs(e);
      if (spread > scale) continue;
      allowed = scale + 8 * spread;
    } else if (e != t) {
      continue;
    }
    if (asked) {
      ++asked->asked;
      asked->nans += std::isnan(e);
      asked->infinities += std::isinf(e);
    }
    if (g == e || (std::isnan(g) && std::isnan(e)) || std::fabs(g - e) <= allowed) continue;
    why.precision(9);
    why << "element " << i << " is " << g << ", want " << e << " (" << t
        << " rounded on the way) within " << allowed;
    return why.str();
  }
  return {};
}

inline std::string CompareResult(const Tensor& got, const Oracles& want, size_t i, double error,
                                 Asked* asked = nullptr) {
  return want.typed.empty() ? Compare(got, *want.exact[i], error)
                            : CompareSpecial(got, *want.exact[i], *want.typed[i], error, asked);
}

}  // namespace weft::e2e
