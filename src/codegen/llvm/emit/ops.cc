/// ops.cc: operations on registers, with the semantics that expr.h gives them.
///
/// LLVM leaves undefined what the expression language defines (division by zero, shifts by the
/// width, conversions out of range); each such operation is guarded here by selects, which cost one
/// or two instructions a vector.
#include <cmath>
#include <cstring>

#include "emitter.h"
#include "weft/support/check.h"

namespace weft::llvmgen {
namespace {

using llvm::Intrinsic::ID;

bool IsBoolValue(llvm::Value* v) { return v->getType()->getScalarSizeInBits() == 1; }

}  // namespace

llvm::Value* Emitter::EmitConst(const ExprNode& n) {
  const DType t = n.dtype();
  if (t == DType::kF64) {
    return llvm::ConstantFP::get(
        context_, llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, n.bits())));
  }
  if (IsFloat(t)) {
    // By bits: a NaN keeps its payload and sign.
    const float v = WidenFloat(t, uint32_t(n.bits()));
    uint32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    return llvm::ConstantFP::get(context_,
                                 llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, bits)));
  }
  return llvm::ConstantInt::get(RegisterType(t), t == DType::kBool ? n.bits() != 0 : n.bits());
}

llvm::Value* Emitter::EmitUnary(UnOp op, DType t, llvm::Value* a) {
  const bool f = IsFloat(t);
  const auto intrinsic = [&](ID id) { return ir_.CreateUnaryIntrinsic(id, a); };
  switch (op) {
    case UnOp::kNeg:
      return f ? ir_.CreateFNeg(a) : ir_.CreateNeg(a);
    case UnOp::kNot:
      if (IsBoolValue(a)) return ir_.CreateNot(a);
      return ir_.CreateICmpEQ(a, llvm::Constant::getNullValue(a->getType()));
    case UnOp::kBitNot:
      return ir_.CreateNot(a);
    case UnOp::kAbs:
      if (f) return intrinsic(llvm::Intrinsic::fabs);
      if (!IsSigned(t)) return a;
      return ir_.CreateSelect(ir_.CreateICmpSLT(a, llvm::Constant::getNullValue(a->getType())),
                              ir_.CreateNeg(a), a);
    case UnOp::kFloor:
      return f ? intrinsic(llvm::Intrinsic::floor) : a;
    case UnOp::kCeil:
      return f ? intrinsic(llvm::Intrinsic::ceil) : a;
    case UnOp::kRound:
      return f ? intrinsic(llvm::Intrinsic::roundeven) : a;
    case UnOp::kTrunc:
      return f ? intrinsic(llvm::Intrinsic::trunc) : a;
    case UnOp::kSqrt:
      return f ? intrinsic(llvm::Intrinsic::sqrt) : a;
    case UnOp::kIsNan:
      if (!f) return Splat(ir_.getFalse(), LanesOf(a));
      return ir_.CreateFCmpUNO(a, a);
    case UnOp::kIsInf:
      if (!f) return Splat(ir_.getFalse(), LanesOf(a));
      return ir_.CreateFCmpOEQ(intrinsic(llvm::Intrinsic::fabs),
                               llvm::ConstantFP::getInfinity(a->getType()));
    case UnOp::kUnlikely:
      return a;
  }
  WEFT_ICHECK(false, "unary operation {}", int(op));
}

llvm::Value* Emitter::EmitMinMax(bool max, DType t, llvm::Value* a, llvm::Value* b) {
  if (!IsFloat(t)) {
    if (IsBoolValue(a)) return max ? ir_.CreateOr(a, b) : ir_.CreateAnd(a, b);
    const bool s = IsSigned(t);
    const ID id = max ? (s ? llvm::Intrinsic::smax : llvm::Intrinsic::umax)
                      : (s ? llvm::Intrinsic::smin : llvm::Intrinsic::umin);
    return ir_.CreateBinaryIntrinsic(id, a, b);
  }
  // `b > a ? b : a` is one instruction and gives a where either is NaN; only a NaN in b needs a
  // repair.
  llvm::Value* m = ir_.CreateSelect(max ? ir_.CreateFCmpOGT(b, a) : ir_.CreateFCmpOLT(b, a), b, a);
  auto* c = llvm::dyn_cast<llvm::Constant>(b);
  if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
  if (auto* constant = llvm::dyn_cast_or_null<llvm::ConstantFP>(c); constant && !constant->isNaN())
    return m;
  return ir_.CreateSelect(ir_.CreateFCmpUNO(b, b), b, m);
}

