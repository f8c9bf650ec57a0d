/// op_util.cc: inference, wrappers and groups that the operator files share (op_util.h).
///
/// Values of shape arithmetic. A followed value is an *exact integer* in every element, whatever
/// the dtype: float tensors are followed too (exporters write Cast -> Mul -> Floor -> Cast), but
/// only where the float holds the integer exactly (|v| <= 2^24 in f32, by the ranges in Facts) and
/// is never -0. A symbolic size kept in i32, i64 or f64 is taken to fit: a run in which it does not
/// has no tensor of that size.
#include "op_util.h"

#include <algorithm>
#include <cmath>

#include "holds.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/tensor/demand.h"
#include "weft/support/check.h"

namespace weft::ops {

WEFT_REGISTER_OP_PARAM(NoParam);

// ---- dtype sets ----

std::string DTypeSet::ToString() const {
  std::string out;
  for (int i = 1; i < kNumDTypes; ++i) {
    if (!has(DType(i))) continue;
    if (!out.empty()) out += ", ";
    out += DTypeName(DType(i));
  }
  return out;
}
std::string TypeDoc(DTypeSet set, const char* name) {
  return fmt::format("{} in {{{}}}", name, set.ToString());
}

// ---- FInferType ----

void CheckInputType(InferTypeContext& ctx, int i, DTypeSet set) {
  if (i >= ctx.num_inputs() || !ctx.has_input(i)) return;
  const Type t = ctx.in(i);
  if (!t.known()) return;
  WEFT_CHECK(t.is_tensor() && set.has(t.dtype), kTypeMismatch,
             "{}: input {} is {}, expected one of {}", ctx.node()->Describe(), i, t.ToString(),
             set.ToString());
}

Type CommonInputType(InferTypeContext& ctx, DTypeSet set, int first, int last) {
  if (last < 0) last = ctx.num_inputs();
  last = std::min(last, ctx.num_inputs());
  Type common;
  int from = -1;
  for (int i = first; i < last; ++i) {
    if (!ctx.has_input(i)) continue;
    CheckInputType(ctx, i, set);
    const Type t = ctx.in(i);
    if (!t.known()) continue;
    if (from < 0) {
      common = t;
      from = i;
    }
    WEFT_CHECK(t == common, kTypeMismatch,
               "{}: inputs must have one dtype, but input {} is {} and input {} is {}",
               ctx.node()->Describe(), from, common.ToString(), i, t.ToString());
  }
  if (from < 0) return common;
  for (int i = first; i < last; ++i) {
    if (ctx.has_input(i) && !ctx.in(i).known()) ctx.set_in(i, common);
  }
  return common;
}

FInferType SameType(DTypeSet set) {
  return [set](InferTypeContext& ctx) {
    const Type t = CommonInputType(ctx, set);
    if (!t.known()) return;
    for (int i = 0; i < ctx.num_outputs(); ++i) ctx.set_out(i, t);
  };
}
FInferType BoolResult(DTypeSet set) {
  return [set](InferTypeContext& ctx) {
    CommonInputType(ctx, set);
    for (int i = 0; i < ctx.num_outputs(); ++i) ctx.set_out(i, DType::kBool);
  };
}
FInferType TypeOfFirst(DTypeSet set) {
  return [set](InferTypeContext& ctx) {
    CheckInputType(ctx, 0, set);
    if (!ctx.in(0).known()) return;
    for (int i = 0; i < ctx.num_outputs(); ++i) ctx.set_out(i, ctx.in(0));
  };
}

DType StashType(const NodePtr& n, int64_t stash_type) {
  const DType t = DTypeOfOnnx(stash_type).value_or(DType::kUnknown);
  WEFT_CHECK(IsFloat(t), kBadAttribute, "{}: stash_type {} is not a float dtype", n->Describe(),
             stash_type);
  return t;
}

// ---- values ----

namespace {

/// Largest magnitude up to which a float dtype holds every integer.
int64_t ExactIntegers(DType t) { return int64_t{1} << TraitsOf(t).precision; }

/// Position in a tensor of extents `dims` of output position `at` under broadcasting; dims are
/// right-aligned.
int64_t BroadcastOffset(const std::vector<int64_t>& dims, const std::vector<int64_t>& at) {
  int64_t offset = 0;
  const size_t skip = at.size() - dims.size();
  for (size_t k = 0; k < dims.size(); ++k)
    offset = offset * dims[k] + (dims[k] == 1 ? 0 : at[skip + k]);
  return offset;
}

}  // namespace

bool Holds(DType t, SymInt e, const Facts& facts) {
  int64_t lo = INT64_MIN, hi = INT64_MAX;
  bool trusts_sizes = t == DType::kF64;
  if (IsFloat(t)) hi = ExactIntegers(t), lo = -hi;
  switch (t) {
    case DType::kBool:
      lo = 0, hi = 1;
      break;
    case DType::kI64:
      return true;
    case DType::kU64:
      lo = 0;
      break;
    case DType::kI32:
      lo = INT32_MIN, hi = INT32_MAX, trusts_sizes = true;
      break;
    case DType::kU32:
      lo = 0, hi = UINT32_MAX, trusts_sizes = true;
      break;
    case DType::kI8:
      lo = INT8_MIN, hi = INT8_MAX;
      break;
    case DType::kI16:
      lo = INT16_MIN, hi = INT16_MAX;
      break;
    case DType::kU8:
      lo = 0, hi = UINT8_MAX;
      break;
    case DType::kU16:
      lo = 0, hi = UINT16_MAX;
      break;
    default:
      if (!IsFloat(t)) return false;
  }
  if (e.is_const()) return lo <= e.value() && e.value() <= hi;
  if ((t == DType::kI32 || t == DType::kU32) && !NeverWraps32(e)) return false;
  if (trusts_sizes && lo < 0) return true;
  const Range r = facts.RangeOf(e);
  return lo <= r.lo && (trusts_sizes || r.hi <= hi);
}

SymTensorPtr SymTensorOf(const Tensor& t) {
  const bool integers = IsInt(t.dtype()) || t.dtype() == DType::kBool;
  if ((!integers && !IsFloat(t.dtype())) || t.num_elements() > kMaxSymTensor) return nullptr;
  auto out = std::make_shared<SymTensor>();
  out->dims = t.dims();
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    if (integers) {
      const int64_t v = t.at_int(i);
      if (t.dtype() == DType::kU64 && v < 0) return nullptr;  // beyond 63 bits
      out->elements.push_back(v);
    } else {
      const double v = t.at(i);
      if (v != std::trunc(v) || std::fabs(v) > double(ExactIntegers(t.dtype())) ||
          (v == 0 && std::signbit(v)))
        return nullptr;
      out->elements.push_back(int64_t(v));
    }
  }
  return out;
}

