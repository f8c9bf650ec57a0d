/// lift_svm.cc: SVMClassifier and SVMRegressor of ai.onnx.ml as matmuls and element-wise operators;
/// only the coupling of pairwise probabilities is an operator of its own.
#include <cmath>

#include "lift_ml.h"
#include "weft/support/check.h"

namespace weft::onnx_import {
namespace {

TensorPtr Floats32(const Floats& values, std::vector<int64_t> dims) {
  return Tensor::FromDoubles(DType::kF32, std::move(dims), values);
}
std::string Number(Lift* l, double v) { return l->Constant(Tensor::Scalar(DType::kF32, v)); }

/// What both operators have.
struct Svm {
  explicit Svm(Lift* l)
      : kernel(l->Take<std::string>("kernel_type", "LINEAR")),
        params(l->Take<Floats>("kernel_params", {})),
        coefficients(l->Take<Floats>("coefficients", {})),
        vectors(l->Take<Floats>("support_vectors", {})),
        rho(l->Take<Floats>("rho", {})) {
    if (kernel != "LINEAR" && kernel != "POLY" && kernel != "RBF" && kernel != "SIGMOID")
      ThrowError(ErrorCode::kBadAttribute, fmt::format("attribute 'kernel_type' is \"{}\"", kernel),
                 {}, "expected LINEAR, POLY, RBF or SIGMOID");
    WEFT_CHECK(params.empty() || params.size() == 3, kBadAttribute,
               "attribute 'kernel_params' has {} elements, expected gamma, coef0 and degree",
               params.size());
    params.resize(3);
    WEFT_CHECK(!coefficients.empty() && !rho.empty(), kBadAttribute,
               "attribute '{}' has no elements", coefficients.empty() ? "coefficients" : "rho");
  }
  std::string kernel;
  Floats params, coefficients, vectors, rho;

