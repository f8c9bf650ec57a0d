/// emulated_conv.cc: convolutions of emulated_libraries.h: plain loops that add up in double
/// precision. They take what cuDNN takes (see src/backends/cuda/libraries/conv.cc), and check what
/// it would be told.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "emulated_libraries.h"
#include "weft/support/checked.h"

namespace weft::e2e {
namespace {

using cuda::ConvSpec;
using Dims = std::vector<int64_t>;

/// What runs in it may not stay in it.
constexpr int64_t kWorkspace = 512;

double Load(DType t, const void* at, int64_t i) {
  switch (t) {
    case DType::kF32:
      return static_cast<const float*>(at)[i];
    case DType::kF16:
      return HalfToFloat(static_cast<const uint16_t*>(at)[i]);
    default:
      return BFloat16ToFloat(static_cast<const uint16_t*>(at)[i]);
  }
}
void Store(DType t, void* at, int64_t i, double value) {
  switch (t) {
    case DType::kF32:
      static_cast<float*>(at)[i] = float(value);
      return;
    case DType::kF16:
      static_cast<uint16_t*>(at)[i] = FloatToHalf(float(value));
      return;
    default:
      static_cast<uint16_t*>(at)[i] = FloatToBFloat16(float(value));
  }
}

/// Where the elements of a tensor lie, named by image (or filter), channel and three positions.
struct View {
  int64_t image = 0, channel = 0;
  std::array<int64_t, 3> position{};
  int64_t At(int64_t n, int64_t c, const std::array<int64_t, 3>& p) const {
    return n * image + c * channel + p[0] * position[0] + p[1] * position[1] + p[2] * position[2];
  }
};
View ViewOf(int64_t channels, const std::array<int64_t, 3>& extents, Layout layout) {
  View v;
  int64_t step = 1;
  if (layout == Layout::kChannelsLast) {
    v.channel = step;
    step *= channels;
  }
  for (size_t k = 3; k-- > 0;) {
    v.position[k] = step;
    step *= extents[k];
  }
  if (layout == Layout::kPlain) {
    v.channel = step;
    step *= channels;
  }
  v.image = step;
  return v;
}

class Loops {
 public:
  explicit Loops(const ConvSpec& s) : s_(s) {
    const WindowShape& w = s.shape.window;
    in_ = Wide(w.in, 1);
    kernel_ = Wide(w.kernel, 1);
    out_ = Wide(w.out, 1);
    stride_ = Wide(w.strides, 1);
    dilation_ = Wide(w.dilations, 1);
    begin_ = Wide(w.begin, 0);
    of_group_ = s.shape.channels / s.shape.groups;
    x_ = ViewOf(s.shape.channels, in_, s.x_layout);
    w_ = ViewOf(of_group_, kernel_, s.w_layout);
    y_ = ViewOf(s.shape.filters, out_, s.y_layout);
  }

  void Run(void* const* at) const {
    const ConvShape& c = s_.shape;
    const int pass = int(s_.pass);
    const int64_t sizes[] = {c.images * c.filters * Product(out_),       // y
                             c.images * c.channels * Product(in_),       // x
                             c.filters * of_group_ * Product(kernel_)};  // w
    std::vector<double> sums(size_t(sizes[pass]));
    const void *x = at[0], *w = at[1], *y = at[2];
    Visit([&](int64_t i, int64_t j, int64_t k) {
      if (pass == 0)
        sums[size_t(k)] += Load(s_.type, x, i) * Load(s_.type, w, j);
      else if (pass == 1)
        sums[size_t(i)] += Load(s_.type, y, k) * Load(s_.type, w, j);
      else
        sums[size_t(j)] += Load(s_.type, y, k) * Load(s_.type, x, i);
    });
    void* to = pass == 0 ? at[2] : pass == 1 ? at[0] : at[1];
    // An engine may keep anything in the result until the end.
    std::memset(to, 0x5A, size_t(DTypeBytes(s_.type, sizes[pass])));
    if (pass == 0) Finish(at[3], at[4], &sums);
    for (size_t i = 0; i < sums.size(); ++i) Store(s_.type, to, int64_t(i), sums[i]);
  }

