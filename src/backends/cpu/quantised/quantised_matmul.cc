/// quantised_matmul.cc: weft::QuantizedMatMul on the CPU. Constant right sides are packed once,
/// others in each run.
#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/threads.h"
#include "byte_rows.h"
#include "weft/core/op/op.h"
#include "weft/core/op/product_shape.h"
#include "weft/runtime/backend/packing_call.h"

namespace weft::cpu {
namespace {

class QuantisedMatMul final : public PackingCall {
 public:
  QuantisedMatMul(const ComputeRequest& q, ProductShape p, QuantisedFinish finish)
      : p_(std::move(p)), finish_(finish), threads_(q.threads) {
    const size_t batch = p_.y.size() - 2;
    m_.columns = p_.y[batch + 1];
    m_.run_length = p_.a[batch + 1];
    m_.column_step = p_.b_steps[batch + 1];
    m_.inner_step = p_.b_steps[batch];
    m_.inner = m_.run_length;
    for (size_t i = 0; i < batch; ++i) batches_ = CheckedMul(batches_, p_.y[i]);
    one_right_ = true;
    for (size_t i = 0; i < batch; ++i) one_right_ = one_right_ && p_.b[i] == 1;
    if (one_right_ && q.constants[kQW]) packed_ = PackedBytesOf(q.constants[kQW], m_, 1, 0);
    rows_ = p_.a[batch];
    // A last quad would read behind the operand: rows of our own.
    stage_ = m_.run_length % kQuad != 0;
    step_ = stage_ ? CheckedRoundUp(m_.run_length, kQuad) : p_.a_steps[batch];
    finish_at_ = parts_.Add(QuantisedFinish::bytes(1, m_.columns));
    if (stage_) rows_at_ = parts_.Add(CheckedMul(rows_, step_));
    if (finish_.has_w_zero) sums_at_ = parts_.Add(CheckedMul(rows_, int64_t{4}));
    if (!packed_) packed_at_ = parts_.Add(PackedSize(m_, 1));
  }
  static bool Fits(const ProductShape& p) { return p.a_steps.back() == 1; }

  void Run(const void* const* inputs, void* const* outputs, void* scratch) const override {
    const ScopedThreads team(threads_);
    auto* const memory = static_cast<uint8_t*>(scratch);
    const size_t batch = p_.y.size() - 2;
    const int8_t* panels = packed_ ? packed_->panels : nullptr;
    const int32_t* sums = packed_ ? packed_->sums : nullptr;
    ByteFinish finish;
    int64_t right = -1;
    for (int64_t i = 0; i < batches_; ++i) {
      int64_t a = 0, b = 0;
      for (size_t k = batch, left = size_t(i); k-- > 0; left /= size_t(p_.y[k])) {
        const auto at = int64_t(left % size_t(p_.y[k]));
        if (p_.a[k] != 1) a += at * p_.a_steps[k];
        if (p_.b[k] != 1) b += at * p_.b_steps[k];
      }
      if (b != right) {
        if (!packed_) {
          auto* const to = reinterpret_cast<int8_t*>(memory + packed_at_);
          auto* const to_sums = reinterpret_cast<int32_t*>(to + m_.panel_bytes());
          PackBytes(m_, static_cast<const uint8_t*>(inputs[kQW]) + b, finish_.w_signed, to,
                    to_sums);
          panels = to;
          sums = to_sums;
        }
        finish = finish_.Make(inputs, 1, sums, m_.run_length, memory + finish_at_);
        right = b;
      }
      Multiply(static_cast<const uint8_t*>(inputs[kQX]) + a, panels, finish,
               static_cast<uint8_t*>(outputs[0]) + i * rows_ * m_.columns * finish_.result_bytes(),
               memory);
    }
  }
  int64_t scratch_bytes() const override { return parts_.bytes(); }
  std::string description() const override {
    return std::string("quantised matmul ") + BestByteKernel().name;
  }
  bool reads(size_t i) const override { return i != kQW || !packed_; }
  void AddPacked(std::map<const void*, int64_t>* bytes) const override {
    if (packed_) (*bytes)[packed_->memory.get()] = packed_->bytes;
  }

 private:
  void Multiply(const uint8_t* x, const int8_t* panels, const ByteFinish& finish, uint8_t* y,
                uint8_t* memory) const {
    static constexpr int64_t kFirst = 0;
    if (stage_) {
      uint8_t* const rows = memory + rows_at_;
      const int64_t from_step = p_.a_steps[p_.y.size() - 2];
#pragma omp parallel for schedule(static) if (rows_ * step_ > 65536)
      for (int64_t i = 0; i < rows_; ++i)
        if (finish_.x_signed)
          FlipBytes(x + i * from_step, rows + i * step_, m_.run_length);
        else
          std::copy_n(x + i * from_step, m_.run_length, rows + i * step_);
      x = rows;
    }
    ByteProduct p;
    p.x.base = x;
    p.x.rows = p.x.columns = rows_;
    p.x.column_step = step_;
    p.w = m_;
    p.runs = &kFirst;
    p.flips = finish_.x_signed && !stage_;
    p.panels = panels;
    p.finish = finish;
    if (finish.zeros) {
      auto* const sums = reinterpret_cast<int32_t*>(memory + sums_at_);
      SumByteRows(p, threads_, sums);
      p.row_sums = sums;
    }
    p.y = y;
    p.y_step = m_.columns * finish_.result_bytes();
    MultiplyBytes(p, threads_);
  }

  ProductShape p_;
  QuantisedFinish finish_;
  ByteMatrix m_;
  int threads_;
  int64_t batches_ = 1, rows_ = 0, step_ = 0;
  bool one_right_ = false, stage_ = false;
  std::shared_ptr<const PackedBytes> packed_;  ///< null: packed in each run
  ScratchParts parts_;
  int64_t finish_at_ = 0, rows_at_ = 0, sums_at_ = 0, packed_at_ = 0;
};

std::unique_ptr<LibraryCall> PrepareMatMul(const ComputeRequest& q) {
  if (q.input_dims.size() < 2 || q.input_dims[kQW].empty()) return nullptr;
  if (CheckedProduct(q.output_dims[0]) == 0 || CheckedProduct(q.input_dims[kQX]) == 0)
    return nullptr;
  const auto p = CollapseProduct(q.input_dims[kQX], q.input_dims[kQW]);
  if (!p || !QuantisedMatMul::Fits(*p)) return nullptr;
  const auto finish = ReadFinish(q, p->y.back());
  if (!finish) return nullptr;
  const ScopedThreads team(q.threads);
  return std::make_unique<QuantisedMatMul>(q, *p, *finish);
}

WEFT_REGISTER_OP_IN(weft, QuantizedMatMul).set_attr<FCompute>("FCompute.cpu", PrepareMatMul);

}  // namespace
}  // namespace weft::cpu
