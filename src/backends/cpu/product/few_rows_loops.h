/// few_rows_loops.h: the inner loops of a few rows times a panel for one instruction set, included
/// once for each (few_rows_kernel.cc). No guard: WEFT_ISA_NAME names the set, WEFT_ISA is the
/// attribute of its functions, WEFT_LANES the floats of a vector; a tile of sums in registers has
/// WEFT_TILE_ROWS rows at most, and WEFT_TILE_VECTORS vectors in all.

namespace WEFT_ISA_NAME {

constexpr int kLanes = WEFT_LANES, kTileRows = WEFT_TILE_ROWS, kTileVectors = WEFT_TILE_VECTORS;
using V = float __attribute__((vector_size(WEFT_LANES * 4)));

#define WEFT_INLINE WEFT_ISA __attribute__((always_inline)) inline

WEFT_INLINE void LoadVector(const float* p, V* v) { __builtin_memcpy(v, p, sizeof(V)); }
WEFT_INLINE void StoreVector(float* p, const V* v) { __builtin_memcpy(p, v, sizeof(V)); }

/// Vectors of columns in a tile of R rows, of a panel of `all`: what registers hold, a divisor.
constexpr int TileColumns(int rows, int all) {
  int n = all;
  while (n * rows > kTileVectors || all % n != 0) --n;
  return n;
}
/// Elements of a row at a time, each with sums of its own: eight chains of additions hide their
/// latency.
constexpr int TileDepth(int rows, int columns) {
  const int sums = rows * columns, depth = (8 + sums - 1) / sums;
  return depth * sums > kTileVectors ? 1 : depth;
}

/// sums[R][N vectors] (+)= x[R, depth] panel[depth, N vectors].
template <int R, int N, int kWidth>
WEFT_ISA inline void Tile(const float* panel, const float* x, int64_t x_step, int64_t depth,
                          bool first, float* sums) {
  constexpr int kDepth = TileDepth(R, N);
  V sum[kDepth][R][N];
#pragma GCC unroll 8
  for (int u = 0; u < kDepth; ++u)
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j)
        if (u > 0 || first)
          sum[u][i][j] = V{};
        else
          LoadVector(sums + i * kPanelColumns + j * kLanes, &sum[u][i][j]);
  int64_t k = 0;
  for (; k + kDepth <= depth; k += kDepth, panel += kDepth * kWidth)
#pragma GCC unroll 8
    for (int u = 0; u < kDepth; ++u) {
      V row[N];
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) LoadVector(panel + u * kWidth + j * kLanes, &row[j]);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) {
        const float a = x[i * x_step + k + u];
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) sum[u][i][j] += a * row[j];
      }
    }
  for (; k < depth; ++k, panel += kWidth)
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const float a = x[i * x_step + k];
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) {
        V row;
        LoadVector(panel + j * kLanes, &row);
        sum[0][i][j] += a * row;
      }
    }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
#pragma GCC unroll 8
      for (int u = 1; u < kDepth; ++u) sum[0][i][j] += sum[u][i][j];
      StoreVector(sums + i * kPanelColumns + j * kLanes, &sum[0][i][j]);
    }
}

/// All columns of a panel, from column to column what is left of it lies in the nearest cache.
template <int R, int kWidth>
WEFT_ISA void Columns(const float* panel, const float* x, int64_t x_step, int64_t depth, bool first,
                      float* sums) {
  constexpr int kAll = kWidth / kLanes, kColumns = TileColumns(R, kAll);
  for (int j = 0; j < kAll; j += kColumns)
    Tile<R, kColumns, kWidth>(panel + j * kLanes, x, x_step, depth, first, sums + j * kLanes);
}

template <int kWidth>
WEFT_ISA void Rows(int64_t rows, const float* panel, const float* x, int64_t x_step, int64_t depth,
                   bool first, float* sums) {
  while (rows > 0) {
    const int64_t n = rows < kTileRows ? rows : kTileRows;
    switch (n) {
#define WEFT_ROWS(R)                                                                        \
  case R:                                                                                   \
    if constexpr (R <= kTileRows) Columns<R, kWidth>(panel, x, x_step, depth, first, sums); \
    break;
      WEFT_ROWS(1)
      WEFT_ROWS(2)
      WEFT_ROWS(3)
      WEFT_ROWS(4)
      WEFT_ROWS(5)
      WEFT_ROWS(6)
      WEFT_ROWS(7)
      WEFT_ROWS(8)
#undef WEFT_ROWS
    }
    rows -= n;
    x += n * x_step;
    sums += n * kPanelColumns;
  }
}

/// Is the panel read more than once?
constexpr bool ReadAgain(int64_t rows, int width) {
  return rows > kTileRows || TileColumns(int(rows), width / kLanes) * kLanes != width;
}

template <int kWidth>
WEFT_ISA void OfWidth(const FewRowsTile& t, float* sums) {
  // So much of it that it is still in the nearest cache then.
  constexpr int64_t kBlock = 128;
  const int64_t block = ReadAgain(t.rows, kWidth) ? kBlock : t.depth;
  for (int64_t k = 0; k < t.depth; k += block) {
    const int64_t depth = block < t.depth - k ? block : t.depth - k;
    Rows<kWidth>(t.rows, t.panel + k * kWidth, t.x + k, t.x_step, depth, k == 0, sums);
  }
}

WEFT_ISA void MultiplyPanel(const FewRowsTile& t) {
  alignas(64) float sums[kMostFewRows * kPanelColumns];
  if (t.columns <= 16)
    OfWidth<16>(t, sums);
  else if (t.columns <= 32)
    OfWidth<32>(t, sums);
  else
    OfWidth<kPanelColumns>(t, sums);
  for (int64_t i = 0; i < t.rows; ++i) {
    const float *from = sums + i * kPanelColumns,
                *addend = t.addend ? t.addend + i * t.y_step : nullptr;
    float* to = t.y + i * t.y_step;
    int64_t j = 0;
    for (; j + kLanes <= t.columns; j += kLanes) {
      V sum, more;
      LoadVector(from + j, &sum);
      if (t.row) {
        LoadVector(t.row + j, &more);
        sum += more;
      }
      if (addend) {
        LoadVector(addend + j, &more);
        sum += more;
      }
      StoreVector(to + j, &sum);
    }
    for (; j < t.columns; ++j) to[j] = from[j] + (t.row ? t.row[j] : 0) + (addend ? addend[j] : 0);
  }
}

constexpr FewRowsKernel kKernel{WEFT_ISA_TEXT, MultiplyPanel};

#undef WEFT_INLINE

}  // namespace WEFT_ISA_NAME
