/// never_wraps.cc: whether integer data may be followed as a symbolic expression.
///
/// Data wraps at 64 bits, expressions do not: (n * k) // k is n for an expression, and not for data
/// where n * k wraps. Every expression wraps for *some* sizes; what counts is those that tensors
/// have. A product of sizes is the size of something, so it is bounded like one.
#include <algorithm>
#include <cmath>

#include "node.h"

namespace weft {

using sym::Factor;
using sym::Kind;
using sym::Node;
using sym::Term;

namespace {

constexpr double kLargestSize = 0x1p31;
/// A power of a size is none.
constexpr int kMaxRank = 8;
/// Leaves room for one more operation.
constexpr double kLargestValue = 0x1p62;

double BoundOf(const Node* n, const std::unordered_map<const Node*, double>& bounds) {
  switch (n->kind) {
    case Kind::kConst:
      return std::fabs(double(n->constant));
    case Kind::kSymbol:
      return kLargestSize;
    case Kind::kProduct: {
      if (n->degree > kMaxRank) return HUGE_VAL;
      double product = kLargestSize;
      for (const Factor& f : n->factors) {
        const double excess = bounds.at(f.atom) / kLargestSize;
        for (int i = 0; i < f.power && excess > 1; ++i) product *= excess;
      }
      return product;
    }
    case Kind::kSum: {
      double sum = std::fabs(double(n->constant));
      for (const Term& t : n->terms) sum += std::fabs(double(t.coef)) * bounds.at(t.mono);
      return sum;
    }
    case Kind::kFloorDiv:
      return bounds.at(n->args[0]) + 1;
    case Kind::kMod:
      return bounds.at(n->args[1]);
    default: {
      double most = 0;
      for (const Node* a : n->args) most = std::max(most, bounds.at(a));
      return most;
    }
  }
}

}  // namespace

bool NeverWraps(SymInt e) {
  if (!e.known() || e.is_const() || e.is_symbol()) return true;
  std::unordered_map<const Node*, double> bounds;
  bool fits = true;
  sym::VisitPostorder(
      e.node(),
      [&](const Node* n) {
        const double bound = BoundOf(n, bounds);
        fits = fits && (n->is_const() || bound <= kLargestValue);
        bounds.emplace(n, bound);
      },
      [](const Node*) { return false; });
  return fits;
}

}  // namespace weft
