/// pool_grad.cc: gradients of MaxPool and AveragePool.
///
/// What max-pooling keeps for its gradient is the winner of each window, the offset of its first
/// maximum, as a rule one byte. With the winners fixed, pooling is linear: `weft::PoolPick` takes
/// the elements out, `weft::MaxPoolGrad` puts gradients back, and each is the gradient of the
/// other. Where windows share no element, which position belongs to which window is known, and
/// neither needs a search.
#include "ops/util/adjoint.h"
#include "pool_util.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::ops {
namespace {

/// Offsets in a window count row-major in one byte where they fit.
DType WinnerType(const NodePtr& n) {
  return CheckedProduct(ParamOf<PoolParam>(n).kernel_shape) <= 256 ? DType::kU8 : DType::kI32;
}
Exprs MaxPoolCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const Window w = PoolWindow(n, in[0].shape);
  return {Expr::Cast(in[0].dtype, PooledMax(in[0], w, at(0))),
          Expr::Cast(WinnerType(n), PooledWinner(in[0], w, at(1)))};
}
std::vector<NodeEntry> MaxPoolGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry()};
  const NodeEntry x = n->inputs[0];
  return {Apply("weft::MaxPoolGrad", {dy[0], NodeEntry(n, 1), ShapeOf(x)}, AttrsOf(n))};
}

/// One winner a window.
void PickShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<PoolParam>(ctx.node());
  const Shape y = PooledShape(ctx, WindowOf(p), p.kernel_shape);
  ctx.set_out(0, y);
  DemandShape(ctx, 1, y);
}

void LinearType(InferTypeContext& ctx) {
  FirstFloat(ctx);
  const Type winner = ctx.in(1);
  WEFT_CHECK(!winner.known() || winner == Type(WinnerType(ctx.node())), kTypeMismatch,
             "{}: winners of these windows are {}, got {}", ctx.node()->Describe(),
             DTypeName(WinnerType(ctx.node())), winner.ToString());
}
Exprs PickCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const Window w = PoolWindow(n, x.shape);
  const Indices& y = at(0);
  // A winner is inside its window by construction; a foreign number must not lead out of x.
  const Expr last = Expr::Dim(Product(w.kernel)) - Expr::Int(1);
  const Expr winner = Min(Expr::Cast(DType::kI64, in[1](y)), last);
  const auto [i, inside] =
      WindowRead(w, Tail(y, 2), Delinearize(Max(winner, Expr::Int(0)), w.kernel));
  return {ReadWhere(inside, x(At(y[0], y[1], i)), Zero(x.dtype))};
}
std::vector<NodeEntry> PickGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry(), NodeEntry()};
  return {Apply("weft::MaxPoolGrad", {dy[0], n->inputs[1], ShapeOf(n->inputs[0])}, AttrsOf(n)),
          NodeEntry()};
}

/// dx[i] = sum of dy over the windows that took i.
Exprs MaxPoolGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &winner = in[1];
  const Window w = PoolWindow(n, at.shape[0]);
  const Indices& x = at(0);
  const Expr zero = Zero(dy.dtype);
  const auto taken = [&](const Indices& y, const Indices& k) {
    return Expr::Select(Eq(winner(y), Expr::Cast(winner.dtype, Linearize(k, w.kernel))), dy(y),
                        zero);
  };
  if (AreDisjoint(w)) {
    const WindowSlot slot = SlotOf(w, Tail(x, 2));
    return {ReadWhere(slot.inside, taken(At(x[0], x[1], slot.o), slot.k), zero)};
  }
  return {SumOver(w.kernel, [&](const Indices& k) {
    const auto [o, hit] = WindowScatter(w, Tail(x, 2), k);
    return ReadWhere(hit, taken(At(x[0], x[1], o), k), zero);
  })};
}
std::vector<NodeEntry> MaxPoolGradGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  std::vector<NodeEntry> d(3);
  if (g[0]) d[0] = Apply("weft::PoolPick", {g[0], n->inputs[1]}, AttrsOf(n));
  return d;
}

/// dx[i] = sum of dy over the windows that hold i, each divided by the number of its elements.
Exprs AveragePoolGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& dy = in[0];
  const Window w = PoolWindow(n, at.shape[0]);
  const DType acc = AccumulatorOf(dy.dtype);
  const Indices& x = at(0);
  const auto share = [&](const Indices& o) {
    return Expr::Cast(acc, dy(At(x[0], x[1], o))) / WindowCount(n, w, o, acc);
  };
  if (AreDisjoint(w)) {
    const WindowSlot slot = SlotOf(w, Tail(x, 2));
    return {Expr::Cast(dy.dtype, ReadWhere(slot.inside, share(slot.o), Zero(acc)))};
  }
  const Expr sum = SumOver(w.kernel, [&](const Indices& k) {
    const auto [o, hit] = WindowScatter(w, Tail(x, 2), k);
    return ReadWhere(hit, share(o), Zero(acc));
  });
  return {Expr::Cast(dy.dtype, sum)};
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, MaxPool)
    .describe(
        "MaxPool, and the winner of each window: the offset of its first maximum, row-major in the "
        "window: u8 where the window has up to 256 elements, else i32. Gradient: "
        "weft::MaxPoolGrad. Errors: as MaxPool. Source: Weft.")
    .input("x", TypeDoc(kFloats), "[n, c, spatial...]")
    .output("y", "T")
    .output("winner", "u8, i32")
    .set_num_inputs(1)
    .set_num_outputs(2)
    .param<PoolParam>()
    .example({"f32[1, 2, 5, 5]"}, "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]")
    .example({"f32[n, 1, 6]"}, "kernel_shape = [2], strides = [2]")
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& ctx) {
                            FirstFloat(ctx);
                            ctx.set_out(1, WinnerType(ctx.node()));
                          })
    .set_attr<FInferShape>("FInferShape", PoolShape)
    .set_attr<FCodeGen>("FCodeGen", MaxPoolCode)
    .set_attr<FGradient>("FGradient", MaxPoolGradient)
    .set_attr<FFlops>("FFlops", WindowFlops);

