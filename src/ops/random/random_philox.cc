/// random_philox.cc: weft::RandomUniform, weft::RandomNormal, weft::RandomState: counter-based
/// random numbers (philox.h), element-wise: they fuse into what reads them and need no memory.
///
///   u = weft::RandomUniform(like, state) {stream = k}      state : i64[2] = (seed, step)
///
/// The draw is a function of the state, the stream and the position: a model's state is a variable,
/// each run adds 1 to its step, and forward and backward part read the same numbers from the same
/// state. Two nodes of one graph differ by their stream. weft::RandomState is the state where none
/// is given: new in every run.
///
/// Accuracy of normal values: f32 within 1e-6 of the exact transform of the bits (|y| <= 5.77, for
/// the smallest u is 2^-24), f64 within 1e-14 (|y| <= 8.6).
/// Source: Salmon, Moraes, Dror, Shaw 2011 (Philox); Box, Muller 1958.
#include <atomic>
#include <cmath>
#include <random>

#include "ops/util/host_util.h"
#include "philox.h"

namespace weft::ops {
namespace {

Expr U64(uint64_t v) { return Expr::ConstBits(DType::kU64, v); }
Expr U32(uint32_t v) { return Expr::ConstBits(DType::kU32, v); }
Expr Wide(const Expr& e) { return Expr::Cast(DType::kU64, e); }

/// 64 bits: two draws.
Expr Pair(const Expr& key, const Expr& counter) {
  const Expr at = counter * U64(2);
  const Expr high = Expr::Binary(BinOp::kShl, Wide(Expr::Philox(key, at + U64(1))), U64(32));
  return Expr::Binary(BinOp::kOr, Wide(Expr::Philox(key, at)), high);
}
/// Integer of the top `bits` bits of a draw, as a float of dtype t. Below 2^31: converts as signed,
/// which vector units do.
Expr Top(const Expr& draw, int bits, DType t) {
  const Expr top = Expr::Binary(BinOp::kShr, draw, U32(uint32_t(32 - bits)));
  return Expr::Cast(t, Expr::Cast(DType::kI32, top));
}
/// 53 bits of two draws, in [0, 1).
Expr Uniform53(const Expr& key, const Expr& counter) {
  const Expr high = Top(Expr::Philox(key, counter), 27, DType::kF64);
  const Expr low = Top(Expr::Philox(key, counter + U64(1)), 26, DType::kF64);
  return (high * Expr::Const(DType::kF64, 0x1p26) + low) * Expr::Const(DType::kF64, 0x1p-53);
}

/// cos(2 pi v) for a multiple v of 2^-24 on [0, 1): of turns the nearest quarter is taken off
/// exactly, in f32, where the cosine of any angle reduces in f64; a draw takes half the time.
Expr CosOfTurns(const Expr& v) {
  // sin(2 pi f) = f P(f^2): 3.0e-8, cos(2 pi f) = 1 + f^2 P(f^2): 6.7e-9, both
  // |f| <= 1/8 (least maximum).
  constexpr double kSin[] = {6.28318501, -41.341629, 81.5881271, -75.2400665},
                   kCos[] = {-19.7392082, 64.9393234, -85.4437408, 59.2459641};
  const auto f32 = [](double x) { return Expr::Const(DType::kF32, x); };
  const auto bit = [](const Expr& i, int64_t k) {
    const Expr mask = Expr::Const(DType::kI32, double(k));
    return Expr::Binary(BinOp::kEq, Expr::Binary(BinOp::kAnd, i, mask), mask);
  };
  const Expr quarter = Expr::Cast(DType::kI32, v * f32(4) + f32(0.5));
  const Expr f = v - Expr::Cast(DType::kF32, quarter) * f32(0.25), u = f * f;
  const auto polynomial = [&](const double(&c)[4]) {
    return ((f32(c[3]) * u + f32(c[2])) * u + f32(c[1])) * u + f32(c[0]);
  };
  const Expr value =
      Expr::Select(bit(quarter, 1), f * polynomial(kSin), u * polynomial(kCos) + f32(1));
  return Expr::Select(bit(quarter + Expr::Const(DType::kI32, 1), 2), -value, value);
}

}  // namespace

Expr PhiloxKey(const Expr& seed, const Expr& step, int64_t stream) {
  return Pair(Pair(Wide(seed), Wide(step)), U64(uint64_t(stream)));
}
Expr PhiloxUniform(DType t, const Expr& key, const Expr& number) {
  const Expr i = Wide(number);
  if (t == DType::kF64) return Uniform53(key, i * U64(2));
  const int bits = TraitsOf(t).precision;
  return Top(Expr::Philox(key, i), bits, DType::kF32) *
         Expr::Const(DType::kF32, std::ldexp(1.0, -bits));
}
Expr PhiloxNormal(DType t, const Expr& key, const Expr& number) {
  const DType c = AccumulatorOf(t);
  const bool wide = c == DType::kF64;
  const Expr i = Wide(number) * U64(wide ? 4 : 2);
  Expr u, cosine;
  if (wide) {
    u = Expr::Const(c, 1) - Uniform53(key, i);
    cosine = Expr::Call(CallOp::kCos, {Expr::Const(c, 2 * M_PI) * Uniform53(key, i + U64(2))});
  } else {
    const Expr unit = Expr::Const(c, 0x1p-24);
    u = (Top(Expr::Philox(key, i), 24, c) + Expr::Const(c, 1)) * unit;
    cosine = CosOfTurns(Top(Expr::Philox(key, i + U64(1)), 24, c) * unit);
  }
  const Expr radius = Expr::Unary(UnOp::kSqrt, Expr::Const(c, -2) * Expr::Call(CallOp::kLog, {u}));
  return radius * cosine;
}
uint64_t FreshSeed() {
  static std::atomic<uint64_t> count{0};
  static const uint64_t start = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  return start + 0x9e3779b97f4a7c15u * ++count;
}

namespace {

struct RandomUniformParam : OpParam<RandomUniformParam> {
  double low, high;
  DTypeField dtype;
  Ints shape;
  int64_t stream;
  WEFT_OP_PARAM(RandomUniformParam) {
    WEFT_FIELD(low).set_default(0).describe("smallest value");
    WEFT_FIELD(high).set_default(1).describe("bound, not drawn");
    WEFT_FIELD(dtype).set_default({}).describe("of the result; default f32");
    WEFT_FIELD(shape).set_default({}).describe("dimensions, where `like` is absent");
    WEFT_FIELD(stream).set_default(0).describe("which of the streams of the state");
  }
};
struct RandomNormalParam : OpParam<RandomNormalParam> {
  double mean, scale;
  DTypeField dtype;
  Ints shape;
  int64_t stream;
  WEFT_OP_PARAM(RandomNormalParam) {
    WEFT_FIELD(mean).set_default(0).describe("mean");
    WEFT_FIELD(scale).set_default(1).describe("standard deviation");
    WEFT_FIELD(dtype).set_default({}).describe("of the result; default f32");
    WEFT_FIELD(shape).set_default({}).describe("dimensions, where `like` is absent");
    WEFT_FIELD(stream).set_default(0).describe("which of the streams of the state");
  }
};
WEFT_REGISTER_OP_PARAM(RandomUniformParam);
WEFT_REGISTER_OP_PARAM(RandomNormalParam);

template <class P>
void DrawType(InferTypeContext& ctx) {
  CheckInputType(ctx, 1, kI64Only);
  if (!ctx.in(1).known()) ctx.set_in(1, DType::kI64);
  const DType given = ParamOf<P>(ctx.node()).dtype.dtype;
  const DType t = given == DType::kUnknown ? DType::kF32 : given;
  WEFT_CHECK(kFloats.has(t), kTypeMismatch, "{}: no random values of dtype {}",
             ctx.node()->Describe(), DTypeName(t));
  ctx.set_out(0, t);
}
template <class P>
void DrawShape(InferShapeContext& ctx) {
  if (CheckRank(ctx, 1, 1, "the state")) UnifyDims(ctx, ctx.in(1)[0], 2, "state (seed, step)");
  if (ctx.has_input(0)) return UnaryShape(ctx);
  ctx.set_out(0, Shape::OfInts(ParamOf<P>(ctx.node()).shape));
}
template <class P>
FCodeGen DrawCode(Expr (*standard)(DType, const Expr&, const Expr&),
                  Expr (*finish)(const P&, DType, const Expr&)) {
  return [=](const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) -> Exprs {
    const auto& p = ParamOf<P>(n);
    const DType t = at.dtype[0];
    const Expr key = PhiloxKey(ElementI64(in[1], 0), ElementI64(in[1], 1), p.stream);
    return {finish(p, t, standard(t, key, Linearize(at(0), at.shape[0].dims())))};
  };
}

Expr FinishUniform(const RandomUniformParam& p, DType t, const Expr& u) {
  if (p.low == 0 && p.high == 1) return Expr::Cast(t, u);  // every multiple is a value of t
  const DType c = u->dtype();
  const Expr low = Expr::Const(c, p.low), high = Expr::Const(c, p.high);
  const Expr y = Expr::Cast(t, low + u * (high - low));
  // Rounding may reach the bound.
  return Expr::Select(Lt(Expr::Cast(c, y), high), y, Expr::Cast(t, low));
}
Expr FinishNormal(const RandomNormalParam& p, DType t, const Expr& z) {
  const DType c = z->dtype();
  if (p.mean == 0 && p.scale == 1) return Expr::Cast(t, z);
  return Expr::Cast(t, Expr::Const(c, p.mean) + z * Expr::Const(c, p.scale));
}

Tensors StateHost(const NodePtr&, const Tensors&) {
  auto state = NewTensor(DType::kI64, {2});
  state->set_int(0, int64_t(FreshSeed()));
  state->set_int(1, 0);
  return {state};
}

}  // namespace

#define WEFT_REGISTER_DRAW(Name, Doc, Standard, Finish)                                          \
  WEFT_REGISTER_OP_IN(weft, Name)                                                                \
      .describe(Doc                                                                              \
                " A pure function of the state (seed, step), the stream and the position: "      \
                "Philox4x32-10.\nOf the shape of `like`, whose elements are not read, or of "    \
                "`shape`. Gradient: none. Errors: a state that is not i64[2] "                   \
                "(kTypeMismatch, kShapeMismatch), a dtype that is not a float (kTypeMismatch). " \
                "Source: Weft.")                                                                 \
      .optional_input("like", "any", "only its shape counts")                                    \
      .input("state", "i64", "[2]: seed, step")                                                  \
      .output("output", TypeDoc(kFloats))                                                        \
      .set_num_inputs(2)                                                                         \
      .param<Name##Param>()                                                                      \
      .example({"f32[2, n, 3]", "i64[2]"})                                                       \
      .example({"_", "i64[2] = [7, 1]"}, "shape = [3, 5], dtype = f64, stream = 2")              \
      .set_attr<FInferType>("FInferType", DrawType<Name##Param>)                                 \
      .set_attr<FInferShape>("FInferShape", DrawShape<Name##Param>)                              \
      .set_attr<FCodeGen>("FCodeGen", DrawCode<Name##Param>(Standard, Finish))                   \
      .set_attr<FFuseKind>("FFuseKind", FuseKind::kElementwise)                                  \
      .set_attr<FGradient>("FGradient", NoGradient)

WEFT_REGISTER_DRAW(RandomUniform, "Values in [low, high).", PhiloxUniform, FinishUniform);
WEFT_REGISTER_DRAW(RandomNormal, "Normal values of `mean` and standard deviation `scale`.",
                   PhiloxNormal, FinishNormal);

WEFT_REGISTER_OP_IN(weft, RandomState)
    .describe(
        "A state (seed, step) for weft::RandomUniform and weft::RandomNormal, another one in every "
        "run. Gradient: none. Source: Weft.")
    .output("state", "i64", "[2]")
    .set_num_inputs(0)
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", [](InferTypeContext& ctx) { ctx.set_out(0, DType::kI64); })
    .set_attr<FInferShape>("FInferShape",
                           [](InferShapeContext& ctx) { ctx.set_out(0, Shape({SymInt(2)})); })
    .set_attr<FHostEval>("FHostEval", StateHost)
    .set_attr<TIsStateful>("TIsStateful", true)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