/// LLVM 19 takes a lane of a quotient for zero where both its operands are known to be, as those of
/// lanes that are not read are, and leaves out the selection that is there for it: 0 / 0 shows as
/// NaN. What is behind a fence is not known.
llvm::Value* Emitter::EmitQuotient(bool remainder, llvm::Value* a, llvm::Value* b) {
  const auto may_have_zeros = [](llvm::Value* v) {
    const auto* c = llvm::dyn_cast<llvm::Constant>(v);
    if (!c) return true;
    for (unsigned i = 0; i < unsigned(LanesOf(v)); ++i) {
      const auto* lane = llvm::dyn_cast_or_null<llvm::ConstantFP>(c->getAggregateElement(i));
      if (!lane || lane->isZero()) return true;
    }
    return false;
  };
  if (a->getType()->isVectorTy() && may_have_zeros(a) && may_have_zeros(b))
    a = ir_.CreateArithmeticFence(a, a->getType());
  return remainder ? ir_.CreateFRem(a, b) : ir_.CreateFDiv(a, b);
}

llvm::Value* Emitter::EmitBinary(BinOp op, DType t, llvm::Value* a, llvm::Value* b) {
  const bool f = IsFloat(t), s = IsSigned(t), boolean = IsBoolValue(a);
  llvm::Type* type = a->getType();
  const auto constant = [&](uint64_t v) { return llvm::ConstantInt::get(type, v); };
  switch (op) {
    case BinOp::kAdd:
      return f ? ir_.CreateFAdd(a, b) : boolean ? ir_.CreateOr(a, b) : ir_.CreateAdd(a, b);
    case BinOp::kSub:
      return f ? ir_.CreateFSub(a, b) : ir_.CreateSub(a, b);
    case BinOp::kMul:
      return f ? ir_.CreateFMul(a, b) : boolean ? ir_.CreateAnd(a, b) : ir_.CreateMul(a, b);
    case BinOp::kDiv:
    case BinOp::kMod:
    case BinOp::kFloorDiv:
    case BinOp::kFloorMod: {
      const bool remainder = op == BinOp::kMod || op == BinOp::kFloorMod;
      if (f) return EmitQuotient(remainder, a, b);
      llvm::Value* zero = llvm::Constant::getNullValue(type);
      llvm::Value* by_zero = ir_.CreateICmpEQ(b, zero);
      if (!s) {
        llvm::Value* safe = ir_.CreateSelect(by_zero, constant(1), b);
        return ir_.CreateSelect(by_zero, zero,
                                remainder ? ir_.CreateURem(a, safe) : ir_.CreateUDiv(a, safe));
      }
      llvm::Value* by_minus_1 = ir_.CreateICmpEQ(b, llvm::Constant::getAllOnesValue(type));
      llvm::Value* odd = ir_.CreateOr(by_zero, by_minus_1);
      llvm::Value* safe = ir_.CreateSelect(odd, constant(1), b);
      llvm::Value* q = ir_.CreateSDiv(a, safe);
      llvm::Value* r = ir_.CreateSub(a, ir_.CreateMul(q, safe));
      if (op == BinOp::kFloorDiv || op == BinOp::kFloorMod) {
        llvm::Value* below = ir_.CreateAnd(ir_.CreateICmpNE(r, zero),
                                           ir_.CreateICmpSLT(ir_.CreateXor(r, safe), zero));
        if (remainder)
          r = ir_.CreateSelect(below, ir_.CreateAdd(r, safe), r);
        else
          q = ir_.CreateSelect(below, ir_.CreateSub(q, constant(1)), q);
      }
      if (remainder) return ir_.CreateSelect(odd, zero, r);
      return ir_.CreateSelect(by_zero, zero, ir_.CreateSelect(by_minus_1, ir_.CreateNeg(a), q));
    }
    case BinOp::kMin:
      return EmitMinMax(false, t, a, b);
    case BinOp::kMax:
      return EmitMinMax(true, t, a, b);
    case BinOp::kAnd:
      return ir_.CreateAnd(a, b);
    case BinOp::kOr:
      return ir_.CreateOr(a, b);
    case BinOp::kXor:
      return ir_.CreateXor(a, b);
    case BinOp::kShl:
    case BinOp::kShr: {
      llvm::Value* inside = ir_.CreateICmpULT(b, constant(type->getScalarSizeInBits()));
      llvm::Value* v = op == BinOp::kShl ? ir_.CreateShl(a, b)
                       : s               ? ir_.CreateAShr(a, b)
                                         : ir_.CreateLShr(a, b);
      return ir_.CreateSelect(inside, v, llvm::Constant::getNullValue(type));
    }
    case BinOp::kLt:
      return f ? ir_.CreateFCmpOLT(a, b) : s ? ir_.CreateICmpSLT(a, b) : ir_.CreateICmpULT(a, b);
    case BinOp::kLe:
      return f ? ir_.CreateFCmpOLE(a, b) : s ? ir_.CreateICmpSLE(a, b) : ir_.CreateICmpULE(a, b);
    case BinOp::kGt:
      return f ? ir_.CreateFCmpOGT(a, b) : s ? ir_.CreateICmpSGT(a, b) : ir_.CreateICmpUGT(a, b);
    case BinOp::kGe:
      return f ? ir_.CreateFCmpOGE(a, b) : s ? ir_.CreateICmpSGE(a, b) : ir_.CreateICmpUGE(a, b);
    case BinOp::kEq:
      return f ? ir_.CreateFCmpOEQ(a, b) : ir_.CreateICmpEQ(a, b);
    case BinOp::kNe:
      return f ? ir_.CreateFCmpUNE(a, b) : ir_.CreateICmpNE(a, b);
  }
  WEFT_ICHECK(false, "binary operation {}", int(op));
}

