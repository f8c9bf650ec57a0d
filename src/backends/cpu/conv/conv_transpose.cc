/// conv_transpose.cc: ConvTranspose in f32 over one to three spatial axes.
///
/// Where windows do not overlap (stride = kernel, no padding, the usual way to enlarge), it is one
/// matrix product, W^T X, whose rows are then interleaved: no layout changes, a slice of positions
/// at a time so that the product is still in cache. Measured on a 2-core Zen 5, [1, 64, 80, 80] to
/// 32 channels, 2 x 2: 0.26 ms, by oneDNN's deconvolution with its reorders 1.2 ms. Where few
/// channels or a stride make that slow, results are summed on planes (plane_deconv.h); all others
/// go through it, layouts as in conv.cc.
#ifdef WEFT_HAVE_ONEDNN

#include "backends/cpu/onednn/onednn_adapter.h"
#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/half_call.h"
#include "double_conv.h"
#include "plane_deconv.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"

namespace weft::cpu {
namespace {

/// W is stored [C, M / g, kernel]; oneDNN wants it named [g, M / g, C / g, kernel].
Desc WeightsOf(const std::vector<int64_t>& w, int64_t groups) {
  const int64_t maps = w[1], channels = w[0] / groups;
  Dims dims{maps, channels}, strides;
  int64_t step = 1;
  Dims kernel_strides(w.size() - 2);
  for (size_t k = w.size(); k-- > 2;) {
    kernel_strides[k - 2] = step;
    step *= w[k];
  }
  strides = {step, step * maps};
  if (groups > 1) {
    dims.insert(dims.begin(), groups);
    strides.insert(strides.begin(), step * maps * channels);
  }
  dims.insert(dims.end(), w.begin() + 2, w.end());
  strides.insert(strides.end(), kernel_strides.begin(), kernel_strides.end());
  return Strided(dims, strides);
}

/// y[m, i stride + k] = sum over c of W[c, m, k] x[c, i] + bias[m].
class SpreadCall final : public LibraryCall {
 public:
  struct Extents {
    int64_t images, groups, channels, maps;  // channels and maps of one group
    int64_t in[3], kernel[3];
    bool bias;
    int64_t positions() const { return in[0] * in[1] * in[2]; }
    int64_t block() const { return kernel[0] * kernel[1] * kernel[2]; }
    int64_t rows() const { return maps * block(); }
  };
  SpreadCall(const Extents& e, int threads) : e_(e), threads_(threads) {
    // Whole rows of the last axis, as many as keep the product in the second-level cache.
    const int64_t row_bytes = CheckedMul(CheckedMul(e.rows(), e.in[2]), int64_t{sizeof(float)});
    lines_ =
        std::clamp<int64_t>(kSliceBytes / std::max<int64_t>(1, row_bytes), 1, e.in[0] * e.in[1]);
  }

  int64_t scratch_bytes() const override {
    return CheckedMul(CheckedMul(e_.rows(), lines_ * e_.in[2]), int64_t{sizeof(float)});
  }
  std::string description() const override { return "deconv as matmul"; }

  void Run(const void* const* inputs, void* const* outputs, void* scratch) const override {
    const ScopedThreads threads(threads_);
    const auto* x = static_cast<const float*>(inputs[0]);
    const auto* w = static_cast<const float*>(inputs[1]);
    const auto* bias = e_.bias ? static_cast<const float*>(inputs[2]) : nullptr;
    auto* y = static_cast<float*>(outputs[0]);
    auto* z = static_cast<float*>(scratch);
    const int64_t all = e_.in[0] * e_.in[1], plane = e_.positions() * e_.block();
    for (int64_t b = 0; b < e_.images; ++b)
      for (int64_t g = 0; g < e_.groups; ++g) {
        const float* from = x + (b * e_.groups + g) * e_.channels * e_.positions();
        const float* filter = w + g * e_.channels * e_.rows();
        float* to = y + (b * e_.groups + g) * e_.maps * plane;
        for (int64_t line = 0; line < all; line += lines_) {
          const int64_t lines = std::min(lines_, all - line), count = lines * e_.in[2];
          const auto status =
              dnnl_sgemm('T', 'N', e_.rows(), count, e_.channels, 1, filter, e_.rows(),
                         from + line * e_.in[2], e_.positions(), 0, z, count);
          if (status == dnnl_out_of_memory)
            WEFT_THROW(kOutOfMemory, "{}: oneDNN has no memory", description());
          WEFT_ICHECK(status == dnnl_success, "dnnl_sgemm: status {}", int(status));
          Interleave(z, count, line, lines, bias ? bias + g * e_.maps : nullptr, to);
        }
      }
  }

 private:
  static constexpr int64_t kSliceBytes = 1 << 20;

