/// shape_util.cc: axes, followed values, index expressions and gradient pieces shared by op files
/// (shape_util.h).
#include "shape_util.h"

#include <algorithm>

#include "holds.h"
#include "weft/core/gradient/gradient.h"
#include "weft/support/check.h"

namespace weft::ops {

// ---- inference ----

int AxisOf(int64_t axis, int rank, const NodePtr& node) {
  WEFT_CHECK(axis >= -rank && axis < rank, kBadAttribute,
             "{}: axis {} out of range [{}, {}) for rank {}", node->Describe(), axis, -rank, rank,
             rank);
  return int(axis < 0 ? axis + rank : axis);
}

std::vector<int> NormalizeAxes(const std::vector<int64_t>& axes, int rank, const NodePtr& node) {
  std::vector<int> out;
  for (int64_t a : axes) {
    const int axis = AxisOf(a, rank, node);
    WEFT_CHECK(std::find(out.begin(), out.end(), axis) == out.end(), kBadAttribute,
               "{}: axis {} is given twice", node->Describe(), a);
    out.push_back(axis);
  }
  return out;
}

std::optional<std::vector<int64_t>> InputInts(InferShapeContext& ctx, int i) {
  if (i >= ctx.num_inputs() || !ctx.has_input(i)) return std::nullopt;
  const SymTensorPtr v = InputValue(ctx, i);
  if (!v || !v->is_const()) return std::nullopt;
  return v->ints();
}

bool CheckRank(InferShapeContext& ctx, int i, int rank, const char* what) {
  if (!ctx.in(i).has_rank()) return false;
  WEFT_CHECK(ctx.in(i).rank() == rank, kShapeMismatch,
             "{}: {} (input {}) must have rank {}, got {}", ctx.node()->Describe(), what, i, rank,
             ctx.in(i).ToString());
  return true;
}

std::optional<int64_t> VectorLength(InferShapeContext& ctx, int i) {
  if (const SymTensorPtr v = InputValue(ctx, i)) return int64_t(v->elements.size());
  const Shape& s = ctx.in(i);
  if (!s.has_rank()) return std::nullopt;
  if (s.rank() == 0) return 1;
  if (s.rank() != 1 || !s[0].known() || !s[0].is_const()) return std::nullopt;
  return s[0].value();
}

SymInt UnifyDims(InferShapeContext& ctx, SymInt a, SymInt b, const char* what) {
  if (!a.known()) return b;
  if (!b.known() || a == b) return a;
  if (a.is_const() && b.is_const()) {
    WEFT_THROW(kShapeMismatch, "{}: {} must agree, got {} and {}", ctx.node()->Describe(), what,
               a.value(), b.value());
  }
  WEFT_CHECK(ctx.facts().AddEqual(a, b), kShapeMismatch, "{}: {} must agree, but {} cannot be {}",
             ctx.node()->Describe(), what, a.ToString(), b.ToString());
  return b.size() < a.size() || b.is_const() ? b : a;
}

SymInt MinOf(SymInt a, SymInt b, const Facts& facts) {
  if (!a.known() || !b.known()) return SymInt();
  if (facts.LessEqual(a, b) == Proof::kYes) return a;
  if (facts.LessEqual(b, a) == Proof::kYes) return b;
  return Min(a, b);
}
SymInt MaxOf(SymInt a, SymInt b, const Facts& facts) {
  if (!a.known() || !b.known()) return SymInt();
  if (facts.LessEqual(a, b) == Proof::kYes) return b;
  if (facts.LessEqual(b, a) == Proof::kYes) return a;
  return Max(a, b);
}
int SignOf(SymInt e, const Facts& facts) {
  if (!e.known()) return 0;
  const Range r = facts.RangeOf(e);
  return r.lo >= 0 ? 1 : r.hi < 0 ? -1 : 0;
}

namespace {

/// The element that `at` follows; unknown where it throws kOverflow, since data wraps at 64 bits.
/// Returned, not assigned in the try block: GCC 12 takes such an assignment for done where it
/// threw, and leaves the variable undefined.
SymInt FollowedOrUnknown(const std::function<SymInt(int64_t)>& at, int64_t i) {
  try {
    return at(i);
  } catch (const UserError& error) {
    if (error.code() != ErrorCode::kOverflow) throw;
    return SymInt();
  }
}

}  // namespace

/// What the dtype cannot hold, or `at` throws kOverflow for, is unknown: such data wraps.
void SetValue(InferShapeContext& ctx, int k, const Shape& shape,
              const std::function<SymInt(int64_t)>& at) {
  if (!shape.is_static()) return;
  SymTensor v;
  v.dims = shape.ints();
  int64_t count = 1;
  for (int64_t d : v.dims) {
    if (d > kMaxSymTensor) return;
    count *= d;
    if (count > kMaxSymTensor) return;
  }
  const DType t = ctx.out_type(k).dtype;
  bool any = count == 0;
  for (int64_t i = 0; i < count; ++i) {
    SymInt e = FollowedOrUnknown(at, i);
    if (e.known() && t != DType::kUnknown && !Holds(t, e, ctx.facts())) e = SymInt();
    v.elements.push_back(e);
    any = any || e.known();
  }
  if (any) ctx.set_out_value(k, std::move(v));
}

void Unknown(InferShapeContext& ctx, int k, std::string reason) {
  ctx.explain(k, std::move(reason));
}

Shape ShapeFromInput(InferShapeContext& ctx, int i) {
  if (ctx.in(i).has_rank()) CheckRank(ctx, i, 1, "a shape");
  const SymTensorPtr v = InputValue(ctx, i);
  if (!v) {
    const auto length = VectorLength(ctx, i);
    if (!length || *length > 64) {
      Unknown(ctx, 0, fmt::format("neither the value nor the length of input {} is known", i));
      return Shape();
    }
    std::vector<SymInt> dims;
    for (int64_t k = 0; k < *length; ++k) dims.push_back(ctx.unbacked(int(k)));
    return Shape(std::move(dims));
  }
  std::vector<SymInt> dims = v->elements;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (!dims[k].known()) dims[k] = ctx.unbacked(int(k));
    WEFT_CHECK(!dims[k].is_const() || dims[k].value() >= 0, kShapeMismatch,
               "{}: dimension {} in the shape given by input {}", ctx.node()->Describe(),
               dims[k].value(), i);
  }
  return Shape(std::move(dims));
}

