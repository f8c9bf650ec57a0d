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
/// latency. A power of two, as most depths are multiples of one.
constexpr int TileDepth(int rows, int columns) {
  const int sums = rows * columns;
  int depth = 1;
  while (depth * sums < 8) depth *= 2;
  return depth * sums > kTileVectors ? 1 : depth;
}

/// Where sums go, a vector at a time, and what is added to them there.
struct Sums {
  float* to;
  int64_t step;
  const float *row = nullptr, *addend = nullptr;
};

WEFT_INLINE Sums Later(Sums s, int64_t rows, int64_t columns) {
  const int64_t place = rows * s.step + columns;
  return {s.to + place, s.step, s.row ? s.row + columns : nullptr,
          s.addend ? s.addend + place : nullptr};
}

/// sums[R, N vectors] (+)= x[R, depth] panel[depth, N vectors], or of as many vectors of each of P
/// panels, `apart` from each other.
template <int R, int N, int kWidth, int P = 1>
WEFT_ISA inline void Tile(const float* panel, const float* x, int64_t x_step, int64_t depth,
                          bool first, const Sums& sums, int64_t apart = 0) {
  constexpr int kEach = N / P;
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
          LoadVector(sums.to + i * sums.step + j * kLanes, &sum[u][i][j]);
  int64_t k = 0;
  for (; k + kDepth <= depth; k += kDepth, panel += kDepth * kWidth)
#pragma GCC unroll 8
    for (int u = 0; u < kDepth; ++u) {
      V row[N];
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j)
        LoadVector(panel + j / kEach * apart + u * kWidth + j % kEach * kLanes, &row[j]);
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
        LoadVector(panel + j / kEach * apart + j % kEach * kLanes, &row);
        sum[0][i][j] += a * row;
      }
    }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
#pragma GCC unroll 8
      for (int u = 1; u < kDepth; ++u) sum[0][i][j] += sum[u][i][j];
      V more;
      if (sums.row) {
        LoadVector(sums.row + j * kLanes, &more);
        sum[0][i][j] += more;
      }
      if (sums.addend) {
        LoadVector(sums.addend + i * sums.step + j * kLanes, &more);
        sum[0][i][j] += more;
      }
      StoreVector(sums.to + i * sums.step + j * kLanes, &sum[0][i][j]);
    }
}

/// All columns of a panel; from tile to tile what is left of it lies in the nearest cache.
template <int R, int kWidth>
WEFT_INLINE void Columns(const float* panel, const float* x, int64_t x_step, int64_t depth,
                         bool first, const Sums& sums) {
  constexpr int kAll = kWidth / kLanes, kColumns = TileColumns(R, kAll);
  for (int j = 0; j < kAll; j += kColumns)
    Tile<R, kColumns, kWidth>(panel + j * kLanes, x, x_step, depth, first,
                              Later(sums, 0, j * kLanes));
}

template <int kWidth>
WEFT_INLINE void Rows(int64_t rows, const float* panel, const float* x, int64_t x_step,
                      int64_t depth, bool first, const Sums& sums) {
  for (int64_t done = 0; done < rows; done += kTileRows) {
    const Sums here = Later(sums, done, 0);
    const float* const from = x + done * x_step;
    switch (rows - done < kTileRows ? rows - done : kTileRows) {
#define WEFT_ROWS(R)                                                                           \
  case R:                                                                                      \
    if constexpr (R <= kTileRows) Columns<R, kWidth>(panel, from, x_step, depth, first, here); \
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
  }
}

/// Is the panel read more than once?
constexpr bool ReadAgain(int64_t rows, int width) {
  return rows > kTileRows || TileColumns(int(rows), width / kLanes) * kLanes != width;
}

/// The last columns need not fill a vector.
WEFT_INLINE void AddAndStore(const float* sums, const FewRowsTile& t) {
  for (int64_t i = 0; i < t.rows; ++i) {
    const Sums here = Later({t.y, t.y_step, t.row, t.addend}, i, 0);
    const float* const from = sums + i * kMostColumns;
    const float* const row = t.row;
    int64_t j = 0;
    for (; j + kLanes <= t.columns; j += kLanes) {
      V sum, more;
      LoadVector(from + j, &sum);
      if (row) {
        LoadVector(row + j, &more);
        sum += more;
      }
      if (here.addend) {
        LoadVector(here.addend + j, &more);
        sum += more;
      }
      StoreVector(here.to + j, &sum);
    }
    for (; j < t.columns; ++j) {
      float sum = from[j];
      if (row) sum += row[j];
      if (here.addend) sum += here.addend[j];
      here.to[j] = sum;
    }
  }
}

template <int kWidth>
WEFT_INLINE void OfWidth(const FewRowsTile& t) {
  // So much of it that it is still in the nearest cache when it is read again.
  constexpr int64_t kBlock = 96;
  const int64_t block = ReadAgain(t.rows, kWidth) ? kBlock : t.depth;
  if (block >= t.depth && t.columns == kWidth) {
    const Sums sums{t.y, t.y_step, t.row, t.addend};
    Rows<kWidth>(t.rows, t.panel, t.x, t.x_step, t.depth, /*first=*/true, sums);
    return;
  }
  alignas(64) float memory[kMostFewRows * kMostColumns];
  const Sums sums{memory, kMostColumns};
  for (int64_t k = 0; k < t.depth; k += block) {
    const int64_t depth = block < t.depth - k ? block : t.depth - k;
    Rows<kWidth>(t.rows, t.panel + k * kWidth, t.x + k, t.x_step, depth, k == 0, sums);
  }
  AddAndStore(memory, t);
}

/// Two whole panels: half as many elements of x are read for each of theirs.
constexpr int kPairVectors = 2 * kPanelColumns / kLanes, kPairRows = kTileVectors / kPairVectors;

template <int R>
WEFT_INLINE void Pair(const FewRowsTile& t) {
  if constexpr (R <= kPairRows)
    Tile<R, kPairVectors, kPanelColumns, 2>(t.panel, t.x, t.x_step, t.depth, /*first=*/true,
                                            {t.y, t.y_step, t.row, t.addend},
                                            t.depth * kPanelColumns);
}

WEFT_ISA void MultiplyPair(const FewRowsTile& t) {
  static_assert(kPairRows <= 4);
  switch (t.rows) {
    case 1:
      return Pair<1>(t);
    case 2:
      return Pair<2>(t);
    case 3:
      return Pair<3>(t);
    case 4:
      return Pair<4>(t);
  }
}

WEFT_ISA void MultiplyPanel(const FewRowsTile& t) {
  if (t.columns <= 16)
    OfWidth<16>(t);
  else if (t.columns <= 32)
    OfWidth<32>(t);
  else if (t.columns <= kPanelColumns)
    OfWidth<kPanelColumns>(t);
  else
    OfWidth<kMostColumns>(t);
}

constexpr FewRowsKernel kKernel{WEFT_ISA_TEXT, MultiplyPanel, MultiplyPair, kPairRows};

#undef WEFT_INLINE

}  // namespace WEFT_ISA_NAME
