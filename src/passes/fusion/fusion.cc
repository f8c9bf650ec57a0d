/// fusion.cc: Fusion. Puts everything that generated kernels compute into weft::Fused nodes, as
/// few as are legal.
///   needs      shape, dtype, value
///   provides   subgraph (the body of every weft::Fused node)
///   preserves  nothing by itself; rows of unaffected nodes survive, new nodes get theirs
///   never      fuses across an unknown shape or an unproved equality, a library call, an effect
///              other than a write of a variable that the kernel reads where it writes, element by
///              element; duplicates no reduction
///   cost       one sweep, amortised O(1) an edge; measured in bench/
///   source     levels: this project; templates: AStitch (ASPLOS'22); the name and
///              the interface: NNVM-Fusion (2016)
///
/// Here are the parts in order: the kind of each node (nodes.h, kind.h), which groups one kernel
/// may compute (rules.h), the groups and their levels (sweep.h, groups.h), groups side by side in
/// one launch (multi.h), the fused nodes (build.h).
///
///   before  %m = ReduceMax(%x)  %s = Sub(%x, %m)  %e = Exp(%s)
///           %t = ReduceSum(%e)  %y = Div(%e, %t)
///   after   %y = weft::Fused(%x) body (..)
#include "build.h"
#include "sweep.h"
#include "weft/codegen/lower/lower.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

Graph Fusion(Graph g, PassContext& ctx) {
  const FusionPlan plan = PlanFusion(g, ctx);
  FusedBuilder(g, plan).Run();
  ctx.Count("kernels", plan.kernels);
  ctx.Count("fused_ops", plan.fused_ops);
  ctx.Count("level_refusals", plan.level_refusals);
  ctx.Count("parts", plan.parts);
  ctx.Count("late_copies", plan.late_copies);
  return g;
}

WEFT_REGISTER_PASS(Fusion)
    .describe("puts what generated kernels compute into weft::Fused nodes, as few as are legal")
    .set_body(Fusion)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .fuses({{"max_ops", 1}})
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("value")
    .provide_graph_attr("subgraph")
    .option("max_ops", int64_t{256}, "most operators in one kernel; 1 turns fusion off")
    .option("max_tensors", int64_t{kMaxKernelTensors},
            "most tensors that one kernel reads from outside")
    .option("max_reductions", int64_t{8}, "most reductions in one kernel")
    .option("libraries", int64_t{1},
            "0: operators that a library of the target runs become kernels as well")
    .option("multi_bytes", int64_t{1} << 30,
            "most bytes of gradients and the like that wait for one launch over many parameters; "
            "0: each "
            "has its own")
    .option("late", int64_t{1},
            "1: values that kernels behind library calls read are computed again there where that "
            "keeps fewer bytes in memory; 0: all are kept")
    .option(
        "multi_small", int64_t{16384},
        "kernels that touch at most so many elements stand beside others in one launch; 0: never")
    .statistic("kernels", "weft::Fused nodes made")
    .statistic("fused_ops", "operators inside them")
    .statistic("parts", "groups of operators that share a launch with others")
    .statistic("late_copies", "operators computed again by the kernel that reads their result")
    .rewrite("fuse-late", "values computed where they are read instead of kept in memory")
    .rewrite("fuse", "two groups made one kernel")
    .rewrite("fuse-siblings", "kernels that read the same made one")
    .rewrite("fuse-row-values", "values of rows computed in the kernel that reads them")
    .rewrite("fuse-alongside", "a group given a place in another's launch")
    .statistic("level_refusals",
               "merges that the rules allowed and the levels, which keep kernels acyclic, did not");

}  // namespace
}  // namespace weft
