/// never_wraps.cc: whether integer data may be followed as a symbolic expression.
///
/// Data wraps at 32 or 64 bits, expressions do not: (n * k) // k is n for an expression, and not
/// for data where n * k wraps. Every expression wraps for *some* sizes; what counts is those that
/// tensors have. A product of sizes is the size of something, so it is bounded like one.
#include <algorithm>
#include <cmath>

#include "node.h"

namespace weft {

using sym::Factor;
using sym::Kind;
using sym::Node;
using sym::Term;

namespace {

/// Sizes of real tensors, and the largest value of the data that they are in.
struct Bounds {
  double size, value;
};
/// Room is left for one more operation.
constexpr Bounds kData64{0x1p31, 0x1p62};
/// Who computes with sizes in 32 bits has none that leave them, but may have factors that do: these
/// sizes leave room for all factors that are counts of channels or words.
constexpr Bounds kData32{0x1p12, 0x1p31};
/// A power of a size is none.
constexpr int kMaxRank = 8;

double BoundOf(const Node* n, double largest_size,
               const std::unordered_map<const Node*, double>& bounds) {
  switch (n->kind) {
    case Kind::kConst:
      return std::fabs(double(n->constant));
    case Kind::kSymbol:
      return largest_size;
    case Kind::kProduct: {
      if (n->degree > kMaxRank) return HUGE_VAL;
      double product = largest_size;
      for (const Factor& f : n->factors) {
        const double excess = bounds.at(f.atom) / largest_size;
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

bool NeverLeaves(const Bounds& data, SymInt e) {
  if (!e.known() || e.is_const() || e.is_symbol()) return true;
  std::unordered_map<const Node*, double> bounds;
  bool fits = true;
  sym::VisitPostorder(
      e.node(),
      [&](const Node* n) {
        const double bound = BoundOf(n, data.size, bounds);
        fits = fits && (n->is_const() || bound <= data.value);
        bounds.emplace(n, bound);
      },
      [](const Node*) { return false; });
  return fits;
}

}  // namespace

bool NeverWraps(SymInt e) { return NeverLeaves(kData64, e); }

bool NeverWraps32(SymInt e) { return NeverLeaves(kData32, e); }

}  // namespace weft
