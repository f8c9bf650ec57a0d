/// conv.cc: Conv, weft::ConvGradData and weft::ConvGradWeight in f32 over one to three spatial
/// axes, by oneDNN.
///
/// Layout. oneDNN chooses the layouts inside (`format_tag::any`), constant weights are packed once.
/// Outside, tensors are plain (n, c, spatial) or, where the pass Layout could arrange it, lie as the
/// convolution wants them: channels last, on every machine with AVX-512. Plain ones are transposed
/// on the way in and out, a few images at a time so that the copies stay in cache. Measured on a 2-core
/// Zen 5 with oneDNN 2.6.3, [32, 256, 512, 1] with 512 filters of 5 x 1 (21.3 GFLOP): plain layouts
/// 58 to 80 ms (im2col and GEMM); chosen ones (channels last) 43.3 ms for the convolution itself,
/// 51 ms with oneDNN's reorders of the whole batch. This file, copies included: 47.7 ms
/// (447 GFLOP/s; 235 on one thread, 90 % of its peak), with 3 MB of scratch instead of 50.
///
/// Axes on which nothing happens (extent 1, kernel 1, no padding) are dropped: oneDNN blocks over
/// the last axis, and a last axis of extent 1 costs it a factor of four (192 ms above).
#ifdef WEFT_HAVE_ONEDNN

#include "backends/cpu/compute_util.h"
#include "backends/cpu/node_attrs.h"
#include "backends/cpu/onednn_adapter.h"
#include "weft/core/op.h"

namespace weft::cpu {
namespace {

/// Extents of one convolution, whichever of its three tensors is the result.
struct ConvShape {
  int64_t images = 0, groups = 1, channels = 0, filters = 0;
  WindowShape window;
  Dims source(int64_t n) const { return With(n, channels, window.in); }
  Dims result(int64_t n) const { return With(n, filters, window.out); }
  Dims weights() const {
    Dims d =
        groups == 1 ? Dims{filters, channels} : Dims{groups, filters / groups, channels / groups};
    d.insert(d.end(), window.kernel.begin(), window.kernel.end());
    return d;
  }
  double flops(int64_t n) const {
    double f = 2.0 * double(n) * double(filters) * double(channels / groups);
    for (size_t k = 0; k < window.rank(); ++k)
      f *= double(window.out[k]) * double(window.kernel[k]);
    return f;
  }

