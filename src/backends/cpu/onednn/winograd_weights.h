/// winograd_weights.h: constant weights in the transformed layouts that
/// oneDNN's Winograd convolutions read.
#pragma once

#ifdef WEFT_HAVE_ONEDNN

#include <oneapi/dnnl/dnnl.hpp>

namespace weft::cpu {

/// Writes the filters `from` ([filters, channels, 3, 3], row-major) to `to`, memory of `layout`, by
/// the OpenMP team of the caller. False where `layout` is none of those it knows: the library's own
/// reorder has to do it then. That one transforms filter by filter: 512 x 512 of them take it 30 to
/// 63 ms on two cores of a Zen 5, and this one 1.8 ms.
bool PackWinograd(const float* from, const dnnl::memory::desc& layout, float* to);

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
