/// order_mutation.cc: OrderMutation. Orders the reads and writes of every
/// variable by control edges.
///   needs      -
///   provides   -
///   preserves  shape, dtype, value, unknown
///   never      moves, adds or removes a node, or closes a cycle; a second run adds nothing
///   cost       n log n in nodes, and one edge per read or write; one look at every node
///              where nothing has effects
///   source     NNVM OrderMutation, whose versions of a variable are the writes here
///
///   %a = Neg(%v)  %w = weft::Assign(%v, %x)  %b = Neg(%v)
///     ->  %w = weft::Assign(%v, %x) after(%a)   %b = Neg(%v) after(%w)
///
/// A read comes after the write before it and before the write after it; writes come one after the
/// other. "Before" is the order of the program: nodes in the order in which they were made, as far
/// as the edges that are there allow. Passes that rewrite make new nodes for old ones, so this pass
/// comes first in a pipeline; rewrites keep the edges.
///
/// Operators with effects that write no variable (draws from the state of a generator, also in
/// bodies) share one state that each of them writes. What a view (Reshape ..) gives of a variable
/// is the value from when the view ran.
#include <algorithm>

#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// What has happened to one variable so far.
struct State {
  bool written = false;  ///< by any node of the graph
  NodePtr last_write;
  std::vector<NodePtr> reads;  ///< since then
};

class Orderer {
 public:
  Orderer(const Graph& g, PassContext& ctx) : ctx_(ctx), states_(g.id_bound()) {}

  void Run(const std::vector<NodePtr>& order) {
    for (NodePtr n : order)
      for (NodePtr v : Written(n)) states_[v->id()].written = true;
    for (NodePtr n : order) {
      const std::vector<NodePtr> written = Written(n);
      for (NodePtr v : written) Write(n, &states_[v->id()]);
      if (written.empty() && HasEffect(n)) Write(n, &hidden_);
      for (size_t i = 0; i < n->num_inputs(); ++i) {
        const NodePtr v = n->inputs[i].node;
        if (!v || !states_[v->id()].written || Contains(written, v)) continue;
        State& s = states_[v->id()];
        After(n, s.last_write);
        if (s.reads.empty() || s.reads.back() != n) s.reads.push_back(n);
      }
    }
  }

 private:
  static bool Contains(const std::vector<NodePtr>& list, NodePtr n) {
    return std::find(list.begin(), list.end(), n) != list.end();
  }
  std::vector<NodePtr> Written(NodePtr n) const {
    std::vector<NodePtr> variables;
    const FMutateInputs* f = n->is_variable() ? nullptr : mutates_.find(n->op());
    if (!f) return variables;
    for (int i : (*f)(n)) {
      WEFT_CHECK(i >= 0 && size_t(i) < n->num_inputs() && n->inputs[size_t(i)].node, kArity,
                 "{}: says that it writes input {}, which it does not have", n->Describe(), i);
      const NodePtr v = n->inputs[size_t(i)].node;
      WEFT_CHECK(v->is_variable(), kInvalidModel,
                 "{}: writes input {}, the result of {}; only variables can be written",
                 n->Describe(), i, v->Describe());
      if (!Contains(variables, v)) variables.push_back(v);
    }
    return variables;
  }
  void Write(NodePtr n, State* s) {
    // Every read since the last write comes after it, so what comes after the reads does too.
    for (NodePtr r : s->reads) After(n, r);
    if (s->reads.empty()) After(n, s->last_write);
    s->last_write = n;
    s->reads.clear();
  }
  void After(NodePtr n, NodePtr before) {
    if (!before || before == n) return;
    for (const NodeEntry& e : n->inputs)
      if (e.node == before) return;
    const size_t edges = n->control_deps.size();
    n->control_deps.push_back(before);
    ctx_.Count("edges", int64_t(n->control_deps.size() - edges));
  }

  const OpMap<FMutateInputs>& mutates_ = Op::GetAttr<FMutateInputs>("FMutateInputs");
  PassContext& ctx_;
  std::vector<State> states_;  // by the variable's id
  State hidden_;
};

Graph OrderMutation(Graph g, PassContext& ctx) {
  if (HasEffects(g)) Orderer(g, ctx).Run(ProgramOrder(g));
  return g;
}

WEFT_REGISTER_PASS(OrderMutation)
    .describe("orders the reads and writes of every variable by control edges")
    .set_body(OrderMutation)
    .set_change_graph(true)
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .preserve_graph_attr("value")
    .preserve_graph_attr("unknown")
    .statistic("edges", "control edges added");

}  // namespace
}  // namespace weft
