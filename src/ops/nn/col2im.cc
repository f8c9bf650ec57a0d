/// col2im.cc: Col2Im, blocks added back into an image, and weft::Im2Col, its adjoint, which cuts an
/// image into blocks; over any number of spatial axes.
///
/// With K = the number of positions of a block, L of blocks:
///   image[n, c, i] = sum over k, o with o stride + k dilation - begin = i of
///                    columns[n, c K + k, o],    k and o counted row-major
#include "ops/util/demand.h"
#include "ops/util/window.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct Col2ImParam : OpParam<Col2ImParam> {
  Ints dilations, pads, strides;
  WEFT_OP_PARAM(Col2ImParam) {
    WEFT_FIELD(dilations).set_default({}).describe("positive, one a spatial axis; default 1");
    WEFT_FIELD(pads).set_default({}).describe("all begins, then all ends; default 0");
    WEFT_FIELD(strides).set_default({}).describe("positive, one a spatial axis; default 1");
  }
};
WEFT_REGISTER_OP_PARAM(Col2ImParam);

Window BlockWindow(const NodePtr& n, const std::vector<SymInt>& image,
                   const std::vector<SymInt>& block) {
  const auto& p = ParamOf<Col2ImParam>(n);
  WEFT_CHECK(image.size() == block.size(), kShapeMismatch,
             "{}: image_shape of length {}, block_shape of length {}", n->Describe(), image.size(),
             block.size());
  return MakeWindow(n, {"NOTSET", p.strides, p.dilations, p.pads, false}, image, block, nullptr);
}
/// With the demands that blocks make: positive extents, and room in the image.
Window DemandBlocks(InferShapeContext& ctx, const std::vector<SymInt>& image,
                    const std::vector<SymInt>& block) {
  for (SymInt d : image) DemandAtLeast(ctx, d, 0, "the dimensions of an image");
  for (SymInt d : block) DemandAtLeast(ctx, d, 1, "the dimensions of a block");
  const Window w = BlockWindow(ctx.node(), image, block);
  DemandFit(ctx.node(), w, &ctx.facts());
  return w;
}

/// Extents in input i as far as they are known; nothing where not even their number is.
std::optional<std::vector<SymInt>> Extents(InferShapeContext& ctx, int i) {
  const SymTensorPtr v = InputValue(ctx, i);
  if (v) return v->elements;
  const auto length = VectorLength(ctx, i);
  if (!length || *length > 64) return std::nullopt;
  return std::vector<SymInt>(size_t(*length));
}

void Col2ImShape(InferShapeContext& ctx) {
  const Shape x = CheckRank(ctx, 0, 3, "input") ? ctx.in(0) : Shape::OfRank(3);
  auto image = Extents(ctx, 1), block = Extents(ctx, 2);
  if (!image) return Unknown(ctx, 0, "the length of image_shape is unknown");
  SymInt positions;
  if (block) {
    positions = Product(*block);
    const Window w = DemandBlocks(ctx, *image, *block);
    UnifyDims(ctx, x[2], Product(w.out), "the number of blocks");
  }
  std::vector<SymInt> dims{
      x[0], x[1].known() && positions.known() ? ExactDiv(x[1], positions) : ctx.unbacked(0)};
  if (positions.known() && positions.is_const())
    DemandMultiple(ctx, x[1], positions.value(), "rows by the positions of a block");
  for (size_t k = 0; k < image->size(); ++k)
    dims.push_back((*image)[k].known() ? (*image)[k] : ctx.unbacked(int(k) + 1));
  ctx.set_out(0, Shape(std::move(dims)));
}

std::vector<SymInt> KnownExtents(const NodePtr& n, const TensorArg& arg) {
  WEFT_CHECK(arg.value, kUnsupported, "{}: block_shape must be known at compile time",
             n->Describe());
  return arg.value->elements;
}

Exprs Col2ImCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const Window w = BlockWindow(n, Tail(at.shape[0], 2), KnownExtents(n, in[2]));
  const Expr first = at(0)[1] * Expr::Dim(Product(w.kernel));
  return {SumOver(WindowTaps(w), [&](const Indices& t) {
    const WindowHit h = WindowTap(w, Tail(at(0), 2), t);
    return ReadWhere(h.hit, x({at(0)[0], first + Linearize(h.k, w.kernel), Linearize(h.o, w.out)}),
                     Zero(x.dtype));
  })};
}
std::vector<NodeEntry> Col2ImGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry(), NodeEntry(), NodeEntry()};
  return {ApplyOp("weft::Im2Col", {dy[0], n->inputs[2]}, AttrsOf(n)), NodeEntry(), NodeEntry()};
}

