/// emit_text.cc: the C text of one operation. Every difference between C and the expression
/// language is met here.
#include "emit.h"
#include "weft/support/check.h"

namespace weft::ctext {
namespace {

/// True for values that live in a float register of f32, whatever their dtype says.
bool InF32(DType t) { return IsFloat(t) && t != DType::kF64; }
bool IsCompare(BinOp op) { return op >= BinOp::kLt; }
/// The function of <math.h> for f64, its f-variant for the others.
std::string Math(const char* name, DType t, const std::string& a) {
  return fmt::format("{}{}({})", name, t == DType::kF64 ? "" : "f", a);
}
uint64_t Largest(DType t) {
  return IsUnsigned(t) ? ~0ull >> (64 - DTypeBits(t)) : ~0ull >> (65 - DTypeBits(t));
}
uint64_t Smallest(DType t) { return IsUnsigned(t) ? 0 : 1ull << (DTypeBits(t) - 1); }
uint64_t Infinity(DType t, bool negative) {
  return t == DType::kF64 ? (negative ? 0xfff0000000000000u : 0x7ff0000000000000u)
                          : (negative ? 0xff800000u : 0x7f800000u);
}

}  // namespace

std::string Emitter::TypeOf(const ExprNode& n) const {
  return info(&n).narrow ? "i32" : ValueType(n.dtype());
}

std::string Emitter::Operand(const ExprNode& n, int i, bool wide) {
  const ExprNode* o = n.operand(i).get();
  const std::string& name = *Find(o);
  return wide && info(o).narrow ? "(i64)" + name : name;
}

std::string Emitter::FromMemory(DType t, const std::string& text) {
  if (t == DType::kBool) return text + " != 0";
  if (IsNarrowFloat(t)) return fmt::format("{}({})", helpers_->Widen(t), text);
  return text;
}

std::string Emitter::ToMemory(DType t, const std::string& text) {
  if (IsNarrowFloat(t)) return fmt::format("{}({})", helpers_->Narrow(t), text);
  return fmt::format("({}){}", StorageType(t), text);
}

std::string Emitter::DimText(SymInt d) {
  struct Visitor : SymVisitor {
    Emitter* e = nullptr;
    std::vector<std::string> stack;
    void Const(int64_t v) override {
      stack.push_back("(i64)" + e->helpers_->Literal(DType::kI64, uint64_t(v)));
    }
    void Sym(SymInt s) override {
      stack.push_back(fmt::format("d{}", ExtentNumber(s, e->kernel_.num_symbols)));
    }
    void Op(char op) override {
      const std::string b = stack.back();
      stack.pop_back();
      std::string& a = stack.back();
      const auto call = [&](const std::string& name) { a = fmt::format("{}({}, {})", name, a, b); };
      switch (op) {
        case '/':
          call(e->helpers_->Binary(BinOp::kFloorDiv, DType::kI64));
          break;
        case '%':
          call(e->helpers_->Binary(BinOp::kFloorMod, DType::kI64));
          break;
        case 'm':
          call(e->helpers_->Binary(BinOp::kMin, DType::kI64));
          break;
        case 'M':
          call(e->helpers_->Binary(BinOp::kMax, DType::kI64));
          break;
        case 'b':
          call(e->helpers_->Broadcast());
          break;
        default:
          a = fmt::format("({} {} {})", a, op, b);
      }
    }
  } visitor;
  visitor.e = this;
  VisitPostfix(d, visitor);
  return visitor.stack.back();
}

std::string Emitter::UnaryText(const ExprNode& n) {
  const DType t = n.operand(0)->dtype();
  const bool floating = IsFloat(t), wide = !info(&n).narrow;
  const std::string a = Operand(n, 0, wide), v = TypeOf(n);
  const std::string w = WrapType(info(&n).narrow ? DType::kI32 : t);
  switch (n.un_op()) {
    case UnOp::kNeg:
      return floating ? "-" + a : fmt::format("({0})(({1})0 - ({1}){2})", v, w, a);
    case UnOp::kNot:
      return fmt::format("{} == 0", a);
    case UnOp::kBitNot:
      return t == DType::kBool ? fmt::format("{} == 0", a) : fmt::format("({})~{}", v, a);
    case UnOp::kAbs:
      if (floating) return Math("fabs", t, a);
      if (!IsSigned(t)) return a;
      return fmt::format("{2} < 0 ? ({0})(({1})0 - ({1}){2}) : {2}", v, w, a);
    case UnOp::kFloor:
      return floating ? Math("floor", t, a) : a;
    case UnOp::kCeil:
      return floating ? Math("ceil", t, a) : a;
    case UnOp::kRound:
      return floating ? Math("rint", t, a) : a;
    case UnOp::kTrunc:
      return floating ? Math("trunc", t, a) : a;
    case UnOp::kSqrt:
      WEFT_ICHECK(floating, "square root of {}", DTypeName(t));
      return Math("sqrt", t, a);
    case UnOp::kIsNan:
      return floating ? fmt::format("{0} != {0}", a) : "0";
    case UnOp::kIsInf:
      if (!floating) return "0";
      return fmt::format("{} == {}", Math("fabs", t, a),
                         helpers_->Literal(InF32(t) ? DType::kF32 : t, Infinity(t, false)));
    case UnOp::kUnlikely:
      return a;
  }
  WEFT_THROW(kInternal, "unary operator {}", int(n.un_op()));
}

std::string Emitter::BinaryText(const ExprNode& n) {
  const BinOp op = n.bin_op();
  const DType t = n.operand(0)->dtype();
  const NodeInfo &a_info = info(n.operand(0).get()), &b_info = info(n.operand(1).get());
  const bool operands_narrow = a_info.narrow && b_info.narrow;
  // 32 bits throughout, or 64 and then narrowed: both are exact.
  const bool narrow = operands_narrow && (info(&n).narrow || IsCompare(op));
  const std::string a = Operand(n, 0, !narrow), b = Operand(n, 1, !narrow);
  const DType ct = narrow ? DType::kI32 : t;
  const auto infix = [&](const char* s) { return fmt::format("{} {} {}", a, s, b); };
  const auto call = [&] {
    const std::string text =
        fmt::format("{}({}, {})", helpers_->Binary(op, InF32(t) ? DType::kF32 : ct), a, b);
    return info(&n).narrow && !narrow ? "(i32)" + text : text;
  };
  const auto wrapped = [&](const char* s) {
    if (IsFloat(t) || narrow) return infix(s);
    if (t == DType::kBool) return fmt::format("({} {} {}) & 1", a, s, b);
    const std::string w = WrapType(ct);
    const std::string text = fmt::format("({0})(({1}){2} {3} ({1}){4})", ValueType(ct), w, a, s, b);
    return info(&n).narrow ? "(i32)" + text : text;
  };
  // Unsigned division is cheap and means the same where nothing is negative.
  const bool plain = IsInt(t) && t == DType::kI64 && a_info.range.lo >= 0 && b_info.range.lo > 0;
  const auto divided = [&](const char* s) {
    if (!plain) return call();
    const std::string w = narrow ? "u32" : "u64";
    if (!narrow && n.operand(1)->kind() != ExprKind::kConst) {
      const std::string q = fmt::format("{}((u64){}, (u64){})", helpers_->Quotient(), a, b);
      if (*s == '/') return fmt::format("({}){}", TypeOf(n), q);
      return fmt::format("({})((u64){} - {} * (u64){})", TypeOf(n), a, q, b);
    }
    return fmt::format("({0})(({1}){2} {3} ({1}){4})", TypeOf(n), w, a, s, b);
  };
  switch (op) {
    case BinOp::kAdd:
      return wrapped("+");
    case BinOp::kSub:
      return wrapped("-");
    case BinOp::kMul:
      return wrapped("*");
    case BinOp::kDiv:
      return IsFloat(t) ? infix("/") : divided("/");
    case BinOp::kMod:
      return IsFloat(t) ? call() : divided("%");
    case BinOp::kFloorDiv:
      return divided("/");
    case BinOp::kFloorMod:
      return divided("%");
    case BinOp::kAnd:
      return fmt::format("({})({} & {})", TypeOf(n), a, b);
    case BinOp::kOr:
      return fmt::format("({})({} | {})", TypeOf(n), a, b);
    case BinOp::kXor:
      return fmt::format("({})({} ^ {})", TypeOf(n), a, b);
    case BinOp::kLt:
      return infix("<");
    case BinOp::kLe:
      return infix("<=");
    case BinOp::kGt:
      return infix(">");
    case BinOp::kGe:
      return infix(">=");
    case BinOp::kEq:
      return infix("==");
    case BinOp::kNe:
      return infix("!=");
    case BinOp::kMin:
      if (t == DType::kBool) return fmt::format("{} & {}", a, b);
      return call();
    case BinOp::kMax:
      if (t == DType::kBool) return fmt::format("{} | {}", a, b);
      return call();
    case BinOp::kShl:
    case BinOp::kShr:
      return call();
  }
  WEFT_THROW(kInternal, "binary operator {}", int(op));
}

std::string Emitter::CastText(const ExprNode& n) {
  const DType from = n.operand(0)->dtype(), to = n.dtype();
  const std::string a = Operand(n, 0, false);
  if (to == DType::kBool) return a + " != 0";
  if (IsFloat(from) && IsInt(to)) return fmt::format("{}({})", helpers_->ToInt(from, to), a);
  if (IsNarrowFloat(to)) {
    const std::string single = InF32(from) ? a : "(f32)" + a;
    return fmt::format("{}({}({}))", helpers_->Widen(to), helpers_->Narrow(to), single);
  }
  if (InF32(from) && to == DType::kF32) return a;
  return fmt::format("({}){}", TypeOf(n), a);
}

std::string Emitter::Text(const ExprNode& n) {
  switch (n.kind()) {
    case ExprKind::kDim:
      return info(&n).narrow ? "(i32)" + DimText(n.dim()) : DimText(n.dim());
    case ExprKind::kLoad: {
      WEFT_ICHECK(n.num_indices() == 1, "a load of a kernel has one offset, not {}",
                  n.num_indices());
      const std::string at = fmt::format("b{}[{}]", n.buffer(), Operand(n, 0, false));
      if (!n.has_guard()) return FromMemory(n.dtype(), at);
      return fmt::format("{} ? {} : {}", Operand(n, 1, false), FromMemory(n.dtype(), at),
                         helpers_->Literal(InF32(n.dtype()) ? DType::kF32 : n.dtype(), 0));
    }
    case ExprKind::kUnary:
      return UnaryText(n);
    case ExprKind::kBinary:
      return BinaryText(n);
    case ExprKind::kSelect: {
      const bool wide = n.dtype() == DType::kI64 && !info(&n).narrow;
      return fmt::format("{} ? {} : {}", Operand(n, 0, false), Operand(n, 1, wide),
                         Operand(n, 2, wide));
    }
    case ExprKind::kCast:
      return CastText(n);
    case ExprKind::kBitcast: {
      const DType from = n.operand(0)->dtype();
      if (from == n.dtype()) return Operand(n, 0, true);
      return fmt::format("{}({})", helpers_->Bits(from, n.dtype()), Operand(n, 0, true));
    }
    case ExprKind::kFma:
      return fmt::format("{}({}, {}, {})", n.dtype() == DType::kF64 ? "fma" : "fmaf",
                         Operand(n, 0, false), Operand(n, 1, false), Operand(n, 2, false));
    case ExprKind::kPhilox:
      return fmt::format("{}({}, {})", helpers_->Philox(), Operand(n, 0, false),
                         Operand(n, 1, false));
    default:
      WEFT_THROW(kInternal, "a node of kind {} cannot be printed", int(n.kind()));
  }
}

DType Emitter::Accumulator(const ExprNode& reduce) {
  return AccumulatorOf(reduce.operand(0)->dtype());
}

std::string Emitter::Neutral(const ExprNode& reduce) {
  const DType t = Accumulator(reduce);
  switch (reduce.reduce_op()) {
    case ReduceOp::kSum:
    case ReduceOp::kAny:
      return helpers_->Literal(t, 0);
    case ReduceOp::kProd:
    case ReduceOp::kAll: {
      if (t == DType::kF32) return "0x1p+0f";
      return t == DType::kF64 ? "0x1p+0" : helpers_->Literal(t, 1);
    }
    case ReduceOp::kMin:
    case ReduceOp::kArgMin:
      if (t == DType::kBool) return "1";
      return helpers_->Literal(t, IsFloat(t) ? Infinity(t, false) : Largest(t));
    case ReduceOp::kMax:
    case ReduceOp::kArgMax:
      if (t == DType::kBool) return "0";
      return helpers_->Literal(t, IsFloat(t) ? Infinity(t, true) : Smallest(t));
  }
  WEFT_THROW(kInternal, "reduction {}", int(reduce.reduce_op()));
}

std::string Emitter::Combine(const ExprNode& reduce, const std::string& a, const std::string& b) {
  const DType t = Accumulator(reduce);
  const auto wrapped = [&](const char* s) {
    if (IsFloat(t)) return fmt::format("{} {} {}", a, s, b);
    if (t == DType::kBool) return fmt::format("({} {} {}) != 0", a, s, b);
    return fmt::format("({0})(({1}){2} {3} ({1})({4}))", ValueType(t), WrapType(t), a, s, b);
  };
  switch (reduce.reduce_op()) {
    case ReduceOp::kSum:
      return wrapped("+");
    case ReduceOp::kProd:
      return wrapped("*");
    case ReduceOp::kMin:
      if (t == DType::kBool) return fmt::format("{} & {}", a, b);
      return fmt::format("{}({}, {})", helpers_->Binary(BinOp::kMin, t), a, b);
    case ReduceOp::kMax:
      if (t == DType::kBool) return fmt::format("{} | {}", a, b);
      return fmt::format("{}({}, {})", helpers_->Binary(BinOp::kMax, t), a, b);
    case ReduceOp::kAny:
      return fmt::format("{} | ({} != 0)", a, b);
    case ReduceOp::kAll:
      return fmt::format("{} & ({} != 0)", a, b);
    default:
      WEFT_THROW(kInternal, "ArgMin and ArgMax combine pairs");
  }
}

std::string Emitter::Better(const ExprNode& reduce, const std::string& a, const std::string& b) {
  const char* order = reduce.reduce_op() == ReduceOp::kArgMin ? "<" : ">";
  if (!IsFloat(Accumulator(reduce))) return fmt::format("{} {} {}", a, order, b);
  return fmt::format("{0} {2} {1} || ({0} != {0} && {1} == {1})", a, b, order);
}

}  // namespace weft::ctext
