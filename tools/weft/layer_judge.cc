/// layer_judge.cc: see layer_judge.h.
#include "layer_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "check/check_engines.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/flops.h"
#include "weft/core/pass/evaluator.h"
#include "weft/support/error.h"

namespace weft::tool {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Terms that an element is the sum of.
double SumLength(const NodePtr& n, const std::vector<TensorPtr>& operands, const NodeEntry& result,
                 const Tensor& value) {
  ShapeMap shapes;
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i]) shapes.set(n->inputs[i], Shape::OfInts(operands[i]->dims()));
  for (uint32_t i = 0; i < n->num_outputs(); ++i)
    if (i == result.index) shapes.set(NodeEntry(n, i), Shape::OfInts(value.dims()));
  const std::optional<SymInt> flops = FlopsOf(n, shapes);
  if (!flops || !flops->known() || !flops->is_const() || value.num_elements() == 0) return 1;
  return std::max(1.0, double(flops->value()) / double(value.num_elements()) / 2);
}

bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

std::optional<double> JudgeLayer(const NodeEntry& entry,
                                 const std::function<TensorPtr(const NodeEntry&)>& value_of) {
  const NodePtr n = entry.node;
  const TensorPtr got = value_of(entry);
  const Evaluator* evaluator = GetEvaluator();
  if (!got || !IsComputable(got->dtype()) || !evaluator || !evaluator->WhyNot(n).empty() ||
      DrawsAnew(n))
    return std::nullopt;
  std::vector<TensorPtr> operands;
  for (const NodeEntry& e : n->inputs) {
    operands.push_back(e.node ? value_of(e) : nullptr);
    if (e.node && !operands.back()) return std::nullopt;
  }
  const auto evaluate = [&](const std::vector<TensorPtr>& in) {
    EvalOptions options;
    options.typed = false;
    return evaluator->EvalNode(n, in, options)[entry.index];
  };
  try {
    const TensorPtr want = evaluate(operands);
    if (got->dtype() != want->dtype() || got->dims() != want->dims()) return kInfinite;
    const bool real = IsFloat(got->dtype());
    double largest = 0;
    for (int64_t i = 0; real && i < want->num_elements(); ++i)
      if (const double w = std::fabs(want->at(i)); std::isfinite(w)) largest = std::max(largest, w);
    const double length = SumLength(n, operands, entry, *want);
    const double rounding =
        real ? LimitsOf(got->dtype()).roundoff * (16 + 8 * std::sqrt(length)) * largest : 0;
    std::vector<int64_t> apart;
    double worst = 0;
    for (int64_t i = 0; i < want->num_elements(); ++i) {
      if (!real ? got->at_int(i) == want->at_int(i) : Same(got->at(i), want->at(i))) continue;
      const double error = std::fabs(got->at(i) - want->at(i)) / rounding;
      if (error <= 1)
        worst = std::max(worst, error);
      else
        apart.push_back(i);
    }
    if (apart.empty()) return worst;
    // What the last bits of the operands decide.
    std::vector<TensorPtr> nearby;
    for (const int which : {0, 1}) {
      std::vector<TensorPtr> moved;
      for (const TensorPtr& t : operands) moved.push_back(t ? MoveLastBits(t, which) : nullptr);
      nearby.push_back(evaluate(moved));
      if (nearby.back()->dims() != want->dims()) return 0;
    }
    for (const int64_t i : apart) {
      if (!real) {
        const auto agrees = [&](const TensorPtr& t) { return t->at_int(i) == want->at_int(i); };
        if (std::all_of(nearby.begin(), nearby.end(), agrees)) return kInfinite;
        continue;
      }
      const double g = got->at(i), w = want->at(i);
      double spread = 0;
      bool decided = true;
      for (const TensorPtr& t : nearby) {
        const double x = t->at(i);
        if (!Same(x, w) && !(std::isfinite(x) && std::isfinite(w))) decided = false;
        if (std::isfinite(x - w)) spread = std::max(spread, std::fabs(x - w));
      }
      if (!decided) continue;
      const double error = std::fabs(g - w) / (rounding + spread);
      worst = std::max(worst, std::isnan(error) ? kInfinite : error);
    }
    return worst;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace weft::tool
