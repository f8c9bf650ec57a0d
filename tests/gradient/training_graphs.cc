/// training_graphs.cc: see training_graphs.h.
#include "tests/gradient/training_graphs.h"

#include <algorithm>
#include <map>
#include <random>

#include "tests/support/random/random_graph.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/variable.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace weft::gradient {
namespace {

double EpsilonOf(DType t) {
  switch (t) {
    case DType::kBF16:
      return 8e-3;
    case DType::kF16:
      return 1e-3;
    case DType::kF64:
      return 1e-12;
    default:
      return 1e-6;
  }
}

}  // namespace

std::optional<Training> MakeTraining(uint64_t seed, std::string* why) {
  const fuzz::RandomGraph random = fuzz::MakeRandomGraph(seed, 14);
  std::mt19937_64 rng(seed);
  Training t;
  t.graph = ApplyPasses(random.graph, {"InferType", "InferShape"});
  Graph& g = t.graph;
  std::vector<NodeEntry> xs;
  NodeEntry loss;
  for (const NodeEntry& y : std::vector<NodeEntry>(g.outputs)) {
    if (!IsFloat(g.GetAttr<TypeMap>("dtype")[y].dtype)) continue;
    const NodeEntry wide = ApplyOp("Cast", {y}, {{"to", DType::kF64}});
    const double weight = 0.25 + double(rng() % 1000) / 1000;
    const NodeEntry term = ApplyOp("ReduceSum", {wide}, {{"keepdims", 0}}) *
                           ScalarLike(y, DType::kF64, rng() % 2 ? weight : -weight);
    loss = loss ? loss + term : term;
  }
  *why = "no float result or operand";
  if (!loss) return std::nullopt;
  for (const NodePtr& n : g.TopoOrder()) {
    for (uint32_t k = 0; k < n->num_outputs(); ++k) {
      const DType d = g.GetAttr<TypeMap>("dtype")[NodeEntry(n, k)].dtype;
      if (IsFloat(d)) t.epsilon = std::max(t.epsilon, EpsilonOf(d));
    }
    if (n->is_variable() && IsFloat(DeclaredType(n).dtype)) xs.emplace_back(n);
  }
  if (xs.empty()) return std::nullopt;
  std::vector<NodeEntry> outputs{loss};
  try {
    for (const NodeEntry& e : Gradients(g, {loss}, xs)) outputs.push_back(e);
  } catch (const UserError& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    *why = e.what();
    return std::nullopt;
  }
  g.outputs = outputs;
  const Tensors given = fuzz::MakeInputs(random, seed % random.bindings.size());
  std::map<std::string, TensorPtr> by_name;
  for (size_t i = 0; i < given.size(); ++i) by_name[random.inputs[i].name] = given[i];
  for (const NodePtr& p : g.AllInputs()) t.inputs.push_back(by_name.at(p->attrs.name));
  return t;
}

}  // namespace weft::gradient
