/// bit_masks.h: which elements are not zero, a bit for each: what NonZero and Compress count and
/// then walk through, without a second look at the elements.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/core/tensor/dtype.h"

namespace weft::cpu {

constexpr int64_t kMaskBits = 64;

inline int64_t MaskWords(int64_t n) { return (n + kMaskBits - 1) / kMaskBits; }

/// The element types that MaskNonZero takes: all that are computed with.
bool CanMask(DType t);

/// Bit i % 64 of masks[i / 64]: is x[i] not zero (NaN is not, -0 is)? Bits beyond n are 0. Gives
/// how many are set.
int64_t MaskNonZero(DType t, const void* x, int64_t n, uint64_t* masks);

/// A piece of the words of one mask, and how many bits are set in it and before it.
struct MaskPiece {
  int64_t first, last;  ///< words
  int64_t before, count;
};
/// MaskNonZero in pieces, by up to `threads` threads.
std::vector<MaskPiece> MaskInPieces(DType t, const void* x, int64_t n, int threads,
                                    uint64_t* masks);

/// at[k] = base + the place of the k-th set bit, for bits of one word; `room`: how many places may
/// be written, at least as many as bits are set.
void PlacesOfBits(uint64_t bits, int64_t base, int64_t room, int64_t* at);

/// Of elements of `width` bytes those whose bits are set, one behind the other. Writes no more than
/// these.
void KeepSet(const uint64_t* masks, int64_t words, int64_t n, int width, const void* x, void* y);

}  // namespace weft::cpu
