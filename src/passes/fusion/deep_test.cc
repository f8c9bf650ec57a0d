/// deep_test.cc: what Fusion reads off an expression takes no more stack where
/// the expression is deep.
#include <doctest/doctest.h>
#include <pthread.h>

#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"

namespace weft {
namespace {

/// The sum over two elements of x at an index of many terms: what a plugin may write down.
WEFT_REGISTER_OP(FdtDeepIndex)
    .set_num_inputs(1)
    .set_num_outputs(1)
    .set_attr<FInferType>("FInferType", [](InferTypeContext& ctx) { ctx.set_out(0, ctx.in(0)); })
    .set_attr<FInferShape>("FInferShape", [](InferShapeContext& ctx) { ctx.set_out(0, Shape{64}); })
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const std::vector<TensorArg>& in,
                           const OutputAt& at) -> Exprs {
                          return {Expr::Reduce(ReduceOp::kSum, {SymInt(2)}, [&](const Indices& r) {
                            Expr sum = at(0)[0];
                            for (int k = 0; k < 100000; ++k) sum = sum + (k % 2 ? at(0)[0] : r[0]);
                            return in[0]({sum});
                          })};
                        });

TEST_CASE("fusion: an index of a hundred thousand operations is read on a small stack") {
  const auto fuse = [](void* kernels) -> void* {
    const Graph g = ApplyPasses(ParseGraph("weft 1\ngraph (%x: f32[65]) -> (%y) {\n"
                                           "  %a = FdtDeepIndex(%x) : ?\n  %y = Exp(%a) : ?\n}\n"),
                                "InferType,InferShape,Fusion");
    for (NodePtr n : g.TopoOrder()) *static_cast<int*>(kernels) += IsOp(n, builtin::kFused);
    return nullptr;
  };
  int kernels = 0;
  pthread_attr_t attr;
  pthread_t thread;
  REQUIRE(pthread_attr_init(&attr) == 0);
  REQUIRE(pthread_attr_setstacksize(&attr, 512 << 10) == 0);
  REQUIRE(pthread_create(&thread, &attr, fuse, &kernels) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attr);
  CHECK(kernels == 1);
}

}  // namespace
}  // namespace weft
