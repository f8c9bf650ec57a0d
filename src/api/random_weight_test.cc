/// random_weight_test.cc: size and sign of made-up weights, by their moments.
#include "weft/api/random_weight.h"

#include <doctest/doctest.h>

#include <cmath>

namespace weft {
namespace {

struct Moments {
  double mean = 0, deviation = 0, least = 1e9, greatest = -1e9;
};
Moments Of(const Tensor& t) {
  Moments m;
  double squares = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    m.mean += t.at(i);
    squares += t.at(i) * t.at(i);
    m.least = std::min(m.least, t.at(i));
    m.greatest = std::max(m.greatest, t.at(i));
  }
  m.mean /= double(t.num_elements());
  m.deviation = std::sqrt(squares / double(t.num_elements()) - m.mean * m.mean);
  return m;
}

TEST_CASE("weights keep the size of sums, and scales and variances are positive") {
  const Moments matrix = Of(*RandomWeight(DType::kF32, {64, 100}, 1));
  CHECK(matrix.mean == doctest::Approx(0).epsilon(0.01));
  CHECK(matrix.deviation == doctest::Approx(0.1).epsilon(0.05));
  CHECK(Of(*RandomWeight(DType::kF32, {64, 4, 5, 5}, 1)).deviation ==
        doctest::Approx(0.1).epsilon(0.05));
  const Moments vector = Of(*RandomWeight(DType::kF32, {1000}, 1));
  CHECK(vector.least >= 0.5);
  CHECK(vector.greatest < 1.5);
  CHECK(RandomWeight(DType::kI64, {3}, 1)->at_int(2) == 0);
  CHECK(RandomWeight(DType::kF32, {0, 3}, 1)->num_elements() == 0);
}

TEST_CASE("the seed decides, and only the seed") {
  const TensorPtr a = RandomWeight(DType::kF32, {4, 4}, 1);
  CHECK(a->Equals(*RandomWeight(DType::kF32, {4, 4}, 1)));
  CHECK(!a->Equals(*RandomWeight(DType::kF32, {4, 4}, 2)));
}

}  // namespace
}  // namespace weft