SymTensorPtr InputValue(InferShapeContext& ctx, int i) {
  if (SymTensorPtr v = ctx.in_value(i)) return v;
  const TensorPtr t = ctx.in_constant(i);
  return t ? SymTensorOf(*t) : nullptr;
}

void ElementwiseValue(InferShapeContext& ctx, const ElementRule& rule, int inputs) {
  if (inputs < 0) inputs = ctx.num_inputs();
  std::vector<SymTensorPtr> values(inputs);
  SymTensor out;
  DType in_dtype = DType::kUnknown;
  for (int i = 0; i < inputs; ++i) {
    if (!ctx.has_input(i)) continue;
    values[i] = InputValue(ctx, i);
    if (!values[i]) return;
    in_dtype = ctx.in_type(i).dtype;
    const std::vector<int64_t>& dims = values[i]->dims;
    if (dims.size() > out.dims.size())
      out.dims.insert(out.dims.begin(), dims.size() - out.dims.size(), 1);
    const size_t skip = out.dims.size() - dims.size();
    for (size_t k = 0; k < dims.size(); ++k) {
      if (dims[k] != 1)
        out.dims[skip + k] = dims[k];  // unequal extents were refused by BroadcastShape
    }
  }
  int64_t count = 1;
  for (int64_t d : out.dims) {
    if (d > kMaxSymTensor || (count *= d) > kMaxSymTensor) return;
  }
  const ValueArgs args{ctx.node(), in_dtype, ctx.out_type(0).dtype, ctx.facts()};
  std::vector<int64_t> at(out.dims.size(), 0);
  std::vector<SymInt> x(values.size());
  bool any = count == 0;
  for (int64_t n = 0; n < count; ++n) {
    bool known = true;
    for (size_t i = 0; i < values.size(); ++i) {
      x[i] = values[i] ? values[i]->elements.at(BroadcastOffset(values[i]->dims, at)) : SymInt();
    }
    SymInt v;
    try {
      v = rule(x, args);
    } catch (const UserError&) {
      known = false;  // 64-bit overflow wraps at run time: unknown here
    }
    if (!known || !v.known() || !Holds(args.out_dtype, v, args.facts)) v = SymInt();
    any = any || v.known();
    out.elements.push_back(v);
    for (int k = int(at.size()) - 1; k >= 0 && ++at[k] == out.dims[k]; --k) at[k] = 0;
  }
  if (any) ctx.set_out_value(0, std::move(out));
}

// ---- FInferShape ----

