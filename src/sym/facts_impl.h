/// facts_impl.h: what one graph knows about its symbols (private to src/sym).
///
/// Equalities that can be solved for a symbol become substitutions whose right-hand sides hold no
/// substituted symbol, so applying them takes one pass. Others, such as a*b == c*d, are kept as
/// polynomials that are zero, and rewrite by polynomial reduction: their leading term gives way to
/// the rest. Ranges are stored for polynomials without constant whose coefficients have no common
/// factor and lead positive, so that h >= 3 also answers for 2*h - 6.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "interval.h"
#include "node.h"

namespace weft {

struct Facts::Impl {
  using Node = sym::Node;
  struct Less {
    bool operator()(const Node* a, const Node* b) const { return sym::CompareNodes(a, b) < 0; }
  };
  struct Equality {
    const Node* value;
    bool assumed;
  };
  struct Relation {
    const Node* zero;
    bool assumed;
    const Node* atom = nullptr;   ///< solved for, if not null
    const Node* value = nullptr;  ///< of the atom, which does not occur in it
  };
  /// What must hold, said of expressions for which it could not be stored otherwise: 64
  /// bits do not hold what proofs and rewrites would make of them. Nothing is concluded
  /// from it; CheckHolds tests it.
  struct Demand {
    const Node *a, *b;  ///< equal; b null: a lies in `range` and is a multiple of `divisor`
    Range range;
    int64_t divisor = 1;
    bool assumed = true;
  };
  using Memo = std::unordered_map<const Node*, const Node*>;

  std::unordered_map<const Node*, Equality> substitutions;
  /// symbol -> substituted symbols it occurs under
  std::unordered_map<const Node*, std::vector<const Node*>> users;
  std::vector<Relation> relations;
  std::vector<Demand> demands;
  std::map<const Node*, Range, Less> ranges;
  std::map<const Node*, int64_t, Less> divisors;
  uint64_t mask = 0;  ///< bloom filter of the symbols that any fact mentions
  int assumptions = 0;

  bool Touches(const Node* n) const { return (n->symbol_mask & mask) != 0; }

  /// Range and divisor of an expression as it stands, without rewriting it.
  Range RawRange(const Node* n) const;
  int64_t RawDivisor(const Node* n) const;
  Range RangeOf(const Node* n) const { return sym::RangeMeet(RawRange(n), RawRange(Simplify(n))); }

  const Node* SimplifyOrThrow(const Node* n) const;
  /// n itself where rewriting leaves 64 bits.
  const Node* Simplify(const Node* n) const;
  const Node* SimplifyOnce(const Node* n, Memo& memo) const;
  const Node* RebuildAtom(const Node* n, std::vector<const Node*> args) const;
  const Node* Reduce(const Node* n) const;

  void SetRange(const Node* n, Range r);
  void SetDivisor(const Node* n, int64_t d);
  bool AddEqual(const Node* a, const Node* b, bool assumed);
  bool AddEqualOrThrow(const Node* a, const Node* b, bool assumed);
  /// What min(..) == value or max(..) == value says of the operands, where that is all it says:
  /// then `solved`. False where it cannot be.
  bool AddExtremum(const Node* atom, const Node* value, bool assumed, bool* solved);
  bool Substitute(const Node* symbol, const Node* value, bool assumed);

  bool NonNegative(const Node* d, int* budget) const;
  bool ProvedNonNegative(const Node* d) const;
  Proof IsZero(const Node* d) const;
  Proof Divides(int64_t d, const Node* n) const;
};

namespace sym {

/// n = scale * key + offset, with key as `Facts::Impl::ranges` stores it; scale 0 for a constant.
struct Affine {
  const Node* key;
  int64_t scale, offset;
};
Affine AffineOf(const Node* n);
/// True where `symbol` occurs in n.
bool Mentions(const Node* n, const Node* symbol);

}  // namespace sym
}  // namespace weft
