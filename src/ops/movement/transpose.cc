/// transpose.cc: Transpose, DepthToSpace, SpaceToDepth: elements moved by a fixed permutation of
/// (split) axes.

#include "ops/util/demand.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct TransposeParam : OpParam<TransposeParam> {
  Ints perm;
  WEFT_OP_PARAM(TransposeParam) {
    WEFT_FIELD(perm).set_default({}).describe(
        "output axis k is input axis perm[k]; absent: axes reversed");
  }
};
WEFT_REGISTER_OP_PARAM(TransposeParam);

struct DepthToSpaceParam : OpParam<DepthToSpaceParam> {
  int64_t blocksize;
  std::string mode;
  WEFT_OP_PARAM(DepthToSpaceParam) {
    WEFT_FIELD(blocksize)
        .set_range(1, INT32_MAX)
        .describe("side of the square that C / blocksize^2 channels become");
    WEFT_FIELD(mode).set_default("DCR").describe(
        "DCR: depth = (block row, block column, channel); CRD: (channel, row, column)");
  }
};
WEFT_REGISTER_OP_PARAM(DepthToSpaceParam);

struct SpaceToDepthParam : OpParam<SpaceToDepthParam> {
  int64_t blocksize;
  WEFT_OP_PARAM(SpaceToDepthParam) {
    WEFT_FIELD(blocksize).set_range(1, INT32_MAX).describe("side of the square");
  }
};
WEFT_REGISTER_OP_PARAM(SpaceToDepthParam);

std::vector<int> PermOf(const NodePtr& n, int rank) {
  const Ints& perm = ParamOf<TransposeParam>(n).perm;
  std::vector<int> out;
  if (perm.empty()) {
    for (int k = rank; k-- > 0;) out.push_back(k);
    return out;
  }
  WEFT_CHECK(int(perm.size()) == rank, kShapeMismatch, "{}: perm has {} axes, x has rank {}",
             n->Describe(), perm.size(), rank);
  std::vector<bool> seen(size_t(rank), false);
  for (int64_t p : perm) {
    WEFT_CHECK(p >= 0 && p < rank && !seen[size_t(p)], kBadAttribute,
               "{}: perm {} is not a permutation", n->Describe(), fmt::join(perm, ", "));
    seen[size_t(p)] = true;
    out.push_back(int(p));
  }
  return out;
}

void TransposeShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) {
    if (const Ints& perm = ParamOf<TransposeParam>(ctx.node()).perm; !perm.empty())
      ctx.set_out(0, Shape::OfRank(int(perm.size())));
    return Unknown(ctx, 0, "the rank of x is unknown");
  }
  std::vector<SymInt> dims;
  for (int p : PermOf(ctx.node(), x.rank())) dims.push_back(x[p]);
  const Shape out(std::move(dims));
  ctx.set_out(0, out);
  if (x.rank() > 1) return;
  if (const SymTensorPtr v = InputValue(ctx, 0))
    SetValue(ctx, 0, out, [&](int64_t i) { return v->elements.at(size_t(i)); });
}

Exprs TransposeCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const std::vector<int> perm = PermOf(n, in[0].rank());
  Indices from(perm.size());
  for (size_t k = 0; k < perm.size(); ++k) from[size_t(perm[k])] = at(0)[k];
  return {in[0](from)};
}

std::vector<NodeEntry> TransposeGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry()};
  const Ints& perm = ParamOf<TransposeParam>(n).perm;
  if (perm.empty()) return {ApplyOp("Transpose", {dy[0]})};
  Ints inverse(perm.size());
  for (size_t k = 0; k < perm.size(); ++k) inverse.at(size_t(perm[k])) = int64_t(k);
  return {ApplyOp("Transpose", {dy[0]}, {{"perm", inverse}})};
}

std::vector<NodeEntry> SimplifyTranspose(RewriteContext& ctx, const NodePtr& n) {
  const Shape& x = ctx.shape(n->inputs[0]);
  if (!x.has_rank()) return {};
  const std::vector<int> perm = PermOf(n, x.rank());
  for (int k = 0; k < x.rank(); ++k) {
    if (perm[size_t(k)] != k) return {};
  }
  return ReplaceIfSame(ctx, n, n->inputs[0]);
}

// ---- DepthToSpace, SpaceToDepth ----

bool IsDcr(const NodePtr& n) {
  const std::string& mode = ParamOf<DepthToSpaceParam>(n).mode;
  WEFT_CHECK(mode == "DCR" || mode == "CRD", kBadAttribute, "{}: mode '{}' is neither DCR nor CRD",
             n->Describe(), mode);
  return mode == "DCR";
}

