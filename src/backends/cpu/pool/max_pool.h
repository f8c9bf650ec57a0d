/// max_pool.h: the largest of every window, on dense planes.
#pragma once

#include "weft/core/op/window.h"

namespace weft::cpu {

/// Bytes of scratch for `threads` threads.
int64_t MaxPoolScratch(const WindowShape& w, int threads);
/// `planes` planes of w.in to planes of w.out; one to three axes; padding never wins, NaN always
/// does. oneDNN's pooling starts from the smallest finite number and drops NaN, which is a wrong
/// result for windows of -inf or with a NaN.
void MaxPool(const float* x, float* y, int64_t planes, const WindowShape& w, void* scratch,
             int threads);

}  // namespace weft::cpu
