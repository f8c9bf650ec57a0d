/// random.cc: RandomUniform, RandomUniformLike, RandomNormal, RandomNormalLike, Multinomial.
///
/// With the attribute `seed` every evaluation of the node draws the same numbers; without it
/// each draws new ones. Stateful: never merged, folded or duplicated. Bernoulli is ONNX's
/// function body over these.
#include <atomic>
#include <cmath>
#include <random>

#include "ops/util/host_util.h"

namespace weft::ops {
namespace {

struct RandomParam : OpParam<RandomParam> {
  DTypeField dtype;
  double low, high, mean, scale, seed;
  Ints shape;
  int64_t sample_size;
  WEFT_OP_PARAM(RandomParam) {
    WEFT_FIELD(dtype).set_default({}).describe("of the result; default f32, or that of the input");
    WEFT_FIELD(low).set_default(0).describe("uniform: smallest value");
    WEFT_FIELD(high).set_default(1).describe("uniform: bound, not drawn");
    WEFT_FIELD(mean).set_default(0).describe("normal");
    WEFT_FIELD(scale).set_default(1).describe("normal: standard deviation");
    WEFT_FIELD(seed).set_default(0).describe("where given, every run draws the same");
    WEFT_FIELD(shape).set_default({}).describe("dimensions, where no input gives them");
    WEFT_FIELD(sample_size).set_default(1).set_lower_bound(0).describe("Multinomial: draws a row");
  }
};
WEFT_REGISTER_OP_PARAM(RandomParam);

std::mt19937_64 GeneratorOf(const NodePtr& n) {
  if (n->attrs.dict.find("seed")) {
    const double seed = ParamOf<RandomParam>(n).seed;
    uint64_t bits;
    std::memcpy(&bits, &seed, sizeof bits);
    return std::mt19937_64(bits);
  }
  static std::atomic<uint64_t> count{0};
  static const uint64_t start = std::random_device{}();
  return std::mt19937_64(start + 0x9e3779b97f4a7c15u * ++count);
}

DType TypeGiven(const NodePtr& n, DType otherwise) {
  const DType t = ParamOf<RandomParam>(n).dtype.dtype;
  return t == DType::kUnknown ? otherwise : t;
}
FInferType RandomType(bool like, DType otherwise, DTypeSet allowed) {
  return [=](InferTypeContext& ctx) {
    const DType t = TypeGiven(
        ctx.node(), like ? (ctx.in(0).is_tensor() ? ctx.in(0).dtype : DType::kUnknown) : otherwise);
    if (t == DType::kUnknown) return;
    WEFT_CHECK(allowed.has(t), kTypeMismatch, "{}: no random values of dtype {}",
               ctx.node()->Describe(), DTypeName(t));
    ctx.set_out(0, t);
  };
}
void ShapeGiven(InferShapeContext& ctx) {
  ctx.set_out(0, Shape::OfInts(ParamOf<RandomParam>(ctx.node()).shape));
}

/// `draw(generator)` for every element.
template <class Draw>
TensorPtr Fill(DType t, const Dims& dims, std::mt19937_64 generator, Draw draw) {
  auto y = NewTensor(t, dims);
  for (int64_t i = 0; i < y->num_elements(); ++i) y->set(i, draw(generator));
  return y;
}
Tensors UniformHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<RandomParam>(n);
  std::uniform_real_distribution<double> d(p.low, p.high);
  return {Fill(TypeGiven(n, in.empty() ? DType::kF32 : in[0]->dtype()),
               in.empty() ? Dims(p.shape.begin(), p.shape.end()) : in[0]->dims(), GeneratorOf(n),
               d)};
}
Tensors NormalHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<RandomParam>(n);
  std::normal_distribution<double> d(p.mean, p.scale);
  return {Fill(TypeGiven(n, in.empty() ? DType::kF32 : in[0]->dtype()),
               in.empty() ? Dims(p.shape.begin(), p.shape.end()) : in[0]->dims(), GeneratorOf(n),
               d)};
}

