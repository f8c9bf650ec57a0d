/// conv_primitives.cc: descriptions of convolutions, and whose is taken.
#ifdef WEFT_HAVE_ONEDNN

#include "conv_primitives.h"

#include <algorithm>
#include <string>

#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

using dnnl::algorithm;

/// What the choice depends on.
struct Traits {
  std::string implementation;  ///< empty: there is none
  Desc x, y;
};

Traits TraitsOf(ConvPass pass, const ConvShape& c, algorithm a, bool packed, bool last) {
  try {
    if (pass == ConvPass::kForward) {
      if (const auto pd = DescribeForward(c, c.images, a, false, packed))
        return {pd.impl_info_str(), pd.src_desc(), pd.dst_desc()};
    } else if (pass == ConvPass::kGradData) {
      if (const auto pd = DescribeGradData(c, c.images, a, last))
        return {pd.impl_info_str(), pd.diff_src_desc(), pd.diff_dst_desc()};
    } else if (const auto pd = DescribeGradWeight(c, c.images, a, last)) {
      return {pd.impl_info_str(), pd.src_desc(), pd.diff_dst_desc()};
    }
  } catch (const dnnl::error&) {
    // This algorithm is not for these extents.
  }
  return {};
}

/// A gradient in the layout that its tensors have outside, where that is as fast; else in
/// one that oneDNN chooses.
template <class F>
auto InGivenLayout(const ConvShape& c, int64_t n, algorithm a, bool last, F&& describe) {
  auto chosen = describe(AnyLayout(c.source(n)), AnyLayout(c.result(n)));
  if (!last || a != algorithm::convolution_direct) return chosen;
  const auto given = describe(ChannelsLast(c.source(n)), ChannelsLast(c.result(n)));
  return IsFast(given, chosen) ? given : chosen;
}

/// oneDNN 2.6.3, measured: where it gathers what a strided 1 x 1 reads of sources with fewer than
/// 16 channels, all innermost, it writes up to 16 of them a position into room for as many as
/// there are: behind its scratchpad, and into that of other threads.
bool OverrunsScratch(const ConvShape& c) {
  const WindowShape& w = c.window;
  const auto all_are = [](const Dims& v, int64_t n) {
    return std::all_of(v.begin(), v.end(), [&](int64_t i) { return i == n; });
  };
  return all_are(w.kernel, 1) && !all_are(w.strides, 1) && c.channels / c.groups < 16;
}

int64_t CopiedBytes(const Traits& t, const Desc& x, const Desc& y) {
  return StagedBytes(t.x, x, 1) + StagedBytes(t.y, y, 1);
}

}  // namespace

bool FitsWinograd(const ConvShape& c) {
  const WindowShape& w = c.window;
  if (w.rank() != 2 || c.groups != 1) return false;
  for (size_t k = 0; k < 2; ++k)
    if (w.kernel[k] != 3 || w.strides[k] != 1 || w.dilations[k] != 1 || w.begin[k] != w.end[k])
      return false;
  return true;
}

ForwardDesc DescribeForward(const ConvShape& c, const Desc& x, const Desc& y, algorithm a,
                            bool bias, bool packed, const dnnl::primitive_attr& attr) {
  const WindowShape& w = c.window;
  // For inference oneDNN asks for weights that are transformed already, by a reorder that is slow.
  const bool transforms = a == algorithm::convolution_winograd && !packed;
  return Describe<dnnl::convolution_forward>(
      attr, transforms ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference, a,
      x, AnyLayout(c.weights()), bias ? Plain({c.filters}) : Desc(), y, w.strides, Dilates(w),
      w.begin, w.end);
}

bool IsPlainProduct(const ConvShape& c) {
  const WindowShape& w = c.window;
  int64_t positions = 1;
  for (size_t k = 0; k < w.rank(); ++k) {
    if (w.kernel[k] != 1 || w.strides[k] != 1 || w.begin[k] != 0 || w.end[k] != 0) return false;
    positions = CheckedMul(positions, w.in[k]);
  }
  return positions >= 256 && c.channels / c.groups >= 16 && c.filters / c.groups >= 16;
}

bool NeedsChannelsLast(const ConvShape& c) {
  const auto describe = [&](const Desc& x, const Desc& y) {
    return DescribeForward(c, x, y, algorithm::convolution_direct, false, false);
  };
  const auto chosen = describe(AnyLayout(c.source(c.images)), AnyLayout(c.result(c.images)));
  if (!chosen || !IsSlow(chosen)) return false;
  const auto last = describe(ChannelsLast(c.source(c.images)), ChannelsLast(c.result(c.images)));
  return last && !IsSlow(last);
}

bool AreLast(const ConvShape& c, const Desc& x, const Desc& y) {
  return x == ChannelsLast(c.source(c.images)) && y == ChannelsLast(c.result(c.images));
}

GradDataDesc DescribeGradData(const ConvShape& c, int64_t n, algorithm a, bool last) {
  const WindowShape& w = c.window;
  const auto hint = DescribeForward(c, n, a, false, false);
  if (!hint) return {};
  return InGivenLayout(c, n, a, last, [&](const Desc& x, const Desc& y) {
    return DescribeBackward<dnnl::convolution_backward_data>(hint, a, x, AnyLayout(c.weights()), y,
                                                             w.strides, Dilates(w), w.begin, w.end);
  });
}

GradWeightDesc DescribeGradWeight(const ConvShape& c, int64_t n, algorithm a, bool last) {
  const WindowShape& w = c.window;
  const auto hint = DescribeForward(c, n, a, false, false);
  if (!hint) return {};
  const auto describe = [&](const Desc& x, const Desc& y) {
    return DescribeBackward<dnnl::convolution_backward_weights>(
        hint, a, x, AnyLayout(c.weights()), y, w.strides, Dilates(w), w.begin, w.end);
  };
  if (!OverrunsScratch(c)) return InGivenLayout(c, n, a, last, describe);
  const auto chosen = describe(AnyLayout(c.source(n)), AnyLayout(c.result(n)));
  return chosen && chosen.src_desc() == ChannelsLast(c.source(n))
             ? describe(Plain(c.source(n)), Plain(c.result(n)))
             : chosen;
}

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

algorithm ChooseAlgorithm(ConvPass pass, const ConvShape& c, bool packed, const Desc& x,
                          const Desc& y) {
  const ConvChoice forced = ForcedChoice();
  if (forced == ConvChoice::kDirect || !FitsWinograd(c)) return algorithm::convolution_direct;
  const bool last = AreLast(c, x, y);
  const Traits winograd = TraitsOf(pass, c, algorithm::convolution_winograd, packed, last);
  // Only those that the model knows.
  const int tile = winograd.implementation.find("wino_4x3") != std::string::npos   ? 4
                   : winograd.implementation.find("wino_2x3") != std::string::npos ? 2
                                                                                   : 0;
  if (tile == 0) return algorithm::convolution_direct;
  if (forced == ConvChoice::kWinograd) return algorithm::convolution_winograd;
  const Traits direct = TraitsOf(pass, c, algorithm::convolution_direct, packed, last);
  const ConvWork work{pass, c.images, c.channels, c.filters, c.window, packed};
  const int64_t copied = CopiedBytes(winograd, x, y) - CopiedBytes(direct, x, y);
  return direct.implementation.empty() || WinogradPays(work, tile, copied)
             ? algorithm::convolution_winograd
             : algorithm::convolution_direct;
}

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
