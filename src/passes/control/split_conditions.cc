/// split_conditions.cc: SplitConditions. A graph with an If that sizes decide becomes an If of two
/// graphs, in which it is decided.
///   needs      dtype, shape, value
///   provides   -
///   preserves  -
///   never      takes apart a graph with effects, state or sizes that data decide
///   cost       copies of the graph, bounded by its options, and all that passes do with them
///   source     code versioning of compilers of loops (Byler et al. 1987)
///
///   a = Exp(x);  y = If(n > 5, a) {then: Relu(a); else: a + 1};  z = Tanh(y)
///     ->  z = If(n > 5, x) {then: Tanh(Relu(Exp(x))); else: Tanh(Exp(x) + 1)}
///
/// A condition over sizes is a number of the binding: it costs no kernel, and each of the graphs
/// knows the shapes that its branch gives, and fuses across it. A binding plans the graph that it
/// takes alone; both are compiled in front of the first run. A condition that a run computes stays
/// where it is.
#include <algorithm>

#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"
#include "weft/sym/symbols.h"

namespace weft {
namespace {

bool IsGiven(const NodePtr& n) { return n->is_variable() || Graph::ConstantOf(NodeEntry(n)); }

/// With those of bodies, however deep.
int64_t NumNodes(const Graph& g) {
  int64_t count = 0;
  for (const NodePtr& n : g.TopoOrder()) {
    ++count;
    for (const std::string& name : BodyNames(n)) count += NumNodes(*n->attr<GraphPtr>(name));
  }
  return count;
}

/// A number that is 0 or 1 by sizes.
struct Condition {
  SymInt number;
  EntryRef at;  ///< where the graph has it
};

class Splitter {
 public:
  explicit Splitter(const Graph& g)
      : shapes_(g.GetAttr<ShapeMap>("shape")), values_(g.GetAttr<ValueMap>("value")) {
    for (const NodePtr& p : g.AllInputs())
      for (SymInt d : shapes_[NodeEntry(p)].dims())
        if (d.known() && d.is_symbol()) symbols_.push_back(d);
  }

  /// In the order of the nodes that read them.
  std::vector<Condition> Conditions(const Graph& g) const {
    std::vector<Condition> all;
    for (const NodePtr& n : g.TopoOrder()) {
      if (!IsOp(n, "If")) continue;
      const SymInt number = NumberOf(n->inputs[0]);
      if (!number.known() || number.is_const() || !IsOfSizes(number)) continue;
      const bool known = std::any_of(all.begin(), all.end(), [&](const Condition& c) {
        return number == c.number || number == 1 - c.number;
      });
      if (!known) all.push_back({number, EntryRef(n->inputs[0])});
    }
    return all;
  }
  /// All sizes are there when the inputs are.
  bool TellsSizes(const Graph& g) const {
    for (const NodePtr& n : g.TopoOrder())
      for (uint32_t k = 0; k < n->num_outputs(); ++k) {
        const Shape& s = shapes_[NodeEntry(n, k)];
        if (!s.fully_known() ||
            !std::all_of(s.dims().begin(), s.dims().end(), [&](SymInt d) { return IsOfSizes(d); }))
          return false;
      }
    return true;
  }
  /// What is computed, but for the conditions and numbers of sizes.
  int64_t NumComputed(const Graph& g) const {
    int64_t count = 0;
    for (const NodePtr& n : g.TopoOrder()) {
      const SymTensorPtr* v = IsGiven(n) ? nullptr : values_.find(NodeEntry(n));
      count += !IsGiven(n) && !(v && *v && (*v)->fully_known());
    }
    return count;
  }

  /// `g`, decided by the conditions from `k` on.
  Graph Split(Graph g, const std::vector<Condition>& conditions, size_t k) const {
    if (k == conditions.size()) return g;
    const NodeEntry cond = conditions[k].at.in(g);
    // In this graph another condition has decided about what reads it.
    if (!cond.node || !IsRead(g, conditions[k].number))
      return Split(std::move(g), conditions, k + 1);
    Graph branches[2];
    for (const bool holds : {true, false})
      branches[holds ? 0 : 1] = Split(Decided(g, conditions[k].number, holds), conditions, k + 1);
    std::vector<std::string> names;
    for (size_t i = 0; i < g.outputs.size(); ++i) names.push_back(g.OutputName(i));
    std::vector<NodeEntry> operands{cond};
    for (const NodePtr& p : g.inputs()) operands.emplace_back(p);
    const NodePtr choice =
        g.AddNode("If", operands,
                  {{"then_branch", std::make_shared<const Graph>(std::move(branches[0]))},
                   {"else_branch", std::make_shared<const Graph>(std::move(branches[1]))},
                   {"num_captures", int64_t(operands.size() - 1)}});
    std::vector<NodeEntry> outputs;
    for (uint32_t i = 0; i < choice->num_outputs(); ++i) outputs.emplace_back(choice, i);
    g.outputs = outputs;
    for (size_t i = 0; i < names.size(); ++i) g.SetOutputName(i, names[i]);
    g.EraseDead();
    return g;
  }

