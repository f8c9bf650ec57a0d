/// compressed_loops.h: the inner loops of rows times a compressed matrix for one instruction set,
/// included once for each (compressed_kernel.cc). No guard: WEFT_ISA_NAME names the set, WEFT_ISA
/// is the attribute of its functions, WEFT_LANES the floats of a vector; a tile of sums has
/// WEFT_TILE_ROWS rows at most, and of up to four rows WEFT_TILE_STRIPS strips. WEFT_MOST_ROWS: as
/// CompressedKernel::most_rows.

namespace WEFT_ISA_NAME {

constexpr int kLanes = WEFT_LANES, kTileRows = WEFT_TILE_ROWS, kTileStrips = WEFT_TILE_STRIPS;
constexpr int kParts = int(kStripColumns) / kLanes;  // vectors of a row of a strip
using V = float __attribute__((vector_size(WEFT_LANES * 4)));
using Words = uint32_t __attribute__((vector_size(WEFT_LANES * 4)));

/// Bytes ahead that are asked for: what is decoded leaves the processor too little room to run on
/// by itself to what memory has to send.
constexpr int64_t kAhead = 8192;

#define WEFT_INLINE WEFT_ISA __attribute__((always_inline)) inline

WEFT_INLINE void LoadVector(const void* p, V* v) { __builtin_memcpy(v, p, sizeof(V)); }
WEFT_INLINE void StoreVector(float* p, const V* v) { __builtin_memcpy(p, v, sizeof(V)); }
WEFT_INLINE void WidenBytes(const void* p, V* v) {
#if WEFT_LANES == 16
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
  const __mmask16 all = 0xffff;
  *v = _mm512_maskz_cvtepi32_ps(all, _mm512_maskz_cvtepi8_epi32(all, bytes));
#elif WEFT_LANES == 8
  const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(p));
  *v = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
#else
  float values[kLanes];
  for (int c = 0; c < kLanes; ++c) values[c] = static_cast<const int8_t*>(p)[c];
  LoadVector(values, v);
#endif
}

constexpr bool HasWords(CodeFormat f) {
  return f == CodeFormat::kTable2 || f == CodeFormat::kTable4;
}

/// A table of 16 in registers, one of 256 in memory.
struct Table {
  const float* values;
#if WEFT_LANES == 16
  __m512 all;
#elif WEFT_LANES == 8
  __m256 low, high;
#endif
};
WEFT_INLINE void ReadTable(const float* values, Table* t) {
  t->values = values;
#if WEFT_LANES == 16
  t->all = _mm512_loadu_ps(values);
#elif WEFT_LANES == 8
  t->low = _mm256_loadu_ps(values);
  t->high = _mm256_loadu_ps(values + 8);
#endif
}

/// Entries whose indices are the lowest four bits of each word, at least `kBits` of them the code.
template <int kBits>
WEFT_INLINE void LookUp(const Table& t, const Words& words, V* v) {
#if WEFT_LANES == 16
  __m512i index;
  __builtin_memcpy(&index, &words, sizeof(index));
  *v = _mm512_maskz_permutexvar_ps(__mmask16(0xffff), index, t.all);
#elif WEFT_LANES == 8
  __m256i index;
  __builtin_memcpy(&index, &words, sizeof(index));
  const __m256 low = _mm256_permutevar8x32_ps(t.low, index);
  if constexpr (kBits == 2) {
    *v = low;
  } else {
    const __m256 high = _mm256_permutevar8x32_ps(t.high, index);
    *v = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
  }
#else
  float values[kLanes];
  for (int c = 0; c < kLanes; ++c) values[c] = t.values[words[c] & ((1 << kBits) - 1)];
  LoadVector(values, v);
#endif
}

/// Row u of a group: of `words` where the format has them, else of the bytes of the row at `p`.
template <CodeFormat F>
WEFT_INLINE void Values(const Table& t, const Words& words, const uint8_t* p, int u, V* v) {
  if constexpr (F == CodeFormat::kTable2) {
    LookUp<2>(t, words >> uint32_t(2 * u), v);
  } else if constexpr (F == CodeFormat::kTable4) {
    LookUp<4>(t, words >> uint32_t(4 * u), v);
  } else if constexpr (F == CodeFormat::kInteger8) {
    WidenBytes(p, v);
#if WEFT_LANES == 16
  } else if constexpr (F == CodeFormat::kE4M3) {
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)p));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(-0x4080));
    *v = _mm512_maskz_cvtph_ps(__mmask16(0xffff), half);
  } else if constexpr (F == CodeFormat::kE5M2) {
    const __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)p));
    *v = _mm512_maskz_cvtph_ps(__mmask16(0xffff), _mm256_slli_epi16(wide, 8));
