/// demand.cc: demands on extents as facts (demand.h).
#include "demand.h"

#include "weft/core/tensor/demand.h"
#include "weft/support/check.h"

namespace weft::ops {

void DemandRange(InferShapeContext& ctx, SymInt e, Range r, const char* what) {
  if (!e.known()) return;
  const Range known = ctx.facts().RangeOf(e);
  WEFT_CHECK(known.lo <= r.hi && r.lo <= known.hi, kShapeMismatch, "{}: {}: {} is not in [{}, {}]",
             ctx.node()->Describe(), what, e.ToString(), r.lo,
             r.hi == INT64_MAX ? "inf" : std::to_string(r.hi));
  ctx.facts().SetRange(e, r);
}

void DemandAtMost(InferShapeContext& ctx, SymInt a, SymInt b, const char* what) {
  if (!a.known() || !b.known()) return;
  const Proof proof = ctx.facts().LessEqual(a, b);
  WEFT_CHECK(proof != Proof::kNo, kShapeMismatch, "{}: {}: {} exceeds {}", ctx.node()->Describe(),
             what, a.ToString(), b.ToString());
  if (proof == Proof::kUnknown) DemandAtLeast(ctx, b - a, 0, what);
}

void DemandMultiple(InferShapeContext& ctx, SymInt e, int64_t d, const char* what) {
  if (!e.known()) return;
  WEFT_CHECK(ctx.facts().Divides(d, e) != Proof::kNo, kShapeMismatch,
             "{}: {}: {} is not a multiple of {}", ctx.node()->Describe(), what, e.ToString(), d);
  ctx.facts().SetDivisor(e, d);
}

void DemandElement(InferShapeContext& ctx, SymInt from, SymInt to, const char* what) {
  if (!from.known() || !to.known() || ctx.facts().ProvedEqual(from, to)) return;
  if (ctx.facts().RangeOf(to).lo >= 1) return DemandAtLeast(ctx, from, 1, what);
  DemandAtMost(ctx, MinOf(to, 1, ctx.facts()), MinOf(from, 1, ctx.facts()), what);
}

void DemandShape(InferShapeContext& ctx, int i, const Shape& s) {
  const Shape& given = ctx.in(i);
  if (!given.has_rank() || !s.has_rank()) return;
  WEFT_CHECK(given.rank() == s.rank(), kShapeMismatch, "{}: input {} has shape {}, expected {}",
             ctx.node()->Describe(), i, given.ToString(), s.ToString());
  for (int k = 0; k < s.rank(); ++k)
    UnifyDims(ctx, given[k], s[k], "dimensions of an operand and of the results that it covers");
}

void DemandBroadcastTo(InferShapeContext& ctx, int i, const Shape& to) {
  if (!HasInput(ctx, i) || !ctx.in(i).has_rank() || !to.has_rank()) return;
  const Shape& from = ctx.in(i);
  const int lead = to.rank() - from.rank();
  const auto refuse = [&] {
    WEFT_THROW(kShapeMismatch, "{}: input {} {} does not broadcast to {}", ctx.node()->Describe(),
               i, from.ToString(), to.ToString());
  };
  if (lead < 0) refuse();
  for (int k = 0; k < from.rank(); ++k) {
    if (ctx.facts().Equal(from[k], 1) == Proof::kNo &&
        ctx.facts().Equal(from[k], to[lead + k]) == Proof::kNo)
      refuse();
    DemandBroadcast(from[k], to[lead + k], &ctx.facts());
  }
}

}  // namespace weft::ops
