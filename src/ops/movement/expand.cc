/// expand.cc: Expand and Tile: a tensor repeated along its axes.
///
/// Expand broadcasts x against the extents in `shape` both ways, as a binary op does: an extent
/// that is a symbol on one side and a symbol on the other is bcast(a, b), never a guess.
#include "ops/util/adjoint.h"
#include "ops/util/onnx_body_util.h"
#include "weft/core/tensor/demand.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

/// The result where `target` holds symbols for what nobody knows before the run. Such a one is the
/// dimension of the result, and not what x is broadcast against, so that the run can tell it; of x
/// [.., 8, ..] it is 8.
Shape ExpandedTo(InferShapeContext& ctx, const Shape& target) {
  const Shape& x = ctx.in(0);
  const SymTensorPtr v = InputValue(ctx, 1);
  std::vector<SymInt> dims = target.dims(), told = dims;
  for (int k = 0; k < target.rank(); ++k) {
    const int at = k - target.rank() + x.rank();
    if (at < 0 || !dims[size_t(k)].known() || (v && v->elements.at(size_t(k)).known())) continue;
    const SymInt mine = x[at];
    if (!mine.known() || mine.is(1)) continue;
    dims[size_t(k)] = mine;
    if (mine.is_const()) told[size_t(k)] = mine;
  }
  Shape out = BroadcastDemanded(x, Shape(std::move(dims)), &ctx.facts());
  for (int k = 0; k < target.rank(); ++k)
    if (!(v && v->elements.at(size_t(k)).known()))
      out.set(out.rank() - target.rank() + k, told[size_t(k)]);
  return out;
}

void ExpandShape(InferShapeContext& ctx) {
  const Shape target = ShapeFromInput(ctx, 1);
  if (!ctx.in(0).has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  if (!target.has_rank()) return;
  const Shape out = ExpandedTo(ctx, target);
  ctx.set_out(0, out);
  const SymTensorPtr v = InputValue(ctx, 0);
  if (!v || !out.is_static() || v->elements.empty()) return;
  if (v->elements.size() == 1) {
    SetValue(ctx, 0, out, [&](int64_t) { return v->elements[0]; });
  } else if (out.rank() == 1 && v->dims.size() == 1) {
    SetValue(ctx, 0, out, [&](int64_t i) { return v->elements.at(size_t(i)); });
  }
}
Exprs ExpandCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  const int lead = at.shape[0].rank() - in[0].rank();
  Indices from;
  for (int k = 0; k < in[0].rank(); ++k)
    from.push_back(BroadcastIndex(in[0].shape[k], at.shape[0][lead + k], at(0)[size_t(lead + k)]));
  return {in[0](from)};
}

// ---- Tile ----

void TileShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  if (const auto length = VectorLength(ctx, 1)) {
    WEFT_CHECK(*length == x.rank(), kShapeMismatch, "{}: {} repeats for rank {}",
               ctx.node()->Describe(), *length, x.rank());
  }
  const SymTensorPtr repeats = InputValue(ctx, 1);
  std::vector<SymInt> dims;
  for (int k = 0; k < x.rank(); ++k) {
    const SymInt r = repeats ? repeats->elements[size_t(k)] : SymInt();
    DemandAtLeast(ctx, r, 0, "a repeat");
    dims.push_back(r.known() ? x[k] * r : x[k].is(0) ? SymInt(0) : ctx.unbacked(k));
  }
  const Shape out(std::move(dims));
  ctx.set_out(0, out);
  const SymTensorPtr v = x.rank() == 1 ? InputValue(ctx, 0) : nullptr;
  if (v && !v->elements.empty())
    SetValue(ctx, 0, out, [&](int64_t i) { return v->elements[size_t(i) % v->elements.size()]; });
}
Exprs TileCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  Indices from;
  for (int k = 0; k < in[0].rank(); ++k) {
    const SymInt d = in[0].shape[k];
    from.push_back(d == at.shape[0][k] ? at(0)[size_t(k)]
                   : d.is(1)           ? Expr::Int(0)
                                       : FloorModExpr(at(0)[size_t(k)], Expr::Dim(d)));
  }
  return {in[0](from)};
}
/// dx[i] = sum over the repeats r of dy[r * d + i].
Exprs TileGradCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  std::vector<SymInt> repeats;
  for (int k = 0; k < in[0].rank(); ++k) {
    const SymInt d = at.shape[0][k];
    repeats.push_back(d.is(0) ? SymInt(0) : ExactDiv(in[0].shape[k], d));
  }
  return {SumOver(repeats, [&](const Indices& r) {
    Indices from;
    for (int k = 0; k < in[0].rank(); ++k)
      from.push_back(r[size_t(k)] * Expr::Dim(at.shape[0][k]) + at(0)[size_t(k)]);
    return in[0](from);
  })};
}

