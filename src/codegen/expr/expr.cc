/// expr.cc: the makers of expressions: typing, literals, identities, order of commutative operands.
///
/// Identities are those that hold for every value, NaN and signed zeros included. Operands of
/// commutative operations are ordered (constants last, variables by number and name, others by
/// structural hash), which is exact in floating point and lets a + b and b + a be one node; nothing
/// is ever re-associated but integer constants.
#include "weft/codegen/expr/expr.h"

#include <algorithm>
#include <utility>

#include "expr_pool.h"
#include "scalar.h"
#include "weft/support/check.h"

namespace weft {
namespace {

using Spec = ExprPool::Spec;

bool IsConst(const Expr& e) { return e->kind() == ExprKind::kConst; }
bool IsIntConst(const Expr& e, int64_t v) {
  return IsConst(e) && !e->is_literal() && !IsFloat(e->dtype()) && e->const_int() == v;
}
Expr MakeNode(ExprKind kind, DType t, uint64_t payload, Exprs operands) {
  Spec s;
  s.kind = kind;
  s.dtype = t;
  s.payload = payload;
  s.operands = std::move(operands);
  return ExprPool::Intern(std::move(s));
}

/// The literal as a constant of type t; an integer type takes integers only.
Expr Resolve(const Expr& literal, DType t) {
  if (!literal->is_literal()) return literal;
  const double v = literal->const_value();
  if (!IsFloat(t)) {
    WEFT_CHECK(v == std::trunc(v), kTypeMismatch, "literal {} used where {} is expected", v,
               DTypeName(t));
    return Expr::ConstInt(t, scalar::DoubleToInt(t == DType::kBool ? DType::kI64 : t, v));
  }
  return Expr::Const(t, v);
}
Expr ResolveAlone(const Expr& e) { return Resolve(e, DType::kF32); }

void CheckPresent(const Expr& e, const char* what) {
  WEFT_ICHECK(bool(e), "null operand of {}", what);
}

const char* Name(BinOp op) {
  static constexpr const char* kNames[] = {
      "add", "sub", "mul", "div", "mod", "floordiv", "floormod", "min", "max", "and",
      "or",  "xor", "shl", "shr", "lt",  "le",       "gt",       "ge",  "eq",  "ne"};
  return kNames[int(op)];
}

/// True when a goes behind b.
bool OutOfOrder(const Expr& a, const Expr& b) {
  if (IsConst(a) != IsConst(b)) return IsConst(a);
  const bool variables = a->kind() == ExprKind::kVariable && b->kind() == ExprKind::kVariable;
  if (variables && a->slot() != b->slot()) return b->slot() < a->slot();
  if (variables && a->name() != b->name()) return b->name() < a->name();
  return b->hash() < a->hash();
}

/// Values of this node are certainly rounded to its dtype (f16 arithmetic results are not).
bool IsRounded(const Expr& e) {
  if (!IsNarrowFloat(e->dtype())) return true;
  return e->kind() == ExprKind::kLoad || e->kind() == ExprKind::kCast ||
         e->kind() == ExprKind::kConst;
}

}  // namespace

Expr Expr::ConstBits(DType t, uint64_t bits) {
  WEFT_ICHECK(IsComputable(t), "constant of type {}", DTypeName(t));
  if (t == DType::kBool) bits = bits != 0;
  const int width = DTypeBits(t);
  if (t != DType::kBool && width < 64) bits &= (uint64_t{1} << width) - 1;
  return MakeNode(ExprKind::kConst, t, bits, {});
}
Expr Expr::Const(DType t, double v) { return ConstBits(t, scalar::DoubleToBits(t, v)); }
Expr Expr::ConstInt(DType t, int64_t v) {
  if (IsFloat(t)) return Const(t, scalar::IntToFloat(DType::kI64, v, t));
  return ConstBits(t, uint64_t(v));
}
Expr Expr::Literal(double v) {
  Spec s;
  s.kind = ExprKind::kConst;
  s.dtype = DType::kF32;
  s.literal = true;
  s.payload = scalar::BitCast<uint64_t>(v);
  return ExprPool::Intern(std::move(s));
}

Expr Expr::Dim(SymInt d) {
  WEFT_ICHECK(d.known(), "an unknown dimension has no value");
  if (d.is_const()) return Int(d.value());
  Spec s;
  s.kind = ExprKind::kDim;
  s.dtype = DType::kI64;
  s.dim = d;
  return ExprPool::Intern(std::move(s));
}
Expr Expr::Index(int k) {
  WEFT_ICHECK(k >= 0 && k < kTempLevel, "index {}", k);
  return MakeNode(ExprKind::kIndex, DType::kI64, uint64_t(k), {});
}
Expr Expr::Variable(std::string name, DType t) {
  Spec s;
  s.kind = ExprKind::kVariable;
  s.dtype = t;
  s.name = std::move(name);
  return ExprPool::Intern(std::move(s));
}

Expr Expr::Slot(int k, DType t) {
  WEFT_ICHECK(k >= 0, "slot {}", k);
  return MakeNode(ExprKind::kVariable, t, uint64_t(k) + 1, {});
}

Expr Expr::Load(int buffer, DType t, Indices at, Expr guard) {
  WEFT_ICHECK(buffer >= 0, "buffer {}", buffer);
  for (Expr& i : at) {
    CheckPresent(i, "load");
    i = Resolve(i, DType::kI64);
    WEFT_ICHECK(i->dtype() == DType::kI64, "index of type {}", DTypeName(i->dtype()));
  }
  if (guard && IsConst(guard)) {
    if (IsIntConst(guard, 0)) return ConstInt(t, 0);
    guard = {};
  }
  Spec s;
  s.kind = ExprKind::kLoad;
  s.dtype = t;
  s.guard = bool(guard);
  s.payload = uint64_t(buffer);
  s.operands = std::move(at);
  if (guard) {
    WEFT_ICHECK(guard->dtype() == DType::kBool, "guard of type {}", DTypeName(guard->dtype()));
    s.operands.push_back(std::move(guard));
  }
  return ExprPool::Intern(std::move(s));
}

Expr Expr::Unary(UnOp op, Expr a) {
  CheckPresent(a, "unary");
  const DType t = a->dtype();
  const bool predicate = op == UnOp::kIsNan || op == UnOp::kIsInf;
  if (op == UnOp::kNot || op == UnOp::kBitNot)
    WEFT_CHECK(op == UnOp::kNot ? t == DType::kBool : IsInt(t), kTypeMismatch, "not of {}",
               DTypeName(t));
  if (op == UnOp::kUnlikely)
    WEFT_CHECK(t == DType::kBool, kTypeMismatch, "unlikely of {}", DTypeName(t));
  if (op == UnOp::kSqrt) WEFT_CHECK(IsFloat(t), kTypeMismatch, "sqrt of {}", DTypeName(t));
  if (Expr folded = FoldUnary(op, a)) return folded;
  if (!IsFloat(t)) {
    if (predicate) return Bool(false);
    if (op >= UnOp::kFloor && op <= UnOp::kTrunc) return a;
    if (op == UnOp::kAbs && !IsSigned(t)) return a;
  }
  if (a->kind() == ExprKind::kUnary) {
    const UnOp inner = a->un_op();
    if (inner == op && (op == UnOp::kNeg || op == UnOp::kNot || op == UnOp::kBitNot))
      return a->operand(0);
    if (inner == op && (op >= UnOp::kAbs && op <= UnOp::kTrunc) && inner != UnOp::kSqrt) return a;
    if (op == UnOp::kAbs && inner == UnOp::kNeg) return Unary(UnOp::kAbs, a->operand(0));
  }
  // Equality is the only comparison whose negation is a comparison for NaN too.
  if (op == UnOp::kNot && a->kind() == ExprKind::kBinary) {
    if (a->bin_op() == BinOp::kEq) return Binary(BinOp::kNe, a->operand(0), a->operand(1));
    if (a->bin_op() == BinOp::kNe) return Binary(BinOp::kEq, a->operand(0), a->operand(1));
  }
  return MakeNode(ExprKind::kUnary, predicate ? DType::kBool : t, uint64_t(op), {std::move(a)});
}

Expr Expr::Binary(BinOp op, Expr a, Expr b) {
  CheckPresent(a, "binary");
  CheckPresent(b, "binary");
  if (a->is_literal() != b->is_literal()) {
    a = Resolve(a, b->dtype());
    b = Resolve(b, a->dtype());
  }
  const DType t = a->dtype();
  WEFT_CHECK(t == b->dtype(), kTypeMismatch, "{} of {} and {}", Name(op), DTypeName(t),
             DTypeName(b->dtype()));
  if (op == BinOp::kFloorDiv || op == BinOp::kFloorMod || op == BinOp::kShl || op == BinOp::kShr)
    WEFT_CHECK(IsInt(t) && !a->is_literal(), kTypeMismatch, "{} of {}", Name(op), DTypeName(t));
  if (op == BinOp::kAnd || op == BinOp::kOr || op == BinOp::kXor)
    WEFT_CHECK(!IsFloat(t), kTypeMismatch, "{} of {}", Name(op), DTypeName(t));
  if (op <= BinOp::kMod) WEFT_CHECK(t != DType::kBool, kTypeMismatch, "{} of bool", Name(op));
  if (Expr folded = FoldBinary(op, a, b)) return folded;
  if (scalar::IsCommutative(op) && OutOfOrder(a, b)) std::swap(a, b);
  if (!a->is_literal()) {
    if (Expr simpler = SimplifyBinary(op, a, b)) return simpler;
  }
  return MakeNode(ExprKind::kBinary, scalar::IsCompare(op) ? DType::kBool : t, uint64_t(op),
                  {std::move(a), std::move(b)});
}

Expr Expr::Select(Expr cond, Expr a, Expr b) {
  CheckPresent(cond, "select");
  CheckPresent(a, "select");
  CheckPresent(b, "select");
  cond = Resolve(cond, DType::kBool);
  WEFT_CHECK(cond->dtype() == DType::kBool, kTypeMismatch, "condition of type {}",
             DTypeName(cond->dtype()));
  if (IsConst(cond)) {
    // The dropped branch still gives a literal its type.
    Expr &kept = cond->bits() ? a : b, &dropped = cond->bits() ? b : a;
    return dropped->is_literal() ? kept : Resolve(kept, dropped->dtype());
  }
  if (a->is_literal() && b->is_literal()) {
    if (a == b) return a;
    a = ResolveAlone(a);
    b = ResolveAlone(b);
  }
  a = Resolve(a, b->dtype());
  b = Resolve(b, a->dtype());
  const DType t = a->dtype();
  WEFT_CHECK(t == b->dtype(), kTypeMismatch, "select of {} and {}", DTypeName(t),
             DTypeName(b->dtype()));
  if (a == b) return a;
  if (cond->kind() == ExprKind::kUnary && cond->un_op() == UnOp::kNot) {
    cond = cond->operand(0);
    std::swap(a, b);
  }
  if (t == DType::kBool && IsIntConst(a, 1) && IsIntConst(b, 0)) return cond;
  if (t == DType::kBool && IsIntConst(a, 0) && IsIntConst(b, 1)) return Unary(UnOp::kNot, cond);
  return MakeNode(ExprKind::kSelect, t, 0, {std::move(cond), std::move(a), std::move(b)});
}

Expr Expr::Cast(DType t, Expr a) {
  CheckPresent(a, "cast");
  WEFT_CHECK(IsComputable(t), kTypeMismatch, "cast to {}", DTypeName(t));
  if (Expr folded = FoldCast(t, a)) return folded;
  const DType from = a->dtype();
  if (from == t && IsRounded(a)) return a;
  if (a->kind() == ExprKind::kCast) {
    const Expr& x = a->operand(0);
    // Widening first loses nothing: cast x at once. Integers that went through a float would
    // saturate, not wrap.
    const bool same_world =
        IsFloat(from) == IsFloat(x->dtype()) || CastIsLossless(x->dtype(), t) || t == DType::kBool;
    if (CastIsLossless(x->dtype(), from) && same_world && IsRounded(x)) return Cast(t, x);
  }
  if (t == DType::kBool && !IsNarrowFloat(from)) return Binary(BinOp::kNe, a, ConstInt(from, 0));
  return MakeNode(ExprKind::kCast, t, 0, {std::move(a)});
}

Expr Expr::Bitcast(DType t, Expr a) {
  CheckPresent(a, "bitcast");
  a = ResolveAlone(a);
  WEFT_CHECK(DTypeBits(t) == DTypeBits(a->dtype()), kTypeMismatch, "bitcast of {} to {}",
             DTypeName(a->dtype()), DTypeName(t));
  if (a->dtype() == t) return a;
  if (IsConst(a)) return ConstBits(t, a->bits());
  if (a->kind() == ExprKind::kBitcast) return Bitcast(t, a->operand(0));
  return MakeNode(ExprKind::kBitcast, t, 0, {std::move(a)});
}

Expr Expr::Fma(Expr a, Expr b, Expr c) {
  CheckPresent(a, "fma");
  CheckPresent(b, "fma");
  CheckPresent(c, "fma");
  const DType t = !a->is_literal() ? a->dtype() : !b->is_literal() ? b->dtype() : c->dtype();
  a = Resolve(a, t);
  b = Resolve(b, t);
  c = Resolve(c, t);
  WEFT_CHECK((t == DType::kF32 || t == DType::kF64) && b->dtype() == t && c->dtype() == t,
             kTypeMismatch, "fma of {}, {} and {}", DTypeName(t), DTypeName(b->dtype()),
             DTypeName(c->dtype()));
  if (IsConst(a) && IsConst(b) && IsConst(c)) {
    const double x = a->const_value(), y = b->const_value(), z = c->const_value();
    return Const(t, t == DType::kF32 ? std::fma(float(x), float(y), float(z)) : std::fma(x, y, z));
  }
  if (OutOfOrder(a, b)) std::swap(a, b);
  return MakeNode(ExprKind::kFma, t, 0, {std::move(a), std::move(b), std::move(c)});
}

Expr Expr::Call(CallOp op, Exprs args) {
  WEFT_ICHECK(args.size() == (op == CallOp::kPow ? 2u : 1u), "call with {} arguments", args.size());
  for (const Expr& a : args) CheckPresent(a, "call");
  if (args.size() == 2 && args[0]->is_literal() != args[1]->is_literal()) {
    args[0] = Resolve(args[0], args[1]->dtype());
    args[1] = Resolve(args[1], args[0]->dtype());
  }
  const DType t = args[0]->dtype();
  WEFT_CHECK((t == DType::kF32 || t == DType::kF64) && args.back()->dtype() == t, kTypeMismatch,
             "math function of {} (cast f16 and integers to f32 first)",
             DTypeName(args.back()->dtype()));
  if (Expr folded = FoldCall(op, args)) return folded;
  return MakeNode(ExprKind::kCall, t, uint64_t(op), std::move(args));
}

Expr Expr::Philox(Expr seed, Expr counter) {
  CheckPresent(seed, "philox");
  CheckPresent(counter, "philox");
  seed = Resolve(seed, DType::kU64);
  counter = Resolve(counter, DType::kU64);
  WEFT_CHECK(seed->dtype() == DType::kU64 && counter->dtype() == DType::kU64, kTypeMismatch,
             "philox takes a u64 seed and a u64 counter");
  return MakeNode(ExprKind::kPhilox, DType::kU32, 0, {std::move(seed), std::move(counter)});
}

Expr Expr::Reduce(ReduceOp op, const std::vector<SymInt>& extents,
                  const std::function<Expr(const Indices&)>& body) {
  // One element, or none to run over: the element itself. Templates count on what is
  // left being a loop.
  const bool single = std::all_of(extents.begin(), extents.end(), [](SymInt e) { return e.is(1); });
  if (single && op != ReduceOp::kArgMin && op != ReduceOp::kArgMax) {
    Expr element = body(Indices(extents.size(), Int(0)));
    CheckPresent(element, "reduce");
    return ResolveAlone(element);
  }
  TempScope scope;
  const uint32_t first = scope.Take(extents.size());
  Indices variables;
  for (size_t i = 0; i < extents.size(); ++i)
    variables.push_back(ExprPool::Temp(first + uint32_t(i), int(i)));
  Expr open = body(variables);
  CheckPresent(open, "reduce");
  return ExprPool::CloseReduce(op, extents, ResolveAlone(open), first);
}

Expr ExprPool::Remake(const ExprNode& n, Exprs o) {
  if (o == n.operands()) return FromNode(&n);
  switch (n.kind()) {
    case ExprKind::kLoad: {
      Expr guard;
      if (n.has_guard()) {
        guard = o.back();
        o.pop_back();
      }
      return Expr::Load(n.buffer(), n.dtype(), std::move(o), std::move(guard));
    }
    case ExprKind::kUnary:
      return Expr::Unary(n.un_op(), o[0]);
    case ExprKind::kBinary:
      return Expr::Binary(n.bin_op(), o[0], o[1]);
    case ExprKind::kSelect:
      return Expr::Select(o[0], o[1], o[2]);
    case ExprKind::kCast:
      return Expr::Cast(n.dtype(), o[0]);
    case ExprKind::kBitcast:
      return Expr::Bitcast(n.dtype(), o[0]);
    case ExprKind::kFma:
      return Expr::Fma(o[0], o[1], o[2]);
    case ExprKind::kCall:
      return Expr::Call(n.call(), std::move(o));
    case ExprKind::kPhilox:
      return Expr::Philox(o[0], o[1]);
    default:
      WEFT_ICHECK(o.empty(), "operands of a leaf");
      return FromNode(&n);
  }
}

Expr operator+(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kAdd, a, b); }
Expr operator-(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kSub, a, b); }
Expr operator*(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kMul, a, b); }
Expr operator/(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kDiv, a, b); }
Expr operator-(const Expr& a) { return Expr::Unary(UnOp::kNeg, a); }
Expr Min(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kMin, a, b); }
Expr Max(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kMax, a, b); }
Expr Lt(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kLt, a, b); }
Expr Le(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kLe, a, b); }
Expr Eq(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kEq, a, b); }
Expr Ne(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kNe, a, b); }
Expr And(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kAnd, a, b); }
Expr Or(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kOr, a, b); }
Expr Not(const Expr& a) { return Expr::Unary(UnOp::kNot, a); }

}  // namespace weft
