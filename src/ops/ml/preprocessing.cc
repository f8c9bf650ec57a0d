/// preprocessing.cc: LabelEncoder, Binarizer, ArrayFeatureExtractor of ai.onnx.ml.
/// Source: ONNX ai.onnx.ml LabelEncoder-4, Binarizer-1, ArrayFeatureExtractor-1.
#include <cmath>
#include <map>

#include "ops/util/host_util.h"

namespace weft::ops {
namespace {

struct LabelEncoderParam : OpParam<LabelEncoderParam> {
  double default_float;
  int64_t default_int64;
  std::string default_string;
  TensorAttr default_tensor, keys_tensor, values_tensor;
  Floats keys_floats, values_floats;
  Ints keys_int64s, values_int64s;
  Strings keys_strings, values_strings;
  WEFT_OP_PARAM(LabelEncoderParam) {
    WEFT_FIELD(default_float).set_default(0).describe("for keys that are not there");
    WEFT_FIELD(default_int64).set_default(-1).describe("for keys that are not there");
    WEFT_FIELD(default_string).set_default("_Unused").describe("for keys that are not there");
    WEFT_FIELD(default_tensor).set_default({}).describe("one element, for values_tensor");
    WEFT_FIELD(keys_floats).set_default({}).describe("one of the keys_ is given");
    WEFT_FIELD(keys_int64s).set_default({}).describe("");
    WEFT_FIELD(keys_strings).set_default({}).describe("");
    WEFT_FIELD(keys_tensor).set_default({}).describe("1-D");
    WEFT_FIELD(values_floats).set_default({}).describe("one of the values_ is given, as many");
    WEFT_FIELD(values_int64s).set_default({}).describe("");
    WEFT_FIELD(values_strings).set_default({}).describe("");
    WEFT_FIELD(values_tensor).set_default({}).describe("1-D");
  }
};
WEFT_REGISTER_OP_PARAM(LabelEncoderParam);

struct BinarizerParam : OpParam<BinarizerParam> {
  double threshold;
  WEFT_OP_PARAM(BinarizerParam) {
    WEFT_FIELD(threshold).set_default(0).describe("values above it are 1");
  }
};
WEFT_REGISTER_OP_PARAM(BinarizerParam);

constexpr DTypeSet kLabels{DType::kString, DType::kI64, DType::kF32,
                           DType::kI32,    DType::kI16, DType::kF64};
constexpr DTypeSet kMlNumeric{DType::kF32, DType::kF64, DType::kI64, DType::kI32};

// ---- LabelEncoder ----

TensorPtr StringsOf(const Strings& list) {
  auto t = NewTensor(DType::kString, {int64_t(list.size())});
  t->mutable_strings().assign(list.begin(), list.end());
  return t;
}
TensorPtr ListOf(const TensorAttr& tensor, const Strings& strings, const Ints& ints,
                 const Floats& floats, const NodePtr& n, const char* what) {
  if (tensor.tensor) return tensor.tensor;
  if (!strings.empty()) return StringsOf(strings);
  if (!ints.empty()) return Tensor::Ints(ints);
  WEFT_CHECK(!floats.empty(), kBadAttribute, "{}: {} are missing", n->Describe(), what);
  return Tensor::FromDoubles(DType::kF32, {int64_t(floats.size())}, floats);
}
TensorPtr KeysOf(const NodePtr& n) {
  const auto& p = ParamOf<LabelEncoderParam>(n);
  return ListOf(p.keys_tensor, p.keys_strings, p.keys_int64s, p.keys_floats, n, "keys");
}
TensorPtr LabelsOf(const NodePtr& n) {
  const auto& p = ParamOf<LabelEncoderParam>(n);
  return ListOf(p.values_tensor, p.values_strings, p.values_int64s, p.values_floats, n, "values");
}
/// What a key that is not there gives; one element of the values' dtype.
TensorPtr OtherwiseOf(const NodePtr& n, DType dtype) {
  const auto& p = ParamOf<LabelEncoderParam>(n);
  if (p.default_tensor.tensor) return p.default_tensor.tensor;
  if (dtype == DType::kString) return StringsOf(Strings({p.default_string}));
  return Tensor::Scalar(dtype, IsFloat(dtype) ? p.default_float : double(p.default_int64));
}
/// Equal keys have equal text; NaN is a key like any other.
std::string KeyAt(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString) return t.strings()[size_t(i)];
  if (!IsFloat(t.dtype())) return fmt::format("{}", t.at_int(i));
  const double v = t.at(i);
  return std::isnan(v) ? "nan" : fmt::format("{}", v == 0 ? 0.0 : v);
}
void LabelEncoderType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kLabels);
  ctx.set_out(0, LabelsOf(ctx.node())->dtype());
}
Tensors LabelEncoderHost(const NodePtr& n, const Tensors& in) {
  const TensorPtr keys = KeysOf(n), labels = LabelsOf(n);
  const Tensor& x = *in[0];
  WEFT_CHECK(keys->num_elements() == labels->num_elements(), kBadAttribute,
             "{}: {} keys and {} values", n->Describe(), keys->num_elements(),
             labels->num_elements());
  WEFT_CHECK((keys->dtype() == DType::kString) == (x.dtype() == DType::kString), kTypeMismatch,
             "{}: keys of {} and x of {}", n->Describe(), DTypeName(keys->dtype()),
             DTypeName(x.dtype()));
  const TensorPtr otherwise = OtherwiseOf(n, labels->dtype());
  WEFT_CHECK(otherwise->dtype() == labels->dtype() && otherwise->num_elements() == 1, kBadAttribute,
             "{}: default_tensor must be one element of {}", n->Describe(),
             DTypeName(labels->dtype()));
  std::map<std::string, int64_t> at;
  for (int64_t i = 0; i < keys->num_elements(); ++i) at.emplace(KeyAt(*keys, i), i);
  auto y = NewTensor(labels->dtype(), x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const auto found = at.find(KeyAt(x, i));
    if (found == at.end())
      CopyElements(*otherwise, 0, y.get(), i, 1);
    else
      CopyElements(*labels, found->second, y.get(), i, 1);
  }
  return {y};
}

