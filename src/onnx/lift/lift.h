/// lift.h: operators of older operator sets in the newest form.
///
/// A lift edits one node record in place and may put nodes before and after it. Records hold no
/// protobuf: attributes are already typed, values are names. The table in lift.cc says which
/// function applies to which versions of which operator; versions in between that only allow more
/// dtypes or add attributes with neutral defaults need none.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/core/graph/attr.h"

namespace weft::onnx_import {

/// One node of a model, on its way into the graph.
struct Record {
  std::string domain, op;
  std::string name;                          ///< of what is built for it; never empty in a model
  std::string onnx_name;                     ///< as in the file; empty: it has none there
  int64_t version = 0;                       ///< imported version of its domain
  std::vector<std::string> inputs, outputs;  ///< "": absent
  AttrDict attrs;
  std::vector<std::pair<std::string, void*>> graphs;  ///< sub-graph attributes (pb::GraphProto*)
};

/// A record that is being lifted, and what the lift adds around it.
class Lift {
 public:
  /// `dtype_of`, `shape_of` and `constant_of` tell the dtype, the shape and the content of a value
  /// of the model where they are known so far (content: else null).
  Lift(Record* node, std::function<DType(const std::string&)> dtype_of,
       std::function<Shape(const std::string&)> shape_of = {},
       std::function<TensorPtr(const std::string&)> constant_of = {})
      : node(*node),
        dtype_of_(std::move(dtype_of)),
        shape_of_(std::move(shape_of)),
        constant_of_(std::move(constant_of)) {}
  Record& node;
  std::vector<Record> before, after;

  const std::string& input(size_t i) const;  ///< "" where there is none
  void set_input(size_t i, std::string value);
  /// Takes an attribute away; empty where it is absent.
  AttrValue Take(std::string_view attr);
  template <class T>
  T Take(std::string_view attr, T otherwise) {
    const AttrValue v = Take(attr);
    return v.empty() ? otherwise : T(v.get<T>());
  }
  DType dtype_of(const std::string& value) const { return dtype_of_(value); }
  Shape shape_of(const std::string& value) const {
    return shape_of_ && !value.empty() ? shape_of_(value) : Shape();
  }
  int rank_of(const std::string& value) const;  ///< -1 where it is not known
  /// Throws Unsupported where it is not known.
  int RankOf(const std::string& value, const char* what) const;
  /// The integer that an axis (negative: from the end) is known to have; else none.
  std::optional<int64_t> ExtentOf(const std::string& value, int axis) const;
  TensorPtr constant_of(const std::string& value) const {
    return constant_of_ ? constant_of_(value) : nullptr;
  }

  /// Takes an integer attribute of which only one value is supported; that is its default, too.
  void Only(std::string_view attr, int64_t supported);
  bool HasOutput(size_t i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }

  /// A value name that no model uses for anything this node sees.
  std::string Fresh();
  /// A node before this one; returns its first output.
  std::string Before(std::string op, std::vector<std::string> inputs, AttrDict attrs = {});
  std::vector<std::string> BeforeMany(std::string op, std::vector<std::string> inputs,
                                      AttrDict attrs, int outputs);
  std::string Constant(TensorPtr value) {
    return Before("Constant", {}, {{"value", std::move(value)}});
  }
  std::string Ints(const std::vector<int64_t>& values) { return Constant(Tensor::Ints(values)); }
  /// A scalar of the dtype of value `like`, through CastLike where that is not known.
  std::string ScalarLike(double v, const std::string& like);
  /// The node goes, and output i is `values[i]`, made by nodes before it; "": is not made.
  void Replace(const std::vector<std::string>& values);
  /// Renames output i; `op(fresh, more...)` after the node gives the old name.
  void After(size_t i, std::string op, std::vector<std::string> more, AttrDict attrs = {});
  [[noreturn]] void Unsupported(const std::string& what) const;

 private:
  Record Make(std::string op, std::vector<std::string> inputs, AttrDict attrs) const;
  std::function<DType(const std::string&)> dtype_of_;
  std::function<Shape(const std::string&)> shape_of_;
  std::function<TensorPtr(const std::string&)> constant_of_;
  int fresh_ = 0;
};

/// Applies every lift that the record's version asks for. Domains "", "com.microsoft" and
/// "ai.onnx.ml" have some.
void LiftToNewest(Lift* lift);

/// One row of the table: applies to versions in [first, last].
struct LiftRule {
  std::string_view op;
  int64_t first, last;
  void (*apply)(Lift*);
  /// The attribute of those versions, a list of integers, that has become operand 1; null: none.
  const char* operand_1 = nullptr;
  /// Nodes with fewer results were then what they are now.
  int least_results = 1;
};
std::vector<LiftRule> ShapeOpLifts();
std::vector<LiftRule> NnOpLifts();
std::vector<LiftRule> OpsetSixLifts();
std::vector<LiftRule> AttentionLifts();
/// Of the domain ai.onnx.ml.
std::vector<LiftRule> MlOpLifts();

/// An operator of ONNX Runtime's own domain: how many operands and results it has, and its form in
/// standard ones. Attributes that `apply` does not take are refused.
struct ContribRule {
  std::string_view op;
  size_t least_inputs, most_inputs, most_outputs;
  void (*apply)(Lift*);
};
const std::vector<ContribRule>& ContribLifts();

}  // namespace weft::onnx_import
