/// split_pass.cc: HsimdSplit. A fused node that no rule lowers, or whose values have no room in the
/// PEs at once, is taken apart: its operators run one by one.
///   needs      shape, dtype; static extents
///   provides   -
///   preserves  -
///   never      changes what the graph computes
///   cost       the candidates of every fused node, and one of them lowered
///   source     rules/rule.h
///
///   f = Fused(x) {MaxPool, Reshape}   ->   p = MaxPool(x); f = Reshape(p)
#include <unordered_map>
#include <vector>

#include "../rules/rule.h"
#include "banks.h"
#include "l3.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/pass.h"
#include "weft/support/error.h"

namespace hsimd {
namespace {

using namespace weft;

void TakeApart(Graph& g, const NodePtr& fused) {
  const GraphPtr body = FusedBody(fused);
  std::unordered_map<NodeId, NodePtr> twin;
  std::unordered_map<NodeId, NodeEntry> given;
  for (size_t i = 0; i < body->inputs().size(); ++i)
    given.emplace(body->inputs()[i]->id(), fused->inputs[i]);
  const auto of = [&](const NodeEntry& e) -> NodeEntry {
    if (!e.node) return {};
    if (const auto it = given.find(e.node->id()); it != given.end()) return it->second;
    return NodeEntry(twin.at(e.node->id()), e.index);
  };
  for (const NodePtr& n : body->TopoOrder()) {
    if (given.count(n->id())) continue;
    if (n->is_variable()) {
      given.emplace(n->id(), g.AddConstant(Graph::ConstantOf(NodeEntry(n)), n->attrs.name));
      continue;
    }
    std::vector<NodeEntry> inputs;
    for (const NodeEntry& e : n->inputs) inputs.push_back(of(e));
    twin.emplace(n->id(), g.AddCopy(n, inputs));
  }
  std::vector<NodeEntry> outputs;
  for (const NodeEntry& e : body->outputs) outputs.push_back(of(e));
  g.ReplaceNode(fused, outputs);
}

Graph Split(Graph g, PassContext& ctx) {
  const auto machine = std::make_shared<Machine>(FindMachine(ctx.option<std::string>("machine")));
  std::vector<NodePtr> apart;
  NodeLowering lowering(g, machine);
  for (const NodePtr& n : g.TopoOrder())
    if (!n->is_variable() && IsOp(n, builtin::kFused) && RunsOn(g, n, lowering) != NodeRuns::kYes)
      apart.push_back(n);
  for (const NodePtr& n : apart) {
    if (!ctx.Fuel("split", n)) break;
    TakeApart(g, n);
    ctx.Count("split");
  }
  g.EraseDead();
  return g;
}

WEFT_REGISTER_PASS(HsimdSplit)
    .describe("takes fused nodes apart that the machine has no way to run whole")
    .set_body(Split)
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .option("machine", kDefaultMachine, "a built-in machine or a file")
    .statistic("split", "nodes taken apart")
    .rewrite("split", "one node taken apart");

}  // namespace
}  // namespace hsimd
