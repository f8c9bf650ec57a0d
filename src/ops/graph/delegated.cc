/// delegated.cc: weft::Delegated, a part of a graph that an engine runs (core/module/delegate.h).
#include "fixed_body.h"
#include "ops/util/body_util.h"

namespace weft::ops {
namespace {

struct DelegatedParam : OpParam<DelegatedParam> {
  GraphAttr body;
  std::string delegate;
  TensorAttr engine;
  std::string engine_key;
  WEFT_OP_PARAM(DelegatedParam) {
    WEFT_FIELD(body).describe(
        "what is computed; its inputs and outputs in order, with shape and dtype");
    WEFT_FIELD(delegate).describe("whose engine runs it, with options: \"openvino:streams=2\"");
    WEFT_FIELD(engine)
        .set_default(TensorAttr())
        .describe("u8[bytes]: the engine as the delegate has exported it; in compiled programs");
    WEFT_FIELD(engine_key)
        .set_default("")
        .describe("what it was made for: the delegate's version, threads, the processor");
  }
};
WEFT_REGISTER_OP_PARAM(DelegatedParam);

}  // namespace

WEFT_REGISTER_OP_IN(weft, Delegated)
    .describe(
        "The body applied to the inputs, by the engine of a delegate where programs run, by the "
        "interpreter elsewhere. Made by the pass Delegate. Errors: no body (kBadAttribute), inputs "
        "of other dtypes or in another number (kTypeMismatch, kArity). Gradient: differentiate "
        "before. Source: Weft.")
    .variadic_input("inputs", "any")
    .output("outputs", "any")
    .set_num_inputs(0, INT32_MAX)
    .set_num_outputs(FixedBodyOutputs)
    .param<DelegatedParam>()
    .set_attr<FInferType>("FInferType", FixedBodyType)
    .set_attr<FInferShape>("FInferShape", RenamedBodyShape)
    .set_attr<FRunBodies>("FRunBodies", RunFixedBody)
    .set_attr<FHostEval>("FHostEval", HostByEvaluator(RunFixedBody));

}  // namespace weft::ops
