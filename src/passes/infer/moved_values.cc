/// moved_values.cc: an operator that only moves elements is asked for its result at every constant
/// position. Expressions over constants fold, so that what it answers is the element itself:
///   Slice([[a, b], [c, 0]], starts = [-1], ends = [-9], axes = [0], steps = [-1]) at [0, 1]
///     ->  x[1, 1]  ->  0
/// Shape arithmetic of exporters goes through matrices so: pads are paired, reversed and flattened.
#include "moved_values.h"

#include <cmath>

#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/tensor/dtype.h"
#include "weft/support/error.h"

namespace weft {
namespace {

/// Elements of a result that are asked for, one expansion each.
constexpr int64_t kMaxMoved = 256;

/// Stands for an element that is not known.
Expr UnknownElement(DType t) { return Expr::Variable("unknown", t); }

Expr ElementExpr(DType t, SymInt e) {
  if (!e.known()) return UnknownElement(t);
  if (!e.is_const()) return Expr::Cast(t, Expr::Dim(e));
  return IsFloat(t) ? Expr::Const(t, double(e.value())) : Expr::ConstInt(t, e.value());
}

/// The element that ElementExpr has made `e` of.
SymInt ElementOf(const Expr& e) {
  switch (e->kind()) {
    case ExprKind::kDim:
      return e->dim();
    case ExprKind::kCast:
      return e->operand(0)->kind() == ExprKind::kDim ? e->operand(0)->dim() : SymInt();
    case ExprKind::kConst:
      if (IsFloat(e->dtype())) {
        const double v = e->const_value();
        const bool integer = v == std::trunc(v) && std::fabs(v) < 0x1p53;
        return integer && !(v == 0 && std::signbit(v)) ? SymInt(int64_t(v)) : SymInt();
      }
      // Beyond 63 bits.
      if (e->dtype() == DType::kU64 && e->const_int() < 0) return {};
      return e->const_int();
    default:
      return {};
  }
}

TensorArg ArgOf(InferShapeContext& ctx, int i, const SymTensorPtr& value) {
  TensorArg arg;
  arg.present = ctx.has_input(i);
  if (!arg.present) return arg;
  arg.shape = ctx.in(i);
  arg.dtype = ctx.in_type(i).dtype;
  arg.value = value.get();
  arg.read = [value, t = arg.dtype](const Indices& at) {
    if (!value || value->dims.size() != at.size()) return UnknownElement(t);
    int64_t offset = 0;
    for (size_t k = 0; k < at.size(); ++k) {
      if (at[k]->kind() != ExprKind::kConst) return UnknownElement(t);
      const int64_t i = at[k]->const_int();
      // Read under a condition that does not hold here.
      if (i < 0 || i >= value->dims[k]) return UnknownElement(t);
      offset = offset * value->dims[k] + i;
    }
    return ElementExpr(t, value->elements.at(size_t(offset)));
  };
  return arg;
}

}  // namespace

void FollowMovedElements(InferShapeContext& ctx, const Shape& out) {
  const DType t = ctx.out_type(0).dtype;
  if (ctx.num_outputs() != 1 || !out.is_static() || !IsComputable(t)) return;
  SymTensor moved;
  moved.dims = out.ints();
  int64_t count = 1;
  for (int64_t d : moved.dims)
    if (d > kMaxMoved || (count *= d) > kMaxMoved) return;
  std::vector<SymTensorPtr> values;
  bool any = false;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    values.push_back(ctx.in_value(i));
    if (!ctx.has_input(i)) continue;
    if (!ctx.in(i).fully_known() || !IsComputable(ctx.in_type(i).dtype)) return;
    any = any || (values.back() && ctx.in_type(i).dtype == t);
  }
  if (!any) return;
  std::vector<TensorArg> args;
  for (int i = 0; i < ctx.num_inputs(); ++i) args.push_back(ArgOf(ctx, i, values[size_t(i)]));
  any = count == 0;
  std::vector<int64_t> at(moved.dims.size(), 0);
  for (int64_t n = 0; n < count; ++n) {
    Indices position;
    for (int64_t i : at) position.push_back(Expr::Int(i));
    try {
      moved.elements.push_back(
          ElementOf(ExpandNode(ctx.node(), args, {{position}, {out}, {t}})[0]));
    } catch (const UserError&) {
      return;  // the operator has no code for these operands: axes that only a run tells
    }
    any = any || moved.elements.back().known();
    for (size_t k = at.size(); k-- > 0 && ++at[k] == moved.dims[k];) at[k] = 0;
  }
  if (any) ctx.set_out_value(0, std::move(moved));
}

}  // namespace weft
