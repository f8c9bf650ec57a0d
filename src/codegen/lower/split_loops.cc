/// split_loops.cc: a loop whose index is taken apart by a period becomes two loops, along which
/// every access is affine. A repetition then copies runs instead of asking for the remainder of
/// each element.
///
///   before  for j < 1000: y[i, j] = x[i, j % 100]
///   after   for q < 10: for r < 100: y[i, q * 100 + r] = x[i, r]
#include "index_form.h"
#include "nest.h"

namespace weft {
namespace {

/// The last loop runs in lanes: rows of fewer elements leave most of a vector empty, and are read
/// at computed positions in less time. By judgement, not by measurement.
constexpr int64_t kMinRun = 12;
/// Loops of a kernel beyond which none is split.
constexpr int kMostLoops = 12;

struct Period {
  int loop = -1;
  SymInt length, count;
};

/// x / d where it leaves no remainder; unknown otherwise.
SymInt Times(SymInt x, SymInt d) {
  if (x.is_const() && d.is_const())
    return d.value() > 0 && x.value() % d.value() == 0 ? SymInt(x.value() / d.value()) : SymInt();
  const SymInt q = FloorDiv(x, d);
  return q * d == x ? q : SymInt();
}

/// `n` as Index(loop) % d or Index(loop) / d.
Period PeriodOf(const Nest& nest, const ExprNode& n, const Facts& facts) {
  Period p;
  if (n.kind() != ExprKind::kBinary ||
      (n.bin_op() != BinOp::kFloorMod && n.bin_op() != BinOp::kFloorDiv) ||
      n.operand(0)->kind() != ExprKind::kIndex)
    return p;
  const int loop = n.operand(0)->index();
  const Expr& by = n.operand(1);
  if (loop >= nest.num_dims) return p;
  if (by->kind() == ExprKind::kConst)
    p.length = by->const_int();
  else if (by->kind() == ExprKind::kDim)
    p.length = by->dim();
  else
    return p;
  // Where it is 0 there is no point.
  if (facts.LessEqual(p.length.is_const() ? 1 : 0, p.length) != Proof::kYes) return p;
  p.count = Times(nest.loops[size_t(loop)], p.length);
  if (p.count.known() && !p.count.is(1) && !p.length.is(1)) p.loop = loop;
  return p;
}

/// The first loop that is worth it; `loop` is -1 where none is.
Period FindPeriod(const Nest& nest, const Facts& facts) {
  std::vector<Period> found;
  std::vector<char> divided(nest.loops.size(), 0);
  for (const ExprNode* n : PostOrder(nest.Parts())) {
    const Period p = PeriodOf(nest, *n, facts);
    if (p.loop < 0) continue;
    if (n->bin_op() == BinOp::kFloorDiv) divided[size_t(p.loop)] = 1;
    found.push_back(p);
  }
  for (const Period& p : found) {
    // Before the lanes a division a row is nothing; a repetition there may go on in the next loop.
    if (p.loop + 1 < nest.num_dims ? !divided[size_t(p.loop)]
                                   : !p.length.is_const() || p.length.value() >= kMinRun)
      return p;
  }
  return {};
}

void Split(Nest* nest, const Period& p, const Facts& facts, const std::vector<SymInt>& sizes) {
  const auto loop = size_t(p.loop);
  nest->loops[loop] = p.count;
  nest->loops.insert(nest->loops.begin() + p.loop + 1, p.length);
  nest->group.insert(nest->group.begin() + p.loop + 1, nest->group[loop]);
  ++nest->num_dims;
  ++nest->num_outer;
  Indices at;
  for (int k = 0; k + 1 < int(nest->loops.size()); ++k)
    at.push_back(Expr::Index(k > p.loop ? k + 1 : k));
  at[loop] = Expr::Index(p.loop) * Expr::Dim(p.length) + Expr::Index(p.loop + 1);
  IndexSimplifier simplifier(nest->loops, facts, sizes);
  const auto split = [&](Expr* e) { *e = simplifier.Run(SubstituteIndices(*e, at)); };
  for (Nest::Store& s : nest->stores) {
    split(&s.offset);
    split(&s.value);
  }
  for (Nest::Reduction& r : nest->reductions) {
    split(&r.body);
    r.first += r.first > p.loop;
  }
  for (Nest::RangeFlag& f : nest->flags) split(&f.value);
}

}  // namespace

void SplitLoops(Nest* nest, const Facts& facts, const std::vector<SymInt>& sizes) {
  if (nest->has_rows()) return;
  while (int(nest->loops.size()) < kMostLoops) {
    const Period p = FindPeriod(*nest, facts);
    if (p.loop < 0) return;
    Split(nest, p, facts, sizes);
  }
}

}  // namespace weft
