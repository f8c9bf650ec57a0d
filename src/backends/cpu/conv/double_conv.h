/// double_conv.h: convolutions of doubles and their gradients, over any number of axes. No library
/// has them, and a kernel of the definition would be made for each set of dimensions, in the run.
#pragma once

#include <memory>

#include "weft/core/op/conv_shape.h"
#include "weft/runtime/backend/compute.h"

namespace weft::cpu {

/// What is multiplied and the result are f64.
bool AreDoubles(const ComputeRequest& q);

/// y = Conv(x, W, bias or null); operands (x, W, bias).
std::unique_ptr<LibraryCall> MakeDoubleConv(const ComputeRequest& q);
/// dx of a Conv; operands (dy, W).
std::unique_ptr<LibraryCall> MakeDoubleGradData(const ComputeRequest& q);
/// dW of a Conv; operands (dy, x).
std::unique_ptr<LibraryCall> MakeDoubleGradWeight(const ComputeRequest& q);
/// What ConvTranspose is: the dx of a Conv by the window given, and a bias; operands (dy, W, bias).
std::unique_ptr<LibraryCall> MakeDoubleConvTranspose(const ComputeRequest& q,
                                                     const WindowShape& window);

}  // namespace weft::cpu
