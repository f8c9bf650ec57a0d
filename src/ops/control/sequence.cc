/// sequence.cc: SequenceConstruct, SequenceEmpty, SequenceAt, SequenceInsert, SequenceErase,
/// SequenceLength, SplitToSequence, ConcatFromSequence; Optional, OptionalGetElement,
/// OptionalHasElement.
///
/// Sequences and optionals are values of the host (Tensor::List): they stand between regions.
/// Those whose making is seen at compile time disappear: what reads an element reads the operand
/// that it came from.
///   throws  kTypeMismatch for a tensor in the place of a sequence, kIndexRange for a position
///           outside of it, kBadInput for an element that is not there, kShapeMismatch
///   grad    none, nor has ONNX Runtime
#include <climits>

#include "ops/util/host_util.h"

namespace weft::ops {
namespace {

struct SequenceEmptyParam : OpParam<SequenceEmptyParam> {
  DTypeField dtype;
  WEFT_OP_PARAM(SequenceEmptyParam) {
    WEFT_FIELD(dtype).set_default({DType::kF32}).describe("dtype of the tensors to come");
  }
};
WEFT_REGISTER_OP_PARAM(SequenceEmptyParam);

struct SplitToSequenceParam : OpParam<SplitToSequenceParam> {
  int64_t axis, keepdims;
  WEFT_OP_PARAM(SplitToSequenceParam) {
    WEFT_FIELD(axis).set_default(0).describe("axis that is split, in [-rank, rank)");
    WEFT_FIELD(keepdims).set_default(1).set_range(0, 1).describe(
        "0: without the split axis, where `split` is absent");
  }
};
WEFT_REGISTER_OP_PARAM(SplitToSequenceParam);

struct ConcatFromSequenceParam : OpParam<ConcatFromSequenceParam> {
  int64_t axis, new_axis;
  WEFT_OP_PARAM(ConcatFromSequenceParam) {
    WEFT_FIELD(axis).describe("axis of the result, in [-rank, rank)");
    WEFT_FIELD(new_axis).set_default(0).set_range(0, 1).describe("1: the tensors are stacked");
  }
};
WEFT_REGISTER_OP_PARAM(ConcatFromSequenceParam);

struct OptionalParam : OpParam<OptionalParam> {
  std::string type;
  WEFT_OP_PARAM(OptionalParam) {
    WEFT_FIELD(type).set_default("").describe(
        "what it would hold, \"f32\" or \"seq(f32)\", where x is absent");
  }
};
WEFT_REGISTER_OP_PARAM(OptionalParam);

// ---- types and shapes ----

/// The type of input i, a sequence where it is known.
Type SequenceIn(InferTypeContext& ctx, int i) {
  const Type t = ctx.in(i);
  WEFT_CHECK(!t.known() || t.is_sequence(), kTypeMismatch, "{}: expected a sequence, got {}",
             ctx.node()->Describe(), t.ToString());
  return t;
}
/// Input i is a tensor of the dtype of the sequence's.
void CheckElement(InferTypeContext& ctx, int i, Type sequence) {
  CheckInputType(ctx, i, kAllTypes);
  const Type t = ctx.in(i);
  WEFT_CHECK(!t.known() || !sequence.known() || t == sequence.element(), kTypeMismatch,
             "{}: an element of dtype {} for a {}", ctx.node()->Describe(), t.ToString(),
             sequence.ToString());
}
Type SequenceOf(Type t) { return Type(TypeKind::kSequence, t.dtype); }

void ConstructType(InferTypeContext& ctx) {
  if (const Type t = CommonInputType(ctx, kAllTypes); t.known()) ctx.set_out(0, SequenceOf(t));
}
void EmptyType(InferTypeContext& ctx) {
  ctx.set_out(0, SequenceOf(ParamOf<SequenceEmptyParam>(ctx.node()).dtype.dtype));
}
void AtType(InferTypeContext& ctx) {
  CheckInputType(ctx, 1, kIndexTypes);
  if (const Type t = SequenceIn(ctx, 0); t.known()) ctx.set_out(0, t.element());
}
void InsertType(InferTypeContext& ctx) {
  const Type t = SequenceIn(ctx, 0);
  CheckElement(ctx, 1, t);
  CheckInputType(ctx, 2, kIndexTypes);
  if (t.known()) return ctx.set_out(0, t);
  if (ctx.in(1).known()) ctx.set_out(0, SequenceOf(ctx.in(1)));
}
void EraseType(InferTypeContext& ctx) {
  CheckInputType(ctx, 1, kIndexTypes);
  if (const Type t = SequenceIn(ctx, 0); t.known()) ctx.set_out(0, t);
}
void LengthType(InferTypeContext& ctx) {
  SequenceIn(ctx, 0);
  ctx.set_out(0, DType::kI64);
}
void SplitType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kAllTypes);
  CheckInputType(ctx, 1, kIndexTypes);
  if (ctx.in(0).known()) ctx.set_out(0, SequenceOf(ctx.in(0)));
}
void JoinType(InferTypeContext& ctx) {
  if (const Type t = SequenceIn(ctx, 0); t.known()) ctx.set_out(0, t.element());
}
/// An optional of `t`.
Type OptionalOf(Type t) {
  return Type(t.is_sequence() ? TypeKind::kOptionalSequence : TypeKind::kOptional, t.dtype);
}
void OptionalType(InferTypeContext& ctx) {
  const bool given = ctx.num_inputs() > 0 && ctx.has_input(0);
  const Type t = given ? ctx.in(0) : ParseType(ParamOf<OptionalParam>(ctx.node()).type);
  WEFT_CHECK(given || t.known(), kBadAttribute, "{}: neither a value nor a type is given",
             ctx.node()->Describe());
  WEFT_CHECK(t.is_tensor() || t.is_sequence(), kTypeMismatch, "{}: an optional of {}",
             ctx.node()->Describe(), t.ToString());
  if (t.known()) ctx.set_out(0, OptionalOf(t));
}
void GetElementType(InferTypeContext& ctx) {
  const Type t = ctx.in(0);
  if (t.known()) ctx.set_out(0, t.is_optional() ? t.element() : t);
}
void HasElementType(InferTypeContext& ctx) { ctx.set_out(0, DType::kBool); }

