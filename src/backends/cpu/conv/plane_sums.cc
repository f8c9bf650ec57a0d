/// plane_sums.cc: blocks of filters, rows and vectors whose sums stay in the 32 registers of
/// AVX-512: each run that is loaded serves all filters of the block.
#include "plane_sums.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::cpu {
namespace {

#if defined(__x86_64__)

#if defined(__clang__)
#define WEFT_UNROLL _Pragma("unroll")
#else
#define WEFT_UNROLL _Pragma("GCC unroll 16")
#endif
#define WEFT_AVX512 __attribute__((target("avx512f")))

template <int kMaps, int kRows, int kVectors>
WEFT_AVX512 void Block(const Sums& s) {
  __m512 sum[kMaps][kRows][kVectors];
  WEFT_UNROLL
  for (int m = 0; m < kMaps; ++m) WEFT_UNROLL
  for (int r = 0; r < kRows; ++r) WEFT_UNROLL
  for (int v = 0; v < kVectors; ++v) sum[m][r][v] = _mm512_set1_ps(s.bias ? s.bias[m] : 0);
  for (int64_t t = 0; t < s.count; ++t) {
    const float* at = s.from + s.taps[t];
    __m512 w[kMaps];
    WEFT_UNROLL
    for (int m = 0; m < kMaps; ++m) w[m] = _mm512_set1_ps(s.w[m * s.count + t]);
    WEFT_UNROLL
    for (int r = 0; r < kRows; ++r) WEFT_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const __m512 x = _mm512_loadu_ps(at + r * s.from_row + v * kLanes);
      WEFT_UNROLL
      for (int m = 0; m < kMaps; ++m) sum[m][r][v] = _mm512_fmadd_ps(w[m], x, sum[m][r][v]);
    }
  }
  const __mmask16 mask = __mmask16((1u << s.last) - 1);
  WEFT_UNROLL
  for (int m = 0; m < kMaps; ++m) WEFT_UNROLL
  for (int r = 0; r < kRows; ++r) WEFT_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    float* to = s.to + m * s.to_map + r * s.to_row + v * kLanes;
    if (v + 1 < kVectors)
      _mm512_storeu_ps(to, sum[m][r][v]);
    else
      _mm512_mask_storeu_ps(to, mask, sum[m][r][v]);
  }
}

WEFT_AVX512 void Halve(const float* from, float* to, int64_t n) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  int64_t i = 0;
  for (; i + kLanes < n; i += kLanes)  // the last one would read beyond
    _mm512_storeu_ps(to + i, _mm512_permutex2var_ps(_mm512_loadu_ps(from + 2 * i), even,
                                                    _mm512_loadu_ps(from + 2 * i + kLanes)));
  for (; i < n; ++i) to[i] = from[2 * i];
}

WEFT_AVX512 void Zip(const float* even, const float* odd, float* to, int64_t n) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0),
                high =
                    _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m512 a = _mm512_loadu_ps(even + i), b = _mm512_loadu_ps(odd + i);
    _mm512_storeu_ps(to + 2 * i, _mm512_permutex2var_ps(a, low, b));
    _mm512_storeu_ps(to + 2 * i + kLanes, _mm512_permutex2var_ps(a, high, b));
  }
  for (; i < n; ++i) {
    to[2 * i] = even[i];
    to[2 * i + 1] = odd[i];
  }
}

#else

template <int kMaps, int kRows, int kVectors>
void Block(const Sums&) {}
void Halve(const float*, float*, int64_t) {}
void Zip(const float*, const float*, float*, int64_t) {}

#endif

template <int kMaps, int kVectors>
BlockFn BlockOf(bool many_rows) {
  return many_rows ? Block<kMaps, RowsOf(kMaps, kVectors), kVectors> : Block<kMaps, 1, kVectors>;
}
template <int kMaps>
BlockFn BlockOf(int64_t vectors, bool many_rows) {
  switch (vectors) {
    case 1:
      return BlockOf<kMaps, 1>(many_rows);
    case 2:
      return BlockOf<kMaps, 2>(many_rows);
    case 3:
      return BlockOf<kMaps, 3>(many_rows);
    default:
      return BlockOf<kMaps, 4>(many_rows);
  }
}
}  // namespace

BlockFn BlockOf(int64_t maps, int64_t vectors, bool many_rows) {
  switch (maps) {
    case 1:
      return BlockOf<1>(vectors, many_rows);
    case 2:
      return BlockOf<2>(vectors, many_rows);
    case 3:
      return BlockOf<3>(vectors, many_rows);
    default:
      return BlockOf<4>(vectors, many_rows);
  }
}

bool HasPlaneSums() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512f");
  return has;
#else
  return false;
#endif
}

void TakeEverySecond(const float* from, float* to, int64_t n) { Halve(from, to, n); }
void Interleave(const float* even, const float* odd, float* to, int64_t n) {
  Zip(even, odd, to, n);
}

int ThisThread() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

}  // namespace weft::cpu
