/// op_registry_access.h: what only the registry, and placeholders that stay outside of it, may
/// write of an op.
#pragma once

#include "weft/core/op/op.h"

namespace weft {

struct OpRegistryAccess {
  static void SetIndex(Op& op, uint32_t i) { op.index_ = i; }
};

}  // namespace weft
