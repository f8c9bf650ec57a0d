/// lrn_test.cc: LRN and MaxUnpool against direct loops.
#include <doctest/doctest.h>

#include <algorithm>

#include "backends/cpu/util/call_test_util.h"

namespace weft::cpu {
namespace {

TEST_CASE("LRN equals direct loops") {
  for (const Ns& dims : std::vector<Ns>{{2, 7, 5, 31}, {1, 3, 200}, {3, 4}, {1, 96, 9, 9}}) {
    for (const int64_t size : {1, 4, 5, 11})
      for (const double beta : {0.75, 0.5}) {
        CAPTURE(dims);
        CAPTURE(size);
        const double alpha = 0.7, bias = 1.5;
        const auto x = RandomTensor(dims, 1);
        const auto y =
            Case("LRN", {x}, {{"size", size}, {"alpha", alpha}, {"beta", beta}, {"bias", bias}},
                 dims)
                .Run();
        REQUIRE(y != nullptr);
        std::vector<double> want;
        Ns at(dims.size(), 0);
        do {
          double sum = 0;
          for (int64_t c = at[1] - (size - 1) / 2; c <= at[1] + size / 2; ++c) {
            if (c < 0 || c >= dims[1]) continue;
            Ns from = at;
            from[1] = c;
            sum += std::pow(x->at(Flat(from, dims)), 2);
          }
          want.push_back(x->at(Flat(at, dims)) / std::pow(bias + alpha / double(size) * sum, beta));
        } while (Next(&at, dims));
        CHECK(Difference(*y, want) < 2e-6);
      }
  }
}

TEST_CASE("MaxUnpool writes in order") {
  const auto x = RandomTensor({2, 1, 2, 2}, 1);
  // The last two go to one place; one lies outside.
  const TensorPtr at = Tensor::Reshaped(Tensor::Ints({5, 7, 13, 15, 16, -1, 31, 31}), {2, 1, 2, 2});
  const AttrDict attrs{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  const auto y = Case("MaxUnpool", {x, at}, attrs, {2, 1, 4, 4}).Run();
  REQUIRE(y != nullptr);
  std::vector<double> want(32, 0), wide(50, 0), small(18, 0);
  want[5] = x->at(0), want[7] = x->at(1), want[13] = x->at(2), want[15] = x->at(3);
  want[16] = x->at(4), want[31] = x->at(7);
  CHECK(Difference(*y, want) == 0);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 4; ++j) {
        const double v = want[size_t(b * 16 + i * 4 + j)];
        wide[size_t(b * 25 + i * 5 + j)] = v;
        if (i < 3 && j < 3) small[size_t(b * 9 + i * 3 + j)] = v;
      }
  const auto to = [&](const Ns& dims) {
    const auto z = Case("MaxUnpool", {x, at, Tensor::Ints(dims)}, attrs, dims).Run();
    REQUIRE(z != nullptr);
    return z;
  };
  CHECK(Difference(*to({2, 1, 5, 5}), wide) == 0);
  CHECK(Difference(*to({2, 1, 3, 3}), small) == 0);
}

}  // namespace
}  // namespace weft::cpu
