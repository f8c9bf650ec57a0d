/// reorder.cc: weft::Reorder in f32: a transposition of channels and positions, image by image, or a copy.
#include <cstring>

#include "backends/cpu/compute_util.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/transpose.h"
#include "weft/core/op.h"

namespace weft::cpu {
namespace {

class ReorderCall final : public LibraryCall {
 public:
  /// [batch, rows, columns] to [batch, columns, rows].
  ReorderCall(int64_t batch, int64_t rows, int64_t columns, int threads)
      : batch_(batch), rows_(rows), columns_(columns), threads_(threads) {}
  void Run(const void* const* inputs, void* const* outputs, void*) const override {
    if (rows_ == 1 || columns_ == 1) {
      std::memcpy(outputs[0], inputs[0], size_t(batch_ * rows_ * columns_) * sizeof(float));
      return;
    }
    const ScopedThreads threads(threads_);
    TransposeMatrices(static_cast<const float*>(inputs[0]), static_cast<float*>(outputs[0]), batch_,
                      rows_, columns_);
  }
  std::string description() const override { return "reorder"; }

 private:
  int64_t batch_, rows_, columns_;
  int threads_;
};

std::unique_ptr<LibraryCall> PrepareReorder(const ComputeRequest& q) {
  if (!AllF32(q)) return nullptr;
  const std::vector<int64_t>& dims = q.output_dims[0];
  const int64_t elements = CheckedProduct(dims);
  if (elements == 0) return std::make_unique<ZeroCall>(0);
  const Layout from = q.input_layouts.empty() ? Layout::kPlain : q.input_layouts[0],
               to = q.output_layouts.empty() ? Layout::kPlain : q.output_layouts[0];
  if (from == to) return std::make_unique<ReorderCall>(1, 1, elements, 1);
  const int64_t channels = dims[1], spatial = elements / (dims[0] * channels);
  return from == Layout::kPlain
             ? std::make_unique<ReorderCall>(dims[0], channels, spatial, q.threads)
             : std::make_unique<ReorderCall>(dims[0], spatial, channels, q.threads);
}

WEFT_REGISTER_OP_IN(weft, Reorder).set_attr<FCompute>("FCompute.cpu", PrepareReorder);

}  // namespace
}  // namespace weft::cpu
