/// byte_loops.h: the inner loops of byte_kernel.h for one instruction set, included once for each
/// (byte_kernel.cc). No guard: WEFT_ISA_NAME names the set, WEFT_ISA is the attribute of its
/// functions, WEFT_LANES the sums of a vector, WEFT_DOT(sum, x, w) adds to each the four products
/// of unsigned bytes x and signed bytes w, WEFT_WIDEN(p) gives as many unsigned bytes at p as sums,
/// WEFT_NARROW(v) the low bytes of sums, WEFT_TILE_ROWS and WEFT_TILE_VECTORS is what a tile of
/// sums in registers has.

namespace WEFT_ISA_NAME {

constexpr int kLanes = WEFT_LANES;
using Ints = int32_t __attribute__((vector_size(WEFT_LANES * 4)));
using Floats = float __attribute__((vector_size(WEFT_LANES * 4)));
using Bytes = int8_t __attribute__((vector_size(WEFT_LANES)));
using Shorts = int16_t __attribute__((vector_size(WEFT_LANES * 2)));

#define WEFT_INLINE WEFT_ISA __attribute__((always_inline)) inline

template <class V, class T>
WEFT_INLINE void LoadAs(const T* p, V* v) {
  __builtin_memcpy(v, p, sizeof(V));
}

/// `n` of the lanes of `v`.
template <class V>
WEFT_INLINE void StoreSome(uint8_t* to, const V& v, int64_t n) {
  constexpr int64_t kEach = int64_t(sizeof(V)) / kLanes;
  if (n >= kLanes)
    __builtin_memcpy(to, &v, sizeof(V));
  else
    __builtin_memcpy(to, &v, size_t(n * kEach));
}

/// Stores what becomes of the sums of columns [first, first + kLanes), of which `columns` are there
/// in all.
WEFT_INLINE void Finish(Ints sum, const ByteFinish& f, int64_t first, int64_t columns,
                        int32_t row_sum, uint8_t* row) {
  Ints bias;
  LoadAs(f.bias + first, &bias);
  sum += bias;
  if (f.zeros) {
    Ints zeros;
    LoadAs(f.zeros + first, &zeros);
    sum -= zeros * row_sum;
  }
  const int64_t n = columns - first;
  if (f.as == ByteResult::kI32) return StoreSome(row + first * 4, sum, n);
  Floats scale;
  LoadAs(f.scale + first, &scale);
  Floats y = __builtin_convertvector(sum, Floats) * scale;
  if (f.offset) {
    Floats offset;
    LoadAs(f.offset + first, &offset);
    y += offset;
  }
  if (f.as == ByteResult::kF32) return StoreSome(row + first * 4, y, n);
  // Bounds are whole numbers, so they may come before the rounding, which this sum does: below
  // 2^22, to the even neighbour.
  const Floats low = Floats{} + f.low, high = Floats{} + f.high;
  y = y > low ? y : low;  // NaN becomes the bound
  y = y < high ? y : high;
  y += 12582912.f;  // 1.5 * 2^23
  Ints bits;
  __builtin_memcpy(&bits, &y, sizeof(bits));
  bits += f.zero - 0x4b400000;
  const Bytes bytes = WEFT_NARROW(bits);
  StoreSome(row + first, bytes, n);
}

/// R rows by N vectors of columns from `first` on.
template <int R, int N>
WEFT_ISA void Tile(const ByteTile& t, const ByteFinish& f, int64_t row, int64_t first) {
  const int64_t width = (t.columns + kByteLanes - 1) / kByteLanes * kByteLanes * kQuad;
  Ints sum[R][N];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) sum[i][j] = Ints{};
  const int8_t* panel = t.panel + first * kQuad;
  for (int64_t run = 0; run < t.num_runs; ++run) {
    const uint8_t* x[R];
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) x[i] = t.rows[row + i] + t.runs[run];
    for (int64_t q = 0; q < t.run_quads; ++q, panel += width) {
      Ints w[N];
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) LoadAs(panel + j * kLanes * kQuad, &w[j]);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) {
        int32_t four;
        __builtin_memcpy(&four, x[i] + q * kQuad, 4);
        const Ints all = Ints{} + four;
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) WEFT_DOT(sum[i][j], all, w[j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j)
      if (first + j * kLanes < t.columns)
        Finish(sum[i][j], f, first + j * kLanes, t.columns, t.row_sums ? t.row_sums[row + i] : 0,
               t.y + (row + i) * t.y_step);
}

