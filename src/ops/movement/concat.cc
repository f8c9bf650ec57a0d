/// concat.cc: Concat and Split along one axis.
#include "elements_beside.h"
#include "ops/util/demand.h"
#include "weft/core/op/alias.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct ConcatParam : OpParam<ConcatParam> {
  int64_t axis;
  WEFT_OP_PARAM(ConcatParam) { WEFT_FIELD(axis).describe("in [-rank, rank)"); }
};
WEFT_REGISTER_OP_PARAM(ConcatParam);

struct SplitParam : OpParam<SplitParam> {
  int64_t axis, num_outputs;
  WEFT_OP_PARAM(SplitParam) {
    WEFT_FIELD(axis).set_default(0).describe("in [-rank, rank)");
    WEFT_FIELD(num_outputs)
        .set_default(0)
        .set_range(0, 65536)
        .describe("number of outputs; with no `split`, of equal size but the last");
  }
};
WEFT_REGISTER_OP_PARAM(SplitParam);

// ---- Concat ----

void ConcatShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  WEFT_CHECK(ctx.num_inputs() > 0, kArity, "{}: no inputs", n->Describe());
  int rank = -1;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (!ctx.in(i).has_rank()) continue;
    WEFT_CHECK(rank < 0 || ctx.in(i).rank() == rank, kShapeMismatch,
               "{}: input {} {} has another rank than the others ({})", n->Describe(), i,
               ctx.in(i).ToString(), rank);
    rank = ctx.in(i).rank();
  }
  if (rank < 0) return Unknown(ctx, 0, "no input has a known rank");
  WEFT_CHECK(rank > 0, kShapeMismatch, "{}: scalars cannot be concatenated", n->Describe());
  const int axis = AxisOf(ParamOf<ConcatParam>(n).axis, rank, n);
  std::vector<SymInt> dims(static_cast<size_t>(rank));
  dims[size_t(axis)] = 0;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const Shape s = ctx.in(i).has_rank() ? ctx.in(i) : Shape::OfRank(rank);
    for (int k = 0; k < rank; ++k) {
      SymInt& d = dims[size_t(k)];
      d = k == axis ? d + s[k] : UnifyDims(ctx, d, s[k], "dimensions off the axis");
    }
    if (!s[axis].known())
      Unknown(ctx, 0, fmt::format("the size of input {} on the axis is unknown", i));
  }
  const Shape out(std::move(dims));
  ctx.set_out(0, out);
  if (rank != 1 || !out.is_static()) return;
  std::vector<SymInt> all;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const SymTensorPtr v = InputValue(ctx, i);
    for (int64_t k = 0; k < ctx.in(i)[0].value() && int64_t(all.size()) <= kMaxSymTensor; ++k)
      all.push_back(v ? v->elements.at(size_t(k)) : SymInt());
  }
  SetValue(ctx, 0, out, [&](int64_t i) { return all.at(size_t(i)); });
}

/// select(i < e0, x0[i], select(i < e0 + e1, x1[i - e0], ...)), as a balanced tree: 1000 inputs
/// cost 10 compares.
Expr PickInput(const std::vector<TensorArg>& in, const std::vector<SymInt>& begin, size_t lo,
               size_t hi, const Indices& at, int axis) {
  if (hi - lo == 1) {
    Indices from = at;
    from[size_t(axis)] = from[size_t(axis)] - Expr::Dim(begin[lo]);
    return in[lo](from);
  }
  const size_t mid = (lo + hi) / 2;
  return ReadEither(Lt(at[size_t(axis)], Expr::Dim(begin[mid])),
                    PickInput(in, begin, lo, mid, at, axis),
                    PickInput(in, begin, mid, hi, at, axis));
}
Exprs ConcatCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const int axis = AxisOf(ParamOf<ConcatParam>(n).axis, in[0].rank(), n);
  std::vector<TensorArg> parts;
  std::vector<SymInt> begin;
  SymInt next = 0;
  for (const TensorArg& arg : in) {
    if (arg.shape[axis].is(0)) continue;
    parts.push_back(arg);
    begin.push_back(next);
    next = next + arg.shape[axis];
  }
  if (parts.empty()) return {Zero(at.dtype[0])};  // an empty result
  return {PickInput(parts, begin, 0, parts.size(), at(0), axis)};
}
/// The pieces of dy, by the extents of the inputs.
std::vector<NodeEntry> ConcatGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  std::vector<NodeEntry> dx(n->inputs.size());
  if (!dy[0]) return dx;
  if (dx.size() == 1) return {dy[0]};
  const int64_t axis = ParamOf<ConcatParam>(n).axis;
  AttrDict range{{"start", axis}};
  if (axis != -1) range["end"] = axis + 1;
  std::vector<NodeEntry> sizes;
  for (const NodeEntry& x : n->inputs) sizes.push_back(ApplyOp("Shape", {x}, range));
  const NodeEntry split = ApplyOp("Split", {dy[0], ApplyOp("Concat", sizes, {{"axis", 0}})},
                                  {{"axis", axis}, {"num_outputs", int64_t(dx.size())}});
  for (size_t i = 0; i < dx.size(); ++i) dx[i] = NodeEntry(split.node, uint32_t(i));
  return dx;
}
std::vector<NodeEntry> SimplifyConcat(RewriteContext& ctx, const NodePtr& n) {
  if (n->inputs.size() == 1) return {n->inputs[0]};
  // The only input that is not empty on the axis.
  for (const NodeEntry& x : n->inputs) {
    if (std::vector<NodeEntry> same = ReplaceIfSame(ctx, n, x); !same.empty()) return same;
  }
  return {};
}

