/// hoist_invariants.cc: HoistInvariants. What the body of a Loop or Scan computes of captures alone
/// is computed once, in front of it.
///   needs      shape, dtype
///   provides   -
///   preserves  -
///   never      moves what may fail where a loop of no iteration does not, as an index out of range
///   cost       linear in nodes and bodies
///
///   Scan(h, x, %w) {MatMul(h, Transpose(w))}  ->  Scan(h, x, Transpose(%w)) {MatMul(h, w)}
#include <algorithm>

#include "body_exit.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

bool ReadsByIndex(const NodePtr& n) {
  static const auto& domains = Op::GetAttr<FInputDomains>("FInputDomains");
  const FInputDomains* f = domains.find(n->op());
  if (!f) return false;
  const std::vector<InputDomain> all = (*f)(n);
  return std::any_of(all.begin(), all.end(),
                     [](const InputDomain& d) { return d.kind == InputDomain::kIndex; });
}

bool CanLeave(const BodyExit& exit, const NodePtr& n) {
  static const auto& code = Op::GetAttr<FCodeGen>("FCodeGen");
  if (n->is_variable() || Graph::ConstantOf(NodeEntry(n)) || n->num_outputs() != 1) return false;
  if (!code.find(n->op()) || !IsRepeatable(n) || ReadsByIndex(n)) return false;
  return n->num_inputs() > 0 &&
         std::all_of(n->inputs.begin(), n->inputs.end(), [&](const NodeEntry& e) {
           return !e.node || exit.role(e) == BodyRole::kInvariant;
         });
}

bool Hoist(BodyExit& exit, PassContext& ctx) {
  bool any = false;
  for (NodePtr n : exit.body().TopoOrder()) {
    if (!CanLeave(exit, n)) continue;
    if (!ctx.Fuel("hoisted", n)) break;
    std::vector<NodeEntry> operands;
    for (const NodeEntry& e : n->inputs) operands.push_back(e.node ? exit.outside(e) : NodeEntry());
    exit.Leave(n, NodeEntry(exit.graph().AddCopy(n, operands)), BodyRole::kInvariant);
    ctx.Count("hoisted");
    any = true;
  }
  return any;
}

Graph HoistInvariants(Graph g, PassContext& ctx) {
  return LeaveLoops(std::move(g), {"Loop", "Scan"},
                    [&](const NodePtr&, BodyExit& exit) { return Hoist(exit, ctx); });
}

WEFT_REGISTER_PASS(HoistInvariants)
    .describe("computes once, in front of a Loop or Scan, what its body computes of captures alone")
    .set_body(HoistInvariants)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .statistic("hoisted", "nodes that left a body");

}  // namespace
}  // namespace weft
