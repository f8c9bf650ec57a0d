/// interpolation.h: what operators share that read between elements along several axes.
#pragma once

#include "shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {

/// Reading between elements takes `taps` of them an axis, and the axes multiply: an expression of
/// taps^axes reads. Throws kLimit where that is beyond cubic in five or linear in ten axes.
inline void CheckTaps(const NodePtr& n, size_t taps, size_t axes) {
  constexpr size_t kMaxReads = 1024;
  size_t reads = 1;
  for (size_t k = 0; k < axes && reads <= kMaxReads; ++k) reads *= taps;
  WEFT_CHECK(taps < 2 || reads <= kMaxReads, kLimit,
             "{}: interpolation between {} elements along each of {} axes, more than {} reads",
             n->Describe(), taps, axes, kMaxReads);
}

}  // namespace weft::ops