std::vector<AliasPart> ConcatAlias(const AliasContext& ctx) {
  const NodePtr& n = ctx.node();
  const int axis = AxisOf(ParamOf<ConcatParam>(n).axis, ctx.out(0).rank(), n);
  std::vector<AliasPart> parts;
  SymInt at = 0;
  for (size_t i = 0; i < n->num_inputs(); ++i) {
    parts.push_back({int(i), 0, at, ElementsBefore(ctx.out(0), axis), true});
    at = at + ctx.in(int(i)).num_elements();
  }
  return parts;
}

// ---- Split ----

uint32_t SplitOutputs(const NodeAttrs& attrs) {
  const AttrValue* v = attrs.dict.find("num_outputs");
  const int64_t k = v ? v->get<int64_t>() : 0;
  WEFT_CHECK(k >= 1 && k <= 65536, kBadAttribute, "Split needs num_outputs in [1, 65536], got {}",
             k);
  return uint32_t(k);
}

/// Extents of the outputs on the axis; unknown ones where `split` is not known.
std::vector<SymInt> SplitSizes(const NodePtr& n, SymInt d, const SymTensor* split) {
  const int64_t k = ParamOf<SplitParam>(n).num_outputs;
  if (split) {
    WEFT_CHECK(int64_t(split->elements.size()) == k, kShapeMismatch, "{}: {} sizes for {} outputs",
               n->Describe(), split->elements.size(), k);
    return split->elements;
  }
  std::vector<SymInt> sizes(static_cast<size_t>(k));
  if (!d.known()) return sizes;
  const SymInt chunk = CeilDiv(d, k);
  for (SymInt& s : sizes) s = chunk;
  sizes.back() = d - chunk * (k - 1);
  return sizes;
}

void SplitShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) {
    for (int k = 0; k < ctx.num_outputs(); ++k) Unknown(ctx, k, "the rank of x is unknown");
    return;
  }
  const int axis = AxisOf(ParamOf<SplitParam>(n).axis, x.rank(), n);
  std::vector<SymInt> sizes;
  if (HasInput(ctx, 1)) {
    const SymTensorPtr split = InputValue(ctx, 1);
    sizes = split ? SplitSizes(n, x[axis], split.get())
                  : std::vector<SymInt>(size_t(ctx.num_outputs()), SymInt());
    // A single part is all of x, whatever sizes a run is given: how many there are is asked here.
    if (CheckRank(ctx, 1, 1, "split"))
      UnifyDims(ctx, ctx.in(1)[0], ctx.num_outputs(), "the number of sizes and of outputs");
    SymInt total = 0;
    for (size_t k = 0; k < sizes.size(); ++k) {
      if (!sizes[k].known()) sizes[k] = ctx.unbacked(int(k));
      DemandAtLeast(ctx, sizes[k], 0, "the size of a part");
      total = total + sizes[k];
    }
    UnifyDims(ctx, x[axis], total, "the sum of the sizes and the size of the axis");
  } else {
    sizes = SplitSizes(n, x[axis], nullptr);
    DemandAtLeast(ctx, sizes.back(), 0, "what the other parts leave");
  }
  const SymTensorPtr v = x.rank() == 1 ? InputValue(ctx, 0) : nullptr;
  SymInt begin = 0;
  for (int k = 0; k < ctx.num_outputs(); ++k) {
    Shape out = x;
    out.set(axis, sizes[size_t(k)]);
    ctx.set_out(k, out);
    if (!sizes[size_t(k)].known()) Unknown(ctx, k, "the size of x on the axis is unknown");
    if (v && begin.known() && begin.is_const() && out.is_static()) {
      const int64_t b = begin.value();
      SetValue(ctx, k, out, [&](int64_t i) { return v->elements.at(size_t(b + i)); });
    }
    begin = begin + sizes[size_t(k)];
  }
}
Exprs SplitCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const int axis = AxisOf(ParamOf<SplitParam>(n).axis, in[0].rank(), n);
  Exprs out;
  SymInt begin = 0;
  for (size_t k = 0; k < at.index.size(); ++k) {
    Indices from = at(int(k));
    from[size_t(axis)] = from[size_t(axis)] + Expr::Dim(begin);
    out.push_back(in[0](from));
    begin = begin + at.shape[k][axis];
  }
  return out;
}
std::vector<NodeEntry> SplitGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  std::vector<NodeEntry> dx(n->inputs.size());
  if (!AllNull(dy))
    dx[0] = ApplyOp("Concat", MaterializeGrads(n, dy), {{"axis", ParamOf<SplitParam>(n).axis}});
  return dx;
}
std::vector<AliasPart> SplitAlias(const AliasContext& ctx) {
  const NodePtr& n = ctx.node();
  const int axis = AxisOf(ParamOf<SplitParam>(n).axis, ctx.in(0).rank(), n);
  std::vector<AliasPart> parts;
  SymInt at = 0;
  for (uint32_t k = 0; k < n->num_outputs(); ++k) {
    parts.push_back({0, int(k), at, ElementsBefore(ctx.in(0), axis), false});
    at = at + ctx.out(int(k)).num_elements();
  }
  return parts;
}
void SplitType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kAllTypes);
  CheckInputType(ctx, 1, kI64Only);
  for (int k = 0; ctx.in(0).known() && k < ctx.num_outputs(); ++k) ctx.set_out(k, ctx.in(0));
}

}  // namespace

