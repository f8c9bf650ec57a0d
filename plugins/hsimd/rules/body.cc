/// body.cc: operations of expressions as operations of the ALU.
#include "body.h"

#include <cstring>
#include <limits>

#include "weft/support/check.h"

namespace hsimd {

using weft::BinOp;
using weft::DType;
using weft::ExprKind;
using weft::ExprNode;
using weft::UnOp;

uint32_t WordOf(const Expr& e) {
  switch (e->dtype()) {
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
    case DType::kBool:
      return uint32_t(e->bits());
    default: {
      const int64_t v = e->const_int();
      WEFT_CHECK(
          v >= std::numeric_limits<int32_t>::min() && v <= std::numeric_limits<int32_t>::max(),
          kUnsupported, "the constant {} does not fit a word of 32 bits", v);
      return uint32_t(int32_t(v));
    }
  }
}

VectorOp BodyBuilder::Take() {
  for (const Loop& loop : loops_) op_.counts.push_back(loop.count);
  return std::move(op_);
}

BodyOperand BodyBuilder::Step(AluOp op, std::vector<BodyOperand> operands) {
  bool constant = true;
  for (const BodyOperand& o : operands) constant &= o.kind == BodyOperand::Kind::kConstant;
  if (constant) {
    uint32_t v[3] = {};
    for (size_t i = 0; i < operands.size(); ++i) v[i] = operands[i].bits;
    return BodyOperand::Constant(ApplyAlu(op, v[0], v[1], v[2]));
  }
  op_.steps.push_back({op, std::move(operands)});
  return BodyOperand::Step(int(op_.steps.size()) - 1);
}

/// What reads indices alone is a constant of the box.
std::optional<BodyOperand> BodyBuilder::Constant(const Expr& e) const {
  if (e->kind() == ExprKind::kConst) return BodyOperand::Constant(WordOf(e));
  const bool integral = e->dtype() == DType::kBool || weft::IsInt(e->dtype());
  if (integral && e->kind() != ExprKind::kLoad && IsIndexOnly(e))
    if (const auto v = EvalIndex(e, at_)) {
      WEFT_CHECK(
          *v >= std::numeric_limits<int32_t>::min() && *v <= std::numeric_limits<int32_t>::max(),
          kUnsupported, "the value {} does not fit a word of 32 bits", *v);
      return BodyOperand::Constant(uint32_t(int32_t(*v)));
    }
  return std::nullopt;
}

/// The operands that a node's value depends on in this box.
std::vector<Expr> BodyBuilder::Needs(const Expr& e) const {
  if (e->kind() == ExprKind::kLoad) return {};
  if (e->kind() == ExprKind::kSelect) {
    const auto it = known_.find(e->operand(0).get());
    if (it == known_.end()) return {e->operand(0)};
    if (it->second.kind == BodyOperand::Kind::kConstant)
      return {e->operand(it->second.bits ? 1 : 2)};
  }
  return e->operands();
}

BodyOperand BodyBuilder::Convert(const Expr& root) {
  std::vector<Expr> stack{root};
  while (!stack.empty()) {
    const Expr e = stack.back();
    if (known_.count(e.get())) {
      stack.pop_back();
      continue;
    }
    if (const auto constant = Constant(e)) {
      known_[e.get()] = *constant;
      continue;
    }
    bool ready = true;
    for (const Expr& o : Needs(e))
      if (!known_.count(o.get())) {
        stack.push_back(o);
        ready = false;
      }
    if (!ready) continue;
    const auto in = [&](int i) { return known_.at(e->operand(i).get()); };
    BodyOperand r;
    switch (e->kind()) {
      case ExprKind::kLoad:
        r = Load(e);
        break;
      case ExprKind::kUnary:
        r = Unary(e, in(0));
        break;
      case ExprKind::kBinary:
        r = Binary(e, in(0), in(1));
        break;
      case ExprKind::kSelect:
        if (in(0).kind == BodyOperand::Kind::kConstant)
          r = in(in(0).bits ? 1 : 2);
        else
          r = in(1) == in(2) ? in(1) : Step(AluOp::kSelect, {in(0), in(1), in(2)});
        break;
      case ExprKind::kCast:
        r = Cast(e->operand(0)->dtype(), e->dtype(), in(0));
        break;
      case ExprKind::kBitcast:
        r = in(0);
        break;
      case ExprKind::kFma:
        r = Step(AluOp::kFma, {in(0), in(1), in(2)});
        break;
      default:
        WEFT_THROW(kUnsupported, "an expression that the ALU has no operation for");
    }
    known_[e.get()] = r;
  }
  return known_.at(root.get());
}

BodyOperand BodyBuilder::Load(const Expr& e) {
  if (e->has_guard()) {
    const auto inside = EvalIndex(e->operands().back(), at_);
    WEFT_CHECK(inside, kUnsupported, "a read under a condition that depends on data");
    if (!*inside) return BodyOperand::Constant(0);
  }
  std::vector<Affine> at;
  for (int d = 0; d < e->num_indices(); ++d) at.push_back(*AffineOf(e->operand(d)));
  const TileStream stream = points_.StreamOf(buffers_[size_t(e->buffer())], at, box_, loops_, at_,
                                             fmt::format("operand {}", e->buffer()));
  for (size_t i = 0; i < op_.inputs.size(); ++i)
    if (op_.inputs[i].value == stream.value && op_.inputs[i].offset == stream.offset &&
        op_.inputs[i].strides == stream.strides)
      return BodyOperand::Input(int(i));
  op_.inputs.push_back(stream);
  return BodyOperand::Input(int(op_.inputs.size()) - 1);
}

BodyOperand BodyBuilder::Unary(const Expr& e, const BodyOperand& a) {
  const bool f = e->operand(0)->dtype() == DType::kF32;
  switch (e->un_op()) {
    case UnOp::kNeg:
      return Step(f ? AluOp::kFNeg : AluOp::kINeg, {a});
    case UnOp::kNot:
      return Step(AluOp::kNot, {a});
    case UnOp::kBitNot:
      return Step(AluOp::kBitNot, {a});
    case UnOp::kAbs:
      return Step(f ? AluOp::kFAbs : AluOp::kIAbs, {a});
    case UnOp::kFloor:
      return f ? Step(AluOp::kFFloor, {a}) : a;
    case UnOp::kCeil:
      return f ? Step(AluOp::kFCeil, {a}) : a;
    case UnOp::kRound:
      return f ? Step(AluOp::kFRound, {a}) : a;
    case UnOp::kTrunc:
      return f ? Step(AluOp::kFTrunc, {a}) : a;
    case UnOp::kSqrt:
      return Step(AluOp::kFSqrt, {a});
    case UnOp::kIsNan:
      return f ? Step(AluOp::kFIsNan, {a}) : BodyOperand::Constant(0);
    case UnOp::kIsInf:
      return f ? Step(AluOp::kFIsInf, {a}) : BodyOperand::Constant(0);
    case UnOp::kUnlikely:
      return a;
  }
  return a;
}

BodyOperand BodyBuilder::Binary(const Expr& e, const BodyOperand& a, const BodyOperand& b) {
  const DType t = e->operand(0)->dtype();
  const bool f = t == DType::kF32, u = t == DType::kU32;
  const auto either = [&](AluOp of_f, AluOp of_i) { return Step(f ? of_f : of_i, {a, b}); };
  const auto less = [&](const BodyOperand& x, const BodyOperand& y) {
    return Step(f ? AluOp::kFLess : u ? AluOp::kULess : AluOp::kILess, {x, y});
  };
  const auto less_equal = [&](const BodyOperand& x, const BodyOperand& y) {
    return Step(f ? AluOp::kFLessEqual : u ? AluOp::kULessEqual : AluOp::kILessEqual, {x, y});
  };
  switch (e->bin_op()) {
    case BinOp::kAdd:
      return either(AluOp::kFAdd, AluOp::kIAdd);
    case BinOp::kSub:
      return either(AluOp::kFSub, AluOp::kISub);
    case BinOp::kMul:
      return either(AluOp::kFMul, AluOp::kIMul);
    case BinOp::kDiv:
      if (!u) return either(AluOp::kFDiv, AluOp::kIDiv);
      break;
    case BinOp::kMod:
      if (!u) return either(AluOp::kFMod, AluOp::kIMod);
      break;
    case BinOp::kFloorDiv:
      if (!f && !u) return Step(AluOp::kIFloorDiv, {a, b});
      break;
    case BinOp::kFloorMod:
      if (!f && !u) return Step(AluOp::kIFloorMod, {a, b});
      break;
    case BinOp::kMin:
      if (u) return Step(AluOp::kSelect, {less(a, b), a, b});
      return either(AluOp::kFMin, AluOp::kIMin);
    case BinOp::kMax:
      if (u) return Step(AluOp::kSelect, {less(a, b), b, a});
      return either(AluOp::kFMax, AluOp::kIMax);
    case BinOp::kAnd:
      return Step(AluOp::kAnd, {a, b});
    case BinOp::kOr:
      return Step(AluOp::kOr, {a, b});
    case BinOp::kXor:
      return Step(AluOp::kXor, {a, b});
    case BinOp::kShl:
      return Step(AluOp::kIShl, {a, b});
    case BinOp::kShr:
      return Step(u ? AluOp::kUShr : AluOp::kIShr, {a, b});
    case BinOp::kLt:
      return less(a, b);
    case BinOp::kLe:
      return less_equal(a, b);
    case BinOp::kGt:
      return less(b, a);
    case BinOp::kGe:
      return less_equal(b, a);
    case BinOp::kEq:
      return either(AluOp::kFEqual, AluOp::kIEqual);
    case BinOp::kNe:
      return either(AluOp::kFNotEqual, AluOp::kINotEqual);
  }
  WEFT_THROW(kUnsupported, "the ALU divides signed integers alone, the operator others");
}

BodyOperand BodyBuilder::Cast(DType from, DType to, const BodyOperand& a) {
  const bool from_f = from == DType::kF32, to_f = to == DType::kF32;
  if (from == to) return a;
  if (to == DType::kU8) {
    const BodyOperand whole = from == DType::kF32 ? Step(AluOp::kF2I, {a}) : a;
    return from == DType::kBool ? a : Step(AluOp::kAnd, {whole, BodyOperand::Constant(0xff)});
  }
  if (to == DType::kBool) return Step(from_f ? AluOp::kF2Bool : AluOp::kI2Bool, {a});
  if (from_f) {
    WEFT_CHECK(to != DType::kU32, kUnsupported, "conversion of f32 to u32");
    return Step(AluOp::kF2I, {a});
  }
  if (to_f) {
    WEFT_CHECK(from != DType::kU32, kUnsupported, "conversion of u32 to f32");
    return Step(AluOp::kI2F, {a});
  }
  return a;
}

}  // namespace hsimd