/// A list has no shape, and that of what it holds is known when it runs.
void HeldShape(InferShapeContext& ctx) {
  if (ctx.in_type(0).is_tensor() && ctx.in_type(0).known()) return ctx.set_out(0, ctx.in(0));
  Unknown(ctx, 0, "a sequence or an optional holds it");
}
void NoShape(InferShapeContext&) {}
void ScalarShape(InferShapeContext& ctx) { ctx.set_out(0, Shape::Scalar()); }

// ---- on the host ----

/// The position that operand i says, counted from the end where negative, in [0, end).
int64_t PositionOf(const NodePtr& n, const Tensor& t, int64_t size, int64_t end) {
  WEFT_CHECK(t.num_elements() == 1, kShapeMismatch, "{}: a position of {} elements", n->Describe(),
             t.num_elements());
  const int64_t given = t.at_int(0), at = given < 0 ? given + size : given;
  WEFT_CHECK(at >= 0 && at < end, kIndexRange, "{}: position {} in a sequence of {}", n->Describe(),
             given, size);
  return at;
}

Tensors ConstructHost(const NodePtr&, const Tensors& in) {
  return {Tensor::List(SequenceOf(in.at(0)->type()), in)};
}
Tensors EmptyHost(const NodePtr& n, const Tensors&) {
  return {Tensor::List(SequenceOf(ParamOf<SequenceEmptyParam>(n).dtype.dtype), {})};
}
Tensors AtHost(const NodePtr& n, const Tensors& in) {
  const auto& all = in.at(0)->elements();
  const int64_t size = int64_t(all.size());
  return {all[size_t(PositionOf(n, *in.at(1), size, size))]};
}
Tensors InsertHost(const NodePtr& n, const Tensors& in) {
  Tensors all = in.at(0)->elements();
  const int64_t size = int64_t(all.size());
  const TensorPtr at = InputAt(in, 2);
  all.insert(all.begin() + (at ? PositionOf(n, *at, size, size + 1) : size), in.at(1));
  return {Tensor::List(in[0]->type(), std::move(all))};
}
Tensors EraseHost(const NodePtr& n, const Tensors& in) {
  Tensors all = in.at(0)->elements();
  const int64_t size = int64_t(all.size());
  const TensorPtr at = InputAt(in, 1);
  WEFT_CHECK(size > 0, kIndexRange, "{}: the sequence is empty", n->Describe());
  all.erase(all.begin() + (at ? PositionOf(n, *at, size, size) : size - 1));
  return {Tensor::List(in[0]->type(), std::move(all))};
}
Tensors LengthHost(const NodePtr&, const Tensors& in) {
  return {Tensor::Scalar(DType::kI64, double(in.at(0)->elements().size()))};
}

