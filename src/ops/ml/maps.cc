/// maps.cc: ZipMap, CastMap, DictVectorizer of ai.onnx.ml, which make maps and read them. Maps live
/// on the host (Tensor::Map).
/// Source: ONNX ai.onnx.ml ZipMap-1, CastMap-1, DictVectorizer-1; what they leave open (order,
/// padding, texts of numbers) is as in ONNX Runtime.
#include <algorithm>
#include <cmath>
#include <map>

#include "ops/util/host_util.h"
#include "weft/support/request.h"

namespace weft::ops {
namespace {

struct ZipMapParam : OpParam<ZipMapParam> {
  Ints classlabels_int64s;
  Strings classlabels_strings;
  WEFT_OP_PARAM(ZipMapParam) {
    WEFT_FIELD(classlabels_int64s).set_default({}).describe("keys; one of the two is given");
    WEFT_FIELD(classlabels_strings).set_default({}).describe("keys");
  }
};
WEFT_REGISTER_OP_PARAM(ZipMapParam);

struct CastMapParam : OpParam<CastMapParam> {
  std::string cast_to, map_form;
  int64_t max_map;
  WEFT_OP_PARAM(CastMapParam) {
    WEFT_FIELD(cast_to)
        .set_default("TO_FLOAT")
        .describe("\"TO_FLOAT\", \"TO_STRING\" or \"TO_INT64\"");
    WEFT_FIELD(map_form).set_default("DENSE").describe(
        "\"DENSE\": the values by rising keys; \"SPARSE\": each at the place that its key says");
    WEFT_FIELD(max_map).set_default(1).describe("size of a sparse result");
  }
};
WEFT_REGISTER_OP_PARAM(CastMapParam);

struct DictVectorizerParam : OpParam<DictVectorizerParam> {
  Ints int64_vocabulary;
  Strings string_vocabulary;
  WEFT_OP_PARAM(DictVectorizerParam) {
    WEFT_FIELD(int64_vocabulary).set_default({}).describe("keys; one of the two is given");
    WEFT_FIELD(string_vocabulary).set_default({}).describe("keys");
  }
};
WEFT_REGISTER_OP_PARAM(DictVectorizerParam);

/// The keys that one of two attributes gives, in one axis.
TensorPtr KeysOf(const NodePtr& n, const Ints& ints, const Strings& strings) {
  WEFT_CHECK(ints.empty() != strings.empty(), kBadAttribute,
             "{}: {} of the lists of integers and of strings have elements", n->Describe(),
             ints.empty() ? "none" : "both");
  if (strings.empty()) return Tensor::Ints(ints);
  auto t = NewTensor(DType::kString, {int64_t(strings.size())});
  t->mutable_strings().assign(strings.begin(), strings.end());
  return t;
}
/// The type of the operand, a map where it is known.
Type MapIn(InferTypeContext& ctx) {
  const Type t = ctx.in(0);
  WEFT_CHECK(!t.known() || t.is_map(), kTypeMismatch, "{}: expected a map, got {}",
             ctx.node()->Describe(), t.ToString());
  return t;
}
/// The value of each key of a map, where it is: a position in its values.
template <class Key>
std::map<Key, int64_t> PlacesOf(const Tensor& map) {
  const Tensor& keys = *map.elements()[0];
  std::map<Key, int64_t> places;
  for (int64_t i = 0; i < keys.num_elements(); ++i) {
    if constexpr (std::is_same_v<Key, std::string>)
      places[keys.strings()[size_t(i)]] = i;
    else
      places[keys.at_int(i)] = i;
  }
  return places;
}

// ---- ZipMap ----

TensorPtr ZipMapKeys(const NodePtr& n) {
  const auto& p = ParamOf<ZipMapParam>(n);
  return KeysOf(n, p.classlabels_int64s, p.classlabels_strings);
}
void ZipMapType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, DTypeSet{DType::kF32});
  ctx.set_out(0, Type(TypeKind::kMapSequence, DType::kF32, ZipMapKeys(ctx.node())->dtype()));
}
void ZipMapShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return;
  WEFT_CHECK(x.rank() == 1 || x.rank() == 2, kShapeMismatch,
             "{}: x has shape {}, expected [classes] or [rows, classes]", ctx.node()->Describe(),
             x.ToString());
  const int64_t keys = ZipMapKeys(ctx.node())->num_elements();
  UnifyDims(ctx, x[x.rank() - 1], SymInt(keys), "the columns of x and the labels");
}
/// Keys are shared by all maps, and values are views of x.
Tensors ZipMapHost(const NodePtr& n, const Tensors& in) {
  const TensorPtr keys = ZipMapKeys(n);
  const TensorPtr& x = in[0];
  const int64_t classes = x->dims().back(), rows = x->rank() == 2 ? x->dims()[0] : 1;
  WEFT_CHECK(classes == keys->num_elements(), kShapeMismatch,
             "{}: x has {} columns, there are {} labels", n->Describe(), classes,
             keys->num_elements());
  const auto own = std::make_shared<Tensor>(DType::kF32, x->dims());
  CopyElements(*x, 0, own.get(), 0, x->num_elements());
  Tensors maps;
  for (int64_t r = 0; r < rows; ++r) {
    if ((r & 0xfff) == 0) RequestScope::Poll();
    maps.push_back(Tensor::Map(
        keys, std::make_shared<Tensor>(DType::kF32, Dims{classes},
                                       own->mutable_data_as<float>() + r * classes, own)));
  }
  return {Tensor::List(Type(TypeKind::kMapSequence, DType::kF32, keys->dtype()), std::move(maps))};
}

