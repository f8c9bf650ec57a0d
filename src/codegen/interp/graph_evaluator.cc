/// graph_evaluator.cc: the Evaluator of the core, by the interpreter: every operator runs
/// by its own FCodeGen, at the sizes of the tensors that come. Shapes are inferred for
/// those sizes by the ordinary passes, on a graph of one node. What no expression says
/// runs by FHostEval (core/op/host_eval.h).
#include <algorithm>
#include <cstring>

#include "weft/codegen/interp/interpreter.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/host_eval.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/provide.h"
#include "weft/support/check.h"
#include "weft/support/request.h"
#include "weft/sym/symbols.h"

namespace weft {
namespace {

/// `node` alone, its operands constants, with types and shapes.
struct SingleNode {
  Graph graph;
  NodePtr node;
};
SingleNode Isolate(const NodePtr& node, const std::vector<TensorPtr>& inputs) {
  Graph g;
  std::vector<NodeEntry> operands;
  for (const TensorPtr& t : inputs) {
    if (t && !t->is_tensor())
      operands.emplace_back(g.AddInput("", t->type()));
    else
      operands.push_back(t ? NodeEntry(g.AddParam("", t)) : NodeEntry());
  }
  NodePtr copy = g.AddNode(node->op(), operands, node->attrs.dict, node->attrs.name);
  copy->attrs.parsed = node->attrs.parsed;
  std::vector<NodeEntry> outputs;
  for (uint32_t i = 0; i < copy->num_outputs(); ++i) outputs.emplace_back(copy, i);
  g.outputs = outputs;
  static const PassOptions plain = [] {
    PassOptions options;
    options.verify = false;
    options.limits.tensor_bytes = INT64_MAX;  // the scopes of the request hold
    return options;
  }();
  SingleNode s;
  s.graph = ProvideTypes(std::move(g), plain);
  s.node = s.graph.at(copy);
  return s;
}

bool AllComputable(const SingleNode& s, const std::vector<TensorPtr>& inputs) {
  for (const TensorPtr& t : inputs)
    if (t && (!t->is_tensor() || !IsComputable(t->dtype()))) return false;
  const TypeMap& types = s.graph.GetAttr<TypeMap>("dtype");
  for (uint32_t i = 0; i < s.node->num_outputs(); ++i) {
    const Type t = types[NodeEntry(s.node, i)];
    if (!t.is_tensor() || !IsComputable(t.dtype)) return false;
  }
  return true;
}

/// Element `from` of `source` becomes element `to` of `target`; equal dtypes.
void CopyElement(const Tensor& source, int64_t from, Tensor* target, int64_t to) {
  const int bits = DTypeBits(source.dtype());
  if (source.dtype() == DType::kString) {
    target->mutable_strings()[size_t(to)] = source.strings()[size_t(from)];
  } else if (bits >= 8) {
    std::memcpy(static_cast<char*>(target->mutable_data()) + to * (bits / 8),
                static_cast<const char*>(source.data()) + from * (bits / 8), size_t(bits / 8));
  } else {
    target->set(to, source.at(from));  // packed: every value of fewer than 8 bits is a double
  }
}

class InterpreterEvaluator final : public Evaluator {
 public:
  std::string WhyNot(const NodePtr& node) const override {
    static const auto& codegen = Op::GetAttr<FCodeGen>("FCodeGen");
    if (node->is_variable() || IsOp(node, builtin::kFused) || IsOp(node, builtin::kConstant))
      return "";
    return codegen.find(node->op()) || host_.find(node->op())
               ? ""
               : fmt::format("operator '{}' has no FCodeGen", node->op()->name);
  }

  std::vector<TensorPtr> EvalNode(const NodePtr& node, const std::vector<TensorPtr>& inputs,
                                  const EvalOptions& options) const override {
    return EvalBound(node, inputs, {}, options);
  }

