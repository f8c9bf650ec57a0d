/// ops.cc: functions on tensors, each one node or a few.
#include "tinyflow/ops.h"

#include "tinyflow/engine.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/support/check.h"

namespace tf {
namespace {

/// (training, inference): stands for its first operand until engine.cc has chosen.
WEFT_REGISTER_OP_IN(tinyflow, WhenTraining)
    .describe("The first operand when training, the second in inference; compiled away.")
    .set_num_inputs(2)
    .set_attr<weft::FInferType>("FInferType",
                                [](weft::InferTypeContext& c) { c.set_out(0, c.in(0)); })
    .set_attr<weft::FInferShape>("FInferShape",
                                 [](weft::InferShapeContext& c) { c.set_out(0, c.in(0)); })
    .set_attr<weft::FGradient>("FGradient",
                               [](const weft::NodePtr&, const std::vector<weft::NodeEntry>& dy)
                                   -> std::vector<weft::NodeEntry> {
                                 return {dy[0], weft::NodeEntry()};
                               })
    .set_attr<weft::FCodeGen>("FCodeGen",
                              [](const weft::NodePtr&, const weft::Exprs& in) -> weft::Exprs {
                                return {in[0]};
                              });

/// A number as an operand beside `like`.
Tensor Number(double value, const Tensor& like) {
  WEFT_CHECK(like, kApiMisuse, "an operand is null");
  const GraphScope scope(like.graph());
  return constant(value, like.dtype());
}
bool Compares(const std::string& op) {
  return op == "Greater" || op == "Less" || op == "GreaterOrEqual" || op == "LessOrEqual" ||
         op == "Equal";
}
Tensor Binary(const std::string& op, const Tensor& a, const Tensor& b) {
  WEFT_CHECK(a && b, kApiMisuse, "{}: an operand is null", op);
  WEFT_CHECK(a.dtype() == b.dtype(), kTypeMismatch,
             "{}: operands of dtypes {} and {}; cast one of them", op, weft::DTypeName(a.dtype()),
             weft::DTypeName(b.dtype()));
  return make_node(op, {a, b}, {}, Compares(op) ? boolean : a.dtype());
}
Tensor IntsOperand(const Ints& values, const Tensor& near) {
  return Tensor(near.graph(), weft::IntsLike(near.entry(), values), int64);
}
Tensor Reduce(const char* op, const Tensor& x, const Ints& axes, bool keep_dims) {
  std::vector<Tensor> operands{x};
  if (!axes.empty()) operands.push_back(IntsOperand(axes, x));
  return make_node(op, operands, {{"keepdims", int(keep_dims)}});
}
Tensor Filled(const Ints& shape, double value, DType dtype) {
  const Tensor v = constant(value, dtype);
  return make_node("Expand", {v, IntsOperand(shape, v)});
}

}  // namespace

#define TF_BINARY(name, op)                                                      \
  Tensor name(const Tensor& a, const Tensor& b) { return Binary(op, a, b); }     \
  Tensor name(const Tensor& a, double b) { return Binary(op, a, Number(b, a)); } \
  Tensor name(double a, const Tensor& b) { return Binary(op, Number(a, b), b); }
TF_BINARY(operator+, "Add")
TF_BINARY(operator-, "Sub")
TF_BINARY(operator*, "Mul")
TF_BINARY(operator/, "Div")
TF_BINARY(operator>, "Greater")
TF_BINARY(operator<, "Less")
TF_BINARY(operator>=, "GreaterOrEqual")
TF_BINARY(operator<=, "LessOrEqual")
TF_BINARY(pow, "Pow")
TF_BINARY(equal, "Equal")
TF_BINARY(maximum, "Max")
TF_BINARY(minimum, "Min")
TF_BINARY(modulo, "Mod")
#undef TF_BINARY

Tensor operator-(const Tensor& a) { return make_node("Neg", {a}); }
Tensor exp(const Tensor& x) { return make_node("Exp", {x}); }
Tensor log(const Tensor& x) { return make_node("Log", {x}); }
Tensor sqrt(const Tensor& x) { return make_node("Sqrt", {x}); }
Tensor abs(const Tensor& x) { return make_node("Abs", {x}); }
Tensor square(const Tensor& x) { return x * x; }
Tensor sin(const Tensor& x) { return make_node("Sin", {x}); }
Tensor cos(const Tensor& x) { return make_node("Cos", {x}); }
Tensor sign(const Tensor& x) { return make_node("Sign", {x}); }
Tensor cast(const Tensor& x, DType to) { return make_node("Cast", {x}, {{"to", to}}, to); }
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return make_node("Where", {condition, a, b}, {}, a.dtype());
}