  /// The kernel of each row of X and each of `count` vectors, [N, count].
  std::string Kernels(Lift* l, const Floats& rows, int64_t count, const std::string& name) const {
    WEFT_CHECK(!rows.empty() && int64_t(rows.size()) % count == 0, kBadAttribute,
               "attribute '{}' has {} elements for {} vectors", name, rows.size(), count);
    const int64_t features = int64_t(rows.size()) / count;
    const auto given = l->ExtentOf(l->input(0), -1);
    WEFT_CHECK(!given || *given == features, kShapeMismatch,
               "X has {} features, the vectors are of {}", *given, features);
    const std::string x = RowsOf(l, CastTo(l, l->input(0), DType::kF32));
    if (kernel == "RBF") {
      // Differences first: the squares of a product would cancel.
      const std::string difference =
          l->Before("Sub", {l->Before("Unsqueeze", {x, l->Ints({1})}),
                            l->Constant(Floats32(rows, {1, count, features}))});
      const std::string squares =
          l->Before("ReduceSumSquare", {difference, l->Ints({-1})}, {{"keepdims", 0}});
      return l->Before("Exp", {l->Before("Mul", {squares, Number(l, -params[0])})});
    }
    const std::string dot =
        l->Before("Gemm", {x, l->Constant(Floats32(rows, {count, features}))}, {{"transB", 1}});
    if (kernel == "LINEAR") return dot;
    const std::string line =
        l->Before("Add", {l->Before("Mul", {dot, Number(l, params[0])}), Number(l, params[1])});
    return kernel == "SIGMOID" ? l->Before("Tanh", {line})
                               : l->Before("Pow", {line, Number(l, params[2])});
  }
};

}  // namespace

void LiftSvmRegressor(Lift* l) {
  Svm svm(l);
  const int64_t count = l->Take<int64_t>("n_supports", 0);
  const bool one_class = l->Take<int64_t>("one_class", 0) != 0;
  TakePostTransform(l);  // ONNX Runtime applies none
  WEFT_CHECK(count >= 0, kBadAttribute, "attribute 'n_supports' is {}", count);
  std::string y;
  if (count > 0) {
    WEFT_CHECK(int64_t(svm.coefficients.size()) == count, kBadAttribute,
               "attribute 'coefficients' has {} elements for {} vectors", svm.coefficients.size(),
               count);
    const std::string k = svm.Kernels(l, svm.vectors, count, "support_vectors");
    y = l->Before("MatMul", {k, l->Constant(Floats32(svm.coefficients, {count, 1}))});
  } else {
    svm.kernel = "LINEAR";
    y = svm.Kernels(l, svm.coefficients, 1, "coefficients");
  }
  y = l->Before("Add", {y, Number(l, svm.rho[0])});
  if (one_class)
    y = l->Before("Where", {l->Before("Greater", {y, Number(l, 0)}), Number(l, 1), Number(l, -1)});
  l->Replace({y});
}

namespace {

/// No support vectors: a row of coefficients for each class.
void LiftLinearSvm(Lift* l, Svm svm, const ClassLabels& labels, bool has_probabilities,
                   PostTransform transform) {
  svm.kernel = "LINEAR";
  const std::string scores = l->Before(
      "Add",
      {svm.Kernels(l, svm.coefficients, labels.size(), "coefficients"), Number(l, svm.rho[0])});
  std::string label = labels.OfGreatest(l, scores);
  if (labels.size() == 2 && !has_probabilities) {
    // The greatest score decides alone where it is great enough.
    bool positive = true;
    for (const double c : svm.coefficients) positive = positive && c >= 0;
    const std::string top = l->Before("ReduceMax", {scores, l->Ints({-1})}, {{"keepdims", 1}});
    const std::string great =
        l->Before(positive ? "GreaterOrEqual" : "Greater", {top, Number(l, positive ? 0.5 : 0)});
    const std::string index = l->Before("ArgMax", {scores}, {{"axis", -1}, {"keepdims", 1}});
    label = labels.OfSecond(
        l, l->Before("Or", {great, l->Before("Cast", {index}, {{"to", DType::kBool}})}));
  }
  l->Replace({label, Transformed(l, scores, transform)});
}

}  // namespace

void LiftSvmClassifier(Lift* l) {
  Svm svm(l);
  const ClassLabels labels(l, "classlabels_ints", "classlabels_strings");
  const Ints counts = l->Take<Ints>("vectors_per_class", {});
  const Floats a = l->Take<Floats>("prob_a", {}), b = l->Take<Floats>("prob_b", {});
  const PostTransform transform = TakePostTransform(l);
  WEFT_CHECK(a.size() == b.size(), kBadAttribute,
             "attributes 'prob_a' and 'prob_b' have {} and {} elements", a.size(), b.size());
  Ints starts{0};
  for (const int64_t n : counts) {
    WEFT_CHECK(n >= 0 && n <= int64_t(svm.coefficients.size()), kBadAttribute,
               "attribute 'vectors_per_class' holds {}", n);
    starts.push_back(starts.back() + n);
  }
  const int64_t vectors = starts.back(), classes = labels.size(),
                pairs = classes * (classes - 1) / 2;
  if (vectors == 0) return LiftLinearSvm(l, std::move(svm), labels, !a.empty(), transform);
  const auto fits = [&](const char* attr, size_t given, int64_t wanted) {
    WEFT_CHECK(int64_t(given) == wanted, kBadAttribute,
               "attribute '{}' has {} elements, {} classes and {} support vectors ask for {}", attr,
               given, classes, vectors, wanted);
  };
  WEFT_CHECK(classes > 1 && classes < 65536, kBadAttribute, "{} classes", classes);
  fits("vectors_per_class", counts.size(), classes);
  fits("coefficients", svm.coefficients.size(), (classes - 1) * vectors);
  fits("rho", svm.rho.size(), pairs);
  if (!a.empty()) fits("prob_a", a.size(), pairs);

  // For each pair of classes i < j a column that sums the vectors of both, and one row that says
  // who gets its vote: i where the sum is positive, else j.
  auto sums = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{vectors, pairs});
  auto votes = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{pairs, classes});
  auto lost = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{classes});
  int64_t pair = 0;
  for (int64_t i = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      const auto column = [&](int64_t of, int64_t row) {
        for (int64_t v = starts[size_t(of)]; v < starts[size_t(of) + 1]; ++v)
          sums->set(v * pairs + pair, svm.coefficients[size_t(row * vectors + v)]);
      };
      column(i, j - 1);
      column(j, i);
      votes->set(pair * classes + i, 1);
      votes->set(pair * classes + j, -1);
      lost->set(j, lost->at(j) + 1);
    }
  }
  const std::string k = svm.Kernels(l, svm.vectors, vectors, "support_vectors");
  const std::string scores =
      l->Before("Gemm", {k, l->Constant(sums), l->Constant(Floats32(svm.rho, {pairs}))});
  const std::string won =
      l->Before("Cast", {l->Before("Greater", {scores, Number(l, 0)})}, {{"to", DType::kF32}});
  const std::string label =
      labels.OfGreatest(l, l->Before("Gemm", {won, l->Constant(votes), l->Constant(lost)}));
  if (!a.empty()) {
    // P(i of i and j), as libsvm fits it: 1 / (1 + exp(a s + b)).
    const std::string line =
        l->Before("Add", {l->Before("Mul", {scores, l->Constant(Floats32(a, {pairs}))}),
                          l->Constant(Floats32(b, {pairs}))});
    const std::string pairwise = l->Before("Sigmoid", {l->Before("Neg", {line})});
    const std::string p = l->Before("weft::PairwiseCoupling", {pairwise}, {{"classes", classes}});
    return l->Replace({label, Transformed(l, p, transform)});
  }
  if (classes == 2)
    return l->Replace(
        {label, BothClasses(l, scores, transform == PostTransform::kNone, transform)});
  l->Replace({label, Transformed(l, scores, transform)});
}

}  // namespace weft::onnx_import
