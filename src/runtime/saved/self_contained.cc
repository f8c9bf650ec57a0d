/// self_contained.cc: see self_contained.h. Linear in nodes, and in those of bodies.
#include "self_contained.h"

#include <optional>

#include "runtime/plan/instruction.h"
#include "runtime/program/body_programs.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/codegen/expr/expr_text.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/typed_edit.h"
#include "weft/core/op/host_eval.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/pipelines.h"

namespace weft {
namespace {

bool IsForeign(const NodePtr& n);

bool HoldsForeign(const Graph& body) {
  for (const NodePtr& n : body.TopoOrder())
    if (IsForeign(n)) return true;
  return false;
}

/// The library does not register its operator, or that of a node which its expression stands on.
bool IsForeign(const NodePtr& n) {
  if (n->is_variable()) return false;
  if (IsOp(n, builtin::kDerivative)) return HoldsForeign(*n->attr<GraphPtr>("body"));
  const std::vector<Owner>& owners = n->op()->owners;
  return !owners.empty() && owners[0].module != WEFT_MODULE_NAME;
}

/// One element of its outputs, where that is all there is to it.
std::optional<std::string> TextOf(const NodePtr& n, const TypeMap& types, const Target& target) {
  static const auto& codes = Op::GetAttr<FCodeGen>("FCodeGen");
  static const auto& hosts = Op::GetAttr<FHostEval>("FHostEval");
  const FCodeGen* code = codes.find(n->op());
  if (!code || !code->elementwise || hosts.find(n->op()) || target.compute(n->op())) return {};
  const auto computable = [&](const NodeEntry& e) { return IsComputable(types[e].dtype); };
  Exprs places;
  int k = 0;
  for (const NodeEntry& e : n->inputs) {
    if (e && !computable(e)) return {};
    places.push_back(e ? Expr::Slot(k++, types[e].dtype) : Expr());
  }
  Exprs results = code->elementwise(n, places);
  for (uint32_t i = 0; i < n->num_outputs(); ++i) {
    if (!computable({n, i})) return {};
    if (results[i]->is_literal()) results[i] = Expr::Cast(types[NodeEntry(n, i)].dtype, results[i]);
  }
  return PrintExprs(results);
}

/// Nodes of one graph; true where some have changed.
bool ReplaceNodes(Graph& g, const Target& target) {
  std::vector<NodePtr> foreign;
  for (const NodePtr& n : g.TopoOrder())
    if (IsForeign(n)) foreign.push_back(n);
  if (foreign.empty()) return false;
  std::vector<NodePtr> replaced;
  TypedEdit edit(g);
  for (const NodePtr& n : foreign) {
    const std::optional<std::string> text = TextOf(n, edit.types(), target);
    if (!text) continue;
    std::vector<NodeEntry> inputs, outputs;
    for (const NodeEntry& e : n->inputs)
      if (e) inputs.push_back(e);
    Strings dtypes;
    for (uint32_t k = 0; k < n->num_outputs(); ++k)
      dtypes.emplace_back(DTypeName(edit.dtype({n, k})));
    const NodePtr made = g.AddNode(builtin::kExpression, inputs,
                                   {{"code", *text}, {"dtypes", dtypes}, {"of", n->op()->name}});
    for (uint32_t k = 0; k < n->num_outputs(); ++k)
      outputs.push_back(edit.KnowAs({made, k}, {n, k}));
    edit.Replace(n, outputs);
    replaced.push_back(n);
  }
  edit.Finish();
  for (const NodePtr& n : replaced) g.Erase(n);
  return !replaced.empty();
}

/// The kernels of a graph whose fused bodies have changed: those that are as before come from the
/// cache.
Graph WithKernels(Graph g, const Target& target) {
  SubgraphMap fused;
  for (const NodePtr& n : g.TopoOrder())
    if (IsOp(n, builtin::kFused)) fused.set(n, FusedBody(n));
  g.SetAttr("subgraph", std::move(fused));
  PassOptions passes;
  passes.target = target;
  passes.enters = [](const PassEntry&, const Graph&) { return false; };  // SelfContained does
  for (const char* name : {"kernel", "rtc"}) g.DropAttr(name);
  return ApplyPasses(std::move(g), PipelineBetween(PipelineEnd::kLayouts, PipelineEnd::kCode),
                     passes);
}

/// Nullopt where there is nothing to replace.
std::optional<Graph> Replaced(const Graph& compiled, const Target& target) {
  Graph g = compiled;
  // What kernels compute is fused, if alone.
  const bool has_kernels = compiled.HasAttr("kernel");
  bool changed = !target.traits().kernels && ReplaceNodes(g, target);
  for (const NodePtr& n : g.TopoOrder()) {
    if (IsOp(n, builtin::kFused)) {
      Graph body = *FusedBody(n);
      if (!ReplaceNodes(body, target)) continue;
      ReplaceBody(g, n, "body", std::move(body));
      changed = true;
    } else if (MayHaveBodyPrograms(n)) {
      for (const std::string& name : BodyNames(n)) {
        std::optional<Graph> body = Replaced(*n->attr<GraphPtr>(name), target);
        if (!body) continue;
        ReplaceBody(g, n, name, std::move(*body));
        changed = true;
      }
    }
  }
  if (!changed) return std::nullopt;
  return has_kernels ? WithKernels(std::move(g), target) : std::move(g);
}

}  // namespace

Graph SelfContained(const Graph& compiled, const Target& target) {
  std::optional<Graph> replaced = Replaced(compiled, target);
  return replaced ? std::move(*replaced) : compiled;
}

}  // namespace weft
