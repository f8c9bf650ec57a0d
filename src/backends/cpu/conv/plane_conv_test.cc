/// plane_conv_test.cc: convolutions and transposed ones on planes against direct
/// sums in double precision.
#include "plane_conv.h"

#include <doctest/doctest.h>

#include "conv_test_util.h"
#include "plane_deconv.h"
#include "plane_sums.h"

namespace weft::cpu {
namespace {

std::vector<ConvSetup> Setups() {
  return {
      // Every number of filters and of vectors in a block, with rests; rows for one
      // block and one more.
      MakeSetup({1, 2, 7, 70}, {11, 2, 3, 3}, {}, {}, {1, 1}, {1, 1}),
      MakeSetup({1, 3, 9, 33}, {2, 3, 5, 3}, {}, {}, {2, 1}, {2, 1}),
      MakeSetup({2, 1, 6, 16}, {3, 1, 2, 2}),
      MakeSetup({1, 5, 5, 64}, {1, 5, 1, 1}),
      MakeSetup({1, 2, 4, 130}, {4, 2, 1, 7}, {}, {}, {0, 3}, {0, 3}),
      // Strides, also larger than the window; uneven padding; dilations.
      MakeSetup({1, 3, 19, 67}, {5, 3, 3, 3}, {2, 2}, {}, {1, 1}, {0, 1}),
      MakeSetup({1, 3, 10, 40}, {4, 3, 2, 2}, {3, 3}, {}, {0, 2}, {1, 1}),
      MakeSetup({1, 2, 11, 50}, {3, 2, 3, 4}, {1, 2}, {3, 3}, {3, 4}, {3, 5}),
      MakeSetup({1, 2, 3, 4}, {2, 2, 1, 1}, {}, {}, {2, 20}, {0, 3}),
      // Groups: depthwise, several filters of one channel, several channels.
      MakeSetup({2, 9, 8, 20}, {9, 1, 3, 3}, {}, {2, 2}, {2, 2}, {2, 2}, 9),
      MakeSetup({1, 6, 8, 20}, {18, 1, 5, 5}, {2, 2}, {}, {2, 2}, {2, 2}, 6),
      MakeSetup({3, 8, 5, 21}, {12, 2, 3, 3}, {}, {}, {1, 1}, {1, 1}, 4),
      MakeSetup({1, 6, 40}, {6, 1, 9}, {}, {}, {4}, {4}, 6),
      MakeSetup({1, 4, 100}, {2, 2, 5}, {2}, {4}, {3}, {0}, 2),
      MakeSetup({1, 2, 4, 5, 18}, {3, 2, 3, 2, 3}, {2, 1, 1}, {1, 2, 1}, {1, 1, 1}, {1, 0, 1}),
      MakeSetup({1, 4, 4, 4, 17}, {4, 1, 3, 3, 3}, {}, {}, {1, 1, 1}, {1, 1, 1}, 4),
  };
}

ConvShape ShapeOf(const ConvSetup& s) {
  const Ns y = s.out();
  const auto tail = [](const Ns& d) { return Ns(d.begin() + 2, d.end()); };
  ConvShape c;
  c.images = s.x[0];
  c.channels = s.x[1];
  c.filters = s.w[0];
  c.groups = s.group;
  c.window = {tail(s.x), tail(s.w), tail(y), s.strides, s.dilations, s.begin, s.end};
  return c;
}

TEST_CASE("convolution on planes equals direct sums") {
  if (!PlaneConv::Possible()) return;
  int number = 0;
  for (const ConvSetup& s : Setups())
    for (const int threads : {1, 2, 7})
      for (const bool bias : {false, true}) {
        CAPTURE(number++ / 6);
        const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2),
                   b = RandomTensor({s.w[0]}, 3);
        const PlaneConv conv(ShapeOf(s), threads);
        // Whatever is in the scratch, and nothing behind the result.
        std::vector<float> scratch(size_t(conv.scratch_floats()), NAN);
        std::vector<float> made(size_t(CheckedProduct(s.out())) + 64, 7);
        const ScopedThreads team(threads);
        conv.Run(x->data_as<float>(), w->data_as<float>(), bias ? b->data_as<float>() : nullptr,
                 made.data(), scratch.data());
        Tensor y(DType::kF32, s.out());
        std::copy_n(made.begin(), y.num_elements(), y.mutable_data_as<float>());
        CHECK(Difference(y, ConvOracle(s, *x, *w, bias ? b.get() : nullptr)) < 1e-5);
        CHECK(std::count(made.end() - 64, made.end(), 7.f) == 64);
      }
}

/// Of a convolution: what its input would have to be for y, as its transpose makes it.
std::vector<double> TransposeOracle(const ConvSetup& s, const Tensor& y, const Tensor& w,
                                    const Tensor* bias) {
  std::vector<double> x = GradientOracle(s, Tensor(DType::kF32, s.x), w, y).dx;
  const int64_t plane = CheckedProduct(Ns(s.x.begin() + 2, s.x.end()));
  for (size_t i = 0; bias && i < x.size(); ++i) x[i] += bias->at(int64_t(i) / plane % s.x[1]);
  return x;
}

TEST_CASE("transposed convolution on planes equals the gradient of direct sums") {
  if (!HasPlaneSums()) return;
  int number = 0;
  for (const ConvSetup& s : Setups())
    for (const int threads : {1, 2, 7})
      for (const bool constant : {false, true}) {
        CAPTURE(number++ / 6);
        const Ns from = s.out();
        const auto y = RandomTensor(from, 1), w = RandomTensor(s.w, 2),
                   b = RandomTensor({s.x[1]}, 3);
        const PlaneDeconv deconv(from, s.w, s.group, ShapeOf(s).window, constant,
                                 constant ? w : nullptr, threads);
        std::vector<float> scratch(size_t(deconv.scratch_bytes()) / sizeof(float), NAN);
        std::vector<float> made(size_t(CheckedProduct(s.x)) + 64, 7);
        const void* inputs[] = {y->data(), w->data(), b->data()};
        void* outputs[] = {made.data()};
        deconv.Run(inputs, outputs, scratch.data());
        Tensor x(DType::kF32, s.x);
        std::copy_n(made.begin(), x.num_elements(), x.mutable_data_as<float>());
        CHECK(Difference(x, TransposeOracle(s, *y, *w, constant ? b.get() : nullptr)) < 1e-5);
        CHECK(std::count(made.end() - 64, made.end(), 7.f) == 64);
      }
}

TEST_CASE("convolution on planes of tensors whose channels lie last") {
  if (!PlaneConv::Possible()) return;
  const ConvSetup s = MakeSetup({2, 24, 100}, {24, 1, 31}, {}, {}, {15}, {15}, 24);
  const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2), b = RandomTensor({24}, 3);
  for (const Layout from : {Layout::kPlain, Layout::kChannelsLast})
    for (const Layout to : {Layout::kPlain, Layout::kChannelsLast}) {
      Case c("Conv", {x, w, b}, s.attrs(), s.out());
      const auto y = WithLayouts(&c, {from}, to).Run();
      REQUIRE(y);
      CHECK(Difference(*Plainly(*y, to), ConvOracle(s, *x, *w, b.get())) < 1e-5);
    }
}

