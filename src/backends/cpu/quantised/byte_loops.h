/// byte_loops.h: the inner loops of byte_kernel.h for one instruction set, included once for each
/// (byte_kernel.cc). No guard: WEFT_ISA_NAME names the set, WEFT_ISA is the attribute of its
/// functions, WEFT_LANES the sums of a vector, WEFT_DOT(sum, x, w) adds to each the four products
/// of unsigned bytes x and signed bytes w, WEFT_WIDEN(p) gives as many unsigned bytes at p as sums,
/// WEFT_NARROW(v) the low bytes of sums; WEFT_BLOCK channels are a vector WEFT_BYTES, with the
/// instructions WEFT_BYTEWISE, WEFT_ALL, WEFT_ROUND (not defined: there is none), and where a tile
/// has four vectors WEFT_IN_ORDER puts packed bytes in the order of columns; WEFT_TILE_ROWS and
/// WEFT_TILE_VECTORS is what a tile of sums in registers has.

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

/// `n` of the `lanes` of `v`.
template <class V>
WEFT_INLINE void StoreSome(uint8_t* to, const V& v, int64_t n, int64_t lanes = kLanes) {
  const int64_t each = int64_t(sizeof(V)) / lanes;
  if (n >= lanes)
    __builtin_memcpy(to, &v, sizeof(V));
  else
    __builtin_memcpy(to, &v, size_t(n * each));
}

/// Numbers within the bounds of `f`, rounded, their zero added: in the low byte of each.
WEFT_INLINE Ints RoundedInts(Floats y, const ByteFinish& f) {
  // Bounds are whole numbers, so they may come before the rounding, which this sum does: below
  // 2^22, to the even neighbour.
  const Floats low = Floats{} + f.low, high = Floats{} + f.high;
  y = y < high ? y : high;  // NaN becomes the bound
  y = y > low ? y : low;
  y += 12582912.f;  // 1.5 * 2^23
  Ints bits;
  __builtin_memcpy(&bits, &y, sizeof(bits));
  return bits + (f.zero - 0x4b400000);
}

#ifdef WEFT_BLOCK
/// The same of four vectors of sums, bias included, whose scales are at `scale`: as bytes, those of
/// a lane of 16 from all four vectors.
WEFT_INLINE WEFT_BYTES PackedBytes(const Ints (&sum)[4], const ByteFinish& f, const float* scale) {
  const Floats high = Floats{} + f.high;
  WEFT_BYTES whole[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    Floats by;
    LoadAs(scale + j * kLanes, &by);
    Floats y = __builtin_convertvector(sum[j], Floats) * by;
    y = y < high ? y : high;
    whole[j] = WEFT_ROUND(y);  // what is too low for i32 becomes the lowest number
  }
  const WEFT_BYTES zero = WEFT_ALL(16)(short(f.zero));
  const WEFT_BYTES a = WEFT_BYTEWISE(adds_epi16)(WEFT_BYTEWISE(packs_epi32)(whole[0], whole[1]),
                                                 zero),
                   b = WEFT_BYTEWISE(adds_epi16)(WEFT_BYTEWISE(packs_epi32)(whole[2], whole[3]),
                                                 zero);
  const WEFT_BYTES low = WEFT_ALL(8)(char(int32_t(f.low) + f.zero));
  return f.is_signed ? WEFT_BYTEWISE(max_epi8)(WEFT_BYTEWISE(packs_epi16)(a, b), low)
                     : WEFT_BYTEWISE(max_epu8)(WEFT_BYTEWISE(packus_epi16)(a, b), low);
}
#endif

/// Stores what becomes of the sums, bias included, of columns [first, first + kLanes), of which
/// `columns` are there in all. kPlain: bytes, without offset and zeros.
template <bool kPlain>
WEFT_INLINE void FinishVector(Ints sum, const ByteFinish& f, int64_t first, int64_t columns,
                              int32_t row_sum, uint8_t* row) {
  const int64_t n = columns - first;
  Floats scale;
  if (kPlain) {
    LoadAs(f.scale + first, &scale);
    const Bytes bytes = WEFT_NARROW(RoundedInts(__builtin_convertvector(sum, Floats) * scale, f));
    return StoreSome(row + first, bytes, n);
  }
  if (f.zeros) {
    Ints zeros;
    LoadAs(f.zeros + first, &zeros);
    sum -= zeros * row_sum;
  }
  if (f.as == ByteResult::kI32) return StoreSome(row + first * 4, sum, n);
  LoadAs(f.scale + first, &scale);
  Floats y = __builtin_convertvector(sum, Floats) * scale;
  if (f.offset) {
    Floats offset;
    LoadAs(f.offset + first, &offset);
    y += offset;
  }
  if (f.as == ByteResult::kF32) return StoreSome(row + first * 4, y, n);
  const Bytes bytes = WEFT_NARROW(RoundedInts(y, f));
  StoreSome(row + first, bytes, n);
}

