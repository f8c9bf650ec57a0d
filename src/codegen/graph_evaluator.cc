/// graph_evaluator.cc: the Evaluator of the core, by the interpreter: every operator runs by its own FCodeGen, at the sizes of
/// the tensors that come. Shapes are inferred for those sizes by the ordinary passes, on a graph of one node.
#include <unordered_map>

#include "weft/codegen/interpreter.h"
#include "weft/core/builtin_ops.h"
#include "weft/core/evaluator.h"
#include "weft/core/op.h"
#include "weft/core/pass.h"
#include "weft/support/check.h"

namespace weft {
namespace {

class InterpreterEvaluator final : public Evaluator {
 public:
  std::string WhyNot(const NodePtr& node) const override {
    static const auto& codegen = Op::GetAttr<FCodeGen>("FCodeGen");
    if (node->is_variable() || IsOp(node, builtin::kFused) || IsOp(node, builtin::kConstant))
      return "";
    return codegen.find(node->op())
               ? ""
               : fmt::format("operator '{}' has no FCodeGen", node->op()->name);
  }

  std::vector<TensorPtr> EvalNode(const NodePtr& node, const std::vector<TensorPtr>& inputs,
                                  const EvalOptions& options) const override {
    return EvalBound(node, inputs, {}, options);
  }

 private:
  /// `bindings`: values of the graph's symbols, for nodes that name them (weft::ShapeTensor, fused bodies).
  std::vector<TensorPtr> EvalBound(const NodePtr& node, const std::vector<TensorPtr>& inputs,
                                   const SymBindings& bindings, const EvalOptions& options) const {
    if (TensorPtr t = Graph::ConstantOf(NodeEntry(node))) return {t};
    if (IsOp(node, builtin::kFused)) return EvalBody(node, inputs, bindings, options);
    Graph g;
    std::vector<NodeEntry> operands;
    std::vector<TensorPtr> present;
    for (const TensorPtr& t : inputs) {
      operands.push_back(t ? NodeEntry(g.AddParam("", t)) : NodeEntry());
      if (t) present.push_back(t);
    }
    NodePtr copy = g.AddNode(node->op(), operands, node->attrs.dict, node->attrs.name);
    copy->attrs.parsed = node->attrs.parsed;
    std::vector<NodeEntry> outputs;
    for (uint32_t i = 0; i < copy->num_outputs(); ++i) outputs.emplace_back(copy, i);
    g.outputs = outputs;
    PassOptions plain;
    plain.verify = false;
    g = ApplyPasses(std::move(g), {"InferType", "InferShape"}, plain);
    try {
      return Interpret(ExpandSingle(g, g.at(copy)), present, bindings,
                       options.typed ? InterpretMode::kTyped : InterpretMode::kDouble);
    } catch (Error& e) {
      e.AddPlace(node->Describe());
      throw;
    }
  }

 public:
  std::vector<TensorPtr> Eval(const Graph& graph, const std::vector<TensorPtr>& inputs,
                              const EvalOptions& options) const override {
    const std::vector<NodePtr> variables = graph.AllInputs();
    WEFT_CHECK(inputs.size() == variables.size(), kBadInput, "the graph takes {} inputs, {} given",
               variables.size(), inputs.size());
    const std::vector<NodePtr> order = graph.TopoOrder();
    std::string bad;
    for (NodePtr n : order)
      if (const std::string why = WhyNot(n); !why.empty())
        bad += fmt::format("\n  {}: {}", n->Describe(), why);
    WEFT_CHECK(bad.empty(), kUnsupported, "these nodes cannot be evaluated:{}", bad);
    SymBindings bindings;
    for (size_t i = 0; i < variables.size(); ++i) {
      const AttrValue* declared = variables[i]->attrs.dict.find("shape");
      if (!declared || !declared->is<Shape>() || !declared->get<Shape>().has_rank()) continue;
      const std::vector<SymInt>& dims = declared->get<Shape>().dims();
      for (size_t d = 0; d < dims.size() && d < inputs[i]->dims().size(); ++d)
        if (dims[d].known() && dims[d].is_symbol())
          bindings[dims[d].symbol_name()] = inputs[i]->dims()[d];
    }
    std::vector<std::vector<TensorPtr>> values(graph.id_bound());
    std::vector<int64_t> uses(graph.id_bound(),
                              0);  // readers left; results are dropped after the last
    for (NodePtr n : order)
      for (const NodeEntry& e : n->inputs)
        if (e.node) ++uses[e.node->id()];
    for (const NodeEntry& e : graph.outputs) ++uses[e.node->id()];
    for (size_t i = 0; i < variables.size(); ++i) values[variables[i]->id()] = {inputs[i]};
    for (NodePtr n : order) {
      if (n->is_variable()) {
        if (TensorPtr t = Graph::ConstantOf(NodeEntry(n))) values[n->id()] = {t};
        continue;
      }
      std::vector<TensorPtr> in;
      for (const NodeEntry& e : n->inputs)
        in.push_back(e.node ? values[e.node->id()].at(e.index) : nullptr);
      values[n->id()] = EvalBound(n, in, bindings, options);
      for (const NodeEntry& e : n->inputs)
        if (e.node && --uses[e.node->id()] == 0) values[e.node->id()].clear();
    }
    std::vector<TensorPtr> out;
    for (const NodeEntry& e : graph.outputs) out.push_back(values[e.node->id()].at(e.index));
    return out;
  }

 private:
  /// A fused body by its own operators. Extents in it that are expressions take their values from the operands.
  std::vector<TensorPtr> EvalBody(const NodePtr& node, const std::vector<TensorPtr>& inputs,
                                  SymBindings bindings, const EvalOptions& options) const {
    const GraphPtr body = FusedBody(node);
    const ComputeSpec spec = ExpandBody(*body);
    for (size_t i = 0; i < spec.inputs.size(); ++i)
      for (size_t d = 0; d < spec.inputs[i].dims.size(); ++d)
        if (spec.inputs[i].dims[d].is_symbol())
          bindings[spec.inputs[i].dims[d].symbol_name()] = inputs[i]->dims()[d];
    return Interpret(spec, inputs, bindings,
                     options.typed ? InterpretMode::kTyped : InterpretMode::kDouble);
  }
};

[[maybe_unused]] const bool registered =
    (SetEvaluator(std::make_unique<InterpreterEvaluator>()), true);

}  // namespace
}  // namespace weft