TEST_CASE("planes are for few channels or filters") {
  if (!PlaneConv::Possible()) return;
  const auto pays = [](const ConvSetup& s) {
    return PlaneConv::Pays(ShapeOf(s), Layout::kPlain, Layout::kPlain);
  };
  CHECK(pays(MakeSetup({1, 1, 224, 224}, {8, 1, 3, 3}, {}, {}, {1, 1}, {1, 1})));
  CHECK(pays(MakeSetup({1, 256, 1000}, {256, 1, 31}, {}, {}, {15}, {15}, 256)));
  CHECK(!pays(MakeSetup({1, 64, 56, 56}, {64, 64, 3, 3}, {}, {}, {1, 1}, {1, 1})));
  CHECK(!pays(MakeSetup({1, 64, 56, 56}, {256, 64, 1, 1})));
  CHECK(!pays(MakeSetup({1, 256, 7, 7}, {256, 256, 3, 3}, {}, {}, {1, 1}, {1, 1})));
}

TEST_CASE("what becomes of a convolution whose tensors lie plain") {
  if (!PlaneConv::Possible()) return;
  const auto how = [](const ConvSetup& s, Layout layout) {
    Case c("Conv", {RandomTensor(s.x, 1), RandomTensor(s.w, 2)}, s.attrs(), s.out(), {false, true});
    const auto call = WithLayouts(&c, {layout}, layout).Make();
    return call ? call->description() : "nothing";
  };
  const ConvSetup few = MakeSetup({1, 1, 64, 64}, {4, 1, 3, 3}),
                  product = MakeSetup({1, 32, 32, 32}, {64, 32, 1, 1}),
                  grouped = MakeSetup({1, 60, 20, 20}, {60, 30, 3, 3}, {}, {}, {}, {}, 2);
  // oneDNN has no code for these but by products of matrices.
  const ConvSetup row = MakeSetup({1, 64, 500}, {64, 1, 15}, {}, {}, {7}, {7}, 64);
  CHECK(how(row, Layout::kPlain) == "conv of planes");
  CHECK(how(row, Layout::kChannelsLast) == "conv of planes");
  CHECK(how(few, Layout::kPlain) == "conv of planes");
  CHECK(how(few, Layout::kChannelsLast).find("planes") == std::string::npos);
  CHECK(how(product, Layout::kPlain).find("gemm") != std::string::npos);
  CHECK(how(product, Layout::kChannelsLast).find("gemm") == std::string::npos);
  CHECK(how(grouped, Layout::kPlain).find("gemm") == std::string::npos);
}

}  // namespace
}  // namespace weft::cpu