void BroadcastShape(InferShapeContext& ctx) {
  Shape out = Shape::Scalar();
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (!ctx.has_input(i)) continue;
    if (!ctx.in(i).has_rank()) ctx.explain(0, fmt::format("the rank of input {} is unknown", i));
    out = BroadcastDemanded(out, ctx.in(i), &ctx.facts());
  }
  for (int i = 0; i < ctx.num_outputs(); ++i) ctx.set_out(i, out);
}
FInferShape BroadcastShapeAndValue(ElementRule rule) {
  return [rule = std::move(rule)](InferShapeContext& ctx) {
    BroadcastShape(ctx);
    ElementwiseValue(ctx, rule);
  };
}
void UnaryShape(InferShapeContext& ctx) {
  if (!ctx.in(0).has_rank()) ctx.explain(0, "the rank of input 0 is unknown");
  for (int i = 0; i < ctx.num_outputs(); ++i) ctx.set_out(i, ctx.in(0));
}
FInferShape UnaryShapeAndValue(ElementRule rule) {
  return [rule = std::move(rule)](InferShapeContext& ctx) {
    UnaryShape(ctx);
    ElementwiseValue(ctx, rule);
  };
}

// ---- FCodeGen ----

FCodeGen UnaryCodeGen(std::function<Expr(const Expr&)> f) {
  return [f = std::move(f)](const NodePtr&, const Exprs& x) -> Exprs {
    return {WithCompute(x.at(0), f)};
  };
}
FCodeGen UnaryCodeGen(UnOp op) {
  return UnaryCodeGen([op](const Expr& x) { return Expr::Unary(op, x); });
}
FCodeGen UnaryCodeGen(CallOp op) {
  return UnaryCodeGen([op](const Expr& x) { return Expr::Call(op, {x}); });
}
FCodeGen BinaryCodeGen(std::function<Expr(const Expr&, const Expr&)> f) {
  return [f = std::move(f)](const NodePtr&, const Exprs& x) -> Exprs {
    return {WithCompute(x, [&f](const Exprs& v) { return f(v.at(0), v.at(1)); })};
  };
}
FCodeGen BinaryCodeGen(BinOp op) {
  return BinaryCodeGen([op](const Expr& a, const Expr& b) { return Expr::Binary(op, a, b); });
}
FCodeGen FoldCodeGen(BinOp op) {
  return [op](const NodePtr&, const Exprs& x) -> Exprs {
    return {WithCompute(x, [op](const Exprs& v) {
      Expr y = v.at(0);
      for (size_t i = 1; i < v.size(); ++i) y = Expr::Binary(op, y, v[i]);
      return y;
    })};
  };
}

// ---- FGradient ----

FGradient UnaryNodeGradient(
    std::function<NodeEntry(const NodePtr&, const NodeEntry&, const NodeEntry&, const NodeEntry&)>
        f) {
  return [f = std::move(f)](const NodePtr& n,
                            const std::vector<NodeEntry>& dy) -> std::vector<NodeEntry> {
    if (!dy.at(0)) return {NodeEntry()};
    return {f(n, n->inputs[0], NodeEntry(n, 0), dy[0])};
  };
}
FGradient UnaryGradient(
    std::function<NodeEntry(const NodeEntry&, const NodeEntry&, const NodeEntry&)> f) {
  return UnaryNodeGradient([f = std::move(f)](const NodePtr&, const NodeEntry& x,
                                              const NodeEntry& y,
                                              const NodeEntry& dy) { return f(x, y, dy); });
}
FGradient BinaryGradient(
    std::function<std::pair<NodeEntry, NodeEntry>(const NodeEntry&, const NodeEntry&,
                                                  const NodeEntry&, const NodeEntry&)>
        f) {
  return [f = std::move(f)](const NodePtr& n,
                            const std::vector<NodeEntry>& dy) -> std::vector<NodeEntry> {
    if (!dy.at(0)) return {NodeEntry(), NodeEntry()};
    const NodeEntry a = n->inputs[0], b = n->inputs[1];
    auto [da, db] = f(a, b, NodeEntry(n, 0), dy[0]);
    // What is computed from a, b, y and dy has the shape of y.
    const NodeEntry y(n, 0);
    return {KnownSameShape(a, y) ? da : ReduceLike(da, a),
            KnownSameShape(b, y) ? db : ReduceLike(db, b)};
  };
}
std::vector<NodeEntry> NoGradient(const NodePtr& n, const std::vector<NodeEntry>&) {
  return std::vector<NodeEntry>(n->inputs.size());
}
NodeEntry MaskedGrad(const NodeEntry& condition, const NodeEntry& dy) {
  return ApplyOp("Where", {condition, dy, ScalarOf(dy, 0)});
}

// ---- FSimplify ----