// ---- CastMap ----

DType CastMapTo(const NodePtr& n) {
  const std::string& to = ParamOf<CastMapParam>(n).cast_to;
  WEFT_CHECK(to == "TO_FLOAT" || to == "TO_STRING" || to == "TO_INT64", kBadAttribute,
             "{}: cast_to \"{}\"", n->Describe(), to);
  return to == "TO_FLOAT" ? DType::kF32 : to == "TO_STRING" ? DType::kString : DType::kI64;
}
bool IsSparse(const NodePtr& n) {
  const auto& p = ParamOf<CastMapParam>(n);
  WEFT_CHECK(p.map_form == "DENSE" || p.map_form == "SPARSE", kBadAttribute, "{}: map_form \"{}\"",
             n->Describe(), p.map_form);
  WEFT_CHECK(p.map_form == "DENSE" || p.max_map > 0, kBadAttribute, "{}: max_map {}", n->Describe(),
             p.max_map);
  return p.map_form == "SPARSE";
}
void CastMapType(InferTypeContext& ctx) {
  const Type t = MapIn(ctx);
  WEFT_CHECK(
      !t.known() || (t.key == DType::kI64 && (t.dtype == DType::kString || t.dtype == DType::kF32)),
      kTypeMismatch, "{}: expected map(i64, str) or map(i64, f32), got {}", ctx.node()->Describe(),
      t.ToString());
  ctx.set_out(0, CastMapTo(ctx.node()));
}
void CastMapShape(InferShapeContext& ctx) {
  if (IsSparse(ctx.node()))
    return ctx.set_out(0, Shape({SymInt(1), SymInt(ParamOf<CastMapParam>(ctx.node()).max_map)}));
  ctx.set_out(0, Shape({SymInt(1), ctx.unbacked(0)}));
  Unknown(ctx, 0, "it depends on the map");
}
Tensors CastMapHost(const NodePtr& n, const Tensors& in) {
  const DType to = CastMapTo(n);
  const Tensor& values = *in[0]->elements()[1];
  const auto places = PlacesOf<int64_t>(*in[0]);
  const bool sparse = IsSparse(n);
  const int64_t size = sparse ? ParamOf<CastMapParam>(n).max_map : int64_t(places.size());
  auto y = NewTensor(to, {1, size});
  if (to == DType::kString)
    std::fill(y->mutable_strings().begin(), y->mutable_strings().end(), "0.f");
  int64_t next = 0;
  for (const auto& [key, at] : places) {
    const int64_t place = sparse ? key : next++;
    WEFT_CHECK(place >= 0 && place < size, kIndexRange, "{}: key {} in a map of {}", n->Describe(),
               key, size);
    const auto one = NewTensor(values.dtype(), {});
    CopyElements(values, at, one.get(), 0, 1);
    if (to == DType::kString && values.dtype() == DType::kF32)
      y->mutable_strings()[size_t(place)] = fmt::format("{:f}", one->at(0));
    else
      CopyElements(*CastTensor(*one, to), 0, y.get(), place, 1);
  }
  return {y};
}

