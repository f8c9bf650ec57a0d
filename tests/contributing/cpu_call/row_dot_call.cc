/// row_dot_call.cc: weft::RowDot in f32, one row after the other.
#include "backends/cpu/util/compute_util.h"
#include "weft/core/op/op.h"

namespace weft::cpu {
namespace {

class RowDotCall final : public LibraryCall {
 public:
  RowDotCall(int64_t rows, int64_t length) : rows_(rows), length_(length) {}
  std::string description() const override { return "row dot"; }
  void Run(const void* const* in, void* const* out, void*) const override {
    const float *a = static_cast<const float*>(in[0]), *b = static_cast<const float*>(in[1]);
    float* y = static_cast<float*>(out[0]);
    for (int64_t i = 0; i < rows_; ++i, a += length_, b += length_) {
      float sum = 0;
      for (int64_t j = 0; j < length_; ++j) sum += a[j] * b[j];
      y[i] = sum;
    }
  }

 private:
  int64_t rows_, length_;
};

std::unique_ptr<LibraryCall> PrepareRowDot(const ComputeRequest& q) {
  if (!AllF32(q)) return nullptr;
  return std::make_unique<RowDotCall>(q.input_dims[0][0], q.input_dims[0][1]);
}

WEFT_REGISTER_OP_IN(weft, RowDot).set_attr<FCompute>("FCompute.cpu", PrepareRowDot);

}  // namespace
}  // namespace weft::cpu