bool IsUniform(const RewriteContext& ctx, const NodeEntry& e, double v) {
  // scalars and small vectors are what occurs; bounds the time of a rule
  constexpr int64_t kMaxLooked = 1 << 16;
  if (!e) return false;
  if (const TensorPtr t = ctx.constant(e)) {
    if (!IsComputable(t->dtype()) || t->num_elements() == 0 || t->num_elements() > kMaxLooked)
      return false;
    const bool is_float = IsFloat(t->dtype());
    for (int64_t i = 0; i < t->num_elements(); ++i) {
      const double x = t->at(i);
      if (x != v || (is_float && std::signbit(x) != std::signbit(v))) return false;
    }
    return true;
  }
  const SymTensorPtr value = ctx.value(e);
  if (!value || value->elements.empty() || v != std::trunc(v) || std::signbit(v) != (v < 0))
    return false;
  return std::all_of(value->elements.begin(), value->elements.end(),
                     [v](SymInt s) { return s.is(int64_t(v)); });
}

std::vector<NodeEntry> ReplaceIfSame(const RewriteContext& ctx, const NodePtr& n,
                                     const NodeEntry& x) {
  const NodeEntry y(n, 0);
  const DType t = ctx.dtype(x);
  if (t == DType::kUnknown || ctx.dtype(y) != t || !ctx.same_shape(y, x)) return {};
  return {x};
}
std::vector<NodeEntry> SimplifyByOne(RewriteContext& ctx, const NodePtr& n) {
  return IsUniform(ctx, n->inputs[1], 1) ? ReplaceIfSame(ctx, n, n->inputs[0])
                                         : std::vector<NodeEntry>();
}
std::vector<NodeEntry> SimplifyIdempotent(RewriteContext&, const NodePtr& n) {
  const NodeEntry x = n->inputs[0];
  if (x.node->op() != n->op() || !(x.node->attrs.dict == n->attrs.dict)) return {};
  return {x};
}
std::vector<NodeEntry> SimplifyInvolution(RewriteContext&, const NodePtr& n) {
  const NodeEntry x = n->inputs[0];
  if (x.node->op() != n->op()) return {};
  return {x.node->inputs[0]};
}

// ---- other attributes ----

FInplace InplaceOf(std::vector<int> inputs) {
  std::vector<std::pair<int, int>> pairs;
  for (int i : inputs) pairs.emplace_back(i, 0);
  return [pairs = std::move(pairs)](const NodePtr&) { return pairs; };
}
FInputDomains Domains(std::vector<InputDomain> domains) {
  return [domains = std::move(domains)](const NodePtr& n) {
    std::vector<InputDomain> out = domains;
    out.resize(n->inputs.size());
    return out;
  };
}
InputDomain Any() { return {}; }
InputDomain Positive() { return {InputDomain::kPositive}; }
InputDomain NonZero() { return {InputDomain::kNonZero}; }
InputDomain Unit() { return {InputDomain::kUnit}; }

// ---- groups ----

namespace {

/// One operation an output element: the unit in which element-wise work is counted, whatever the
/// function.
SymInt OneFlopAnElement(const NodePtr&, const std::vector<Shape>&, const std::vector<Shape>& out) {
  return out.at(0).num_elements();
}
std::vector<std::pair<int, int>> AnyInputInplace(const NodePtr& n) {
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < int(n->inputs.size()); ++i) pairs.emplace_back(i, 0);
  return pairs;
}

}  // namespace

WEFT_REGISTER_OP_GROUP(ElementwiseUnary)
    .set_attr<FInferShape>("FInferShape", UnaryShape)
    .set_attr<FInplace>("FInplace", InplaceOf({0}))
    .set_attr<FFlops>("FFlops", OneFlopAnElement);
WEFT_REGISTER_OP_GROUP(ElementwiseUnaryBool)
    .set_attr<FInferShape>("FInferShape", UnaryShape)
    .set_attr<FFlops>("FFlops", OneFlopAnElement);
WEFT_REGISTER_OP_GROUP(ElementwiseBinary)
    .set_attr<FInferShape>("FInferShape", BroadcastShape)
    .set_attr<TBroadcasts>("TBroadcasts", true)
    .set_attr<FInplace>("FInplace", InplaceOf({0, 1}))
    .set_attr<FFlops>("FFlops", OneFlopAnElement);
WEFT_REGISTER_OP_GROUP(ElementwiseBinaryBool)
    .set_attr<FInferShape>("FInferShape", BroadcastShape)
    .set_attr<TBroadcasts>("TBroadcasts", true)
    .set_attr<FFlops>("FFlops", OneFlopAnElement);
WEFT_REGISTER_OP_GROUP(ElementwiseVariadic)
    .set_attr<FInferShape>("FInferShape", BroadcastShape)
    .set_attr<TBroadcasts>("TBroadcasts", true)
    .set_attr<FInplace>("FInplace", AnyInputInplace)
    .set_attr<FFlops>("FFlops", OneFlopAnElement);

}  // namespace weft::ops
