/// check_verdict.h: is a result what the reference says, as far as the inputs decide it?
///
/// Two right engines round differently, and a model may make any size of it: a comparison near its
/// threshold, a sum that cancels, an overflow that depends on the order. So where results are
/// further apart than rounding alone, the reference is asked again, in double precision and with
/// inputs that differ in their last bits: an element counts as different only where all its answers
/// agree much better than the engine agrees with them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/core/tensor/tensor.h"

namespace weft::tool {

/// Other answers of the reference to the same question, each of the same result;
/// asked for when needed.
using OtherAnswers = std::function<std::vector<TensorPtr>()>;

/// Empty where `got` is `want`; else where and how far they are apart.
std::string DescribeDifference(const Tensor& got, const Tensor& want, const OtherAnswers& others);

}  // namespace weft::tool