WEFT_INLINE bool IsPlain(const ByteFinish& f) {
  return f.as == ByteResult::kByte && !f.offset && !f.zeros;
}

/// What becomes of a tile of sums.
template <bool kPlain, int R, int N>
WEFT_INLINE void FinishTile(Ints (&sum)[R][N], const ByteFinish& f, int64_t first, int64_t columns,
                            const int32_t* row_sums, uint8_t* y, int64_t y_step) {
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j)
      if (first + j * kLanes < columns)
        FinishVector<kPlain>(sum[i][j], f, first + j * kLanes, columns, row_sums ? row_sums[i] : 0,
                             y + i * y_step);
}

/// Sums begin with the bias.
template <int R, int N>
WEFT_INLINE void Begin(Ints (&sum)[R][N], const ByteFinish& f, int64_t first) {
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) {
    LoadAs(f.bias + first + j * kLanes, &sum[0][j]);
#pragma GCC unroll 8
    for (int i = 1; i < R; ++i) sum[i][j] = sum[0][j];
  }
}

/// R rows by N vectors of columns from `first` on.
template <bool kFlips, int R, int N>
WEFT_ISA void Tile(const ByteTile& t, const ByteFinish& f, int64_t row, int64_t first) {
  const int64_t width = (t.columns + kByteLanes - 1) / kByteLanes * kByteLanes * kQuad;
  Ints sum[R][N];
  Begin(sum, f, first);
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
        Ints all = Ints{} + four;
        if (kFlips) all ^= Ints{} + int32_t(0x80808080);
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) WEFT_DOT(sum[i][j], all, w[j]);
      }
    }
  }
  uint8_t* const y = t.y + row * t.y_step;
#ifdef WEFT_IN_ORDER
  if constexpr (N == 4)
    if (IsPlain(f) && first + N * kLanes <= t.columns) {
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) {
        const WEFT_BYTES all = WEFT_IN_ORDER(PackedBytes(sum[i], f, f.scale + first));
        __builtin_memcpy(y + i * t.y_step + first, &all, sizeof(all));
      }
      return;
    }
#endif
  if (IsPlain(f))
    FinishTile<true>(sum, f, first, t.columns, nullptr, y, t.y_step);
  else
    FinishTile<false>(sum, f, first, t.columns, t.row_sums ? t.row_sums + row : nullptr, y,
                      t.y_step);
}

template <bool kFlips, int R>
WEFT_ISA void Rows(const ByteTile& t, const ByteFinish& f, int64_t row) {
  constexpr int kN = WEFT_TILE_VECTORS, kThree = kN < 3 ? kN : 3, kTwo = kN < 2 ? kN : 2;
  for (int64_t c = 0; c < t.columns; c += kN * kLanes) {
    const int64_t vectors = (t.columns - c + kLanes - 1) / kLanes;
    if (vectors >= kN)
      Tile<kFlips, R, kN>(t, f, row, c);
    else if (vectors == 3)
      Tile<kFlips, R, kThree>(t, f, row, c);
    else if (vectors == 2)
      Tile<kFlips, R, kTwo>(t, f, row, c);
    else
      Tile<kFlips, R, 1>(t, f, row, c);
  }
}

template <bool kFlips>
WEFT_ISA void AllRows(const ByteTile& t, const ByteFinish& f) {
  for (int64_t row = 0; row < t.count;) {
    const int64_t left = t.count - row, n = left < WEFT_TILE_ROWS ? left : WEFT_TILE_ROWS;
    switch (n) {
#if WEFT_TILE_ROWS > 4
      case 6:
        Rows<kFlips, 6>(t, f, row);
        break;
      case 5:
        Rows<kFlips, 5>(t, f, row);
        break;
#endif
#if WEFT_TILE_ROWS > 2
      case 4:
        Rows<kFlips, 4>(t, f, row);
        break;
      case 3:
        Rows<kFlips, 3>(t, f, row);
        break;
#endif
      case 2:
        Rows<kFlips, 2>(t, f, row);
        break;
      default:
        Rows<kFlips, 1>(t, f, row);
    }
    row += n;
  }
}
WEFT_ISA void RunTile(const ByteTile& t, const ByteFinish& f) {
  if (t.flips)
    AllRows<true>(t, f);
  else
    AllRows<false>(t, f);
}