FInferType TypeOfDataInput(DTypeSet set, std::vector<int> index_inputs) {
  return [set, index_inputs = std::move(index_inputs)](InferTypeContext& ctx) {
    CheckInputType(ctx, 0, set);
    for (int i : index_inputs) CheckInputType(ctx, i, kIndexTypes);
    if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
  };
}

FInferShape ShapeOfValueInput(int i) {
  return [i](InferShapeContext& ctx) {
    const Shape s = ShapeFromInput(ctx, i);
    if (s.has_rank()) ctx.set_out(0, s);
  };
}

// ---- code ----

std::vector<int64_t> KnownInts(const NodePtr& node, const TensorArg& arg, const char* what) {
  WEFT_CHECK(arg.value && arg.value->is_const(), kUnsupported,
             "{}: {} must be known at compile time", node->Describe(), what);
  return arg.value->ints();
}

Expr ElementI64(const TensorArg& arg, int64_t i) {
  if (arg.value && i < int64_t(arg.value->elements.size()) &&
      arg.value->elements[size_t(i)].known())
    return Expr::Dim(arg.value->elements[size_t(i)]);
  WEFT_CHECK(arg.rank() <= 1, kShapeMismatch, "expected a scalar or a vector, got {}",
             arg.shape.ToString());
  const Expr e = arg.rank() == 0 ? arg({}) : arg({Expr::Int(i)});
  return Expr::Cast(DType::kI64, e);
}

