/// pool.cc: MaxPool, AveragePool, GlobalMaxPool and GlobalAveragePool, over any number of spatial
/// axes. Gradients of the first two: pool_grad.cc.
#include <algorithm>

#include "ops/util/channel_util.h"
#include "pool_util.h"
#include "weft/support/checked.h"

namespace weft::ops {
namespace {

constexpr DTypeSet kPoolTypes = kFloats | DTypeSet{DType::kI8, DType::kU8};

/// Position counted inside the whole tensor [n, c, spatial], rows first or columns first within one
/// spatial plane.
Expr FlatPosition(const NodePtr& n, const Shape& x, const Expr& b, const Expr& c,
                  const Indices& i) {
  std::vector<SymInt> dims = Tail(x, 2);
  Indices spatial = i;
  if (ParamOf<PoolParam>(n).storage_order) {
    std::reverse(dims.begin(), dims.end());
    std::reverse(spatial.begin(), spatial.end());
  }
  return (b * Expr::Dim(x[1]) + c) * Expr::Dim(Product(dims)) + Linearize(spatial, dims);
}

Exprs MaxPoolCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const Window w = PoolWindow(n, x.shape);
  Exprs out{Expr::Cast(x.dtype, PooledMax(x, w, at(0)))};
  if (at.index.size() > 1) {
    const Indices& y = at(1);
    const Indices k = Delinearize(PooledWinner(x, w, y), w.kernel);
    out.push_back(FlatPosition(n, x.shape, y[0], y[1], WindowRead(w, Tail(y, 2), k).first));
  }
  return out;
}
std::vector<NodeEntry> MaxPoolGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry()};
  const NodeEntry x = n->inputs[0];
  const NodePtr winners = ApplyOp("weft::MaxPool", {x}, AttrsOf(n)).node;
  return {ApplyOp("weft::MaxPoolGrad", {dy[0], NodeEntry(winners, 1), ShapeOf(x)}, AttrsOf(n))};
}

// ---- average ----

Exprs AveragePoolCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const Window w = PoolWindow(n, x.shape);
  const DType acc = AccumulatorOf(x.dtype);
  const Indices& y = at(0);
  const Expr sum = SumOver(w.kernel, [&](const Indices& k) {
    const auto [i, inside] = WindowRead(w, Tail(y, 2), k);
    return ReadWhere(inside, Expr::Cast(acc, x(At(y[0], y[1], i))), Zero(acc));
  });
  return {Expr::Cast(x.dtype, sum / WindowCount(n, w, Tail(y, 2), acc))};
}
// ---- global ----

Exprs GlobalCode(const std::vector<TensorArg>& in, const OutputAt& at, ReduceOp op) {
  const TensorArg& x = in[0];
  const DType acc = AccumulatorOf(x.dtype);
  const std::vector<SymInt> extents = Tail(x.shape, 2);
  Expr y = ReduceOver(
      op, extents, [&](const Indices& r) { return Expr::Cast(acc, x(At(at(0)[0], at(0)[1], r))); });
  if (op == ReduceOp::kSum) y = y / CountOf(extents, acc);
  return {Expr::Cast(x.dtype, y)};
}
SymInt ReadFlops(const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
  return in.at(0).num_elements();
}

}  // namespace

WEFT_REGISTER_OP(MaxPool)
    .describe(
        "y[b, c, o] = max of x over the window at o; padding never wins. Indices: flat position of "
        "the first maximum in x.\n"
        "Gradient: weft::MaxPoolGrad (all of dy to the first maximum); keeps the winners.\n"
        "Errors: ranks differ, a window larger than the padded input, in ceil mode by the stride "
        "or more (kShapeMismatch), bad attributes (kBadAttribute).\n"
        "Source: ONNX MaxPool-22.")
    .input("X", TypeDoc(kPoolTypes), "[n, c, spatial...]")
    .output("Y", "T")
    .optional_output("Indices", "i64")
    .set_num_outputs(2)
    .param<PoolParam>()
    .example({"f32[1, 2, 5, 5]"}, "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]")
    .example({"f32[n, 1, 7]"}, "kernel_shape = [2], strides = [2], ceil_mode = 1")
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& ctx) {
                            CheckInputType(ctx, 0, kPoolTypes);
                            if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
                            if (ctx.num_outputs() > 1) ctx.set_out(1, DType::kI64);
                          })
    .set_attr<FInferShape>("FInferShape", PoolShape)
    .set_attr<FCodeGen>("FCodeGen", MaxPoolCode)
    .set_attr<FGradient>("FGradient", MaxPoolGradient)
    .set_attr<FFlops>("FFlops", WindowFlops);

