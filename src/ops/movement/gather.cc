/// gather.cc: Gather, GatherElements, GatherND and their adjoints.
///
/// Negative indices count from the end; others are taken as they are, so a run meets kIndexRange
/// where one lies outside. Adjoints scatter by looking: dx[i] sums dy over the positions whose
/// index is i. Exact and deterministic, repeated indices included, at the cost of a pass over the
/// indices for each element.
#include "ops/util/adjoint.h"
#include "ops/util/onnx_body_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct GatherParam : OpParam<GatherParam> {
  int64_t axis;
  WEFT_OP_PARAM(GatherParam) {
    WEFT_FIELD(axis).set_default(0).describe("indexed axis of data, in [-rank, rank)");
  }
};
WEFT_REGISTER_OP_PARAM(GatherParam);

struct GatherNDParam : OpParam<GatherNDParam> {
  int64_t batch_dims;
  WEFT_OP_PARAM(GatherNDParam) {
    WEFT_FIELD(batch_dims)
        .set_default(0)
        .set_lower_bound(0)
        .describe("leading axes that data and indices share");
  }
};
WEFT_REGISTER_OP_PARAM(GatherNDParam);

int Axis(const NodePtr& n, int rank) { return AxisOf(ParamOf<GatherParam>(n).axis, rank, n); }

// ---- Gather ----

void GatherShape(InferShapeContext& ctx) {
  const Shape &x = ctx.in(0), &idx = ctx.in(1);
  if (!x.has_rank() || !idx.has_rank())
    return Unknown(ctx, 0, "the rank of data or indices is unknown");
  WEFT_CHECK(x.rank() > 0, kShapeMismatch, "{}: data is a scalar", ctx.node()->Describe());
  const int axis = Axis(ctx.node(), x.rank());
  const SymTensorPtr index = InputValue(ctx, 1);
  if (index && index->is_const() && x[axis].known() && x[axis].is_const()) {
    for (int64_t i : index->ints()) {
      WEFT_CHECK(i >= -x[axis].value() && i < x[axis].value(), kIndexRange,
                 "{}: index {} outside the axis of size {}", ctx.node()->Describe(), i,
                 x[axis].value());
    }
  }
  std::vector<SymInt> dims(x.dims().begin(), x.dims().begin() + axis);
  dims.insert(dims.end(), idx.dims().begin(), idx.dims().end());
  dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
  const Shape out(std::move(dims));
  ctx.set_out(0, out);
  if (x.rank() != 1 || !index || !index->is_const()) return;
  const SymTensorPtr v = InputValue(ctx, 0);
  if (!v) return;
  const std::vector<int64_t> at = index->ints();
  const int64_t d = int64_t(v->elements.size());
  SetValue(ctx, 0, out, [&](int64_t i) {
    const int64_t k = at.at(size_t(i)) < 0 ? at[size_t(i)] + d : at[size_t(i)];
    return v->elements.at(size_t(k));
  });
}
/// Index expression of one element of an index tensor, from its known value where there is one.
Expr IndexAt(const TensorArg& indices, const Indices& at, const Expr& extent) {
  if (indices.value && indices.value->elements.size() == 1 &&
      indices.value->elements[0].is_const()) {
    const int64_t v = indices.value->elements[0].value();
    return v < 0 ? extent + Expr::Int(v) : Expr::Int(v);
  }
  return WrapIndex(indices(at), extent);
}
Exprs GatherCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &x = in[0], &idx = in[1];
  const int axis = Axis(n, x.rank());
  const auto first = at(0).begin() + axis, last = first + idx.rank();
  Indices from(at(0).begin(), first);
  from.push_back(IndexAt(idx, Indices(first, last), x.dim(axis)));
  from.insert(from.end(), last, at(0).end());
  return {x(from)};
}
Exprs GatherGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &idx = in[2];
  const int axis = Axis(n, at.shape[0].rank());
  const Indices& x = at(0);
  const Expr extent = Expr::Dim(at.shape[0][axis]);
  return {SumOver(idx.shape.dims(), [&](const Indices& r) {
    Indices from(x.begin(), x.begin() + axis);
    from.insert(from.end(), r.begin(), r.end());
    from.insert(from.end(), x.begin() + axis + 1, x.end());
    return Expr::Select(Eq(WrapIndex(idx(r), extent), x[size_t(axis)]), dy(from), Zero(dy.dtype));
  })};
}

