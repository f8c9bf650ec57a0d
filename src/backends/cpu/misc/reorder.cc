/// reorder.cc: weft::Reorder: a transposition of channels and positions, image by image, or a copy.
#include <cstring>

#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/threads.h"
#include "backends/cpu/util/transpose.h"
#include "weft/core/op/op.h"

namespace weft::cpu {
namespace {

constexpr int64_t kTile = 32;
/// Below this many bytes the team is not worth waking.
constexpr int64_t kTeamBytes = 64 << 10;

template <class T>
void TransposeTiles(const T* src, T* dst, int64_t batch, int64_t rows, int64_t columns) {
  const int64_t strips = (columns + kTile - 1) / kTile, size = rows * columns;
#pragma omp parallel for schedule(static) if (batch * size * int64_t(sizeof(T)) > kTeamBytes)
  for (int64_t s = 0; s < batch * strips; ++s) {
    const T* from = src + s / strips * size;
    T* to = dst + s / strips * size;
    const int64_t j0 = s % strips * kTile, j1 = std::min(j0 + kTile, columns);
    for (int64_t i0 = 0; i0 < rows; i0 += kTile)
      for (int64_t j = j0; j < j1; ++j)
        for (int64_t i = i0; i < std::min(i0 + kTile, rows); ++i)
          to[j * rows + i] = from[i * columns + j];
  }
}

class ReorderCall final : public LibraryCall {
 public:
  /// [batch, rows, columns] to [batch, columns, rows], of elements of `width` bytes.
  ReorderCall(int width, int64_t batch, int64_t rows, int64_t columns, int threads)
      : width_(width), batch_(batch), rows_(rows), columns_(columns), threads_(threads) {}

  void Run(const void* const* inputs, void* const* outputs, void*) const override {
    if (rows_ == 1 || columns_ == 1) {
      std::memcpy(outputs[0], inputs[0], size_t(batch_ * rows_ * columns_ * width_));
      return;
    }
    const ScopedThreads threads(threads_);
    switch (width_) {
      case 1:
        return Transpose<uint8_t>(inputs[0], outputs[0]);
      case 2:
        return Transpose<uint16_t>(inputs[0], outputs[0]);
      case 4:
        return TransposeMatrices(static_cast<const float*>(inputs[0]),
                                 static_cast<float*>(outputs[0]), batch_, rows_, columns_);
      default:
        return Transpose<uint64_t>(inputs[0], outputs[0]);
    }
  }
  std::string description() const override { return "reorder"; }

 private:
  template <class T>
  void Transpose(const void* from, void* to) const {
    TransposeTiles(static_cast<const T*>(from), static_cast<T*>(to), batch_, rows_, columns_);
  }

  int width_;
  int64_t batch_, rows_, columns_;
  int threads_;
};

std::unique_ptr<LibraryCall> PrepareReorder(const ComputeRequest& q) {
  const std::vector<int64_t>& dims = q.output_dims[0];
  const int64_t elements = CheckedProduct(dims);
  const int bits = DTypeBits(q.output_types[0]);
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) return nullptr;
  if (elements == 0) return std::make_unique<ZeroCall>(0);
  const Layout from = q.input_layouts.empty() ? Layout::kPlain : q.input_layouts[0],
               to = q.output_layouts.empty() ? Layout::kPlain : q.output_layouts[0];
  const auto call = [&](int64_t batch, int64_t rows, int64_t columns) {
    return std::make_unique<ReorderCall>(bits / 8, batch, rows, columns, q.threads);
  };
  if (from == to || dims.size() < 3) return call(1, 1, elements);
  const int64_t channels = dims[1], spatial = elements / (dims[0] * channels);
  return from == Layout::kPlain ? call(dims[0], channels, spatial)
                                : call(dims[0], spatial, channels);
}

WEFT_REGISTER_OP_IN(weft, Reorder).set_attr<FCompute>("FCompute.cpu", PrepareReorder);

}  // namespace
}  // namespace weft::cpu