// ---- DictVectorizer ----

TensorPtr VocabularyOf(const NodePtr& n) {
  const auto& p = ParamOf<DictVectorizerParam>(n);
  return KeysOf(n, p.int64_vocabulary, p.string_vocabulary);
}
void VectorizerType(InferTypeContext& ctx) {
  const Type t = MapIn(ctx);
  if (!t.known()) return;
  const DType key = VocabularyOf(ctx.node())->dtype();
  WEFT_CHECK(t.key == key, kTypeMismatch, "{}: a vocabulary of {} for a {}", ctx.node()->Describe(),
             DTypeName(key), t.ToString());
  ctx.set_out(0, t.dtype);
}
void VectorizerShape(InferShapeContext& ctx) {
  ctx.set_out(0, Shape({SymInt(1), SymInt(VocabularyOf(ctx.node())->num_elements())}));
}
template <class Key>
void Vectorize(const Tensor& map, const std::vector<Key>& vocabulary, Tensor* y) {
  const auto places = PlacesOf<Key>(map);
  for (size_t i = 0; i < vocabulary.size(); ++i)
    if (const auto it = places.find(vocabulary[i]); it != places.end())
      CopyElements(*map.elements()[1], it->second, y, int64_t(i), 1);
}
Tensors VectorizerHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<DictVectorizerParam>(n);
  auto y = NewTensor(in[0]->dtype(), {1, VocabularyOf(n)->num_elements()});
  if (p.string_vocabulary.empty())
    Vectorize<int64_t>(*in[0], p.int64_vocabulary, y.get());
  else
    Vectorize<std::string>(*in[0], p.string_vocabulary, y.get());
  return {y};
}

}  // namespace

WEFT_REGISTER_OP_IN(ai.onnx.ml, ZipMap)
    .describe(
        "A map from labels to scores for each row. Gradient: none. Errors: other than one label a "
        "column (kShapeMismatch). Source: ONNX ai.onnx.ml ZipMap-1.")
    .input("X", "f32", "[rows, classes] or [classes]")
    .output("Z", "seq(map(i64, f32)) or seq(map(str, f32))")
    .param<ZipMapParam>()
    .set_attr<FInferType>("FInferType", ZipMapType)
    .set_attr<FInferShape>("FInferShape", ZipMapShape)
    .set_attr<FHostEval>("FHostEval", ZipMapHost)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP_IN(ai.onnx.ml, CastMap)
    .describe(
        "The values of a map as a tensor. Where a sparse result has no key it is 0, a string "
        "\"0.f\". Gradient: none. Errors: a key outside of a sparse result (kIndexRange). Source: "
        "ONNX ai.onnx.ml CastMap-1.")
    .input("X", "map(i64, str) or map(i64, f32)")
    .output("Y", "str, f32 or i64", "[1, size]")
    .param<CastMapParam>()
    .set_attr<FInferType>("FInferType", CastMapType)
    .set_attr<FInferShape>("FInferShape", CastMapShape)
    .set_attr<FHostEval>("FHostEval", CastMapHost)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP_IN(ai.onnx.ml, DictVectorizer)
    .describe(
        "The values that a map has for the keys of a vocabulary; 0 or an empty string where it has "
        "none. Gradient: none. Source: ONNX ai.onnx.ml DictVectorizer-1.")
    .input("X", "map(str, T) or map(i64, T)")
    .output("Y", "T", "[1, size of the vocabulary]")
    .param<DictVectorizerParam>()
    .set_attr<FInferType>("FInferType", VectorizerType)
    .set_attr<FInferShape>("FInferShape", VectorizerShape)
    .set_attr<FHostEval>("FHostEval", VectorizerHost)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
