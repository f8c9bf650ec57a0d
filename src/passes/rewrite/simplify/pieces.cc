/// pieces.cc: tensors put together of pieces, as the gradients of slices are.
///   weft::SliceGrad(dy, shape, starts, ..)              -> Pad(dy, [start, n - start - extent])
///   Pad(a, [0, 3]) + Pad(b, [2, 0]), a of 2 and b of 3  -> Concat(a, b)
///   Sum(Pad(a, [1, 6]), t, Pad(b, [4, 2]))              -> Sum(Pad(Concat(a, b), [1, 2]), t)
/// Pads by zeros along one axis, whose pieces lie side by side: what reads single slices of a
/// tensor (the steps of a recurrent network that an exporter wrote out, gates in another order)
/// adds up its gradient of tensors that are zero but for one piece. A sum with +0 in place of -0 is
/// the one difference. Cost: of a sum linear in its terms, times their rank.
#include <algorithm>
#include <map>
#include <optional>

#include "build.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/support/checked.h"

namespace weft::simplify {
namespace {

/// The ints of an operand; none where they are not known, `absent` where it is not given.
std::optional<std::vector<int64_t>> IntsOf(RewriteContext& ctx, const NodePtr& n, size_t i,
                                           std::vector<int64_t> absent) {
  if (i >= n->num_inputs() || !n->inputs[i].node) return absent;
  const SymTensorPtr v = ctx.value(n->inputs[i]);
  if (!v || !v->is_const()) return std::nullopt;
  return v->ints();
}

std::vector<NodeEntry> SliceGradAsPad(RewriteContext& ctx, const NodePtr& n) {
  const Shape &piece = ctx.shape(n->inputs[0]), &whole = ctx.shape(NodeEntry(n));
  if (!piece.fully_known() || !whole.fully_known() || piece.rank() != whole.rank()) return {};
  const auto starts = IntsOf(ctx, n, 2, {});
  if (!starts) return {};
  std::vector<int64_t> all;
  for (size_t k = 0; k < starts->size(); ++k) all.push_back(int64_t(k));
  const auto axes = IntsOf(ctx, n, 4, all),
             steps = IntsOf(ctx, n, 5, std::vector<int64_t>(starts->size(), 1));
  if (!axes || !steps || axes->size() != starts->size() || steps->size() != starts->size())
    return {};
  const auto rank = size_t(whole.rank());
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t k = 0; k < axes->size(); ++k) {
    const int64_t axis = (*axes)[k] < 0 ? (*axes)[k] + int64_t(rank) : (*axes)[k];
    if ((*steps)[k] != 1 || axis < 0 || axis >= int64_t(rank)) return {};
    const SymInt d = whole[int(axis)], own = piece[int(axis)];
    if (d == own) continue;
    if (!d.is_const() || !own.is_const()) return {};
    const int64_t room = d.value() - own.value(), start = (*starts)[k];
    // As a Slice clamps it.
    const int64_t begin = start < 0 ? CheckedAdd(start, d.value()) : start;
    pads[size_t(axis)] = std::min(std::max<int64_t>(begin, 0), room);
    pads[rank + size_t(axis)] = room - pads[size_t(axis)];
  }
  return {AddOp(ctx, "Pad", {n->inputs[0], ctx.graph().AddConstant(Tensor::Ints(pads))})};
}
WEFT_REGISTER_REWRITE_RULE("slice-grad-pad")
    .group("pieces")
    .root("weft::SliceGrad")
    .describe("gradients of slices at known places made Pads")
    .apply(SliceGradAsPad);

/// x stands in a tensor of zeros, along one axis.
struct Piece {
  NodeEntry term, x;
  int64_t begin = 0, end = 0, whole = 0;  ///< in the elements of the axis
};

/// `e` as one; `axis`: which.
std::optional<Piece> PieceOf(RewriteContext& ctx, const NodeEntry& e, int* axis) {
  const NodePtr& pad = e.node;
  if (!IsOp(pad, "Pad") || pad->attr<std::string>("mode") != "constant") return std::nullopt;
  const Shape& x = ctx.shape(pad->inputs[0]);
  if (!x.fully_known() || x.rank() == 0) return std::nullopt;
  if (pad->num_inputs() > 2 && pad->inputs[2].node) {
    const TensorPtr fill = ctx.constant(pad->inputs[2]);
    if (!fill || fill->num_elements() != 1 || !IsComputable(fill->dtype()) || fill->at(0) != 0)
      return std::nullopt;
  }
  const auto rank = size_t(x.rank());
  std::vector<int64_t> every;
  for (size_t k = 0; k < rank; ++k) every.push_back(int64_t(k));
  const auto pads = IntsOf(ctx, pad, 1, {}), axes = IntsOf(ctx, pad, 3, every);
  if (!pads || !axes || pads->size() != 2 * axes->size()) return std::nullopt;
  std::optional<Piece> found;
  for (size_t k = 0; k < axes->size(); ++k) {
    const int64_t before = (*pads)[k], behind = (*pads)[k + axes->size()];
    if (before == 0 && behind == 0) continue;
    const int64_t at = (*axes)[k] < 0 ? (*axes)[k] + int64_t(rank) : (*axes)[k];
    if (found || before < 0 || behind < 0 || at < 0 || at >= int64_t(rank) ||
        !x[int(at)].is_const())
      return std::nullopt;
    *axis = int(at);
    const int64_t end = CheckedAdd(before, x[int(at)].value());
    found = Piece{e, pad->inputs[0], before, end, CheckedAdd(end, behind)};
  }
  return found;
}

/// Pieces that lie side by side, as one tensor of that shape.
NodeEntry Joined(RewriteContext& ctx, const std::vector<Piece>& run, int axis, int rank) {
  Graph& g = ctx.graph();
  std::vector<NodeEntry> parts;
  for (const Piece& p : run) {
    // What has been joined before is not copied twice.
    const NodePtr& c = p.x.node;
    const int64_t given = IsOp(c, "Concat") ? c->attr<int64_t>("axis") : 0;
    if (IsOp(c, "Concat") && (given < 0 ? given + rank : given) == axis && c->uses().size() == 1 &&
        !g.is_output(c))
      parts.insert(parts.end(), c->inputs.begin(), c->inputs.end());
    else
      parts.push_back(p.x);
  }
  const NodeEntry all = AddOp(ctx, "Concat", parts, {{"axis", int64_t(axis)}});
  std::vector<int64_t> pads(2 * size_t(rank), 0);
  pads[size_t(axis)] = run.front().begin;
  pads[size_t(rank + axis)] = run.back().whole - run.back().end;
  if (pads == std::vector<int64_t>(pads.size(), 0)) return all;
  return AddOp(ctx, "Pad", {all, g.AddConstant(Tensor::Ints(pads))});
}

bool IsSum(const NodePtr& n) { return IsOp(n, "Add") || IsOp(n, "Sum"); }

/// The terms of a sum, those of sums that it alone reads among them, and who reads each.
std::vector<std::pair<NodeEntry, NodePtr>> TermsOf(RewriteContext& ctx, const NodePtr& n) {
  std::vector<std::pair<NodeEntry, NodePtr>> terms;
  std::vector<NodePtr> sums{n};
  for (size_t i = 0; i < sums.size(); ++i)
    for (const NodeEntry& e : std::vector<NodeEntry>(sums[i]->inputs)) {
      const bool inner =
          IsSum(e.node) && IsOnlyReadBy(ctx.graph(), e, sums[i]) && ctx.same_shape(e, NodeEntry(n));
      if (inner)
        sums.push_back(e.node);
      else
        terms.emplace_back(e, sums[i]);
    }
  return terms;
}

std::vector<NodeEntry> SumOfPieces(RewriteContext& ctx, const NodePtr& n) {
  if (!ctx.shape(NodeEntry(n)).has_rank()) return {};
  // A chain is seen whole, from its end.
  const NodePtr reader = OnlyReader(ctx.graph(), n);
  if (reader && IsSum(reader) && ctx.same_shape(NodeEntry(n), NodeEntry(reader))) return {};
  std::vector<NodeEntry> terms;
  std::map<int, std::vector<Piece>> pieces;  // by axis
  for (const auto& [e, sum] : TermsOf(ctx, n)) {
    int axis = 0;
    std::optional<Piece> p;
    if (IsOnlyReadBy(ctx.graph(), e, sum) && ctx.same_shape(e, NodeEntry(n)))
      p = PieceOf(ctx, e, &axis);
    if (p)
      pieces[axis].push_back(*p);
    else
      terms.push_back(e);
  }
  const int rank = ctx.shape(NodeEntry(n)).rank();
  bool joined = false;
  std::vector<std::pair<int, std::vector<Piece>>> runs;
  for (auto& [axis, list] : pieces) {
    std::sort(list.begin(), list.end(), [](const Piece& a, const Piece& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    for (const Piece& p : list) {
      const bool follows =
          !runs.empty() && runs.back().first == axis && runs.back().second.back().end == p.begin;
      if (!follows) runs.push_back({axis, {}});
      runs.back().second.push_back(p);
      joined = joined || follows;
    }
  }
  if (!joined) return {};
  for (const auto& [axis, run] : runs) {
    const bool alone = run.size() == 1;
    terms.push_back(alone ? run[0].term : Joined(ctx, run, axis, rank));
  }
  if (terms.size() == 1) return terms;
  return {AddOp(ctx, terms.size() == 2 ? "Add" : "Sum", terms)};
}
WEFT_REGISTER_REWRITE_RULE("sum-of-pieces")
    .group("pieces")
    .root("Add", "Sum")
    .describe("sums of tensors that are zero but for a piece made Concats")
    .apply(SumOfPieces);

}  // namespace
}  // namespace weft::simplify