Tensor one_hot(const Tensor& classes, int64_t depth, DType dtype) {
  const GraphScope scope(classes.graph());
  const Tensor off_on = constant(weft::Tensor::FromDoubles(dtype, {2}, {0, 1}));
  return make_node("OneHot", {classes, constant(double(depth), int64), off_on}, {}, dtype);
}

Tensor constant(const Array& value, const std::string& name) {
  return make_node("Constant", {}, {{"value", value}}, value->dtype(), name);
}
Tensor constant(double value, DType dtype) { return constant(weft::Tensor::Scalar(dtype, value)); }
Tensor zeros(const Ints& shape, DType dtype) { return Filled(shape, 0, dtype); }
Tensor ones(const Ints& shape, DType dtype) { return Filled(shape, 1, dtype); }
Tensor zeros_like(const Tensor& x) {
  return make_node("Expand", {Number(0, x), make_node("Shape", {x}, {}, int64)});
}
Tensor ones_like(const Tensor& x) {
  return make_node("Expand", {Number(1, x), make_node("Shape", {x}, {}, int64)});
}

Tensor matmul(const Tensor& a, const Tensor& b) { return make_node("MatMul", {a, b}); }
Tensor transpose(const Tensor& x, const Ints& perm) {
  return make_node("Transpose", {x}, {{"perm", weft::Ints(perm)}});
}
Tensor reshape(const Tensor& x, const Ints& shape) {
  return make_node("Reshape", {x, IntsOperand(shape, x)});
}
Tensor concat(const std::vector<Tensor>& parts, int64_t axis) {
  return make_node("Concat", parts, {{"axis", axis}});
}
Tensor pad(const Tensor& x, const Ints& begin_and_end, double value) {
  return make_node("Pad", {x, IntsOperand(begin_and_end, x), Number(value, x)});
}
Tensor reduce_sum(const Tensor& x, const Ints& axes, bool keep_dims) {
  return Reduce("ReduceSum", x, axes, keep_dims);
}
Tensor reduce_mean(const Tensor& x, const Ints& axes, bool keep_dims) {
  return Reduce("ReduceMean", x, axes, keep_dims);
}
Tensor reduce_max(const Tensor& x, const Ints& axes, bool keep_dims) {
  return Reduce("ReduceMax", x, axes, keep_dims);
}
Tensor argmax(const Tensor& x, int64_t axis) {
  return make_node("ArgMax", {x}, {{"axis", axis}, {"keepdims", 0}}, int64);
}

Tensor assign(const Tensor& variable, const Tensor& value) {
  WEFT_CHECK(
      variable && variable.entry().node->is_variable() && variable.entry().node->has_attr("state"),
      kApiMisuse, "assign: the first operand is not a variable");
  WEFT_CHECK(value && value.dtype() == variable.dtype(), kTypeMismatch,
             "assign to '{}': the value has another dtype", variable.name());
  WEFT_CHECK(value.graph() == variable.graph(), kApiMisuse,
             "assign to '{}' in the body of a loop; make it a state of the loop, and assign that",
             variable.name());
  return make_node(weft::builtin::kAssign, {variable, value});
}
Tensor group(const std::vector<Tensor>& tensors) {
  WEFT_CHECK(!tensors.empty(), kApiMisuse, "group of nothing");
  return make_node("weft::Group", tensors, {}, boolean, "group");
}

std::vector<Tensor> gradients(const Tensor& y, const std::vector<Tensor>& xs) {
  WEFT_CHECK(y && weft::IsFloat(y.dtype()), kTypeMismatch,
             "gradients: y must be a tensor of floats");
  engine::Entries entries;
  for (const Tensor& x : xs) {
    WEFT_CHECK(x && x.graph() == y.graph(), kApiMisuse, "gradients: an x is not of y's graph");
    WEFT_CHECK(weft::IsFloat(x.dtype()), kTypeMismatch,
               "gradients: '{}' has dtype {}, which has no gradient", x.name(),
               weft::DTypeName(x.dtype()));
    entries.push_back(x.entry());
  }
  const engine::Entries found = engine::Gradients(y.graph()->graph, {y.entry()}, entries);
  std::vector<Tensor> result;
  for (size_t i = 0; i < xs.size(); ++i) result.emplace_back(y.graph(), found[i], xs[i].dtype());
  return result;
}

Tensor when_training(const Tensor& training, const Tensor& inference) {
  return make_node("tinyflow::WhenTraining", {training, inference});
}
void add_update(const Tensor& update) {
  WEFT_CHECK(!default_graph()->outer, kApiMisuse,
             "a layer with running statistics, or another update, in the body of a loop");
  default_graph()->updates.push_back(update);
}

}  // namespace tf
