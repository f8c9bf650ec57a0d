/// cast.cc: Cast, CastLike, BitCast.
///
///   throws  kBadAttribute for a dtype that cannot be cast to, kTypeMismatch; kUnsupported
///           at code generation for strings, and for f64 to floats of at most 8 bits (FHostEval
///           runs those)
///
/// Float to integer truncates towards zero; what does not fit saturates and NaN gives 0 (the
/// standard leaves both open). Integer to narrower integer wraps. Anything to bool: x != 0, NaN is
/// true. Float to narrower float rounds to the even neighbour, overflow gives infinity. `saturate`
/// and `round_mode` speak of 8-bit floats only.
#include "ops/util/host_util.h"

namespace weft::ops {

namespace {

struct CastParam : OpParam<CastParam> {
  DTypeField to;
  int64_t saturate;
  std::string round_mode;
  WEFT_OP_PARAM(CastParam) {
    WEFT_FIELD(to).describe("dtype of the result");
    WEFT_FIELD(saturate).set_default(1).set_range(0, 1).describe(
        "8-bit float results: 1 clamps to the largest value, 0 gives NaN or inf");
    WEFT_FIELD(round_mode)
        .set_default("up")
        .describe("f8e8m0 results: \"up\", \"down\" or \"nearest\"");
  }
};
WEFT_REGISTER_OP_PARAM(CastParam);

struct CastLikeParam : OpParam<CastLikeParam> {
  int64_t saturate;
  std::string round_mode;
  WEFT_OP_PARAM(CastLikeParam) {
    WEFT_FIELD(saturate).set_default(1).set_range(0, 1).describe("as of Cast");
    WEFT_FIELD(round_mode).set_default("up").describe("as of Cast");
  }
};
WEFT_REGISTER_OP_PARAM(CastLikeParam);

struct BitCastParam : OpParam<BitCastParam> {
  DTypeField to;
  WEFT_OP_PARAM(BitCastParam) { WEFT_FIELD(to).describe("dtype of the result, of the width of x"); }
};
WEFT_REGISTER_OP_PARAM(BitCastParam);

using Entry = const NodeEntry&;

constexpr DTypeSet kCastable = kComputable | kNarrow | DTypeSet{DType::kString};

SymInt CastValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  if (args.out_dtype != DType::kBool || args.in_dtype == DType::kBool) return x[0];
  if (args.Positive(x[0])) return 1;
  return x[0].known() && x[0].is_const() ? SymInt(x[0].is(0) ? 0 : 1) : SymInt();
}

void CheckRoundMode(const NodePtr& n, const std::string& mode) {
  WEFT_CHECK(mode == "up" || mode == "down" || mode == "nearest", kBadAttribute,
             "{}: round_mode is \"{}\", expected \"up\", \"down\" or \"nearest\"", n->Describe(),
             mode);
}

// ---- Cast ----

void CastType(InferTypeContext& ctx) {
  const CastParam& p = ParamOf<CastParam>(ctx.node());
  CheckRoundMode(ctx.node(), p.round_mode);
  WEFT_CHECK(kCastable.has(p.to.dtype), kBadAttribute, "{}: cannot cast to {}",
             ctx.node()->Describe(), DTypeName(p.to.dtype));
  CheckInputType(ctx, 0, kCastable);
  ctx.set_out(0, p.to.dtype);
}
Exprs CastCode(const NodePtr& n, const Exprs& x) {
  const CastParam& p = ParamOf<CastParam>(n);
  return {CastElement(n, x[0], p.to.dtype, p.saturate != 0, p.round_mode)};
}
NodeEntry CastGradient(const NodePtr& n, Entry x, Entry, Entry dy) {
  return IsFloat(ParamOf<CastParam>(n).to.dtype) ? ApplyOp("CastLike", {dy, x}) : NodeEntry();
}
/// Cast(x : t, t) = x;  Cast(Cast(x, wider), t) = Cast(x, t).
std::vector<NodeEntry> SimplifyCast(RewriteContext& ctx, const NodePtr& n) {
  const CastParam& p = ParamOf<CastParam>(n);
  const NodeEntry x = n->inputs[0];
  if (ctx.dtype(x) == p.to.dtype) return {x};
  if (!IsOp(x.node, "Cast")) return {};
  const NodeEntry inner = x.node->inputs[0];
  const DType from = ctx.dtype(inner), wide = ctx.dtype(x);
  // An integer taken through a float would saturate, taken directly it wraps: only where it fits
  // both ways are equal.
  const bool same_world = IsFloat(from) == IsFloat(wide) || IsFloat(p.to.dtype) ||
                          p.to.dtype == DType::kBool || CastIsLossless(from, p.to.dtype);
  if (from == DType::kUnknown || wide == DType::kUnknown || !IsComputable(p.to.dtype) ||
      !CastIsLossless(from, wide) || !same_world)
    return {};
  if (from == p.to.dtype) return {inner};
  return {NodeEntry(ctx.graph().AddNode(n->op(), {inner}, n->attrs.dict))};
}

// ---- CastLike ----

void CastLikeType(InferTypeContext& ctx) {
  CheckRoundMode(ctx.node(), ParamOf<CastLikeParam>(ctx.node()).round_mode);
  CheckInputType(ctx, 0, kCastable);
  CheckInputType(ctx, 1, kCastable);
  if (ctx.in(1).known()) ctx.set_out(0, ctx.in(1));
}
/// The general form: `like` gives its dtype only, and its shape need not broadcast.
Exprs CastLikeCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const CastLikeParam& p = ParamOf<CastLikeParam>(n);
  return {CastElement(n, in.at(0)(at(0)), in.at(1).dtype, p.saturate != 0, p.round_mode)};
}
void CastLikeShape(InferShapeContext& ctx) {
  UnaryShape(ctx);
  ElementwiseValue(ctx, CastValue, 1);
}
std::vector<NodeEntry> CastLikeGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  return {dy.at(0) ? ApplyOp("CastLike", {dy[0], n->inputs[0]}) : NodeEntry(), NodeEntry()};
}
/// CastLike(x, like : t) = Cast(x, t).
std::vector<NodeEntry> SimplifyCastLike(RewriteContext& ctx, const NodePtr& n) {
  const NodeEntry x = n->inputs[0];
  const DType to = ctx.dtype(n->inputs[1]);
  if (to == DType::kUnknown) return {};
  if (ctx.dtype(x) == to) return {x};
  AttrDict attrs = n->attrs.dict;
  attrs["to"] = to;
  return {NodeEntry(ctx.graph().AddNode("Cast", {x}, attrs))};
}