WEFT_REGISTER_OP(AveragePool)
    .describe(
        "y[b, c, o] = mean of x over the window at o; padding counts only with count_include_pad, "
        "and the mean over padding alone is 0 without.\n"
        "Gradient: weft::AveragePoolGrad; keeps the shape of x. Errors: as MaxPool. Source: ONNX "
        "AveragePool-22.")
    .input("X", TypeDoc(kFloats), "[n, c, spatial...]")
    .output("Y", "T")
    .param<PoolParam>()
    .example({"f32[1, 2, 5, 5]"}, "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]")
    .example({"f32[n, 1, 7]"},
             "kernel_shape = [2], strides = [2], ceil_mode = 1, count_include_pad = 1")
    .set_attr<FInferType>("FInferType", FirstFloat)
    .set_attr<FInferShape>("FInferShape", PoolShape)
    .set_attr<FCodeGen>("FCodeGen", AveragePoolCode)
    .set_attr<FGradient>(
        "FGradient",
        [](const NodePtr& n, const std::vector<NodeEntry>& dy) -> std::vector<NodeEntry> {
          if (!dy[0]) return {NodeEntry()};
          return {ApplyOp("weft::AveragePoolGrad", {dy[0], ShapeOf(n->inputs[0])}, AttrsOf(n))};
        })
    .set_attr<FFlops>("FFlops", WindowFlops);

WEFT_REGISTER_OP(GlobalMaxPool)
    .describe(
        "y[b, c, 1...] = max of x[b, c, ...]. Gradient: dy shared equally by the elements equal to "
        "y; keeps x and y.\n"
        "Errors: rank below 2 (kShapeMismatch). Source: ONNX GlobalMaxPool-22.")
    .input("X", TypeDoc(kFloats), "[n, c, spatial...]")
    .output("Y", "T")
    .param<NoParam>()
    .example({"f32[2, 3, 4, 5]"})
    .example({"f32[2, 3, n]"})
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", GlobalShape)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
                          return GlobalCode(in, at, ReduceOp::kMax);
                        })
    .set_attr<FGradient>(
        "FGradient", UnaryGradient([](const NodeEntry& x, const NodeEntry& y, const NodeEntry& dy) {
          const NodeEntry mask = ApplyOp("CastLike", {ApplyOp("Equal", {x, y}), dy});
          return mask * (dy / ApplyOp("ReduceSum", {mask, SpatialAxes(x)},
                                      {{"keepdims", 1}, {"noop_with_empty_axes", 1}}));
        }))
    .set_attr<FFlops>("FFlops", ReadFlops);

WEFT_REGISTER_OP(GlobalAveragePool)
    .describe(
        "y[b, c, 1...] = mean of x[b, c, ...]. Gradient: dy / count spread over x. Errors: rank "
        "below 2 (kShapeMismatch).\n"
        "Source: ONNX GlobalAveragePool-22.")
    .input("X", TypeDoc(kFloats), "[n, c, spatial...]")
    .output("Y", "T")
    .param<NoParam>()
    .example({"f32[2, 3, 4, 5]"})
    .example({"f32[2, 3, n]"})
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", GlobalShape)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
                          return GlobalCode(in, at, ReduceOp::kSum);
                        })
    .set_attr<FGradient>(
        "FGradient", UnaryGradient([](const NodeEntry& x, const NodeEntry& y, const NodeEntry& dy) {
          const NodeEntry count = ApplyOp("Div", {ApplyOp("Size", {x}), ApplyOp("Size", {y})});
          const NodeEntry inverse =
              ApplyOp("Reciprocal", {ApplyOp("Cast", {count}, {{"to", DType::kF64}})});
          return ExpandLike(dy * ApplyOp("CastLike", {inverse, dy}), x);
        }))
    .set_attr<FFlops>("FFlops", ReadFlops);

}  // namespace weft::ops