void Im2ColShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  const auto block = Extents(ctx, 1);
  if (!x.has_rank() || !block) {
    ctx.set_out(0, Shape::OfRank(3));
    return Unknown(ctx, 0, "the rank of the image or the length of block_shape is unknown");
  }
  WEFT_CHECK(x.rank() >= 3, kShapeMismatch, "{}: the image must have rank 3 or more, got {}",
             ctx.node()->Describe(), x.ToString());
  const Window w = DemandBlocks(ctx, Tail(x, 2), *block);
  ctx.set_out(0, Shape({x[0], x[1] * Product(*block), Product(w.out)}));
}
Exprs Im2ColCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const Window w = BlockWindow(n, Tail(x.shape, 2), KnownExtents(n, in[1]));
  const Expr positions = Expr::Dim(Product(w.kernel));
  const Expr c = FloorDivExpr(at(0)[1], positions);
  const Indices k = Delinearize(at(0)[1] - c * positions, w.kernel);
  const auto [i, inside] = WindowRead(w, Delinearize(at(0)[2], w.out), k);
  return {ReadWhere(inside, x(At(at(0)[0], c, i)), Zero(x.dtype))};
}
std::vector<NodeEntry> Im2ColGrad(const NodePtr& n, const std::vector<NodeEntry>& g) {
  if (!g[0]) return {NodeEntry(), NodeEntry()};
  const NodeEntry spatial = ApplyOp("Shape", {n->inputs[0]}, {{"start", 2}});
  return {ApplyOp("Col2Im", {g[0], spatial, n->inputs[1]}, AttrsOf(n)), NodeEntry()};
}

}  // namespace

WEFT_REGISTER_OP(Col2Im)
    .describe(
        "y[n, c, i] = sum of x[n, c K + k, o] over block positions k and blocks o that cover i: "
        "overlapping blocks add up.\n"
        "Gradient: weft::Im2Col. Errors: dimensions that do not fit (kShapeMismatch), attributes "
        "of the wrong length or sign (kBadAttribute), block_shape not constant (kUnsupported when "
        "code is made). Source: ONNX Col2Im-18.")
    .input("input", TypeDoc(kNumeric), "[n, c K, L]")
    .input("image_shape", "i64", "spatial dimensions of the image")
    .input("block_shape", "i64", "dimensions of a block")
    .output("output", "T", "[n, c, image_shape...]")
    .param<Col2ImParam>()
    .example({"f32[1, 8, 4]", "i64[2] = [3, 3]", "i64[2] = [2, 2]"})
    .example({"f32[n, 4, 4]", "i64[2] = [4, 4]", "i64[2] = [2, 2]"}, "strides = [2, 2]")
    .set_attr<FInferType>("FInferType", TypeOfDataInput(kNumeric, {1, 2}))
    .set_attr<FInferShape>("FInferShape", Col2ImShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1, 2})
    .set_attr<FCodeGen>("FCodeGen", Col2ImCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FGradient>("FGradient", Col2ImGrad);

WEFT_REGISTER_OP_IN(weft, Im2Col)
    .describe(
        "y[n, c K + k, o] = x[n, c, o stride + k dilation - begin], 0 outside: the blocks of an "
        "image as columns. Gradient: Col2Im.\n"
        "Source: Weft.")
    .input("x", TypeDoc(kNumeric), "[n, c, spatial...]")
    .input("block_shape", "i64", "dimensions of a block")
    .output("y", "T", "[n, c K, L]")
    .param<Col2ImParam>()
    .example({"f32[1, 2, 3, 3]", "i64[2] = [2, 2]"}, "pads = [1, 0, 0, 1]")
    .set_attr<FInferType>("FInferType", TypeOfDataInput(kNumeric, {1}))
    .set_attr<FInferShape>("FInferShape", Im2ColShape)
    .set_attr<FCodeGen>("FCodeGen", Im2ColCode)
    .set_attr<FGradient>("FGradient", Im2ColGrad);

}  // namespace weft::ops
