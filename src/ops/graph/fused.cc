/// fused.cc: weft::Fused, the body that one kernel or library call computes (core/plan/epilogue.h).
#include "ops/util/shape_util.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/plan/epilogue.h"
#include "weft/support/check.h"

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

const Graph& BodyOf(const NodeAttrs& attrs) {
  const AttrValue* v = attrs.dict.find("body");
  WEFT_CHECK(v && v->is<GraphPtr>() && v->get<GraphPtr>(), kBadAttribute,
             "weft::Fused needs a graph attribute `body`");
  return *v->get<GraphPtr>();
}

void FusedType(InferTypeContext& ctx) {
  const Graph& body = BodyOf(ctx.node()->attrs);
  if (!body.HasAttr("dtype")) return;
  const TypeMap& types = body.GetAttr<TypeMap>("dtype");
  for (int i = 0; i < ctx.num_inputs() && i < int(body.inputs().size()); ++i) {
    const Type declared = types[NodeEntry(body.inputs()[size_t(i)])], given = ctx.in(i);
    WEFT_CHECK(!declared.known() || !given.known() || declared == given, kTypeMismatch,
               "{}: input {} is {}, the body takes {}", ctx.node()->Describe(), i, given.ToString(),
               declared.ToString());
  }
  for (int k = 0; k < ctx.num_outputs(); ++k) {
    const Type t = types[body.outputs[size_t(k)]];
    if (t.known()) ctx.set_out(k, t);
  }
}

/// The body's extents are expressions over the symbols of the graph around it, so its recorded
/// output shapes hold as long as every input still has the shape it was built for.
void FusedShape(InferShapeContext& ctx) {
  const Graph& body = BodyOf(ctx.node()->attrs);
  auto unknown = [&ctx](const std::string& why) {
    for (int k = 0; k < ctx.num_outputs(); ++k) Unknown(ctx, k, why);
  };
  if (!body.HasAttr("shape")) return unknown("the fused body has no shapes");
  const ShapeMap& shapes = body.GetAttr<ShapeMap>("shape");
  WEFT_CHECK(ctx.num_inputs() == int(body.inputs().size()), kArity,
             "{}: {} inputs, the body takes {}", ctx.node()->Describe(), ctx.num_inputs(),
             body.inputs().size());
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const Shape &declared = shapes[NodeEntry(body.inputs()[size_t(i)])], &given = ctx.in(i);
    bool same = given.has_rank() && declared.has_rank() && given.rank() == declared.rank();
    for (int k = 0; same && k < given.rank(); ++k)
      same =
          given[k].known() && declared[k].known() && ctx.facts().ProvedEqual(given[k], declared[k]);
    if (!same)
      return unknown(fmt::format("input {} is {}, the fused body was made for {}", i,
                                 given.ToString(), declared.ToString()));
  }
  const ValueMap* values = body.HasAttr("value") ? &body.GetAttr<ValueMap>("value") : nullptr;
  for (int k = 0; k < ctx.num_outputs(); ++k) {
    ctx.set_out(k, shapes[body.outputs[size_t(k)]]);
    if (const SymTensorPtr* v = values ? values->find(body.outputs[size_t(k)]) : nullptr; v && *v)
      ctx.set_out_value(k, **v);
  }
}

/// A library call may write its result over an operand of its epilogue that is as large.
std::vector<std::pair<int, int>> FusedInplace(const NodePtr& n) {
  std::vector<std::pair<int, int>> pairs;
  const std::optional<AnchoredCall> call = AnchoredCallOf(n);
  const Graph& body = BodyOf(n->attrs);
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
    .set_num_outputs([](const NodeAttrs& attrs) { return uint32_t(BodyOf(attrs).outputs.size()); })
    .param<FusedParam>()
    .set_attr<FInferType>("FInferType", FusedType)
    .set_attr<FInferShape>("FInferShape", FusedShape)
    .set_attr<FInplace>("FInplace", FusedInplace)
    .set_attr<FMutateInputs>("FMutateInputs", [](const NodePtr& n) {
      std::vector<int> inputs;
      for (const auto& [input, output] : WrittenInputs(n)) inputs.push_back(input);
      return inputs;
    });

}  // namespace weft::ops
