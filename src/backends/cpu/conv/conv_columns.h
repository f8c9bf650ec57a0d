/// conv_columns.h: the data gradient of a convolution as a product of matrices, for numbers of
/// channels that fill oneDNN's blocks of 16 badly: it computes 20 channels as 32.
///
/// With channels last, what one position of the result has read of one row of the source is
/// contiguous. Such pieces side by side are the position's column, in the order [rows of the
/// kernel, columns of the kernel, channels]:
///   columns = dy W,  dx = the sum of all pieces, each at its place
/// Some rows of an image at a time, so that their columns stay in the second-level cache; images
/// are shared by the threads. (dW = dy' columns takes as long as oneDNN's direct sums.)
#pragma once

#ifdef WEFT_HAVE_ONEDNN

#include <memory>

#include "conv_primitives.h"
#include "weft/runtime/backend/compute.h"

namespace weft::cpu {

/// One group, at most two axes, the last one not dilated, an image for every thread,
/// a CPU with AVX-512.
bool FitsColumns(const ConvShape& c, int threads);
/// Is it the better way?
bool ColumnsPay(const ConvShape& c);
/// dx from (dy, W): dx and dy with channels last, W plain; null where oneDNN has no such product.
std::unique_ptr<LibraryCall> MakeGradDataByColumns(const ConvShape& c, int threads);

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
