/// builtin_ops.cc: builders and accessors of the operators that gradients and passes build. The
/// operators themselves are registered in src/ops; here they are names.
#include "weft/core/graph/builtin_ops.h"

#include "make_node.h"
#include "store.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_param.h"
#include "weft/support/check.h"

namespace weft {

NodeEntry ApplyOp(const char* op, const std::vector<NodeEntry>& inputs, AttrDict attrs) {
  return MakeNode(op, std::string(), inputs, std::move(attrs));
}

// Gradients are made of these: each looks its operator up once.
NodeEntry operator+(const NodeEntry& a, const NodeEntry& b) {
  static const Op* const op = Op::Get("Add");
  return MakeNode(op, {a, b});
}
NodeEntry operator-(const NodeEntry& a, const NodeEntry& b) {
  static const Op* const op = Op::Get("Sub");
  return MakeNode(op, {a, b});
}
NodeEntry operator*(const NodeEntry& a, const NodeEntry& b) {
  static const Op* const op = Op::Get("Mul");
  return MakeNode(op, {a, b});
}
NodeEntry operator/(const NodeEntry& a, const NodeEntry& b) {
  static const Op* const op = Op::Get("Div");
  return MakeNode(op, {a, b});
}
NodeEntry operator-(const NodeEntry& a) {
  static const Op* const op = Op::Get("Neg");
  return MakeNode(op, {a});
}
NodeEntry SumTo(const NodeEntry& x, const NodeEntry& like) {
  static const Op* const op = Op::Get(builtin::kSumTo);
  return MakeNode(op, {x, like});
}

NodeEntry ConstantLike(const NodeEntry& near, TensorPtr value) {
  WEFT_CHECK(value != nullptr, kApiMisuse, "a constant needs a value");
  // A constant has no inputs to take its graph from, so it goes where `near` lives.
  GraphStore* store = near.node ? near.node->store() : AmbientStore().get();
  const Op* op = Op::Get(builtin::kConstant);
  Node* n = store->NewNode();
  n->attrs.op = op;
  n->attrs.dict["value"] = std::move(value);
  if (op->param_schema) n->attrs.param = op->param_schema->Parse(n->attrs.dict);
  return NodeEntry(n);
}
NodeEntry ScalarLike(const NodeEntry& near, DType dtype, double value) {
  return ConstantLike(near, Tensor::Scalar(dtype, value));
}
NodeEntry IntsLike(const NodeEntry& near, const std::vector<int64_t>& values) {
  return ConstantLike(near, Tensor::Ints(values));
}

NodeEntry ScalarOf(const NodeEntry& x, double value) {
  if (const TensorPtr t = Graph::ConstantOf(x)) return ScalarLike(x, t->dtype(), value);
  // f32 where it loses nothing: the cast that follows is then exact for every float dtype that can
  // hold the value.
  const DType t = double(float(value)) == value || value != value ? DType::kF32 : DType::kF64;
  return ApplyOp("CastLike", {ScalarLike(x, t, value), x});
}

GraphPtr FusedBody(const NodePtr& node) {
  WEFT_ICHECK(IsOp(node, builtin::kFused), "{} is not a fused node",
              node ? node->Describe() : "null");
  return node->attr<GraphPtr>("body");
}
bool IsOp(const NodePtr& node, std::string_view op) {
  return node && node->op() && node->op()->name == op;
}

}  // namespace weft
