/// pool.cc: MaxPool and AveragePool in f32 over one to three spatial axes, by oneDNN, on plain layouts.
///
/// Not taken: MaxPool with its second output (indices in ONNX's numbering), and an average that counts padding where
/// ceil mode adds windows beyond it (oneDNN divides by the whole window there).
#ifdef WEFT_HAVE_ONEDNN

#include "backends/cpu/compute_util.h"
#include "backends/cpu/node_attrs.h"
#include "backends/cpu/onednn_adapter.h"
#include "weft/core/op.h"

namespace weft::cpu {
namespace {

std::unique_ptr<LibraryCall> PreparePool(const ComputeRequest& q, dnnl::algorithm algorithm, bool counts_padding) {
  const std::vector<int64_t>&x = q.input_dims[0], &y = q.output_dims[0];
  if (!AllF32(q) || q.output_dims.size() != 1 || x.size() < 3 || x.size() > 5 || y.size() != x.size()) return nullptr;
  if (CheckedProduct(y) == 0) return std::make_unique<ZeroCall>(0);
  if (CheckedProduct(x) == 0) return nullptr;
  bool grown = false;
  const auto w = MakeWindow(q.node, {x.begin() + 2, x.end()}, IntsAttr(q.node, "kernel_shape"), {y.begin() + 2, y.end()}, &grown);
  if (!w || (grown && counts_padding)) return nullptr;
  Dims dilates = w->dilations;
  for (int64_t& d : dilates) --d;
  return Prepare(q, [&]() -> std::unique_ptr<LibraryCall> {
    const auto pd = Describe<PoolingForward>({}, dnnl::prop_kind::forward_inference, algorithm, Plain(x), Plain(y), w->strides,
                                             w->kernel, dilates, w->begin, w->end);
    if (!pd) return nullptr;
    Recipe r(q.threads);
    r.Add(PoolingForward(pd), {{DNNL_ARG_SRC, r.Input(0, Plain(x))}, {DNNL_ARG_DST, r.Output(0, Plain(y))}}, pd.scratchpad_desc());
    return r.Finish(std::string("pool ") + pd.impl_info_str());
  });
}

std::unique_ptr<LibraryCall> PrepareMaxPool(const ComputeRequest& q) {
  return PreparePool(q, dnnl::algorithm::pooling_max, false);
}
std::unique_ptr<LibraryCall> PrepareAveragePool(const ComputeRequest& q) {
  const bool counts = IntAttr(q.node, "count_include_pad", 0) != 0;
  return PreparePool(q, counts ? dnnl::algorithm::pooling_avg_include_padding : dnnl::algorithm::pooling_avg_exclude_padding, counts);
}

WEFT_REGISTER_OP(MaxPool).set_attr<FCompute>("FCompute.cpu", PrepareMaxPool);
WEFT_REGISTER_OP(AveragePool).set_attr<FCompute>("FCompute.cpu", PrepareAveragePool);

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
