/// read_variables.cc: ReadVariables. Puts a weft::Read between a variable that the graph writes
/// and what reads it.
///   needs      -
///   provides   -
///   preserves  shape, dtype, value, unknown
///   never      touches a variable that nothing writes; a second run adds nothing
///   cost       linear in nodes and edges
///   source     ReadVariableOp of TensorFlow for the idea
///
///   %a = Neg(%v)  %w = weft::Assign(%v, %x) after(%a)  %b = Abs(%v) after(%w)
///     ->  %r = weft::Read(%v)  %a = Neg(%r)  %w = weft::Assign(%v, %x) after(%a, %r)
///         %s = weft::Read(%v) after(%w)  %b = Abs(%s)
///
/// All readers between two writes share one Read. Behind it the content is a value: a rewrite that
/// lets another node take a reader's operand does not move a read across a write. The control edges
/// of OrderMutation from readers to writes stay: they are no longer needed for what is computed,
/// but with them the content lies in the variable's own storage. A variable with a value that is
/// written gets the attribute `state`. Runs after OrderMutation; an output that names a variable
/// itself goes on giving its content after the run.
#include <map>
#include <vector>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/typed_edit.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

struct Content {
  NodePtr last_write, read;
};

void AddReads(Graph& g, PassContext& ctx) {
  TypedEdit edit(g);
  std::map<NodeId, Content> written;  // looked up only
  const std::vector<NodePtr> order = g.TopoOrder();
  for (NodePtr n : order)
    for (auto [i, k] : WrittenInputs(n))
      if (n->inputs[size_t(i)].node->is_variable()) written[n->inputs[size_t(i)].node->id()];
  if (written.empty()) return;
  for (NodePtr n : order) {
    if (n->is_variable() || IsOp(n, builtin::kRead)) continue;
    const std::vector<std::pair<int, int>> writes = WrittenInputs(n);
    for (size_t i = 0; i < n->num_inputs(); ++i) {
      const NodePtr v = n->inputs[i].node;
      const auto it = v ? written.find(v->id()) : written.end();
      if (it == written.end()) continue;
      bool target = false;
      for (auto [input, output] : writes) target |= size_t(input) == i;
      if (target) continue;
      Content& c = it->second;
      if (!c.read) {
        if (!ctx.Fuel("read", n)) return;
        c.read = edit.Add(builtin::kRead, {NodeEntry(v)}, {}, NodeEntry(v)).node;
        if (c.last_write) c.read->control_deps.push_back(c.last_write);
        ctx.Count("reads");
      }
      g.SetInput(n, i, NodeEntry(c.read));
      // The Read stands behind the write, so its reader does.
      if (c.last_write) n->control_deps.remove(c.last_write);
    }
    for (auto [i, k] : writes) {
      const auto it = written.find(n->inputs[size_t(i)].node->id());
      if (it == written.end()) continue;
      Content& c = it->second;
      bool reads_it = false;
      for (const NodeEntry& e : n->inputs) reads_it |= c.read && e.node == c.read;
      if (c.read && !reads_it) n->control_deps.push_back(c.read);
      c = {n, {}};
    }
  }
}

Graph ReadVariables(Graph g, PassContext& ctx) {
  if (!HasEffects(g)) return g;
  MarkState(g);
  AddReads(g, ctx);
  return g;
}

WEFT_REGISTER_PASS(ReadVariables)
    .describe("puts a weft::Read between a variable that the graph writes and what reads it")
    .set_body(ReadVariables)
    .set_change_graph(true)
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .preserve_graph_attr("value")
    .preserve_graph_attr("unknown")
    .statistic("reads", "weft::Read nodes added");

}  // namespace
}  // namespace weft
