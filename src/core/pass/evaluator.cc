/// evaluator.cc: the registered evaluator, random inputs for a graph, and
/// the comparison of results.
#include "weft/core/pass/evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "core/tensor/tolerance.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/support/check.h"

namespace weft {
namespace {

std::unique_ptr<Evaluator>& Slot() {
  static auto* slot = new std::unique_ptr<Evaluator>;
  return *slot;
}

/// The domain of a graph input: the narrowest one that any reader asks for. Only the input itself
/// counts; what an op makes of it is the op's business.
InputDomain DomainOf(NodePtr input) {
  InputDomain d;
  const auto& domains = Op::GetAttr<FInputDomains>("FInputDomains");
  for (const Use& u : input->uses()) {
    if (u.control) continue;
    const FInputDomains* f = domains.find(u.user->op());
    if (!f) continue;
    const auto list = (*f)(NodePtr(u.user));
    if (u.slot < list.size() && list[u.slot].kind != InputDomain::kAny) return list[u.slot];
  }
  return d;
}

double Draw(std::mt19937_64& rng, DType t, const InputDomain& d, int64_t index_extent) {
  auto unit = [&] { return double(rng() >> 11) * 0x1p-53; };  // [0, 1), the same on every platform
  if (t == DType::kBool) return double(rng() & 1);
  if (d.kind == InputDomain::kIndex)
    return double(int64_t(rng() % uint64_t(std::max<int64_t>(index_extent, 1))));
  if (IsFloat(t)) {
    const double v = unit() * 4 - 2;
    switch (d.kind) {
      case InputDomain::kPositive:
        return std::fabs(v) + 0.125;
      case InputDomain::kNonZero:
        return v < 0 ? v - 0.125 : v + 0.125;
      case InputDomain::kUnit:
        return v / 2.5;
      default:
        return v;
    }
  }
  const int64_t v = int64_t(rng() % 11);
  if (d.kind == InputDomain::kPositive || d.kind == InputDomain::kNonZero ||
      d.kind == InputDomain::kShapeValue)
    return double(1 + v % 5);
  return double(IsUnsigned(t) ? v : v - 5);
}

}  // namespace

const Evaluator* GetEvaluator() { return Slot().get(); }
void SetEvaluator(std::unique_ptr<Evaluator> evaluator) { Slot() = std::move(evaluator); }

RandomInputs MakeRandomInputs(const Graph& graph, uint64_t seed, const SymBindings& bind,
                              bool allow_zero) {
  std::mt19937_64 rng(seed);
  RandomInputs out;
  out.bindings = bind;
  std::vector<NodePtr> inputs = graph.AllInputs();
  const size_t fed = inputs.size();
  for (NodePtr v : StateVariables(graph))
    if (!v->has_attr("value")) inputs.push_back(v);
  auto extent = [&](SymInt s) -> int64_t {
    if (!s.known()) return 1 + int64_t(rng() % 3);
    for (SymInt symbol : s.Symbols()) {
      if (out.bindings.count(symbol.symbol_name())) continue;
      static constexpr int64_t kSmall[] = {1, 2, 3, 5};
      out.bindings[symbol.symbol_name()] = allow_zero && rng() % 8 == 0 ? 0 : kSmall[rng() % 4];
    }
    return Evaluate(s, out.bindings);
  };
  std::map<const Node*, std::vector<int64_t>> dims_of;
  for (NodePtr p : inputs) {
    std::vector<int64_t> dims;
    if (const std::optional<Shape> shape = DeclaredShape(p))
      for (SymInt d : shape->dims()) dims.push_back(extent(d));
    dims_of[p.get()] = dims;
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    const NodePtr p = inputs[k];
    const Type declared = DeclaredType(p);
    const DType t = declared.known() ? declared.dtype : DType::kF32;
    WEFT_CHECK(declared.is_tensor() && (IsComputable(t) || IsLowBit(t)), kUnsupported,
               "no random values of type {} for input '{}'",
               declared.known() ? declared.ToString() : std::string(DTypeName(t)), p->attrs.name);
    const InputDomain d = DomainOf(p);
    int64_t index_extent = 1;
    if (d.kind == InputDomain::kIndex) {
      for (const Use& u : p->uses()) {
        if (u.control || size_t(d.of) >= u.user->num_inputs()) continue;
        const NodeEntry& of = u.user->inputs[size_t(d.of)];
        std::vector<int64_t> dims;
        if (TensorPtr c = Graph::ConstantOf(of))
          dims = c->dims();
        else if (auto it = dims_of.find(of.node.get()); it != dims_of.end())
          dims = it->second;
        if (size_t(d.axis) < dims.size()) index_extent = dims[size_t(d.axis)];
      }
    }
    auto tensor = std::make_shared<Tensor>(t, dims_of[p.get()]);
    for (int64_t i = 0; i < tensor->num_elements(); ++i) {
      const double v = Draw(rng, ValueTypeOf(t), d, index_extent);
      if (t == DType::kF8E8M0)
        tensor->set(i, std::fabs(v));  // it has no negative numbers
      else if (IsFloat(ValueTypeOf(t)))
        tensor->set(i, v);
      else
        tensor->set_int(i, int64_t(v));
    }
    if (k < fed)
      out.tensors.push_back(tensor);
    else
      out.state[p->attrs.name] = tensor;
  }
  return out;
}

double RelativeTolerance(DType t) {
  switch (FormatOf(t)) {
    case FloatFormat::kF64:
      return 1e-9;
    case FloatFormat::kF32:
      return 2e-5;
    case FloatFormat::kF16:
      return 4e-3;
    case FloatFormat::kBF16:
      return 3e-2;
    case FloatFormat::kNone:
      break;
  }
  return 0;
}

double CompareTensors(const Tensor& got, const Tensor& want, double rtol, double atol) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (got.dtype() != want.dtype() || got.dims() != want.dims()) return kInf;
  if (want.dtype() == DType::kString) return got.strings() == want.strings() ? 0 : kInf;
  if (!IsFloat(want.dtype())) {
    for (int64_t i = 0; i < want.num_elements(); ++i)
      if (got.at_int(i) != want.at_int(i)) return kInf;
    return 0;
  }
  if (rtol < 0) rtol = RelativeTolerance(want.dtype());
  if (atol < 0) atol = rtol;
  double worst = 0;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const double g = got.at(i), w = want.at(i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (std::isnan(g) || std::isnan(w) || std::isinf(g) || std::isinf(w)) return kInf;
    worst = std::max(worst, std::fabs(g - w) / (atol + rtol * std::fabs(w)));
  }
  return worst;
}

}  // namespace weft
