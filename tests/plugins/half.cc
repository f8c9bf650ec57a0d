/// half.cc: registers one of everything, overrides what others registered, and fails
/// with the last statement.
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/backend/backend.h"

namespace {
using namespace weft;

WEFT_REGISTER_OP_IN(half, Op)
    .describe("never seen")
    .set_num_inputs(1)
    .add_alias("half::Alias")
    .include("HalfGroup");
WEFT_REGISTER_OP_GROUP(HalfGroup).set_attr<int>("THalf", 1);
WEFT_REGISTER_OP(Relu)
    .set_attr<double>("THalfOwn", 1.5)
    .set_attr<FCodeGen>(
        "FCodeGen", [](const NodePtr&, const Exprs& in) -> Exprs { return {in[0] + in[0]}; }, 99);
WEFT_REGISTER_PASS(HalfPass).describe("never seen").set_body([](Graph g) { return g; });
WEFT_REGISTER_PASS(Simplify)
    .describe("overridden")
    .set_body([](Graph g) { return g; })
    .override_pass();
WEFT_REGISTER_GRAPH_ATTR(half_mark, kGiven, int);
WEFT_REGISTER_REWRITE_RULE("half-rule").root("half::Op").apply([](RewriteContext&, const NodePtr&) {
  return std::vector<NodeEntry>();
});
[[maybe_unused]] const bool registered = RegisterBackendModule(
    BackendModule("half")
        .set_backend([](const BackendParameters&) { return GetBackend("ref"); })
        .set_compiler([](const Target&) { return nullptr; }));
WEFT_REGISTER_GRAPH_ATTR(shape, kDerived, double);  // refused: another type
}  // namespace
