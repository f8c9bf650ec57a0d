/// product_shape_test.cc: collapsed products compute what numpy's broadcasting says, element by
/// element.
#include "weft/core/op/product_shape.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace weft;

namespace {

using Dims = std::vector<int64_t>;

int64_t Count(const Dims& d) {
  int64_t n = 1;
  for (int64_t x : d) n *= x;
  return n;
}
/// Small, and different at every place.
int64_t Value(int64_t place) { return (place * 7 + 3) % 23 - 11; }

/// The place of batch index `at` (of `batch`) in a dense operand of its own batch extents.
int64_t BatchPlace(int64_t at, const Dims& batch, const Dims& dims) {
  int64_t place = 0, step = Count({dims.end() - 2, dims.end()});
  for (size_t k = batch.size(); k-- > 0;) {
    const int64_t i = at % batch[k];
    at /= batch[k];
    const size_t own = dims.size() - 2;
    if (k + own < batch.size()) continue;
    const int64_t extent = dims[k + own - batch.size()];
    place += (extent == 1 ? 0 : i) * step;
    step *= extent;
  }
  return place;
}

/// By the definition: batches broadcast, the last two axes are matrices.
std::vector<int64_t> Defined(const Dims& a, const Dims& b) {
  Dims batch(std::max(a.size(), b.size()) - 2, 1);
  for (const Dims* d : {&a, &b})
    for (size_t k = 0; k + 2 < d->size(); ++k) {
      int64_t& extent = batch[batch.size() - (d->size() - 2) + k];
      extent = std::max(extent, (*d)[k]);
    }
  const int64_t m = a[a.size() - 2], inner = a.back(), n = b.back();
  std::vector<int64_t> y;
  for (int64_t at = 0; at < Count(batch); ++at)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        int64_t sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += Value(BatchPlace(at, batch, a) + i * inner + k) *
                 Value(BatchPlace(at, batch, b) + k * n + j);
        y.push_back(sum);
      }
  return y;
}

/// By the extents and steps of the collapsed product alone.
std::vector<int64_t> Collapsed(const ProductShape& p) {
  const size_t batch = p.y.size() - 2;
  const int64_t m = p.y[batch], n = p.y[batch + 1], inner = p.a[batch + 1];
  std::vector<int64_t> y;
  for (int64_t at = 0; at < Count({p.y.begin(), p.y.end() - 2}); ++at) {
    int64_t rest = at, pa = 0, pb = 0;
    for (size_t k = batch; k-- > 0;) {
      const int64_t i = rest % p.y[k];
      rest /= p.y[k];
      pa += (p.a[k] == 1 ? 0 : i) * p.a_steps[k];
      pb += (p.b[k] == 1 ? 0 : i) * p.b_steps[k];
    }
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        int64_t sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += Value(pa + i * p.a_steps[batch] + k * p.a_steps[batch + 1]) *
                 Value(pb + k * p.b_steps[batch] + j * p.b_steps[batch + 1]);
        y.push_back(sum);
      }
  }
  return y;
}

}  // namespace

TEST_CASE("collapsed products equal the definition") {
  const std::pair<Dims, Dims> cases[] = {
      {{4, 5}, {5, 3}},          {{2, 3, 4, 5}, {5, 3}},          {{2, 3, 4, 5}, {2, 3, 5, 3}},
      {{2, 3, 4, 5}, {3, 5, 2}}, {{2, 1, 4, 5}, {3, 5, 2}},       {{1, 1, 4, 5}, {2, 2, 5, 1}},
      {{2, 3, 1, 5}, {1, 5, 2}}, {{2, 1, 2, 4, 3}, {5, 1, 3, 2}}, {{6, 1, 1}, {6, 1, 4}},
  };
  for (const auto& [a, b] : cases) {
    const auto p = CollapseProduct(a, b);
    REQUIRE(p);
    CHECK(Collapsed(*p) == Defined(a, b));
  }
  // A shared right side takes the batch into the rows.
  CHECK(CollapseProduct({2, 3, 4, 5}, {5, 3})->y == Dims{24, 3});
  CHECK(CollapseProduct({2, 3, 4, 5}, {2, 3, 5, 3})->y == Dims{6, 4, 3});
}

TEST_CASE("products that do not fit are none") {
  CHECK_FALSE(CollapseProduct({4, 5}, {4, 3}));
  CHECK_FALSE(CollapseProduct({2, 4, 5}, {3, 5, 2}));
  CHECK_FALSE(CollapseProduct(Dims{}, {5, 2}));
}
