/// fuzz_util.h: random expressions with an evaluator that shares no code with the canonical forms
/// (tests only).
///
/// A tree is built once; `Build` says it with SymInt operations, `Eval` computes it in 128 bits
/// straight from the definition of each operation. Where Eval has no value (division by zero,
/// unequal extents, more than 64 bits) the tree says nothing about the library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "weft/support/error.h"
#include "weft/sym/apply.h"
#include "weft/sym/sym.h"

namespace weft::fuzz {

using Int = __int128;

struct Tree {
  char op = 'c';  ///< c const, s symbol, + - * / % c(eil) C, e(xact) E, m M b
  int64_t value = 0;
  int symbol = 0;
  std::unique_ptr<Tree> a, b;
};

inline const std::vector<std::string>& SymbolNames() {
  static const std::vector<std::string> names = {"a", "b", "n", "w"};
  return names;
}

inline int64_t Pick(std::mt19937_64& rng, int64_t lo, int64_t hi) {
  return lo + static_cast<int64_t>(rng() % static_cast<uint64_t>(hi - lo + 1));
}

/// Ends of the 64-bit range and their neighbours.
inline int64_t Extreme(std::mt19937_64& rng) {
  static const int64_t values[] = {INT64_MIN,
                                   INT64_MIN + 1,
                                   INT64_MAX,
                                   INT64_MAX - 1,
                                   int64_t{1} << 62,
                                   -(int64_t{1} << 62),
                                   int64_t{1} << 32,
                                   -(int64_t{1} << 31),
                                   -1,
                                   0,
                                   1,
                                   2};
  return values[Pick(rng, 0, 11)];
}

inline std::unique_ptr<Tree> RandomTree(std::mt19937_64& rng, int depth, bool extreme = false) {
  auto t = std::make_unique<Tree>();
  if (depth == 0 || Pick(rng, 0, 6) == 0) {
    if (Pick(rng, 0, 2) == 0) {
      t->value = extreme ? Extreme(rng) : Pick(rng, -4, 8);
    } else {
      t->op = 's';
      t->symbol = static_cast<int>(Pick(rng, 0, 3));
    }
    return t;
  }
  static const char kOps[] = "+++---***///%%%CmMb";
  t->op = kOps[Pick(rng, 0, sizeof(kOps) - 2)];
  t->a = RandomTree(rng, depth - 1, extreme);
  t->b = RandomTree(rng, depth - 1, extreme);
  const bool divides = t->op == '/' || t->op == '%' || t->op == 'C';
  if (divides && Pick(rng, 0, 2) != 0) {  // mostly small positive constants, as in real shapes
    t->b = std::make_unique<Tree>();
    t->b->value = extreme ? Extreme(rng) : Pick(rng, 1, 6);
  }
  return t;
}

inline SymInt Build(const Tree& t) {
  switch (t.op) {
    case 'c':
      return t.value;
    case 's':
      return SymInt::Symbol(SymbolNames()[static_cast<size_t>(t.symbol)]);
    default:
      break;
  }
  const SymInt a = Build(*t.a), b = Build(*t.b);
  return t.op == 'C' ? CeilDiv(a, b) : ApplySymOp(t.op, a, b);
}

inline Int Floor(Int a, Int b) {
  Int q = a / b;
  if (q * b != a && (a < 0) != (b < 0)) --q;
  return q;
}

/// Values beyond `bound` count as none: far inside 64 bits, an expanded form may be larger without
/// leaving them.
inline std::optional<Int> Eval(const Tree& t, const std::vector<int64_t>& args,
                               Int bound = Int{1} << 40) {
  switch (t.op) {
    case 'c':
      return t.value;
    case 's':
      return args[static_cast<size_t>(t.symbol)];
    default:
      break;
  }
  const auto a = Eval(*t.a, args, bound), b = Eval(*t.b, args, bound);
  if (!a || !b) return std::nullopt;
  Int r = 0;
  switch (t.op) {
    case '+':
      r = *a + *b;
      break;
    case '-':
      r = *a - *b;
      break;
    case '*':
      r = *a * *b;
      break;
    case 'm':
      r = *a < *b ? *a : *b;
      break;
    case 'M':
      r = *a < *b ? *b : *a;
      break;
    case 'b':
      if (*a != *b && *a != 1 && *b != 1) return std::nullopt;
      r = *a == 1 ? *b : *a;
      break;
    default:
      if (*b == 0) return std::nullopt;
      r = t.op == '/' ? Floor(*a, *b) : (t.op == '%' ? *a - *b * Floor(*a, *b) : -Floor(-*a, *b));
  }
  if (r > bound || r < -bound) return std::nullopt;
  return r;
}

inline SymBindings Bindings(const std::vector<int64_t>& args) {
  SymBindings bindings;
  for (size_t i = 0; i < args.size(); ++i) bindings[SymbolNames()[i]] = args[i];
  return bindings;
}

/// The expression, or nothing where construction itself proves that no value exists (constant zero
/// divisor, constant extents that do not broadcast, overflow of a coefficient).
inline std::optional<SymInt> TryBuild(const Tree& t) {
  try {
    return Build(t);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace weft::fuzz
