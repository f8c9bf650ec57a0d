/// sum_to.cc: weft::SumTo, the reverse of broadcasting, which gradients are made of
/// (core/graph/builtin_ops.h).
#include "ops/util/demand.h"
#include "ops/util/onnx_body_util.h"

namespace weft::ops {
namespace {

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
  // What is empty has no points whose terms would be counted: any number but 0 // 0 will do.
  const auto terms = [](SymInt from, SymInt to) {
    return to.is_const() ? ExactDiv(from, to) : ExactDiv(from, Max(to, 1));
  };
  for (int k = 0; k < x.rank(); ++k) {
    if (k < lead)
      extents.push_back(x.shape[k]);
    else if (const SymInt d = y[k - lead]; d != x.shape[k])
      extents.push_back(d.is(1) ? x.shape[k] : terms(x.shape[k], d));
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
      ApplyOp("ReduceSum", {x, IntsLike(x, axes)}, {{"keepdims", int64_t(!only_leading)}});
  return {only_leading || leading.empty() ? sum : ApplyOp("Squeeze", {sum, IntsLike(x, leading)})};
}
std::string SumToBody(const OnnxBodyRequest& r) {
  return "like = Shape(i1)\n" + SumToText("i0", r.input_shapes[0], "like", r.input_shapes[1]);
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

}  // namespace weft::ops
