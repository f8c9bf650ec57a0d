/// transpose.cc: tiles of 16 x 16, one cache line a side, made of 4 x 4 blocks that stay in
/// registers; so is what is left at the edges, which is everything where there are three channels.
#include "transpose.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace weft::cpu {
namespace {

constexpr int64_t kTile = 16;
constexpr int64_t kPart = 1024;  // rows of one piece of work

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

void Tile(const float* src, float* dst, int64_t rows, int64_t columns, int64_t i0, int64_t j0) {
  TransposeMatrix(src + i0 * columns + j0, columns, dst + j0 * rows + i0, rows,
                  std::min(kTile, rows - i0), std::min(kTile, columns - j0));
}

}  // namespace

void TransposeMatrix(const float* src, int64_t src_step, float* dst, int64_t dst_step, int64_t rows,
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

void TransposeMatrices(const float* src, float* dst, int64_t batch, int64_t rows, int64_t columns) {
  const int64_t tiles = (columns + kTile - 1) / kTile, parts = (rows + kPart - 1) / kPart,
                pieces = batch * tiles * parts, size = rows * columns;
  // A piece writes long runs of the result. Below 64 KiB the team is not worth waking.
#pragma omp parallel for schedule(static) if (batch * size > 16384)
  for (int64_t p = 0; p < pieces; ++p) {
    const int64_t b = p / (tiles * parts), j = p / parts % tiles * kTile, first = p % parts * kPart;
    for (int64_t i = first; i < std::min(rows, first + kPart); i += kTile)
      Tile(src + b * size, dst + b * size, rows, columns, i, j);
  }
}

}  // namespace weft::cpu