WEFT_REGISTER_OP(Concat)
    .describe(
        "The inputs one after the other along `axis`; dimensions off the axis must agree ([m] and "
        "[n] give [m + n]).\n"
        "Gradient: Split of dy by the dimensions of the inputs. Errors: ranks or dimensions differ "
        "(kShapeMismatch), axis out of range (kBadAttribute). Source: ONNX Concat-13.")
    .variadic_input("inputs", TypeDoc(kAllTypes))
    .output("concat_result", "T")
    .set_num_inputs(1, INT32_MAX)
    .param<ConcatParam>()
    .example({"f32[2, 3]", "f32[4, 3]"}, "axis = 0")
    .example({"f32[2, m]", "f32[2, n]", "f32[2, 1]"}, "axis = -1")
    .set_attr<FInferType>("FInferType", SameType(kAllTypes))
    .set_attr<FInferShape>("FInferShape", ConcatShape)
    .set_attr<FCodeGen>("FCodeGen", ConcatCode)
    .set_attr<FGradient>("FGradient", ConcatGrad)
    .set_attr<FSimplify>("FSimplify", SimplifyConcat)
    .set_attr<FAlias>("FAlias", ConcatAlias)
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP(Split)
    .describe(
        "Consecutive pieces of x along `axis`: of the sizes `split`, or num_outputs of size ceil(d "
        "/ num_outputs), the last one smaller. Gradient: Concat of the output gradients, zeros for "
        "missing ones.\n"
        "Errors: sizes do not sum to the size of the axis (kShapeMismatch), num_outputs missing "
        "(kBadAttribute).\n"
        "Source: ONNX Split-18 (num_outputs is always set here: import writes it when `split` is "
        "given).")
    .input("input", TypeDoc(kAllTypes))
    .optional_input("split", "i64", "1-D: the sizes")
    .output("outputs", "T")
    .set_num_outputs(SplitOutputs)
    .param<SplitParam>()
    .example({"f32[6, 2]"}, "num_outputs = 3")
    .example({"f32[2, 5]", "i64[2] = [2, 3]"}, "axis = 1, num_outputs = 2")
    .example({"f32[n]"}, "num_outputs = 2")
    .set_attr<FInferType>("FInferType", SplitType)
    .set_attr<FInferShape>("FInferShape", SplitShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1})
    .set_attr<FCodeGen>("FCodeGen", SplitCode)
    .set_attr<FGradient>("FGradient", SplitGrad)
    .set_attr<FAlias>("FAlias", SplitAlias)
    .set_attr<FSimplify>("FSimplify",
                         [](RewriteContext& ctx, const NodePtr& n) -> std::vector<NodeEntry> {
                           if (n->num_outputs() != 1) return {};
                           return ReplaceIfSame(ctx, n, n->inputs[0]);
                         })
    .set_attr<TMovesElements>("TMovesElements", true);

}  // namespace weft::ops
