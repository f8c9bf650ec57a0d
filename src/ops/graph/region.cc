/// region.cc: weft::Region, a part of a graph whose sizes are all known when it is entered, where
/// those of the whole graph are not. Made by the pass SplitRegions; the body is a program of its
/// own.
#include "fixed_body.h"
#include "ops/util/body_util.h"

namespace weft::ops {
namespace {

struct RegionParam : OpParam<RegionParam> {
  GraphAttr body;
  WEFT_OP_PARAM(RegionParam) {
    WEFT_FIELD(body).describe(
        "what is computed; its inputs and outputs in order, with shape and dtype");
  }
};
WEFT_REGISTER_OP_PARAM(RegionParam);

}  // namespace

WEFT_REGISTER_OP_IN(weft, Region)
    .describe(
        "The body applied to the inputs. Every size in it is known from the dimensions of the "
        "inputs, some of which no other operator reads. Made by the pass SplitRegions. Errors: no "
        "body (kBadAttribute), inputs of other dtypes or in another number (kTypeMismatch, "
        "kArity). Gradient: differentiate before. Source: Weft.")
    .variadic_input("inputs", "any")
    .output("outputs", "any")
    .set_num_inputs(0, INT32_MAX)
    .set_num_outputs(FixedBodyOutputs)
    .param<RegionParam>()
    .set_attr<FInferType>("FInferType", FixedBodyType)
    .set_attr<FInferShape>("FInferShape", RenamedBodyShape)
    .set_attr<FRunBodies>("FRunBodies", RunFixedBody)
    .set_attr<FHostEval>("FHostEval", HostByEvaluator(RunFixedBody));

}  // namespace weft::ops
