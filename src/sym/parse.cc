/// parse.cc: reads the text of expressions.
///
///   sum     := product (('+' | '-') product)*
///   product := unary (('*' | '//' | '%') unary)*        left to right, equal precedence
///   unary   := '-' unary | number | name | '$' number | call | '(' sum ')'
///   call    := ('min' | 'max' | 'bcast') '(' sum (',' sum)* ')'
///
/// A whole sum and a whole argument list are built at once, so that canonical text gives back the
/// canonical node whatever the rules would have made of a part of it.
#include <cstdint>
#include <vector>

#include "node.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft::sym {
namespace {

/// Nesting of parentheses and signs; deeper text is refused rather than recursed into.
constexpr int kMaxNesting = 200;

class Parser {
 public:
  /// `extents`: symbols are extents of a kernel, `$k`, and nothing else is one.
  Parser(std::string_view text, bool extents) : text_(text), extents_(extents) {}

  const Node* ParseAll() {
    const Node* n = Sum();
    if (at_ != text_.size()) Fail("the end");
    return n;
  }

 private:
  [[noreturn]] void Fail(const char* expected) const {
    WEFT_THROW(kSyntax, "expected {} at column {} of '{}'", expected, at_ + 1,
               text_.substr(0, 200));
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool Accept(std::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    SkipSpace();
    return true;
  }

  void Expect(std::string_view token, const char* name) {
    if (!Accept(token)) Fail(name);
  }

  const Node* Sum() {
    SkipSpace();
    Poly poly = PolyOf(Product());
    for (;;) {
      if (Accept("+")) {
        poly.AddScaled(Product(), 1);
      } else if (Accept("-")) {
        poly.AddScaled(Product(), -1);
      } else {
        return FromPoly(std::move(poly));
      }
    }
  }

  const Node* Product() {
    const Node* n = Unary();
    for (;;) {
      if (Accept("*")) {
        n = MulNodes(n, Unary());
      } else if (Accept("//")) {
        n = MakeFloorDiv(n, Unary());
      } else if (Accept("%")) {
        n = MakeMod(n, Unary());
      } else {
        return n;
      }
    }
  }

  const Node* Unary() {
    if (++nesting_ > kMaxNesting) Fail("less nesting");
    const Node* n = nullptr;
    if (Accept("-")) {
      n = IsDigit(Peek()) ? ConstNode(Number(true)) : ScaleNode(Unary(), -1);
    } else if (Accept("(")) {
      n = Sum();
      Expect(")", "')'");
    } else if (IsDigit(Peek())) {
      n = ConstNode(Number(false));
    } else {
      n = NameOrCall();
    }
    --nesting_;
    return n;
  }

  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool IsNameChar(char c) {
    return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
           c == '$';
  }

  int64_t Number(bool negative) {
    const uint64_t limit = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
    uint64_t v = 0;
    while (IsDigit(Peek())) {
      const auto digit = static_cast<uint64_t>(text_[at_] - '0');
      if (v > (limit - digit) / 10) Fail("a number of 64 bits");
      v = v * 10 + digit;
      ++at_;
    }
    SkipSpace();
    return static_cast<int64_t>(negative ? 0 - v : v);
  }

  const Node* NameOrCall() {
    const size_t begin = at_;
    while (IsNameChar(Peek())) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (name.empty()) Fail("a number, a symbol or '('");
    SkipSpace();
    if (!Accept("(")) {
      if (!extents_) return SymbolNode(name);
      const std::optional<int64_t> k =
          name[0] == '$' ? TryParseInt64(name.substr(1)) : std::nullopt;
      if (k && *k >= 0 && *k <= INT32_MAX) return ExtentNode(int(*k));
      at_ = begin;
      Fail("a dimension of a kernel, as in '$0',");
    }
    std::vector<const Node*> args = {Sum()};
    while (Accept(",")) args.push_back(Sum());
    Expect(")", "')'");
    if (name == "min") return MakeMinMax(Kind::kMin, std::move(args));
    if (name == "max") return MakeMinMax(Kind::kMax, std::move(args));
    if (name == "bcast") return MakeBcast(std::move(args));
    at_ = begin;
    Fail("min, max or bcast before '('");
  }

  std::string_view text_;
  bool extents_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace
}  // namespace weft::sym

namespace weft {

SymInt SymInt::Parse(std::string_view text) {
  if (text == "?") return {};
  return SymInt(sym::Parser(text, false).ParseAll());
}

SymInt SymInt::ParseExtents(std::string_view text) {
  return SymInt(sym::Parser(text, true).ParseAll());
}

}  // namespace weft
