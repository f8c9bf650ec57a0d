/// strided_copy_loops.h: the loops of strided copies for one instruction set, included once for
/// each (strided_copy.cc). No guard: WEFT_ISA_NAME names the set, WEFT_ISA is the attribute of its
/// functions, WEFT_ISA_BYTES the length of its vectors.
///
/// A box is a number of planes, and a plane is one of
///
///   rows         both sides run along the last axis: memory copies, of known lengths where short
///   repetitions  the source stands still along the last axis; a few of each element by vectors
///   tiles        the source runs along another axis: blocks of vectors that are transposed in
///                registers, a cache line of the source at a time
///   steps        anything else, element by element

namespace WEFT_ISA_NAME {

// ---- rows ----

/// kHalf <= bytes <= 2 kHalf: both ends, which may overlap.
template <int64_t kHalf>
WEFT_ISA inline void CopyEnds(const Bytes* from, int64_t from_step, Bytes* to, int64_t to_step,
                              int64_t bytes, int64_t rows) {
  struct Part {
    Bytes bytes[kHalf];
  };
  for (int64_t i = 0; i < rows; ++i, from += from_step, to += to_step) {
    Part first, last;
    std::memcpy(&first, from, kHalf);
    std::memcpy(&last, from + bytes - kHalf, kHalf);
    std::memcpy(to, &first, kHalf);
    std::memcpy(to + bytes - kHalf, &last, kHalf);
  }
}

/// Steps in bytes.
WEFT_ISA inline void CopyRows(const Bytes* from, int64_t from_step, Bytes* to, int64_t to_step,
                              int64_t bytes, int64_t rows) {
  if (bytes > kShortRow || rows == 1) {
    for (int64_t i = 0; i < rows; ++i)
      std::memcpy(to + i * to_step, from + i * from_step, size_t(bytes));
  } else if (bytes >= 64) {
    CopyEnds<64>(from, from_step, to, to_step, bytes, rows);
  } else if (bytes >= 32) {
    CopyEnds<32>(from, from_step, to, to_step, bytes, rows);
  } else if (bytes >= 16) {
    CopyEnds<16>(from, from_step, to, to_step, bytes, rows);
  } else if (bytes >= 8) {
    CopyEnds<8>(from, from_step, to, to_step, bytes, rows);
  } else if (bytes >= 4) {
    CopyEnds<4>(from, from_step, to, to_step, bytes, rows);
  } else if (bytes >= 2) {
    CopyEnds<2>(from, from_step, to, to_step, bytes, rows);
  } else {
    for (int64_t i = 0; i < rows; ++i) to[i * to_step] = from[i * from_step];
  }
}

// ---- repetitions ----

/// Not std::fill_n: elements of more than a byte one by one.
template <class T>
WEFT_ISA inline void FillRow(T value, T* to, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = value;
}
template <int kTimes, class T>
WEFT_ISA inline __attribute__((always_inline)) void RepeatSome(const T* __restrict from,
                                                               T* __restrict to, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
#pragma GCC unroll 4
    for (int k = 0; k < kTimes; ++k) to[i * kTimes + k] = from[i];
}
/// Rows of `count` elements, each element kTimes times, each row to some of the result: an image
/// that grows, of which a row may be a few vectors.
template <int kTimes, class T>
WEFT_ISA inline void RepeatDense(const T* from, T* to, const CopyDim& rows, const CopyDim& again,
                                 int64_t count) {
  constexpr auto kSome = WEFT_ISA_BYTES / int64_t(sizeof(T));
  for (int64_t r = 0; r < rows.extent; ++r, from += rows.from_step, to += rows.to_step) {
    for (int64_t k = 0; k < again.extent; ++k) {
      T* const target = to + k * again.to_step;
      if (count < kSome) {
        RepeatSome<kTimes>(from, target, count);
        continue;
      }
      // The last vector lies over the one before it: nothing is left for single steps.
      for (int64_t i = 0; i + kSome < count; i += kSome)
        RepeatSome<kTimes>(from + i, target + i * kTimes, kSome);
      RepeatSome<kTimes>(from + count - kSome, target + (count - kSome) * kTimes, kSome);
    }
  }
}
/// Whether `inner` repeats each element a few times, one behind the other, and those of `row`
/// lie together: what RepeatDense does.
inline bool IsDenseRepeat(const CopyDim& row, const CopyDim& inner) {
  return inner.from_step == 0 && inner.to_step == 1 && row.from_step == 1 &&
         row.to_step == inner.extent && inner.extent >= 2 && inner.extent <= 4;
}
template <class T>
WEFT_ISA inline void RepeatRows(const T* from, T* to, const CopyDim& rows, const CopyDim& again,
                                int64_t count, int64_t times) {
  if (times == 2) return RepeatDense<2>(from, to, rows, again, count);
  if (times == 3) return RepeatDense<3>(from, to, rows, again, count);
  RepeatDense<4>(from, to, rows, again, count);
}

// ---- tiles ----

/// a[kFirst], b[kFirst], a[kFirst + 1], ..
template <size_t kFirst, class Vector, size_t... kAt>
WEFT_ISA inline __attribute__((always_inline)) Vector Interleave(Vector a, Vector b,
                                                                 std::index_sequence<kAt...>) {
  return __builtin_shufflevector(a, b, (kFirst + kAt / 2 + kAt % 2 * sizeof...(kAt))...);
}

template <class T>
using TileRow = typename VectorOf<T, WEFT_ISA_BYTES>::Type;
/// Elements of one.
template <class T>
constexpr int64_t kTileSize = int64_t(sizeof(TileRow<T>) / sizeof(T));

/// kSize x kSize elements, a vector a row: to[j * to_step + i] = from[i * from_step + j].
template <class T>
WEFT_ISA inline __attribute__((always_inline)) void MoveTile(const T* from, int64_t from_step,
                                                             T* to, int64_t to_step) {
  using Vector = TileRow<T>;
  constexpr int64_t kSize = kTileSize<T>;
  constexpr std::make_index_sequence<size_t(kSize)> kAll;
  Vector rows[kSize], next[kSize];
  // Unrolled, all of it stays in registers.
#pragma GCC unroll 16
  for (int64_t i = 0; i < kSize; ++i) std::memcpy(&rows[i], from + i * from_step, sizeof(Vector));
#pragma GCC unroll 4
  for (int64_t step = 1; step < kSize; step *= 2) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kSize / 2; ++i) {
      next[2 * i] = Interleave<0>(rows[i], rows[i + kSize / 2], kAll);
      next[2 * i + 1] = Interleave<kSize / 2>(rows[i], rows[i + kSize / 2], kAll);
    }
#pragma GCC unroll 16
    for (int64_t i = 0; i < kSize; ++i) rows[i] = next[i];
  }