 private:
  SymInt NumberOf(const NodeEntry& e) const {
    const SymTensorPtr* v = values_.find(e);
    return v && *v && (*v)->elements.size() == 1 ? (*v)->elements[0] : SymInt();
  }
  bool IsOfSizes(SymInt e) const {
    return EverySymbol(e, [&](SymInt s) {
      return std::find(symbols_.begin(), symbols_.end(), s) != symbols_.end();
    });
  }
  bool IsRead(const Graph& g, SymInt number) const {
    for (const NodePtr& n : g.TopoOrder()) {
      if (!IsOp(n, "If")) continue;
      const SymInt read = NumberOf(n->inputs[0]);
      if (read.known() && (read == number || read == 1 - number)) return true;
    }
    return false;
  }
  Graph Decided(const Graph& g, SymInt number, bool holds) const {
    Graph body = g;
    body.SetInputs(body.inputs());
    // What a body is given has no version that would say when it has changed.
    for (const NodePtr& input : body.inputs())
      if (IsSteady(input)) body.SetAttr(input, "steady", int64_t{0});
    const NodeEntry yes = body.AddConstant(Tensor::Scalar(DType::kBool, 1)),
                    no = body.AddConstant(Tensor::Scalar(DType::kBool, 0));
    for (const NodePtr& n : body.TopoOrder()) {
      if (!IsOp(n, "If")) continue;
      const SymInt read = NumberOf(n->inputs[0]);
      if (!read.known()) continue;
      if (read == number)
        body.SetInput(n, 0, holds ? yes : no);
      else if (read == 1 - number)
        body.SetInput(n, 0, holds ? no : yes);
    }
    body.EraseDead();
    return body;
  }

  const ShapeMap shapes_;
  const ValueMap values_;
  std::vector<SymInt> symbols_;  ///< dimensions of the inputs
};

Graph SplitConditions(Graph g, PassContext& ctx) {
  const std::vector<NodePtr> order = g.TopoOrder();
  if (std::none_of(order.begin(), order.end(), [](const NodePtr& n) { return IsOp(n, "If"); }))
    return g;
  const bool plain = std::all_of(order.begin(), order.end(), [&](const NodePtr& n) {
    const bool fed = n->is_variable() && !Graph::ConstantOf(NodeEntry(n)) &&
                     std::find(g.inputs().begin(), g.inputs().end(), n) == g.inputs().end();
    return !HasEffect(n) && n->control_deps.empty() && !fed;
  });
  const Splitter splitter(g);
  std::vector<Condition> conditions = splitter.Conditions(g);
  const int64_t computed = splitter.NumComputed(g), most = ctx.option<int64_t>("most_nodes");
  // A graph that is a choice already has nothing to gain.
  if (conditions.empty() || !plain || computed < 2 || !splitter.TellsSizes(g)) return g;
  int64_t copies = NumNodes(g);
  size_t taken = 0;
  while (taken < conditions.size() && copies <= most / 2) {
    copies *= 2;
    ++taken;
  }
  conditions.resize(taken);
  if (taken == 0 || !ctx.Fuel("split", conditions[0].at.in(g).node)) return g;
  ctx.Count("split", int64_t(taken));
  return splitter.Split(std::move(g), conditions, 0);
}

WEFT_REGISTER_PASS(SplitConditions)
    .describe("makes a choice of graphs of one with branches that sizes decide")
    .set_body(SplitConditions)
    .set_change_graph(true)
    .depend_graph_attr("dtype")
    .depend_graph_attr("shape")
    .depend_graph_attr("value")
    .keeps_onnx()
    .option("most_nodes", int64_t{4000}, "nodes of all graphs together")
    .statistic("split", "conditions that are decided in front");

}  // namespace
}  // namespace weft
