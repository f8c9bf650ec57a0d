/// lift_ml.h: what the lifts of ai.onnx.ml share.
#pragma once

#include <string>

#include "lift.h"

namespace weft::onnx_import {

/// `x` as rows of features, [N, F]: a vector is one row.
std::string RowsOf(Lift* l, const std::string& x);
/// `from`: the dtype of x, where the model does not tell it: of a value that a lift makes.
std::string CastTo(Lift* l, const std::string& x, DType dtype, DType from = DType::kUnknown);
/// The attribute `post_transform`, whose names and order are those of the standard.
enum class PostTransform { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };
PostTransform TakePostTransform(Lift* l);
/// A transform of the classes of each row of `scores`, [N, C].
std::string Transformed(Lift* l, const std::string& scores, PostTransform transform);
/// Scores [N, 2] of two classes from that of the second one, [N, 1], as ONNX Runtime completes
/// them; `opposite`: s and -s, else s and 1 - s.
std::string BothClasses(Lift* l, const std::string& score, bool opposite, PostTransform transform);

/// Labels of classes: integers or strings.
class ClassLabels {
 public:
  /// Takes both attributes; one of them has elements.
  ClassLabels(Lift* l, std::string_view ints, std::string_view strings);
  int64_t size() const { return labels_->num_elements(); }
  /// The label of each index, i64 [N].
  std::string Of(Lift* l, const std::string& index) const {
    return l->Before("Gather", {l->Constant(labels_), index}, {{"axis", 0}});
  }
  /// Of the greatest of each row of `scores`, the first of equal ones.
  std::string OfGreatest(Lift* l, const std::string& scores) const;
  /// Of the second class where `condition`, [N, 1], holds, else of the first.
  std::string OfSecond(Lift* l, const std::string& condition) const;

 private:
  TensorPtr labels_;
};

void LiftTreeEnsemble(Lift* l);
void LiftTreeEnsembleClassifier(Lift* l);
void LiftTreeEnsembleRegressor(Lift* l);
void LiftSvmClassifier(Lift* l);
void LiftSvmRegressor(Lift* l);

}  // namespace weft::onnx_import