#pragma GCC unroll 16
  for (int64_t j = 0; j < kSize; ++j) std::memcpy(to + j * to_step, &rows[j], sizeof(Vector));
}

/// to[j * to_step + i] = from[i * from_step + j] for i < rows, j < columns.
template <class T>
WEFT_ISA inline __attribute__((always_inline)) void TransposeTiles(const T* from, int64_t from_step,
                                                                   T* to, int64_t to_step,
                                                                   int64_t rows, int64_t columns) {
  constexpr int64_t kTile = kTileSize<T>, kColumns = kLine / int64_t(sizeof(T));
  for (int64_t j0 = 0; j0 < columns; j0 += kColumns) {
    const int64_t j_end = std::min(columns, j0 + kColumns);
    // The last tile of either side lies over the one before it.
    for (int64_t i = 0; i < rows; i += kTile) {
      const int64_t i_at = std::min(i, rows - kTile);
      for (int64_t j = j0; j < j_end; j += kTile) {
        const int64_t j_at = std::min(j, columns - kTile);
        MoveTile(from + i_at * from_step + j_at, from_step, to + j_at * to_step + i_at, to_step);
      }
    }
  }
}
template <class T>
WEFT_ISA inline void TransposePlane(const T* from, int64_t from_step, T* to, int64_t to_step,
                                    int64_t rows, int64_t columns) {
  constexpr int64_t kTile = kTileSize<T>;
  if (rows < kTile || columns < kTile) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) to[j * to_step + i] = from[i * from_step + j];
    return;
  }
  TransposeTiles(from, from_step, to, to_step, rows, columns);
}
/// Four bytes have tiles for what is left at the edges.
WEFT_ISA inline void TransposePlane(const uint32_t* from, int64_t from_step, uint32_t* to,
                                    int64_t to_step, int64_t rows, int64_t columns) {
  TransposeMatrix(reinterpret_cast<const float*>(from), from_step, reinterpret_cast<float*>(to),
                  to_step, rows, columns);
}

/// `columns` rows of the source, side by side: a few channels.
template <int kRows, class T>
WEFT_ISA inline void InterleaveRows(const T* __restrict from, int64_t from_step, T* __restrict to,
                                    int64_t columns) {
#pragma omp simd
  for (int64_t j = 0; j < columns; ++j)
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) to[j * kRows + i] = from[i * from_step + j];
}
// ---- planes ----

