/// size_numbers.h: how data-dependent sizes of operators with several results are counted
/// (InferShapeContext::unbacked).
#pragma once

namespace weft {

/// Where it is not known yet how many dimensions each result has, those of result k begin at k
/// times this: so each keeps its number when another result gets a rank.
constexpr int kUnbackedStride = 32;

}  // namespace weft
