/// attention_loops.h: the inner loops of attention for one instruction set, included once for each
/// (attention_kernel.cc). No guard: WEFT_ISA_NAME names the set, WEFT_ISA is the attribute of its
/// functions, WEFT_LANES the floats of a vector and WEFT_COLUMNS how many vectors of columns a tile
/// of six rows keeps in registers.

namespace WEFT_ISA_NAME {

constexpr int kLanes = WEFT_LANES, kColumns = WEFT_COLUMNS, kRows = 6;
using V = float __attribute__((vector_size(WEFT_LANES * 4)));
using I = int32_t __attribute__((vector_size(WEFT_LANES * 4)));

#define WEFT_INLINE WEFT_ISA __attribute__((always_inline)) inline

WEFT_INLINE void LoadVector(const float* p, V* v) { __builtin_memcpy(v, p, sizeof(V)); }
WEFT_INLINE void StoreVector(float* p, const V* v) { __builtin_memcpy(p, v, sizeof(V)); }

/// R rows and N vectors of columns.
template <int R, int N>
WEFT_ISA inline void Tile(const float* a, int64_t a_step, const float* b, int64_t b_step, float* c,
                          int64_t c_step, int64_t depth, const float* factor) {
  V sum[R][N];
#pragma GCC unroll 6
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) sum[i][j] = V{};
  for (int64_t k = 0; k < depth; ++k, b += b_step) {
    V row[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) LoadVector(b + j * kLanes, &row[j]);
#pragma GCC unroll 6
    for (int i = 0; i < R; ++i) {
      const float x = a[i * a_step + k];
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) sum[i][j] += x * row[j];
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      float* at = c + i * c_step + j * kLanes;
      if (factor) {
        V before;
        LoadVector(at, &before);
        sum[i][j] += before * factor[i];
      }
      StoreVector(at, &sum[i][j]);
    }
}

template <int N>
WEFT_ISA void Rows(const float* a, int64_t a_step, const float* b, int64_t b_step, float* c,
                   int64_t c_step, int64_t rows, int64_t depth, const float* factor) {
  int64_t i = 0;
#define WEFT_ROWS(R)                                                             \
  for (; i + R <= rows; i += R)                                                  \
    Tile<R, N>(a + i * a_step, a_step, b, b_step, c + i * c_step, c_step, depth, \
               factor ? factor + i : nullptr);
  WEFT_ROWS(kRows)
  WEFT_ROWS(4)
  WEFT_ROWS(2)
  WEFT_ROWS(1)
#undef WEFT_ROWS
}

WEFT_ISA void Multiply(const float* a, int64_t a_step, const float* b, int64_t b_step,
                       int64_t width, float* c, int64_t c_step, int64_t rows, int64_t depth,
                       const float* factor) {
  switch (width / kLanes) {
#if WEFT_COLUMNS >= 4
    case 4:
      return Rows<4>(a, a_step, b, b_step, c, c_step, rows, depth, factor);
    case 3:
      return Rows<3>(a, a_step, b, b_step, c, c_step, rows, depth, factor);
#endif
    case 2:
      return Rows<2>(a, a_step, b, b_step, c, c_step, rows, depth, factor);
    default:
      return Rows<1>(a, a_step, b, b_step, c, c_step, rows, depth, factor);
  }
}

using Four = float __attribute__((vector_size(16)));

/// The sums of the lanes of four vectors.
WEFT_INLINE void FourSums(const V* v, Four* sums) {
  Four part[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    Four quarter[kLanes / 4];
    __builtin_memcpy(quarter, &v[i], sizeof(V));
    part[i] = quarter[0];
#pragma GCC unroll 4
    for (int k = 1; k < kLanes / 4; ++k) part[i] += quarter[k];
  }
  const Four a = __builtin_shufflevector(part[0], part[1], 0, 2, 4, 6) +
                 __builtin_shufflevector(part[0], part[1], 1, 3, 5, 7),
             b = __builtin_shufflevector(part[2], part[3], 0, 2, 4, 6) +
                 __builtin_shufflevector(part[2], part[3], 1, 3, 5, 7);
  *sums = __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}

/// R rows by four keys.
template <int R>
WEFT_ISA inline void DotTile(const float* a, int64_t a_step, const float* b, int64_t b_step,
                             int64_t keys, float* c, int64_t c_step, int64_t depth) {
  V sum[R][4];
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[i][j] = V{};
  // Of fewer than four keys the last one stands for those that are missing.
  const float* at[4];
  for (int j = 0; j < 4; ++j) at[j] = b + (j < keys ? j : keys - 1) * b_step;
  const int64_t whole = depth / kLanes * kLanes;
  for (int64_t k = 0; k < whole; k += kLanes) {
    V key[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) LoadVector(at[j] + k, &key[j]);
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      V x;
      LoadVector(a + i * a_step + k, &x);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sum[i][j] += x * key[j];
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) {
    Four sums;
    FourSums(sum[i], &sums);
    for (int64_t k = whole; k < depth; ++k)
      for (int j = 0; j < 4; ++j) sums[j] += a[i * a_step + k] * at[j][k];
    for (int64_t j = 0; j < keys; ++j) c[i * c_step + j] = sums[j];
  }
}

