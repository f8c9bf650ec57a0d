/// code_gen.cc: CodeGen. Makes the kernel of every weft::Fused node from the FCodeGen of the operators in its body.
///   needs      subgraph, shape, dtype
///   provides   kernel
///   preserves  everything: it only adds an attribute
///   cost       linear in the bodies; equal bodies give one Kernel object
///   source     NNVM-Fusion CodeGen (2016)
#include <map>

#include "weft/codegen/attr_types.h"
#include "weft/core/builtin_ops.h"
#include "weft/core/effects.h"
#include "weft/core/pass.h"
#include "weft/support/check.h"

namespace weft {
namespace {

LoweredKernel Lower(const NodePtr& n, const Graph& body, const Facts& facts) {
  const ComputeSpec spec = ExpandBody(body);
  const AttrValue* parts = n->attrs.dict.find("parts");
  return parts ? LowerParts(spec, parts->get<Ints>(), WrittenInputs(n), facts)
               : LowerKernel(spec, facts);
}

Graph CodeGen(Graph g, PassContext& ctx) {
  const SubgraphMap& bodies = g.GetAttr<SubgraphMap>("subgraph");
  const Facts facts = g.AttrOr<Facts>("facts");
  KernelMap kernels;
  std::map<std::string, KernelPtr> distinct;
  int64_t sites = 0;
  for (NodePtr n : g.TopoOrder()) {
    const GraphPtr* body = bodies.find(n);
    if (!body) continue;
    ctx.cancel().Check();
    try {
      LoweredKernel lowered = Lower(n, **body, facts);
      for (const KernelPtr& k : lowered.Kernels())
        Limits::Check("source_bytes", int64_t(k->CanonicalText().size()),
                      ctx.limits().source_bytes);
      const auto shared = [&](const KernelPtr& k) {
        return distinct.emplace(k->CanonicalText(), k).first->second;
      };
      lowered.kernel = shared(lowered.kernel);
      for (KernelPart& p : lowered.parts) p.kernel = shared(p.kernel);
      kernels.set(n, std::move(lowered));
    } catch (Error& e) {
      e.AddPlace(n->Describe());
      if (e.code() != ErrorCode::kUnsupported) throw;
      // No loop nest holds all its results: the fused body runs operator by operator.
      ctx.Warn(e.what());
      continue;
    }
    ++sites;
  }
  ctx.Count("kernels", int64_t(distinct.size()));
  ctx.Count("launches", sites);
  g.SetAttr("kernel", std::move(kernels));
  return g;
}

WEFT_REGISTER_PASS(CodeGen)
    .describe("makes the kernel of every weft::Fused node from the FCodeGen of its operators")
    .set_body(CodeGen)
    .set_change_graph(false)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("subgraph")
    .provide_graph_attr("kernel")
    .preserve_all()
    .statistic("kernels", "distinct kernels")
    .statistic("launches", "fused nodes");

}  // namespace
}  // namespace weft