  /// Lines [line, line + lines) of the product `z`, each map's rows of which
  /// are the block's offsets.
  void Interleave(const float* z, int64_t count, int64_t line, int64_t lines, const float* bias,
                  float* y) const {
    const int64_t width = e_.in[2], step = e_.kernel[2], out_width = width * step;
    const int64_t out_height = e_.in[1] * e_.kernel[1];
    const int64_t plane = e_.positions() * e_.block();
#pragma omp parallel for collapse(2) schedule(static) if (e_.maps * lines * out_width > 16384)
    for (int64_t m = 0; m < e_.maps; ++m)
      for (int64_t l = 0; l < lines; ++l) {
        const float add = bias ? bias[m] : 0;
        const int64_t d = (line + l) / e_.in[1], h = (line + l) % e_.in[1];
        for (int64_t k = 0; k < e_.kernel[0] * e_.kernel[1]; ++k) {
          const int64_t row = (d * e_.kernel[0] + k / e_.kernel[1]) * out_height +
                              h * e_.kernel[1] + k % e_.kernel[1];
          float* to = y + m * plane + row * out_width;
          const float* from = z + (m * e_.block() + k * step) * count + l * width;
          if (step == 2) {
            const float* odd = from + count;
#pragma omp simd
            for (int64_t i = 0; i < width; ++i) {
              to[2 * i] = from[i] + add;
              to[2 * i + 1] = odd[i] + add;
            }
            continue;
          }
          for (int64_t q = 0; q < step; ++q)
            for (int64_t i = 0; i < width; ++i) to[i * step + q] = from[q * count + i] + add;
        }
      }
  }

  Extents e_;
  int threads_;
  int64_t lines_;
};

/// Null where windows overlap, leave gaps, or are cut.
std::unique_ptr<LibraryCall> Spread(const ComputeRequest& q, const WindowShape& w, int64_t groups,
                                    bool bias) {
  const std::vector<int64_t>&x = q.input_dims[0], &filter = q.input_dims[1];
  SpreadCall::Extents e{x[0], groups, x[1] / groups, filter[1], {1, 1, 1}, {1, 1, 1}, bias};
  for (size_t k = 0; k < w.rank(); ++k) {
    if (w.kernel[k] != w.strides[k] || w.dilations[k] != 1 || w.begin[k] != 0 || w.end[k] != 0)
      return nullptr;
    e.in[3 - w.rank() + k] = w.out[k];
    e.kernel[3 - w.rank() + k] = w.kernel[k];
  }
  return std::make_unique<SpreadCall>(e, q.threads);
}

Desc AnyOf(const Desc& d) { return AnyLayout(DimsOf(d)); }

std::unique_ptr<LibraryCall> PrepareConvTranspose(const ComputeRequest& q) {
  if ((!AllF32(q) && !AreDoubles(q)) || q.input_dims.size() < 2) return nullptr;
  const std::vector<int64_t>&x = q.input_dims[0], &w = q.input_dims[1], &y = q.output_dims[0];
  if (x.size() < 3 || (AllF32(q) && x.size() > 5) || w.size() != x.size() || y.size() != x.size())
    return nullptr;
  const bool bias = HasInput(q, 2);
  const int64_t groups = IntAttr(q.node, "group", 1);
  if (CheckedProduct(y) == 0) return std::make_unique<ZeroCall>(0);
  if (groups < 1 || w[0] % groups != 0 || x[1] != w[0] || y[1] != w[1] * groups) return nullptr;
  const auto win = TransposedWindowShapeOf(q.node, {x.begin() + 2, x.end()},
                                           {w.begin() + 2, w.end()}, {y.begin() + 2, y.end()});
  if (win && AreDoubles(q)) return MakeDoubleConvTranspose(q, *win);
  if (AllF32(q) && (CheckedProduct(x) == 0 || CheckedProduct(w) == 0))
    return bias ? nullptr : std::make_unique<ZeroCall>(CheckedProduct(y));
  if (!win || !AllF32(q)) return nullptr;
  if (auto call = Spread(q, *win, groups, bias)) return call;
  if (PlaneDeconv::Pays(x, w, groups, *win))
    return std::make_unique<PlaneDeconv>(x, w, groups, *win, bias, q.constants[1], q.threads);
  return PrepareCall(q, [&]() -> std::unique_ptr<LibraryCall> {
    const Desc source = Plain(x), weights = WeightsOf(w, groups), result = Plain(y);
    const auto pd = Describe<dnnl::deconvolution_forward>(
        {}, dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct,
        AnyOf(source), AnyOf(weights), bias ? Plain({y[1]}) : Desc(), AnyOf(result), win->strides,
        Dilates(*win), win->begin, win->end);
    if (!pd) return nullptr;
    Recipe r(q.threads);
    const Buffer from = r.Reordered(r.Input(0, source), pd.src_desc());
    const Buffer filter = r.Reordered(r.Input(1, weights), pd.weights_desc(), q.constants[1]);
    const Buffer to = r.Output(0, result);
    const Buffer made = r.Staged(to, pd.dst_desc());
    r.Add(dnnl::deconvolution_forward(pd),
          {{DNNL_ARG_SRC, from},
           {DNNL_ARG_WEIGHTS, filter},
           {DNNL_ARG_BIAS, bias ? r.Input(2, Plain({y[1]})) : Buffer()},
           {DNNL_ARG_DST, made}},
          pd.scratchpad_desc());
    r.WriteBack(made, to);
    return r.Finish(std::string("deconv ") + pd.impl_info_str());
  });
}

WEFT_REGISTER_OP(ConvTranspose)
    .set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareConvTranspose));

}  // namespace
}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