// ---- ArrayFeatureExtractor ----

void ExtractType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kMlNumeric | DTypeSet{DType::kString});
  CheckInputType(ctx, 1, kI64Only);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
void ExtractShape(InferShapeContext& ctx) {
  const Shape &x = ctx.in(0), &y = ctx.in(1);
  if (!x.has_rank() || !y.has_rank()) return Unknown(ctx, 0, "the rank of an operand is unknown");
  WEFT_CHECK(x.rank() > 0, kShapeMismatch, "{}: x is a scalar", ctx.node()->Describe());
  std::vector<SymInt> dims(x.dims().begin(), x.dims().end() - 1);
  if (dims.empty()) dims.push_back(1);
  dims.push_back(y.num_elements());
  ctx.set_out(0, Shape(std::move(dims)));
}
Exprs ExtractCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &x = in[0], &y = in[1];
  Indices from = at(0);
  if (x.rank() == 1) from.erase(from.begin());
  from.back() = WrapIndex(y(Delinearize(at(0).back(), y.shape.dims())), x.dim(x.rank() - 1));
  return {x(from)};
}
std::vector<NodeEntry> ExtractGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry(), NodeEntry()};
  const NodeEntry x = n->inputs[0];
  const NodeEntry positions = ApplyOp("Reshape", {n->inputs[1], IntsLike(x, {-1})});
  // A vector gives [1, count].
  const NodeEntry shape =
      ApplyOp("Concat", {ApplyOp("Shape", {x}, {{"end", -1}}), ApplyOp("Shape", {positions})},
              {{"axis", 0}});
  const NodeEntry flat = ApplyOp("Reshape", {dy[0], shape}, {{"allowzero", 1}});
  return {ApplyOp("weft::GatherGrad", {flat, ShapeOf(x), positions}, {{"axis", -1}}), NodeEntry()};
}

}  // namespace

WEFT_REGISTER_OP_IN(ai.onnx.ml, LabelEncoder)
    .describe(
        "The value of each element's key, or the default. Gradient: none. Errors: keys and values "
        "that do not fit (kBadAttribute, kTypeMismatch). Source: ONNX ai.onnx.ml LabelEncoder-4.")
    .input("X", TypeDoc(kLabels, "T1"))
    .output("Y", TypeDoc(kLabels, "T2"), "the shape of X")
    .param<LabelEncoderParam>()
    .set_attr<FInferType>("FInferType", LabelEncoderType)
    .set_attr<FInferShape>("FInferShape", UnaryShape)
    .set_attr<FHostEval>("FHostEval", LabelEncoderHost)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP_IN(ai.onnx.ml, Binarizer)
    .describe("1 where x > threshold, else 0. Gradient: none. Source: ONNX ai.onnx.ml Binarizer-1.")
    .input("X", TypeDoc(kMlNumeric))
    .output("Y", "T", "the shape of X")
    .param<BinarizerParam>()
    .example({"f32[2, n]"}, "threshold = 0.5")
    .set_attr<FInferType>("FInferType", SameType(kMlNumeric))
    .set_attr<FInferShape>("FInferShape", UnaryShape)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr& n, const Exprs& x) -> Exprs {
                          const DType t = x[0]->dtype(), c = IsFloat(t) ? t : DType::kF64;
                          const Expr bound = Expr::Const(c, ParamOf<BinarizerParam>(n).threshold);
                          return {Expr::Cast(t, Lt(bound, Expr::Cast(c, x[0])))};
                        })
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP_IN(ai.onnx.ml, ArrayFeatureExtractor)
    .describe(
        "The elements Y of the last axis of X. Gradient: weft::GatherGrad. Source: ONNX ai.onnx.ml "
        "ArrayFeatureExtractor-1.")
    .input("X", TypeDoc(kMlNumeric | DTypeSet{DType::kString}))
    .input("Y", "i64", "in [-size, size) of the axis")
    .output("Z", "T", "[..., elements of Y]")
    .param<NoParam>()
    .example({"f32[2, 4]", "i64[3] = [0, 3, 1]"})
    .set_attr<FInferType>("FInferType", ExtractType)
    .set_attr<FInferShape>("FInferShape", ExtractShape)
    .set_attr<FCodeGen>("FCodeGen", ExtractCode)
    .set_attr<TMovesElements>("TMovesElements", true)
    .set_attr<FGradient>("FGradient", ExtractGrad);

}  // namespace weft::ops
