/// code_gen.cc: CodeGen. Makes the kernel of every weft::Fused node from the FCodeGen of the
/// operators in its body.
///   needs      subgraph, shape, dtype; takes operands as they lie where there is a "layout"
///   provides   kernel
///   preserves  everything: it only adds an attribute
///   never      hides a body that it cannot lower: that is a fault (PassContext::Fault), the
///              node has no kernel
///   cost       linear in the bodies; equal bodies give one Kernel object
///   source     NNVM-Fusion CodeGen (2016)
#include <algorithm>
#include <map>
#include <new>
#include <stdexcept>

#include "codegen/lower/pieces.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/codegen/layouts/layouts.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/pass/pass.h"
#include "weft/core/plan/epilogue.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// Of the inputs and outputs of a node; empty where all may be plain.
std::vector<Layout> OperandLayouts(const NodePtr& n, const LayoutMap& layouts,
                                   const ShapeMap& shapes) {
  std::vector<Layout> own;
  const auto add = [&](const NodeEntry& e) {
    own.push_back(e.node && !LiesAlikeInAll(shapes[e]) ? layouts[e] : Layout::kPlain);
  };
  for (const NodeEntry& e : n->inputs) add(e);
  for (uint32_t k = 0; k < n->num_outputs(); ++k) add(NodeEntry(n, k));
  if (std::count(own.begin(), own.end(), Layout::kPlain) == int64_t(own.size())) own.clear();
  return own;
}

LoweredKernel LowerBody(const NodePtr& n, const Graph& body, std::vector<Layout> layouts,
                        const Facts& facts, bool flat) {
  const ComputeSpec spec = ApplyLayouts(ExpandBody(body), layouts);
  const AttrValue* parts = n->attrs.dict.find("parts");
  std::optional<LoweredKernel> pieces;
  if (!parts) pieces = LowerPieces(spec, flat);
  const std::vector<int64_t> all{int64_t(spec.outputs.size())};
  LoweredKernel lowered =
      pieces ? std::move(*pieces)
             : LowerSpaces(spec, parts ? parts->get<Ints>() : all, WrittenInputs(n), facts);
  lowered.layouts = std::move(layouts);
  return lowered;
}

/// Whoever made the body promised a kernel: these say that lowering cannot keep it. Others are
/// about the model or the request.
bool IsOurs(ErrorCode code) {
  return code == ErrorCode::kUnsupported || code == ErrorCode::kOverflow ||
         code == ErrorCode::kInternal;
}

std::string NoKernel(const NodePtr& n, const char* why) {
  return fmt::format("no kernel is generated for {}; its operators run in the interpreter: {}",
                     n->Describe(), why);
}
std::string NoKernel(const NodePtr& n, const std::string& why) { return NoKernel(n, why.c_str()); }

Graph CodeGen(Graph g, PassContext& ctx) {
  const SubgraphMap& bodies = g.GetAttr<SubgraphMap>("subgraph");
  const Facts facts = g.AttrOr<Facts>("facts");
  const LayoutMap layouts = g.AttrOr<LayoutMap>("layout");
  const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
  KernelMap kernels;
  std::map<std::string, KernelPtr> distinct;
  const bool flat = ctx.target().traits().one_loop_copies;
  int64_t sites = 0;
  for (NodePtr n : g.TopoOrder()) {
    const GraphPtr* body = bodies.find(n);
    if (!body || AnchoredCallOf(n)) continue;  // or a library runs it
    if (DrawsAnew(n)) continue;                // a kernel would hold the numbers of one draw
    ctx.cancel().Check();
    try {
      LoweredKernel lowered = LowerBody(n, **body, OperandLayouts(n, layouts, shapes), facts, flat);
      for (const KernelPtr& k : lowered.Kernels())
        Limits::Check("source_bytes", int64_t(k->CanonicalText().size()),
                      ctx.limits().source_bytes);
      const auto shared = [&](const KernelPtr& k) {
        return distinct.emplace(k->CanonicalText(), k).first->second;
      };
      lowered.kernel = shared(lowered.kernel);
      for (KernelPart& p : lowered.parts) p.kernel = shared(p.kernel);
      kernels.set(n, std::move(lowered));
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::length_error&) {
      throw;
    } catch (Error& e) {
      e.AddPlace(n->Describe());
      if (!IsOurs(e.code())) throw;
      ctx.Fault(NoKernel(n, e.message()));
      continue;
    } catch (const std::exception& e) {
      ctx.Fault(NoKernel(n, e.what()));
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
    .enters_bodies()
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
