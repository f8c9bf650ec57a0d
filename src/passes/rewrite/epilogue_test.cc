/// epilogue_test.cc: the pass Epilogue, with a library that takes a whole tensor to add
/// first, then one activation.
#include "weft/core/plan/epilogue.h"

#include <doctest/doctest.h>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"

namespace weft {
namespace {

bool Takes(const EpilogueRequest& q) {
  if (q.next.operand >= 0) {
    const NodeEntry other = q.next.node->inputs[size_t(q.next.operand)];
    return q.steps.empty() && IsOp(q.next.node, "Add") &&
           q.shapes[other].same(q.shapes[NodeEntry(q.anchor)]);
  }
  const bool active = !q.steps.empty() && q.steps.back().operand < 0;
  return !active && (IsOp(q.next.node, "Relu") || IsOp(q.next.node, "Clip"));
}
WEFT_REGISTER_OP(MatMul).set_attr<FEpilogue>("FEpilogue.epilogue_test", Takes);

Graph Run(const std::string& text) {
  PassOptions options;
  options.target = "epilogue_test";
  options.checks.equivalent = true;
  options.checks.preserved = true;
  return ApplyPasses(ParseGraph("weft 1\ngraph <n>" + text), "InferType,InferShape,Epilogue",
                     options);
}
/// The calls with an epilogue, and how many nodes stay beside them.
struct Made {
  std::vector<AnchoredCall> calls;
  int others = 0;
};
Made Look(const Graph& g) {
  Made made;
  for (NodePtr n : g.TopoOrder()) {
    if (std::optional<AnchoredCall> call = AnchoredCallOf(n))
      made.calls.push_back(*std::move(call));
    else
      made.others += !n->is_variable();
  }
  return made;
}

TEST_CASE("epilogue: an addition and an activation join the product, what follows does not") {
  const Graph g =
      Run("(%a: f32[n, 3], %b: f32[3, 4], %r: f32[n, 4]) -> (%y) {\n"
          "  %p = MatMul(%a, %b) : ?\n  %s = Add(%r, %p) : ?\n  %t = Relu(%s) : ?\n  %y = Neg(%t) "
          ": ?\n}\n");
  const Made made = Look(g);
  REQUIRE(made.calls.size() == 1);
  CHECK(made.others == 1);
  const AnchoredCall& call = made.calls[0];
  CHECK(IsOp(call.anchor, "MatMul"));
  REQUIRE(call.steps.size() == 2);
  CHECK(IsOp(call.steps[0].node, "Add"));
  CHECK(call.steps[0].slot == 1);
  CHECK(call.steps[0].operand == 2);
  CHECK(IsOp(call.steps[1].node, "Relu"));
  CHECK(call.steps[1].operand == -1);
  // What it holds can be printed and read back.
  const std::string text = PrintGraph(g);
  CHECK(PrintGraph(ParseGraph(text)) == text);
  CHECK(Look(ParseGraph(text)).calls.size() == 1);
}

TEST_CASE("epilogue: a body of another form is no call") {
  const auto is_call = [](const std::string& body) {
    const Graph g = ParseGraph(
        "weft 1\ngraph (%a: f32[4, 4], %b: f32[4, 4]) -> (%y) {\n"
        "  %y = weft::Fused(%a, %b) {anchor = 1} body (%0: f32[4, 4], %1: f32[4, 4]) -> (%r) {\n" +
        body + "  } : ?\n}\n");
    return AnchoredCallOf(g.outputs[0].node).has_value();
  };
  CHECK(is_call("    %p = MatMul(%0, %1) : f32[4, 4]\n    %r = Relu(%p) : f32[4, 4]\n"));
  // Operands in another order; no step; a step that reads the operand twice; a step of two
  // tensors; a second result.
  CHECK(!is_call("    %p = MatMul(%1, %0) : f32[4, 4]\n    %r = Relu(%p) : f32[4, 4]\n"));
  CHECK(!is_call("    %r = MatMul(%0, %1) : f32[4, 4]\n"));
  CHECK(!is_call("    %p = MatMul(%0, %1) : f32[4, 4]\n    %r = Mul(%p, %p) : f32[4, 4]\n"));
  CHECK(!is_call("    %p = MatMul(%0, %1) : f32[4, 4]\n    %r = Add(%p, %0) : f32[4, 4]\n"));
  CHECK(!is_call("    %p = Relu(%0) : f32[4, 4]\n    %r = Mul(%1, %0) : f32[4, 4]\n"));
}

}  // namespace
}  // namespace weft