// ---- GatherElements ----

void GatherElementsShape(InferShapeContext& ctx) {
  const Shape &x = ctx.in(0), &idx = ctx.in(1);
  if (x.has_rank() && idx.has_rank()) {
    WEFT_CHECK(x.rank() == idx.rank(), kShapeMismatch,
               "{}: data {} and indices {} have different ranks", ctx.node()->Describe(),
               x.ToString(), idx.ToString());
    const int axis = Axis(ctx.node(), x.rank());
    for (int k = 0; k < x.rank(); ++k)
      if (k != axis) DemandAtMost(ctx, idx[k], x[k], "indices against data, off the axis");
  }
  if (!idx.has_rank()) return Unknown(ctx, 0, "the rank of indices is unknown");
  ctx.set_out(0, idx);
}
Exprs GatherElementsCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const int axis = Axis(n, in[0].rank());
  Indices from = at(0);
  from[size_t(axis)] = WrapIndex(in[1](at(0)), in[0].dim(axis));
  return {in[0](from)};
}
Exprs GatherElementsGradCode(const NodePtr& n, const std::vector<TensorArg>& in,
                             const OutputAt& at) {
  const TensorArg &dy = in[0], &idx = in[2];
  const int axis = Axis(n, at.shape[0].rank());
  const Expr extent = Expr::Dim(at.shape[0][axis]);
  // Off the axis the indices may cover only a corner of data.
  Expr covered = Expr::Bool(true);
  for (int k = 0; k < idx.rank(); ++k) {
    if (k != axis && idx.shape[k] != at.shape[0][k])
      covered = And(covered, Lt(at(0)[size_t(k)], idx.dim(k)));
  }
  return {SumOver({idx.shape[axis]}, [&](const Indices& r) {
    Indices from = at(0);
    from[size_t(axis)] = r[0];
    const Expr zero = Zero(dy.dtype);
    return ReadWhere(
        covered,
        Expr::Select(Eq(WrapIndex(idx(from), extent), at(0)[size_t(axis)]), dy(from), zero), zero);
  })};
}

// ---- GatherND ----

