/// transpose.cc: tiles of 16 x 16, one cache line a side: with AVX-512 a line is a register, else
/// they are made of 4 x 4 blocks that stay in registers; so is what is left at the edges, which is
/// everything where there are three channels.
#include "transpose.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "wide.h"

namespace weft::cpu {
namespace {

constexpr int64_t kTile = 16;
constexpr int64_t kPart = 1024;  // rows of one piece of work
constexpr int64_t kStrip =
    64;  // columns of one: some lines of each row, so that a page is read from
/// Rows of the result that begin every multiple of so many bytes share a few sets of the first
/// cache: such a result is written row by row, any other one lines of 16 rows of the source at once
/// (measured: 784 x 512 0.038 ms by rows and 0.1 ms by lines, 85 x 6400 0.18 and 0.15).
constexpr int64_t kAliased = 1024;

using Four = float __attribute__((vector_size(16)));

/// The first `kCount` floats, the others 0.
template <int kCount>
inline Four LoadFloats(const float* p) {
  if constexpr (kCount == 1) return Four{p[0], 0, 0, 0};
  if constexpr (kCount == 2) return Four{p[0], p[1], 0, 0};
  if constexpr (kCount == 3) return Four{p[0], p[1], p[2], 0};
  Four v{};
  if constexpr (kCount == 4) std::memcpy(&v, p, sizeof(v));
  return v;
}
template <int kCount>
inline void StoreFloats(float* p, Four v) {
  if constexpr (kCount == 4) std::memcpy(p, &v, sizeof(v));
  if constexpr (kCount == 2 || kCount == 3) std::memcpy(p, &v, 2 * sizeof(float));
  if constexpr (kCount == 1 || kCount == 3) p[kCount - 1] = v[kCount - 1];
}

#if defined(__clang__)
#define WEFT_SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
using FourInts = int __attribute__((vector_size(16)));
#define WEFT_SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, FourInts{i, j, k, l})
#endif

template <int kRows, int kColumns>
inline void Block(const float* src, int64_t src_step, float* dst, int64_t dst_step) {
  const auto row = [&](int64_t i) {
    return i < kRows ? LoadFloats<kColumns>(src + i * src_step) : Four{};
  };
  const Four a = row(0), b = row(1), c = row(2), d = row(3);
  const Four ab_lo = WEFT_SHUFFLE(a, b, 0, 4, 1, 5), ab_hi = WEFT_SHUFFLE(a, b, 2, 6, 3, 7);
  const Four cd_lo = WEFT_SHUFFLE(c, d, 0, 4, 1, 5), cd_hi = WEFT_SHUFFLE(c, d, 2, 6, 3, 7);
  StoreFloats<kRows>(dst, WEFT_SHUFFLE(ab_lo, cd_lo, 0, 1, 4, 5));
  if constexpr (kColumns > 1)
    StoreFloats<kRows>(dst + dst_step, WEFT_SHUFFLE(ab_lo, cd_lo, 2, 3, 6, 7));
  if constexpr (kColumns > 2)
    StoreFloats<kRows>(dst + 2 * dst_step, WEFT_SHUFFLE(ab_hi, cd_hi, 0, 1, 4, 5));
  if constexpr (kColumns > 3)
    StoreFloats<kRows>(dst + 3 * dst_step, WEFT_SHUFFLE(ab_hi, cd_hi, 2, 3, 6, 7));
}

/// A few columns of all rows.
template <int kColumns>
inline void Strip(const float* src, int64_t src_step, float* dst, int64_t dst_step, int64_t rows) {
  int64_t i = 0;
  const auto block = [&](auto count) {
    Block<count(), kColumns>(src + i * src_step, src_step, dst + i, dst_step);
  };
  for (; i + 4 <= rows; i += 4) block(std::integral_constant<int, 4>());
  if (rows - i == 3) block(std::integral_constant<int, 3>());
  if (rows - i == 2) block(std::integral_constant<int, 2>());
  if (rows - i == 1) block(std::integral_constant<int, 1>());
}

/// Of few rows or columns.
void TransposeBlocks(const float* src, int64_t src_step, float* dst, int64_t dst_step, int64_t rows,
                     int64_t columns) {
  int64_t j = 0;
  const auto strip = [&](auto count) {
    Strip<count()>(src + j, src_step, dst + j * dst_step, dst_step, rows);
  };
  for (; j + 4 <= columns; j += 4) strip(std::integral_constant<int, 4>());
  if (columns - j == 3) strip(std::integral_constant<int, 3>());
  if (columns - j == 2) strip(std::integral_constant<int, 2>());
  if (columns - j == 1) strip(std::integral_constant<int, 1>());
}

/// Calls move(i, j) for tiles of a matrix, in the order that suits the result.
template <class Move>
inline __attribute__((always_inline)) void ForTiles(int64_t rows, int64_t columns, int64_t dst_step,
                                                    const Move& move) {
  if (dst_step * int64_t(sizeof(float)) % kAliased == 0) {
    for (int64_t j = 0; j < columns; j += kTile)
      for (int64_t i = 0; i < rows; i += kTile) move(i, j);
  } else {
    for (int64_t i = 0; i < rows; i += kTile)
      for (int64_t j = 0; j < columns; j += kTile) move(i, j);
  }
}

#if defined(__x86_64__)
/// 16 x 16: four times, row i and row i + 8 are interleaved.
WEFT_WIDE inline void WideTile(const float* src, int64_t src_step, float* dst, int64_t dst_step) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high =
      _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  __m512 rows[kTile], next[kTile];
  // Unrolled, all of it stays in registers.
#pragma GCC unroll 16
  for (int64_t i = 0; i < kTile; ++i) rows[i] = _mm512_loadu_ps(src + i * src_step);
#pragma GCC unroll 4
  for (int step = 0; step < 4; ++step) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kTile / 2; ++i) {
      next[2 * i] = _mm512_permutex2var_ps(rows[i], low, rows[i + kTile / 2]);
      next[2 * i + 1] = _mm512_permutex2var_ps(rows[i], high, rows[i + kTile / 2]);
    }
#pragma GCC unroll 16
    for (int64_t i = 0; i < kTile; ++i) rows[i] = next[i];
  }
