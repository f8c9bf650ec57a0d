/// sym.h: symbolic integers, the arithmetic of shapes.
///
/// A `SymInt` is a handle to an interned, canonical expression over 64-bit integers: a sum of
/// products over *atoms* (symbol, floordiv, mod, min, max, bcast). Equal expressions are the same
/// pointer, so `a == b` is one compare and is true only when the canonical forms agree; it is a
/// *sufficient* test of equality. `Prove` answers yes / no / unknown with ranges, divisibility and
/// the equalities of a `Facts`; unknown is never treated as yes.
///
/// Every symbol is an extent or a size and therefore >= 0 unless `Facts` say more. All arithmetic
/// is overflow-checked (throws kOverflow). Expressions above `kMaxTerms` terms are replaced by a
/// fresh symbol that is a pure function of the expression (named after its hash), so that size
/// stays bounded. Interned nodes live as long as the process. All functions are thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/support/api.h"

namespace weft {

namespace sym {
class Node;  ///< interned expression node; private to src/sym
}

/// Largest number of terms of a canonical sum.
inline constexpr int kMaxTerms = 64;

/// A symbolic 64-bit integer, or *unknown* (the default). Trivially copyable, 8 bytes.
class WEFT_API SymInt {
 public:
  /// Unknown: nothing is known about the value, not even a name.
  SymInt() = default;
  SymInt(int64_t value);                         // NOLINT: implicit on purpose
  SymInt(int value) : SymInt(int64_t{value}) {}  // NOLINT

  /// The symbol of that name: [A-Za-z_][A-Za-z0-9_.$]*, else kSyntax. Same name, same symbol. `x$`
  /// or `xn$` and 16 hexadecimal digits are what large expressions are called: Parse reads them,
  /// here they are kSyntax.
  static SymInt Symbol(std::string_view name);
  /// Data-dependent size `u<k>`; not unique by itself, the caller (a graph) hands out k.
  static SymInt Unbacked(int64_t k);
  /// Is that the name of one? No model's symbol may have it.
  static bool IsUnbackedName(std::string_view name);
  /// Is it one?
  bool is_unbacked() const;
  /// k of Unbacked(k), as far as 63 bits hold it; nothing for all others.
  std::optional<int64_t> unbacked_number() const;
  /// Extent number k of a kernel, which its caller passes: a symbol of a kind of its own,
  /// printed `$k`, that no name makes. What holds one is never replaced by a symbol that stands
  /// for it, whatever its size.
  static SymInt Extent(int k);
  /// Parses what `ToString` prints: + - * // % min max bcast ( ) integers
  /// and symbols. Throws kSyntax.
  static SymInt Parse(std::string_view text);
  /// The same over extents of a kernel instead of symbols.
  static SymInt ParseExtents(std::string_view text);

  bool known() const { return node_ != nullptr; }
  explicit operator bool() const = delete;
  bool is_const() const;
  /// The constant value; throws InternalError unless is_const().
  int64_t value() const;
  std::optional<int64_t> try_value() const;
  bool is(int64_t v) const { return known() && is_const() && value() == v; }
  bool is_symbol() const;
  /// Name of a symbol; throws InternalError unless is_symbol().
  const std::string& symbol_name() const;
  /// k of Extent(k); nothing for all others.
  std::optional<int> extent_number() const;
  /// Nodes of the expression written out as a tree, saturating.
  uint32_t size() const;

  /// Pointer equality of canonical forms; unknown equals nothing, not even unknown.
  friend bool operator==(SymInt a, SymInt b) { return a.node_ == b.node_ && a.node_ != nullptr; }
  friend bool operator!=(SymInt a, SymInt b) { return !(a == b); }
  /// True for the same handle, unknown included; for containers and tests, not for reasoning.
  bool same(SymInt o) const { return node_ == o.node_; }
  /// Structural hash, equal in every process and run.
  uint64_t hash() const;
  /// Deterministic total order that depends only on the expressions; unknown first.
  static int Compare(SymInt a, SymInt b);

  /// Canonical text, e.g. "2*h + w//2 + 1"; "?" for unknown.
  std::string ToString() const;
  /// Distinct symbols of the expression, in Compare order.
  std::vector<SymInt> Symbols() const;

  const sym::Node* node() const { return node_; }
  explicit SymInt(const sym::Node* node) : node_(node) {}

