/// conv_test.cc: convolutions and their gradients against loops in double precision.
#include <doctest/doctest.h>

#include <thread>

#include "backends/cpu/call_test_util.h"

namespace weft::cpu {
namespace {

struct Setup {
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

Setup Make(Ns x, Ns w, Ns strides = {}, Ns dilations = {}, Ns begin = {}, Ns end = {},
           int64_t group = 1) {
  const size_t rank = x.size() - 2;
  const auto filled = [&](Ns v, int64_t otherwise) { return v.empty() ? Ns(rank, otherwise) : v; };
  return {x,     w, filled(strides, 1), filled(dilations, 1), filled(begin, 0), filled(end, 0),
          group, ""};
}

/// Calls f(flat y, flat x, flat w) for every product of the convolution.
template <class F>
void ForProducts(const Setup& s, F&& f) {
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

std::vector<double> ConvOracle(const Setup& s, const Tensor& x, const Tensor& w,
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

std::vector<Setup> Setups() {
  std::vector<Setup> all{
      Make({2, 3, 11}, {5, 3, 3}),
      Make({1, 1, 9}, {1, 1, 1}),
      Make({2, 32, 40}, {48, 32, 5}, {2}, {3}, {2}, {5}),
      Make({3, 4, 10}, {6, 2, 3}, {1}, {1}, {1}, {1}, 2),
      Make({2, 3, 9, 8}, {8, 3, 3, 3}, {}, {}, {1, 1}, {1, 1}),
      Make({1, 16, 12, 13}, {32, 16, 3, 2}, {2, 3}, {1, 2}, {0, 1}, {2, 0}),
      Make({2, 8, 7, 7}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 8),
      Make({2, 6, 7, 5}, {9, 2, 2, 3}, {2, 1}, {1, 1}, {1, 0}, {0, 1}, 3),
      Make({2, 24, 6, 6}, {20, 24, 1, 1}),
      Make({4, 16, 24, 1}, {32, 16, 5, 1}),
      Make({4, 16, 1, 24}, {32, 16, 1, 5}, {1, 2}, {}, {0, 2}, {0, 2}),
      Make({3, 8, 1, 1}, {5, 8, 1, 1}),
      Make({2, 4, 9, 1}, {6, 4, 3, 1}, {}, {}, {1, 1},
           {1, 1}),  // padding on the axis of extent 1: it stays
      Make({1, 3, 5, 6, 7}, {4, 3, 2, 3, 2}, {1, 2, 1}, {}, {1, 0, 1}, {0, 1, 1}),
      Make({2, 4, 5, 1, 6}, {6, 2, 2, 1, 2}, {}, {2, 1, 1}, {}, {}, 2),
  };
  for (const char* mode : {"SAME_UPPER", "SAME_LOWER", "VALID"}) {
    Setup s = Make({2, 3, 8, 7}, {4, 3, 3, 2}, {2, 3}, {1, 2});
    s.auto_pad = mode;
    all.push_back(s);
  }
  return all;
}

TEST_CASE("conv equals direct sums") {
  int number = 0;
  for (const Setup& s : Setups()) {
    ++number;
    for (const bool bias : {false, true})
      for (const bool constant : {false, true}) {
        CAPTURE(number);
        const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2),
                   b = RandomTensor({s.w[0]}, 3);
        const Case c("Conv", bias ? std::vector<TensorPtr>{x, w, b} : std::vector<TensorPtr>{x, w},
                     s.attrs(), s.out(), {false, constant});
        const auto y = c.Run();
        REQUIRE(y != nullptr);
        CHECK(Difference(*y, ConvOracle(s, *x, *w, bias ? b.get() : nullptr)) < 1e-5);
      }
  }
}

TEST_CASE("gradients of conv equal direct sums") {
  int number = 0;
  for (const Setup& s : Setups()) {
    ++number;
    CAPTURE(number);
    const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2), dy = RandomTensor(s.out(), 3);
    std::vector<double> dx(size_t(x->num_elements()), 0), dw(size_t(w->num_elements()), 0);
    ForProducts(s, [&](int64_t yi, int64_t xi, int64_t wi) {
      const double g = dy->data_as<float>()[yi];
      dx[size_t(xi)] += g * double(w->data_as<float>()[wi]);
      dw[size_t(wi)] += g * double(x->data_as<float>()[xi]);
    });
    for (const bool constant : {false, true}) {
      const auto got =
          Case("weft::ConvGradData", {dy, w, Tensor::Ints(s.x)}, s.attrs(), s.x, {false, constant})
              .Run();
      REQUIRE(got != nullptr);
      CHECK(Difference(*got, dx) < 1e-5);
    }
    const auto got = Case("weft::ConvGradWeight", {dy, x, Tensor::Ints(s.w)}, s.attrs(), s.w).Run();
    REQUIRE(got != nullptr);
    CHECK(Difference(*got, dw) < 2e-5);
  }
}

TEST_CASE("a batch cut into chunks gives what the whole gives") {
  // 2.1 MB an image on each side: several repetitions.
  const Setup s = Make({6, 64, 8192}, {64, 64, 1});
  const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2), b = RandomTensor({64}, 3);
  const auto whole = Case("Conv", {x, w, b}, s.attrs(), s.out(), {false, true}).Run();
  REQUIRE(whole != nullptr);
  for (int64_t n = 0; n < 6; ++n) {
    const int64_t each = 64 * 8192;
    auto one = std::make_shared<Tensor>(DType::kF32, Ns{1, 64, 8192});
    std::copy_n(x->data_as<float>() + n * each, each, one->mutable_data_as<float>());
    const auto y = Case("Conv", {one, w, b}, s.attrs(), {1, 64, 8192}, {false, true}).Run();
    REQUIRE(y != nullptr);
    const float* part = whole->data_as<float>() + n * each;
    CHECK(Difference(*y, std::vector<double>(part, part + each)) < 1e-5);
  }
}

TEST_CASE("empty tensors") {
  const auto w = RandomTensor({4, 3, 3}, 2);
  const auto none = Case("Conv", {RandomTensor({0, 3, 8}, 1), w}, {}, {0, 4, 6}).Run();
  REQUIRE(none != nullptr);
  CHECK(none->num_elements() == 0);
  const auto zeros =
      Case("Conv", {RandomTensor({2, 0, 8}, 1), RandomTensor({4, 0, 3}, 2)}, {}, {2, 4, 6}).Run();
  REQUIRE(zeros != nullptr);
  CHECK(Difference(*zeros, std::vector<double>(48, 0)) == 0);
  const auto dw =
      Case("weft::ConvGradWeight",
           {RandomTensor({0, 4, 6}, 1), RandomTensor({0, 3, 8}, 1), Tensor::Ints({4, 3, 3})}, {},
           {4, 3, 3})
          .Run();
  REQUIRE(dw != nullptr);
  CHECK(Difference(*dw, std::vector<double>(36, 0)) == 0);
}

TEST_CASE("what the library cannot do is refused, not guessed") {
  const auto x = RandomTensor({1, 2, 8}, 1), w = RandomTensor({3, 2, 3}, 2);
  CHECK(Case("Conv", {x, w}, {{"pads", Ints{-1, 0}}}, {1, 3, 5}).Make() == nullptr);
  Case wrong("Conv", {x, w}, {}, {1, 3, 6});
  wrong.request.input_types.assign(2, DType::kF64);
  wrong.request.output_types = {DType::kF64};
  CHECK(wrong.Make() == nullptr);
}

TEST_CASE("one call runs on several threads at once, and packed weights are shared") {
  const Setup s = Make({2, 16, 33}, {32, 16, 3}, {}, {}, {1}, {1});
  const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2);
  const Case c("Conv", {x, w}, s.attrs(), s.out(), {false, true});
  const auto call = c.Make();
  REQUIRE(call != nullptr);
  const auto want = ConvOracle(s, *x, *w, nullptr);
  std::vector<double> worst(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < worst.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) worst[t] = std::max(worst[t], Difference(*c.Run(*call), want));
    });
  for (std::thread& t : threads) t.join();
  for (double d : worst) CHECK(d < 1e-5);
  // The call holds the constant: its value may go away.
  CHECK(w.use_count() > 2);
}

}  // namespace
}  // namespace weft::cpu
