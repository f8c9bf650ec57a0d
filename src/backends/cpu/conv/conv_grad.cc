/// conv_grad.cc: weft::ConvGradData and weft::ConvGradWeight in f32, by oneDNN; layouts and
/// algorithms as in conv.cc.
#ifdef WEFT_HAVE_ONEDNN

#include "backends/cpu/onednn/onednn_adapter.h"
#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/half_call.h"
#include "backends/cpu/util/tuning.h"
#include "conv_columns.h"
#include "conv_primitives.h"
#include "conv_staging.h"
#include "double_conv.h"
#include "weft/core/op/op.h"

namespace weft::cpu {
namespace {

bool AreF32(const ComputeRequest& q) {
  return q.output_types[0] == DType::kF32 && q.input_types[0] == DType::kF32 &&
         q.input_types[1] == DType::kF32;
}
bool IsEmpty(const std::vector<int64_t>& dims) { return CheckedProduct(dims) == 0; }

/// One way to do it.
struct Form {
  dnnl::algorithm algorithm = kDirect;
  bool given = true;  ///< source and result stay as they lie outside where that is as fast
};

/// dx from (dy, W, shape of x).
std::unique_ptr<LibraryCall> MakeGradData(const ComputeRequest& q, const ConvShape& c,
                                          const Form& form) {
  const Layout dy_layout = LayoutOf(q.input_layouts, 0), dx_layout = LayoutOf(q.output_layouts, 0);
  const auto dx_desc = [&](int64_t n) { return Lying(c.source(n), dx_layout); };
  const auto dy_desc = [&](int64_t n) { return Lying(c.result(n), dy_layout); };
  const bool last = form.given && AreLast(c, dx_desc(c.images), dy_desc(c.images));
  auto pd = DescribeGradData(c, c.images, form.algorithm, last);
  if (!pd) return nullptr;
  int64_t chunk = c.images;
  // Winograd transforms the weights in every repetition.
  if (form.algorithm == kDirect)
    chunk = ChunkOf(c,
                    StagedBytes(pd.diff_dst_desc(), dy_desc(c.images), c.images) +
                        StagedBytes(pd.diff_src_desc(), dx_desc(c.images), c.images),
                    q.threads);
  if (chunk != c.images) pd = DescribeGradData(c, chunk, form.algorithm, last);
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
std::unique_ptr<LibraryCall> MakeGradWeight(const ComputeRequest& q, const ConvShape& c,
                                            const Form& form) {
  const Desc dy_desc = Lying(c.result(c.images), LayoutOf(q.input_layouts, 0)),
             x_desc = Lying(c.source(c.images), LayoutOf(q.input_layouts, 1));
  const auto pd =
      DescribeGradWeight(c, c.images, form.algorithm, form.given && AreLast(c, x_desc, dy_desc));
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

/// `x`, `w`, `y`: extents of the convolution's source, weights and result.
template <class Make>
std::unique_ptr<LibraryCall> PrepareGrad(const ComputeRequest& q, ConvPass pass, const Dims& x,
                                         const Dims& w, const Dims& y, Make make) {
  if (!AreF32(q)) return nullptr;
  if (IsEmpty(x) || IsEmpty(w) || IsEmpty(y))
    return std::make_unique<ZeroCall>(CheckedProduct(q.output_dims[0]));
  const auto c = ReadConv(q.node, x, w, y);
  if (!c) return nullptr;
  return PrepareCall(q, [&] {
    const bool data = pass == ConvPass::kGradData;
    const Layout x_layout = data ? LayoutOf(q.output_layouts, 0) : LayoutOf(q.input_layouts, 1);
    const Desc x_desc = Lying(c->source(c->images), x_layout),
               y_desc = Lying(c->result(c->images), LayoutOf(q.input_layouts, 0));
    const dnnl::algorithm modelled =
        ChooseAlgorithm(pass, *c, data && q.constants[1], x_desc, y_desc);
    std::vector<Way> ways;
    const auto add = [&](std::string name, Form form) {
      ways.push_back(
          {std::move(name), [&, form] { return Attempt([&] { return make(q, *c, form); }); }});
    };
    const bool last = AreLast(*c, x_desc, y_desc),
               columns = data && last && FitsColumns(*c, q.threads) &&
                         ForcedChoice() == ConvChoice::kModel,
               best = columns && modelled == kDirect && ColumnsPay(*c);
    const auto add_columns = [&] {
      ways.push_back({"columns", [&] {
                        return Attempt([&] { return MakeGradDataByColumns(*c, q.threads); });
                      }});
    };
    if (best) add_columns();
    add(NameOf(modelled), {modelled});
    if (ForcedChoice() == ConvChoice::kModel) {
      const dnnl::algorithm other = modelled == kDirect ? kWinograd : kDirect;
      if (FitsWinograd(*c)) add(NameOf(other), {other});
      // Measured as in conv.cc: 0.9 to 1.6 times the time of the layout outside;
      // other chunks never won.
      if (last) add("chosen", {kDirect, /*given=*/false});
      if (columns && !best) add_columns();
    }
    return ChooseWay(q, ways);
  });
}
std::unique_ptr<LibraryCall> PrepareConvGradData(const ComputeRequest& q) {
  if (AreDoubles(q)) return MakeDoubleGradData(q);
  return PrepareGrad(q, ConvPass::kGradData, q.output_dims[0], q.input_dims[1], q.input_dims[0],
                     MakeGradData);
}
std::unique_ptr<LibraryCall> PrepareConvGradWeight(const ComputeRequest& q) {
  if (AreDoubles(q)) return MakeDoubleGradWeight(q);
  return PrepareGrad(q, ConvPass::kGradWeight, q.input_dims[1], q.output_dims[0], q.input_dims[0],
                     MakeGradWeight);
}

/// What convolutions themselves wish for.
LayoutWish GradDataLayout(const NodePtr&, DType t) {
  if (!TakesSingle(t) || !PrefersChannelsLast()) return {};
  return {{Layout::kChannelsLast}, {Layout::kChannelsLast}};
}
LayoutWish GradWeightLayout(const NodePtr&, DType t) {
  if (!TakesSingle(t) || !PrefersChannelsLast()) return {};
  return {{Layout::kChannelsLast, Layout::kChannelsLast}, {}};
}

WEFT_REGISTER_OP_IN(weft, ConvGradData)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareConvGradData))
    .set_attr<FLayout>("FLayout.cpu", GradDataLayout);
WEFT_REGISTER_OP_IN(weft, ConvGradWeight)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareConvGradWeight))
    .set_attr<FLayout>("FLayout.cpu", GradWeightLayout);

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