 private:
  static Dims With(int64_t n, int64_t c, const std::vector<int64_t>& spatial) {
    Dims d{n, c};
    d.insert(d.end(), spatial.begin(), spatial.end());
    return d;
  }
};

std::vector<int64_t> Tail(const std::vector<int64_t>& dims) {
  return {dims.begin() + 2, dims.end()};
}

void DropIdleAxes(WindowShape* w) {
  for (size_t k = w->rank(); k-- > 0 && w->rank() > 1;) {
    if (w->in[k] != 1 || w->kernel[k] != 1 || w->out[k] != 1 || w->begin[k] != 0 || w->end[k] != 0)
      continue;
    for (auto* list : {&w->in, &w->kernel, &w->out, &w->strides, &w->dilations, &w->begin, &w->end})
      list->erase(list->begin() + std::ptrdiff_t(k));
  }
}

std::optional<ConvShape> ReadConv(const NodePtr& n, const std::vector<int64_t>& x,
                                  const std::vector<int64_t>& w, const std::vector<int64_t>& y) {
  if (x.size() < 3 || w.size() != x.size() || y.size() != x.size()) return std::nullopt;
  ConvShape c;
  c.images = x[0];
  c.channels = x[1];
  c.filters = w[0];
  c.groups = IntAttr(n, "group", 1);
  if (c.groups < 1 || c.channels % c.groups != 0 || c.filters % c.groups != 0 ||
      w[1] != c.channels / c.groups)
    return std::nullopt;
  auto window = MakeWindow(n, Tail(x), Tail(w), Tail(y));
  if (!window) return std::nullopt;
  c.window = std::move(*window);
  DropIdleAxes(&c.window);
  if (c.window.rank() > 3) return std::nullopt;
  return c;
}

bool IsEmpty(const std::vector<int64_t>& dims) { return CheckedProduct(dims) == 0; }

/// Temporaries of a few images should fit the caches between the transposition and the convolution.
constexpr int64_t kChunkBytes = int64_t{4} << 20;
/// What every thread should find in a chunk, so that cutting the batch costs no parallelism.
constexpr double kChunkFlopsPerThread = 20e6;

/// What a copy in the layout `wanted` takes for each image, where the tensor does not lie so.
int64_t StagedBytes(const Desc& wanted, const Desc& given, int64_t images) {
  return wanted == given ? 0 : int64_t(wanted.get_size()) / images;
}

/// Images of one repetition: a divisor of the batch.
int64_t ChunkOf(const ConvShape& c, int64_t bytes_per_image, int threads) {
  if (bytes_per_image == 0) return c.images;
  int64_t best = 0;
  for (int64_t d = 1; d <= c.images; ++d) {
    if (c.images % d != 0) continue;
    const bool enough = d >= threads || c.flops(d) >= kChunkFlopsPerThread * threads;
    if (enough && (best == 0 || d * bytes_per_image <= kChunkBytes)) best = d;
  }
  return best == 0 ? c.images : best;
}

auto DescribeForward(const ConvShape& c, int64_t n, bool bias) {
  const WindowShape& w = c.window;
  return Describe<dnnl::convolution_forward>(
      {}, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      AnyLayout(c.source(n)), AnyLayout(c.weights()), bias ? Plain({c.filters}) : Desc(),
      AnyLayout(c.result(n)), w.strides, Dilates(w), w.begin, w.end);
}

dnnl::convolution_backward_data::primitive_desc DescribeGradData(const ConvShape& c, int64_t n) {
  const WindowShape& w = c.window;
  const auto hint = DescribeForward(c, n, false);
  if (!hint) return {};
  return DescribeBackward<dnnl::convolution_backward_data>(
      hint, dnnl::algorithm::convolution_direct, AnyLayout(c.source(n)), AnyLayout(c.weights()),
      AnyLayout(c.result(n)), w.strides, Dilates(w), w.begin, w.end);
}

Desc Lying(const Dims& dims, Layout layout) {
  return layout == Layout::kChannelsLast ? ChannelsLast(dims) : Plain(dims);
}

Layout LayoutOf(const std::vector<Layout>& given, size_t i) {
  return i < given.size() ? given[i] : Layout::kPlain;
}

/// Does oneDNN convolve with the channels innermost on this machine? Where it blocks them instead,
/// neither layout saves a reorder. Asked with a convolution as they are in the middle of networks.
bool PrefersChannelsLast() {
  static const bool prefers = [] {
    const Dims x{1, 64, 28, 28}, w{64, 64, 3, 3}, one{1, 1}, none{0, 0};
    try {
      const auto pd = Describe<dnnl::convolution_forward>(
          {}, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, AnyLayout(x),
          AnyLayout(w), Desc(), AnyLayout(x), one, none, one, one);
      return pd && pd.src_desc() == ChannelsLast(x) && pd.dst_desc() == ChannelsLast(x);
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return prefers;
}
LayoutWish ConvLayout(const NodePtr&) {
  if (!PrefersChannelsLast()) return {};
  return {{Layout::kChannelsLast}, {Layout::kChannelsLast}};
}

std::unique_ptr<LibraryCall> PrepareConv(const ComputeRequest& q) {
  if (!AllF32(q) || q.input_dims.size() < 2) return nullptr;
  const bool bias = HasInput(q, 2);
  if (IsEmpty(q.output_dims[0])) return std::make_unique<ZeroCall>(0);
  if (IsEmpty(q.input_dims[0]) || IsEmpty(q.input_dims[1]))
    return bias ? nullptr : std::make_unique<ZeroCall>(CheckedProduct(q.output_dims[0]));
  const auto c = ReadConv(q.node, q.input_dims[0], q.input_dims[1], q.output_dims[0]);
  if (!c) return nullptr;
  return Prepare(q, [&]() -> std::unique_ptr<LibraryCall> {
    auto pd = DescribeForward(*c, c->images, bias);
    if (!pd) return nullptr;
    const Layout x_layout = LayoutOf(q.input_layouts, 0), y_layout = LayoutOf(q.output_layouts, 0);
    const int64_t bytes =
        StagedBytes(pd.src_desc(), Lying(c->source(c->images), x_layout), c->images) +
        StagedBytes(pd.dst_desc(), Lying(c->result(c->images), y_layout), c->images);
    const int64_t chunk = ChunkOf(*c, bytes, q.threads);
    if (chunk != c->images) pd = DescribeForward(*c, chunk, bias);
    if (!pd) return nullptr;
    Recipe r(q.threads);
    r.Repeat(c->images / chunk);
    const Buffer x =
        r.Reordered(r.Input(0, Lying(c->source(chunk), x_layout), true), pd.src_desc());
    const Buffer w = r.Reordered(r.Input(1, Plain(c->weights())), pd.weights_desc(), q.constants[1],
                                 /*once=*/true);
    const Buffer y = r.Output(0, Lying(c->result(chunk), y_layout), true);
    const Buffer made = r.Staged(y, pd.dst_desc());
    r.Add(dnnl::convolution_forward(pd),
          {{DNNL_ARG_SRC, x},
           {DNNL_ARG_WEIGHTS, w},
           {DNNL_ARG_BIAS, bias ? r.Input(2, Plain({c->filters})) : Buffer()},
           {DNNL_ARG_DST, made}},
          pd.scratchpad_desc());
    r.WriteBack(made, y);
    return r.Finish(std::string("conv ") + pd.impl_info_str());
  });
}

/// dx from (dy, W, shape of x).
std::unique_ptr<LibraryCall> PrepareConvGradData(const ComputeRequest& q) {
  if (q.output_types[0] != DType::kF32 || q.input_types[0] != DType::kF32 ||
      q.input_types[1] != DType::kF32)
    return nullptr;
  if (IsEmpty(q.output_dims[0]) || IsEmpty(q.input_dims[0]) || IsEmpty(q.input_dims[1]))
    return std::make_unique<ZeroCall>(CheckedProduct(q.output_dims[0]));
  const auto c = ReadConv(q.node, q.output_dims[0], q.input_dims[1], q.input_dims[0]);
  if (!c) return nullptr;
  return Prepare(q, [&]() -> std::unique_ptr<LibraryCall> {
    auto pd = DescribeGradData(*c, c->images);
    if (!pd) return nullptr;
    const int64_t bytes = StagedBytes(pd.diff_dst_desc(), Plain(c->result(c->images)), c->images) +
                          StagedBytes(pd.diff_src_desc(), Plain(c->source(c->images)), c->images);
    const int64_t chunk = ChunkOf(*c, bytes, q.threads);
    if (chunk != c->images) pd = DescribeGradData(*c, chunk);
    if (!pd) return nullptr;
    Recipe r(q.threads);
    r.Repeat(c->images / chunk);
    const Buffer dy = r.Reordered(r.Input(0, Plain(c->result(chunk)), true), pd.diff_dst_desc());
    const Buffer w = r.Reordered(r.Input(1, Plain(c->weights())), pd.weights_desc(), q.constants[1],
                                 /*once=*/true);
    const Buffer dx = r.Output(0, Plain(c->source(chunk)), true);
    const Buffer made = r.Staged(dx, pd.diff_src_desc());
    r.Add(dnnl::convolution_backward_data(pd),
          {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, made}},
          pd.scratchpad_desc());
    r.WriteBack(made, dx);
    return r.Finish(std::string("conv dx ") + pd.impl_info_str());
  });
}

/// dW from (dy, x, shape of W).
std::unique_ptr<LibraryCall> PrepareConvGradWeight(const ComputeRequest& q) {
  if (q.output_types[0] != DType::kF32 || q.input_types[0] != DType::kF32 ||
      q.input_types[1] != DType::kF32)
    return nullptr;
  if (IsEmpty(q.output_dims[0]) || IsEmpty(q.input_dims[0]) || IsEmpty(q.input_dims[1]))
    return std::make_unique<ZeroCall>(CheckedProduct(q.output_dims[0]));
  const auto c = ReadConv(q.node, q.input_dims[1], q.output_dims[0], q.input_dims[0]);
  if (!c) return nullptr;
  return Prepare(q, [&]() -> std::unique_ptr<LibraryCall> {
    const WindowShape& win = c->window;
    const auto hint = DescribeForward(*c, c->images, false);
    if (!hint) return nullptr;
    const auto pd = DescribeBackward<dnnl::convolution_backward_weights>(
        hint, dnnl::algorithm::convolution_direct, AnyLayout(c->source(c->images)),
        AnyLayout(c->weights()), AnyLayout(c->result(c->images)), win.strides, Dilates(win),
        win.begin, win.end);
    if (!pd) return nullptr;
    Recipe r(q.threads);
    const Buffer dy = r.Reordered(r.Input(0, Plain(c->result(c->images))), pd.diff_dst_desc());
    const Buffer x = r.Reordered(r.Input(1, Plain(c->source(c->images))), pd.src_desc());
    const Buffer dw = r.Output(0, Plain(c->weights()));
    const Buffer made = r.Staged(dw, pd.diff_weights_desc());
    r.Add(dnnl::convolution_backward_weights(pd),
          {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_WEIGHTS, made}},
          pd.scratchpad_desc());
    r.WriteBack(made, dw);
    return r.Finish(std::string("conv dW ") + pd.impl_info_str());
  });
}

WEFT_REGISTER_OP(Conv)
    .set_attr<FCompute>("FCompute.cpu", PrepareConv)
    .set_attr<FLayout>("FLayout.cpu", ConvLayout);
WEFT_REGISTER_OP_IN(weft, ConvGradData).set_attr<FCompute>("FCompute.cpu", PrepareConvGradData);
WEFT_REGISTER_OP_IN(weft, ConvGradWeight).set_attr<FCompute>("FCompute.cpu", PrepareConvGradWeight);

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
