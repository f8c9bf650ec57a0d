/// transpose.cc: tiles of 16 x 16, one cache line a side, made of 4 x 4 blocks that stay in
/// registers.
#include "backends/cpu/transpose.h"

#include <algorithm>
#include <cstring>

namespace weft::cpu {
namespace {

constexpr int64_t kTile = 16;

using Four = float __attribute__((vector_size(16)));

inline Four Load(const float* p) {
  Four v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline void Store(float* p, Four v) { std::memcpy(p, &v, sizeof(v)); }

#if defined(__clang__)
#define WEFT_SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
using FourInts = int __attribute__((vector_size(16)));
#define WEFT_SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, FourInts{i, j, k, l})
#endif

inline void Block4(const float* src, int64_t src_stride, float* dst, int64_t dst_stride) {
  const Four a = Load(src), b = Load(src + src_stride), c = Load(src + 2 * src_stride),
             d = Load(src + 3 * src_stride);
  const Four ab_lo = WEFT_SHUFFLE(a, b, 0, 4, 1, 5), ab_hi = WEFT_SHUFFLE(a, b, 2, 6, 3, 7);
  const Four cd_lo = WEFT_SHUFFLE(c, d, 0, 4, 1, 5), cd_hi = WEFT_SHUFFLE(c, d, 2, 6, 3, 7);
  Store(dst, WEFT_SHUFFLE(ab_lo, cd_lo, 0, 1, 4, 5));
  Store(dst + dst_stride, WEFT_SHUFFLE(ab_lo, cd_lo, 2, 3, 6, 7));
  Store(dst + 2 * dst_stride, WEFT_SHUFFLE(ab_hi, cd_hi, 0, 1, 4, 5));
  Store(dst + 3 * dst_stride, WEFT_SHUFFLE(ab_hi, cd_hi, 2, 3, 6, 7));
}

void Tile(const float* src, float* dst, int64_t rows, int64_t columns, int64_t i0, int64_t j0) {
  const int64_t i1 = std::min(i0 + kTile, rows), j1 = std::min(j0 + kTile, columns);
  int64_t j = j0;
  for (; j + 4 <= j1; j += 4) {
    int64_t i = i0;
    for (; i + 4 <= i1; i += 4) Block4(src + i * columns + j, columns, dst + j * rows + i, rows);
    for (; i < i1; ++i)
      for (int64_t q = j; q < j + 4; ++q) dst[q * rows + i] = src[i * columns + q];
  }
  for (; j < j1; ++j)
    for (int64_t i = i0; i < i1; ++i) dst[j * rows + i] = src[i * columns + j];
}

}  // namespace

void TransposeMatrices(const float* src, float* dst, int64_t batch, int64_t rows, int64_t columns) {
  const int64_t tiles = (columns + kTile - 1) / kTile, strips = batch * tiles,
                size = rows * columns;
  // A strip writes whole rows of the result. Below 64 KiB the team is not worth waking.
#pragma omp parallel for schedule(static) if (batch * size > 16384)
  for (int64_t s = 0; s < strips; ++s) {
    const int64_t b = s / tiles, j = s % tiles * kTile;
    for (int64_t i = 0; i < rows; i += kTile)
      Tile(src + b * size, dst + b * size, rows, columns, i, j);
  }
}

}  // namespace weft::cpu
