#include "weft/core/plan/layout.h"

#include <doctest/doctest.h>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/tensor/tensor.h"

namespace weft {
namespace {

TEST_CASE("a tensor goes to channels last and back, whatever its elements and rank") {
  for (DType t : {DType::kBool, DType::kF16, DType::kI32, DType::kF64})
    for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{
             {2, 3, 5}, {2, 3, 4, 5}, {1, 2, 3, 2, 2}, {2, 3}, {4, 1, 7}, {0, 3, 2}, {3, 0, 2}}) {
      const int64_t n = NumElements(dims), width = DTypeBytes(t, 1);
      std::vector<uint8_t> plain(size_t(n * width)), last(plain.size()), again(plain.size());
      for (size_t i = 0; i < plain.size(); ++i) plain[i] = uint8_t(i * 37 + i / 251);
      CopyLayout(t, dims, plain.data(), last.data(), Layout::kPlain, Layout::kChannelsLast);
      CopyLayout(t, dims, last.data(), again.data(), Layout::kChannelsLast, Layout::kPlain);
      CHECK(again == plain);
      if (dims.size() < 3 || n == 0) {
        CHECK(last == plain);
        continue;
      }
      const int64_t spatial = n / dims[0] / dims[1];
      for (int64_t i = 0; i < n * width; ++i) {
        const int64_t e = i / width, b = e / (dims[1] * spatial), c = e / spatial % dims[1],
                      p = e % spatial, at = (b * spatial + p) * dims[1] + c;
        REQUIRE(last[size_t(at * width + i % width)] == plain[size_t(i)]);
      }
    }
  std::vector<uint8_t> nibbles(64);
  CHECK_THROWS(CopyLayout(DType::kI4, {2, 3, 4, 5}, nibbles.data(), nibbles.data() + 32,
                          Layout::kPlain, Layout::kChannelsLast));
}

TEST_CASE("both layouts are the same memory where there is one channel or one position") {
  const SymInt n = SymInt::Symbol("n");
  CHECK(LiesAlikeInAll(Shape{n, 1, 4, 5}));
  CHECK(LiesAlikeInAll(Shape{n, 7, 1, 1}));
  CHECK(LiesAlikeInAll(Shape{n, n}));
  CHECK(!LiesAlikeInAll(Shape{1, 2, 1, 2}));
  CHECK(!LiesAlikeInAll(Shape{1, n, 4, 4}));
  CHECK(!LiesAlikeInAll(Shape()));
}

}  // namespace
}  // namespace weft
