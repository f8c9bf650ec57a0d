/// bounded_size.cc: see bounded_size.h.
#include "bounded_size.h"

namespace weft::ops {

SymInt UnbackedAtMost(InferShapeContext& ctx, int index, SymInt limit) {
  const SymInt size = ctx.unbacked(index);
  Facts& facts = ctx.facts();
  if (!limit.known() || facts.LessEqual(size, limit) == Proof::kYes) return size;
  facts.SetRange(size, {0, facts.RangeOf(limit).hi});
  if (!limit.is_const()) facts.SetRange(limit - size, {0, INT64_MAX});
  return size;
}

}  // namespace weft::ops