// ---- BitCast ----

void BitCastType(InferTypeContext& ctx) {
  const DType to = ParamOf<BitCastParam>(ctx.node()).to.dtype;
  const Type x = ctx.in(0);
  WEFT_CHECK(DTypeBits(to) > 0, kBadAttribute, "{}: cannot reinterpret as {}",
             ctx.node()->Describe(), DTypeName(to));
  WEFT_CHECK(!x.known() || (x.is_tensor() && DTypeBits(x.dtype) == DTypeBits(to)), kTypeMismatch,
             "{}: {} and {} differ in width", ctx.node()->Describe(), x.ToString(), DTypeName(to));
  ctx.set_out(0, to);
}
Exprs BitCastCode(const NodePtr& n, const Exprs& x) {
  const DType to = ParamOf<BitCastParam>(n).to.dtype, from = x[0]->dtype();
  // Integers of equal width, bool counted as one of 8 bits: wrapping keeps the bits.
  const auto integer = [](DType t) { return IsInt(t) || t == DType::kBool; };
  if (integer(to) && integer(from)) return {Expr::Cast(to, x[0])};
  WEFT_CHECK(IsComputable(to) && IsComputable(from) && (to == from || DTypeBits(to) >= 32),
             kUnsupported, "{}: no kernel reinterprets {} as {}", n->Describe(), DTypeName(from),
             DTypeName(to));
  return {Expr::Bitcast(to, x[0])};
}
/// BitCast(x : t, t) = x.
std::vector<NodeEntry> SimplifyBitCast(RewriteContext& ctx, const NodePtr& n) {
  if (ctx.dtype(n->inputs[0]) != ParamOf<BitCastParam>(n).to.dtype) return {};
  return {n->inputs[0]};
}

