/// expr_print.cc: C text of an expression, for people and tests (`ASTPtr::CodeGen` of 2016).
///
/// Every operation is written once per occurrence, so the text of a DAG with much sharing can be
/// long; it stops at kMaxTextBytes. Printers of real kernels emit shared parts once and do not use
/// this.
#include <fmt/format.h>

#include <variant>

#include "scalar.h"
#include "weft/codegen/expr/expr.h"
#include "weft/support/check.h"

namespace weft {
namespace {

constexpr size_t kMaxTextBytes = size_t{64} << 20;

/// Shortest digits that read back as the same value (`to_string` of 2016 printed 1e-8 as 0).
std::string FloatText(DType t, double v) {
  const bool single = t != DType::kF64;
  if (std::isnan(v)) return single ? "NAN" : "(double)NAN";
  if (std::isinf(v)) return fmt::format("{}{}INFINITY", v < 0 ? "-" : "", single ? "" : "(double)");
  std::string text = single ? fmt::format("{}", float(v)) : fmt::format("{}", v);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (single) text += "f";
  return IsNarrowFloat(t) ? fmt::format("({}){}", TraitsOf(t).c_name, text) : text;
}

std::string ConstText(const ExprNode& n) {
  if (n.is_literal()) return FloatText(DType::kF32, n.const_value());
  switch (n.dtype()) {
    case DType::kBool:
      return n.bits() ? "true" : "false";
    case DType::kI64:
      return n.const_int() == INT64_MIN ? "INT64_MIN" : fmt::format("{}", n.const_int());
    case DType::kU64:
      return fmt::format("{}u", uint64_t(n.const_int()));
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
      return fmt::format("{}u", n.const_int());
    default:
      return IsFloat(n.dtype()) ? FloatText(n.dtype(), n.const_value())
                                : fmt::format("{}", n.const_int());
  }
}

const char* Infix(BinOp op) {
  switch (op) {
    case BinOp::kAdd:
      return " + ";
    case BinOp::kSub:
      return " - ";
    case BinOp::kMul:
      return " * ";
    case BinOp::kDiv:
      return " / ";
    case BinOp::kMod:
      return " % ";
    case BinOp::kAnd:
      return " & ";
    case BinOp::kOr:
      return " | ";
    case BinOp::kXor:
      return " ^ ";
    case BinOp::kShl:
      return " << ";
    case BinOp::kShr:
      return " >> ";
    case BinOp::kLt:
      return " < ";
    case BinOp::kLe:
      return " <= ";
    case BinOp::kGt:
      return " > ";
    case BinOp::kGe:
      return " >= ";
    case BinOp::kEq:
      return " == ";
    case BinOp::kNe:
      return " != ";
    default:
      return nullptr;
  }
}

const char* UnaryName(UnOp op) {
  switch (op) {
    case UnOp::kNeg:
      return "-";
    case UnOp::kNot:
      return "!";
    case UnOp::kBitNot:
      return "~";
    case UnOp::kAbs:
      return "fabs";
    case UnOp::kFloor:
      return "floor";
    case UnOp::kCeil:
      return "ceil";
    case UnOp::kRound:
      return "nearbyint";
    case UnOp::kTrunc:
      return "trunc";
    case UnOp::kSqrt:
      return "sqrt";
    case UnOp::kIsNan:
      return "isnan";
    case UnOp::kIsInf:
      return "isinf";
    case UnOp::kUnlikely:
      return "unlikely";
  }
  return "?";
}

const char* CallName(CallOp op) {
  static constexpr const char* kNames[] = {
      "exp",  "log",   "sin",   "cos",   "tan", "asin",    "acos",  "atan",  "sinh",  "cosh",
      "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "rsqrt", "expm1", "log1p", "pow"};
  return kNames[int(op)];
}

const char* ReduceName(ReduceOp op) {
  static constexpr const char* kNames[] = {"sum", "prod", "min",    "max",
                                           "any", "all",  "argmin", "argmax"};
  return kNames[int(op)];
}

std::string ReduceVarName(const ExprNode& n) { return fmt::format("r{}_{}", n.level(), n.index()); }

/// f32 functions carry an f: expf, sqrtf.
std::string Suffixed(const char* name, DType t) {
  return t == DType::kF64 ? name : std::string(name) + "f";
}

using Piece = std::variant<const ExprNode*, std::string>;

/// The pieces of one node's text; operands stay nodes.
std::vector<Piece> Pieces(const ExprNode& n) {
  std::vector<Piece> out;
  const auto text = [&](std::string s) { out.emplace_back(std::move(s)); };
  const auto call = [&](std::string name) {
    text(std::move(name) + "(");
    for (size_t i = 0; i < n.operands().size(); ++i) {
      if (i) text(", ");
      out.emplace_back(n.operands()[i].get());
    }
    text(")");
  };
  switch (n.kind()) {
    case ExprKind::kConst:
      text(ConstText(n));
      break;
    case ExprKind::kDim:
      text(n.dim().is_symbol() ? n.dim().ToString() : "(" + n.dim().ToString() + ")");
      break;
    case ExprKind::kIndex:
      text(fmt::format("i{}", n.index()));
      break;
    case ExprKind::kReduceVar:
      text(ReduceVarName(n));
      break;
    case ExprKind::kVariable:
      text(n.slot() < 0 ? n.name() : fmt::format("#{}", n.slot()));
      break;
    case ExprKind::kLoad: {
      if (n.has_guard()) {
        text("(");
        out.emplace_back(n.operands().back().get());
        text(" ? ");
      }
      text(fmt::format("x{}", n.buffer()));
      for (int i = 0; i < n.num_indices(); ++i) {
        text("[");
        out.emplace_back(n.operand(i).get());
        text("]");
      }
      if (n.has_guard()) text(" : 0)");
      break;
    }
    case ExprKind::kUnary: {
      const UnOp op = n.un_op();
      const DType t = n.operand(0)->dtype();
      if (op <= UnOp::kBitNot) {
        text(std::string("(") + UnaryName(op));
        out.emplace_back(n.operand(0).get());
        text(")");
      } else if (op == UnOp::kAbs && !IsFloat(t)) {
        call("abs");
      } else {
        call(op >= UnOp::kIsNan ? UnaryName(op) : Suffixed(UnaryName(op), t));
      }
      break;
    }
    case ExprKind::kBinary: {
      const BinOp op = n.bin_op();
      if (op == BinOp::kMod && IsFloat(n.dtype())) {
        call(Suffixed("fmod", n.dtype()));
      } else if (const char* infix = Infix(op)) {
        text("(");
        out.emplace_back(n.operand(0).get());
        text(infix);
        out.emplace_back(n.operand(1).get());
        text(")");
      } else if (op == BinOp::kMin || op == BinOp::kMax) {
        call(op == BinOp::kMin ? "min" : "max");
      } else {
        call(op == BinOp::kFloorDiv ? "floordiv" : "floormod");
      }
      break;
    }
    case ExprKind::kSelect:
      text("(");
      out.emplace_back(n.operand(0).get());
      text(" ? ");
      out.emplace_back(n.operand(1).get());
      text(" : ");
      out.emplace_back(n.operand(2).get());
      text(")");
      break;
    case ExprKind::kCast:
      text(fmt::format("({})", TraitsOf(n.dtype()).c_name));
      out.emplace_back(n.operand(0).get());
      break;
    case ExprKind::kBitcast:
      call(fmt::format("bitcast_{}", DTypeName(n.dtype())));
      break;
    case ExprKind::kFma:
      call(Suffixed("fma", n.dtype()));
      break;
    case ExprKind::kCall:
      call(Suffixed(CallName(n.call()), n.dtype()));
      break;
    case ExprKind::kPhilox:
      call("philox");
      break;
    case ExprKind::kReduce: {
      std::string head = std::string(ReduceName(n.reduce_op())) + "(";
      for (size_t i = 0; i < n.extents().size(); ++i)
        head += fmt::format("r{}_{} < {}, ", n.level(), i, n.extents()[i].ToString());
      text(std::move(head));
      out.emplace_back(n.operand(0).get());
      text(")");
      break;
    }
  }
  return out;
}

}  // namespace

std::string ExprNode::CodeGen() const {
  std::string out;
  std::vector<Piece> stack{this};
  while (!stack.empty()) {
    const Piece piece = std::move(stack.back());
    stack.pop_back();
    if (const auto* text = std::get_if<std::string>(&piece)) {
      out += *text;
      WEFT_CHECK(out.size() <= kMaxTextBytes, kLimit, "the text of an expression exceeds {} bytes",
                 kMaxTextBytes);
      continue;
    }
    std::vector<Piece> pieces = Pieces(*std::get<const ExprNode*>(piece));
    for (auto it = pieces.rbegin(); it != pieces.rend(); ++it) stack.push_back(std::move(*it));
  }
  return out;
}

}  // namespace weft
