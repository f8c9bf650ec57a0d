/// range_finder_test.cc: ranges against what sorting, and trying on the numbers themselves, give.
#include "range_finder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace weft {
namespace {

std::vector<float> Normal(size_t count, double mean, double deviation, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<float> v(count);
  for (float& x : v) x = float(normal(random));
  return v;
}
/// In three parts, as samples come in.
RangeFinder Seen(const std::vector<float>& v) {
  RangeFinder finder;
  const int64_t third = int64_t(v.size()) / 3;
  const std::pair<int64_t, int64_t> parts[] = {
      {0, third}, {third, third}, {2 * third, int64_t(v.size()) - 2 * third}};
  int64_t at = 0;
  for (const auto& [begin, count] : parts) REQUIRE(finder.Look(v.data() + begin, count, &at));
  for (const auto& [begin, count] : parts) finder.Count(v.data() + begin, count);
  return finder;
}
ValueRange Find(const std::vector<float>& v, RangeMethod method, double percentile = 99.99) {
  return Seen(v).Find(method, percentile);
}

/// Mean square error of 256 codes over the numbers themselves.
double ErrorOf(const std::vector<float>& v, const ValueRange& r) {
  const double scale = (double(r.high) - double(r.low)) / 255;
  const double zero = std::nearbyint(-double(r.low) / scale);
  double sum = 0;
  for (const float x : v) {
    const double code = std::min(255.0, std::max(0.0, std::nearbyint(double(x) / scale) + zero));
    const double error = (code - zero) * scale - double(x);
    sum += error * error;
  }
  return sum / double(v.size());
}

TEST_CASE("minmax: the least and the greatest, and 0") {
  const std::vector<float> v = Normal(999, 0.5, 2, 1);
  const ValueRange r = Find(v, RangeMethod::kMinMax);
  CHECK(r.low == *std::min_element(v.begin(), v.end()));
  CHECK(r.high == *std::max_element(v.begin(), v.end()));
  CHECK(Find({3, 5, 4}, RangeMethod::kMinMax) == ValueRange{0, 5});
  CHECK(Find({-3, -5, -4}, RangeMethod::kMse).high == 0);
  CHECK(Find({0, 0, 0}, RangeMethod::kEntropy) == ValueRange{0, 0});
}

TEST_CASE("percentile: as sorting gives it, to a bin") {
  std::vector<float> v = Normal(30000, 0.2, 1, 2);
  for (const double percentile : {90.0, 99.0, 99.9, 100.0}) {
    const ValueRange r = Find(v, RangeMethod::kPercentile, percentile);
    std::vector<float> sorted = v;
    std::sort(sorted.begin(), sorted.end());
    const auto cut = size_t(double(v.size()) * (100 - percentile) / 200);
    const double bin = (double(sorted.back()) - double(sorted.front())) / 2048;
    CAPTURE(percentile);
    CHECK(std::abs(double(r.low) - double(sorted[cut])) < 2 * bin);
    CHECK(std::abs(double(r.high) - double(sorted[v.size() - 1 - cut])) < 2 * bin);
  }
}

TEST_CASE("mse: near the best that the numbers themselves allow, and never worse than minmax") {
  const auto relu = [](std::vector<float> v) {
    for (float& x : v) x = std::max(x, 0.f);
    return v;
  };
  std::vector<float> outlier = Normal(20000, 0, 1, 3);
  outlier.push_back(60);
  std::vector<float> laplace = Normal(20000, 0, 1, 4);
  for (float& x : laplace) x = x * std::abs(x) * std::abs(x);
  for (const std::vector<float>& v :
       {outlier, laplace, relu(outlier), relu(laplace), Normal(20000, 3, 1, 5)}) {
    const ValueRange all = Find(v, RangeMethod::kMinMax), r = Find(v, RangeMethod::kMse);
    double best = ErrorOf(v, all);
    CHECK(ErrorOf(v, r) <= 1.02 * best);
    for (int i = 1; i <= 100; ++i)
      best = std::min(best, ErrorOf(v, {all.low * float(i) / 100, all.high * float(i) / 100}));
    CHECK(ErrorOf(v, r) <= 1.1 * best);
  }
}

TEST_CASE("entropy: cuts off what is alone, and keeps what is common") {
  std::vector<float> v = Normal(50000, 0, 1, 6);
  v.push_back(80);
  ValueRange r = Find(v, RangeMethod::kEntropy);
  CHECK(r.high < 20);
  CHECK(r.high > 2);
  CHECK(r.low <= -2);
  CHECK(r.low >= *std::min_element(v.begin(), v.end()));
  // As common everywhere: nothing can be cut off.
  std::vector<float> even;
  for (int i = 0; i < 40960; ++i) even.push_back(float(i) / 4096 - 5);
  r = Find(even, RangeMethod::kEntropy);
  CHECK(r.high > 4.7f);
  CHECK(r.low < -4.7f);
}

TEST_CASE("NaN is told with its place; what is infinite has no range") {
  RangeFinder finder;
  int64_t at = -1;
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  const float with_nan[] = {1, 2, nan, 3}, masked[] = {1, -infinity};
  CHECK(!finder.Look(with_nan, 4, &at));
  CHECK(at == 2);
  CHECK(!finder.infinite());
  CHECK(finder.Look(masked, 2, &at));
  CHECK(finder.infinite());
}

}  // namespace
}  // namespace weft
