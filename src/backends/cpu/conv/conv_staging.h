/// conv_staging.h: how the tensors of a convolution lie in memory, and how many images at a time
/// are copied into the layout that oneDNN wants.
#pragma once

#ifdef WEFT_HAVE_ONEDNN

#include "backends/cpu/onednn/onednn_adapter.h"
#include "backends/shared/call_operands.h"
#include "weft/core/op/conv_shape.h"

namespace weft::cpu {

inline Desc Lying(const Dims& dims, Layout layout) {
  return layout == Layout::kChannelsLast ? ChannelsLast(dims) : Plain(dims);
}

/// What a copy in the layout `wanted` takes for each image, where the tensor does not lie so.
inline int64_t StagedBytes(const Desc& wanted, const Desc& given, int64_t images) {
  return LieAlike(wanted, given) ? 0 : int64_t(wanted.get_size()) / images;
}
/// Images of one repetition, a divisor of the batch: what is copied for them should stay in the
/// caches between the copy and the convolution, and every thread should find work in them.
int64_t ChunkOf(const ConvShape& c, int64_t staged_bytes_per_image, int threads);

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
