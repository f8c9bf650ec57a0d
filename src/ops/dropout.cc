/// dropout.cc: Dropout as in inference: y = x, and a mask of ones.
///
///   in      x : T[...]; ratio : T1[], optional; training_mode : bool[], optional
///   out     y : T[...], mask : bool[...]
///   T       floats
///   grad    dx = dy
///   throws  kUnsupported at code generation and gradient when training_mode is true, or unknown
///
/// Inference is: training_mode absent or a constant false, or ratio a constant 0. Dropping at
/// random needs a seed that is an input of the graph, which this operator has not.
/// Source: ONNX Dropout-22.
#include "op_util.h"
#include "weft/support/check.h"

namespace weft::ops {

struct DropoutParam : OpParam<DropoutParam> {
  int64_t seed;
  WEFT_OP_PARAM(DropoutParam) {
    WEFT_FIELD(seed).set_default(0).describe("of the random generator; unused in inference");
  }
};
WEFT_REGISTER_OP_PARAM(DropoutParam);

namespace {

/// Input i is absent, or a constant that is 0 in its one element.
bool AbsentOrZero(const NodePtr& n, size_t i, bool absent) {
  if (n->inputs.size() <= i || !n->inputs[i]) return absent;
  const TensorPtr t = Graph::ConstantOf(n->inputs[i]);
  return t && t->num_elements() == 1 && t->at(0) == 0;
}
bool IsInference(const NodePtr& n) { return AbsentOrZero(n, 2, true) || AbsentOrZero(n, 1, false); }
void CheckInference(const NodePtr& n) {
  if (IsInference(n)) return;
  ThrowError(ErrorCode::kUnsupported,
             n->Describe() + ": training_mode must be absent or a constant false", "",
             "export the model for inference, or make training_mode a constant");
}

void DropoutType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kFloats | kFloat8);
  CheckInputType(ctx, 1, kFloats | kFloat8);
  CheckInputType(ctx, 2, kBoolOnly);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
  ctx.set_out(1, DType::kBool);
}
/// The general form: ratio and training_mode are not read.
Exprs DropoutCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  CheckInference(n);
  return {in.at(0)(at(0)), Expr::Bool(true)};
}
std::vector<NodeEntry> DropoutGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  std::vector<NodeEntry> grads = NoGradient(n, dy);
  if (!dy.at(0)) return grads;
  CheckInference(n);
  grads[0] = dy[0];
  return grads;
}

bool IsUsed(const Graph& g, const NodePtr& n, uint32_t index) {
  for (const Use& u : n->uses()) {
    if (!u.control && u.user->inputs[u.slot].index == index) return true;
  }
  for (const NodeEntry& o : g.outputs) {
    if (o == NodeEntry(n, index)) return true;
  }
  return false;
}
/// Dropout(x) = x, and its mask true everywhere.
std::vector<NodeEntry> SimplifyDropout(RewriteContext& ctx, const NodePtr& n) {
  if (!IsInference(n)) return {};
  const NodeEntry x = n->inputs[0];
  NodeEntry mask;
  if (IsUsed(ctx.graph(), n, 1))
    mask = Apply("Expand", {ScalarLike(x, DType::kBool, 1), Apply("Shape", {x})});
  return {x, mask};
}

}  // namespace

WEFT_REGISTER_OP(Dropout)
    .describe(
        "Inference: y = x, mask = true everywhere. Training is not supported. Gradient: dx = dy; "
        "retains nothing. "
        "Source: ONNX Dropout-22.")
    .set_num_inputs(1, 3)
    .set_num_outputs(2)
    .input("x", TypeDoc(kFloats | kFloat8))
    .optional_input("ratio", TypeDoc(kFloats | kFloat8, "T1"), "scalar; unused in inference")
    .optional_input("training_mode", "bool",
                    "scalar; must be absent or a constant false unless ratio is a constant 0")
    .output("y", "T", "the shape of x")
    .optional_output("mask", "bool", "the shape of x")
    .param<DropoutParam>()
    .include("ElementwiseUnary")
    .set_attr<FInferType>("FInferType", DropoutType)
    .set_attr<FCodeGen>("FCodeGen", DropoutCode)
    .set_attr<FGradient>("FGradient", DropoutGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyDropout)
    .example({"f32[2, n, 3]"})
    .example({"f64[]", "f64[] = [0.5]", "bool[] = [false]"});

}  // namespace weft::ops
