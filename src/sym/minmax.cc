/// minmax.cc: min, max and the broadcast of extents, as flat sets of operands.
///
/// min and max drop operands that another one dominates for all values of the symbols, and absorb
/// (max(a, min(a, b)) = a). A broadcast drops ones and, where an operand can never be 1, is that
/// operand: the run fails unless all the others are 1 or equal to it. bcast(0, 1) is 0, so a
/// broadcast is not a max.
#include <algorithm>

#include "interval.h"
#include "node.h"
#include "weft/support/check.h"

namespace weft::sym {
namespace {

/// Differences of more operands than this are not compared; equal ones are still merged.
constexpr size_t kMaxPairwise = 16;

std::vector<const Node*> Flatten(Kind kind, const std::vector<const Node*>& args) {
  std::vector<const Node*> flat;
  for (const Node* a : args) {
    if (a->kind == kind) {
      flat.insert(flat.end(), a->args.begin(), a->args.end());
    } else {
      flat.push_back(a);
    }
  }
  std::sort(flat.begin(), flat.end(),
            [](const Node* a, const Node* b) { return CompareNodes(a, b) < 0; });
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  return flat;
}

/// Proved a >= b for all values of the symbols.
bool AlwaysGreaterEqual(const Node* a, const Node* b) {
  if (a->range.lo >= b->range.hi) return true;
  if ((a->symbol_mask & b->symbol_mask) == 0) return false;
  try {
    return AddNodes(a, b, -1)->range.lo >= 0;
  } catch (const UserError&) {
    return false;  // the difference leaves 64 bits: nothing is proved
  }
}

const Node* InternAtom(Kind kind, std::vector<const Node*> args) {
  if (args.size() == 1) return args[0];
  Node n(kind);
  n.args = std::move(args);
  return Bounded(Intern(std::move(n)));
}

bool Contains(const std::vector<const Node*>& v, const Node* n) {
  return std::find(v.begin(), v.end(), n) != v.end();
}

}  // namespace

const Node* MakeMinMax(Kind kind, std::vector<const Node*> raw) {
  std::vector<const Node*> args = Flatten(kind, raw);
  const bool is_max = kind == Kind::kMax;
  // Constants come first in Compare order, ascending.
  const auto symbolic =
      std::find_if(args.begin(), args.end(), [](const Node* a) { return !a->is_const(); });
  if (symbolic - args.begin() > 1) {
    const Node* kept = is_max ? *(symbolic - 1) : args[0];
    args.erase(args.begin(), symbolic);
    args.insert(args.begin(), kept);
  }
  const Kind dual = is_max ? Kind::kMin : Kind::kMax;
  for (size_t i = args.size(); i-- > 0;) {
    if (args[i]->kind != dual) continue;
    const auto& inner = args[i]->args;
    if (std::any_of(inner.begin(), inner.end(), [&](const Node* a) { return Contains(args, a); })) {
      args.erase(args.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (args.size() <= kMaxPairwise) {
    for (size_t i = 0; i < args.size(); ++i) {
      for (size_t j = 0; j < args.size(); ++j) {
        if (i == j) continue;
        const bool drop_j =
            is_max ? AlwaysGreaterEqual(args[i], args[j]) : AlwaysGreaterEqual(args[j], args[i]);
        if (!drop_j) continue;
        args.erase(args.begin() + static_cast<std::ptrdiff_t>(j));
        if (j < i) --i;
        --j;  // wraps for 0 and comes back with the increment
      }
    }
  }
  return InternAtom(kind, std::move(args));
}

const Node* MakeBcast(std::vector<const Node*> raw) {
  std::vector<const Node*> args = Flatten(Kind::kBcast, raw);
  const Node* one = ConstNode(1);
  args.erase(std::remove(args.begin(), args.end(), one), args.end());
  if (args.empty()) return one;
  WEFT_CHECK(args.size() < 2 || !args[1]->is_const(), kShapeMismatch,
             "dimensions {} and {} do not broadcast: expected equal dimensions, or 1",
             args[0]->constant, args[1]->constant);
  for (const Node* a : args) {
    if (NeverOne(a->range, a->divisor)) return a;
  }
  // bcast(a, min(a, b)) = a for b >= 1: where the minimum is b < a it has to be 1.
  const auto gives_way = [all = args](const Node* m) {
    if (m->kind != Kind::kMin) return false;
    const auto is_other = [&](const Node* a) { return a != m && Contains(all, a); };
    const auto other = std::find_if(m->args.begin(), m->args.end(), is_other);
    return other != m->args.end() &&
           std::all_of(m->args.begin(), m->args.end(),
                       [&](const Node* b) { return b == *other || b->range.lo >= 1; });
  };
  args.erase(std::remove_if(args.begin(), args.end(), gives_way), args.end());
  return InternAtom(Kind::kBcast, std::move(args));
}

}  // namespace weft::sym
