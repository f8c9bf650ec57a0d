/// type_tracker.h: dtypes of the entries of a graph under construction, by the FInferType of its
/// ops. Import needs them where a lift makes a constant "of the dtype of x" and where ONNX's body
/// of a function depends on the types of its inputs.
#pragma once

#include <unordered_map>

#include "weft/core/graph/graph.h"
#include "weft/core/op/op_attr_types.h"

namespace weft::onnx_import {

class TypeTracker final : public InferTypeContext {
 public:
  Type Of(const NodeEntry& e) const;
  void Set(const NodeEntry& e, Type t);
  /// Runs the op's rule; throws kTypeMismatch where the inputs do not fit.
  void Infer(NodePtr n);

  const NodePtr& node() const override { return node_; }
  int num_inputs() const override { return int(node_->num_inputs()); }
  int num_outputs() const override { return int(node_->num_outputs()); }
  bool has_input(int i) const override { return i < num_inputs() && node_->inputs[size_t(i)]; }
  Type in(int i) const override { return has_input(i) ? Of(node_->inputs[size_t(i)]) : Type(); }
  void set_out(int i, Type t) override { Set({node_, uint32_t(i)}, t); }
  void set_in(int i, Type t) override;

 private:
  NodePtr node_;
  std::unordered_map<EntryKey, Type> types_;
};

}  // namespace weft::onnx_import