template <int R>
WEFT_ISA void Rows(const ByteTile& t, const ByteFinish& f, int64_t row) {
  constexpr int kN = WEFT_TILE_VECTORS;
  for (int64_t c = 0; c < t.columns; c += kN * kLanes) {
    const int64_t vectors = (t.columns - c + kLanes - 1) / kLanes;
    if (vectors >= kN)
      Tile<R, kN>(t, f, row, c);
    else if (vectors == 3)
      Tile<R, kN < 3 ? kN : 3>(t, f, row, c);
    else if (vectors == 2)
      Tile<R, kN < 2 ? kN : 2>(t, f, row, c);
    else
      Tile<R, 1>(t, f, row, c);
  }
}

WEFT_ISA void Run(const ByteTile& t, const ByteFinish& f) {
  for (int64_t row = 0; row < t.count;) {
    const int64_t left = t.count - row, n = left < WEFT_TILE_ROWS ? left : WEFT_TILE_ROWS;
    switch (n) {
#if WEFT_TILE_ROWS > 4
      case 6: Rows<6>(t, f, row); break;
      case 5: Rows<5>(t, f, row); break;
#endif
#if WEFT_TILE_ROWS > 2
      case 4: Rows<4>(t, f, row); break;
      case 3: Rows<3>(t, f, row); break;
#endif
      case 2: Rows<2>(t, f, row); break;
      default: Rows<1>(t, f, row);
    }
    row += n;
  }
}

/// R positions by N vectors of channels from `first` on.
template <int R, int N>
WEFT_ISA void ChannelsOf(const ChannelTile& t, const ByteFinish& f, int64_t row, int64_t first) {
  const int64_t width = (t.channels + kByteLanes - 1) / kByteLanes * kByteLanes;
  Ints sum[R][N];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) sum[i][j] = Ints{};
  for (int64_t tap = 0; tap < t.num_taps; ++tap) {
    Ints w[N];
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
      Shorts narrow;
      LoadAs(t.weights + tap * width + first + j * kLanes, &narrow);
      w[j] = __builtin_convertvector(narrow, Ints);
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) {
        const uint8_t* x = t.rows[row + i] + t.taps[tap] + first + j * kLanes;
        sum[i][j] += WEFT_WIDEN(x) * w[j];
      }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j)
      Finish(sum[i][j], f, first + j * kLanes, t.channels, 0, t.y + (row + i) * t.y_step);
}

template <int R>
WEFT_ISA void ChannelRows(const ChannelTile& t, const ByteFinish& f, int64_t row) {
  int64_t c = 0;
  for (; c + 2 * kLanes <= t.channels; c += 2 * kLanes) ChannelsOf<R, 2>(t, f, row, c);
  for (; c < t.channels; c += kLanes) ChannelsOf<R, 1>(t, f, row, c);
}

WEFT_ISA void RunChannels(const ChannelTile& t, const ByteFinish& f) {
  int64_t row = 0;
  for (; row + 3 <= t.count; row += 3) ChannelRows<3>(t, f, row);
  for (; row < t.count; ++row) ChannelRows<1>(t, f, row);
}

constexpr ByteKernel kKernel{WEFT_ISA_TEXT, Run, RunChannels};

#undef WEFT_INLINE

}  // namespace WEFT_ISA_NAME
