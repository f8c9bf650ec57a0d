/// op_codegen.cc: the meaning of one node: broadcasting around element-wise ops, checks of what an
/// FCodeGen returns.
#include "weft/codegen/expr/op_codegen.h"

#include "weft/core/op/op.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// Position in an operand of an element-wise op, right-aligned to the output's position.
Indices OperandIndex(const TensorArg& arg, const Indices& at, const Shape& out,
                     const NodePtr& node) {
  const int rank = arg.rank(), lead = out.rank() - rank;
  WEFT_ICHECK(lead >= 0, "{}: operand of rank {} broadcast to rank {}", node->Describe(), rank,
              out.rank());
  Indices index;
  for (int i = 0; i < rank; ++i)
    index.push_back(BroadcastIndex(arg.shape[i], out[lead + i], at[lead + i]));
  return index;
}

Exprs ExpandElementwise(const FCodeGen& code, const NodePtr& node,
                        const std::vector<TensorArg>& inputs, const OutputAt& at) {
  const size_t outputs = at.index.size();
  Exprs results(outputs);
  for (size_t k = 0; k < outputs; ++k) {
    if (results[k]) continue;
    Exprs scalars;
    for (const TensorArg& arg : inputs)
      scalars.push_back(arg.present ? arg(OperandIndex(arg, at.index[k], at.shape[k], node))
                                    : Expr());
    const Exprs values = code.elementwise(node, scalars);
    WEFT_ICHECK(values.size() == outputs, "{}: FCodeGen gave {} expressions for {} outputs",
                node->Describe(), values.size(), outputs);
    // Outputs asked for at one position share one call.
    for (size_t j = k; j < outputs; ++j) {
      if (!results[j] && at.index[j] == at.index[k]) results[j] = values[j];
    }
  }
  return results;
}

}  // namespace

Exprs ExpandNode(const NodePtr& node, const std::vector<TensorArg>& inputs, const OutputAt& at) {
  static const OpMap<FCodeGen>& codes = Op::GetAttr<FCodeGen>("FCodeGen");
  const FCodeGen& code = codes[node->op()];
  Exprs results =
      code.elementwise ? ExpandElementwise(code, node, inputs, at) : code.general(node, inputs, at);
  WEFT_ICHECK(results.size() == at.index.size(), "{}: FCodeGen gave {} expressions for {} outputs",
              node->Describe(), results.size(), at.index.size());
  for (size_t k = 0; k < results.size(); ++k) {
    Expr& e = results[k];
    WEFT_ICHECK(bool(e), "{}: FCodeGen gave no expression for output {}", node->Describe(), k);
    const DType value = ValueTypeOf(at.dtype[k]);
    if (e->is_literal()) e = Expr::Cast(value, e);
    WEFT_ICHECK(e->dtype() == value, "{}: FCodeGen gave {} for output {} of type {}",
                node->Describe(), DTypeName(e->dtype()), k, DTypeName(at.dtype[k]));
  }
  return results;
}

Expr BroadcastIndex(SymInt from, SymInt to, const Expr& i) {
  if (from.is(1) || to.is(1)) return Expr::Int(0);
  if (from == to || from.is_const()) return i;
  return Expr::Select(Eq(Expr::Dim(from), Expr::Int(1)), Expr::Int(0), i);
}

Expr Linearize(const Indices& at, const std::vector<SymInt>& dims) {
  WEFT_ICHECK(at.size() == dims.size(), "{} indices for rank {}", at.size(), dims.size());
  Expr offset = Expr::Int(0);
  SymInt stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (!dims[i].is(1)) offset = at[i] * Expr::Dim(stride) + offset;
    stride = stride * dims[i];
  }
  return offset;
}

Indices Delinearize(const Expr& offset, const std::vector<SymInt>& dims) {
  Indices at(dims.size());
  SymInt stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i].is(1)) {
      at[i] = Expr::Int(0);
      continue;
    }
    const Expr quotient = Expr::Binary(BinOp::kFloorDiv, offset, Expr::Dim(stride));
    bool outermost = true;
    for (size_t j = 0; j < i; ++j) outermost &= dims[j].is(1);
    at[i] = outermost ? quotient : Expr::Binary(BinOp::kFloorMod, quotient, Expr::Dim(dims[i]));
    stride = stride * dims[i];
  }
  return at;
}

}  // namespace weft
