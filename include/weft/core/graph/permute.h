/// permute.h: inputs and outputs whose tensors lie in another order of their dims than the graph
/// computes with (core/tensor/strided.h says which): the order becomes a Transpose in the graph,
/// which passes fuse or give to products as a transposed operand.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// From now on `input` is fed with a tensor m such that Transpose(m, perm) is what it was fed with:
/// its dim d is dim perm[d] of m. All who read it read the Transpose, attributes that name the
/// entry ("grad_xs") follow, and the declared shape is that of m. Returns the entry of the
/// Transpose; that of the input where perm is empty or changes nothing. Throws kApiMisuse for what
/// is not an input of the graph, kBadInput for a perm that is not a permutation of its dims.
///
///   before  graph (%w: f32[n, m])   %y = MatMul(%x, %w)
///   after   graph (%w: f32[m, n])   %t = Transpose(%w) {perm = [1, 0]}   %y = MatMul(%x, %t)
WEFT_API NodeEntry PermuteInput(Graph* graph, NodePtr input, const std::vector<int64_t>& perm);

/// From now on output `index` is a tensor m such that Transpose(m, perm) is what it was. Its name
/// stays.
WEFT_API void PermuteOutput(Graph* graph, size_t index, const std::vector<int64_t>& perm);

}  // namespace weft
