/// class_index.cc: weft::ClassMask and weft::ClassWeight: class labels as losses read them.
///
///   hot = weft::ClassMask(labels, depth)      true at the label, along a new axis of extent depth
///   w   = weft::ClassWeight(labels, weights)  weights[label]; a label outside them is an error
///
/// Both take `ignore_index`: such a label has no true element and weight 0, whatever its value.
/// Unlike indices of Gather and OneHot, labels do not count from the end. A mask is a comparison,
/// so that picking the label's score is a masked sum over the classes: it fuses with soft-max and
/// with its gradient, where a look-up would need the scores in memory.
#include "ops/util/onnx_body_util.h"
#include "ops/util/shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct ClassMaskParam : OpParam<ClassMaskParam> {
  int64_t axis, ignore_index;
  WEFT_OP_PARAM(ClassMaskParam) {
    WEFT_FIELD(axis).set_default(1).describe("of the classes in the result, in [-rank, rank)");
    WEFT_FIELD(ignore_index).set_default(0).describe("where given, the label of no class");
  }
};
struct ClassWeightParam : OpParam<ClassWeightParam> {
  int64_t ignore_index;
  WEFT_OP_PARAM(ClassWeightParam) {
    WEFT_FIELD(ignore_index).set_default(0).describe("where given, the label of weight 0");
  }
};
WEFT_REGISTER_OP_PARAM(ClassMaskParam);
WEFT_REGISTER_OP_PARAM(ClassWeightParam);

bool Ignores(const NodePtr& n) { return n->attrs.dict.find("ignore_index") != nullptr; }
template <class P>
Expr IsIgnored(const NodePtr& n, const Expr& label) {
  return Ignores(n) ? Eq(label, Expr::Int(ParamOf<P>(n).ignore_index)) : Expr::Bool(false);
}

// ---- ClassMask ----

void MaskType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kIndexTypes);
  CheckInputType(ctx, 1, kI64Only);
  ctx.set_out(0, DType::kBool);
}
void MaskShape(InferShapeContext& ctx) {
  const Shape& labels = ctx.in(0);
  if (!labels.has_rank()) return Unknown(ctx, 0, "the rank of the labels is unknown");
  const int axis = AxisOf(ParamOf<ClassMaskParam>(ctx.node()).axis, labels.rank() + 1, ctx.node());
  const SymTensorPtr depth = InputValue(ctx, 1);
  const bool known = depth && depth->elements.size() == 1 && depth->elements[0].known();
  std::vector<SymInt> dims = labels.dims();
  dims.insert(dims.begin() + axis, known ? depth->elements[0] : ctx.unbacked(0));
  ctx.set_out(0, Shape(std::move(dims)));
}
Exprs MaskCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const int axis = AxisOf(ParamOf<ClassMaskParam>(n).axis, in[0].rank() + 1, n);
  Indices where = at(0);
  where.erase(where.begin() + axis);
  const Expr label = Expr::Cast(DType::kI64, in[0](where));
  return {And(Eq(label, at(0)[size_t(axis)]), Not(IsIgnored<ClassMaskParam>(n, label)))};
}

std::string MaskBody(const OnnxBodyRequest& r) {
  const Shape& out = r.output_shapes[0];
  WEFT_CHECK(out.has_rank(), kUnsupported, "its form in ONNX's operators needs a known rank");
  const int axis = NormalizeAxis(r.node->attr<int64_t>("axis"), out.rank());
  std::vector<int64_t> column(size_t(out.rank()), 1);
  column[size_t(axis)] = -1;
  std::string text = IntConstant("zero", 0) + IntConstant("one", 1) + IntsConstant("axis", {axis}) +
                     IntsConstant("column", column) +
                     "labels = Cast<to = 7>(i0)\nspread = Unsqueeze(labels, axis)\n"
                     "depth = Squeeze(i1)\ncount = Range(zero, depth, one)\n"
                     "classes = Reshape(count, column)\n";
  if (!Ignores(r.node)) return text + "o0 = Equal(spread, classes)";
  return text + IntConstant("none", r.node->attr<int64_t>("ignore_index")) +
         "hit = Equal(spread, classes)\nignored = Equal(spread, none)\ncounts = Not(ignored)\n"
         "o0 = And(hit, counts)";
}