/// Extents along the split axis of the parts of an axis of extent `size`.
Dims PartsOf(const NodePtr& n, const TensorPtr& split, int64_t size) {
  Dims parts;
  if (split && split->rank() > 0) {
    int64_t sum = 0;
    for (int64_t i = 0; i < split->num_elements(); ++i) {
      parts.push_back(split->at_int(i));
      WEFT_CHECK(parts.back() >= 0 && parts.back() <= size - sum, kShapeMismatch,
                 "{}: parts do not add up to the size {}", n->Describe(), size);
      sum += parts.back();
    }
    WEFT_CHECK(sum == size, kShapeMismatch, "{}: parts add up to {} of the size {}", n->Describe(),
               sum, size);
    return parts;
  }
  const int64_t each = split ? split->at_int(0) : 1;
  WEFT_CHECK(each > 0, kBadInput, "{}: parts of size {}", n->Describe(), each);
  for (int64_t at = 0; at < size; at += each) parts.push_back(std::min(each, size - at));
  return parts;
}
Tensors SplitHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<SplitToSequenceParam>(n);
  const Tensor& x = *in.at(0);
  const TensorPtr split = InputAt(in, 1);
  const size_t axis = size_t(AxisOf(p.axis, x.rank(), n));
  const int64_t size = x.dims()[axis], outer = Span(x.dims(), 0, axis),
                inner = Span(x.dims(), axis + 1, x.dims().size());
  Tensors parts;
  int64_t begin = 0;
  for (const int64_t extent : PartsOf(n, split, size)) {
    Dims dims = x.dims();
    dims[axis] = extent;
    if (!split && !p.keepdims) dims.erase(dims.begin() + long(axis));
    auto part = NewTensor(x.dtype(), dims);
    for (int64_t o = 0; o < outer; ++o)
      CopyElements(x, (o * size + begin) * inner, part.get(), o * extent * inner, extent * inner);
    parts.push_back(std::move(part));
    begin += extent;
  }
  return {Tensor::List(SequenceOf(x.dtype()), std::move(parts))};
}

Tensors JoinHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<ConcatFromSequenceParam>(n);
  const Tensors& parts = in.at(0)->elements();
  WEFT_CHECK(!parts.empty(), kBadInput, "{}: the sequence is empty", n->Describe());
  const int rank = parts[0]->rank() + (p.new_axis ? 1 : 0);
  WEFT_CHECK(rank > 0, kShapeMismatch, "{}: scalars have no axis to be joined along",
             n->Describe());
  const size_t axis = size_t(AxisOf(p.axis, rank, n));
  const auto dims_of = [&](const Tensor& t) {
    Dims dims = t.dims();
    if (p.new_axis) dims.insert(dims.begin() + long(axis), 1);
    return dims;
  };
  Dims all = dims_of(*parts[0]);
  int64_t size = 0;
  for (const TensorPtr& t : parts) {
    WEFT_CHECK(t->rank() == parts[0]->rank(), kShapeMismatch, "{}: tensors of shapes {} and {}",
               n->Describe(), parts[0]->shape().ToString(), t->shape().ToString());
    Dims dims = dims_of(*t);
    size += dims[axis];
    dims[axis] = all[axis];
    WEFT_CHECK(dims == all, kShapeMismatch, "{}: tensors of shapes {} and {}", n->Describe(),
               parts[0]->shape().ToString(), t->shape().ToString());
  }
  all[axis] = size;
  auto y = NewTensor(parts[0]->dtype(), all);
  const int64_t outer = Span(all, 0, axis), inner = Span(all, axis + 1, all.size());
  int64_t begin = 0;
  for (const TensorPtr& t : parts) {
    const int64_t extent = dims_of(*t)[axis];
    for (int64_t o = 0; o < outer; ++o)
      CopyElements(*t, o * extent * inner, y.get(), (o * size + begin) * inner, extent * inner);
    begin += extent;
  }
  return {y};
}