 private:
  /// `bindings`: values of the graph's symbols, for nodes that name
  /// them (weft::ShapeTensor, fused bodies).
  std::vector<TensorPtr> EvalBound(const NodePtr& node, const std::vector<TensorPtr>& inputs,
                                   const SymBindings& bindings, const EvalOptions& options) const {
    if (TensorPtr t = Graph::ConstantOf(NodeEntry(node))) return {t};
    if (IsOp(node, builtin::kFused)) return EvalBody(node, inputs, bindings, options);
    SingleNode single = Isolate(node, inputs);
    const FHostEval* host = host_.find(node->op());
    const bool code = Op::GetAttr<FCodeGen>("FCodeGen").find(node->op()) != nullptr;
    try {
      const bool computable = AllComputable(single, inputs);
      if (host && !(code && computable)) return (*host)(single.node, inputs);
      if (!computable && moves_.get(node->op(), false)) return MoveElements(single, inputs);
      std::vector<TensorPtr> present;
      for (const TensorPtr& t : inputs)
        if (t) present.push_back(t);
      return Interpret(ExpandSingle(single.graph, single.node), present, bindings,
                       options.typed ? InterpretMode::kTyped : InterpretMode::kDouble);
    } catch (Error& e) {
      e.AddPlace(node->Describe());
      throw;
    }
  }

  /// An operator that only moves elements, on a dtype without arithmetic: it moves their positions
  /// (1 is the first; 0 is what the operator fills with), and the elements follow.
  std::vector<TensorPtr> MoveElements(const SingleNode& single,
                                      const std::vector<TensorPtr>& inputs) const {
    std::vector<TensorPtr> positions;
    std::vector<std::pair<int64_t, TensorPtr>> sources;  // first position, tensor
    int64_t next = 1;
    for (const TensorPtr& t : inputs) {
      if (!t || IsComputable(t->dtype())) {
        positions.push_back(t);
        continue;
      }
      auto p = std::make_shared<Tensor>(DType::kI64, t->dims());
      sources.emplace_back(next, t);
      for (int64_t i = 0; i < p->num_elements(); ++i) p->set_int(i, next++);
      positions.push_back(std::move(p));
    }
    const auto moved = EvalBound(single.node, positions, {}, {});
    const TypeMap& types = single.graph.GetAttr<TypeMap>("dtype");
    std::vector<TensorPtr> out;
    for (size_t k = 0; k < moved.size(); ++k) {
      const DType t = types[NodeEntry(single.node, uint32_t(k))].dtype;
      if (IsComputable(t)) {
        out.push_back(moved[k]);
        continue;
      }
      auto result = std::make_shared<Tensor>(t, moved[k]->dims());
      for (int64_t i = 0; i < result->num_elements(); ++i) {
        const int64_t at = moved[k]->at_int(i);
        auto it = std::find_if(sources.rbegin(), sources.rend(),
                               [&](const auto& s) { return s.first <= at; });
        if (it != sources.rend()) CopyElement(*it->second, at - it->first, result.get(), i);
      }
      out.push_back(std::move(result));
    }
    return out;
  }

