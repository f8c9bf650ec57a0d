/// strided_copy_test.cc: boxes of many forms against one loop over their points.
#include "strided_copy.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>

namespace weft::cpu {
namespace {

/// The points of the box one after the other: (from, to) in elements.
std::vector<std::pair<int64_t, int64_t>> PointsOf(const std::vector<CopyDim>& dims) {
  std::vector<std::pair<int64_t, int64_t>> points{{0, 0}};
  for (const CopyDim& d : dims) {
    std::vector<std::pair<int64_t, int64_t>> more;
    for (const auto& [from, to] : points)
      for (int64_t i = 0; i < d.extent; ++i)
        more.emplace_back(from + i * d.from_step, to + i * d.to_step);
    points = std::move(more);
  }
  return points;
}

template <class T>
void Check(std::vector<CopyDim> dims) {
  int64_t least = 0, from_end = 1, to_end = 1;
  const auto points = PointsOf(dims);
  for (const auto& [from, to] : points) {
    least = std::min(least, from);
    from_end = std::max(from_end, from + 1);
    to_end = std::max(to_end, to + 1);
  }
  std::mt19937_64 random(7);
  std::vector<T> from(size_t(from_end - least)), to(size_t(to_end + 2), T(99)), want = to;
  for (T& x : from) x = T(random());
  const T* source = from.data() - least;
  for (const auto& [f, t] : points) want[size_t(t + 1)] = source[f];
  NormalizeCopy(&dims);
  CopyStrided(int(sizeof(T)), source, to.data() + 1, dims.data(), int(dims.size()));
  CHECK(to == want);
  for (const auto& point : points) want[size_t(point.second + 1)] = T(0xf1e2d3c4b5a69788);
  FillStrided(int(sizeof(T)), 0xf1e2d3c4b5a69788, to.data() + 1, dims.data(), int(dims.size()));
  CHECK(to == want);
}

void CheckAll(const std::vector<CopyDim>& dims) {
  Check<uint8_t>(dims);
  Check<uint16_t>(dims);
  Check<uint32_t>(dims);
  Check<uint64_t>(dims);
}

TEST_CASE("rows of every length") {
  for (int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129, 200}) {
    CAPTURE(n);
    CheckAll({{5, n, n + 3}, {n, 1, 1}});
    CheckAll({{5, 0, n}, {n, 1, 1}});
    CheckAll({{3, n, 2 * n}, {2, 0, n}, {n, 1, 1}});
  }
}

TEST_CASE("a few repetitions of rows of every length, and of rows that are repeated themselves") {
  for (int64_t times : {2, 3, 4, 5})
    for (int64_t n : {1, 7, 15, 16, 17, 20, 40, 64, 65}) {
      CAPTURE(times);
      CAPTURE(n);
      CheckAll({{n, 1, times}, {times, 0, 1}});
      CheckAll({{3, n, n * times + 1}, {n, 1, times}, {times, 0, 1}});
      CheckAll({{3, n, 2 * n * times}, {2, 0, n * times}, {n, 1, times}, {times, 0, 1}});
      CheckAll({{2, 3 * n, 6 * n * times},
                {3, n, 2 * n * times},
                {2, 0, n * times},
                {n, 1, times},
                {times, 0, 1}});
    }
}

TEST_CASE("repetitions") {
  for (int64_t n : {1, 2, 3, 4, 7, 40}) {
    CAPTURE(n);
    CheckAll({{9, 1, n}, {n, 0, 1}});
    CheckAll({{4, 9, 2 * 9 * n}, {2, 0, 9 * n}, {9, 1, n}, {n, 0, 1}});
  }
}

TEST_CASE("transpositions of every extent") {
  for (int64_t rows : {1, 2, 3, 4, 8, 15, 16, 17, 40, 65, 256})
    for (int64_t columns : {1, 2, 3, 5, 8, 16, 19, 64, 70}) {
      CAPTURE(rows);
      CAPTURE(columns);
      CheckAll({{2, rows * columns, rows * columns}, {columns, 1, rows}, {rows, columns, 1}});
      CheckAll({{columns, 1, rows + 2}, {rows, columns + 5, 1}});
      // Other axes between the two, and before them.
      CheckAll({{columns, 1, 3 * rows}, {3, columns * rows, rows}, {rows, columns, 1}});
      CheckAll({{3, columns, columns * rows}, {columns, 1, rows}, {rows, 3 * columns, 1}});
    }
}

TEST_CASE("steps: backwards, apart, one element") {
  CheckAll({{7, 3, 20}, {9, -2, 1}});
  CheckAll({{7, -20, 20}, {9, 1, 2}});
  CheckAll({});
  CheckAll({{1, 5, 5}});
  CheckAll({{6, 1, 4}});
}

TEST_CASE("axes that go on as one are one") {
  std::vector<CopyDim> dims{{4, 1, 1}, {3, 4, 4}, {1, 0, 77}, {2, 12, 24}};
  NormalizeCopy(&dims);
  REQUIRE(dims.size() == 2);
  CHECK(dims[0].extent == 2);
  CHECK(dims[1].extent == 12);
}

}  // namespace
}  // namespace weft::cpu