WEFT_ISA void Dots(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t n,
                   float* c, int64_t c_step, int64_t rows, int64_t depth) {
  for (int64_t j = 0; j < n; j += 4) {
    const int64_t keys = n - j < 4 ? n - j : 4;
    int64_t i = 0;
#define WEFT_ROWS(R)                                                                             \
  for (; i + R <= rows; i += R)                                                                  \
    DotTile<R>(a + i * a_step, a_step, b + j * b_step, b_step, keys, c + i * c_step + j, c_step, \
               depth);
    WEFT_ROWS(4)
    WEFT_ROWS(2)
    WEFT_ROWS(1)
#undef WEFT_ROWS
  }
}

/// exp of x <= 0 or NaN; below 2^-126.5 it is 0.
WEFT_INLINE void Exp(V* x) {
  // Rounds to an integer n and leaves n + 127 in the low bits, which become the exponent.
  constexpr float kRound = 0x1.8p23f + 127;
  const V limited = *x < -88.f ? V{} - 88.f : *x;
  const V t = limited * 1.44269504f + kRound;
  const V n = t - kRound;
  // ln 2 in two parts, of which the first has 9 bits: its product is exact.
  const V r = (limited - n * 0.693359375f) + n * 2.12194440e-4f;
  V q = r * 0.00159311877f + 0.00834609848f;
  q = q * r + 0.041626472f;
  q = q * r + 0.166667372f;
  q = q * r + 0.500001848f;
  q = q * r + 1.f;
  q = q * r + 1.f;
  I bits;
  __builtin_memcpy(&bits, &t, sizeof(V));
  bits <<= 23;
  V power;
  __builtin_memcpy(&power, &bits, sizeof(V));
  *x = q * power;
}

WEFT_ISA void Bend(float* x, int64_t n, float cap) {
  const V twice = V{} - 2 / cap;
  for (int64_t j = 0; j < n; j += kLanes) {
    V v;
    LoadVector(x + j, &v);
    // tanh |x| = (1 - e) / (1 + e) with e = exp(-2 |x|).
    const V size = v < 0.f ? -v : v;
    V e = size * twice;
    Exp(&e);
    const V bent = (1.f - e) / (1.f + e) * cap;
    v = v < 0.f ? -bent : bent;
    StoreVector(x + j, &v);
  }
}

WEFT_INLINE float Most(const V& v) {
  float lane[kLanes];
  StoreVector(lane, &v);
#pragma GCC unroll 4
  for (int w = kLanes / 2; w > 0; w /= 2)
#pragma GCC unroll 16
    for (int i = 0; i < w; ++i) lane[i] = lane[i] > lane[i + w] ? lane[i] : lane[i + w];
  return lane[0];
}
WEFT_INLINE float Sum(const V& v) {
  float lane[kLanes];
  StoreVector(lane, &v);
#pragma GCC unroll 4
  for (int w = kLanes / 2; w > 0; w /= 2)
#pragma GCC unroll 16
    for (int i = 0; i < w; ++i) lane[i] += lane[i + w];
  return lane[0];
}

WEFT_ISA float Soften(float* x, int64_t n, const float* mask, int64_t mask_step, float* most,
                      float* sum) {
  const int64_t whole = n / kLanes * kLanes, rest = n - whole;
  const float lowest = -__builtin_inff();
  V best = V{} + lowest;
  V one = V{};
  if (mask && mask_step == 0) one += mask[0];
  for (int64_t j = 0; j < whole; j += kLanes) {
    V v;
    LoadVector(x + j, &v);
    if (mask) {
      if (mask_step != 0) LoadVector(mask + j, &one);
      v += one;
      StoreVector(x + j, &v);
    }
    best = v > best ? v : best;
  }
  if (rest > 0) {
    for (int64_t j = whole; j < n; ++j)
      if (mask) x[j] += mask[j * mask_step];
    for (int64_t j = n; j < whole + kLanes; ++j) x[j] = lowest;
    V v;
    LoadVector(x + whole, &v);
    best = v > best ? v : best;
  }
  const float before = *most, part = Most(best), now = part > before ? part : before;
  // Where all is -inf so far, any shift gives the zeros that it stands for.
  const float shift = now == lowest ? 0.f : now;
  V total = V{};
  for (int64_t j = 0; j < n; j += kLanes) {
    V v;
    LoadVector(x + j, &v);
    v -= shift;
    Exp(&v);
    StoreVector(x + j, &v);
    total += v;
  }
  V shrunk = V{} + (before - shift);
  Exp(&shrunk);
  *most = now;
  *sum = *sum * shrunk[0] + Sum(total);
  return shrunk[0];
}

WEFT_ISA void Divide(const float* x, float sum, float* y, int64_t step, int64_t n) {
  const float factor = 1 / sum;
  int64_t j = 0;
  if (step == 1)
    for (; j + kLanes <= n; j += kLanes) {
      V v;
      LoadVector(x + j, &v);
      v *= factor;
      StoreVector(y + j, &v);
    }
  for (; j < n; ++j) y[j * step] = x[j] * factor;
}

#undef WEFT_INLINE

constexpr AttentionKernel kKernel{WEFT_ISA_TEXT, kLanes, kLanes* kColumns, Multiply,
                                  Dots,          Bend,   Soften,           Divide};

}  // namespace WEFT_ISA_NAME