 public:
  std::vector<TensorPtr> Eval(const Graph& graph, const std::vector<TensorPtr>& inputs,
                              const EvalOptions& options) const override {
    const std::vector<NodePtr> variables = graph.AllInputs();
    WEFT_CHECK(inputs.size() == variables.size(), kBadInput, "the graph takes {} inputs, {} given",
               variables.size(), inputs.size());
    const std::vector<NodePtr> order = HasEffects(graph) ? ProgramOrder(graph) : graph.TopoOrder();
    std::string bad;
    for (NodePtr n : order)
      if (const std::string why = WhyNot(n); !why.empty())
        bad += fmt::format("\n  {}: {}", n->Describe(), why);
    WEFT_CHECK(bad.empty(), kUnsupported, "these nodes cannot be evaluated:{}", bad);
    std::vector<TensorPtr> state = StateOf(graph, options);
    SymBindings bindings;
    const auto bind = [&bindings](NodePtr variable, const Tensor& t) {
      const std::optional<Shape> declared = DeclaredShape(variable);
      if (!declared || !declared->has_rank()) return;
      const std::vector<SymInt>& dims = declared->dims();
      for (size_t d = 0; d < dims.size() && d < t.dims().size(); ++d)
        if (dims[d].known() && dims[d].is_symbol()) bindings[dims[d].symbol_name()] = t.dims()[d];
    };
    for (size_t i = 0; i < variables.size(); ++i) bind(variables[i], *inputs[i]);
    for (NodeId id = 0; id < state.size(); ++id)
      if (state[id]) bind(graph.node(id), *state[id]);
    std::vector<std::vector<TensorPtr>> values(graph.id_bound());
    std::vector<int64_t> uses(graph.id_bound(),
                              0);  // readers left; results are dropped after the last
    for (NodePtr n : order)
      for (const NodeEntry& e : n->inputs)
        if (e.node) ++uses[e.node->id()];
    for (const NodeEntry& e : graph.outputs) ++uses[e.node->id()];
    for (size_t i = 0; i < variables.size(); ++i) values[variables[i]->id()] = {inputs[i]};
    const auto run = [&](const NodePtr& n) {
      RequestScope::Poll();
      std::vector<TensorPtr> in;
      for (const NodeEntry& e : n->inputs) {
        // A variable gives what it holds now; what was read of it before stays as it was.
        if (e.node && e.node->id() < state.size() && state[e.node->id()])
          in.push_back(state[e.node->id()]);
        else
          in.push_back(e.node ? values[e.node->id()].at(e.index) : nullptr);
      }
      values[n->id()] = EvalBound(n, in, bindings, options);
      for (auto [i, k] : WrittenInputs(n)) {
        const NodePtr v = n->inputs[size_t(i)].node;
        WEFT_CHECK(v->id() < state.size() && state[v->id()], kInvalidModel,
                   "{} writes {}, which is not a state variable", n->Describe(), v->Describe());
        WEFT_CHECK(k >= 0, kUnsupported, "{}: the evaluator does not know what it writes",
                   n->Describe());
        state[v->id()] = values[n->id()].at(size_t(k));
        if (options.state) (*options.state)[v->attrs.name] = state[v->id()];
      }
      for (const NodeEntry& e : n->inputs)
        if (e.node && --uses[e.node->id()] == 0) values[e.node->id()].clear();
    };
    // A node may name a size that another one tells, in front of which it stands: it waits.
    std::vector<char> done(graph.id_bound(), 0);
    std::vector<NodePtr> waiting;
    const ShapeMap* shapes = graph.HasAttr("shape") ? &graph.GetAttr<ShapeMap>("shape") : nullptr;
    const Facts facts = graph.AttrOr<Facts>("facts");
    const auto take = [&](const NodePtr& n) {
      if (n->is_variable()) {
        if (TensorPtr t = Graph::ConstantOf(NodeEntry(n))) values[n->id()] = {t};
      } else if (shapes && !IsReady(n, facts, done, &bindings)) {
        return waiting.push_back(n);
      } else {
        run(n);
        if (shapes) TellSizes(n, *shapes, values[n->id()], &bindings);
      }
      done[n->id()] = 1;
    };
    for (const NodePtr& n : order) take(n);
    while (!waiting.empty()) {
      const std::vector<NodePtr> before = std::move(waiting);
      waiting.clear();
      for (const NodePtr& n : before) take(n);
      if (waiting.size() == before.size()) run(waiting.front());  // which says what it lacks
    }
    std::vector<TensorPtr> out;
    for (const NodeEntry& e : graph.outputs)
      out.push_back(e.node->id() < state.size() && state[e.node->id()]
                        ? state[e.node->id()]
                        : values[e.node->id()].at(e.index));
    return out;
  }