void DepthToSpaceShape(InferShapeContext& ctx) {
  if (!CheckRank(ctx, 0, 4, "x")) return ctx.set_out(0, Shape::OfRank(4));
  const int64_t b = ParamOf<DepthToSpaceParam>(ctx.node()).blocksize;
  const Shape& x = ctx.in(0);
  DemandMultiple(ctx, x[1], b * b, "channels by the square of blocksize");
  ctx.set_out(0, Shape({x[0], ExactDiv(x[1], b * b), x[2] * b, x[3] * b}));
}
Exprs DepthToSpaceCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const Expr b = Expr::Int(ParamOf<DepthToSpaceParam>(n).blocksize);
  const Indices& y = at(0);
  const Expr row = FloorModExpr(y[2], b), column = FloorModExpr(y[3], b);
  const Expr channels = Expr::Dim(at.shape[0][1]);
  const Expr c = IsDcr(n) ? (row * b + column) * channels + y[1] : (y[1] * b + row) * b + column;
  return {in[0]({y[0], c, FloorDivExpr(y[2], b), FloorDivExpr(y[3], b)})};
}
/// CRD has no inverse op: [n, c, h*b, w*b] -> [n, c, h, b, w, b] -> [n, c, b, b, h, w] -> [n,
/// c*b*b, h, w].
std::vector<NodeEntry> DepthToSpaceGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry()};
  const int64_t b = ParamOf<DepthToSpaceParam>(n).blocksize;
  if (IsDcr(n)) return {ApplyOp("SpaceToDepth", {dy[0]}, {{"blocksize", b}})};
  const NodeEntry x = n->inputs[0];
  auto extents = [](const NodeEntry& e, int from, int to) {
    return ApplyOp("Shape", {e}, {{"start", from}, {"end", to}});
  };
  const NodeEntry block = IntsLike(x, {b});
  const NodeEntry split =
      ApplyOp("Concat", {extents(dy[0], 0, 2), extents(x, 2, 3), block, extents(x, 3, 4), block},
              {{"axis", 0}});
  const NodeEntry six = ApplyOp("Reshape", {dy[0], split}, {{"allowzero", 1}});
  return {ReshapeLike(ApplyOp("Transpose", {six}, {{"perm", Ints{0, 1, 3, 5, 2, 4}}}), x)};
}

void SpaceToDepthShape(InferShapeContext& ctx) {
  if (!CheckRank(ctx, 0, 4, "x")) return ctx.set_out(0, Shape::OfRank(4));
  const int64_t b = ParamOf<SpaceToDepthParam>(ctx.node()).blocksize;
  const Shape& x = ctx.in(0);
  for (int k = 2; k < 4; ++k) DemandMultiple(ctx, x[k], b, "dimensions by blocksize");
  ctx.set_out(0, Shape({x[0], x[1] * (b * b), ExactDiv(x[2], b), ExactDiv(x[3], b)}));
}
Exprs SpaceToDepthCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const Expr b = Expr::Int(ParamOf<SpaceToDepthParam>(n).blocksize);
  const Indices& y = at(0);
  const Expr channels = in[0].dim(1);
  const Expr block = FloorDivExpr(y[1], channels);
  return {in[0]({y[0], FloorModExpr(y[1], channels), y[2] * b + FloorDivExpr(block, b),
                 y[3] * b + FloorModExpr(block, b)})};
}

}  // namespace

WEFT_REGISTER_OP(Transpose)
    .describe(
        "y[i_perm[0], i_perm[1], ...] = x[i_0, i_1, ...]: axes permuted.\n"
        "Gradient: dx = Transpose(dy, inverse of perm). Errors: perm is not a permutation "
        "(kBadAttribute) or of another rank (kShapeMismatch). Source: ONNX Transpose-24.")
    .input("data", TypeDoc(kAllTypes))
    .output("transposed", "T")
    .param<TransposeParam>()
    .example({"f32[2, 3, 4]"})
    .example({"f32[n, 3, 4]"}, "perm = [1, 2, 0]")
    .set_attr<FInferType>("FInferType", TypeOfFirst(kAllTypes))
    .set_attr<FInferShape>("FInferShape", TransposeShape)
    .set_attr<FCodeGen>("FCodeGen", TransposeCode)
    .set_attr<FGradient>("FGradient", TransposeGrad)
    .set_attr<FSimplify>("FSimplify", SimplifyTranspose)
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP(DepthToSpace)
    .describe(
        "[n, c*b*b, h, w] -> [n, c, h*b, w*b]: blocks of channels become squares of b x b "
        "positions.\n"
        "Gradient: SpaceToDepth (DCR), or its reshape and transpose (CRD). Errors: channels do not "
        "divide (kShapeMismatch).\n"
        "Source: ONNX DepthToSpace-13.")
    .input("input", TypeDoc(kAllTypes), "rank 4")
    .output("output", "T")
    .param<DepthToSpaceParam>()
    .example({"f32[1, 8, 2, 3]"}, "blocksize = 2")
    .example({"f32[n, 8, 2, 3]"}, "blocksize = 2, mode = \"CRD\"")
    .set_attr<FInferType>("FInferType", TypeOfFirst(kAllTypes))
    .set_attr<FInferShape>("FInferShape", DepthToSpaceShape)
    .set_attr<FCodeGen>("FCodeGen", DepthToSpaceCode)
    .set_attr<FGradient>("FGradient", DepthToSpaceGrad)
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP(SpaceToDepth)
    .describe(
        "[n, c, h*b, w*b] -> [n, b*b*c, h, w]: squares of b x b positions become channels (row, "
        "column, channel).\n"
        "Gradient: DepthToSpace (DCR). Errors: a dimension does not divide (kShapeMismatch). "
        "Source: ONNX SpaceToDepth-13.")
    .input("input", TypeDoc(kAllTypes), "rank 4")
    .output("output", "T")
    .param<SpaceToDepthParam>()
    .example({"f32[n, 2, 4, 6]"}, "blocksize = 2")
    .set_attr<FInferType>("FInferType", TypeOfFirst(kAllTypes))
    .set_attr<FInferShape>("FInferShape", SpaceToDepthShape)
    .set_attr<FCodeGen>("FCodeGen", SpaceToDepthCode)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& n,
                            const std::vector<NodeEntry>& dy) -> std::vector<NodeEntry> {
                           if (!dy[0]) return {NodeEntry()};
                           return {
                               ApplyOp("DepthToSpace", {dy[0]},
                                       {{"blocksize", ParamOf<SpaceToDepthParam>(n).blocksize}})};
                         })
    .set_attr<TMovesElements>("TMovesElements", true);

}  // namespace weft::ops
