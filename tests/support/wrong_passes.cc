/// wrong_passes.cc: a plugin whose passes are wrong on purpose, each in its own way, for the tests
/// of the debugging commands.
#include <stdexcept>

#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/backend/backend.h"

namespace {
using namespace weft;

/// Abs(x) -> Relu(Abs'(x)) is right; for a node that is called "bad" it is Neg instead.
Graph WrongAbs(Graph g, PassContext& ctx) {
  for (NodePtr n : g.TopoOrder()) {
    if (!IsOp(n, "Abs")) continue;
    if (!ctx.Fuel("abs-to-relu", n)) break;
    if (n->attrs.name == "bad")
      g.ReplaceNode(n, {NodeEntry(g.AddNode("Neg", {n->inputs[0]}))});
    else
      g.ReplaceNode(n, {NodeEntry(g.AddNode("Relu", {NodeEntry(g.AddCopy(n, n->inputs))}))});
  }
  g.EraseDead();
  return g;
}
WEFT_REGISTER_PASS(WrongAbs)
    .describe("puts a Relu behind every Abs, and something wrong in the place of one")
    .set_body(WrongAbs)
    .rewrite("abs-to-relu", "one Abs");
WEFT_REGISTER_PASS(WrongAbsInBodies)
    .describe("the same, in bodies too")
    .set_body(WrongAbs)
    .enters_bodies()
    .rewrite("abs-to-relu", "one Abs");

WEFT_REGISTER_PASS(WrongWhole)
    .describe("negates the first output, without asking for fuel")
    .set_body([](Graph g) {
      g.outputs.set(0, NodeEntry(g.AddNode("Neg", {g.outputs[0]})));
      return g;
    });

WEFT_REGISTER_PASS(WrongAlone)
    .describe("makes Softplus of every Exp that has one reader and is no output")
    .set_body([](Graph g) {
      for (NodePtr n : g.TopoOrder())
        if (IsOp(n, "Exp") && n->uses().size() == 1 && !g.is_output(n))
          g.ReplaceNode(n, {NodeEntry(g.AddNode("Softplus", {n->inputs[0]}))});
      g.EraseDead();
      return g;
    });

WEFT_REGISTER_PASS(ThrowsOn)
    .describe("fails by our fault where the model has a certain operator")
    .set_body([](Graph g, PassContext& ctx) {
      for (NodePtr n : g.TopoOrder())
        if (IsOp(n, ctx.option<std::string>("op"))) throw std::logic_error("this cannot be");
      return g;
    })
    .set_change_graph(false)
    .preserve_all()
    .depend_graph_attr("shape")
    .option("op", "Tanh", "the operator");

/// Right but for its rewrite, which makes 0 of NaN.
WEFT_REGISTER_OP_IN(wrong, Twice)
    .describe("x + x. Errors: no float. Gradient: none. Source: nowhere.")
    .input("x", "f32")
    .output("y", "f32")
    .set_num_inputs(1)
    .set_num_outputs(1)
    .set_attr<FInferType>("FInferType", [](InferTypeContext& ctx) { ctx.set_out(0, DType::kF32); })
    .set_attr<FInferShape>("FInferShape", [](InferShapeContext& ctx) { ctx.set_out(0, ctx.in(0)); })
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const Exprs& in) -> Exprs { return {in[0] + in[0]}; })
    .set_attr<FSimplify>("FSimplify",
                         [](RewriteContext&, const NodePtr& n) -> std::vector<NodeEntry> {
                           const NodeEntry x = n->inputs[0];
                           return {
                               ApplyOp("Where", {ApplyOp("Equal", {x, x}), ApplyOp("Add", {x, x}),
                                                 ConstantLike(x, Tensor::Scalar(DType::kF32, 0))})};
                         });

/// Fails outside of any pass.
class Broken final : public Backend {
 public:
  std::string name() const override { return "broken"; }
  Target target() const override { return "ref"; }
  std::string default_pipeline() const override { throw std::logic_error("no pipeline"); }
};
[[maybe_unused]] const bool registered = RegisterBackendModule(BackendModule("broken").set_backend(
    [](const BackendParameters&) { return std::make_shared<Broken>(); }));

}  // namespace