#elif WEFT_LANES == 8
  } else if constexpr (F == CodeFormat::kE4M3) {
    const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i*)p));
    const __m128i half = _mm_and_si128(_mm_slli_epi16(wide, 7), _mm_set1_epi16(-0x4080));
    *v = _mm256_cvtph_ps(half);
  } else if constexpr (F == CodeFormat::kE5M2) {
    const __m128i wide = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i*)p));
    *v = _mm256_cvtph_ps(_mm_slli_epi16(wide, 8));
#endif
  } else {
    float values[kLanes];
    for (int c = 0; c < kLanes; ++c) values[c] = t.values[p[c]];
    LoadVector(values, v);
  }
}

/// Scales and zeros of N vectors of columns.
template <int N>
struct Head {
  V scale[N], zero[N];
};
template <bool Z, int N>
WEFT_INLINE void ReadHead(const uint8_t* heads, int64_t head_bytes, Head<N>* head) {
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) {
    const uint8_t* const from = heads + j / kParts * head_bytes;
    const int column = j % kParts * kLanes;
    LoadVector(from + column * 4, &head->scale[j]);
    if (Z) WidenBytes(from + kStripColumns * 4 + column, &head->zero[j]);
  }
}

/// Row u of a group at `p`, zeros subtracted; of vector j.
template <CodeFormat F, bool Z, int N>
WEFT_INLINE void Weights(const Table& t, const Words& words, const uint8_t* p, int u,
                         const Head<N>& head, int j, V* w) {
  Values<F>(t, words, p + u * int(kStripColumns) + j % kParts * kLanes, u, w);
  if (Z) *w -= head.zero[j];
}

/// R rows (the last of t's are read again where it has fewer) of x times S strips.
template <CodeFormat F, bool Z, int R, int S>
WEFT_ISA void Tile(const CompressedTile& t, int64_t done, int64_t strip) {
  constexpr int N = S * kParts, kRows = int(GroupRows(F));
  constexpr bool kScaleSums = R <= 4;
  constexpr int kSums = R == 1 ? 2 : kScaleSums ? R : 1;
  const CompressedMatrix& m = t.matrix;
  const int64_t head_bytes = m.head_bytes(), step = m.panel_strips(strip) * kGroupBytes;
  const int64_t rows = t.rows - done < R ? t.rows - done : R;
  const float* x[R];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) x[i] = t.x + (done + (i < rows ? i : rows - 1)) * t.x_step;
  Table table;
  ReadTable(m.table, &table);
  V total[R][N];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) total[i][j] = V{};
  int64_t k = 0;
  for (int64_t b = 0; b < m.blocks; ++b) {
    Head<N> head;
    ReadHead<Z>(m.panels + m.head(strip, b), head_bytes, &head);
    const uint8_t* p = m.panels + m.codes(strip, b, 0);
    // Of few rows the sums are scaled, of more the weights; one row has two sums of each block, to
    // hide the latency of additions.
    V sum[kSums][N];
    if constexpr (kScaleSums)
#pragma GCC unroll 8
      for (int i = 0; i < kSums; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) sum[i][j] = V{};
    for (int64_t g = 0; g < m.groups; ++g, p += step, k += kRows) {
#pragma GCC unroll 8
      for (int j = 0; j < S; ++j) __builtin_prefetch(p + j * kGroupBytes + kAhead);
      Words words[N];
      if constexpr (HasWords(F))
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j)
          __builtin_memcpy(&words[j], p + j / kParts * kGroupBytes + j % kParts * kLanes * 4,
                           sizeof(Words));
#pragma GCC unroll 16
      for (int u = 0; u < kRows; ++u)
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) {
          V w;
          Weights<F, Z>(table, words[j], p + j / kParts * kGroupBytes, u, head, j, &w);
          if constexpr (R == 1) {
            sum[u % 2][j] += x[0][k + u] * w;
          } else if constexpr (kScaleSums) {
#pragma GCC unroll 8
            for (int i = 0; i < R; ++i) sum[i][j] += x[i][k + u] * w;
          } else {
            w *= head.scale[j];
#pragma GCC unroll 8
            for (int i = 0; i < R; ++i) total[i][j] += x[i][k + u] * w;
          }
        }
    }
    if constexpr (R == 1) {
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) total[0][j] += head.scale[j] * (sum[0][j] + sum[1][j]);
    } else if constexpr (kScaleSums) {
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) total[i][j] += head.scale[j] * sum[i][j];
    }
  }
  for (int64_t i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
      const int64_t column = strip * kStripColumns + j * kLanes, left = t.columns - column;
      const int64_t place = (done + i) * t.y_step + column;
      if (left >= kLanes) {
        V more;
        if (t.row) {
          LoadVector(t.row + column, &more);
          total[i][j] += more;
        }
        if (t.addend) {
          LoadVector(t.addend + place, &more);
          total[i][j] += more;
        }
        StoreVector(t.y + place, &total[i][j]);
        continue;
      }
      for (int64_t c = 0; c < left; ++c) {
        float y = total[i][j][c];
        if (t.row) y += t.row[column + c];
        if (t.addend) y += t.addend[place + c];
        t.y[place + c] = y;
      }
    }
}