/// Indices [batch..., positions..., k] read data [batch..., k axes..., rest...].
struct NDSplit {
  int batch, positions, depth;
};
NDSplit SplitND(const NodePtr& n, const Shape& x, const Shape& idx) {
  const int batch = int(ParamOf<GatherNDParam>(n).batch_dims);
  WEFT_CHECK(idx.rank() >= 1 && x.rank() >= 1 && batch < idx.rank() && batch < x.rank(),
             kShapeMismatch, "{}: batch_dims {} with data {} and indices {}", n->Describe(), batch,
             x.ToString(), idx.ToString());
  const SymInt k = idx[idx.rank() - 1];
  WEFT_CHECK(k.known() && k.is_const(), kUnsupported,
             "{}: the last dimension of indices {} must be known", n->Describe(), idx.ToString());
  WEFT_CHECK(k.value() >= 1 && batch + k.value() <= x.rank(), kShapeMismatch,
             "{}: indices of length {} into data {}", n->Describe(), k.value(), x.ToString());
  return {batch, idx.rank() - 1 - batch, int(k.value())};
}
void GatherNDShape(InferShapeContext& ctx) {
  const Shape &x = ctx.in(0), &idx = ctx.in(1);
  if (!x.has_rank() || !idx.has_rank())
    return Unknown(ctx, 0, "the rank of data or indices is unknown");
  if (idx.rank() > 0 && (!idx[idx.rank() - 1].known() || !idx[idx.rank() - 1].is_const()))
    return Unknown(ctx, 0, "the last dimension of indices is unknown");
  const NDSplit s = SplitND(ctx.node(), x, idx);
  std::vector<SymInt> dims;
  for (int k = 0; k < s.batch; ++k)
    dims.push_back(UnifyDims(ctx, x[k], idx[k], "batch dimensions"));
  for (int k = 0; k < s.positions; ++k) dims.push_back(idx[s.batch + k]);
  for (int k = s.batch + s.depth; k < x.rank(); ++k) dims.push_back(x[k]);
  ctx.set_out(0, Shape(std::move(dims)));
}
Exprs GatherNDCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &x = in[0], &idx = in[1];
  const NDSplit s = SplitND(n, x.shape, idx.shape);
  const Indices lead(at(0).begin(), at(0).begin() + s.batch + s.positions);
  Indices from(at(0).begin(), at(0).begin() + s.batch);
  for (int k = 0; k < s.depth; ++k) {
    Indices where = lead;
    where.push_back(Expr::Int(k));
    from.push_back(WrapIndex(idx(where), x.dim(s.batch + k)));
  }
  from.insert(from.end(), at(0).begin() + s.batch + s.positions, at(0).end());
  return {x(from)};
}
Exprs GatherNDGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &idx = in[2];
  const NDSplit s = SplitND(n, at.shape[0], idx.shape);
  std::vector<SymInt> extents;
  for (int k = 0; k < s.positions; ++k) extents.push_back(idx.shape[s.batch + k]);
  return {SumOver(extents, [&](const Indices& r) {
    Indices lead(at(0).begin(), at(0).begin() + s.batch);
    lead.insert(lead.end(), r.begin(), r.end());
    Expr hit = Expr::Bool(true);
    for (int k = 0; k < s.depth; ++k) {
      Indices where = lead;
      where.push_back(Expr::Int(k));
      hit = And(hit, Eq(WrapIndex(idx(where), Expr::Dim(at.shape[0][s.batch + k])),
                        at(0)[size_t(s.batch + k)]));
    }
    lead.insert(lead.end(), at(0).begin() + s.batch + s.depth, at(0).end());
    return Expr::Select(hit, dy(lead), Zero(dy.dtype));
  })};
}

/// dx = <op>Grad(dy, Shape(data), indices), and back: ddy = <op>(g, indices).
FGradient ScatterBy(const char* op) {
  return [op](const NodePtr& n, const std::vector<NodeEntry>& dy) -> std::vector<NodeEntry> {
    if (!dy[0]) return {NodeEntry(), NodeEntry()};
    return {ApplyOp(op, {dy[0], ShapeOf(n->inputs[0]), n->inputs[1]}, AttrsOf(n)), NodeEntry()};
  };
}
FGradient GatherBy(const char* op) {
  return [op](const NodePtr& n, const std::vector<NodeEntry>& g) -> std::vector<NodeEntry> {
    if (!g[0]) return {NodeEntry(), NodeEntry(), NodeEntry()};
    return {ApplyOp(op, {g[0], n->inputs[2]}, AttrsOf(n)), NodeEntry(), NodeEntry()};
  };
}
FInputDomains IndexOf0() {
  return [](const NodePtr& n) -> std::vector<InputDomain> {
    InputDomain d{InputDomain::kIndex};
    d.axis = int(ParamOf<GatherParam>(n).axis);
    return {InputDomain(), d};
  };
}

// ---- in ONNX's operators ----