Tensors HostCast(const NodePtr& n, const Tensors& in) {
  const CastParam& p = ParamOf<CastParam>(n);
  return {CastTensor(*in.at(0), p.to.dtype, p.saturate != 0, p.round_mode)};
}
Tensors HostCastLike(const NodePtr& n, const Tensors& in) {
  const CastLikeParam& p = ParamOf<CastLikeParam>(n);
  return {CastTensor(*in.at(0), in.at(1)->dtype(), p.saturate != 0, p.round_mode)};
}
Tensors HostBitCast(const NodePtr& n, const Tensors& in) {
  auto y = NewTensor(ParamOf<BitCastParam>(n).to.dtype, in.at(0)->dims());
  if (y->num_bytes() > 0) std::memcpy(y->mutable_data(), in[0]->data(), size_t(y->num_bytes()));
  return {y};
}

}  // namespace

WEFT_REGISTER_OP(Cast)
    .describe(
        "y = x as dtype `to`. Float to integer truncates and saturates, NaN gives 0; integer to "
        "integer wraps; to bool is "
        "x != 0. Gradient: dx = CastLike(dy, x) for float results; retains nothing. Source: ONNX "
        "Cast-24.")
    .input("x", TypeDoc(kCastable, "T1"))
    .output("y", TypeDoc(kCastable, "T2"), "the shape of x")
    .param<CastParam>()
    .include("ElementwiseUnaryBool")
    .set_attr<FInferType>("FInferType", CastType)
    .set_attr<FInferShape>("FInferShape", UnaryShapeAndValue(CastValue))
    .set_attr<FCodeGen>("FCodeGen", CastCode)
    .set_attr<TTakesLowBit>("TTakesLowBit", true)
    .set_attr<FHostEval>("FHostEval", HostCast)
    .set_attr<FGradient>("FGradient", UnaryNodeGradient(CastGradient))
    .set_attr<FSimplify>("FSimplify", SimplifyCast)
    .example({"f32[2, n, 3]"}, "to = f64")
    .example({"f64[4]"}, "to = i32")
    .example({"i64[]"}, "to = f16")
    .example({"f32[n]"}, "to = bool");

WEFT_REGISTER_OP(CastLike)
    .describe(
        "y = x as the dtype of `like`, by the rules of Cast. Gradient: dx = CastLike(dy, x). "
        "Source: ONNX CastLike-24.")
    .input("x", TypeDoc(kCastable, "T1"))
    .input("like", TypeDoc(kCastable, "T2"), "any shape; only its dtype is used")
    .output("y", "T2", "the shape of x")
    .param<CastLikeParam>()
    .include("ElementwiseUnaryBool")
    .set_attr<FInferType>("FInferType", CastLikeType)
    .set_attr<FInferShape>("FInferShape", CastLikeShape)
    .set_attr<FCodeGen>("FCodeGen", CastLikeCode)
    .set_attr<TTakesLowBit>("TTakesLowBit", true)
    .set_attr<FHostEval>("FHostEval", HostCastLike)
    .set_attr<FGradient>("FGradient", CastLikeGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyCastLike)
    .example({"f32[2, n, 3]", "f64[5]"})
    .example({"i32[]", "f32[2]"});

WEFT_REGISTER_OP(BitCast)
    .describe(
        "y = the bits of x read as dtype `to` of the same width. No gradient. Source: ONNX "
        "BitCast-26.")
    .input("x", "T1, any dtype but strings")
    .output("y", "T2", "the shape of x")
    .param<BitCastParam>()
    .include("ElementwiseUnaryBool")
    .set_attr<FInferType>("FInferType", BitCastType)
    .set_attr<FCodeGen>("FCodeGen", BitCastCode)
    .set_attr<FHostEval>("FHostEval", HostBitCast)
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyBitCast)
    .example({"f32[2, n]"}, "to = i32")
    .example({"u8[]"}, "to = i8");

}  // namespace weft::ops