 private:
  using Three = std::array<int64_t, 3>;
  static Three Wide(const Dims& list, int64_t one) {
    Three wide{one, one, one};
    for (size_t k = 0; k < list.size(); ++k) wide[3 - list.size() + k] = list[k];
    return wide;
  }
  static int64_t Product(const Three& e) { return e[0] * e[1] * e[2]; }
  template <class F>
  static void Each(const Three& extents, F&& f) {
    Three p;
    for (p[0] = 0; p[0] < extents[0]; ++p[0])
      for (p[1] = 0; p[1] < extents[1]; ++p[1])
        for (p[2] = 0; p[2] < extents[2]; ++p[2]) f(p);
  }
  /// All products of the convolution: where their x, w and y lie.
  template <class F>
  void Visit(F&& f) const {
    const ConvShape& c = s_.shape;
    const int64_t filters = c.filters / c.groups;
    for (int64_t n = 0; n < c.images; ++n)
      for (int64_t m = 0; m < c.filters; ++m)
        Each(out_, [&](const Three& o) {
          Each(kernel_, [&](const Three& k) {
            Three i;
            for (size_t d = 0; d < 3; ++d) {
              i[d] = o[d] * stride_[d] + k[d] * dilation_[d] - begin_[d];
              if (i[d] < 0 || i[d] >= in_[d]) return;
            }
            for (int64_t ch = 0; ch < of_group_; ++ch)
              f(x_.At(n, m / filters * of_group_ + ch, i), w_.At(m, ch, k), y_.At(n, m, o));
          });
        });
  }
  void Finish(const void* bias, const void* addend, std::vector<double>* sums) const {
    for (int64_t n = 0; n < s_.shape.images; ++n)
      for (int64_t m = 0; m < s_.shape.filters; ++m)
        Each(out_, [&](const Three& o) {
          const int64_t i = y_.At(n, m, o);
          double& v = (*sums)[size_t(i)];
          if (s_.bias) v += Load(s_.type, bias, m);
          if (s_.addend) v += Load(s_.type, addend, i);
        });
  }

  const ConvSpec s_;
  Three in_, kernel_, out_, stride_, dilation_, begin_;
  int64_t of_group_;
  View x_, w_, y_;
};

/// The window gives the result its extents, by the formula that cuDNN computes them by.
bool Fits(const WindowShape& w) {
  for (size_t k = 0; k < w.rank(); ++k) {
    const int64_t room = w.in[k] + w.begin[k] + w.end[k] - w.reach(k);
    if (w.begin[k] < 0 || w.end[k] < 0 || room < 0 || room / w.strides[k] + 1 != w.out[k])
      return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<const cuda::LibraryPlan> EmulatedLibraries::Conv(const ConvSpec& spec) {
  const ConvShape& c = spec.shape;
  CHECK(Fits(c.window));
  CHECK(c.window.rank() >= 1);
  CHECK(c.window.rank() <= 3);
  CHECK(c.channels % c.groups == 0);
  CHECK(c.filters % c.groups == 0);
  CHECK(CheckedProduct(c.source(c.images)) > 0);
  CHECK(CheckedProduct(c.result(c.images)) > 0);
  CHECK((spec.type == DType::kF32 || spec.type == DType::kF16 || spec.type == DType::kBF16));
  const bool follows = spec.bias || spec.addend;
  if (follows) CHECK(spec.pass == ConvSpec::Pass::kForward);
  if (refuse || (follows && refuse_epilogues) || (follows && !spec.bias)) return nullptr;
  ++convs;
  convs_followed += follows;
  convs_channels_last += spec.x_layout == Layout::kChannelsLast &&
                         spec.w_layout == Layout::kChannelsLast &&
                         spec.y_layout == Layout::kChannelsLast;
  return std::make_shared<EmulatedPlan>("emulated conv", 5, kWorkspace,
                                        [loops = Loops(spec)](void* const* at, void* workspace) {
                                          std::memset(workspace, 0x5A, size_t(kWorkspace));
                                          loops.Run(at);
                                        });
}

}  // namespace weft::e2e
