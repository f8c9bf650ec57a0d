/// bounded_size.h: sizes that depend on data, and what they cannot exceed.
#pragma once

#include "weft/core/op/op_attr_types.h"

namespace weft::ops {

/// ctx.unbacked(index), of which it is known that it is at most `limit`.
SymInt UnbackedAtMost(InferShapeContext& ctx, int index, SymInt limit);

}  // namespace weft::ops
