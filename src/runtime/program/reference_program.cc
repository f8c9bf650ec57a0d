/// reference_program.cc: the program of backends without generated kernels: the
/// Evaluator, node by node.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "result_tensors.h"
#include "weft/core/graph/variable.h"
#include "weft/core/pass/evaluator.h"
#include "weft/support/check.h"

namespace weft {
namespace {

class ReferenceProgram final : public Program::Impl {
 public:
  explicit ReferenceProgram(Graph graph) {
    const Evaluator* e = GetEvaluator();
    WEFT_CHECK(e, kUnsupported, "no evaluator is registered");
    std::string bad;
    for (NodePtr p : graph.AllInputs())
      if (DeclaredType(p).kind == TypeKind::kOpaque)
        bad += fmt::format("\n  {}: values of its type are not supported", p->Describe());
    for (NodePtr n : graph.TopoOrder()) {
      if (n->is_variable()) continue;
      ++stats_.interpreted;
      if (const std::string why = e->WhyNot(n); !why.empty())
        bad += fmt::format("\n  {}: {}", n->Describe(), why);
    }
    WEFT_CHECK(bad.empty(), kUnsupported, "the reference backend cannot run these nodes:{}", bad);
    graph_ = std::move(graph);
  }

  std::unique_ptr<State> NewState() const override { return std::make_unique<State>(); }
  void Run(State& state, const std::vector<TensorPtr>& inputs,
           std::vector<std::shared_ptr<Tensor>>* outputs) const override {
    StateMap contents;
    for (size_t i = 0; i < variables_.size(); ++i)
      contents[variables_[i].name] = state.variables[i];
    EvalOptions options;
    options.state = &contents;
    const SymBindings sizes = SizesOf(inputs);
    std::vector<TensorPtr> results = Evaluate(inputs, sizes, options);
    for (size_t i = 0; i < results.size(); ++i) {
      // A result that is an input or a parameter is not the caller's to write: it gets a copy.
      const bool own = results[i].use_count() == 1 && results[i]->is_tensor() && !state.make_result;
      (*outputs)[i] =
          own ? std::const_pointer_cast<Tensor>(results[i]) : NewResultOf(state, i, *results[i]);
    }
    // The new contents are tensors of their own until here: one may have
    // come from another variable.
    for (size_t i = 0; i < variables_.size(); ++i) {
      const TensorPtr& now = contents[variables_[i].name];
      if (now == state.variables[i]) continue;
      WEFT_CHECK(
          now->dtype() == state.variables[i]->dtype() && now->dims() == state.variables[i]->dims(),
          kShapeMismatch, "variable '{}' of the shape {} is assigned a value of the shape {}",
          variables_[i].name, state.variables[i]->shape().ToString(), now->shape().ToString());
    }
    for (size_t i = 0; i < variables_.size(); ++i) {
      const TensorPtr& now = contents[variables_[i].name];
      if (now != state.variables[i]) CopyContent(*now, state.variables[i].get());
    }
  }

 private:
  /// An operator that a size does not suit names itself; what is known of the symbols and does not
  /// hold is told beside it, or alone where no operator minds.
  std::vector<TensorPtr> Evaluate(const std::vector<TensorPtr>& inputs, const SymBindings& sizes,
                                  const EvalOptions& options) const {
    const Facts facts = graph_.AttrOr<Facts>("facts");
    std::vector<TensorPtr> results;
    try {
      results = GetEvaluator()->Eval(graph_, inputs, options);
    } catch (Error& e) {
      try {
        facts.CheckHolds(sizes);
      } catch (const Error& broken) {
        if (e.hint().empty()) e.SetHint(broken.message());
      }
      throw;
    }
    facts.CheckHolds(sizes);
    return results;
  }

  /// Of the symbols. Inputs have to agree about them, as the binding of a plan checks it.
  SymBindings SizesOf(const std::vector<TensorPtr>& inputs) const {
    struct Bound {
      int64_t value;
      const std::string* input;
    };
    std::map<std::string, Bound> bound;
    const std::vector<NodePtr> variables = graph_.AllInputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::optional<Shape> declared = DeclaredShape(variables[i]);
      const std::string& name = variables[i]->attrs.name;
      for (int d = 0; declared && d < declared->rank() && d < inputs[i]->rank(); ++d) {
        const SymInt s = (*declared)[d];
        if (!s.known() || !s.is_symbol()) continue;
        const int64_t n = inputs[i]->dims()[size_t(d)];
        const auto [it, fresh] = bound.try_emplace(s.symbol_name(), Bound{n, &name});
        WEFT_CHECK(it->second.value == n, kBadInput,
                   "the dimension '{}' is {} in input '{}' and {} in input '{}'", s.ToString(),
                   it->second.value, *it->second.input, n, name);
      }
    }
    SymBindings symbols;
    for (const auto& [name, b] : bound) symbols.emplace(name, b.value);
    return symbols;
  }
};

}  // namespace

std::shared_ptr<Tensor> OwnCopy(const Tensor& t) {
  if (!t.is_tensor()) return std::make_shared<Tensor>(t);  // nobody writes to what a list holds
  auto copy = std::make_shared<Tensor>(t.dtype(), t.dims());
  CopyContent(t, copy.get());
  return copy;
}

std::shared_ptr<Tensor> OwnCopy(const Tensor& t,
                                const std::vector<std::shared_ptr<Tensor>>& variables) {
  const auto is_variable = [&](const TensorPtr& e) {
    return std::find(variables.begin(), variables.end(), e) != variables.end();
  };
  const std::vector<TensorPtr>& held = t.elements();
  if (t.is_tensor() || std::none_of(held.begin(), held.end(), is_variable)) return OwnCopy(t);
  std::vector<TensorPtr> elements = held;
  for (TensorPtr& e : elements)
    if (is_variable(e)) e = OwnCopy(*e);
  return std::const_pointer_cast<Tensor>(Tensor::List(t.type(), std::move(elements)));
}

void CopyContent(const Tensor& from, Tensor* to) {
  if (from.dtype() == DType::kString)
    to->mutable_strings() = from.strings();
  else if (from.num_bytes() > 0)
    std::memmove(to->mutable_data(), from.data(), size_t(from.num_bytes()));
}

std::unique_ptr<Program::Impl> MakeReferenceProgram(Graph graph) {
  return std::make_unique<ReferenceProgram>(std::move(graph));
}

}  // namespace weft