llvm::Value* Emitter::RoundBFloat16(llvm::Value* v) {
  // Round to nearest even by carry into the upper half; a NaN is made quiet instead, else the carry
  // could make it an infinity.
  llvm::Type* ints = RegisterType(DType::kU32, LanesOf(v));
  const auto constant = [&](uint32_t c) { return llvm::ConstantInt::get(ints, c); };
  llvm::Value* bits = ir_.CreateBitCast(v, ints);
  llvm::Value* odd = ir_.CreateAnd(ir_.CreateLShr(bits, constant(16)), constant(1));
  llvm::Value* rounded = ir_.CreateAdd(ir_.CreateAdd(bits, constant(0x7fff)), odd);
  llvm::Value* quiet = ir_.CreateOr(bits, constant(0x400000));
  return ir_.CreateLShr(ir_.CreateSelect(ir_.CreateFCmpUNO(v, v), quiet, rounded), constant(16));
}

llvm::Value* Emitter::EmitSaturated(DType to, llvm::Value* a) {
  // LLVM takes the intrinsics that saturate apart into single lanes, with branches.
  const int w = LanesOf(a);
  const bool is_signed = IsSigned(to);
  const int bits = DTypeBits(to);
  llvm::Type* type = RegisterType(to, w);
  const auto number = [&](double v) { return llvm::ConstantFP::get(a->getType(), v); };
  const double end = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  // What is cut to 0 is more than -1.
  llvm::Value* above =
      is_signed ? ir_.CreateFCmpOGE(a, number(-end)) : ir_.CreateFCmpOGT(a, number(-1.0));
  llvm::Value* below = ir_.CreateFCmpOLT(a, number(end));
  llvm::Value* inside =
      ir_.CreateSelect(ir_.CreateAnd(above, below), a, llvm::Constant::getNullValue(a->getType()));
  llvm::Value* v;
  if (bits < 32)
    v = ir_.CreateTrunc(ir_.CreateFPToSI(inside, RegisterType(DType::kI32, w)), type);
  else
    v = is_signed ? ir_.CreateFPToSI(inside, type) : ir_.CreateFPToUI(inside, type);
  const auto width = unsigned(bits);
  const llvm::APInt most =
      is_signed ? llvm::APInt::getSignedMaxValue(width) : llvm::APInt::getMaxValue(width);
  v = ir_.CreateSelect(ir_.CreateFCmpOGE(a, number(end)), llvm::ConstantInt::get(type, most), v);
  if (!is_signed) return v;
  return ir_.CreateSelect(ir_.CreateFCmpOLT(a, number(-end)),
                          llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(width)), v);
}

