/// fused.cc: weft::Fused, the body that one kernel or library call computes (core/plan/epilogue.h).
#include "fixed_body.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/plan/epilogue.h"

namespace weft::ops {
namespace {

struct FusedParam : OpParam<FusedParam> {
  GraphAttr body;
  Ints parts;
  int64_t anchor;
  WEFT_OP_PARAM(FusedParam) {
    WEFT_FIELD(body).describe(
        "what is computed; its inputs and outputs in order, with shape and dtype");
    WEFT_FIELD(parts).set_default(Ints()).describe(
        "the body is several computations side by side, with as many outputs each, in order; "
        "empty: one");
    WEFT_FIELD(anchor).set_default(0).set_range(0, 1).describe(
        "1: the body is one operator that a library runs, and element-wise ones that it applies to "
        "the result");
  }
};
WEFT_REGISTER_OP_PARAM(FusedParam);

/// A library call may write its result over an operand of its epilogue that is as large.
std::vector<std::pair<int, int>> FusedInplace(const NodePtr& n) {
  std::vector<std::pair<int, int>> pairs;
  const std::optional<AnchoredCall> call = AnchoredCallOf(n);
  const Graph& body = FixedBody(n->attrs);
  if (!call || !body.HasAttr("shape")) return pairs;
  const ShapeMap& shapes = body.GetAttr<ShapeMap>("shape");
  for (const EpilogueStep& s : call->steps)
    if (s.operand >= 0 &&
        shapes[NodeEntry(body.inputs()[size_t(s.operand)])].same(shapes[body.outputs[0]]))
      pairs.emplace_back(s.operand, 0);
  return pairs;
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Fused)
    .describe(
        "The body applied to the inputs, as one kernel or library call. Made by the passes Fusion "
        "and Epilogue. An output of the body that is a weft::Assign to an input of the body writes "
        "that input. Errors: no body (kBadAttribute), inputs of other dtypes or in another number "
        "(kTypeMismatch, kArity). Gradient: differentiate before fusing. Source: Weft.")
    .variadic_input("inputs", "any")
    .output("outputs", "any")
    .set_num_inputs(0, INT32_MAX)
    .set_num_outputs(FixedBodyOutputs)
    .param<FusedParam>()
    .set_attr<FInferType>("FInferType", FixedBodyType)
    .set_attr<FInferShape>("FInferShape", FixedBodyShape)
    .set_attr<FInplace>("FInplace", FusedInplace)
    .set_attr<FMutateInputs>("FMutateInputs", [](const NodePtr& n) {
      std::vector<int> inputs;
      for (const auto& [input, output] : WrittenInputs(n)) inputs.push_back(input);
      return inputs;
    });

}  // namespace weft::ops