 private:
  const sym::Node* node_ = nullptr;
};

// Arithmetic. Any unknown operand gives unknown (but 0 * unknown is 0).
WEFT_API SymInt operator+(SymInt a, SymInt b);
WEFT_API SymInt operator-(SymInt a, SymInt b);
WEFT_API SymInt operator*(SymInt a, SymInt b);
WEFT_API SymInt operator-(SymInt a);
/// Floor division and the modulo that belongs to it (sign of the divisor). A constant
/// 0 divisor throws kInvalidModel.
WEFT_API SymInt FloorDiv(SymInt a, SymInt b);
WEFT_API SymInt Mod(SymInt a, SymInt b);
/// Ceil(a / b) as -(-a // b).
WEFT_API SymInt CeilDiv(SymInt a, SymInt b);
/// Division that is known to leave no remainder (Reshape's -1): cancels factors, else floordiv.
WEFT_API SymInt ExactDiv(SymInt a, SymInt b);
WEFT_API SymInt Min(SymInt a, SymInt b);
WEFT_API SymInt Max(SymInt a, SymInt b);
/// The extent of two broadcast extents. bcast(a, a) = a, bcast(1, a) = a, bcast(2, a) = 2,
/// bcast(0, a) = 0; two different constants, neither 1, throw kShapeMismatch; symbolic otherwise:
/// never a, never b.
WEFT_API SymInt Bcast(SymInt a, SymInt b);
/// Product of all; 1 for none.
WEFT_API SymInt Product(const std::vector<SymInt>& factors);
/// Data of 64 bits that is followed as `e` does not wrap at the sizes of real tensors: with
/// every size, and every product of sizes, up to 2^31, no part of e comes near 64 bits.
/// Always true for constants.
WEFT_API bool NeverWraps(SymInt e);
/// The same of data of 32 bits, with sizes and their products up to 2^12.
WEFT_API bool NeverWraps32(SymInt e);

enum class Proof { kNo, kUnknown, kYes };

/// Closed interval; INT64_MIN / INT64_MAX stand for "no bound".
struct Range {
  int64_t lo = INT64_MIN, hi = INT64_MAX;
};

/// Values of symbols for one run.
using SymBindings = std::unordered_map<std::string, int64_t>;

/// What is known about symbols in one graph: ranges, divisors, equalities, products of equal
/// element counts. Value type. A fact tagged `if_run_succeeds` holds only where the run does not
/// fail; `assumptions` counts them.
class WEFT_API Facts {
 public:
  Facts();
  ~Facts();
  Facts(const Facts&);
  Facts(Facts&&) noexcept;
  Facts& operator=(const Facts&);
  Facts& operator=(Facts&&) noexcept;

  /// Narrows the range of a symbol (or of any expression). Contradictions throw kShapeMismatch.
  void SetRange(SymInt e, Range r);
  /// e is a multiple of d > 0.
  void SetDivisor(SymInt e, int64_t d);
  /// a == b. Returns false where that contradicts what is known, and adds nothing.
  bool AddEqual(SymInt a, SymInt b, bool if_run_succeeds = true);

  Range RangeOf(SymInt e) const;
  /// Largest proved divisor of e (0 for the constant 0).
  int64_t DivisorOf(SymInt e) const;
  /// Rewrites e to the representatives of the known equalities.
  SymInt Simplify(SymInt e) const;

  Proof Equal(SymInt a, SymInt b) const;
  Proof LessEqual(SymInt a, SymInt b) const;
  Proof Less(SymInt a, SymInt b) const;
  Proof Divides(int64_t d, SymInt e) const;
  /// True when proved; the usual question.
  bool ProvedEqual(SymInt a, SymInt b) const { return Equal(a, b) == Proof::kYes; }
  bool ProvedNot1(SymInt a) const { return Equal(a, 1) == Proof::kNo; }

  /// Those that mention no other symbol than these.
  Facts About(const std::vector<SymInt>& symbols) const;

  int assumptions() const;
  bool empty() const;  ///< nothing is known
  /// Tests every equality, range and divisor whose symbols are all bound; throws
  /// kShapeMismatch naming the first that fails. What was compiled with these facts is right
  /// only for bindings that pass.
  void CheckHolds(const SymBindings& bindings) const;
  /// One fact a line in canonical order: "a == b", "n in [1, 8]", "n % 4 ==
  /// 0". Round-trips through Parse.
  std::vector<std::string> ToStrings() const;
  void Parse(std::string_view fact);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Evaluates one expression. Throws kBadBinding for a missing symbol, kOverflow on overflow,
/// kShapeMismatch for a bcast of unequal extents.
WEFT_API int64_t Evaluate(SymInt e, const SymBindings& bindings);

/// Many expressions compiled once to a flat program over slots, with
/// shared sub-expressions evaluated once.
class WEFT_API SymProgram {
 public:
  SymProgram();
  ~SymProgram();
  SymProgram(SymProgram&&) noexcept;
  SymProgram& operator=(SymProgram&&) noexcept;

  /// `symbols` fixes the order of the arguments of Run.
  explicit SymProgram(std::vector<SymInt> symbols);
  /// Adds an expression over those symbols and returns its result slot. Throws
  /// kBadBinding for other symbols.
  int Add(SymInt e);
  /// From now on `symbol`, which is none of symbols(), has the value of `value`.
  /// Throws as Add does.
  void Define(SymInt symbol, SymInt value);
  int num_results() const;
  /// args[i] is the value of symbols[i]; results[k] receives the value of the k-th Add. Throws
  /// kOverflow where one of them leaves 64 bits; steps on the way may.
  void Run(const int64_t* args, int64_t* results) const;
  /// The same without kOverflow: false where a result leaves 64 bits; `left` then marks each such
  /// result, which is given modulo 2^64, as data would wrap.
  bool RunModulo(const int64_t* args, int64_t* results, std::vector<char>* left) const;
  const std::vector<SymInt>& symbols() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// How a symbolic expression is built; lets other rooms (codegen) translate one without
/// seeing src/sym. A shared sub-expression may be visited more than once. The depth of
/// recursion is bounded by kMaxDepth.
struct SymVisitor {
  virtual ~SymVisitor() = default;
  virtual void Const(int64_t v) = 0;    ///< push v
  virtual void Sym(SymInt symbol) = 0;  ///< push the value of a symbol
  /// pop b, pop a, push: '+' '-' '*' '/' (floor) '%' 'm' (min) 'M' (max) 'b' (bcast)
  virtual void Op(char op) = 0;
};
/// Emits `e` in postfix order to `v`.
WEFT_API void VisitPostfix(SymInt e, SymVisitor& v);

}  // namespace weft

template <>
struct std::hash<weft::SymInt> {
  size_t operator()(weft::SymInt s) const { return s.known() ? s.hash() : 0; }
};
