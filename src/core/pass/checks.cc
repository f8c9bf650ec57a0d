/// checks.cc: what a pass claims, tested. A failed claim is kCheckFailed and names the
/// pass and the claim.
#include "checks.h"

#include <algorithm>
#include <unordered_map>

#include "core/tensor/tolerance.h"
#include "resolve.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"
#include "weft/support/hash.h"

namespace weft {
namespace {

[[noreturn]] void Lie(const PassEntry& pass, const std::string& claim, const std::string& seen) {
  ThrowError(ErrorCode::kCheckFailed,
             fmt::format("pass '{}' claims {}, but {}", pass.name, claim, seen), "",
             fmt::format("fix the pass, or its registration in {}", pass.owner.ToString()));
}

std::string FirstDifference(const std::string& a, const std::string& b) {
  size_t line = 1, begin = 0;
  const size_t n = std::min(a.size(), b.size());
  for (size_t i = 0; i < n && a[i] == b[i]; ++i)
    if (a[i] == '\n') ++line, begin = i + 1;
  auto cut = [&](const std::string& s) {
    return begin < s.size() ? s.substr(begin, s.find('\n', begin) - begin) : std::string("(end)");
  };
  return fmt::format("line {}:\n  {}\n  {}", line, cut(a), cut(b));
}

}  // namespace

uint64_t GraphFingerprint(const Graph& graph) {
  Hasher h;
  auto entry = [&](const NodeEntry& e) { h.Add(e.key().packed()); };
  for (NodeId id = 0; id < graph.id_bound(); ++id) {
    NodePtr n = graph.node(id);
    if (!n) continue;
    h.Add(uint64_t{id});
    h.Add(n->op() ? std::string_view(n->op()->name) : std::string_view());
    h.Add(std::string_view(n->attrs.name));
    for (const auto& [name, value] : n->attrs.dict) {
      h.Add(std::string_view(name));
      if (value.is<TensorPtr>())
        h.Add(value.get<TensorPtr>()->ContentHash());
      else if (value.is<GraphPtr>())
        h.Add(GraphFingerprint(*value.get<GraphPtr>()));  // depth bounded by Limits::depth
      else
        h.Add(std::string_view(std::string(value)));
    }
    for (const NodeEntry& e : n->inputs) entry(e);
    for (Node* d : n->control_deps) h.Add(uint64_t{d->id()});
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    entry(graph.outputs[i]), h.Add(std::string_view(graph.OutputName(i)));
  for (NodePtr p : graph.inputs()) h.Add(uint64_t{p->id()});
  return h.Finish().lo;
}

void CheckUnchanged(const PassEntry& pass, uint64_t before, const Graph& after) {
  if (!pass.changes_graph && GraphFingerprint(after) != before)
    Lie(pass, "not to change the graph (set_change_graph(false))",
        "nodes, edges, names or outputs differ after it");
}

void CheckProvides(const PassEntry& pass, const Graph& after) {
  for (const std::string& name : pass.provides)
    if (!after.HasAttr(name))
      Lie(pass, fmt::format("to provide '{}'", name), "the graph has no such attribute after it");
}

void CheckPreserved(const PassEntry& pass, const Graph& after, const PassOptions& options) {
  std::vector<std::string> names = pass.preserves;
  for (const AttrType* t : ListAttrTypes()) {
    const bool inference = t->name == "shape" || t->name == "dtype";
    if ((inference || pass.preserves_all) && t->kind == AttrKind::kDerived &&
        after.HasAttr(t->name))
      names.push_back(t->name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) {
    const AttrType* t = FindAttrType(name);
    const bool provided_here =
        std::find(pass.provides.begin(), pass.provides.end(), name) != pass.provides.end();
    if (!t || !after.HasAttr(name) || provided_here) continue;
    const PassEntry* provider = nullptr;
    for (const PassEntry* p : ProvidersOf(name))
      if (!provider || p->plevel > provider->plevel) provider = p;
    // Only what a pure analysis computes can be computed again beside the graph.
    if (!provider || !provider->preserves_all || !t->format) continue;
    PassOptions plain;
    plain.target = options.target;
    plain.limits = options.limits;
    Graph again = after;
    again.DropAttr(name);
    again = ApplyPass(std::move(again), provider->name, plain);
    const std::any &kept = *after.attrs.at(name), &fresh = *again.attrs.at(name);
    auto compare = [&](NodeId id, uint32_t index, const std::string& where) {
      const auto a = t->format(kept, id, index), b = t->format(fresh, id, index);
      if (a && (!b || *a != *b) &&
          !(t->consistent && b && t->consistent(kept, fresh, id, index, again)))
        Lie(pass, fmt::format("to preserve '{}'", name),
            fmt::format("{}: it left {}, recomputed it is {}", where, *a, b ? *b : "unknown"));
    };
    if (t->scope == AttrScope::kGraph) {
      compare(0, 0, "the graph");
      continue;
    }
    for (NodePtr n : after.TopoOrder())
      for (uint32_t i = 0; i < (t->scope == AttrScope::kEntry ? n->num_outputs() : 1); ++i)
        compare(n->id(), i, n->Describe());
  }
}

void CheckDeterministic(const PassEntry& pass, const Graph& first, const Graph& second) {
  const std::string a = PrintGraph(first), b = PrintGraph(second);
  if (a != b)
    Lie(pass, "to be deterministic", "two runs on equal graphs differ, " + FirstDifference(a, b));
}

/// Relative tolerance per output: that of the coarsest float among the variables, constants and
/// casts that it is computed from. A pass that may round elsewhere (weights of a folded affine map)
/// does so in that dtype, whatever the dtype of the output itself.
std::vector<double> Tolerances(const Graph& g) {
  std::unordered_map<NodeId, double> of;
  for (NodePtr n : g.TopoOrder()) {
    double t = 0;
    for (const auto& [name, value] : n->attrs.dict) {
      if (value.is<DType>()) t = std::max(t, RelativeTolerance(value.get<DType>()));
      if (value.is<TensorPtr>() && value.get<TensorPtr>())
        t = std::max(t, RelativeTolerance(value.get<TensorPtr>()->dtype()));
    }
    for (const NodeEntry& e : n->inputs)
      if (e.node) t = std::max(t, of[e.node->id()]);
    of[n->id()] = t;
  }
  std::vector<double> out;
  for (const NodeEntry& e : g.outputs) out.push_back(of[e.node->id()]);
  return out;
}

/// The inputs of `after`, given those of `before`: by place where all have stayed, which those of
/// bodies may have no names for, else by name.
std::vector<TensorPtr> InputsFor(const PassEntry& pass, const Graph& after, const Graph& before,
                                 const std::vector<TensorPtr>& given) {
  const std::vector<NodePtr> inputs = after.AllInputs(), old_inputs = before.AllInputs();
  const auto same_name = [](NodePtr a, NodePtr b) { return a->attrs.name == b->attrs.name; };
  if (std::equal(inputs.begin(), inputs.end(), old_inputs.begin(), old_inputs.end(), same_name))
    return given;
  std::vector<TensorPtr> mapped;
  for (const NodePtr& p : inputs) {
    const auto it = std::find_if(old_inputs.begin(), old_inputs.end(),
                                 [&](const NodePtr& q) { return same_name(p, q); });
    if (it == old_inputs.end())
      Lie(pass, "to compute the same", fmt::format("it added the input '{}'", p->attrs.name));
    mapped.push_back(given[size_t(it - old_inputs.begin())]);
  }
  return mapped;
}

void CheckEquivalent(const PassEntry& pass, const Graph& before, const Graph& after,
                     const Checks& checks) {
  if (pass.result == PassResult::kDiffers) return;
  const Evaluator* evaluator = GetEvaluator();
  WEFT_CHECK(evaluator, kCheckFailed,
             "the equivalence check needs an evaluator, and none is registered");
  for (const Graph* g : {&before, &after}) {
    for (NodePtr n : g->TopoOrder()) {
      if (n->is_variable()) continue;
      const std::string why = evaluator->WhyNot(n);
      if (why.empty()) continue;
      const auto& known = checks.equivalence_unavailable;
      if (std::find(known.begin(), known.end(), n->op()->name) != known.end()) return;
      ThrowError(ErrorCode::kCheckFailed,
                 fmt::format("the equivalence check of pass '{}' could not run {}: {}", pass.name,
                             n->Describe(), why),
                 "", "name the op in Checks::equivalence_unavailable if that is accepted");
    }
  }
  const size_t n_before = before.outputs.size(), n_after = after.outputs.size();
  if (pass.result == PassResult::kSame ? n_before != n_after : n_before > n_after)
    Lie(pass, "to keep the outputs", fmt::format("{} outputs became {}", n_before, n_after));
  const std::vector<double> tolerances = Tolerances(before);
  for (uint64_t round = 0; round < 2; ++round) {
    // Extents drawn at random may be ones that the model itself refuses (an index beyond an axis of
    // 1): others are drawn.
    constexpr uint64_t kDraws = 32;
    RandomInputs in;
    std::vector<TensorPtr> want;
    StateMap state, want_state;
    for (uint64_t draw = 0;; ++draw) {
      try {
        in = MakeRandomInputs(before, checks.seed + round + 2 * draw, {}, round == 1);
        want_state = state = in.state;
        EvalOptions options;
        options.state = &want_state;
        want = evaluator->Eval(before, in.tensors, options);
        break;
      } catch (const UserError& e) {
        if (draw + 1 < kDraws) continue;
        ThrowError(
            ErrorCode::kCheckFailed,
            fmt::format(
                "the equivalence check of pass '{}' found no inputs that the graph accepts: {}",
                pass.name, e.message()));
      }
    }
    const std::vector<TensorPtr> mapped = InputsFor(pass, after, before, in.tensors);
    EvalOptions options;
    options.state = &state;
    const auto got = evaluator->Eval(after, mapped, options);
    for (const auto& [name, tensor] : want_state) {
      const auto it = state.find(name);
      if (it == state.end() || !(CompareTensors(*it->second, *tensor) <= 1))
        Lie(pass, "to compute the same",
            fmt::format("variable '{}' holds something else after a run (seed {})", name,
                        checks.seed + round));
    }
    for (size_t i = 0; i < n_before; ++i) {
      if (got[i]->dtype() != want[i]->dtype() || got[i]->dims() != want[i]->dims())
        Lie(pass, "to compute the same",
            fmt::format("output '{}' was {}{} and became {}{}", before.OutputName(i),
                        DTypeName(want[i]->dtype()), want[i]->shape().ToString(),
                        DTypeName(got[i]->dtype()), got[i]->shape().ToString()));
      const double d = CompareTensors(*got[i], *want[i],
                                      std::max(tolerances[i], RelativeTolerance(want[i]->dtype())));
      if (!(d <= 1))
        Lie(pass, "to compute the same",
            fmt::format(
                "output '{}' differs on random inputs: error is {:.3g}x the tolerance (seed {})",
                before.OutputName(i), d, checks.seed + round));
    }
  }
}

}  // namespace weft
