/// fusion.cc: Fusion. Puts everything that generated kernels compute into weft::Fused nodes, as few as are legal.
///   needs      shape, dtype, value
///   provides   subgraph (the body of every weft::Fused node)
///   preserves  nothing by itself; rows of unaffected nodes survive, new nodes get theirs
///   never      fuses across an unknown shape or an unproved equality, a library call, an effect; duplicates no reduction
///   cost       one sweep, amortised O(1) an edge; measured in bench/
///   source     levels: this project; templates: AStitch (ASPLOS'22); the name and the interface: NNVM-Fusion (2016)
///
/// Here are the parts in order: the kind of each node (fusion_nodes.h, fusion_kind.h), which groups one kernel may compute
/// (fusion_rules.h), the groups and their levels (fusion_sweep.h, fusion_groups.h), the fused nodes (fusion_build.h).
///   before  %m = ReduceMax(%x)   %s = Sub(%x, %m)   %e = Exp(%s)   %t = ReduceSum(%e)   %y = Div(%e, %t)
///   after   %y = weft::Fused(%x) body (..)
#include "fusion_build.h"
#include "fusion_sweep.h"
#include "weft/core/pass.h"

namespace weft {
namespace {

Graph Fusion(Graph g, PassContext& ctx) {
  const FusionPlan plan = PlanFusion(g, ctx);
  FusedBuilder(g, plan).Run();
  ctx.Count("kernels", plan.kernels);
  ctx.Count("fused_ops", plan.fused_ops);
  ctx.Count("level_refusals", plan.level_refusals);
  return g;
}

WEFT_REGISTER_PASS(Fusion)
    .describe("puts what generated kernels compute into weft::Fused nodes, as few as are legal")
    .set_body(Fusion)
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("value")
    .provide_graph_attr("subgraph")
    .option("max_ops", int64_t{256}, "most operators in one kernel; 1 turns fusion off")
    .option("max_tensors", int64_t{64}, "most tensors that one kernel reads from outside")
    .option("max_reductions", int64_t{8}, "most reductions in one kernel")
    .statistic("kernels", "weft::Fused nodes made")
    .statistic("fused_ops", "operators inside them")
    .statistic("level_refusals",
               "merges that the rules allowed and the levels, which keep kernels acyclic, did not");

}  // namespace
}  // namespace weft
