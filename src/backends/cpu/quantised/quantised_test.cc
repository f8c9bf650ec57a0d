/// quantised_test.cc: random networks of 8-bit numbers, as quantisers write them, against the
/// integer definition (src/passes/quantised/quantised.cc) in plain loops, to the last bit.
///
///   WEFT_FUZZ_SEED=7000 WEFT_FUZZ_COUNT=10000 cpu_test -tc='quantised: random*'
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"
#include "weft/support/error.h"

namespace weft::cpu {
namespace {

using Ns = std::vector<int64_t>;

/// 8-bit numbers, or floats, and what they stand for.
struct Value {
  std::string name;  ///< of the node that has the codes, or the floats
  Ns dims;
  std::vector<int64_t> codes;
  std::vector<float> floats;  ///< instead of codes
  bool is_signed = false;
  float scale = 1;
  int64_t zero = 0;

  int64_t at(int64_t i) const { return codes[size_t(i)] - zero; }
  int64_t count() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
};

std::string Joined(const Ns& v) { return fmt::format("{}", fmt::join(v, ", ")); }

/// A graph in text as it grows, and beside it what its values are.
class Network {
 public:
  explicit Network(uint32_t seed) : random_(seed) {}

  int64_t In(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool Coin() { return In(0, 1) != 0; }

  Value Input(Ns dims) {
    Value v = Codes(std::move(dims));
    v.name = Name();
    inputs_ += fmt::format("{}%{}: {}[{}]", inputs_.empty() ? "" : ", ", v.name, Type(v.is_signed),
                           Joined(v.dims));
    fed_.push_back(v);
    return v;
  }
  /// Random codes with a scale and a zero of their own.
  Value Codes(Ns dims) {
    Value v;
    v.dims = std::move(dims);
    v.is_signed = Coin();
    v.scale = Scale();
    v.zero = Coin() ? Zero(v.is_signed) : v.is_signed ? 0 : 128;
    for (int64_t i = 0; i < v.count(); ++i) {
      const int64_t byte = Coin() ? In(0, 255) : Coin() ? 255 : 0;
      v.codes.push_back(v.is_signed ? byte - 128 : byte);
    }
    return v;
  }
  float Scale() { return std::ldexp(float(In(1000, 4000)), int(In(-18, -12))); }
  int64_t Zero(bool is_signed) { return is_signed ? In(-128, 127) : In(0, 255); }

  std::string Constant(const char* type, const Ns& dims, const std::vector<double>& values) {
    std::string text;
    for (double v : values)
      text +=
          fmt::format("{}{}", text.empty() ? "" : ", ",
                      type[0] == 'f' ? fmt::format("{:.9e}", v) : fmt::format("{}", int64_t(v)));
    return Add(fmt::format("Constant() {{value = tensor {}[{}] [{}]}}", type, Joined(dims), text));
  }
  std::string Numbers(bool is_signed, const Ns& dims, const Ns& values) {
    return Constant(Type(is_signed), dims, std::vector<double>(values.begin(), values.end()));
  }
  static const char* Type(bool is_signed) { return is_signed ? "i8" : "u8"; }

  std::string Dequantised(const Value& v) {
    return Add(fmt::format("DequantizeLinear(%{}, %{}, %{})", v.name,
                           Constant("f32", {}, {double(v.scale)}),
                           Numbers(v.is_signed, {}, {v.zero})));
  }
  std::string Add(const std::string& node) {
    const std::string name = Name();
    body_ += fmt::format("  %{} = {} : ?\n", name, node);
    return name;
  }
  void Return(const Value& v) { results_.push_back(v); }

  std::string text() const {
    std::string outputs;
    for (const Value& v : results_)
      outputs += fmt::format("{}%{}", outputs.empty() ? "" : ", ", v.name);
    return fmt::format("weft 1\ngraph ({}) -> ({}) {{\n{}}}\n", inputs_, outputs, body_);
  }
  std::vector<TensorPtr> fed() const {
    std::vector<TensorPtr> all;
    for (const Value& v : fed_) {
      auto t = std::make_shared<Tensor>(v.is_signed ? DType::kI8 : DType::kU8, v.dims);
      for (int64_t i = 0; i < v.count(); ++i) t->set_int(i, v.codes[size_t(i)]);
      all.push_back(t);
    }
    return all;
  }
  const std::vector<Value>& results() const { return results_; }

 private:
  std::string Name() { return fmt::format("v{}", names_++); }

  std::mt19937 random_;
  std::string inputs_, body_;
  std::vector<Value> fed_, results_;
  int names_ = 0;
};

/// Scales, zeros and codes of weights: one scale, or one a filter.
struct Weights {
  Value all;
  std::vector<float> scale;
  Ns zero;
  float scale_of(int64_t m) const { return scale[scale.size() == 1 ? 0 : size_t(m)]; }
  int64_t zero_of(int64_t m) const { return zero[zero.size() == 1 ? 0 : size_t(m)]; }
};
Weights MakeWeights(Network& net, Ns dims, int64_t filters) {
  Weights w;
  w.all = net.Codes(std::move(dims));
  const size_t n = net.Coin() ? 1 : size_t(filters);
  for (size_t i = 0; i < n; ++i) {
    w.scale.push_back(net.Scale());
    w.zero.push_back(net.In(0, 3) ? w.all.is_signed ? 0 : 128 : net.Zero(w.all.is_signed));
  }
  w.all.name = net.Numbers(w.all.is_signed, w.all.dims, w.all.codes);
  return w;
}
std::string ScalesOf(Network& net, const Weights& w) {
  return net.Constant("f32", w.scale.size() == 1 ? Ns{} : Ns{int64_t(w.scale.size())},
                      std::vector<double>(w.scale.begin(), w.scale.end()));
}
std::string ZerosOf(Network& net, const Weights& w) {
  return net.Numbers(w.all.is_signed, w.zero.size() == 1 ? Ns{} : Ns{int64_t(w.zero.size())},
                     w.zero);
}

/// What is added to sums: integers, or floats.
struct Bias {
  std::vector<int64_t> whole;
  std::vector<float> floats;
};

float Product(float a, float b) {
  const volatile float p = a * b;
  return p;
}
float Quotient(float a, float b) {
  const volatile float q = a / b;
  return q;
}
float Sum(float a, float b) {
  const volatile float s = a + b;
  return s;
}
int64_t Saturated(double v, bool is_signed) {
  return int64_t(std::clamp(v, is_signed ? -128.0 : 0.0, is_signed ? 127.0 : 255.0));
}
/// QuantizeLinear of a number.
int64_t Quantised(float v, float scale, int64_t zero, bool is_signed) {
  return Saturated(double(std::nearbyintf(Quotient(v, scale))) + double(zero), is_signed);
}

/// A product or convolution, its sums at hand: what the network makes of them.
struct Sums {
  Ns dims;
  std::vector<int64_t> sums;     ///< without bias
  std::vector<int64_t> filters;  ///< of each sum
  float x_scale = 1;
};

Sums ConvSums(const Value& x, const Weights& w, const Ns& strides, const Ns& pads,
              const Ns& dilations, int64_t group) {
  const Ns &xd = x.dims, &wd = w.all.dims;
  const auto out = [&](size_t k) {
    return (xd[2 + k] + pads[k] + pads[2 + k] - (wd[2 + k] - 1) * dilations[k] - 1) / strides[k] +
           1;
  };
  Sums s{{xd[0], wd[0], out(0), out(1)}, {}, {}, x.scale};
  for (int64_t n = 0; n < xd[0]; ++n)
    for (int64_t m = 0; m < wd[0]; ++m)
      for (int64_t i = 0; i < s.dims[2]; ++i)
        for (int64_t j = 0; j < s.dims[3]; ++j) {
          int64_t sum = 0;
          for (int64_t c = 0; c < wd[1]; ++c)
            for (int64_t u = 0; u < wd[2]; ++u)
              for (int64_t v = 0; v < wd[3]; ++v) {
                const int64_t h = i * strides[0] - pads[0] + u * dilations[0],
                              l = j * strides[1] - pads[1] + v * dilations[1];
                if (h < 0 || h >= xd[2] || l < 0 || l >= xd[3]) continue;
                const int64_t channel = m / (wd[0] / group) * wd[1] + c;
                sum +=
                    x.at(((n * xd[1] + channel) * xd[2] + h) * xd[3] + l) *
                    (w.all.codes[size_t(((m * wd[1] + c) * wd[2] + u) * wd[3] + v)] - w.zero_of(m));
              }
          s.sums.push_back(sum);
          s.filters.push_back(m);
        }
  return s;
}
/// [.., m, k] by [k, n], or by [n, k] as `turned` says.
Sums ProductSums(const Value& x, const Weights& w, bool turned) {
  const int64_t k = x.dims.back(), n = w.all.dims[turned ? 0 : 1], rows = x.count() / k;
  Sums s{x.dims, {}, {}, x.scale};
  s.dims.back() = n;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) {
      int64_t sum = 0;
      for (int64_t t = 0; t < k; ++t)
        sum +=
            x.at(i * k + t) * (w.all.codes[size_t(turned ? j * k + t : t * n + j)] - w.zero_of(j));
      s.sums.push_back(sum);
      s.filters.push_back(j);
    }
  return s;
}

/// The rest of a layer behind the float product `y`: bounds and rounding, or nothing.
Value Finished(Network& net, const Sums& s, const Weights& w, const Bias& b, std::string y,
               bool rounds, float alpha = 1) {
  Value v;
  v.dims = s.dims;
  const auto with_bias = [&](size_t i) {
    const int64_t bias = b.whole.empty() ? 0 : b.whole[size_t(s.filters[i])];
    return float(int32_t(uint32_t(uint64_t(s.sums[i] + bias))));
  };
  const auto scale = [&](size_t i) {
    const float p = Product(s.x_scale, w.scale_of(s.filters[i]));
    return alpha == 1 ? p : Product(p, alpha);
  };
  if (!rounds) {
    for (size_t i = 0; i < s.sums.size(); ++i) {
      const float f = Product(with_bias(i), scale(i));
      v.floats.push_back(b.floats.empty() ? f : Sum(f, b.floats[size_t(s.filters[i])]));
    }
    v.name = y;
    return v;
  }
  v.is_signed = net.Coin();
  v.zero = net.Zero(v.is_signed);
  // So that most results are neither of the bounds.
  double most = 1;
  for (size_t i = 0; i < s.sums.size(); ++i)
    most = std::max(most, std::fabs(double(with_bias(i))) * double(scale(i)));
  v.scale = float(most / double(net.In(60, 300)));
  const int bound = int(net.In(0, 3));
  float low = -INFINITY, high = INFINITY;
  if (bound == 1) {
    y = net.Add(fmt::format("Relu(%{})", y));
    low = 0;
  } else if (bound == 2) {
    low = -v.scale * float(net.In(1, 20));
    high = v.scale * (float(net.In(0, 400)) * 0.25f);
    y = net.Add(fmt::format("Clip(%{}, %{}, %{})", y, net.Constant("f32", {}, {double(low)}),
                            net.Constant("f32", {}, {double(high)})));
  }
  for (size_t i = 0; i < s.sums.size(); ++i) {
    float f = Product(with_bias(i), Quotient(scale(i), v.scale));
    if (!b.floats.empty()) f = Sum(f, Quotient(b.floats[size_t(s.filters[i])], v.scale));
    int64_t q = Saturated(double(std::nearbyintf(f)) + double(v.zero), v.is_signed);
    if (std::isfinite(low)) q = std::max(q, Quantised(low, v.scale, v.zero, v.is_signed));
    if (std::isfinite(high)) q = std::min(q, Quantised(high, v.scale, v.zero, v.is_signed));
    v.codes.push_back(q);
  }
  v.name = net.Add(fmt::format("QuantizeLinear(%{}, %{}, %{})", y,
                               net.Constant("f32", {}, {double(v.scale)}),
                               net.Numbers(v.is_signed, {}, {v.zero})));
  return v;
}

/// A bias for `n` filters, and its operand in floats; empty: none.
std::string MakeBias(Network& net, const Value& x, const Weights& w, int64_t n, Bias* b,
                     float alpha = 1) {
  const int64_t kind = net.In(0, 2);
  if (kind == 0) return {};
  std::vector<double> values;
  for (int64_t m = 0; m < n; ++m) {
    if (kind == 1) {
      b->whole.push_back(net.In(-3000, 3000));
      values.push_back(double(b->whole.back()));
    } else {
      b->floats.push_back(Product(float(net.In(-500, 500)), Product(x.scale, w.scale_of(m))));
      values.push_back(double(b->floats.back()));
    }
  }
  if (kind == 2) return net.Constant("f32", {n}, values);
  std::vector<double> scales;
  for (size_t i = 0; i < w.scale.size(); ++i) {
    const float p = Product(x.scale, w.scale[i]);
    scales.push_back(double(alpha == 1 ? p : Product(p, alpha)));
  }
  return net.Add(fmt::format(
      "DequantizeLinear(%{}, %{}) {{axis = 0}}", net.Constant("i32", {n}, values),
      net.Constant("f32", scales.size() == 1 ? Ns{} : Ns{int64_t(scales.size())}, scales)));
}

std::string Dequantised(Network& net, const Weights& w, int64_t axis) {
  const std::string scales = ScalesOf(net, w), zeros = ZerosOf(net, w);
  return net.Add(fmt::format("DequantizeLinear(%{}, %{}, %{}) {{axis = {}}}", w.all.name, scales,
                             zeros, axis));
}

struct Window {
  Ns strides, pads, dilations;
  int64_t group = 1;
  std::string text() const {
    return fmt::format("{{strides = [{}], pads = [{}], dilations = [{}], group = {}}}",
                       Joined(strides), Joined(pads), Joined(dilations), group);
  }
};
/// Fits [n, c, h, w]; `kernel` is made with it.
Window MakeWindow(Network& net, const Value& x, Ns* kernel) {
  Window w;
  for (size_t k = 0; k < 2; ++k) {
    (*kernel)[2 + k] = std::min<int64_t>(net.In(1, 3), x.dims[2 + k]);
    w.strides.push_back(net.In(1, 2));
    w.dilations.push_back((*kernel)[2 + k] == 3 && x.dims[2 + k] >= 5 ? net.In(1, 2) : 1);
  }
  for (int k = 0; k < 4; ++k) w.pads.push_back(net.In(0, 1) * net.In(0, 2));
  const int64_t c = x.dims[1];
  w.group = net.In(0, 2) == 0 ? c : net.In(0, 2) == 0 && c % 2 == 0 ? 2 : 1;
  const int64_t each = c == w.group && net.Coin() ? 1 : net.In(1, c > 20 ? 3 : 9);
  (*kernel)[0] = w.group == 1 ? net.In(1, 70) : each * w.group;
  (*kernel)[1] = c / w.group;
  return w;
}

Value ConvLayer(Network& net, const Value& x, bool rounds) {
  Ns kernel(4, 1);
  const Window window = MakeWindow(net, x, &kernel);
  const Weights w = MakeWeights(net, kernel, kernel[0]);
  Bias b;
  const std::string bias = MakeBias(net, x, w, kernel[0], &b);
  const std::string xf = net.Dequantised(x), wf = Dequantised(net, w, 0);
  const std::string y = net.Add(
      fmt::format("Conv(%{}, %{}{}) {}", xf, wf, bias.empty() ? "" : ", %" + bias, window.text()));
  return Finished(net, ConvSums(x, w, window.strides, window.pads, window.dilations, window.group),
                  w, b, y, rounds);
}

Value QLinearConvLayer(Network& net, const Value& x) {
  Ns kernel(4, 1);
  const Window window = MakeWindow(net, x, &kernel);
  const Weights w = MakeWeights(net, kernel, kernel[0]);
  Bias b;
  std::vector<double> values;
  for (int64_t m = 0; m < kernel[0]; ++m) {
    b.whole.push_back(net.In(-3000, 3000));
    values.push_back(double(b.whole.back()));
  }
  const Sums s = ConvSums(x, w, window.strides, window.pads, window.dilations, window.group);
  Value v;
  v.dims = s.dims;
  v.is_signed = net.Coin();
  v.zero = net.Zero(v.is_signed);
  v.scale = net.Scale() * 100;
  for (size_t i = 0; i < s.sums.size(); ++i) {
    const int64_t m = s.filters[i];
    const float f = Product(float(int32_t(s.sums[i] + b.whole[size_t(m)])),
                            Quotient(Product(x.scale, w.scale_of(m)), v.scale));
    v.codes.push_back(Saturated(double(std::nearbyintf(f)) + double(v.zero), v.is_signed));
  }
  const auto one = [&](float f) { return net.Constant("f32", {}, {double(f)}); };
  const std::string xs = one(x.scale), xz = net.Numbers(x.is_signed, {}, {x.zero}),
                    ws = ScalesOf(net, w), wz = ZerosOf(net, w), ys = one(v.scale),
                    yz = net.Numbers(v.is_signed, {}, {v.zero}),
                    bias = net.Constant("i32", {kernel[0]}, values);
  v.name = net.Add(fmt::format("QLinearConv(%{}, %{}, %{}, %{}, %{}, %{}, %{}, %{}, %{}) {}",
                               x.name, xs, xz, w.all.name, ws, wz, ys, yz, bias, window.text()));
  return v;
}

Value ProductLayer(Network& net, const Value& x, bool rounds) {
  const int64_t k = x.dims.back(), n = net.In(1, 90);
  const bool gemm = x.dims.size() == 2 && net.Coin(), turned = gemm && net.Coin();
  const float alpha = gemm && net.Coin() ? 0.75f : 1;
  const Weights w = MakeWeights(net, turned ? Ns{n, k} : Ns{k, n}, n);
  Bias b;
  const std::string xf = net.Dequantised(x), wf = Dequantised(net, w, turned ? 0 : 1);
  const Sums s = ProductSums(x, w, turned);
  if (gemm) {
    const std::string bias = MakeBias(net, x, w, n, &b, alpha);
    const std::string y = net.Add(fmt::format("Gemm(%{}, %{}{}) {{transB = {}, alpha = {}}}", xf,
                                              wf, bias.empty() ? "" : ", %" + bias, int(turned),
                                              alpha == 1 ? "1.0" : "0.75"));
    return Finished(net, s, w, b, y, rounds, alpha);
  }
  std::string y = net.Add(fmt::format("MatMul(%{}, %{})", xf, wf));
  if (rounds && net.Coin()) {
    std::vector<double> row;
    for (int64_t j = 0; j < n; ++j) {
      b.floats.push_back(Product(float(net.In(-500, 500)), Product(x.scale, w.scale_of(j))));
      row.push_back(double(b.floats.back()));
    }
    y = net.Add(fmt::format("Add(%{}, %{})", y, net.Constant("f32", {n}, row)));
  }
  return Finished(net, s, w, b, y, rounds);
}

/// As dynamic quantisation leaves it: MatMulInteger, Cast, Mul, Add.
Value IntegerLayer(Network& net, const Value& x) {
  const int64_t k = x.dims.back(), n = net.In(1, 90);
  const Weights w = MakeWeights(net, {k, n}, n);
  const Sums s = ProductSums(x, w, false);
  const std::string zero = net.Numbers(x.is_signed, {}, {x.zero}), zeros = ZerosOf(net, w);
  std::string y =
      net.Add(fmt::format("MatMulInteger(%{}, %{}, %{}, %{})", x.name, w.all.name, zero, zeros));
  Value v;
  v.dims = s.dims;
  const bool added = net.Coin();
  std::vector<double> scales, row;
  std::vector<float> factor, offset;
  for (int64_t j = 0; j < n; ++j) {
    factor.push_back(Product(x.scale, w.scale_of(j)));
    offset.push_back(float(net.In(-1000, 1000)) * 0.125f);
    if (j == 0 || w.scale.size() > 1) scales.push_back(double(factor.back()));
    row.push_back(double(offset.back()));
  }
  y = net.Add(fmt::format("Cast(%{}) {{to = f32}}", y));
  y = net.Add(
      fmt::format("Mul(%{}, %{})", y, net.Constant("f32", {int64_t(scales.size())}, scales)));
  if (added) y = net.Add(fmt::format("Add(%{}, %{})", y, net.Constant("f32", {n}, row)));
  v.name = y;
  for (size_t i = 0; i < s.sums.size(); ++i) {
    const auto j = size_t(s.filters[i]);
    const float f = Product(float(s.sums[i]), factor[j]);
    v.floats.push_back(added ? Sum(f, offset[j]) : f);
  }
  return v;
}

/// Of two results of the same shape, a sum that is rounded again.
Value AddLayer(Network& net, const Value& a, const Value& b) {
  Value v = a;
  v.is_signed = net.Coin();
  v.zero = net.Zero(v.is_signed);
  v.scale = (a.scale + b.scale) * 0.7f;
  const std::string x = net.Dequantised(a), y = net.Dequantised(b);
  const std::string sum = net.Add(fmt::format("Add(%{}, %{})", x, y));
  v.name = net.Add(fmt::format("QuantizeLinear(%{}, %{}, %{})", sum,
                               net.Constant("f32", {}, {double(v.scale)}),
                               net.Numbers(v.is_signed, {}, {v.zero})));
  for (size_t i = 0; i < v.codes.size(); ++i) {
    const auto at = int64_t(i);
    v.codes[i] =
        Quantised(Sum(Product(float(a.at(at)), a.scale), Product(float(b.at(at)), b.scale)),
                  v.scale, v.zero, v.is_signed);
  }
  return v;
}

void MakeNetwork(Network& net) {
  const int64_t kind = net.In(0, 9);
  if (kind < 6) {  // convolutions one behind the other, the last one perhaps in floats
    Value x = net.Input(
        {net.In(1, 2), kind == 0 ? 3 : net.In(1, 4) * net.In(1, 17), net.In(1, 9), net.In(1, 9)});
    for (int64_t layers = net.In(1, 3); layers > 0 && x.floats.empty(); --layers) {
      const Value before = x;
      const bool rounds = layers > 1 || net.Coin();
      x = net.In(0, 3) == 0 ? QLinearConvLayer(net, x) : ConvLayer(net, x, rounds);
      if (x.floats.empty() && x.dims == before.dims) x = AddLayer(net, x, before);
    }
    net.Return(x);
    return;
  }
  const int64_t k = net.In(0, 4) ? net.In(1, 70) : 4 * net.In(1, 80);
  const Value x = net.Input(net.Coin() ? Ns{net.In(1, 30), k} : Ns{2, net.In(1, 9), k});
  if (kind == 6) return net.Return(IntegerLayer(net, x));
  const Value y = ProductLayer(net, x, kind != 7);
  net.Return(y.floats.empty() && net.Coin() ? ProductLayer(net, y, net.Coin()) : y);
}

int64_t FuzzNumber(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

void CheckNetwork(uint32_t seed) {
  Network net(seed);
  MakeNetwork(net);
  const std::string text = net.text();
  CAPTURE(seed);
  CAPTURE(text);
  const Graph g = ParseGraph(text);
  CompileOptions how;
  how.backend = "cpu";
  const auto program = Compile(g, how);
  const std::vector<TensorPtr> y = Session(program).Run(net.fed());
  REQUIRE(y.size() == net.results().size());
  for (size_t k = 0; k < y.size(); ++k) {
    const Value& want = net.results()[k];
    REQUIRE(y[k]->dims() == want.dims);
    int64_t wrong = 0;
    for (int64_t i = 0; i < want.count(); ++i)
      wrong += want.floats.empty() ? y[k]->at_int(i) != want.codes[size_t(i)]
                                   : y[k]->data_as<float>()[i] != want.floats[size_t(i)];
    CHECK(wrong == 0);
  }
  // And it is integers that did it.
  PassOptions options;
  options.target = "cpu";
  const Graph done = ApplyPasses(g, "InferType,InferShape,Quantised", options);
  for (const NodePtr& n : done.TopoOrder())
    for (const char* op : {"Conv", "Gemm", "MatMul", "QLinearConv", "MatMulInteger"})
      CHECK(!(!n->is_variable() && IsOp(n, op)));
}

TEST_CASE("quantised: random networks are the integer definition to the last bit") {
  const int64_t first = FuzzNumber("WEFT_FUZZ_SEED", 0),
                count = FuzzNumber("WEFT_FUZZ_COUNT", 1000);
  for (int64_t i = 0; i < count; ++i) CheckNetwork(uint32_t(first + i));
}

}  // namespace
}  // namespace weft::cpu
