/// shape_tracker.h: shapes of the entries of a graph under construction, inferred where they are
/// asked for, with what they depend on. Lifts need them where the form of an operator follows from
/// the rank of an operand, and ONNX where the body of a function does.
///
/// What the rules of operators demand of extents is left to the pass InferShape, and so are errors:
/// a shape that cannot be inferred is unknown here.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "type_tracker.h"
#include "weft/core/op/op_attr_types.h"

namespace weft::onnx_import {

class ShapeTracker final : public InferShapeContext {
 public:
  explicit ShapeTracker(const TypeTracker* types) : types_(*types) {}
  /// Linear in what has not been inferred yet.
  const Shape& Of(const NodeEntry& e);
  /// Of a variable that stands for a value of another graph.
  void Know(NodePtr variable, Shape shape);

  const NodePtr& node() const override { return node_; }
  int num_inputs() const override { return int(node_->num_inputs()); }
  int num_outputs() const override { return int(node_->num_outputs()); }
  bool has_input(int i) const override { return i < num_inputs() && node_->inputs[size_t(i)]; }
  const Shape& in(int i) const override;
  Type in_type(int i) const override;
  Type out_type(int i) const override { return types_.Of({node_, uint32_t(i)}); }
  SymTensorPtr in_value(int i) override;
  TensorPtr in_constant(int i) override;
  void set_out(int i, Shape s) override { shapes_[Key(i)] = std::move(s); }
  void set_out_value(int i, SymTensor v) override;
  Facts& facts() override { return facts_; }
  SymInt unbacked(int) override { return SymInt::Unbacked(next_unbacked_++); }
  void explain(int, std::string) override {}

 private:
  EntryKey Key(int output) const { return NodeEntry(node_, uint32_t(output)).key(); }
  void Infer(NodePtr n);

  const TypeTracker& types_;
  NodePtr node_;
  Facts facts_;
  int64_t next_unbacked_ = 0;
  std::unordered_map<EntryKey, Shape> shapes_;
  std::unordered_map<EntryKey, SymTensorPtr> values_;
  std::unordered_set<NodeId> done_;
};

}  // namespace weft::onnx_import
