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
#include "window_body.h"

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
  return {ApplyOp("weft::MaxPoolGrad", {dy[0], NodeEntry(n, 1), ShapeOf(x)}, AttrsOf(n))};
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
  return {ApplyOp("weft::MaxPoolGrad", {dy[0], n->inputs[1], ShapeOf(n->inputs[0])}, AttrsOf(n)),
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
  if (g[0]) d[0] = ApplyOp("weft::PoolPick", {g[0], n->inputs[1]}, AttrsOf(n));
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

// ---- in ONNX's operators ----

ConstantWindow BodyWindow(const NodePtr& n, const Shape& x, const Shape& y) {
  const auto& p = ParamOf<PoolParam>(n);
  return MakeConstantWindow(n, WindowOf(p), x, p.kernel_shape, y);
}
/// Where the windows begin: o stride - begin for each spatial axis k, as `first<k>`,
/// in axes that broadcast.
std::string WindowStarts(const ConstantWindow& w) {
  std::string text;
  for (size_t k = 0; k < w.rank(); ++k) {
    std::vector<int64_t> first(size_t(w.out[k])), dims(w.rank(), 1);
    for (size_t o = 0; o < first.size(); ++o) first[o] = int64_t(o) * w.strides[k] - w.begin[k];
    dims[k] = w.out[k];
    text += fmt::format("first{} = Constant<value = int64[{}] {{{}}}>()\n", k,
                        fmt::join(dims, ", "), fmt::join(first, ", "));
  }
  return text;
}

/// Offsets in windows from the flat positions that MaxPool gives: position -> coordinate -> offset.
std::string MaxPoolBody(const OnnxBodyRequest& r) {
  const NodePtr& n = r.node;
  const ConstantWindow w = BodyWindow(n, r.input_shapes[0], r.output_shapes[0]);
  std::string text = WindowStarts(w);
  text += fmt::format(
      "o0, at = MaxPool<kernel_shape = {}, strides = {}, dilations = {}, pads = {}, ceil_mode = "
      "{}>(i0)\n",
      ListText(w.kernel), ListText(w.strides), ListText(w.dilations), ListText(w.pads()),
      n->attr<int64_t>("ceil_mode"));
  std::string sum;
  int64_t below = 1, inner = 1;
  for (size_t k = w.rank(); k-- > 0; below *= w.in[k], inner *= w.kernel[k]) {
    text += IntConstant(fmt::format("below{}", k), below) +
            IntConstant(fmt::format("in{}", k), w.in[k]) +
            IntConstant(fmt::format("dilation{}", k), w.dilations[k]) +
            IntConstant(fmt::format("inner{}", k), inner);
    text += fmt::format(
        "rest{0} = Div(at, below{0})\nposition{0} = Mod(rest{0}, in{0})\n"
        "away{0} = Sub(position{0}, first{0})\noffset{0} = Div(away{0}, dilation{0})\n"
        "part{0} = Mul(offset{0}, inner{0})\n",
        k);
    if (!sum.empty()) text += fmt::format("sum{0} = Add({1}, part{0})\n", k, sum);
    sum = fmt::format("{}{}", sum.empty() ? "part" : "sum", k);
  }
  return text + fmt::format("o1 = Cast<to = {}>({})", inner <= 256 ? 2 : 6, sum);
}

/// Flat positions in x, of extents `shape` [n, c, spatial...], that `winner` names, as `at`.
std::string WinnerPositions(const ConstantWindow& w, const std::string& winner,
                            const std::string& shape) {
  std::string text =
      WindowStarts(w) + fmt::format(R"(w64 = Cast<to = 7>({0})
pools = Shape<start = 0, end = 2>({0})
count_c1 = ReduceProd<keepdims = 1>(pools)
count_c = Squeeze(count_c1)
none = Constant<value_int = 0>()
next = Constant<value_int = 1>()
planes = Range(none, count_c, next)
spatial_ones = Constant<value = int64[{2}] {{{3}}}>()
plane_dims = Concat<axis = 0>(pools, spatial_ones)
plane = Reshape<allowzero = 1>(planes, plane_dims)
plane_size1 = Slice({1}, two, far)
plane_size = ReduceProd<keepdims = 0>(plane_size1)
sum_base = Mul(plane, plane_size)
)",
                                    winner, shape, w.rank(),
                                    fmt::join(std::vector<int64_t>(w.rank(), 1), ", "));
  text = IntsConstant("two", {2}) + IntsConstant("far", {INT32_MAX}) + text;
  std::string sum = "sum_base";
  int64_t below = 1, inner = 1;
  for (size_t k = w.rank(); k-- > 0; below *= w.in[k], inner *= w.kernel[k]) {
    text += IntConstant(fmt::format("below{}", k), below) +
            IntConstant(fmt::format("kernel{}", k), w.kernel[k]) +
            IntConstant(fmt::format("dilation{}", k), w.dilations[k]) +
            IntConstant(fmt::format("inner{}", k), inner);
    text += fmt::format(
        "outer{0} = Div(w64, inner{0})\noffset{0} = Mod(outer{0}, kernel{0})\n"
        "away{0} = Mul(offset{0}, dilation{0})\nposition{0} = Add(first{0}, away{0})\n"
        "part{0} = Mul(position{0}, below{0})\nsum{0} = Add({1}, part{0})\n",
        k, sum);
    sum = fmt::format("sum{}", k);
  }
  return text + fmt::format("at = Identity({})\n", sum);
}
std::string PoolPickBody(const OnnxBodyRequest& r) {
  const ConstantWindow w = BodyWindow(r.node, r.input_shapes[0], r.output_shapes[0]);
  return "shape = Shape(i0)\n" + WinnerPositions(w, "i1", "shape") +
         "flat = Constant<value = int64[1] {-1}>()\nelements = Reshape(i0, flat)\n"
         "o0 = Gather<axis = 0>(elements, at)";
}
std::string MaxPoolGradBody(const OnnxBodyRequest& r) {
  const ConstantWindow w = BodyWindow(r.node, r.output_shapes[0], r.input_shapes[0]);
  return WinnerPositions(w, "i1", "i2") + ElementNumbers("i2") + AddAt("at", "i2");
}