Expr WrapIndex(const Expr& index, const Expr& extent) {
  const Expr i = Expr::Cast(DType::kI64, index);
  return Expr::Select(Lt(i, Expr::Int(0)), i + extent, i);
}

Expr InRange(const Expr& i, const Expr& n) { return And(Le(Expr::Int(0), i), Lt(i, n)); }

Expr ReduceOver(ReduceOp op, const std::vector<SymInt>& extents,
                const std::function<Expr(const Indices&)>& body) {
  if (extents.empty()) return body({});
  return Expr::Reduce(op, extents, body);
}

Expr SumOver(const std::vector<SymInt>& extents, const std::function<Expr(const Indices&)>& body) {
  DType storage = DType::kUnknown;
  const Expr sum = ReduceOver(ReduceOp::kSum, extents, [&](const Indices& r) {
    const Expr e = body(r);
    storage = e->dtype();
    return Expr::Cast(AccumulatorOf(storage), e);
  });
  return Expr::Cast(storage, sum);
}

namespace {

/// Adds `condition` to the guard of every load in `value`, but for those that the condition itself
/// reads: they are read whatever it says (the position that an index tensor names).
Expr GuardLoads(const Expr& value, const Expr& condition) {
  const std::vector<const ExprNode*> asked = PostOrder({condition});
  return RewriteExpr(value, [&](const Expr& e) -> Expr {
    if (e->kind() != ExprKind::kLoad) return {};
    if (std::find(asked.begin(), asked.end(), e.get()) != asked.end()) return e;
    const int rank = e->num_indices();
    const Indices at(e->operands().begin(), e->operands().begin() + rank);
    return Expr::Load(e->buffer(), e->dtype(), at,
                      e->has_guard() ? And(condition, e->operand(rank)) : condition);
  });
}

}  // namespace

Expr ReadWhere(const Expr& condition, const Expr& value, const Expr& otherwise) {
  if (condition->kind() == ExprKind::kConst) return condition->const_int() ? value : otherwise;
  return Expr::Select(condition, GuardLoads(value, condition), otherwise);
}
Expr ReadEither(const Expr& condition, const Expr& yes, const Expr& no) {
  if (condition->kind() == ExprKind::kConst) return condition->const_int() ? yes : no;
  return Expr::Select(condition, GuardLoads(yes, condition), GuardLoads(no, Not(condition)));
}

Expr CountOf(const std::vector<SymInt>& extents, DType t) {
  return Expr::Cast(t, Expr::Dim(Product(extents)));
}

// ---- gradients ----

NodeEntry ShapeOf(const NodeEntry& x) { return ApplyOp("Shape", {x}); }
NodeEntry ReshapeLike(const NodeEntry& dy, const NodeEntry& x) {
  return ApplyOp("Reshape", {dy, ShapeOf(x)}, {{"allowzero", 1}});
}
NodeEntry ExpandLike(const NodeEntry& dy, const NodeEntry& x) {
  return ApplyOp("Expand", {dy, ShapeOf(x)});
}
NodeEntry ZerosLike(const NodeEntry& x) {
  // Rules know no dtypes: the cast goes when they are known.
  return ApplyOp("CastLike", {ApplyOp(builtin::kZeros, {ShapeOf(x)}, {{"dtype", DType::kF32}}), x});
}

std::vector<NodeEntry> MaterializeGrads(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  std::vector<NodeEntry> out = dy;
  out.resize(n->num_outputs());
  for (uint32_t k = 0; k < out.size(); ++k) {
    if (!out[k]) out[k] = ZerosLike(NodeEntry(n, k));
  }
  return out;
}
bool AllNull(const std::vector<NodeEntry>& dy) {
  return std::none_of(dy.begin(), dy.end(), [](const NodeEntry& e) { return bool(e); });
}
AttrDict AttrsOf(const NodePtr& n) { return n->attrs.dict; }

}  // namespace weft::ops
