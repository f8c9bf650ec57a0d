/// pool.cc: MaxPool and AveragePool in f32 over one to three spatial axes. Averages by oneDNN
/// on plain layouts, but for those it divides differently: padding that counts where ceil mode
/// adds windows beyond it, and windows in the padding alone. MaxPool with its second output
/// goes window by window.
#include "backends/cpu/onednn/onednn_adapter.h"
#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/half_call.h"
#include "backends/cpu/util/threads.h"
#include "max_pool.h"
#include "plain_pool.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/core/takes_dtype.h"

namespace weft::cpu {
namespace {

/// Checks what both need; sets `done` (null: refused) where there is nothing left to prepare.
std::optional<WindowShape> PoolWindow(const ComputeRequest& q, std::unique_ptr<LibraryCall>* done) {
  const std::vector<int64_t>&x = q.input_dims[0], &y = q.output_dims[0];
  if (q.input_types[0] != DType::kF32 || q.output_types[0] != DType::kF32 || x.size() < 3 ||
      x.size() > 5 || y.size() != x.size())
    return std::nullopt;
  if (CheckedProduct(y) == 0) {
    *done = std::make_unique<ZeroCall>(0);
    return std::nullopt;
  }
  if (CheckedProduct(x) == 0) return std::nullopt;
  return WindowShapeOf(q.node, {x.begin() + 2, x.end()}, IntsAttr(q.node, "kernel_shape"),
                       {y.begin() + 2, y.end()});
}

class MaxPoolCall final : public LibraryCall {
 public:
  MaxPoolCall(WindowShape window, int64_t planes, int threads)
      : window_(std::move(window)), planes_(planes), threads_(threads) {}
  void Run(const void* const* inputs, void* const* outputs, void* scratch) const override {
    MaxPool(static_cast<const float*>(inputs[0]), static_cast<float*>(outputs[0]), planes_, window_,
            scratch, threads_);
  }
  int64_t scratch_bytes() const override { return MaxPoolScratch(window_, threads_); }
  std::string description() const override { return "max pool"; }

 private:
  WindowShape window_;
  int64_t planes_;
  int threads_;
};

class MaxPoolIndicesCall final : public LibraryCall {
 public:
  MaxPoolIndicesCall(WindowShape window, int64_t planes, bool column_major, int threads)
      : window_(std::move(window)),
        planes_(planes),
        column_major_(column_major),
        threads_(threads) {}
  void Run(const void* const* inputs, void* const* outputs, void*) const override {
    MaxPoolIndices(static_cast<const float*>(inputs[0]), static_cast<float*>(outputs[0]),
                   static_cast<int64_t*>(outputs[1]), planes_, window_, column_major_, threads_);
  }
  std::string description() const override { return "max pool with indices"; }

 private:
  WindowShape window_;
  int64_t planes_;
  bool column_major_;
  int threads_;
};

std::unique_ptr<LibraryCall> PrepareMaxPool(const ComputeRequest& q) {
  std::unique_ptr<LibraryCall> done;
  auto w = PoolWindow(q, &done);
  if (!w) return done;
  const int64_t planes = CheckedMul(q.input_dims[0][0], q.input_dims[0][1]);
  if (q.output_dims.size() > 1) {
    if (q.output_types[1] != DType::kI64) return nullptr;
    return std::make_unique<MaxPoolIndicesCall>(
        std::move(*w), planes, IntAttr(q.node, "storage_order", 0) != 0, q.threads);
  }
  return std::make_unique<MaxPoolCall>(std::move(*w), planes, q.threads);
}

WEFT_REGISTER_OP(MaxPool)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareMaxPool))
    .set_attr<FTakesDType>("FTakesDType.cpu", TakesSingle);

class AveragePlainCall final : public LibraryCall {
 public:
  AveragePlainCall(WindowShape window, int64_t planes, std::vector<int64_t> padded, int threads)
      : window_(std::move(window)),
        planes_(planes),
        padded_(std::move(padded)),
        threads_(threads) {}
  void Run(const void* const* inputs, void* const* outputs, void*) const override {
    AveragePlain(static_cast<const float*>(inputs[0]), static_cast<float*>(outputs[0]), planes_,
                 window_, padded_, threads_);
  }
  std::string description() const override { return "average pool"; }

 private:
  WindowShape window_;
  int64_t planes_;
  std::vector<int64_t> padded_;
  int threads_;
};

#ifdef WEFT_HAVE_ONEDNN
std::unique_ptr<LibraryCall> AverageByOneDnn(const ComputeRequest& q, const WindowShape& w,
                                             bool counts) {
  const auto algorithm = counts ? dnnl::algorithm::pooling_avg_include_padding
                                : dnnl::algorithm::pooling_avg_exclude_padding;
  return PrepareCall(q, [&]() -> std::unique_ptr<LibraryCall> {
    const Desc x = Plain(q.input_dims[0]), y = Plain(q.output_dims[0]);
    const auto pd = Describe<PoolingForward>({}, dnnl::prop_kind::forward_inference, algorithm, x,
                                             y, w.strides, w.kernel, Dilates(w), w.begin, w.end);
    if (!pd) return nullptr;
    Recipe r(q.threads);
    r.Add(PoolingForward(pd), {{DNNL_ARG_SRC, r.Input(0, x)}, {DNNL_ARG_DST, r.Output(0, y)}},
          pd.scratchpad_desc());
    return r.Finish(std::string("pool ") + pd.impl_info_str());
  });
}
#endif

std::unique_ptr<LibraryCall> PrepareAveragePool(const ComputeRequest& q) {
  const bool counts = IntAttr(q.node, "count_include_pad", 0) != 0;
  std::unique_ptr<LibraryCall> done;
  auto w = PoolWindow(q, &done);
  if (!w) return done;
#ifdef WEFT_HAVE_ONEDNN
  if (!(w->hangs_over() && counts) && !w->may_miss()) {
    if (auto call = AverageByOneDnn(q, *w, counts)) return call;
  }
#endif
  std::vector<int64_t> padded;
  for (size_t k = 0; counts && k < w->rank(); ++k)
    padded.push_back(w->in[k] + w->end[k] - w->overhang[k]);
  return std::make_unique<AveragePlainCall>(std::move(*w),
                                            CheckedMul(q.input_dims[0][0], q.input_dims[0][1]),
                                            std::move(padded), q.threads);
}

WEFT_REGISTER_OP(AveragePool)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareAveragePool))
    .set_attr<FTakesDType>("FTakesDType.cpu", TakesSingle);

}  // namespace
}  // namespace weft::cpu
