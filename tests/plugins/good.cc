/// good.cc: a plugin as it should be: an operator with attributes, a group, a pass, a graph
/// attribute, a rule, a backend.
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/backend/backend.h"

namespace {
using namespace weft;

WEFT_REGISTER_OP_IN(test, Twice)
    .describe("2 x")
    .set_num_inputs(1)
    .set_num_outputs(1)
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& c) {
                            if (c.in(0).known()) c.set_out(0, c.in(0));
                          })
    .set_attr<FInferShape>("FInferShape", [](InferShapeContext& c) { c.set_out(0, c.in(0)); })
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const Exprs& in) -> Exprs { return {in[0] + in[0]}; })
    .include("TestGroup");
WEFT_REGISTER_OP_GROUP(TestGroup).set_attr<int>("TTestGrade", 7);
WEFT_REGISTER_OP(Relu).set_attr<int>("TTestGrade", 3);
WEFT_REGISTER_PASS(TestPass).describe("does nothing").set_body([](Graph g) { return g; });
WEFT_REGISTER_GRAPH_ATTR(test_mark, kGiven, int);
WEFT_REGISTER_REWRITE_RULE("test-rule")
    .root("test::Twice")
    .describe("never applies")
    .apply([](RewriteContext&, const NodePtr&) { return std::vector<NodeEntry>(); });

[[maybe_unused]] const bool registered = RegisterBackendModule(
    BackendModule("test").set_backend([](const BackendParameters&) { return GetBackend("ref"); }));
}  // namespace
