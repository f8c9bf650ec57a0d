/// placeholder.h: operators that stand for names that are not registered, so that a text can still
/// be looked at.
#pragma once

#include <string_view>

#include "weft/core/op/op.h"

namespace weft {

/// An op of that name and number of outputs that has no attribute, takes any inputs and is in no
/// list. Lives as long as the process; the same pair gives the same op.
const Op* PlaceholderOp(std::string_view name, int num_outputs);

}  // namespace weft