std::string GatherGradBody(const OnnxBodyRequest& r) {
  const int64_t axis = r.node->attr<int64_t>("axis");
  const TensorPtr index = Graph::ConstantOf(r.node->inputs[2]);
  const Shape& to = r.output_shapes[0];
  if (index && index->num_elements() == 1 && index->rank() <= 1 && to.has_rank()) {
    const auto at = size_t(axis < 0 ? axis + to.rank() : axis);
    std::vector<int64_t> first(size_t(to.rank()), 0);
    first.at(at) = index->at_int(0);
    if (index->rank() == 1) return PlacedText("i0", r.input_shapes[0], first, "i1", to);
    std::vector<SymInt> piece = to.dims();
    piece[at] = 1;
    return IntsConstant("selected", {int64_t(at)}) + "piece = Unsqueeze(i0, selected)\n" +
           PlacedText("piece", Shape(piece), first, "i1", to);
  }
  return MovementAdjoint("i1", fmt::format("Gather<axis = {}>(numbers, i2)", axis));
}
std::string GatherElementsGradBody(const OnnxBodyRequest& r) {
  return MovementAdjoint(
      "i1", fmt::format("GatherElements<axis = {}>(numbers, i2)", r.node->attr<int64_t>("axis")));
}
std::string GatherNDGradBody(const OnnxBodyRequest& r) {
  return MovementAdjoint("i1", fmt::format("GatherND<batch_dims = {}>(numbers, i2)",
                                           r.node->attr<int64_t>("batch_dims")));
}

}  // namespace

#define WEFT_GATHER_SIGNATURE(Param)                                                  \
  input("data", TypeDoc(kAllTypes))                                                   \
      .input("indices", TypeDoc(kIndexTypes, "Tind"), "in [-size, size) of the axis") \
      .output("output", "T")                                                          \
      .set_num_inputs(2)                                                              \
      .set_num_outputs(1)                                                             \
      .param<Param>()                                                                 \
      .set_attr<FInferType>("FInferType", TypeOfDataInput(kAllTypes, {1}))
#define WEFT_GATHER_GRAD_SIGNATURE(Param, Forward)                           \
  input("dy", TypeDoc(kNumeric))                                             \
      .input("shape", "i64", "dimensions of data")                           \
      .input("indices", TypeDoc(kIndexTypes, "Tind"))                        \
      .output("dx", "T")                                                     \
      .set_num_inputs(3)                                                     \
      .set_num_outputs(1)                                                    \
      .param<Param>()                                                        \
      .set_attr<FInferType>("FInferType", TypeOfDataInput(kNumeric, {1, 2})) \
      .set_attr<FInferShape>("FInferShape", AdjointShape(Forward, 1, {kSought, 2}))

WEFT_REGISTER_OP(Gather)
    .describe(
        "y[i.., p.., j..] = data[i.., indices[p..], j..] with i.. the axes before `axis` and j.. "
        "those after it.\n"
        "Gradient: weft::GatherGrad; keeps the indices and the shape of data.\n"
        "Errors: axis out of range (kBadAttribute), an index outside the axis (kIndexRange). "
        "Source: ONNX Gather-13.")
    .WEFT_GATHER_SIGNATURE(GatherParam)
    .example({"f32[4, 3]", "i64[2, 2] = [0, -1, 2, 0]"})
    .example({"f32[n, 5]", "i64[] = [2]"}, "axis = 1")
    .set_attr<FInferShape>("FInferShape", GatherShape)
    .set_attr<FCodeGen>("FCodeGen", GatherCode)
    .set_attr<FGradient>("FGradient", ScatterBy("weft::GatherGrad"))
    .set_attr<FInputDomains>("FInputDomains", IndexOf0())
    .set_attr<TMovesElements>("TMovesElements", true);
