/// index_form.h: index arithmetic as sums of products; private to src/codegen.
///
/// An i64 expression is read as `constant + sum of coefficient * atom`: coefficients are symbolic
/// integers free of loops, atoms are loop indices or operations that are not linear (floordiv, mod,
/// loads, selects). Every proof the simplifier makes is about such sums and the ranges of their
/// atoms.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "expr_pool.h"
#include "weft/codegen/lower.h"

namespace weft {

struct IndexForm {
  SymInt constant = 0;
  std::vector<std::pair<Expr, SymInt>>
      terms;  ///< distinct atoms, no coefficient is 0; in order of first use

  void Add(const Expr& atom, SymInt coefficient);
  void AddForm(const IndexForm& o, SymInt factor);
  SymInt Coefficient(const Expr& atom) const;  ///< 0 where absent
  Expr ToExpr() const;
};

/// e as a sum, as it is written. Arithmetic that would leave 64 bits makes an atom.
IndexForm FormOf(const Expr& e);

/// Calls `see` for every maximal linear sum inside `roots` (offsets, operands of div / mod /
/// comparisons, ...), each once.
void VisitForms(const Exprs& roots, const std::function<void(const Expr&, const IndexForm&)>& see);

class IndexSimplifier {
 public:
  /// Where there is a point to compute, every extent is at least 1: that is added to the facts.
  IndexSimplifier(const std::vector<SymInt>& dims, const Facts& facts);
  /// Simplifies all integer arithmetic of `e`, a Reduce is left as it is. `at_load` (may be null)
  /// rewrites loads after their indices.
  Expr Run(const Expr& e, const std::function<Expr(const Expr&)>& at_load = nullptr);

  struct Bounds {
    SymInt lo, hi;  ///< inclusive
  };
  std::optional<Bounds> BoundsOf(const IndexForm& f);

 private:
  Expr Simplify(const Expr& e);
  IndexForm Normal(const Expr& e);
  IndexForm Divide(const IndexForm& x, SymInt d);
  IndexForm Modulo(const IndexForm& x, SymInt d);
  std::optional<Bounds> BoundsOfAtom(const Expr& atom);
  void Recombine(IndexForm* f);
  /// The truth of a comparison where the ranges decide it.
  std::optional<bool> Decide(BinOp op, const Expr& a, const Expr& b);
  bool NonNegative(SymInt x) const { return facts_.LessEqual(0, x) == Proof::kYes; }
  bool Within(const IndexForm& f, SymInt d);
  bool IsUnsignedInside(const Expr& e);

  const std::vector<SymInt>& dims_;
  std::optional<Facts> own_;
  const Facts& facts_;
  ExprMap<Expr> memo_;
  Exprs alive_;
  int depth_ = 0;
};

}  // namespace weft
