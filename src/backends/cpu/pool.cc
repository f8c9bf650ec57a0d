/// pool.cc: MaxPool and AveragePool in f32 over one to three spatial axes; averages by oneDNN on
/// plain layouts.
///
/// Not taken: MaxPool with its second output (indices in ONNX's numbering), and an average that
/// counts padding where ceil mode adds windows beyond it (oneDNN divides by the whole window
/// there).
#include "backends/cpu/compute_util.h"
#include "backends/cpu/max_pool.h"
#include "backends/cpu/node_attrs.h"
#include "backends/cpu/onednn_adapter.h"
#include "backends/cpu/threads.h"
#include "weft/core/op.h"

namespace weft::cpu {
namespace {

/// Checks what both need; sets `done` (null: refused) where there is nothing left to prepare.
std::optional<WindowShape> PoolWindow(const ComputeRequest& q, bool* grown,
                                      std::unique_ptr<LibraryCall>* done) {
  const std::vector<int64_t>&x = q.input_dims[0], &y = q.output_dims[0];
  if (!AllF32(q) || q.output_dims.size() != 1 || x.size() < 3 || x.size() > 5 ||
      y.size() != x.size())
    return std::nullopt;
  if (CheckedProduct(y) == 0) {
    *done = std::make_unique<ZeroCall>(0);
    return std::nullopt;
  }
  if (CheckedProduct(x) == 0) return std::nullopt;
  return MakeWindow(q.node, {x.begin() + 2, x.end()}, IntsAttr(q.node, "kernel_shape"),
                    {y.begin() + 2, y.end()}, grown);
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

std::unique_ptr<LibraryCall> PrepareMaxPool(const ComputeRequest& q) {
  std::unique_ptr<LibraryCall> done;
  auto w = PoolWindow(q, nullptr, &done);
  if (!w) return done;
  return std::make_unique<MaxPoolCall>(
      std::move(*w), CheckedMul(q.input_dims[0][0], q.input_dims[0][1]), q.threads);
}

WEFT_REGISTER_OP(MaxPool).set_attr<FCompute>("FCompute.cpu", PrepareMaxPool);

#ifdef WEFT_HAVE_ONEDNN
std::unique_ptr<LibraryCall> PrepareAveragePool(const ComputeRequest& q) {
  const bool counts = IntAttr(q.node, "count_include_pad", 0) != 0;
  const auto algorithm = counts ? dnnl::algorithm::pooling_avg_include_padding
                                : dnnl::algorithm::pooling_avg_exclude_padding;
  std::unique_ptr<LibraryCall> done;
  bool grown = false;
  const auto w = PoolWindow(q, &grown, &done);
  if (!w) return done;
  if ((grown && counts) || w->may_miss()) return nullptr;
  return Prepare(q, [&]() -> std::unique_ptr<LibraryCall> {
    const Desc x = Plain(q.input_dims[0]), y = Plain(q.output_dims[0]);
    const auto pd =
        Describe<PoolingForward>({}, dnnl::prop_kind::forward_inference, algorithm, x, y,
                                 w->strides, w->kernel, Dilates(*w), w->begin, w->end);
    if (!pd) return nullptr;
    Recipe r(q.threads);
    r.Add(PoolingForward(pd), {{DNNL_ARG_SRC, r.Input(0, x)}, {DNNL_ARG_DST, r.Output(0, y)}},
          pd.scratchpad_desc());
    return r.Finish(std::string("pool ") + pd.impl_info_str());
  });
}

WEFT_REGISTER_OP(AveragePool).set_attr<FCompute>("FCompute.cpu", PrepareAveragePool);
#endif

}  // namespace
}  // namespace weft::cpu
