/// conv_grad.cc: weft::ConvGradData and weft::ConvGradWeight in f32, by oneDNN; layouts and algorithms as in conv.cc.
#ifdef WEFT_HAVE_ONEDNN

#include "backends/cpu/compute_util.h"
#include "backends/cpu/conv_primitives.h"
#include "backends/cpu/conv_shape.h"
#include "backends/cpu/onednn_adapter.h"
#include "weft/core/op.h"

namespace weft::cpu {
namespace {

bool AreF32(const ComputeRequest& q) {
  return q.output_types[0] == DType::kF32 && q.input_types[0] == DType::kF32 &&
         q.input_types[1] == DType::kF32;
}
bool IsEmpty(const std::vector<int64_t>& dims) { return CheckedProduct(dims) == 0; }

/// dx from (dy, W, shape of x).
std::unique_ptr<LibraryCall> MakeGradData(const ComputeRequest& q, const ConvShape& c) {
  const Layout dy_layout = LayoutOf(q.input_layouts, 0), dx_layout = LayoutOf(q.output_layouts, 0);
  const auto dx_desc = [&](int64_t n) { return Lying(c.source(n), dx_layout); };
  const auto dy_desc = [&](int64_t n) { return Lying(c.result(n), dy_layout); };
  const bool packed = q.constants[1] != nullptr;
  const dnnl::algorithm algorithm =
      ChooseAlgorithm(ConvPass::kGradData, c, packed, dx_desc(c.images), dy_desc(c.images));
  const bool last = AreLast(c, dx_desc(c.images), dy_desc(c.images));
  auto pd = DescribeGradData(c, c.images, algorithm, last);
  if (!pd) return nullptr;
  int64_t chunk = c.images;
  // Winograd transforms the weights in every repetition.
  if (algorithm == dnnl::algorithm::convolution_direct)
    chunk = ChunkOf(c,
                    StagedBytes(pd.diff_dst_desc(), dy_desc(c.images), c.images) +
                        StagedBytes(pd.diff_src_desc(), dx_desc(c.images), c.images),
                    q.threads);
  if (chunk != c.images) pd = DescribeGradData(c, chunk, algorithm, last);
  if (!pd) return nullptr;
  Recipe r(q.threads);
  r.Repeat(c.images / chunk);
  const Buffer dy = r.Reordered(r.Input(0, dy_desc(chunk), true), pd.diff_dst_desc());
  const Buffer w = r.Reordered(r.Input(1, Plain(c.weights())), pd.weights_desc(), q.constants[1],
                               /*once=*/true);
  const Buffer dx = r.Output(0, dx_desc(chunk), true);
  const Buffer made = r.Staged(dx, pd.diff_src_desc());
  r.Add(dnnl::convolution_backward_data(pd),
        {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, made}},
        pd.scratchpad_desc());
  r.WriteBack(made, dx);
  return r.Finish(std::string("conv dx ") + pd.impl_info_str());
}

/// dW from (dy, x, shape of W).
std::unique_ptr<LibraryCall> MakeGradWeight(const ComputeRequest& q, const ConvShape& c) {
  const Desc dy_desc = Lying(c.result(c.images), LayoutOf(q.input_layouts, 0)),
             x_desc = Lying(c.source(c.images), LayoutOf(q.input_layouts, 1));
  const dnnl::algorithm algorithm =
      ChooseAlgorithm(ConvPass::kGradWeight, c, false, x_desc, dy_desc);
  const auto pd = DescribeGradWeight(c, c.images, algorithm, AreLast(c, x_desc, dy_desc));
  if (!pd) return nullptr;
  Recipe r(q.threads);
  const Buffer dy = r.Reordered(r.Input(0, dy_desc), pd.diff_dst_desc());
  const Buffer x = r.Reordered(r.Input(1, x_desc), pd.src_desc());
  const Buffer dw = r.Output(0, Plain(c.weights()));
  const Buffer made = r.Staged(dw, pd.diff_weights_desc());
  r.Add(dnnl::convolution_backward_weights(pd),
        {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_WEIGHTS, made}},
        pd.scratchpad_desc());
  r.WriteBack(made, dw);
  return r.Finish(std::string("conv dW ") + pd.impl_info_str());
}

std::unique_ptr<LibraryCall> PrepareConvGradData(const ComputeRequest& q) {
  if (!AreF32(q)) return nullptr;
  if (IsEmpty(q.output_dims[0]) || IsEmpty(q.input_dims[0]) || IsEmpty(q.input_dims[1]))
    return std::make_unique<ZeroCall>(CheckedProduct(q.output_dims[0]));
  const auto c = ReadConv(q.node, q.output_dims[0], q.input_dims[1], q.input_dims[0]);
  if (!c) return nullptr;
  return Prepare(q, [&] { return MakeGradData(q, *c); });
}

std::unique_ptr<LibraryCall> PrepareConvGradWeight(const ComputeRequest& q) {
  if (!AreF32(q)) return nullptr;
  if (IsEmpty(q.output_dims[0]) || IsEmpty(q.input_dims[0]) || IsEmpty(q.input_dims[1]))
    return std::make_unique<ZeroCall>(CheckedProduct(q.output_dims[0]));
  const auto c = ReadConv(q.node, q.input_dims[1], q.output_dims[0], q.input_dims[0]);
  if (!c) return nullptr;
  return Prepare(q, [&] { return MakeGradWeight(q, *c); });
}

/// What convolutions themselves wish for.
LayoutWish GradDataLayout(const NodePtr&) {
  if (!PrefersChannelsLast()) return {};
  return {{Layout::kChannelsLast}, {Layout::kChannelsLast}};
}
LayoutWish GradWeightLayout(const NodePtr&) {
  if (!PrefersChannelsLast()) return {};
  return {{Layout::kChannelsLast, Layout::kChannelsLast}, {}};
}

WEFT_REGISTER_OP_IN(weft, ConvGradData)
    .set_attr<FCompute>("FCompute.cpu", PrepareConvGradData)
    .set_attr<FLayout>("FLayout.cpu", GradDataLayout);
WEFT_REGISTER_OP_IN(weft, ConvGradWeight)
    .set_attr<FCompute>("FCompute.cpu", PrepareConvGradWeight)
    .set_attr<FLayout>("FLayout.cpu", GradWeightLayout);

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
