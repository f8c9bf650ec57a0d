/// weft_ops.cc: weft::SumTo, weft::Fused, weft::Assign: ops
/// that passes build (core/graph/builtin_ops.h).
#include "ops/util/demand.h"
#include "ops/util/onnx_body_util.h"
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

// ---- SumTo ----

void SumToType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kNumeric);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
void SumToShape(InferShapeContext& ctx) {
  if (!ctx.in(1).has_rank()) return Unknown(ctx, 0, "the rank of `like` is unknown");
  DemandBroadcastTo(ctx, 1, ctx.in(0));
  ctx.set_out(0, ctx.in(1));
}
Exprs SumToCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const Shape& y = at.shape[0];
  const int lead = x.rank() - y.rank();
  std::vector<SymInt> extents;
  for (int k = 0; k < x.rank(); ++k) {
    if (k < lead)
      extents.push_back(x.shape[k]);
    else if (const SymInt d = y[k - lead]; d != x.shape[k])
      extents.push_back(d.is(1) ? x.shape[k] : ExactDiv(x.shape[k], d));
  }
  return {SumOver(extents, [&](const Indices& r) {
    Indices from;
    size_t next = 0;
    for (int k = 0; k < x.rank(); ++k) {
      if (k < lead) {
        from.push_back(r[next++]);
      } else if (const SymInt d = y[k - lead]; d != x.shape[k]) {
        // Where the extent turns out equal at run time there is one term; else it is 1 and all are
        // summed.
        from.push_back(d.is(1) ? r[next++] : r[next++] + at(0)[size_t(k - lead)]);
      } else {
        from.push_back(at(0)[size_t(k - lead)]);
      }
    }
    return x(from);
  })};
}
/// Equal shapes: x. Decided extents: ReduceSum over what was broadcast, which does not keep `like`
/// alive.
std::vector<NodeEntry> SimplifySumTo(RewriteContext& ctx, const NodePtr& n) {
  const NodeEntry x = n->inputs[0];
  const Shape &from = ctx.shape(x), &to = ctx.shape(n->inputs[1]);
  if (!from.has_rank() || !to.has_rank() || from.rank() < to.rank()) return {};
  const int lead = from.rank() - to.rank();
  std::vector<int64_t> leading, axes;
  for (int k = 0; k < from.rank(); ++k) {
    if (k < lead) {
      leading.push_back(k);
      axes.push_back(k);
    } else if (!from[k].known() || !to[k - lead].known()) {
      return {};
    } else if (!ctx.facts().ProvedEqual(from[k], to[k - lead])) {
      if (!to[k - lead].is(1)) return {};
      axes.push_back(k);
    }
  }
  if (axes.empty()) return {x};
  const bool only_leading = axes.size() == leading.size();
  const NodeEntry sum =
      Apply("ReduceSum", {x, IntsLike(x, axes)}, {{"keepdims", int64_t(!only_leading)}});
  return {only_leading || leading.empty() ? sum : Apply("Squeeze", {sum, IntsLike(x, leading)})};
}
std::string SumToBody(const OnnxBodyRequest& r) {
  return "like = Shape(i1)\n" + SumToText("i0", r.input_shapes[0], "like", r.input_shapes[1]);
}

// ---- Fused ----

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

// ---- Assign ----

void AssignShape(InferShapeContext& ctx) {
  const Shape &variable = ctx.in(0), &value = ctx.in(1);
  if (!variable.has_rank()) return ctx.set_out(0, value);
  if (!value.has_rank()) return ctx.set_out(0, variable);
  WEFT_CHECK(variable.rank() == value.rank(), kShapeMismatch, "{}: a value {} for a variable {}",
             ctx.node()->Describe(), value.ToString(), variable.ToString());
  Shape out = variable;
  for (int k = 0; k < out.rank(); ++k)
    out.set(k, UnifyDims(ctx, variable[k], value[k], "dimensions of variable and value"));
  ctx.set_out(0, out);
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, SumTo)
    .describe(
        "x summed down to the shape of `like`: the reverse of broadcasting `like` to the shape of "
        "x. Elements of `like` are not read. f16 and bf16 accumulate in f32. Gradient: dy expanded "
        "to x.\n"
        "Errors: `like` does not broadcast to x (kShapeMismatch). Source: Weft.")
    .input("x", TypeDoc(kNumeric))
    .input("like", "any")
    .output("y", "T")
    .set_num_inputs(2)
    .set_num_outputs(1)
    .param<NoParam>()
    .example({"f32[2, 3, 4]", "f32[3, 1]"})
    .example({"f32[2, n]", "f32[n]"})
    .set_attr<FInferType>("FInferType", SumToType)
    .set_attr<FInferShape>("FInferShape", SumToShape)
    .set_attr<FCodeGen>("FCodeGen", SumToCode)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& n,
                            const std::vector<NodeEntry>& dy) -> std::vector<NodeEntry> {
                           if (!dy[0]) return {NodeEntry(), NodeEntry()};
                           return {ExpandLike(dy[0], n->inputs[0]), NodeEntry()};
                         })
    .set_attr<FSimplify>("FSimplify", SimplifySumTo)
    .set_attr<FFlops>("FFlops", [](const NodePtr&, const std::vector<Shape>& in,
                                   const std::vector<Shape>&) { return in.at(0).num_elements(); })
    .set_attr<FOnnxBody>("FOnnxBody", SumToBody);

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

WEFT_REGISTER_OP_IN(weft, Assign)
    .describe(
        "Writes `value` into the variable and gives it back. Ordered against the variable's "
        "readers by OrderMutation.\n"
        "Gradient: none. Errors: dtypes or shapes differ (kTypeMismatch, kShapeMismatch). Source: "
        "Weft.")
    .input("variable", TypeDoc(kComputable), "a variable")
    .input("value", "T")
    .output("new_value", "T")
    .set_num_inputs(2)
    .set_num_outputs(1)
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", SameType(kComputable))
    .set_attr<FInferShape>("FInferShape", AssignShape)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const std::vector<TensorArg>& in,
                           const OutputAt& at) -> Exprs { return {in[1](at(0))}; })
    .set_attr<FMutateInputs>("FMutateInputs", [](const NodePtr&) { return std::vector<int>{0}; })
    .set_attr<TIsStateful>("TIsStateful", true);

}  // namespace weft::ops