WEFT_REGISTER_OP_IN(weft, GatherGrad)
    .describe(
        "Adjoint of Gather: dx[.., i, ..] = sum of dy over the positions with index i. Gradient: "
        "Gather. Source: Weft.")
    .WEFT_GATHER_GRAD_SIGNATURE(GatherParam, GatherShape)
    .example({"f32[3, 2]", "i64[2] = [4, 2]", "i64[3] = [1, -1, 1]"})
    .set_attr<FCodeGen>("FCodeGen", GatherGradCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FGradient>("FGradient", GatherBy("Gather"))
    .set_attr<FOnnxBody>("FOnnxBody", GatherGradBody);

WEFT_REGISTER_OP(GatherElements)
    .describe(
        "y[i_0, .., i_axis, ..] = data[i_0, .., indices[i_0, ..], ..]: one index an output "
        "element.\n"
        "Gradient: weft::GatherElementsGrad; keeps the indices and the shape of data.\n"
        "Errors: ranks differ, indices exceed data off the axis (kShapeMismatch), an index outside "
        "the axis (kIndexRange).\n"
        "Source: ONNX GatherElements-13.")
    .WEFT_GATHER_SIGNATURE(GatherParam)
    .example({"f32[3, 2]", "i64[2, 2] = [0, 2, -1, 0]"})
    .set_attr<FInferShape>("FInferShape", GatherElementsShape)
    .set_attr<FCodeGen>("FCodeGen", GatherElementsCode)
    .set_attr<FGradient>("FGradient", ScatterBy("weft::GatherElementsGrad"))
    .set_attr<FInputDomains>("FInputDomains", IndexOf0())
    .set_attr<TMovesElements>("TMovesElements", true);
WEFT_REGISTER_OP_IN(weft, GatherElementsGrad)
    .describe(
        "Adjoint of GatherElements: sums dy where its index points. Gradient: GatherElements. "
        "Source: Weft.")
    .WEFT_GATHER_GRAD_SIGNATURE(GatherParam, GatherElementsShape)
    .example({"f32[2, 2]", "i64[2] = [3, 2]", "i64[2, 2] = [0, 2, -1, 0]"})
    .set_attr<FCodeGen>("FCodeGen", GatherElementsGradCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FGradient>("FGradient", GatherBy("GatherElements"))
    .set_attr<FOnnxBody>("FOnnxBody", GatherElementsGradBody);

WEFT_REGISTER_OP(GatherND)
    .describe(
        "y[b.., p.., j..] = data[b.., indices[b.., p.., 0], .., indices[b.., p.., k-1], j..].\n"
        "Gradient: weft::GatherNDGrad; keeps the indices and the shape of data.\n"
        "Errors: index tuples longer than data has axes (kShapeMismatch), an index outside its "
        "axis (kIndexRange), a last dimension of indices that is not constant (kUnsupported). "
        "Source: ONNX GatherND-13.")
    .WEFT_GATHER_SIGNATURE(GatherNDParam)
    .example({"f32[2, 3, 2]", "i64[2, 2] = [0, 1, 1, -1]"})
    .example({"f32[2, 3]", "i64[2, 1] = [0, 2]"}, "batch_dims = 1")
    .set_attr<FInferShape>("FInferShape", GatherNDShape)
    .set_attr<FCodeGen>("FCodeGen", GatherNDCode)
    .set_attr<FGradient>("FGradient", ScatterBy("weft::GatherNDGrad"))
    .set_attr<FInputDomains>("FInputDomains",
                             [](const NodePtr&) -> std::vector<InputDomain> {
                               return {InputDomain(), {InputDomain::kIndex}};
                             })
    .set_attr<TMovesElements>("TMovesElements", true);
WEFT_REGISTER_OP_IN(weft, GatherNDGrad)
    .describe(
        "Adjoint of GatherND: sums dy where its index tuple points. Gradient: GatherND. Source: "
        "Weft.")
    .WEFT_GATHER_GRAD_SIGNATURE(GatherNDParam, GatherNDShape)
    .example({"f32[2, 2]", "i64[3] = [2, 3, 2]", "i64[2, 2] = [0, 1, 1, -1]"})
    .set_attr<FCodeGen>("FCodeGen", GatherNDGradCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FGradient>("FGradient", GatherBy("GatherND"))
    .set_attr<FOnnxBody>("FOnnxBody", GatherNDGradBody);

}  // namespace weft::ops