/// dy divided by the number of elements of its window, then spread by a window of ones.
std::string AveragePoolGradBody(const OnnxBodyRequest& r) {
  const NodePtr& n = r.node;
  const ConstantWindow w = BodyWindow(n, r.output_shapes[0], r.input_shapes[0]);
  const bool with_padding = n->attr<int64_t>("count_include_pad") != 0;
  WEFT_CHECK(!with_padding || n->attr<int64_t>("ceil_mode") == 0, kUnsupported,
             "{} with ceil_mode and count_include_pad has no form in ONNX's operators",
             n->op()->name);
  std::string text, last = "i0";
  for (size_t k = 0; k < w.rank(); ++k) {
    std::vector<int64_t> counts, dims(w.rank(), 1);
    for (int64_t o = 0; o < w.out[k]; ++o) {
      int64_t count = with_padding ? w.kernel[k] : 0;
      for (int64_t i = 0; !with_padding && i < w.kernel[k]; ++i) {
        const int64_t at = o * w.strides[k] + i * w.dilations[k] - w.begin[k];
        count += at >= 0 && at < w.in[k];
      }
      counts.push_back(std::max<int64_t>(count, 1));
    }
    dims[k] = w.out[k];
    text += fmt::format(
        "c{0} = Constant<value = float[{1}] {{{2}}}>()\nn{0} = CastLike(c{0}, i0)\n"
        "g{0} = Div({3}, n{0})\n",
        k, fmt::join(dims, ", "), fmt::join(counts, ", "), last);
    last = fmt::format("g{}", k);
  }
  std::vector<int64_t> one_channel{-1, 1}, window{1, 1};
  one_channel.insert(one_channel.end(), w.out.begin(), w.out.end());
  window.insert(window.end(), w.kernel.begin(), w.kernel.end());
  text += IntsConstant("view", one_channel) + IntsConstant("window", window);
  text += fmt::format(
      "rows = Reshape({}, view)\nones = ConstantOfShape<value = float[1] {{1}}>(window)\n"
      "w = CastLike(ones, i0)\n",
      last);
  return text + TransposedConvText(w, 1, "dx", "rows, w") + "\no0 = Reshape(dx, i1)";
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
    .set_attr<FFlops>("FFlops", WindowFlops)
    .set_attr<FOnnxBody>("FOnnxBody", MaxPoolBody);

WEFT_REGISTER_OP_IN(weft, PoolPick)
    .describe(
        "y[b, c, o] = the element of x that `winner` names in the window at o. Gradient: "
        "weft::MaxPoolGrad. Errors: as MaxPool;\n"
        "winners of another dtype than its (kTypeMismatch). Source: Weft.")
    .input("x", TypeDoc(kFloats), "[n, c, spatial...]")
    .input("winner", "u8, i32", "of weft::MaxPool")
    .output("y", "T")
    .param<PoolParam>()
    .example({"f32[1, 1, 4]", "u8[1, 1, 2] = [1, 0]"}, "kernel_shape = [2], strides = [2]")
    .example({"f32[1, 1, 2, 4]", "u8[1, 1, 1, 2] = [3, 2]"},
             "kernel_shape = [2, 3], pads = [0, 0, 0, 0]")
    .set_attr<FInferType>("FInferType", LinearType)
    .set_attr<FInferShape>("FInferShape", PickShape)
    .set_attr<FCodeGen>("FCodeGen", PickCode)
    .set_attr<FGradient>("FGradient", PickGradient)
    .set_attr<FFlops>("FFlops", [](const NodePtr&, const std::vector<Shape>&,
                                   const std::vector<Shape>&) { return SymInt(0); })
    .set_attr<FOnnxBody>("FOnnxBody", PoolPickBody);

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
    .set_attr<FFlops>("FFlops", WindowFlops)
    .set_attr<FOnnxBody>("FOnnxBody", MaxPoolGradBody);

WEFT_REGISTER_OP_IN(weft, AveragePoolGrad)
    .describe(
        "Gradient of AveragePool from dy and the shape of x. Gradient: AveragePool. Source: Weft.")
    .input("dy", TypeDoc(kFloats))
    .input("shape", "i64", "dimensions of x")
    .output("dx", "T")
    .param<PoolParam>()
    .example({"f32[1, 1, 2]", "i64[3] = [1, 1, 4]"}, "kernel_shape = [2], strides = [2]")
    .set_attr<FInferType>("FInferType", FirstFloat)
    .set_attr<FInferShape>("FInferShape", AdjointShape(PoolShape, 1, {kSought}))
    .set_attr<FCodeGen>("FCodeGen", AveragePoolGradCode)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& n,
                            const std::vector<NodeEntry>& g) -> std::vector<NodeEntry> {
                           if (!g[0]) return {NodeEntry(), NodeEntry()};
                           return {ApplyOp("AveragePool", {g[0]}, AttrsOf(n)), NodeEntry()};
                         })
    .set_attr<FFlops>("FFlops", WindowFlops)
    .set_attr<FOnnxBody>("FOnnxBody", AveragePoolGradBody);

}  // namespace weft::ops