Tensors OptionalHost(const NodePtr& n, const Tensors& in) {
  const TensorPtr x = InputAt(in, 0);
  if (!x) return {Tensor::List(OptionalOf(ParseType(ParamOf<OptionalParam>(n).type)), {})};
  return {Tensor::List(OptionalOf(x->type()), {x})};
}
Tensors GetElementHost(const NodePtr& n, const Tensors& in) {
  if (!in.at(0)->type().is_optional()) return {in[0]};
  WEFT_CHECK(!in[0]->elements().empty(), kBadInput, "{}: the optional is empty", n->Describe());
  return {in[0]->elements()[0]};
}
Tensors HasElementHost(const NodePtr&, const Tensors& in) {
  const TensorPtr x = InputAt(in, 0);
  const bool has = x && (!x->type().is_optional() || !x->elements().empty());
  return {Tensor::Scalar(DType::kBool, has)};
}

// ---- rewrites ----

/// The number in a constant of one element.
std::optional<int64_t> NumberIn(const NodeEntry& e) {
  const TensorPtr t = e.node ? Graph::ConstantOf(e) : nullptr;
  if (!t || t->num_elements() != 1 || !IsInt(t->dtype())) return std::nullopt;
  return t->at_int(0);
}
/// SequenceAt(SequenceConstruct(x0, x1 ...), i) = xi.
std::vector<NodeEntry> SimplifyAt(RewriteContext&, const NodePtr& n) {
  const NodePtr made = n->inputs[0].node;
  const auto given = NumberIn(n->inputs[1]);
  if (!given || !IsOp(made, "SequenceConstruct")) return {};
  const int64_t size = int64_t(made->num_inputs()), at = *given < 0 ? *given + size : *given;
  if (at < 0 || at >= size) return {};
  return {made->inputs[size_t(at)]};
}
/// SequenceLength(SequenceConstruct(x0, x1 ...)) = their number.
std::vector<NodeEntry> SimplifyLength(RewriteContext& ctx, const NodePtr& n) {
  const NodePtr made = n->inputs[0].node;
  if (!IsOp(made, "SequenceConstruct")) return {};
  return {ctx.graph().AddConstant(Tensor::Scalar(DType::kI64, double(made->num_inputs())))};
}
/// ConcatFromSequence(SequenceConstruct(x0, x1 ...)) = Concat(x0, x1 ...), of Unsqueeze(x0) ...
/// where they are stacked.
std::vector<NodeEntry> SimplifyJoin(RewriteContext& ctx, const NodePtr& n) {
  const auto& p = ParamOf<ConcatFromSequenceParam>(n);
  const NodePtr made = n->inputs[0].node;
  if (!IsOp(made, "SequenceConstruct")) return {};
  std::vector<NodeEntry> parts = made->inputs;
  if (p.new_axis)
    for (NodeEntry& e : parts)
      e = NodeEntry(ctx.graph().AddNode("Unsqueeze", {e, IntsLike(e, {p.axis})}));
  return {NodeEntry(ctx.graph().AddNode("Concat", parts, {{"axis", p.axis}}))};
}
/// What a sequence holds, as far as its making is seen.
std::optional<std::vector<NodeEntry>> ElementsOf(const NodeEntry& sequence) {
  if (IsOp(sequence.node, "SequenceEmpty")) return std::vector<NodeEntry>();
  if (!IsOp(sequence.node, "SequenceConstruct")) return std::nullopt;
  return std::vector<NodeEntry>(sequence.node->inputs);
}
/// The number in operand i, from the end where negative, within [0, end); `otherwise` where it is
/// absent.
std::optional<int64_t> PositionIn(const NodePtr& n, size_t i, int64_t size, int64_t end,
                                  int64_t otherwise) {
  if (!HasInput(n, uint32_t(i))) return otherwise;
  const auto given = NumberIn(n->inputs[i]);
  if (!given) return std::nullopt;
  const int64_t at = *given < 0 ? *given + size : *given;
  return at >= 0 && at < end ? std::optional(at) : std::nullopt;
}
/// SequenceInsert(SequenceConstruct(x0 ...), x) = SequenceConstruct(x0 ..., x).
std::vector<NodeEntry> SimplifyInsert(RewriteContext& ctx, const NodePtr& n) {
  auto all = ElementsOf(n->inputs[0]);
  if (!all) return {};
  const int64_t size = int64_t(all->size());
  const auto at = PositionIn(n, 2, size, size + 1, size);
  if (!at) return {};
  all->insert(all->begin() + *at, n->inputs[1]);
  return {NodeEntry(ctx.graph().AddNode("SequenceConstruct", *all))};
}
/// SequenceErase(SequenceConstruct(x0, x1)) = SequenceConstruct(x0).
std::vector<NodeEntry> SimplifyErase(RewriteContext& ctx, const NodePtr& n) {
  auto all = ElementsOf(n->inputs[0]);
  if (!all || all->size() < 2) return {};
  const int64_t size = int64_t(all->size());
  const auto at = PositionIn(n, 1, size, size, size - 1);
  if (!at) return {};
  all->erase(all->begin() + *at);
  return {NodeEntry(ctx.graph().AddNode("SequenceConstruct", *all))};
}
/// SplitToSequence(x, parts) = SequenceConstruct(Split(x, parts) ...), where the number of parts is
/// known.
std::vector<NodeEntry> SimplifySplit(RewriteContext& ctx, const NodePtr& n) {
  constexpr size_t kMostParts = 256;  // longer sequences are not written out
  const auto& p = ParamOf<SplitToSequenceParam>(n);
  const NodeEntry x = n->inputs[0];
  const bool given = HasInput(n, 1);
  const TensorPtr split = given ? Graph::ConstantOf(n->inputs[1]) : nullptr;
  const Shape& shape = ctx.shape(x);
  if ((given && !split) || !shape.has_rank() || shape.rank() == 0) return {};
  const int64_t axis = p.axis < 0 ? p.axis + shape.rank() : p.axis;
  if (axis < 0 || axis >= shape.rank()) return {};
  const SymInt extent = shape[int(axis)];
  if (!extent.known() || !extent.is_const()) return {};
  Dims parts;
  try {
    parts = PartsOf(n, split, extent.value());
  } catch (const UserError&) {
    return {};  // what it says when it runs
  }
  if (parts.empty() || parts.size() > kMostParts) return {};
  const NodePtr cut = ctx.graph().AddNode("Split", {x, IntsLike(x, parts)},
                                          {{"axis", axis}, {"num_outputs", int64_t(parts.size())}});
  std::vector<NodeEntry> all;
  for (uint32_t i = 0; i < parts.size(); ++i) {
    all.emplace_back(cut, i);
    if (!given && !p.keepdims)
      all.back() = NodeEntry(ctx.graph().AddNode("Squeeze", {all.back(), IntsLike(x, {axis})}));
  }
  return {NodeEntry(ctx.graph().AddNode("SequenceConstruct", all))};
}
/// OptionalGetElement(Optional(x)) = x, as of anything that is no optional.
std::vector<NodeEntry> SimplifyGetElement(RewriteContext& ctx, const NodePtr& n) {
  const NodeEntry x = n->inputs[0];
  if (IsOp(x.node, "Optional") && HasInput(x.node, 0)) return {x.node->inputs[0]};
  if (ctx.dtype(x) != DType::kUnknown && !IsOp(x.node, "Optional") && ctx.shape(x).has_rank())
    return {x};
  return {};
}

}  // namespace

