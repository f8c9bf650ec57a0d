/// over_steps.cc: see over_steps.h.
#include "over_steps.h"

#include <algorithm>

#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"

namespace weft {
namespace {

using IsStacked = std::function<bool(const NodeEntry&)>;

/// Element-wise: operands are aligned from the last axis, so a slice needs all axes of the result.
bool CanApply(const NodePtr& n, const ShapeMap& shapes, const IsStacked& is_stacked) {
  static const auto& code = Op::GetAttr<FCodeGen>("FCodeGen");
  const FCodeGen* f = code.find(n->op());
  const int rank = shapes[NodeEntry(n)].rank();
  return f && f->elementwise &&
         std::all_of(n->inputs.begin(), n->inputs.end(), [&](const NodeEntry& e) {
           const int own = shapes[e].rank();
           return is_stacked(e) ? own == rank : own <= rank;
         });
}

/// Rows of a slice by an invariant matrix, or the other way round.
bool CanMultiply(const NodePtr& n, const ShapeMap& shapes, const IsStacked& is_stacked) {
  const bool left = is_stacked(n->inputs[0]), right = is_stacked(n->inputs[1]);
  const int rows = shapes[n->inputs[0]].rank(), columns = shapes[n->inputs[1]].rank();
  if (IsOp(n, "MatMul")) return left != right && (left ? columns == 2 : rows == 2 && columns == 2);
  if (!left || right || n->attr<int64_t>("transA") || n->attr<double>("alpha") != 1) return false;
  if (n->num_inputs() < 3) return true;
  const Shape& c = shapes[n->inputs[2]];
  return n->attr<double>("beta") == 1 && !is_stacked(n->inputs[2]) && (c.rank() < 2 || c[0].is(1));
}

}  // namespace

bool IsMatrixProduct(const NodePtr& n) { return IsOp(n, "MatMul") || IsOp(n, "Gemm"); }

bool CanRunOverSteps(const NodePtr& n, const ShapeMap& shapes, const IsStacked& is_stacked) {
  const auto has_rank = [&](const NodeEntry& e) { return e.node && shapes[e].has_rank(); };
  if (n->num_outputs() != 1 || !shapes[NodeEntry(n)].has_rank() ||
      !std::all_of(n->inputs.begin(), n->inputs.end(), has_rank) ||
      std::none_of(n->inputs.begin(), n->inputs.end(), is_stacked))
    return false;
  return IsMatrixProduct(n) ? CanMultiply(n, shapes, is_stacked) : CanApply(n, shapes, is_stacked);
}

NodeEntry RunOverSteps(Graph& g, const NodePtr& n, const std::vector<NodeEntry>& operands) {
  if (!IsOp(n, "Gemm")) return NodeEntry(g.AddCopy(n, operands));
  const NodeEntry b = n->attr<int64_t>("transB")
                          ? NodeEntry(g.AddNode("Transpose", {operands[1]}, {{"perm", Ints{1, 0}}}))
                          : operands[1];
  const NodeEntry y(g.AddNode("MatMul", {operands[0], b}));
  return operands.size() > 2 ? NodeEntry(g.AddNode("Add", {y, operands[2]})) : y;
}

}  // namespace weft