 private:
  /// What the state variables hold before the run, by node id; empty where there are none.
  static std::vector<TensorPtr> StateOf(const Graph& graph, const EvalOptions& options) {
    std::vector<TensorPtr> state;
    for (NodePtr v : StateVariables(graph)) {
      state.resize(graph.id_bound());
      const AttrValue* value = v->attrs.dict.find("value");
      TensorPtr t = value ? value->get<TensorPtr>() : nullptr;
      if (options.state)
        if (const auto it = options.state->find(v->attrs.name); it != options.state->end())
          t = it->second;
      WEFT_CHECK(t != nullptr, kBadBinding, "variable '{}' has no value", v->attrs.name);
      state[v->id()] = std::move(t);
    }
    return state;
  }
  /// Sizes that are equal have one name in shapes, and may have been written down by another.
  static bool IsKnown(SymInt symbol, const Facts& facts, SymBindings* bindings) {
    if (bindings->count(symbol.symbol_name())) return true;
    const SymInt same = facts.Simplify(symbol);
    if (same == symbol ||
        !EverySymbol(same, [&](SymInt s) { return bindings->count(s.symbol_name()) != 0; }))
      return false;
    (*bindings)[symbol.symbol_name()] = Evaluate(same, *bindings);
    return true;
  }
  /// What it reads is there, and so are the sizes that it names.
  static bool IsReady(const NodePtr& n, const Facts& facts, const std::vector<char>& done,
                      SymBindings* bindings) {
    for (const NodeEntry& e : n->inputs)
      if (e.node && !done[e.node->id()]) return false;
    for (const Node* d : n->control_deps)
      if (!done[d->id()]) return false;
    if (!IsOp(n, builtin::kShapeTensor)) return true;
    const Shape dims = n->attr<Shape>("dims");
    for (SymInt d : dims.dims()) {
      if (!d.known()) continue;
      const std::vector<SymInt> symbols = d.Symbols();
      for (SymInt s : symbols)
        if (!IsKnown(s, facts, bindings)) return false;
    }
    return true;
  }
  /// Sizes that depend on data are known once a result has them.
  static void TellSizes(const NodePtr& n, const ShapeMap& shapes,
                        const std::vector<TensorPtr>& results, SymBindings* bindings) {
    for (size_t k = 0; k < results.size(); ++k) {
      const Shape* s = shapes.find(NodeEntry(n, uint32_t(k)));
      if (!s || !s->has_rank() || !results[k] || s->rank() != results[k]->rank()) continue;
      for (int d = 0; d < s->rank(); ++d)
        if ((*s)[d].known() && (*s)[d].is_symbol())
          bindings->try_emplace((*s)[d].symbol_name(), results[k]->dims()[size_t(d)]);
    }
  }
  /// A fused body by its own operators. Extents in it that are expressions take their
  /// values from the operands.
  std::vector<TensorPtr> EvalBody(const NodePtr& node, const std::vector<TensorPtr>& inputs,
                                  SymBindings bindings, const EvalOptions& options) const {
    const GraphPtr body = FusedBody(node);
    const ComputeSpec spec = ExpandBody(*body);
    for (size_t i = 0; i < spec.inputs.size(); ++i) {
      const TensorSpec& t = spec.inputs[i];
      const std::vector<SymInt>& dims = IsLowBit(t.low_bit) ? t.low_bit_dims : t.dims;
      for (size_t d = 0; d < dims.size(); ++d)
        if (dims[d].is_symbol()) bindings[dims[d].symbol_name()] = inputs[i]->dims()[d];
    }
    return Interpret(spec, inputs, bindings,
                     options.typed ? InterpretMode::kTyped : InterpretMode::kDouble);
  }

  const OpMap<FHostEval>& host_ = Op::GetAttr<FHostEval>("FHostEval");
  const OpMap<TMovesElements>& moves_ = Op::GetAttr<TMovesElements>("TMovesElements");
};

[[maybe_unused]] const bool registered =
    (SetEvaluator(std::make_unique<InterpreterEvaluator>()), true);

}  // namespace
}  // namespace weft
