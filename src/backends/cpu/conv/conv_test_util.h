/// conv_test_util.h: convolutions at random extents, and direct sums in double precision
/// to hold them against.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "backends/cpu/util/call_test_util.h"

namespace weft::cpu {

struct ConvSetup {
  Ns x, w;
  Ns strides, dilations, begin, end;
  int64_t group = 1;
  std::string auto_pad;

  size_t rank() const { return x.size() - 2; }
  Ns out() const {
    Ns y{x[0], w[0]};
    for (size_t k = 0; k < rank(); ++k) {
      const int64_t reach = (w[2 + k] - 1) * dilations[k] + 1;
      y.push_back(auto_pad.rfind("SAME", 0) == 0
                      ? (x[2 + k] + strides[k] - 1) / strides[k]
                      : (x[2 + k] + begin[k] + end[k] - reach) / strides[k] + 1);
    }
    return y;
  }
  AttrDict attrs() const {
    AttrDict a{{"strides", Ints(strides)}, {"dilations", Ints(dilations)}, {"group", group}};
    if (auto_pad.empty()) {
      Ns pads = begin;
      pads.insert(pads.end(), end.begin(), end.end());
      a["pads"] = Ints(pads);
    } else {
      a["auto_pad"] = auto_pad;
    }
    return a;
  }
};

inline ConvSetup MakeSetup(Ns x, Ns w, Ns strides = {}, Ns dilations = {}, Ns begin = {},
                           Ns end = {}, int64_t group = 1) {
  const size_t rank = x.size() - 2;
  const auto filled = [&](Ns v, int64_t otherwise) { return v.empty() ? Ns(rank, otherwise) : v; };
  return {x,     w, filled(strides, 1), filled(dilations, 1), filled(begin, 0), filled(end, 0),
          group, ""};
}

/// Calls f(flat y, flat x, flat w) for every product of the convolution.
template <class F>
void ForProducts(const ConvSetup& s, F&& f) {
  const Ns y = s.out();
  Ns begin = s.begin;
  if (!s.auto_pad.empty())
    for (size_t k = 0; k < s.rank(); ++k) {
      const int64_t total = std::max<int64_t>(
          0, (y[2 + k] - 1) * s.strides[k] + (s.w[2 + k] - 1) * s.dilations[k] + 1 - s.x[2 + k]);
      begin[k] = s.auto_pad == "SAME_UPPER"   ? total / 2
                 : s.auto_pad == "SAME_LOWER" ? total - total / 2
                                              : 0;
    }
  Ns o(y.size(), 0);
  const Ns offsets(s.w.begin() + 1, s.w.end());
  do {
    Ns r(offsets.size(), 0);
    do {
      Ns from{o[0], o[1] / (s.w[0] / s.group) * s.w[1] + r[0]}, weight{o[1]};
      weight.insert(weight.end(), r.begin(), r.end());
      bool inside = true;
      for (size_t k = 0; k < s.rank(); ++k) {
        const int64_t p = o[2 + k] * s.strides[k] - begin[k] + r[1 + k] * s.dilations[k];
        inside = inside && p >= 0 && p < s.x[2 + k];
        from.push_back(p);
      }
      if (inside) f(Flat(o, y), Flat(from, s.x), Flat(weight, s.w));
    } while (Next(&r, offsets));
  } while (Next(&o, y));
}

inline std::vector<double> ConvOracle(const ConvSetup& s, const Tensor& x, const Tensor& w,
                                      const Tensor* bias) {
  const Ns y = s.out();
  std::vector<double> out(size_t(CheckedProduct(y)), 0);
  const int64_t plane = CheckedProduct(Ns(y.begin() + 2, y.end()));
  if (bias)
    for (size_t i = 0; i < out.size(); ++i) out[i] = bias->at(int64_t(i) / plane % y[1]);
  ForProducts(s, [&](int64_t yi, int64_t xi, int64_t wi) {
    out[size_t(yi)] += double(x.data_as<float>()[xi]) * double(w.data_as<float>()[wi]);
  });
  return out;
}

/// dx and dW of the sum of y dy.
struct ConvGradients {
  std::vector<double> dx, dw;
};
inline ConvGradients GradientOracle(const ConvSetup& s, const Tensor& x, const Tensor& w,
                                    const Tensor& dy) {
  ConvGradients g{std::vector<double>(size_t(x.num_elements()), 0),
                  std::vector<double>(size_t(w.num_elements()), 0)};
  ForProducts(s, [&](int64_t yi, int64_t xi, int64_t wi) {
    const double d = dy.data_as<float>()[yi];
    g.dx[size_t(xi)] += d * double(w.data_as<float>()[wi]);
    g.dw[size_t(wi)] += d * double(x.data_as<float>()[xi]);
  });
  return g;
}

/// A tensor [n, c, spatial ..] in the order of a layout, and back.
inline std::shared_ptr<Tensor> Reordered(const Tensor& t, bool to_last) {
  const Ns& dims = t.dims();
  const int64_t images = dims[0], channels = dims[1],
                positions = CheckedProduct(Ns(dims.begin() + 2, dims.end()));
  auto out = std::make_shared<Tensor>(DType::kF32, dims);
  for (int64_t n = 0; n < images; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < positions; ++p) {
        const int64_t plain = (n * channels + c) * positions + p,
                      last = (n * positions + p) * channels + c;
        out->mutable_data_as<float>()[to_last ? last : plain] =
            t.data_as<float>()[to_last ? plain : last];
      }
  return out;
}
inline std::shared_ptr<Tensor> Plainly(const Tensor& t, Layout layout) {
  return layout == Layout::kChannelsLast ? Reordered(t, false) : std::make_shared<Tensor>(t);
}
/// Lays the first operands out so, and asks for the result in `result`.
inline Case& WithLayouts(Case* c, std::vector<Layout> operands, Layout result) {
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i] == Layout::kChannelsLast) c->operands[i] = Reordered(*c->operands[i], true);
  c->request.input_layouts = std::move(operands);
  c->request.output_layouts = {result};
  return *c;
}

/// The algorithm of convolutions prepared while it lives.
class ForcedConv {
 public:
  explicit ForcedConv(const char* algorithm) { setenv("WEFT_CONV", algorithm, 1); }
  ~ForcedConv() { unsetenv("WEFT_CONV"); }
};

}  // namespace weft::cpu
