/// conv_test.cc: convolutions and their gradients against loops in double precision.
#include <doctest/doctest.h>

#include <thread>

#include "conv_test_util.h"

namespace weft::cpu {
namespace {

std::vector<ConvSetup> Setups() {
  std::vector<ConvSetup> all{
      MakeSetup({2, 3, 11}, {5, 3, 3}),
      MakeSetup({1, 1, 9}, {1, 1, 1}),
      MakeSetup({2, 32, 40}, {48, 32, 5}, {2}, {3}, {2}, {5}),
      MakeSetup({3, 4, 10}, {6, 2, 3}, {1}, {1}, {1}, {1}, 2),
      MakeSetup({2, 3, 9, 8}, {8, 3, 3, 3}, {}, {}, {1, 1}, {1, 1}),
      MakeSetup({1, 16, 12, 13}, {32, 16, 3, 2}, {2, 3}, {1, 2}, {0, 1}, {2, 0}),
      MakeSetup({2, 8, 7, 7}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 8),
      MakeSetup({2, 6, 7, 5}, {9, 2, 2, 3}, {2, 1}, {1, 1}, {1, 0}, {0, 1}, 3),
      MakeSetup({2, 24, 6, 6}, {20, 24, 1, 1}),
      MakeSetup({4, 16, 24, 1}, {32, 16, 5, 1}),
      MakeSetup({4, 16, 1, 24}, {32, 16, 1, 5}, {1, 2}, {}, {0, 2}, {0, 2}),
      MakeSetup({3, 8, 1, 1}, {5, 8, 1, 1}),
      MakeSetup({2, 4, 9, 1}, {6, 4, 3, 1}, {}, {}, {1, 1},
                {1, 1}),  // padding on the axis of extent 1: it stays
      MakeSetup({1, 3, 5, 6, 7}, {4, 3, 2, 3, 2}, {1, 2, 1}, {}, {1, 0, 1}, {0, 1, 1}),
      MakeSetup({2, 4, 5, 1, 6}, {6, 2, 2, 1, 2}, {}, {2, 1, 1}, {}, {}, 2),
      // Products of matrices as they lie; groups that do not fill blocks of channels.
      MakeSetup({2, 17, 15, 18}, {33, 17, 1, 1}),
      MakeSetup({1, 40, 16, 16}, {36, 20, 1, 1}, {}, {}, {}, {}, 2),
      MakeSetup({2, 60, 7, 6}, {60, 30, 3, 3}, {}, {}, {1, 1}, {1, 1}, 2),
  };
  for (const char* mode : {"SAME_UPPER", "SAME_LOWER", "VALID"}) {
    ConvSetup s = MakeSetup({2, 3, 8, 7}, {4, 3, 3, 2}, {2, 3}, {1, 2});
    s.auto_pad = mode;
    all.push_back(s);
  }
  return all;
}

TEST_CASE("conv equals direct sums") {
  int number = 0;
  for (const ConvSetup& s : Setups()) {
    ++number;
    for (const char* algorithm : {"model", "direct"})
      for (const int which : {0, 1, 2, 3}) {
        const bool bias = which % 2 != 0, constant = which / 2 != 0;
        const ForcedConv forced(algorithm);
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
  for (const ConvSetup& s : Setups()) {
    ++number;
    CAPTURE(number);
    const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2), dy = RandomTensor(s.out(), 3);
    const auto [dx, dw] = GradientOracle(s, *x, *w, *dy);
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

TEST_CASE("gradients of strided 1 x 1 weights, channels last, stay in their scratch") {
  for (const int64_t channels : {1, 3, 8, 15, 16, 20})
    for (const int64_t filters : {1, 8, 24})
      for (const Ns& extents : {Ns{56}, Ns{9, 33}}) {
        CAPTURE(channels);
        CAPTURE(filters);
        const size_t rank = extents.size();
        Ns dims{3, channels}, w_dims{filters, channels};
        dims.insert(dims.end(), extents.begin(), extents.end());
        w_dims.resize(2 + rank, 1);
        const ConvSetup s = MakeSetup(dims, w_dims, Ns(rank, 2));
        const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2),
                   dy = RandomTensor(s.out(), 3);
        Case c("weft::ConvGradWeight", {dy, x, Tensor::Ints(s.w)}, s.attrs(), s.w);
        WithLayouts(&c, {Layout::kChannelsLast, Layout::kChannelsLast}, Layout::kPlain);
        const auto got = c.Run();
        REQUIRE(got != nullptr);
        CHECK(Difference(*got, GradientOracle(s, *x, *w, *dy).dw) < 2e-5);
      }
}

TEST_CASE("a batch cut into chunks gives what the whole gives") {
  // 2.1 MB an image on each side: several repetitions.
  const ConvSetup s = MakeSetup({6, 64, 8192}, {64, 64, 1});
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

TEST_CASE("constant weights below the normal range change nothing that f32 shows") {
  const ConvSetup s = MakeSetup({1, 32, 9, 9}, {32, 32, 1, 1});
  const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2);
  for (int64_t i = 0; i < w->num_elements(); i += 3) w->mutable_data_as<float>()[i] *= 1e-40f;
  const auto y = Case("Conv", {x, w}, s.attrs(), s.out(), {false, true}).Run();
  REQUIRE(y != nullptr);
  CHECK(Difference(*y, ConvOracle(s, *x, *w, nullptr)) < 1e-5);
  for (int64_t i = 0; i < w->num_elements(); ++i) w->mutable_data_as<float>()[i] = 1e-40f;
  const auto none = Case("Conv", {x, w}, s.attrs(), s.out(), {false, true}).Run();
  REQUIRE(none != nullptr);
  for (int64_t i = 0; i < none->num_elements(); ++i) CHECK(std::abs(none->at(i)) < 1e-37);
}

TEST_CASE("what the library cannot do is refused, not guessed") {
  const auto x = RandomTensor({1, 2, 8}, 1), w = RandomTensor({3, 2, 3}, 2);
  CHECK(Case("Conv", {x, w}, {{"pads", Ints{-1, 0}}}, {1, 3, 5}).Make() == nullptr);
  Case wrong("Conv", {x, w}, {}, {1, 3, 6});
  wrong.request.input_types.assign(2, DType::kI32);
  wrong.request.output_types = {DType::kI32};
  CHECK(wrong.Make() == nullptr);
}

TEST_CASE("one call runs on several threads at once, and packed weights are shared") {
  const ConvSetup s = MakeSetup({2, 16, 33}, {32, 16, 3}, {}, {}, {1}, {1});
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