void MultinomialShape(InferShapeContext& ctx) {
  if (!CheckRank(ctx, 0, 2, "input")) return Unknown(ctx, 0, "the rank of input is unknown");
  ctx.set_out(0, Shape({ctx.in(0)[0], SymInt(ParamOf<RandomParam>(ctx.node()).sample_size)}));
}
Tensors MultinomialHost(const NodePtr& n, const Tensors& in) {
  const Tensor& x = *in[0];
  const int64_t rows = x.dims()[0], classes = x.dims()[1];
  const int64_t draws = ParamOf<RandomParam>(n).sample_size;
  auto y = NewTensor(TypeGiven(n, DType::kI32), {rows, draws});
  std::mt19937_64 generator = GeneratorOf(n);
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> weights;  // the input holds logarithms
    for (int64_t c = 0; c < classes; ++c) weights.push_back(std::exp(x.at(r * classes + c)));
    std::discrete_distribution<int64_t> d(weights.begin(), weights.end());
    for (int64_t k = 0; k < draws; ++k) y->set_int(r * draws + k, d(generator));
  }
  return {y};
}

}  // namespace

#define WEFT_REGISTER_RANDOM(Name, Doc, Host)                                                    \
  WEFT_REGISTER_OP(Name)                                                                         \
      .describe(Doc " With `seed` every run draws the same. Gradient: none. Source: ONNX " #Name \
                    "-22.")                                                                      \
      .output("output", TypeDoc(kFloats))                                                        \
      .param<RandomParam>()                                                                      \
      .set_attr<FHostEval>("FHostEval", Host)                                                    \
      .set_attr<TIsStateful>("TIsStateful", true)                                                \
      .set_attr<FGradient>("FGradient", NoGradient)

WEFT_REGISTER_RANDOM(RandomUniform, "Values in [low, high), of shape `shape`.", UniformHost)
    .set_num_inputs(0)
    .set_attr<FInferType>("FInferType", RandomType(false, DType::kF32, kFloats))
    .set_attr<FInferShape>("FInferShape", ShapeGiven);
WEFT_REGISTER_RANDOM(RandomNormal, "Normal values of `mean` and `scale`, of shape `shape`.",
                     NormalHost)
    .set_num_inputs(0)
    .set_attr<FInferType>("FInferType", RandomType(false, DType::kF32, kFloats))
    .set_attr<FInferShape>("FInferShape", ShapeGiven);
WEFT_REGISTER_RANDOM(RandomUniformLike, "Values in [low, high), of the shape of the input.",
                     UniformHost)
    .set_num_inputs(1)
    .input("input", TypeDoc(kAllTypes, "T1"), "only its shape and dtype count")
    .set_attr<FInferType>("FInferType", RandomType(true, DType::kUnknown, kFloats))
    .set_attr<FInferShape>("FInferShape", UnaryShape);
WEFT_REGISTER_RANDOM(RandomNormalLike, "Normal values of `mean` and `scale`, of the input's shape.",
                     NormalHost)
    .set_num_inputs(1)
    .input("input", TypeDoc(kAllTypes, "T1"), "only its shape and dtype count")
    .set_attr<FInferType>("FInferType", RandomType(true, DType::kUnknown, kFloats))
    .set_attr<FInferShape>("FInferShape", UnaryShape);

WEFT_REGISTER_OP(Multinomial)
    .describe(
        "sample_size classes a row, drawn by the logarithms of their weights. With `seed` every "
        "run "
        "draws the same. Gradient: none. Source: ONNX Multinomial-22.")
    .input("input", TypeDoc(kFloats), "[batch, classes]")
    .output("output", TypeDoc(kIndexTypes, "T2"), "[batch, sample_size]")
    .param<RandomParam>()
    .set_attr<FInferType>("FInferType", RandomType(false, DType::kI32, kIndexTypes))
    .set_attr<FInferShape>("FInferShape", MultinomialShape)
    .set_attr<FHostEval>("FHostEval", MultinomialHost)
    .set_attr<TIsStateful>("TIsStateful", true)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