void DataAndI64(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kAllTypes);
  for (int i = 1; i < ctx.num_inputs(); ++i) CheckInputType(ctx, i, kI64Only);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
std::vector<NodeEntry> SimplifySameShape(RewriteContext& ctx, const NodePtr& n) {
  return ReplaceIfSame(ctx, n, n->inputs[0]);
}

std::string TileGradBody(const OnnxBodyRequest&) {
  return MovementAdjoint("i1", "Tile(numbers, i2)");
}

}  // namespace

WEFT_REGISTER_OP(Expand)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kElementwise)
    .describe(
        "x broadcast (numpy rules, both ways) with shape `shape`.\n"
        "Gradient: dx = SumTo(dy, x). Errors: dimensions that do not broadcast, negative ones "
        "(kShapeMismatch).\n"
        "Source: ONNX Expand-13.")
    .input("input", TypeDoc(kAllTypes))
    .input("shape", "i64", "1-D")
    .output("output", "T")
    .param<NoParam>()
    .example({"f32[3, 1]", "i64[3] = [2, 1, 4]"})
    .example({"f32[n, 1]", "i64[2] = [1, 5]"})
    .set_attr<FInferType>("FInferType", DataAndI64)
    .set_attr<FInferShape>("FInferShape", ExpandShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1})
    .set_attr<FCodeGen>("FCodeGen", ExpandCode)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& n,
                            const std::vector<NodeEntry>& dy) -> std::vector<NodeEntry> {
                           return {ReduceLike(dy[0], n->inputs[0]), NodeEntry()};
                         })
    .set_attr<FSimplify>("FSimplify", SimplifySameShape)
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), {InputDomain::kShapeValue}}))
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP(Tile)
    .describe(
        "y[i] = x[i mod shape]: x repeated `repeats[k]` times along axis k.\n"
        "Gradient: weft::TileGrad. Errors: one repeat an axis, none negative (kShapeMismatch). "
        "Source: ONNX Tile-13.")
    .input("input", TypeDoc(kAllTypes))
    .input("repeats", "i64", "1-D of length rank")
    .output("output", "T")
    .param<NoParam>()
    .example({"f32[2, 3]", "i64[2] = [2, 1]"})
    .example({"f32[n]", "i64[1] = [3]"})
    .set_attr<FInferType>("FInferType", DataAndI64)
    .set_attr<FInferShape>("FInferShape", TileShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1})
    .set_attr<FCodeGen>("FCodeGen", TileCode)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& n,
                            const std::vector<NodeEntry>& dy) -> std::vector<NodeEntry> {
                           if (!dy[0]) return {NodeEntry(), NodeEntry()};
                           return {ApplyOp("weft::TileGrad",
                                           {dy[0], ShapeOf(n->inputs[0]), n->inputs[1]}),
                                   NodeEntry()};
                         })
    .set_attr<FSimplify>("FSimplify", SimplifySameShape)
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), {InputDomain::kShapeValue}}))
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP_IN(weft, TileGrad)
    .describe(
        "Adjoint of Tile: dx[i] = sum of dy over the repeats of i. Gradient: Tile. Source: Weft.")
    .input("dy", TypeDoc(kNumeric))
    .input("shape", "i64", "dimensions of the tiled tensor")
    .input("repeats", "i64")
    .output("dx", "T")
    .param<NoParam>()
    .example({"f32[4, 3]", "i64[2] = [2, 3]", "i64[2] = [2, 1]"})
    .set_attr<FInferType>("FInferType", DataAndI64)
    .set_attr<FInferShape>("FInferShape", AdjointShape(TileShape, 1, {kSought, 2}))
    .set_attr<FCodeGen>("FCodeGen", TileGradCode)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& n,
                            const std::vector<NodeEntry>& g) -> std::vector<NodeEntry> {
                           if (!g[0]) return {NodeEntry(), NodeEntry(), NodeEntry()};
                           return {ApplyOp("Tile", {g[0], n->inputs[2]}), NodeEntry(), NodeEntry()};
                         })
    .set_attr<FOnnxBody>("FOnnxBody", TileGradBody);

}  // namespace weft::ops
