/// adjoint.cc: adjoints as their operators' inference sees them (adjoint.h).
#include "adjoint.h"

namespace weft::ops {
namespace {

/// The node as if it were the operator: operands in its order, and the shape that it gives.
class AsOperator final : public InferShapeContext {
 public:
  AsOperator(InferShapeContext& adjoint, const std::vector<int>& operands, const Shape& sought)
      : adjoint_(adjoint), operands_(operands), sought_(sought) {}

  const NodePtr& node() const override { return adjoint_.node(); }
  int num_inputs() const override { return int(operands_.size()); }
  int num_outputs() const override { return 1; }
  bool has_input(int i) const override {
    return IsSought(i) || (Input(i) >= 0 && HasInput(adjoint_, Input(i)));
  }
  const Shape& in(int i) const override {
    static const Shape kUnknown;
    return IsSought(i) ? sought_ : has_input(i) ? adjoint_.in(Input(i)) : kUnknown;
  }
  Type in_type(int i) const override {
    return IsSought(i) ? adjoint_.out_type(0) : has_input(i) ? adjoint_.in_type(Input(i)) : Type();
  }
  Type out_type(int) const override { return adjoint_.in_type(0); }
  SymTensorPtr in_value(int i) override {
    return has_input(i) && !IsSought(i) ? adjoint_.in_value(Input(i)) : nullptr;
  }
  TensorPtr in_constant(int i) override {
    return has_input(i) && !IsSought(i) ? adjoint_.in_constant(Input(i)) : nullptr;
  }
  void set_out(int i, Shape s) override {
    if (i == 0) result_ = std::move(s);
  }
  void set_out_value(int, SymTensor) override {}
  Facts& facts() override { return adjoint_.facts(); }
  /// What the operator would learn from values, dy shows.
  SymInt unbacked(int) override { return SymInt(); }
  void explain(int, std::string) override {}

  const Shape& result() const { return result_; }

 private:
  bool IsSought(int i) const { return i < num_inputs() && operands_[size_t(i)] == kSought; }
  int Input(int i) const { return i < num_inputs() ? operands_[size_t(i)] : kAbsent; }

  InferShapeContext& adjoint_;
  const std::vector<int>& operands_;
  const Shape sought_;
  Shape result_;
};

}  // namespace

FInferShape AdjointShape(FInferShape forward, int shape, std::vector<int> operands, int results) {
  return [=](InferShapeContext& ctx) {
    const Shape sought = ShapeFromInput(ctx, shape);
    if (sought.has_rank()) ctx.set_out(0, sought);
    AsOperator op(ctx, operands, sought);
    forward(op);
    for (int i = 0; i < results; ++i) DemandShape(ctx, i, op.result());
  };
}

void AdjointType(InferTypeContext& ctx) {
  const Type t = CommonInputType(ctx, kFloats, 0, 2);
  CheckInputType(ctx, 2, kI64Only);
  if (t.known()) ctx.set_out(0, t);
}

}  // namespace weft::ops