// ---- ClassWeight ----

void WeightType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kIndexTypes);
  CheckInputType(ctx, 1, kFloats);
  if (ctx.in(1).known()) ctx.set_out(0, ctx.in(1));
}
void WeightShape(InferShapeContext& ctx) {
  CheckRank(ctx, 1, 1, "weights");
  UnaryShape(ctx);
}
Exprs WeightCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const Expr label = Expr::Cast(DType::kI64, in[0](at(0)));
  return {ReadWhere(Not(IsIgnored<ClassWeightParam>(n, label)), in[1]({label}), Zero(in[1].dtype))};
}
/// dweights[c] = sum of dy over the labels c.
std::vector<NodeEntry> WeightGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  if (!dys[0]) return NoGradient(n, dys);
  const NodeEntry flat = IntsLike(dys[0], {-1}), first = IntsLike(dys[0], {0});
  const NodeEntry labels = ApplyOp("Reshape", {n->inputs[0], flat});
  const NodeEntry column =
      ApplyOp("Unsqueeze", {ApplyOp("Reshape", {dys[0], flat}), IntsLike(dys[0], {1})});
  AttrDict attrs = AttrsOf(n);
  const NodeEntry hot =
      ApplyOp("weft::ClassMask", {labels, ApplyOp("Size", {n->inputs[1]})}, std::move(attrs));
  return {NodeEntry(),
          ApplyOp("ReduceSum", {ApplyOp("Where", {hot, column, ScalarOf(dys[0], 0)}), first},
                  {{"keepdims", 0}})};
}
std::string WeightBody(const OnnxBodyRequest& r) {
  if (!Ignores(r.node)) return "o0 = Gather(i1, i0)";
  return IntConstant("none", r.node->attr<int64_t>("ignore_index")) +
         "labels = Cast<to = 7>(i0)\nignored = Equal(labels, none)\n" + IntConstant("zero", 0) +
         "inside = Where(ignored, zero, labels)\nw = Gather(i1, inside)\n"
         "nothing = CastLike(zero, i1)\no0 = Where(ignored, nothing, w)";
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, ClassMask)
    .describe(
        "labels with a new axis of size `depth`: true where the position along it is the label. A "
        "label outside [0, depth), and ignore_index, has none. Gradient: none. Errors: axis out of "
        "range (kBadAttribute). Source: Weft.")
    .input("labels", TypeDoc(kIndexTypes))
    .input("depth", "i64", "one element: the number of classes")
    .output("mask", "bool")
    .param<ClassMaskParam>()
    .example({"i64[4]", "i64[] = [3]"})
    .example({"i32[n, 2]", "i64[] = [5]"}, "axis = -1, ignore_index = -100")
    .set_attr<FInferType>("FInferType", MaskType)
    .set_attr<FInferShape>("FInferShape", MaskShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1})
    .set_attr<FCodeGen>("FCodeGen", MaskCode)
    .set_attr<FOnnxBody>("FOnnxBody", MaskBody)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP_IN(weft, ClassWeight)
    .describe(
        "weights[label] for every label; 0 for ignore_index. Gradient: dweights[c] = sum of dy "
        "over the labels c. Errors: a label outside [0, size of weights) that is not ignore_index "
        "(kIndexRange). Source: Weft.")
    .input("labels", TypeDoc(kIndexTypes, "Tind"), "in [0, size of weights), or ignore_index")
    .input("weights", TypeDoc(kFloats), "[classes]")
    .output("weight", "T", "the shape of labels")
    .param<ClassWeightParam>()
    .example({"i64[4]", "f32[3]"})
    .example({"i32[n, 2]", "f64[5]"}, "ignore_index = 1")
    .set_attr<FInferType>("FInferType", WeightType)
    .set_attr<FInferShape>("FInferShape", WeightShape)
    .set_attr<FCodeGen>("FCodeGen", WeightCode)
    .set_attr<FOnnxBody>("FOnnxBody", WeightBody)
    .set_attr<FGradient>("FGradient", WeightGrad)
    .set_attr<FInputDomains>("FInputDomains", [](const NodePtr&) -> std::vector<InputDomain> {
      InputDomain labels{InputDomain::kIndex};
      labels.of = 1;
      return {labels, InputDomain()};
    });

}  // namespace weft::ops
