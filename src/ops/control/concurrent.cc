/// concurrent.cc: weft::Concurrent: two bodies that do not read each other's results, at the same
/// time where whoever runs them has threads for both.
///
///   (captures...) -> (outputs of `first`..., outputs of `second`...)
///
/// PairLoops makes it, of loops whose steps are too small to be shared by threads. Inputs of both
/// bodies are all operands.
///   throws  kArity where a body does not fit; what a body throws
#include <climits>

#include "ops/util/body_util.h"

namespace weft::ops {
namespace {

struct ConcurrentParam : OpParam<ConcurrentParam> {
  GraphAttr first, second;
  int64_t num_captures, work;
  WEFT_OP_PARAM(ConcurrentParam) {
    WEFT_FIELD(first).describe("a body");
    WEFT_FIELD(second).describe("another one");
    WEFT_FIELD(num_captures).set_default(0).describe("all operands: what the bodies read");
    WEFT_FIELD(work).set_default(0).describe(
        "operations of the smallest step of a body that threads could share");
  }
};
WEFT_REGISTER_OP_PARAM(ConcurrentParam);

std::vector<const GraphAttr*> BodiesOf(const NodePtr& n) {
  const auto& p = ParamOf<ConcurrentParam>(n);
  return {&p.first, &p.second};
}

void ConcurrentType(InferTypeContext& ctx) {
  int k = 0;
  for (const GraphAttr* body : BodiesOf(ctx.node())) {
    const Graph& g = BodyOf(ctx.node(), *body);
    WEFT_CHECK(int(g.inputs().size()) == ctx.num_inputs(), kArity,
               "{}: {} operands for a body of {} inputs", ctx.node()->Describe(), ctx.num_inputs(),
               g.inputs().size());
    const InferredBody b = InferTypes(g, TypesFrom(ctx, 0));
    for (size_t i = 0; i < g.outputs.size(); ++i, ++k)
      if (b.type(i).known()) ctx.set_out(k, b.type(i));
  }
}
void ConcurrentShape(InferShapeContext& ctx) {
  const std::vector<Shape> shapes = ShapesFrom(ctx, 0);
  const auto outer = SymbolsOf(shapes);
  int k = 0;
  for (const GraphAttr* body : BodiesOf(ctx.node())) {
    const InferredBody b = InferBody(*body->graph, TypesFrom(ctx, 0), shapes, &ctx.facts());
    for (size_t i = 0; i < body->graph->outputs.size(); ++i, ++k) {
      if (b.shape(i).has_rank())
        SetOrExplain(ctx, k, Shape(OuterDims(ctx, b.shape(i), outer, k)));
      else
        Unknown(ctx, k, "the body does not determine its rank");
    }
  }
}
void ConcurrentRun(const NodePtr& n, const Tensors& in, const BodyRunner& bodies,
                   ResultTensors* results) {
  const size_t split = ParamOf<ConcurrentParam>(n).first.graph->outputs.size();
  ResultTensors of[] = {ResultTensors(results->begin(), results->begin() + long(split)),
                        ResultTensors(results->begin() + long(split), results->end())};
  bodies.RunTogether(2, [&](size_t k, const BodyRunner& runner) {
    runner.Run(k ? "second" : "first", in, &of[k]);
  });
  std::copy(of[0].begin(), of[0].end(), results->begin());
  std::copy(of[1].begin(), of[1].end(), results->begin() + long(split));
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Concurrent)
    .describe(
        "The outputs of `first`, then those of `second`: two bodies that know nothing of each "
        "other and may run at the same time.")
    .variadic_input("captures", "any", "what the bodies read")
    .output("outputs", "any", "as many as both bodies have")
    .set_num_inputs(0, INT_MAX)
    .set_num_outputs([](const NodeAttrs& a) {
      return BodyOutputs(a, "first", 0) + BodyOutputs(a, "second", 0);
    })
    .param<ConcurrentParam>()
    .set_attr<FInferType>("FInferType", ConcurrentType)
    .set_attr<FInferShape>("FInferShape", ConcurrentShape)
    .set_attr<FRunBodies>("FRunBodies", ConcurrentRun)
    .set_attr<FHostEval>("FHostEval", HostByEvaluator(ConcurrentRun));

}  // namespace weft::ops