/// R positions by N vectors of channels from `first` on.
template <int R, int N>
WEFT_ISA void ChannelsOf(const ChannelTile& t, const ByteFinish& f, int64_t row, int64_t first) {
  const int64_t width = (t.channels + kByteLanes - 1) / kByteLanes * kByteLanes;
  Ints sum[R][N];
  Begin(sum, f, first);
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
        const uint8_t* x = t.taps[(row + i) * t.num_taps + tap] + first + j * kLanes;
        uint8_t some[kLanes] = {};
        if (const int64_t n = t.channels - first - j * kLanes; n < kLanes) {
          __builtin_memcpy(some, x, size_t(n));
          x = some;
        }
        sum[i][j] += (WEFT_WIDEN(x) ^ (Ints{} + t.flip)) * w[j];
      }
  }
  uint8_t* const y = t.y + row * t.y_step;
  if (IsPlain(f))
    FinishTile<true>(sum, f, first, t.channels, nullptr, y, t.y_step);
  else
    FinishTile<false>(sum, f, first, t.channels, nullptr, y, t.y_step);
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

#ifdef WEFT_BLOCK
/// R positions, a block of channels from `first` on; not kWhole: the last one, of fewer.
template <int R, bool kWhole>
WEFT_ISA void QuadsOf(const ChannelTile& t, const ByteFinish& f, int64_t row, int64_t first) {
  const int64_t wide = (t.channels + WEFT_BLOCK - 1) / WEFT_BLOCK * WEFT_BLOCK * kQuad,
                n = t.channels - first;
  const WEFT_BYTES flip = WEFT_ALL(8)(char(t.flip));
  Ints sum[R][4];
  Begin(sum, f, first);
  const int8_t* weights = t.quads + first * kQuad;
  for (int64_t tap = 0; tap < t.num_taps; tap += kQuad, weights += wide) {
    Ints w[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) LoadAs(weights + j * kLanes * kQuad, &w[j]);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const uint8_t* const* x = t.taps + (row + i) * t.num_taps + tap;
      WEFT_BYTES v[4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        if (kWhole)
          LoadAs(x[j] + first, &v[j]);
        else
          v[j] = WEFT_LOAD_SOME(x[j] + first, n);
        v[j] ^= flip;
      }
      const WEFT_BYTES ab = WEFT_BYTEWISE(unpacklo_epi8)(v[0], v[1]),
                       AB = WEFT_BYTEWISE(unpackhi_epi8)(v[0], v[1]),
                       cd = WEFT_BYTEWISE(unpacklo_epi8)(v[2], v[3]),
                       CD = WEFT_BYTEWISE(unpackhi_epi8)(v[2], v[3]);
      WEFT_DOT(sum[i][0], WEFT_BYTEWISE(unpacklo_epi16)(ab, cd), w[0]);
      WEFT_DOT(sum[i][1], WEFT_BYTEWISE(unpackhi_epi16)(ab, cd), w[1]);
      WEFT_DOT(sum[i][2], WEFT_BYTEWISE(unpacklo_epi16)(AB, CD), w[2]);
      WEFT_DOT(sum[i][3], WEFT_BYTEWISE(unpackhi_epi16)(AB, CD), w[3]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
    const WEFT_BYTES all = PackedBytes(sum[i], f, f.scale + first);
    StoreSome(t.y + (row + i) * t.y_step + first, all, kWhole ? WEFT_BLOCK : n, WEFT_BLOCK);
  }
}

template <bool kWhole>
WEFT_ISA void QuadRows(const ChannelTile& t, const ByteFinish& f, int64_t first) {
  int64_t row = 0;
  for (; row + 2 <= t.count; row += 2) QuadsOf<2, kWhole>(t, f, row, first);
  for (; row < t.count; ++row) QuadsOf<1, kWhole>(t, f, row, first);
}
WEFT_ISA void RunQuads(const ChannelTile& t, const ByteFinish& f) {
  int64_t c = 0;
  for (; c + WEFT_BLOCK <= t.channels; c += WEFT_BLOCK) QuadRows<true>(t, f, c);
  if (c < t.channels) QuadRows<false>(t, f, c);
}

constexpr ByteKernel kKernel{WEFT_ISA_TEXT, RunTile, RunChannels, RunQuads, WEFT_BLOCK};
#else
constexpr ByteKernel kKernel{WEFT_ISA_TEXT, RunTile, RunChannels, nullptr, 0};
#endif

#undef WEFT_INLINE

}  // namespace WEFT_ISA_NAME
