/// verify.cc: the structural check that the pass manager runs after every pass. Linear; collects
/// up to 20 findings.
#include <string>
#include <vector>

#include "core/graph/store.h"
#include "weft/core/graph/graph.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/operands.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"

namespace weft {
namespace {

constexpr size_t kMaxFindings = 20;

struct Findings {
  std::vector<std::string> list;
  size_t more = 0;
  template <class... A>
  void Add(fmt::format_string<A...> f, A&&... a) {
    if (list.size() < kMaxFindings)
      list.push_back(fmt::format(f, std::forward<A>(a)...));
    else
      ++more;
  }
};

void CheckUseLists(const GraphStore& s, Findings& out) {
  for (const Node* n : s.nodes) {
    if (!n) continue;
    for (uint32_t i = 0; i < n->num_inputs(); ++i) {
      const NodeEntry& e = n->inputs[i];
      if (!e.node) continue;
      if (!s.Lives(e.node.get())) {
        out.Add("input {} of {} is not a live node of this graph", i, n->Describe());
        continue;
      }
      if (!s.UseIsRecorded(n, i, false))
        out.Add("the use list of {} lacks input {} of {}", e.node->Describe(), i, n->Describe());
      if (e.index >= e.node->num_outputs())
        out.Add("input {} of {} is output {} of {}, which has {}", i, n->Describe(), e.index,
                e.node->Describe(), e.node->num_outputs());
    }
    for (uint32_t i = 0; i < n->control_deps.size(); ++i) {
      const Node* d = n->control_deps[i].get();
      if (!s.Lives(d))
        out.Add("control edge {} of {} is not a live node of this graph", i, n->Describe());
      else if (!s.UseIsRecorded(n, i, true))
        out.Add("the use list of {} lacks control edge {} of {}", d->Describe(), i, n->Describe());
    }
    for (const Use& u : n->uses()) {
      const bool ok =
          u.control
              ? u.slot < u.user->control_deps.size() && u.user->control_deps[u.slot].get() == n
              : u.slot < u.user->num_inputs() && u.user->inputs[u.slot].node.get() == n;
      if (!ok)
        out.Add("the use list of {} holds a use by {} that is not there", n->Describe(),
                u.user->Describe());
    }
    if (n->op()) {
      const OperandFault fault = FindOperandFault(*n);
      if (!fault.text.empty()) out.Add("{}", fault.text);
    } else if (n->num_inputs() != 0) {
      out.Add("the variable {} has inputs", n->Describe());
    }
  }
}

}  // namespace

void VerifyGraph(const Graph& graph) {
  const GraphStore& s = *graph.store();
  Findings out;
  CheckUseLists(s, out);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const NodeEntry& e = graph.outputs[i];
    if (!e.node)
      out.Add("output {} is null", i);
    else if (!s.Lives(e.node.get()))
      out.Add("output {} is not a live node of this graph", i);
    else if (e.index >= e.node->num_outputs())
      out.Add("output {} is output {} of {}, which has {}", i, e.index, e.node->Describe(),
              e.node->num_outputs());
  }
  if (s.output_names.size() > s.outputs.size())
    out.Add("{} names of outputs are given, the graph has {} outputs", s.output_names.size(),
            s.outputs.size());
  for (NodePtr p : graph.inputs())
    if (!p || !s.Lives(p.get()) || !p->is_variable())
      out.Add("a declared input is not a variable of this graph");
  if (out.list.empty()) {
    // All nodes, also those that no output reaches: a later edit may make one of them an output.
    std::vector<NodeEntry> heads;
    heads.reserve(s.num_nodes);
    for (Node* n : s.nodes)
      if (n) heads.emplace_back(n);
    DFSVisit(heads, [](const NodePtr&) {});  // throws kCycle
  }
  if (out.list.empty()) return;
  std::string text =
      fmt::format("the graph is malformed ({} findings):", out.list.size() + out.more);
  for (const std::string& f : out.list) text += "\n  " + f;
  ThrowError(ErrorCode::kInternal, text);
}

}  // namespace weft
