/// epilogue.cc: Epilogue. Gives library calls the element-wise operators behind them that they can
/// apply on the way out.
///   needs      shape, dtype, value
///   preserves  shape, dtype, value
///   never      takes an operator whose operand another node reads as well; changes what a result
///              is, but for rounding
///   cost       linear in the calls and what they take
///   source     post-ops of oneDNN, epilogues of cuBLASLt; the form
///              is this project's (weft/core/plan/epilogue.h)
///
///   before  %a = Conv(%x, %w, %b)   %s = Add(%a, %r)   %y = Relu(%s)
///   after   %y = weft::Fused(%x, %w, %b, %r) {anchor = 1} body (..)
///
/// Every result in the chain has one reader, the next operator. So nothing outside depends on the
/// inside of a call, and no call can come to wait for itself.
#include "weft/core/plan/epilogue.h"

#include <algorithm>

#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/typed_edit.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

class CallMaker {
 public:
  CallMaker(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), edit_(g) {}

  void Run() {
    for (NodePtr n : g_.TopoOrder()) {
      if (n->is_variable()) continue;
      if (const FEpilogue* takes = ctx_.target().epilogue(n->op())) Grow(n, *takes);
    }
    g_.EraseDead();
  }

 private:
  void Grow(const NodePtr& anchor, const FEpilogue& takes) {
    const auto present = [](const NodeEntry& e) { return bool(e.node); };
    if (anchor->num_outputs() != 1 || !anchor->control_deps.empty() ||
        !std::all_of(anchor->inputs.begin(), anchor->inputs.end(), present))
      return;
    std::vector<EpilogueStep> steps;
    NodePtr last = anchor;
    while (true) {
      const NodePtr reader = OnlyReader(g_, last);
      if (!reader) break;
      const std::optional<EpilogueStep> step = StepOf(reader, NodeEntry(last));
      if (!step || !takes({anchor, steps, *step, edit_.shapes(), edit_.types()})) break;
      steps.push_back(*step);
      last = reader;
    }
    if (!steps.empty()) MakeCall(anchor, steps);
  }

  /// What `n` does to `result`, where that is element by element.
  std::optional<EpilogueStep> StepOf(const NodePtr& n, const NodeEntry& result) const {
    const FCodeGen* code = n->is_variable() ? nullptr : codegen_.find(n->op());
    if (!code || !code->elementwise || n->num_outputs() != 1) return std::nullopt;
    const NodeEntry out(n);
    if (!edit_.shape(out).same(edit_.shape(result)) || !(edit_.type(out) == edit_.type(result)))
      return std::nullopt;
    EpilogueStep step{n, -1, -1};
    for (size_t i = 0; i < n->num_inputs(); ++i) {
      const NodeEntry e = n->inputs[i];
      const TensorPtr constant = e.node ? Graph::ConstantOf(e) : nullptr;
      if (!e.node || (constant && constant->num_elements() == 1)) continue;
      if (e == result)
        step.slot = int(i);
      else if (step.operand < 0)
        step.operand = int(i);
      else
        return std::nullopt;
    }
    return step.slot < 0 ? std::nullopt : std::optional(step);
  }

  void MakeCall(const NodePtr& anchor, const std::vector<EpilogueStep>& steps) {
    const NodePtr last = steps.back().node;
    auto body = std::make_shared<Graph>();
    TypedEdit inner(*body);
    std::vector<NodeEntry> outside, inside;
    const auto input = [&](const NodeEntry& e) {
      outside.push_back(e);
      return inner.KnowAs(NodeEntry(body->AddInput("", edit_.type(e), edit_.shape(e))), edit_, e);
    };
    for (const NodeEntry& e : anchor->inputs) inside.push_back(input(e));
    NodeEntry result =
        inner.KnowAs(NodeEntry(body->AddCopy(anchor, inside)), edit_, NodeEntry(anchor));
    for (const EpilogueStep& s : steps) {
      inside.clear();
      for (size_t i = 0; i < s.node->num_inputs(); ++i) {
        const NodeEntry e = s.node->inputs[i];
        if (int(i) == s.slot)
          inside.push_back(result);
        else if (int(i) == s.operand)
          inside.push_back(input(e));
        else
          inside.push_back(e.node ? inner.KnowAs(body->AddConstant(Graph::ConstantOf(e)), edit_, e)
                                  : NodeEntry());
      }
      result = inner.KnowAs(NodeEntry(body->AddCopy(s.node, inside)), edit_, NodeEntry(s.node));
    }
    body->outputs = {result};
    inner.Finish();

    const NodePtr call = g_.AddNode(builtin::kFused, outside,
                                    {{"body", GraphPtr(body)}, {builtin::kAnchor, int64_t{1}}});
    g_.MergeOrigin(call, anchor);
    for (const EpilogueStep& s : steps) g_.MergeOrigin(call, s.node);
    edit_.Replace(last, {NodeEntry(call)});
    ctx_.Count("calls", 1);
    ctx_.Count("steps", int64_t(steps.size()));
  }

  Graph& g_;
  PassContext& ctx_;
  const OpMap<FCodeGen>& codegen_ = Op::GetAttr<FCodeGen>("FCodeGen");
  TypedEdit edit_;
};

Graph Epilogue(Graph g, PassContext& ctx) {
  CallMaker(g, ctx).Run();
  return g;
}

WEFT_REGISTER_PASS(Epilogue)
    .describe("gives library calls the element-wise operators behind them that they can apply")
    .set_body(Epilogue)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .fuses()
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("value")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .preserve_graph_attr("value")
    .statistic("calls", "library calls with an epilogue made")
    .statistic("steps", "operators that they took");

}  // namespace
}  // namespace weft
