/// check_verdict.cc: see check_verdict.h.
#include "check_verdict.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common.h"
#include "weft/support/check.h"

namespace weft::tool {
namespace {

/// Relative to a value and to the median of its tensor: sums of some thousand
/// terms in another order.
double ToleranceOf(DType t) {
  switch (FormatOf(t)) {
    case FloatFormat::kF64:
      return 1e-10;
    case FloatFormat::kF16:
      return 1e-2;
    case FloatFormat::kBF16:
      return 5e-2;
    case FloatFormat::kF32:
    case FloatFormat::kNone:
      break;
  }
  return 1e-4;
}
/// How much further than the reference's answers are apart may an engine be?
constexpr double kSlack = 16;

double Median(const Tensor& t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (const double x = std::fabs(t.at(i)); std::isfinite(x)) v.push_back(x);
  if (v.empty()) return 0;
  const auto middle = v.begin() + ptrdiff_t(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}
bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool BothFinite(double a, double b) { return std::isfinite(a) && std::isfinite(b); }

std::string ElementText(const Tensor& t, int64_t i) {
  if (!IsFloat(t.dtype())) return std::to_string(t.at_int(i));
  return std::isnan(t.at(i)) ? "nan" : fmt::format("{:.9g}", t.at(i));  // of either sign
}
std::string Element(int64_t i, const Tensor& got, const Tensor& want) {
  return fmt::format("element {} of {} is {}, expected {}", i, TypeText(want), ElementText(got, i),
                     ElementText(want, i));
}

/// The first integer that differs where all answers are one.
std::string IntegerDifference(const Tensor& got, const Tensor& want, const OtherAnswers& others) {
  std::optional<std::vector<TensorPtr>> asked;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const int64_t w = want.at_int(i);
    if (got.at_int(i) == w) continue;
    if (!asked) asked = others();
    if (std::all_of(asked->begin(), asked->end(), [&](const TensorPtr& t) {
          return t->dims() == want.dims() && t->at_int(i) == w;
        }))
      return Element(i, got, want);
  }
  return {};
}

std::string FloatDifference(const Tensor& got, const Tensor& want, const OtherAnswers& others) {
  const double tolerance = ToleranceOf(want.dtype()), median = Median(want);
  const auto size = [&](double w) { return std::fabs(w) + median; };
  std::vector<int64_t> apart;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const double g = got.at(i), w = want.at(i);
    if (!Same(g, w) && !(BothFinite(g, w) && std::fabs(g - w) <= tolerance * size(w)))
      apart.push_back(i);
  }
  if (apart.empty()) return {};
  const std::vector<TensorPtr> asked = others();
  double spread = 0;  // of the answers, relative
  for (const TensorPtr& t : asked) {
    if (t->dims() != want.dims()) return {};  // how many there are is not decided either
    for (int64_t i = 0; i < want.num_elements(); ++i) {
      const double a = t->at(i), w = want.at(i);
      if (BothFinite(a, w) && a != w) spread = std::max(spread, std::fabs(a - w) / size(w));
    }
  }
  for (int64_t i : apart) {
    const double g = got.at(i), w = want.at(i);
    const bool decided = std::all_of(asked.begin(), asked.end(), [&](const TensorPtr& t) {
      const double a = t->at(i);
      return BothFinite(a, w) || Same(a, w);
    });
    if (!decided) continue;
    if (BothFinite(g, w) && std::fabs(g - w) <= (tolerance + kSlack * spread) * size(w)) continue;
    return Element(i, got, want);
  }
  return {};
}

}  // namespace

std::string DescribeDifference(const Tensor& got, const Tensor& want, const OtherAnswers& others) {
  if (got.dtype() != want.dtype())
    return fmt::format("it is {}, expected {}", TypeText(got), TypeText(want));
  if (got.dims() != want.dims()) {
    for (const TensorPtr& t : others())
      if (t->dims() != want.dims()) return {};
    return fmt::format("it is {}, expected {}", TypeText(got), TypeText(want));
  }
  if (want.dtype() == DType::kString)
    return got.strings() == want.strings() ? "" : "strings differ";
  if (!IsComputable(want.dtype())) return got.Equals(want) ? "" : "bytes differ";
  return IsFloat(want.dtype()) ? FloatDifference(got, want, others)
                               : IntegerDifference(got, want, others);
}

}  // namespace weft::tool
