/// conv_product.h: a convolution whose window is one position as a product of matrices: every
/// position with its channels innermost is a row.
#pragma once

#ifdef WEFT_HAVE_ONEDNN

#include <memory>

#include "backends/cpu/onednn/post_ops.h"
#include "conv_staging.h"

namespace weft::cpu {

/// Null where the convolution is none, where source or result do not lie so, or where oneDNN
/// cannot join what follows.
std::unique_ptr<LibraryCall> MakeConvProduct(const ComputeRequest& q, const ConvShape& c,
                                             const PostOps& post, bool joins = true);

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
