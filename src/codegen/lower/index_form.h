/// index_form.h: index arithmetic as sums of products; private to src/codegen.
///
/// An i64 expression is read as `constant + sum of coefficient * atom`: coefficients are symbolic
/// integers free of loops, atoms are loop indices or operations that are not linear (floordiv, mod,
/// loads, selects). The sum equals the expression modulo 2^64; as a true integer only where it
/// cannot wrap (index_bounds.cc). Every proof the simplifier makes is about such sums and the
/// ranges of their atoms.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "codegen/expr/expr_pool.h"
#include "weft/codegen/lower/lower.h"

namespace weft {

struct IndexForm {
  SymInt constant = 0;
  /// distinct atoms, no coefficient is 0; in order of first use
  std::vector<std::pair<Expr, SymInt>> terms;

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
  /// `sizes`: element counts of what the kernel reads, writes and loops over; sums below them do
  /// not wrap. None given: the product of `dims`.
  IndexSimplifier(const std::vector<SymInt>& dims, const Facts& facts,
                  const std::vector<SymInt>& sizes = {});
  /// Simplifies all integer arithmetic of `e`, a Reduce is left as it is. `at_load` (may be null)
  /// rewrites loads after their indices.
  Expr Run(const Expr& e, const std::function<Expr(const Expr&)>& at_load = nullptr);

  struct Bounds {
    SymInt lo, hi;  ///< inclusive
  };
  /// Of a sum that cannot wrap; nothing where it may.
  std::optional<Bounds> BoundsOf(const IndexForm& f);

  /// coefficient * factors[0] * factors[1] .., factors in Compare order.
  struct Monomial {
    std::vector<SymInt> factors;
    double coefficient = 1;
  };

 private:
  /// One level further down while it lives.
  class Deeper {
   public:
    explicit Deeper(IndexSimplifier* owner);
    ~Deeper() { --*depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    int* depth_;
  };
  bool IsDeep() const;

  // simplify_index.cc
  Expr Simplify(const Expr& e);
  Expr SimplifyBinary(const Expr& e);
  IndexForm Normal(const Expr& e);
  IndexForm Divide(const IndexForm& x, SymInt d);
  IndexForm Modulo(const IndexForm& x, SymInt d);
  void Recombine(IndexForm* f);
  /// The truth of a comparison where the ranges decide it.
  std::optional<bool> Decide(BinOp op, const Expr& a, const Expr& b);
  bool IsUnsignedInside(const Expr& e);

  // index_bounds.cc
  void SetSizes(const std::vector<SymInt>& sizes);
  /// Every value of e is one of 64 bits.
  bool FitsInt64(SymInt e);
  /// e as a divisor that is at least 1 and the same at all points; unknown where it may be another.
  SymInt PositiveDivisor(const Expr& e);
  /// Of the sum of true integers that f spells, whether or not 64 bits hold it.
  std::optional<Bounds> TrueBounds(const IndexForm& f);
  Bounds BoundsOfAtom(const Expr& atom);
  Bounds FindBoundsOfAtom(const Expr& atom);
  /// Of the value of e, everything where nothing is known.
  Bounds BoundsOfValue(const Expr& e);
  /// 0 <= f < d, which includes that f cannot wrap.
  bool Within(const IndexForm& f, SymInt d);
  bool CannotWrap(const IndexForm& f) { return BoundsOf(f).has_value(); }
  bool NonNegative(SymInt x) const { return facts_.LessEqual(0, x) == Proof::kYes; }

  const std::vector<SymInt>& dims_;
  std::optional<Facts> own_;
  const Facts& facts_;
  std::vector<Monomial> sizes_;
  ExprMap<Expr> memo_;
  ExprMap<Bounds> atom_bounds_;
  Exprs alive_;
  int depth_ = 0;
};

}  // namespace weft
