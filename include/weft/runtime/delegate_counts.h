/// delegate_counts.h: what engines have done for programs of this process so far.
#pragma once

#include <cstdint>

#include "weft/support/api.h"

namespace weft {

struct DelegateCounts {
  int64_t regions = 0;  ///< compiled or imported, each set of extents for itself
  int64_t runs = 0;
  /// Of operands that an engine could not use where they lie.
  int64_t copied_bytes = 0;
};
WEFT_API DelegateCounts CountDelegates();

// For who runs them.
void CountDelegateRegion();
void CountDelegateRun(int64_t copied_bytes);

}  // namespace weft
