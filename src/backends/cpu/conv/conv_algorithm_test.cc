/// conv_algorithm_test.cc: convolutions by direct sums and by Winograd's algorithm, in every
/// layout, against double precision.
#include <doctest/doctest.h>

#include "conv_test_util.h"

namespace weft::cpu {
namespace {

constexpr const char* kAlgorithms[] = {"direct", "winograd"};
constexpr Layout kLayouts[] = {Layout::kPlain, Layout::kChannelsLast};

/// Largest difference relative to the largest value.
double ErrorOfMax(const Tensor& got, const std::vector<double>& want) {
  double largest = 0, worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    const double d = std::abs(got.data_as<float>()[i] - want[i]);
    worst = d <= worst ? worst : std::isnan(d) ? INFINITY : d;
  }
  return got.num_elements() == int64_t(want.size()) ? worst / largest : INFINITY;
}

std::vector<ConvSetup> Setups() {
  return {
      MakeSetup({2, 32, 9, 13}, {32, 32, 3, 3}, {}, {}, {1, 1}, {1, 1}),
      MakeSetup({1, 16, 8, 8}, {32, 16, 3, 3}, {}, {}, {1, 1}, {1, 1}),
      MakeSetup({3, 32, 7, 6}, {16, 32, 3, 3}),                            // no padding
      MakeSetup({1, 16, 10, 11}, {16, 16, 3, 3}, {}, {}, {0, 1}, {1, 0}),  // on one side
      MakeSetup({1, 64, 14, 14}, {64, 64, 3, 3}, {}, {}, {1, 1}, {1, 1}),
      MakeSetup({9, 32, 7, 7}, {32, 32, 3, 3}, {}, {}, {1, 1}, {1, 1}),
      MakeSetup({1, 19, 9, 9}, {21, 19, 3, 3}, {}, {}, {1, 1}, {1, 1}),  // not in blocks of 16
      MakeSetup({2, 32, 9, 9}, {32, 16, 3, 3}, {}, {}, {1, 1}, {1, 1}, 2),
      MakeSetup({2, 16, 9, 9}, {16, 16, 3, 3}, {2, 2}, {}, {1, 1}, {1, 1}),
      MakeSetup({1, 3, 12, 12}, {16, 3, 3, 3}, {}, {}, {1, 1}, {1, 1}),
  };
}

/// Does the machine's oneDNN have Winograd?
bool HasWinograd() {
  const ForcedConv forced("winograd");
  const ConvSetup s = MakeSetup({1, 64, 28, 28}, {64, 64, 3, 3}, {}, {}, {1, 1}, {1, 1});
  const auto call =
      Case("Conv", {RandomTensor(s.x, 1), RandomTensor(s.w, 2)}, s.attrs(), s.out(), {false, true})
          .Make();
  return call && call->description().find("wino") != std::string::npos;
}

TEST_CASE("both algorithms, both layouts: convolution and gradients equal direct sums") {
  int number = 0, winograd = 0;
  for (const ConvSetup& s : Setups()) {
    ++number;
    CAPTURE(number);
    const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2), dy = RandomTensor(s.out(), 3),
               b = RandomTensor({s.w[0]}, 4);
    const auto y = ConvOracle(s, *x, *w, b.get());
    const ConvGradients g = GradientOracle(s, *x, *w, *dy);
    for (const char* algorithm : kAlgorithms)
      for (const Layout in : kLayouts)
        for (const Layout out : kLayouts)
          for (const bool constant : {false, true}) {
            const std::string how = algorithm;
            CAPTURE(how);
            CAPTURE(int(in));
            CAPTURE(int(out));
            const ForcedConv forced(algorithm);
            const auto run = [&](Case c, std::vector<Layout> layouts, Layout result) {
              const auto call = WithLayouts(&c, std::move(layouts), result).Make();
              REQUIRE(call != nullptr);
              winograd += call->description().find("wino") != std::string::npos;
              return Plainly(*c.Run(*call), result);
            };
            const auto made =
                run(Case("Conv", {x, w, b}, s.attrs(), s.out(), {false, constant}), {in}, out);
            CHECK(ErrorOfMax(*made, y) < 1e-5);
            const auto dx = run(Case("weft::ConvGradData", {dy, w, Tensor::Ints(s.x)}, s.attrs(),
                                     s.x, {false, constant}),
                                {in}, out);
            CHECK(ErrorOfMax(*dx, g.dx) < 1e-5);
            if (constant) continue;
            const auto dw =
                run(Case("weft::ConvGradWeight", {dy, x, Tensor::Ints(s.w)}, s.attrs(), s.w),
                    {in, out}, Layout::kPlain);
            CHECK(ErrorOfMax(*dw, g.dw) < 1e-5);
          }
  }
  CHECK((winograd > 0) == HasWinograd());
}

TEST_CASE("the environment decides, and its other values decide nothing") {
  if (!HasWinograd()) return;
  const ConvSetup s = MakeSetup({1, 64, 56, 56}, {64, 64, 3, 3}, {}, {}, {1, 1}, {1, 1});
  const Case c("Conv", {RandomTensor(s.x, 1), RandomTensor(s.w, 2)}, s.attrs(), s.out(),
               {false, true});
  const auto is_winograd = [&] {
    return c.Make()->description().find("wino") != std::string::npos;
  };
  CHECK(is_winograd());
  {
    const ForcedConv forced("direct");
    CHECK(!is_winograd());
  }
  const ForcedConv forced("anything");
  CHECK(is_winograd());
}

TEST_CASE("a call in Winograd's form runs on several threads and one thread alike") {
  const ForcedConv forced("winograd");
  const ConvSetup s = MakeSetup({5, 32, 15, 15}, {32, 32, 3, 3}, {}, {}, {1, 1}, {1, 1});
  const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2);
  const auto want = ConvOracle(s, *x, *w, nullptr);
  for (const int threads : {1, 2, 3}) {
    Case c("Conv", {x, w}, s.attrs(), s.out(), {false, true});
    c.request.threads = threads;
    CHECK(ErrorOfMax(*c.Run(), want) < 1e-5);
  }
}

}  // namespace
}  // namespace weft::cpu
