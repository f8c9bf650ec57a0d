/// node.h: the interned expression node, its order, and the constructors of canonical forms
/// (private to src/sym).
///
/// Grammar of canonical forms:
///   node     ::= constant | monomial | sum
///   monomial ::= atom | product
///   product  ::= two or more factors: atoms with powers, in the order of CompareNodes
///   atom     ::= symbol | floordiv(p, q) | mod(p, q) | min(..) | max(..) | bcast(..)
///   sum      ::= coef * monomial + .. + constant, terms in graded lexicographic order; more than
///                a bare monomial
///
/// The `Make*` functions apply their rules to a fixed point, so that rebuilding a canonical node
/// from its parts gives the same node; Parse relies on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/support/error.h"
#include "weft/sym/sym.h"

namespace weft::sym {

/// Levels of nested atoms, expanded size and total degree above which an expression is replaced by
/// a fresh symbol.
inline constexpr int kMaxDepth = 24;
inline constexpr uint32_t kMaxSize = 1024;
inline constexpr int kMaxDegree = 32;

enum class Kind : uint8_t { kConst, kSymbol, kFloorDiv, kMod, kMin, kMax, kBcast, kProduct, kSum };

/// What a symbol is. Interning decides it, from the name of all but an extent: text holds no more.
enum class SymbolKind : uint8_t {
  kNamed,     ///< the model's
  kUnbacked,  ///< u<k>: a size that depends on data
  kMinted,    ///< stands for a large expression
  kExtent,    ///< of a kernel
};

struct Factor {
  const Node* atom;
  int32_t power;
};

struct Term {
  const Node* mono;
  int64_t coef;
};

/// Immutable once interned, but for `definition`, which is set at most once.
class Node {
 public:
  Kind kind = Kind::kConst;
  SymbolKind symbol_kind = SymbolKind::kNamed;  ///< of a symbol
  bool has_div = false;         ///< a floordiv or mod occurs as a factor (sums: of some term)
  bool has_extent = false;      ///< an extent of a kernel occurs: never replaced by a minted symbol
  int32_t depth = 0;            ///< levels of nested atoms
  int32_t degree = 0;           ///< of a monomial
  uint32_t size = 1;            ///< nodes of the expression written out as a tree, saturating
  uint64_t hash = 0;            ///< structural
  uint64_t symbol_mask = 0;     ///< a bloom filter of the symbols inside
  int64_t constant = 0;         ///< value of a constant; constant term of a sum
  int64_t divisor = 1;          ///< divides every value; 0 for the constant 0
  Range range;                  ///< contains every value, given that symbols are >= 0
  int32_t extent = -1;          ///< symbol: number of the kernel's extent that it is
  std::string name;             ///< symbol
  std::vector<Term> terms;      ///< sum
  std::vector<Factor> factors;  ///< product
  std::vector<const Node*> args;  ///< floordiv, mod, min, max, bcast
  /// The expression that a minted symbol stands for.
  mutable std::atomic<const Node*> definition{nullptr};

  Node() = default;
  explicit Node(Kind k) : kind(k) {}
  Node(Node&& o) noexcept
      : kind(o.kind),
        constant(o.constant),
        extent(o.extent),
        name(std::move(o.name)),
        terms(std::move(o.terms)),
        factors(std::move(o.factors)),
        args(std::move(o.args)) {}

  bool is_const() const { return kind == Kind::kConst; }
  bool is_atom() const { return kind != Kind::kConst && kind < Kind::kProduct; }
  bool is_monomial() const { return kind != Kind::kConst && kind <= Kind::kProduct; }
};

/// The unique node equal to `proto`; computes its derived fields on first sight.
const Node* Intern(Node&& proto);
const Node* ConstNode(int64_t v);
const Node* SymbolNode(std::string_view name);
/// Extent number k of a kernel.
const Node* ExtentNode(int k);
/// `node` itself, or a symbol that stands for it when it exceeds a size limit. What holds an extent
/// of a kernel is kept at any size: nothing could say to a kernel what such a symbol stands for.
const Node* Bounded(const Node* node);
/// The symbol that stands for `node`, which holds no extent of a kernel.
const Node* Mint(const Node* node);
/// `x$<hash>`, or `xn$<hash>` where it may be negative: minted, and read back from text; no user's
/// symbol is called so.
bool IsMintedName(std::string_view name);

/// Total order of nodes (constants, symbols by name, other atoms, products, sums).
int CompareNodes(const Node* a, const Node* b);
/// Term order: higher degree first, then lexicographic with earlier atoms first.
int CompareMonomials(const Node* a, const Node* b);

/// A sum under construction. `terms` need not be canonical until `Normalize`.
struct Poly {
  std::vector<Term> terms;
  int64_t constant = 0;

