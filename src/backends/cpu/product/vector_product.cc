/// vector_product.cc: as many sums as hide the latency of an addition, whole rows at a time
/// as memory has them.
#include "vector_product.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>

namespace weft::cpu {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kPieceFloats = 16384;  // that a thread is worth waking for

#if defined(__x86_64__)
#define WEFT_AVX512 __attribute__((target("avx512f")))

WEFT_AVX512 inline __mmask16 First(int64_t n) {
  return n >= kLanes ? __mmask16(0xffff) : __mmask16((1u << n) - 1);
}

/// Four rows, `step` floats apart.
WEFT_AVX512 void FourDots(const float* m, int64_t step, const float* v, int64_t n, float* y) {
  __m512 a = _mm512_setzero_ps(), b = a, c = a, d = a, e = a, f = a, g = a, h = a;
  int64_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
    const __m512 x = _mm512_loadu_ps(v + j), z = _mm512_loadu_ps(v + j + kLanes);
    const float* at = m + j;
    a = _mm512_fmadd_ps(_mm512_loadu_ps(at), x, a);
    b = _mm512_fmadd_ps(_mm512_loadu_ps(at + step), x, b);
    c = _mm512_fmadd_ps(_mm512_loadu_ps(at + 2 * step), x, c);
    d = _mm512_fmadd_ps(_mm512_loadu_ps(at + 3 * step), x, d);
    at += kLanes;
    e = _mm512_fmadd_ps(_mm512_loadu_ps(at), z, e);
    f = _mm512_fmadd_ps(_mm512_loadu_ps(at + step), z, f);
    g = _mm512_fmadd_ps(_mm512_loadu_ps(at + 2 * step), z, g);
    h = _mm512_fmadd_ps(_mm512_loadu_ps(at + 3 * step), z, h);
  }
  for (; j < n; j += kLanes) {
    const __mmask16 mask = First(n - j);
    const __m512 x = _mm512_maskz_loadu_ps(mask, v + j);
    a = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, m + j), x, a);
    b = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, m + j + step), x, b);
    c = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, m + j + 2 * step), x, c);
    d = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, m + j + 3 * step), x, d);
  }
  // Halves, then quarters of the sums side by side.
  const __m512i low = _mm512_set_epi32(23, 22, 21, 20, 19, 18, 17, 16, 7, 6, 5, 4, 3, 2, 1, 0),
                high =
                    _mm512_set_epi32(31, 30, 29, 28, 27, 26, 25, 24, 15, 14, 13, 12, 11, 10, 9, 8),
                even = _mm512_set_epi32(27, 26, 25, 24, 19, 18, 17, 16, 11, 10, 9, 8, 3, 2, 1, 0),
                odd = _mm512_set_epi32(31, 30, 29, 28, 23, 22, 21, 20, 15, 14, 13, 12, 7, 6, 5, 4);
  a = _mm512_add_ps(a, e), b = _mm512_add_ps(b, f), c = _mm512_add_ps(c, g),
  d = _mm512_add_ps(d, h);
  a = _mm512_add_ps(_mm512_permutex2var_ps(a, low, b), _mm512_permutex2var_ps(a, high, b));
  c = _mm512_add_ps(_mm512_permutex2var_ps(c, low, d), _mm512_permutex2var_ps(c, high, d));
  a = _mm512_add_ps(_mm512_permutex2var_ps(a, even, c), _mm512_permutex2var_ps(a, odd, c));
  float sums[kLanes];
  _mm512_storeu_ps(sums, a);
  for (int i = 0; i < 4; ++i)
    y[i] = (sums[4 * i] + sums[4 * i + 1]) + (sums[4 * i + 2] + sums[4 * i + 3]);
}

/// y[j] (+)= the sum of four rows.
WEFT_AVX512 void AddFour(const float* m, int64_t step, const float* v, int64_t n, bool first,
                         float* y) {
  const __m512 a = _mm512_set1_ps(v[0]), b = _mm512_set1_ps(v[1]), c = _mm512_set1_ps(v[2]),
               d = _mm512_set1_ps(v[3]);
  for (int64_t j = 0; j < n; j += kLanes) {
    const __mmask16 mask = First(n - j);
    const auto row = [&](int64_t i)
                         WEFT_AVX512 { return _mm512_maskz_loadu_ps(mask, m + i * step + j); };
    __m512 sum = first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, y + j);
    const __m512 ab = _mm512_fmadd_ps(b, row(1), _mm512_mul_ps(a, row(0)));
    sum = _mm512_add_ps(sum, _mm512_fmadd_ps(d, row(3), _mm512_fmadd_ps(c, row(2), ab)));
    _mm512_mask_storeu_ps(y + j, mask, sum);
  }
}

/// y[j] (+)= one row.
WEFT_AVX512 void AddOne(const float* m, float v, int64_t n, bool first, float* y) {
  const __m512 a = _mm512_set1_ps(v);
  for (int64_t j = 0; j < n; j += kLanes) {
    const __mmask16 mask = First(n - j);
    const __m512 sum = first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, y + j);
    _mm512_mask_storeu_ps(y + j, mask, _mm512_fmadd_ps(a, _mm512_maskz_loadu_ps(mask, m + j), sum));
  }
}

#else
void FourDots(const float*, int64_t, const float*, int64_t, float*) {}
void AddFour(const float*, int64_t, const float*, int64_t, bool, float*) {}
void AddOne(const float*, float, int64_t, bool, float*) {}
#endif

/// Results [first, last) of one product.
void Dots(const float* m, int64_t step, const float* v, int64_t columns, int64_t first,
          int64_t last, float* y) {
  int64_t i = first;
  for (; i + 4 <= last; i += 4) FourDots(m + i * step, step, v, columns, y + i);
  float sums[4];
  for (; i < last; ++i) {
    FourDots(m + i * step, 0, v, columns, sums);
    y[i] = sums[0];
  }
}
void Sums(const float* m, int64_t step, const float* v, int64_t rows, int64_t first, int64_t last,
          float* y) {
  // Results that stay in the nearest cache while all rows pass.
  constexpr int64_t kStripe = 2048;
  for (int64_t j = first; j < last; j += kStripe) {
    const int64_t n = std::min(kStripe, last - j);
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) AddFour(m + i * step + j, step, v + i, n, i == 0, y + j);
    for (; i < rows; ++i) AddOne(m + i * step + j, v[i], n, i == 0, y + j);
  }
}

}  // namespace

bool VectorProduct::Possible() {
#if defined(__x86_64__)
  static const bool possible = __builtin_cpu_supports("avx512f");
  return possible;
#else
  return false;
#endif
}

void VectorProduct::Run(const float* matrix, const float* vector, float* y) const {
  const int64_t size = rows * columns, wanted = std::max<int64_t>(1, size / kPieceFloats),
                // Runs of rows that are worth fetching; whole cache lines of results.
      least = of_rows ? kLanes : 512,
                piece =
                    std::max<int64_t>(least, (results() / wanted + kLanes - 1) / kLanes * kLanes),
                pieces = (results() + piece - 1) / piece;
#pragma omp parallel for schedule(static) collapse(2) if (batch * size >= 2 * kPieceFloats)
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t p = 0; p < pieces; ++p) {
      const float *m = matrix + b * matrix_step, *v = vector + b * vector_step;
      float* to = y + b * results();
      const int64_t first = p * piece, last = std::min(results(), first + piece);
      if (of_rows)
        Dots(m, row_step, v, columns, first, last, to);
      else
        Sums(m, row_step, v, rows, first, last, to);
    }
}

}  // namespace weft::cpu
