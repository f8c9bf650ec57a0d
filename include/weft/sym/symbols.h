/// symbols.h: the symbols of an expression, asked about and replaced.
#pragma once

#include <algorithm>
#include <vector>

#include "weft/sym/apply.h"
#include "weft/sym/sym.h"

namespace weft {

/// `is` holds of every symbol of a known expression; of a constant it does.
template <class Predicate>
bool EverySymbol(SymInt e, const Predicate& is) {
  const std::vector<SymInt> symbols = e.Symbols();
  return std::all_of(symbols.begin(), symbols.end(), is);
}

/// A known expression with `of(symbol)` in the place of each symbol; unknown where one of these is.
/// Throws kOverflow.
template <class Function>
SymInt Substitute(SymInt e, const Function& of) {
  struct Visitor final : SymVisitor {
    explicit Visitor(const Function& f) : of(f) {}
    void Const(int64_t v) override { stack.emplace_back(v); }
    void Sym(SymInt symbol) override { stack.push_back(of(symbol)); }
    void Op(char op) override {
      const SymInt b = stack.back();
      stack.pop_back();
      SymInt& a = stack.back();
      a = a.known() && b.known() ? ApplySymOp(op, a, b) : SymInt();
    }
    const Function& of;
    std::vector<SymInt> stack;
  } visitor(of);
  VisitPostfix(e, visitor);
  return visitor.stack.back();
}

}  // namespace weft
