/// expr_text.cc: see expr_text.h. Linear in distinct nodes, iterative.
#include "weft/codegen/expr/expr_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <unordered_map>

#include "weft/codegen/expr/math.h"
#include "weft/support/check.h"

namespace weft {
namespace {

// In the order of the enumerations.
constexpr const char* kUnary[] = {"neg",   "not",   "bitnot", "abs",   "floor", "ceil",
                                  "round", "trunc", "sqrt",   "isnan", "isinf", "unlikely"};
constexpr const char* kBinary[] = {"add", "sub", "mul", "div", "mod", "floordiv", "floormod",
                                   "min", "max", "and", "or",  "xor", "shl",      "shr",
                                   "lt",  "le",  "gt",  "ge",  "eq",  "ne"};
static_assert(std::size(kUnary) == size_t(UnOp::kUnlikely) + 1);
static_assert(std::size(kBinary) == size_t(BinOp::kNe) + 1);

template <size_t N>
int IndexOf(const char* const (&names)[N], std::string_view name) {
  const auto* it = std::find(std::begin(names), std::end(names), name);
  return it == std::end(names) ? -1 : int(it - std::begin(names));
}

/// The words of a node without its operands; empty: it has no text.
std::string Head(const ExprNode& n) {
  switch (n.kind()) {
    case ExprKind::kConst:
      if (n.is_literal()) return fmt::format("l {:x}", n.bits());
      return fmt::format("c {} {:x}", DTypeName(n.dtype()), n.bits());
    case ExprKind::kVariable:
      return n.slot() < 0 ? "" : fmt::format("x {} {}", n.slot(), DTypeName(n.dtype()));
    case ExprKind::kUnary:
      return kUnary[int(n.un_op())];
    case ExprKind::kBinary:
      return kBinary[int(n.bin_op())];
    case ExprKind::kSelect:
      return "select";
    case ExprKind::kCast:
      return fmt::format("cast {}", DTypeName(n.dtype()));
    case ExprKind::kBitcast:
      return fmt::format("bitcast {}", DTypeName(n.dtype()));
    case ExprKind::kFma:
      return "fma";
    case ExprKind::kCall:
      return fmt::format("call {}", MathFunctions()[size_t(n.call())].name);
    case ExprKind::kPhilox:
      return "philox";
    default:
      return "";
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Exprs Parse() {
    while (true) {
      const std::string_view word = Word("an operation");
      if (word == "=") break;
      nodes_.push_back(Node(word));
      End();
    }
    Exprs results;
    while (!AtEnd()) results.push_back(Operand());
    return results;
  }

 private:
  [[noreturn]] void Fail(std::string_view wanted) const {
    WEFT_THROW(kSyntax, "expression: expected {} at column {}", wanted, at_ + 1);
  }
  void Space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool AtEnd() {
    Space();
    return at_ == text_.size();
  }
  void End() {
    Space();
    if (at_ == text_.size() || text_[at_] != ';') Fail("';'");
    ++at_;
  }
  std::string_view Word(std::string_view wanted) {
    Space();
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ' ' && text_[at_] != ';') ++at_;
    if (at_ == begin) Fail(wanted);
    return text_.substr(begin, at_ - begin);
  }
  template <class T>
  T Number(std::string_view wanted, int base = 10) {
    const std::string_view word = Word(wanted);
    T v = 0;
    const auto r = std::from_chars(word.data(), word.data() + word.size(), v, base);
    if (r.ec != std::errc() || r.ptr != word.data() + word.size()) Fail(wanted);
    return v;
  }
  DType Type() {
    const std::optional<DType> t = ParseDType(Word("a dtype"));
    if (!t || !IsComputable(*t)) Fail("a dtype to compute with");
    return *t;
  }
  const Expr& Operand() {
    const auto k = Number<size_t>("the number of an earlier statement");
    if (k >= nodes_.size()) Fail("the number of an earlier statement");
    return nodes_[k];
  }

  Expr Node(std::string_view word) {
    if (word == "x") {
      // Far more operands than any operator has.
      constexpr uint32_t kMaxSlots = 1 << 16;
      const auto k = Number<uint32_t>("the number of a place");
      if (k >= kMaxSlots) Fail("the number of a place");
      return Expr::Slot(int(k), Type());
    }
    if (word == "l") {
      const auto bits = Number<uint64_t>("bits", 16);
      double v;
      static_assert(sizeof v == sizeof bits);
      std::memcpy(&v, &bits, sizeof v);
      return Expr::Literal(v);
    }
    if (word == "c") {
      const DType t = Type();
      return Expr::ConstBits(t, Number<uint64_t>("bits", 16));
    }
    if (word == "select") {
      const Expr &c = Operand(), &a = Operand(), &b = Operand();
      return Expr::Select(c, a, b);
    }
    if (word == "fma") {
      const Expr &a = Operand(), &b = Operand(), &c = Operand();
      return Expr::Fma(a, b, c);
    }
    if (word == "philox") {
      const Expr &a = Operand(), &b = Operand();
      return Expr::Philox(a, b);
    }
    if (word == "cast") {
      const DType t = Type();
      return Expr::Cast(t, Operand());
    }
    if (word == "bitcast") {
      const DType t = Type();
      return Expr::Bitcast(t, Operand());
    }
    if (word == "call") return Call(Word("a function"));
    if (const int k = IndexOf(kUnary, word); k >= 0) return Expr::Unary(UnOp(k), Operand());
    if (const int k = IndexOf(kBinary, word); k >= 0) {
      const Expr &a = Operand(), &b = Operand();
      return Expr::Binary(BinOp(k), a, b);
    }
    Fail("an operation");
  }
  Expr Call(std::string_view name) {
    for (const MathFunction& f : MathFunctions()) {
      if (name != f.name) continue;
      Exprs args = {Operand()};
      if (f.op == CallOp::kPow) args.push_back(Operand());
      return Expr::Call(f.op, std::move(args));
    }
    Fail("a function");
  }

  std::string_view text_;
  size_t at_ = 0;
  Exprs nodes_;
};

}  // namespace

std::optional<std::string> PrintExprs(const Exprs& results) {
  std::unordered_map<const ExprNode*, size_t> numbers;
  std::string text;
  for (const ExprNode* n : PostOrder(results)) {
    const std::string head = Head(*n);
    if (head.empty()) return std::nullopt;
    text += head;
    for (const Expr& o : n->operands()) text += fmt::format(" {}", numbers.at(o.get()));
    text += "; ";
    numbers.emplace(n, numbers.size());
  }
  text += "=";
  for (const Expr& e : results) text += fmt::format(" {}", numbers.at(e.get()));
  return text;
}

Exprs ParseExprs(std::string_view text) { return Parser(text).Parse(); }

}  // namespace weft