/// Two axes: n of the outer, m of the inner one.
template <class T>
WEFT_ISA inline void CopyPlane(const T* from, T* to, const CopyDim& outer, const CopyDim& inner) {
  constexpr auto kBytes = int64_t(sizeof(T));
  const int64_t n = outer.extent, m = inner.extent;
  if (inner.to_step == 1 && inner.from_step == 1)
    return CopyRows(reinterpret_cast<const Bytes*>(from), outer.from_step * kBytes,
                    reinterpret_cast<Bytes*>(to), outer.to_step * kBytes, m * kBytes, n);
  if (inner.to_step == 1 && inner.from_step == 0) {
    for (int64_t i = 0; i < n; ++i) FillRow(from[i * outer.from_step], to + i * outer.to_step, m);
    return;
  }
  if (inner.to_step == 1 && outer.from_step == 1 && inner.from_step > 0) {
    if (outer.to_step == m && m == 2) return InterleaveRows<2>(from, inner.from_step, to, n);
    if (outer.to_step == m && m == 3) return InterleaveRows<3>(from, inner.from_step, to, n);
    return TransposePlane(from, inner.from_step, to, outer.to_step, m, n);
  }
  // The longer one inside.
  const CopyDim& rows = m < kFewRows && n > m ? inner : outer;
  const CopyDim& steps = m < kFewRows && n > m ? outer : inner;
  for (int64_t i = 0; i < rows.extent; ++i) {
    const T* source = from + i * rows.from_step;
    T* target = to + i * rows.to_step;
    for (int64_t j = 0; j < steps.extent; ++j)
      target[j * steps.to_step] = source[j * steps.from_step];
  }
}

/// The axes but those of a plane, counted up.
class Odometer {
 public:
  Odometer(const CopyDim* dims, int count) : dims_(dims), count_(count) {}
  /// To the next point; false behind the last one.
  template <class T>
  WEFT_ISA bool Next(const T** from, T** to) {
    for (int k = count_ - 1; k >= 0; --k) {
      *from += dims_[k].from_step;
      *to += dims_[k].to_step;
      if (++at_[k] < dims_[k].extent) return true;
      *from -= dims_[k].from_step * dims_[k].extent;
      *to -= dims_[k].to_step * dims_[k].extent;
      at_[k] = 0;
    }
    return false;
  }

 private:
  const CopyDim* dims_;
  const int count_;
  int64_t at_[kMaxCopyDims] = {};
};

template <class T>
WEFT_ISA inline void Copy(const T* from, T* to, const CopyDim* dims, int rank) {
  constexpr CopyDim kOne{1, 0, 0};
  if (rank == 0) {
    *to = *from;
    return;
  }
  if (rank == 1) return CopyPlane(from, to, kOne, dims[0]);
  if (IsDenseRepeat(dims[rank - 2], dims[rank - 1])) {
    // The axis before them, and one along which the source stands still.
    int first = rank - 2;
    const CopyDim& again = first > 0 && dims[first - 1].from_step == 0 ? dims[--first] : kOne;
    const CopyDim& rows = first > 0 ? dims[--first] : kOne;
    Odometer planes(dims, first);
    do {
      RepeatRows(from, to, rows, again, dims[rank - 2].extent, dims[rank - 1].extent);
    } while (planes.Next(&from, &to));
    return;
  }
  if (rank == 2) return CopyPlane(from, to, dims[0], dims[1]);
  // The plane that tiles can be made of has the axis that the source runs along; one of short rows
  // has many of them.
  CopyDim others[kMaxCopyDims];
  int plane = rank - 2;
  if (dims[rank - 2].extent < kFewRows && dims[rank - 3].extent > dims[rank - 2].extent)
    plane = rank - 3;
  if (dims[rank - 1].from_step != 1 && dims[rank - 1].from_step != 0)
    for (int k = 0; k < rank - 1; ++k)
      if (dims[k].from_step == 1) plane = k;
  int count = 0;
  for (int k = 0; k < rank - 1; ++k)
    if (k != plane) others[count++] = dims[k];
  Odometer planes(others, count);
  do {
    CopyPlane(from, to, dims[plane], dims[rank - 1]);
  } while (planes.Next(&from, &to));
}

template <class T>
WEFT_ISA inline void Fill(T value, T* to, const CopyDim* dims, int rank) {
  if (rank == 0) {
    *to = value;
    return;
  }
  const CopyDim& inner = dims[rank - 1];
  const T* from = to;
  Odometer rows(dims, rank - 1);
  do {
    if (inner.to_step == 1) {
      FillRow(value, to, inner.extent);
    } else {
      for (int64_t j = 0; j < inner.extent; ++j) to[j * inner.to_step] = value;
    }
  } while (rows.Next(&from, &to));
}

}  // namespace WEFT_ISA_NAME