WEFT_REGISTER_OP(SequenceConstruct)
    .describe("The tensors as a sequence. Source: ONNX SequenceConstruct-11.")
    .variadic_input("inputs", TypeDoc(kAllTypes))
    .output("output_sequence", "seq(T)")
    .set_num_inputs(1, INT_MAX)
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", ConstructType)
    .set_attr<FInferShape>("FInferShape", NoShape)
    .set_attr<FHostEval>("FHostEval", ConstructHost)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(SequenceEmpty)
    .describe("A sequence without elements. Source: ONNX SequenceEmpty-11.")
    .set_num_inputs(0)
    .output("output", "seq(T)")
    .param<SequenceEmptyParam>()
    .set_attr<FInferType>("FInferType", EmptyType)
    .set_attr<FInferShape>("FInferShape", NoShape)
    .set_attr<FHostEval>("FHostEval", EmptyHost)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(SequenceAt)
    .describe("The element at a position, from the end where negative. Source: ONNX SequenceAt-11.")
    .input("input_sequence", "seq(T)")
    .input("position", TypeDoc(kIndexTypes, "I"), "one element")
    .output("tensor", "T")
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", AtType)
    .set_attr<FInferShape>("FInferShape", HeldShape)
    .set_attr<FHostEval>("FHostEval", AtHost)
    .set_attr<FSimplify>("FSimplify", SimplifyAt)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(SequenceInsert)
    .describe("The sequence with a tensor in front of a position. Source: ONNX SequenceInsert-11.")
    .input("input_sequence", "seq(T)")
    .input("tensor", "T")
    .optional_input("position", TypeDoc(kIndexTypes, "I"), "one element; absent: at the end")
    .output("output_sequence", "seq(T)")
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", InsertType)
    .set_attr<FInferShape>("FInferShape", NoShape)
    .set_attr<FHostEval>("FHostEval", InsertHost)
    .set_attr<FSimplify>("FSimplify", SimplifyInsert)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(SequenceErase)
    .describe("The sequence without the element at a position. Source: ONNX SequenceErase-11.")
    .input("input_sequence", "seq(T)")
    .optional_input("position", TypeDoc(kIndexTypes, "I"), "one element; absent: the last")
    .output("output_sequence", "seq(T)")
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", EraseType)
    .set_attr<FInferShape>("FInferShape", NoShape)
    .set_attr<FHostEval>("FHostEval", EraseHost)
    .set_attr<FSimplify>("FSimplify", SimplifyErase)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(SequenceLength)
    .describe("The number of elements. Source: ONNX SequenceLength-11.")
    .input("input_sequence", "seq(T)")
    .output("length", "i64", "a scalar")
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", LengthType)
    .set_attr<FInferShape>("FInferShape", ScalarShape)
    .set_attr<FHostEval>("FHostEval", LengthHost)
    .set_attr<FSimplify>("FSimplify", SimplifyLength)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(SplitToSequence)
    .describe(
        "A tensor cut along an axis: into parts of one size (a scalar `split`; the last may be "
        "smaller), of the sizes given, or of 1. Source: ONNX SplitToSequence-24.")
    .input("input", TypeDoc(kAllTypes))
    .optional_input("split", TypeDoc(kIndexTypes, "I"), "[] or [parts]")
    .output("output_sequence", "seq(T)")
    .param<SplitToSequenceParam>()
    .set_attr<FInferType>("FInferType", SplitType)
    .set_attr<FInferShape>("FInferShape", NoShape)
    .set_attr<FHostEval>("FHostEval", SplitHost)
    .set_attr<FSimplify>("FSimplify", SimplifySplit)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(ConcatFromSequence)
    .describe(
        "The tensors of a sequence one after another along an axis, or stacked on a new one. "
        "Source: ONNX ConcatFromSequence-11.")
    .input("input_sequence", "seq(T)")
    .output("concat_result", "T")
    .param<ConcatFromSequenceParam>()
    .set_attr<FInferType>("FInferType", JoinType)
    .set_attr<FInferShape>("FInferShape", HeldShape)
    .set_attr<FHostEval>("FHostEval", JoinHost)
    .set_attr<FSimplify>("FSimplify", SimplifyJoin)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(Optional)
    .describe("An optional that holds the value, or nothing. Source: ONNX Optional-15.")
    .optional_input("input", "T or seq(T)")
    .output("output", "opt(T) or opt(seq(T))")
    .param<OptionalParam>()
    .set_attr<FInferType>("FInferType", OptionalType)
    .set_attr<FInferShape>("FInferShape", NoShape)
    .set_attr<FHostEval>("FHostEval", OptionalHost)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(OptionalGetElement)
    .describe(
        "What the optional holds; a value that is none, itself. Source: ONNX "
        "OptionalGetElement-18.")
    .input("input", "opt(T), opt(seq(T)), T or seq(T)")
    .output("output", "T or seq(T)")
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", GetElementType)
    .set_attr<FInferShape>("FInferShape", HeldShape)
    .set_attr<FHostEval>("FHostEval", GetElementHost)
    .set_attr<FSimplify>("FSimplify", SimplifyGetElement)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(OptionalHasElement)
    .describe(
        "Whether the optional holds a value; one that is absent does not. Source: ONNX "
        "OptionalHasElement-18.")
    .optional_input("input", "opt(T), opt(seq(T)), T or seq(T)")
    .output("output", "bool", "a scalar")
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", HasElementType)
    .set_attr<FInferShape>("FInferShape", ScalarShape)
    .set_attr<FHostEval>("FHostEval", HasElementHost)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
