/// strided_copy.h: boxes of elements copied or filled by their strides: rows, transposed tiles,
/// short rows and repetitions each by a loop of its own.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::cpu {

/// One axis of a box: its extent, and elements from one index to the next.
struct CopyDim {
  int64_t extent, from_step, to_step;
};

/// Axes that a box may have.
inline constexpr int kMaxCopyDims = 16;

/// Axes in the order of their steps in the result, the last one the least; what steps through
/// memory as one axis is one.
void NormalizeCopy(std::vector<CopyDim>* dims);

/// A normal box: to[sum of i_k to_step_k] = from[sum of i_k from_step_k], elements of `width` bytes
/// (1, 2, 4 or 8). By this thread.
void CopyStrided(int width, const void* from, void* to, const CopyDim* dims, int rank);
/// The same with one element for all: the low bytes of `bits`.
void FillStrided(int width, uint64_t bits, void* to, const CopyDim* dims, int rank);

}  // namespace weft::cpu