WEFT_REGISTER_OP_IN(weft, PoolPick)
    .describe(
        "y[b, c, o] = the element of x that `winner` names in the window at o. Gradient: "
        "weft::MaxPoolGrad. Errors: as MaxPool;\n"
        "winners of another dtype than its (kTypeMismatch). Source: Weft.")
    .input("x", TypeDoc(kFloats), "[n, c, spatial...]")
    .input("winner", "u8, i32", "of weft::MaxPool")
    .output("y", "T")
    .set_num_inputs(2)
    .set_num_outputs(1)
    .param<PoolParam>()
    .example({"f32[1, 1, 4]", "u8[1, 1, 2] = [1, 0]"}, "kernel_shape = [2], strides = [2]")
    .example({"f32[1, 1, 2, 4]", "u8[1, 1, 1, 2] = [3, 2]"},
             "kernel_shape = [2, 3], pads = [0, 0, 0, 0]")
    .set_attr<FInferType>("FInferType", LinearType)
    .set_attr<FInferShape>("FInferShape", PickShape)
    .set_attr<FCodeGen>("FCodeGen", PickCode)
    .set_attr<FGradient>("FGradient", PickGradient)
    .set_attr<FFlops>("FFlops", [](const NodePtr&, const std::vector<Shape>&,
                                   const std::vector<Shape>&) { return SymInt(0); });

WEFT_REGISTER_OP_IN(weft, MaxPoolGrad)
    .describe(
        "Gradient of MaxPool from dy, the winners and the shape of x: dx[i] = sum of dy over the "
        "windows that took i.\n"
        "0 elsewhere by structure: Simplify takes a factor that is a function of x at the winners "
        "only, so that an infinite or NaN factor elsewhere does not make it NaN.\n"
        "Gradient: weft::PoolPick. Errors: as weft::PoolPick. Source: Weft.")
    .input("dy", TypeDoc(kFloats))
    .input("winner", "u8, i32", "of weft::MaxPool")
    .input("shape", "i64", "dimensions of x")
    .output("dx", "T")
    .set_num_inputs(3)
    .set_num_outputs(1)
    .param<PoolParam>()
    .example({"f32[1, 1, 2]", "u8[1, 1, 2] = [1, 0]", "i64[3] = [1, 1, 4]"},
             "kernel_shape = [2], strides = [2]")
    .example({"f32[1, 1, 3]", "u8[1, 1, 3] = [2, 1, 0]", "i64[3] = [1, 1, 5]"},
             "kernel_shape = [3]")
    .example({"f32[1, 2, 2]", "u8[1, 2, 2] = [1, 0, 0, 1]", "i64[3] = [1, 2, 7]"},
             "kernel_shape = [2], strides = [3], pads = [0, 0]")
    .set_attr<FInferType>("FInferType", LinearType)
    .set_attr<FInferShape>("FInferShape", AdjointShape(PoolShape, 2, {kSought}, 2))
    .set_attr<FCodeGen>("FCodeGen", MaxPoolGradCode)
    .set_attr<FGradient>("FGradient", MaxPoolGradGradient)
    .set_attr<FFlops>("FFlops", WindowFlops);

WEFT_REGISTER_OP_IN(weft, AveragePoolGrad)
    .describe(
        "Gradient of AveragePool from dy and the shape of x. Gradient: AveragePool. Source: Weft.")
    .input("dy", TypeDoc(kFloats))
    .input("shape", "i64", "dimensions of x")
    .output("dx", "T")
    .set_num_inputs(2)
    .set_num_outputs(1)
    .param<PoolParam>()
    .example({"f32[1, 1, 2]", "i64[3] = [1, 1, 4]"}, "kernel_shape = [2], strides = [2]")
    .set_attr<FInferType>("FInferType", FirstFloat)
    .set_attr<FInferShape>("FInferShape", AdjointShape(PoolShape, 1, {kSought}))
    .set_attr<FCodeGen>("FCodeGen", AveragePoolGradCode)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& n,
                            const std::vector<NodeEntry>& g) -> std::vector<NodeEntry> {
                           if (!g[0]) return {NodeEntry(), NodeEntry()};
                           return {Apply("AveragePool", {g[0]}, AttrsOf(n)), NodeEntry()};
                         })
    .set_attr<FFlops>("FFlops", WindowFlops);

}  // namespace weft::ops
