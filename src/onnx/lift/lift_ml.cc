/// lift_ml.cc: ai.onnx.ml, what scikit-learn's converters write: scalers, encoders and linear
/// models in standard operators, which fuse and are compiled. The table is at the end. Trees are in
/// lift_trees.cc, support vector machines in lift_svm.cc; maps, and the look-up of labels, are
/// operators of their own (src/ops/ml).
///
/// Where the standard is silent, meanings are those of ONNX Runtime's CPU provider
/// (tests/onnxruntime/ml_ops.py holds each against it).
#include "lift_ml.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/support/check.h"

namespace weft::onnx_import {

std::string RowsOf(Lift* l, const std::string& x) {
  return l->rank_of(x) == 1 ? l->Before("Reshape", {x, l->Ints({1, -1})}) : x;
}
std::string CastTo(Lift* l, const std::string& x, DType dtype, DType from) {
  return from == dtype || l->dtype_of(x) == dtype ? x : l->Before("Cast", {x}, {{"to", dtype}});
}

namespace {

TensorPtr Floats32(const Floats& values, std::vector<int64_t> dims) {
  return Tensor::FromDoubles(DType::kF32, std::move(dims), values);
}
std::string Number(Lift* l, double v) { return l->Constant(Tensor::Scalar(DType::kF32, v)); }
std::string OneMinus(Lift* l, const std::string& x) { return l->Before("Sub", {Number(l, 1), x}); }

/// An approximation of the inverse of erf, by S. Winitzki; its constants, with their digits, are
/// those of ONNX Runtime.
std::string InverseErf(Lift* l, const std::string& x) {
  const std::string log =
      l->Before("Log", {l->Before("Mul", {OneMinus(l, x), l->Before("Add", {Number(l, 1), x})})});
  const std::string half =
      l->Before("Add", {Number(l, 2 / (3.14159 * 0.147)), l->Before("Mul", {Number(l, 0.5), log})});
  const std::string scaled = l->Before("Div", {log, Number(l, 0.147)});
  const std::string root =
      l->Before("Sqrt", {l->Before("Sub", {l->Before("Mul", {half, half}), scaled})});
  // root - half; near 0 without the difference of nearly equal numbers.
  const std::string small =
      l->Before("Neg", {l->Before("Div", {scaled, l->Before("Add", {root, half})})});
  const std::string square = l->Before(
      "Where", {l->Before("Less", {Number(l, 0), half}), small, l->Before("Sub", {root, half})});
  const std::string size = l->Before("Sqrt", {square});
  const std::string negative = l->Before("Less", {x, Number(l, 0)});
  return l->Before("Where", {negative, l->Before("Neg", {size}), size});
}
std::string Probit(Lift* l, const std::string& x) {
  const std::string y = l->Before("Sub", {l->Before("Mul", {Number(l, 2), x}), Number(l, 1)});
  return l->Before("Mul", {Number(l, std::sqrt(2.0)), InverseErf(l, y)});
}
/// Soft-max over what is not zero; zeros stay (nearly) so.
std::string SoftmaxZero(Lift* l, const std::string& x) {
  const std::string top = l->Before("ReduceMax", {x, l->Ints({-1})}, {{"keepdims", 1}});
  const std::string is_zero = l->Before("LessOrEqual", {l->Before("Abs", {x}), Number(l, 1e-7)});
  const std::string zeros = l->Before("Mul", {x, l->Before("Exp", {l->Before("Neg", {top})})});
  const std::string e =
      l->Before("Where", {is_zero, zeros, l->Before("Exp", {l->Before("Sub", {x, top})})});
  const std::string present = l->Before("Where", {is_zero, Number(l, 0), e});
  const std::string sum = l->Before("ReduceSum", {present, l->Ints({-1})}, {{"keepdims", 1}});
  return l->Before("Div", {e, sum});
}

}  // namespace

PostTransform TakePostTransform(Lift* l) {
  static constexpr const char* kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const std::string name = l->Take<std::string>("post_transform", "NONE");
  for (int i = 0; i < 5; ++i)
    if (name == kNames[i]) return PostTransform(i);
  ThrowError(ErrorCode::kBadAttribute, fmt::format("attribute 'post_transform' is \"{}\"", name),
             {}, "expected NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT");
}

std::string Transformed(Lift* l, const std::string& scores, PostTransform transform) {
  switch (transform) {
    case PostTransform::kNone:
      return scores;
    case PostTransform::kSoftmax:
      return l->Before("Softmax", {scores}, {{"axis", -1}});
    case PostTransform::kLogistic:
      return l->Before("Sigmoid", {scores});
    case PostTransform::kSoftmaxZero:
      return SoftmaxZero(l, scores);
    case PostTransform::kProbit:
      return Probit(l, scores);
  }
  return scores;
}

std::string BothClasses(Lift* l, const std::string& score, bool opposite, PostTransform transform) {
  if (transform == PostTransform::kProbit)
    l->Unsupported("post_transform = PROBIT of one score for two classes");
  const bool logistic = transform == PostTransform::kLogistic;
  const std::string first = logistic || opposite ? l->Before("Neg", {score}) : OneMinus(l, score);
  const std::string both = l->Before("Concat", {first, score}, {{"axis", 1}});
  return logistic ? l->Before("Sigmoid", {both}) : both;
}

ClassLabels::ClassLabels(Lift* l, std::string_view ints, std::string_view strings) {
  const Ints numbers = l->Take<Ints>(ints, {});
  const Strings texts = l->Take<Strings>(strings, {});
  if (numbers.empty() == texts.empty())
    ThrowError(ErrorCode::kBadAttribute,
               fmt::format("{} of '{}' and '{}' have elements", texts.empty() ? "none" : "both",
                           ints, strings),
               {}, "give the labels of the classes in one of them");
  if (texts.empty()) {
    labels_ = Tensor::Ints(numbers);
    return;
  }
  auto t = std::make_shared<Tensor>(DType::kString, std::vector<int64_t>{int64_t(texts.size())});
  t->mutable_strings().assign(texts.begin(), texts.end());
  labels_ = std::move(t);
}
std::string ClassLabels::OfGreatest(Lift* l, const std::string& scores) const {
  return Of(l, l->Before("ArgMax", {scores}, {{"axis", -1}, {"keepdims", 0}}));
}
std::string ClassLabels::OfSecond(Lift* l, const std::string& condition) const {
  const std::string index = l->Before("Cast", {condition}, {{"to", DType::kI64}});
  return Of(l, l->Before("Reshape", {index, l->Ints({-1})}));
}

namespace {

/// A list for all features, or for each.
void CheckPerFeature(const Lift& l, const char* attr, size_t given) {
  const auto features = l.ExtentOf(l.node.inputs[0], -1);
  if (given <= 1 || !features || *features == int64_t(given)) return;
  ThrowError(ErrorCode::kBadAttribute,
             fmt::format("attribute '{}' has {} elements for {} features", attr, given, *features),
             {}, "expected one for all features, or one for each");
}

// ---- features ----

void Scaler(Lift* l) {
  const Floats offset = l->Take<Floats>("offset", {}), scale = l->Take<Floats>("scale", {});
  CheckPerFeature(*l, "offset", offset.size());
  CheckPerFeature(*l, "scale", scale.size());
  const bool wide = l->dtype_of(l->input(0)) == DType::kF64;
  const DType t = wide ? DType::kF64 : DType::kF32;
  std::string x = CastTo(l, l->input(0), t);
  const auto list = [&](const Floats& v) {
    return l->Constant(Tensor::FromDoubles(t, {int64_t(v.size())}, v));
  };
  if (!offset.empty()) x = l->Before("Sub", {x, list(offset)});
  if (!scale.empty()) x = l->Before("Mul", {x, list(scale)});
  l->Replace({wide ? CastTo(l, x, DType::kF32) : x});
}

void Imputer(Lift* l) {
  const Floats floats = l->Take<Floats>("imputed_value_floats", {});
  const Ints ints = l->Take<Ints>("imputed_value_int64s", {});
  const double old_float = l->Take<double>("replaced_value_float", 0);
  const int64_t old_int = l->Take<int64_t>("replaced_value_int64", 0);
  const std::string x = l->input(0);
  const DType t = l->dtype_of(x);
  if (t == DType::kUnknown) l->Unsupported("the dtype of X is not known");
  const size_t count = IsFloat(t) ? floats.size() : ints.size();
  if (count == 0)
    ThrowError(
        ErrorCode::kBadAttribute,
        fmt::format("attribute '{}' has no elements, X is {}",
                    IsFloat(t) ? "imputed_value_floats" : "imputed_value_int64s", DTypeName(t)),
        {}, "one value for all features, or one for each");
  CheckPerFeature(*l, "imputed_value", count);
  auto values = std::make_shared<Tensor>(t, std::vector<int64_t>{int64_t(count)});
  for (size_t i = 0; i < count; ++i) {
    if (IsFloat(t))
      values->set(int64_t(i), floats[i]);
    else
      values->set_int(int64_t(i), ints[i]);
  }
  auto old = std::make_shared<Tensor>(t, std::vector<int64_t>{});
  if (IsFloat(t))
    old->set(0, old_float);
  else
    old->set_int(0, old_int);
  const std::string missing = IsFloat(t) && std::isnan(old_float)
                                  ? l->Before("IsNaN", {x})
                                  : l->Before("Equal", {x, l->Constant(old)});
  l->Replace({l->Before("Where", {missing, l->Constant(values), x})});
}

void Normalizer(Lift* l) {
  const std::string norm = l->Take<std::string>("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2")
    ThrowError(ErrorCode::kBadAttribute, fmt::format("attribute 'norm' is \"{}\"", norm), {},
               "expected MAX, L1 or L2");
  const std::string x = CastTo(l, l->input(0), DType::kF32);
  const char* reduce = norm == "MAX" ? "ReduceMax" : norm == "L1" ? "ReduceL1" : "ReduceL2";
  const std::string size = l->Before(reduce, {x, l->Ints({-1})}, {{"keepdims", 1}});
  // A row without a size stays.
  const std::string none = l->Before("Equal", {size, Number(l, 0)});
  l->Replace({l->Before("Div", {x, l->Before("Where", {none, Number(l, 1), size})})});
}

/// Each operand is cut, or filled up with zeros, to its part of `inputdimensions`.
void FeatureVectorizer(Lift* l) {
  const Ints sizes = l->Take<Ints>("inputdimensions", {});
  WEFT_CHECK(sizes.empty() || sizes.size() == l->node.inputs.size(), kBadAttribute,
             "attribute 'inputdimensions' has {} elements for {} inputs", sizes.size(),
             l->node.inputs.size());
  std::vector<std::string> parts;
  for (size_t i = 0; i < l->node.inputs.size(); ++i) {
    const std::string given = l->node.inputs[i];
    std::string x = RowsOf(l, CastTo(l, given, DType::kF32));
    const auto has = l->ExtentOf(given, -1);
    const int64_t wants = sizes.empty() ? 0 : sizes[i];
    WEFT_CHECK(wants >= 0, kBadAttribute, "attribute 'inputdimensions' holds {}", wants);
    if (!sizes.empty() && has && *has > wants)
      x = l->Before("Slice", {x, l->Ints({0}), l->Ints({wants}), l->Ints({1})});
    if (!sizes.empty() && has && *has < wants)
      x = l->Before("Pad", {x, l->Ints({0, 0, 0, wants - *has})});
    parts.push_back(x);
  }
  l->Replace({l->Before("Concat", parts, {{"axis", 1}})});
}

// ---- encoders ----

/// Strings to integers or back, by two lists of one length.
std::string Encode(Lift* l, bool from_strings, Strings strings, Ints ints, AttrValue otherwise) {
  AttrDict attrs;
  attrs[from_strings ? "keys_strings" : "values_strings"] = std::move(strings);
  attrs[from_strings ? "values_int64s" : "keys_int64s"] = std::move(ints);
  attrs[from_strings ? "default_int64" : "default_string"] = std::move(otherwise);
  return l->Before("ai.onnx.ml::LabelEncoder", {l->input(0)}, std::move(attrs));
}
bool FromStrings(const Lift& l) {
  const DType t = l.dtype_of(l.node.inputs[0]);
  if (t == DType::kUnknown) l.Unsupported("the dtype of X is not known");
  WEFT_CHECK(t == DType::kString || t == DType::kI64, kTypeMismatch, "X is {}, expected str or i64",
             DTypeName(t));
  return t == DType::kString;
}
Ints UpTo(size_t n) {
  Ints all;
  for (size_t i = 0; i < n; ++i) all.push_back(int64_t(i));
  return all;
}
void LiftByLists(Lift* l, Strings strings, const Ints& ints) {
  const bool from_strings = FromStrings(*l);
  const AttrValue text = l->Take("default_string"), number = l->Take("default_int64");
  const AttrValue& given = from_strings ? number : text;
  const AttrValue otherwise = !given.empty() ? given
                              : from_strings ? AttrValue(int64_t{-1})
                                             : AttrValue("_Unused");
  l->Replace({Encode(l, from_strings, std::move(strings), ints, otherwise)});
}
void OldLabelEncoder(Lift* l) {
  const Strings classes = l->Take<Strings>("classes_strings", {});
  LiftByLists(l, classes, UpTo(classes.size()));
}
void CategoryMapper(Lift* l) {
  const Strings strings = l->Take<Strings>("cats_strings", {});
  const Ints ints = l->Take<Ints>("cats_int64s", {});
  if (strings.size() != ints.size())
    ThrowError(ErrorCode::kBadAttribute,
               fmt::format("attributes 'cats_strings' and 'cats_int64s' have {} and {} elements",
                           strings.size(), ints.size()),
               {}, "each string has its integer");
  LiftByLists(l, strings, ints);
}

void OneHotEncoder(Lift* l) {
  const Ints ints = l->Take<Ints>("cats_int64s", {});
  const Strings strings = l->Take<Strings>("cats_strings", {});
  const bool zeros = l->Take<int64_t>("zeros", 1) != 0;
  const DType t = l->dtype_of(l->input(0));
  if (t == DType::kUnknown) l->Unsupported("the dtype of X is not known");
  const size_t count = t == DType::kString ? strings.size() : ints.size();
  if (count == 0)
    ThrowError(ErrorCode::kBadAttribute,
               fmt::format("attribute '{}' has no elements, X is {}",
                           t == DType::kString ? "cats_strings" : "cats_int64s", DTypeName(t)),
               {}, "it lists the categories");
  const Ints sorted = [&] {
    Ints all = ints;
    std::sort(all.begin(), all.end());
    return all;
  }();
  const bool repeated = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  const auto one_of = [&](const std::string& x, const Ints& categories) {
    const std::string column = l->Before("Unsqueeze", {x, l->Ints({-1})});
    const std::string equal = l->Before("Equal", {column, l->Ints(categories)});
    l->Replace({l->Before("Cast", {equal}, {{"to", DType::kF32}})});
  };
  if (t != DType::kString && zeros && !repeated)
    return one_of(CastTo(l, l->input(0), DType::kI64), ints);
  // A category that is not there has a number beyond the last, which has no row in the table.
  const int64_t unknown = int64_t(count);
  // LabelEncoder takes the first of equal keys, this operator the last.
  Ints places = UpTo(count);
  std::reverse(places.begin(), places.end());
  std::string index;
  if (t == DType::kString) {
    index = Encode(l, true, Strings(strings.rbegin(), strings.rend()), places, unknown);
  } else {
    index = l->Before("ai.onnx.ml::LabelEncoder", {CastTo(l, l->input(0), DType::kI64)},
                      {{"keys_int64s", Ints(ints.rbegin(), ints.rend())},
                       {"values_int64s", places},
                       {"default_int64", unknown}});
  }
  if (zeros) return one_of(index, UpTo(count));
  auto table = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{unknown, unknown});
  for (int64_t i = 0; i < unknown; ++i) table->set(i * unknown + i, 1);
  l->Replace({l->Before("Gather", {l->Constant(table), index}, {{"axis", 0}})});
}

// ---- linear models ----

/// X times the coefficients of `rows` rows, [N, rows], with the intercepts added.
std::string LinearScores(Lift* l, int64_t rows, const Floats& intercepts) {
  const Floats w = l->Take<Floats>("coefficients", {});
  if (w.empty() || int64_t(w.size()) % rows != 0 ||
      (!intercepts.empty() && int64_t(intercepts.size()) != rows))
    ThrowError(ErrorCode::kBadAttribute,
               fmt::format("attributes 'coefficients' and 'intercepts' have {} and {} elements",
                           w.size(), intercepts.size()),
               {}, fmt::format("{} rows of coefficients, each with an intercept", rows));
  const int64_t features = int64_t(w.size()) / rows;
  const auto given = l->ExtentOf(l->input(0), -1);
  WEFT_CHECK(!given || *given == features, kShapeMismatch,
             "X has {} features, the coefficients are for {}", *given, features);
  const std::string x = RowsOf(l, CastTo(l, l->input(0), DType::kF32));
  std::vector<std::string> in = {x, l->Constant(Floats32(w, {rows, features}))};
  if (!intercepts.empty()) in.push_back(l->Constant(Floats32(intercepts, {rows})));
  return l->Before("Gemm", in, {{"transB", 1}});
}

void LinearRegressor(Lift* l) {
  const int64_t targets = l->Take<int64_t>("targets", 1);
  WEFT_CHECK(targets > 0, kBadAttribute, "attribute 'targets' is {}, expected at least 1", targets);
  const PostTransform transform = TakePostTransform(l);
  const std::string y = LinearScores(l, targets, l->Take<Floats>("intercepts", {}));
  // ONNX Runtime leaves a single target as it is, but for PROBIT.
  const bool as_it_is = targets == 1 && transform != PostTransform::kProbit;
  l->Replace({as_it_is ? y : Transformed(l, y, transform)});
}

void LinearClassifier(Lift* l) {
  l->Take("multi_class");  // how it was trained
  const ClassLabels labels(l, "classlabels_ints", "classlabels_strings");
  const PostTransform transform = TakePostTransform(l);
  const Floats intercepts = l->Take<Floats>("intercepts", {});
  const int64_t rows = intercepts.empty() ? labels.size() : int64_t(intercepts.size());
  if (rows != labels.size() && !(rows == 1 && labels.size() == 2))
    ThrowError(ErrorCode::kBadAttribute,
               fmt::format("{} intercepts for {} classes", rows, labels.size()), {},
               "one for each class, or one for two classes");
  const std::string scores = LinearScores(l, rows, intercepts);
  if (rows > 1)
    return l->Replace({labels.OfGreatest(l, scores), Transformed(l, scores, transform)});
  if (labels.size() == 1) l->Unsupported("one class is not supported");
  const std::string second = l->Before("Greater", {scores, Number(l, 0)});
  l->Replace({labels.OfSecond(l, second), BothClasses(l, scores, false, transform)});
}

}  // namespace

std::vector<LiftRule> MlOpLifts() {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  return {
      {"CategoryMapper", 1, kAny, CategoryMapper},
      {"FeatureVectorizer", 1, kAny, FeatureVectorizer},
      {"Imputer", 1, kAny, Imputer},
      {"LabelEncoder", 1, 1, OldLabelEncoder},
      {"LinearClassifier", 1, kAny, LinearClassifier},
      {"LinearRegressor", 1, kAny, LinearRegressor},
      {"Normalizer", 1, kAny, Normalizer},
      {"OneHotEncoder", 1, kAny, OneHotEncoder},
      {"SVMClassifier", 1, kAny, LiftSvmClassifier},
      {"SVMRegressor", 1, kAny, LiftSvmRegressor},
      {"Scaler", 1, kAny, Scaler},
      {"TreeEnsemble", 5, kAny, LiftTreeEnsemble},
      {"TreeEnsembleClassifier", 1, kAny, LiftTreeEnsembleClassifier},
      {"TreeEnsembleRegressor", 1, kAny, LiftTreeEnsembleRegressor},
  };
}

}  // namespace weft::onnx_import