  void AddScaled(const Node* node, int64_t scale);  ///< this += scale * node
  /// Sorts, merges equal monomials, drops zeros.
  void Collect();
  bool is_const() const { return terms.empty(); }
};

Poly PolyOf(const Node* node);
/// Canonical node of a poly: collects, applies the div/mod identities, interns, bounds the size.
const Node* FromPoly(Poly poly);

/// Factors of a monomial (an atom is one factor).
struct FactorList {
  explicit FactorList(const Node* mono);
  const Factor* begin() const { return data_; }
  const Factor* end() const { return data_ + size_; }
  size_t size() const { return size_; }
  const Factor& operator[](size_t i) const { return data_[i]; }

 private:
  Factor single_;
  const Factor* data_;
  size_t size_;
};

/// Product of two monomials; nullptr stands for 1.
const Node* MulMonomials(const Node* a, const Node* b);
/// a / b where b divides a as a monomial: sets *quotient (nullptr for 1) and returns true.
bool DivideMonomials(const Node* a, const Node* b, const Node** quotient);
const Node* MonomialOf(std::vector<Factor> factors);
/// Greatest common monomial of all terms of a and b (nullptr for 1); a constant term makes it 1.
const Node* CommonMonomial(const Node* a, const Node* b);

const Node* AddNodes(const Node* a, const Node* b, int64_t scale_b = 1);
const Node* MulNodes(const Node* a, const Node* b);
const Node* ScaleNode(const Node* a, int64_t k);

/// Polynomial division p = quotient * q + rest, reducing while the leading term of q divides a term
/// of the rest. Integer coefficients only; q is not constant. False where it would need more than
/// `kMaxTerms` terms.
bool PolyDivide(const Node* p, const Node* q, Poly* quotient, Poly* rest);
/// True and the quotient where q divides p exactly as polynomials (q may be constant).
bool PolyDivideExact(const Node* p, const Node* q, const Node** quotient);
/// Gcd of all coefficients, the constant included; 0 for 0.
int64_t Content(const Node* p);

const Node* MakeFloorDiv(const Node* p, const Node* q);
const Node* MakeMod(const Node* p, const Node* q);
const Node* MakeExactDiv(const Node* p, const Node* q);
const Node* MakeMinMax(Kind kind, std::vector<const Node*> args);
const Node* MakeBcast(std::vector<const Node*> args);

/// floordiv, mod, min, max or bcast of canonical operands, with all rules applied.
const Node* MakeAtom(Kind kind, std::vector<const Node*> args);

/// Values never equal 1 (by range or divisibility): such an extent decides a broadcast.
inline bool NeverOne(Range r, int64_t divisor) {
  return r.lo >= 2 || r.hi <= 0 || divisor == 0 || divisor >= 2;
}
int64_t Gcd(int64_t a, int64_t b);

/// Runs `ask`; `otherwise` where what it makes on the way leaves 64 bits, which says
/// nothing about the question.
template <class Ask, class Otherwise>
auto UnlessOverflow(Ask ask, Otherwise otherwise) {
  try {
    return ask();
  } catch (const UserError& e) {
    if (e.code() != ErrorCode::kOverflow) throw;
    return otherwise();
  }
}

/// Calls `visit` for `root` and everything under it, operands first, each node once; iterative.
/// `expand` says whether to go from a minted symbol into its definition.
template <class Visit, class Expand>
void VisitPostorder(const Node* root, Visit visit, Expand expand);

/// Operands of a node, in order: terms' monomials, factors' atoms, or arguments.
size_t NumChildren(const Node* n);
const Node* Child(const Node* n, size_t i);

std::string PrintNode(const Node* node);
/// Printed so that it can stand as an operand of // and %: bare or in parentheses.
std::string PrintOperand(const Node* node);

}  // namespace weft::sym

#include "postorder.h"
