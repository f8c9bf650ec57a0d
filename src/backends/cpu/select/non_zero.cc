/// non_zero.cc: NonZero in two passes: a bit an element, and places of the bits that are set.
#include <algorithm>

#include "backends/cpu/util/threads.h"
#include "bit_masks.h"
#include "weft/core/op/op.h"
#include "weft/runtime/backend/sized_compute.h"
#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

/// The places of the bits of a piece: of axis d at y + d * count, from `before` on.
class PlaceWriter {
 public:
  PlaceWriter(const std::vector<int64_t>& dims, int64_t count, int64_t* y)
      : dims_(dims), count_(count), y_(y), at_(dims.size(), 0) {}

  void Write(const uint64_t* masks, const MaskPiece& piece) {
    k_ = piece.before, end_ = piece.before + piece.count;
    const int64_t first = piece.first * kMaskBits;
    if (dims_.size() == 1) {
      for (int64_t w = piece.first; w < piece.last; ++w) Row(masks[w], w * kMaskBits);
      return;
    }
    const int64_t row = dims_.back();
    MoveTo(first / row);
    int64_t begin = first / row * row;  // of the row
    for (int64_t w = piece.first; w < piece.last; ++w) {
      const int64_t base = w * kMaskBits;
      // A word may hold the end of a row, whole rows, and the begin of one.
      for (uint64_t bits = masks[w]; bits;) {
        const int64_t place = base + __builtin_ctzll(bits);
        if (place >= begin + row) {
          const int64_t rows = (place - begin) / row;
          Step(rows);
          begin += rows * row;
        }
        const int64_t left = begin + row - base;
        const uint64_t here = left >= kMaskBits ? bits : bits & ((uint64_t{1} << left) - 1);
        Row(here, base - begin);
        bits &= ~here;
      }
    }
  }

 private:
  void Row(uint64_t bits, int64_t base) {
    if (!bits) return;
    const int64_t count = __builtin_popcountll(bits);
    const size_t last = dims_.size() - 1;
    for (size_t d = 0; d < last; ++d) {
      int64_t* const to = y_ + int64_t(d) * count_ + k_;
      for (int64_t i = 0; i < count; ++i) to[i] = at_[d];
    }
    PlacesOfBits(bits, base, end_ - k_, y_ + int64_t(last) * count_ + k_);
    k_ += count;
  }
  /// To the row of that number.
  void MoveTo(int64_t row) {
    for (size_t d = dims_.size() - 1; d-- > 0; row /= dims_[d]) at_[d] = row % dims_[d];
  }
  /// Some rows on.
  void Step(int64_t rows) {
    for (size_t d = dims_.size() - 1; d-- > 0 && rows > 0;) {
      at_[d] += rows;
      if (at_[d] < dims_[d]) return;
      rows = at_[d] / dims_[d];
      at_[d] %= dims_[d];
    }
  }

  const std::vector<int64_t>& dims_;
  int64_t count_;
  int64_t* y_;
  std::vector<int64_t> at_;  ///< the row
  int64_t k_ = 0, end_ = 0;
};

bool RunNonZero(const NodePtr&, const std::vector<TensorPtr>& in, int threads,
                SizedResults* results) {
  const Tensor& x = *in[0];
  if (!CanMask(x.dtype())) return false;
  const int64_t n = x.num_elements();
  auto* masks =
      static_cast<uint64_t*>(results->Scratch(CheckedMul(MaskWords(n), int64_t{sizeof(uint64_t)})));
  const std::vector<MaskPiece> pieces = MaskInPieces(x.dtype(), x.data(), n, threads, masks);
  const int64_t count = pieces.back().before + pieces.back().count;
  auto* y = static_cast<int64_t*>(results->Place(0, DType::kI64, {x.rank(), count}));
  if (count == 0 || x.rank() == 0) return true;
  const auto write = [&](size_t p) { PlaceWriter(x.dims(), count, y).Write(masks, pieces[p]); };
  if (pieces.size() == 1) {
    write(0);
    return true;
  }
  const ScopedThreads scoped(threads);
#pragma omp parallel for schedule(dynamic)
  for (size_t p = 0; p < pieces.size(); ++p) write(p);
  return true;
}

WEFT_REGISTER_OP(NonZero).set_attr<FSizedCompute>("FSizedCompute.cpu", RunNonZero);

}  // namespace
}  // namespace weft::cpu
