/// conv_columns_test.cc: the data gradient by columns: strides, padding, dilation, several products
/// an image, and where it is taken.
#include <doctest/doctest.h>

#include "conv_test_util.h"

namespace weft::cpu {
namespace {

bool HasAvx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

/// With channels last, as networks have them where oneDNN prefers them so.
Case GradData(const ConvSetup& s, const Tensor& dy, const Tensor& w, int threads) {
  Case c("weft::ConvGradData",
         {std::make_shared<Tensor>(dy), std::make_shared<Tensor>(w), Tensor::Ints(s.x)}, s.attrs(),
         s.x);
  c.request.threads = threads;
  WithLayouts(&c, {Layout::kChannelsLast}, Layout::kChannelsLast);
  return c;
}
bool ByColumns(const LibraryCall& call) {
  return call.description().find("by columns") != std::string::npos;
}

TEST_CASE("the data gradient by columns equals direct sums") {
  if (!HasAvx512()) return;
  int number = 0;
  for (const ConvSetup& s : std::vector<ConvSetup>{
           MakeSetup({4, 20, 12, 12}, {50, 20, 5, 5}),
           MakeSetup({5, 17, 9, 7}, {70, 17, 3, 3}, {}, {}, {1, 1}, {1, 1}),
           MakeSetup({3, 20, 11, 13}, {50, 20, 4, 3}, {2, 3}, {}, {1, 0}, {2, 1}),
           MakeSetup({2, 20, 13, 9}, {50, 20, 3, 3}, {}, {2, 1}, {2, 2}, {2, 2}),
           MakeSetup({2, 6, 40, 40}, {16, 6, 7, 7}, {}, {}, {3, 3}, {3, 3}),  // several products
           MakeSetup({2, 18, 5, 4}, {64, 18, 5, 6}, {}, {}, {4, 5}, {4, 5}),  // windows in padding
           MakeSetup({2, 20, 31}, {50, 20, 5}, {2}, {}, {1}, {2}),
           MakeSetup({3, 20, 6, 6}, {50, 20, 6, 6}),  // one position
           MakeSetup({2, 20, 9, 9}, {50, 20, 1, 1}, {2, 2})}) {
    CAPTURE(++number);
    const auto x = RandomTensor(s.x, 1), w = RandomTensor(s.w, 2), dy = RandomTensor(s.out(), 3);
    const std::vector<double> want = GradientOracle(s, *x, *w, *dy).dx;
    for (const int threads : {1, 2}) {
      const Case c = GradData(s, *dy, *w, threads);
      const auto call = c.Make();
      REQUIRE(call != nullptr);
      CHECK(ByColumns(*call));
      for (int run = 0; run < 2; ++run)
        CHECK(Difference(*Plainly(*c.Run(*call), Layout::kChannelsLast), want) < 1e-4);
    }
  }
}

TEST_CASE("columns are taken where channels fill blocks badly and sums are long") {
  if (!HasAvx512()) return;
  const auto taken = [](const ConvSetup& s, int threads = 2) {
    const auto call = GradData(s, *RandomTensor(s.out(), 1), *RandomTensor(s.w, 2), threads).Make();
    REQUIRE(call != nullptr);
    return ByColumns(*call);
  };
  CHECK(taken(MakeSetup({4, 20, 9, 9}, {64, 20, 3, 3})));
  CHECK(!taken(MakeSetup({4, 32, 9, 9}, {64, 32, 3, 3})));  // whole blocks
  CHECK(!taken(MakeSetup({4, 20, 9, 9}, {20, 20, 3, 3})));  // short sums
  CHECK(!taken(MakeSetup({1, 20, 9, 9}, {64, 20, 3, 3})));  // no image for the second thread
  CHECK(taken(MakeSetup({1, 20, 9, 9}, {64, 20, 3, 3}), 1));
  CHECK(!taken(MakeSetup({4, 20, 9, 9}, {64, 10, 3, 3}, {}, {}, {}, {}, 2)));
  CHECK(!taken(MakeSetup({4, 20, 9, 9}, {64, 20, 3, 3}, {}, {1, 2})));
  const ForcedConv forced("direct");
  CHECK(!taken(MakeSetup({4, 20, 9, 9}, {64, 20, 3, 3})));
}

}  // namespace
}  // namespace weft::cpu