/// The strips from `first` on, so many at a time as leave registers for their sums.
template <CodeFormat F, bool Z, int R>
WEFT_INLINE void Strips(const CompressedTile& t, int64_t done, int64_t first, int64_t last) {
  constexpr int S = R <= 4 || kTileStrips == 1 ? kTileStrips : kTileStrips / 2;
  for (; first + S <= last; first += S) Tile<F, Z, R, S>(t, done, first);
  if constexpr (S > 1)
    for (; first < last; ++first) Tile<F, Z, R, 1>(t, done, first);
}

template <CodeFormat F, bool Z>
WEFT_ISA void Rows(const CompressedTile& t) {
  const int64_t strips = t.matrix.strips;
  // Behind the first rows a strip is near.
  const int64_t together = t.rows <= kTileRows ? strips : kTileStrips;
  for (int64_t first = 0; first < strips; first += together) {
    const int64_t last = first + together < strips ? first + together : strips;
    for (int64_t done = 0; done < t.rows; done += kTileRows) {
      const int64_t rows = t.rows - done;
      if (rows == 1)
        Strips<F, Z, 1>(t, done, first, last);
      else if (rows == 2 || kTileRows == 2)
        Strips<F, Z, 2>(t, done, first, last);
      else if (rows <= 4 || kTileRows == 4)
        Strips < F, Z, kTileRows<4 ? kTileRows : 4>(t, done, first, last);
      else
        Strips<F, Z, kTileRows>(t, done, first, last);
    }
  }
}

template <CodeFormat F, bool Z>
WEFT_ISA void WidenGroups(const CompressedMatrix& m, int64_t strip, int64_t first, int64_t last,
                          float* to, int64_t step) {
  constexpr int kRows = int(GroupRows(F));
  Table table;
  ReadTable(m.table, &table);
  const int64_t apart = m.panel_strips(strip) * kGroupBytes;
  while (first < last) {
    const int64_t block = first / m.groups;
    const int64_t end = last < (block + 1) * m.groups ? last : (block + 1) * m.groups;
    Head<kParts> head;
    ReadHead<Z>(m.panels + m.head(strip, block), 0, &head);
    const uint8_t* p = m.panels + m.codes(strip, block, first % m.groups);
    for (; first < end; ++first, p += apart, to += kRows * step)
#pragma GCC unroll 8
      for (int j = 0; j < kParts; ++j) {
        Words words = {};
        if constexpr (HasWords(F)) __builtin_memcpy(&words, p + j * kLanes * 4, sizeof(Words));
#pragma GCC unroll 16
        for (int u = 0; u < kRows; ++u) {
          V w;
          Weights<F, Z>(table, words, p, u, head, j, &w);
          w *= head.scale[j];
          StoreVector(to + u * step + j * kLanes, &w);
        }
      }
  }
}

#define WEFT_OF_FORMAT(CALL)                                           \
  switch (m.format) {                                                  \
    case CodeFormat::kTable2:                                          \
      return m.zeros ? CALL(kTable2, true) : CALL(kTable2, false);     \
    case CodeFormat::kTable4:                                          \
      return m.zeros ? CALL(kTable4, true) : CALL(kTable4, false);     \
    case CodeFormat::kInteger8:                                        \
      return m.zeros ? CALL(kInteger8, true) : CALL(kInteger8, false); \
    case CodeFormat::kTable8:                                          \
      return CALL(kTable8, false);                                     \
    case CodeFormat::kE4M3:                                            \
      return CALL(kE4M3, false);                                       \
    case CodeFormat::kE5M2:                                            \
      return CALL(kE5M2, false);                                       \
  }

WEFT_ISA void Multiply(const CompressedTile& t) {
  const CompressedMatrix& m = t.matrix;
#define WEFT_ROWS(F, Z) Rows<CodeFormat::F, Z>(t)
  WEFT_OF_FORMAT(WEFT_ROWS)
#undef WEFT_ROWS
}

WEFT_ISA void Widen(const CompressedMatrix& m, int64_t strip, int64_t first, int64_t last,
                    float* to, int64_t step) {
#define WEFT_WIDEN(F, Z) WidenGroups<CodeFormat::F, Z>(m, strip, first, last, to, step)
  WEFT_OF_FORMAT(WEFT_WIDEN)
#undef WEFT_WIDEN
}

constexpr CompressedKernel kKernel{WEFT_ISA_TEXT, Multiply, Widen, WEFT_MOST_ROWS};

#undef WEFT_OF_FORMAT
#undef WEFT_INLINE

}  // namespace WEFT_ISA_NAME