#pragma GCC unroll 16
  for (int64_t j = 0; j < kTile; ++j) _mm512_storeu_ps(dst + j * dst_step, rows[j]);
}
/// The last tile of either side lies over the one before it.
WEFT_WIDE void TransposeWide(const float* src, int64_t src_step, float* dst, int64_t dst_step,
                             int64_t rows, int64_t columns) {
  ForTiles(rows, columns, dst_step, [&](int64_t i, int64_t j) WEFT_WIDE {
    i = std::min(i, rows - kTile);
    j = std::min(j, columns - kTile);
    WideTile(src + i * src_step + j, src_step, dst + j * dst_step + i, dst_step);
  });
}
#endif

}  // namespace

void TransposeMatrix(const float* src, int64_t src_step, float* dst, int64_t dst_step, int64_t rows,
                     int64_t columns) {
#if defined(__x86_64__)
  if (rows >= kTile && columns >= kTile && HasWide())
    return TransposeWide(src, src_step, dst, dst_step, rows, columns);
#endif
  ForTiles(rows, columns, dst_step, [&](int64_t i, int64_t j) {
    TransposeBlocks(src + i * src_step + j, src_step, dst + j * dst_step + i, dst_step,
                    std::min(kTile, rows - i), std::min(kTile, columns - j));
  });
}

void TransposeMatrices(const float* src, float* dst, int64_t batch, int64_t rows, int64_t columns) {
  const int64_t strips = (columns + kStrip - 1) / kStrip, parts = (rows + kPart - 1) / kPart,
                pieces = batch * strips * parts, size = rows * columns;
  // A piece writes long runs of the result. Below 64 KiB the team is not worth waking.
#pragma omp parallel for schedule(static) if (batch * size > 16384)
  for (int64_t p = 0; p < pieces; ++p) {
    const int64_t b = p / (strips * parts), i = p % parts * kPart, j = p / parts % strips * kStrip;
    TransposeMatrix(src + b * size + i * columns + j, columns, dst + b * size + j * rows + i, rows,
                    std::min(kPart, rows - i), std::min(kStrip, columns - j));
  }
}

}  // namespace weft::cpu