llvm::Value* Emitter::EmitCast(DType from, DType to, llvm::Value* a) {
  if (from == to) return a;
  const int w = LanesOf(a);
  llvm::Type* type = RegisterType(to, w);
  if (to == DType::kBool) {
    llvm::Constant* zero = llvm::Constant::getNullValue(a->getType());
    return IsFloat(from) ? ir_.CreateFCmpUNE(a, zero) : ir_.CreateICmpNE(a, zero);
  }
  const bool from_signed = IsSigned(from);
  if (IsFloat(to)) {
    llvm::Value* v;
    // Narrow floats are reached through f32 on every target.
    llvm::Type* wide = RegisterType(to == DType::kF64 ? to : DType::kF32, w);
    if (!IsFloat(from))
      v = from_signed ? ir_.CreateSIToFP(a, wide) : ir_.CreateUIToFP(a, wide);
    else
      v = ir_.CreateFPCast(a, wide);
    if (IsNarrowFloat(to)) v = FromMemory(to, ToMemory(to, v));
    return v;
  }
  if (IsFloat(from)) {
    if (w > 1) return EmitSaturated(to, a);
    const ID id = IsSigned(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return ir_.CreateIntrinsic(id, {type, a->getType()}, {a});
  }
  return ir_.CreateIntCast(a, type, from_signed);
}

llvm::Value* Emitter::EmitPhilox(llvm::Value* seed, llvm::Value* counter) {
  const int w = LanesOf(seed);
  llvm::Type* narrow = RegisterType(DType::kU32, w);
  llvm::Type* wide = RegisterType(DType::kU64, w);
  const auto c32 = [&](uint32_t v) { return llvm::ConstantInt::get(narrow, v); };
  const auto c64 = [&](uint64_t v) { return llvm::ConstantInt::get(wide, v); };
  const auto high = [&](llvm::Value* v) {
    return ir_.CreateTrunc(ir_.CreateLShr(v, c64(32)), narrow);
  };
  const auto low = [&](llvm::Value* v) { return ir_.CreateTrunc(v, narrow); };
  llvm::Value *c0 = low(counter), *c1 = high(counter), *c2 = c32(0), *c3 = c32(0);
  llvm::Value *k0 = low(seed), *k1 = high(seed);
  for (int round = 0; round < 10; ++round) {
    llvm::Value* p0 = ir_.CreateMul(ir_.CreateZExt(c0, wide), c64(0xD2511F53u));
    llvm::Value* p1 = ir_.CreateMul(ir_.CreateZExt(c2, wide), c64(0xCD9E8D57u));
    c0 = ir_.CreateXor(ir_.CreateXor(high(p1), c1), k0);
    c1 = low(p1);
    c2 = ir_.CreateXor(ir_.CreateXor(high(p0), c3), k1);
    c3 = low(p0);
    k0 = ir_.CreateAdd(k0, c32(0x9E3779B9u));
    k1 = ir_.CreateAdd(k1, c32(0xBB67AE85u));
  }
  return c0;
}

}  // namespace weft::llvmgen
