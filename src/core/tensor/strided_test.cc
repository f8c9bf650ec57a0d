/// strided_test.cc: foreign memory against a walk over its indices: orders that need no copy, and
/// what is copied once.
#include "weft/core/tensor/strided.h"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "tests/support/code_of.h"
#include "weft/support/error.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

/// The bytes of all elements in row-major order of the indices, one after another: the definition
/// of strides.
std::vector<char> Walk(const char* data, const Ints& dims, const Ints& strides, int64_t width) {
  std::vector<char> all;
  Ints at(dims.size(), 0);
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  for (int64_t n = 0; n < count; ++n) {
    int64_t offset = 0;
    for (size_t d = 0; d < dims.size(); ++d) offset += at[d] * strides[d];
    all.insert(all.end(), data + offset * width, data + (offset + 1) * width);
    for (size_t d = dims.size(); d-- > 0 && ++at[d] == dims[d];) at[d] = 0;
  }
  return all;
}
Ints RowMajor(const Ints& dims) {
  Ints strides(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0; stride *= dims[d]) strides[d] = stride;
  return strides;
}
/// The same bytes of Transpose(f.tensor, f.perm).
std::vector<char> Bytes(const ForeignTensor& f) {
  const Ints& m = f.tensor->dims();
  Ints dims = m, strides = RowMajor(m);
  if (!f.perm.empty())
    for (size_t d = 0; d < m.size(); ++d) {
      dims[d] = m[size_t(f.perm[d])];
      strides[d] = RowMajor(m)[size_t(f.perm[d])];
    }
  return Walk(static_cast<const char*>(f.tensor->data()), dims, strides,
              DTypeBits(f.tensor->dtype()) / 8);
}

struct Source {
  std::vector<char> bytes = std::vector<char>(1 << 16);
  Source() {
    std::mt19937 random(7);
    for (char& c : bytes) c = char(random());
  }
  StridedMemory Of(DType dtype, Ints dims, Ints strides, int64_t at = 0) {
    StridedMemory m;
    m.dtype = dtype;
    m.dims = std::move(dims);
    m.strides = std::move(strides);
    m.data = bytes.data() + at;
    return m;
  }
};

TEST_CASE("strided: what is dense in some order is viewed in it") {
  Source s;
  const BorderCopies before = CountBorderCopies();
  struct Case {
    Ints dims, strides, perm, in_memory;
  };
  const std::vector<Case> cases = {
      {{2, 3, 4}, {}, {}, {2, 3, 4}},
      {{2, 3, 4}, {12, 4, 1}, {}, {2, 3, 4}},
      {{5, 7}, {1, 5}, {1, 0}, {7, 5}},                            // a transposed matrix
      {{2, 3, 4, 5}, {60, 1, 15, 3}, {0, 3, 1, 2}, {2, 4, 5, 3}},  // channels last
      {{1, 3, 4, 5}, {7, 1, 15, 3}, {0, 3, 1, 2}, {1, 4, 5, 3}},   // any stride of one
      {{6, 2, 1, 1}, {2, 1, 2, 2}, {}, {6, 2, 1, 1}},              // 1 x 1 is both
      {{}, {}, {}, {}},
      {{3, 0, 2}, {9, 9, 9}, {}, {3, 0, 2}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.strides);
    const ForeignTensor f = FromStrided(s.Of(DType::kF32, c.dims, c.strides));
    CHECK(f.tensor->data() == s.bytes.data());
    CHECK(f.perm == c.perm);
    CHECK(f.tensor->dims() == c.in_memory);
    CHECK_FALSE(f.copied);
    CHECK(Bytes(f) ==
          Walk(s.bytes.data(), c.dims, c.strides.empty() ? RowMajor(c.dims) : c.strides, 4));
  }
  CHECK(CountBorderCopies().copies == before.copies);
}

TEST_CASE("strided: gaps, shared elements and negative strides are copied once, and counted") {
  Source s;
  struct Case {
    Ints dims, strides;
    int64_t at;
  };
  const std::vector<Case> cases = {
      {{3, 4}, {8, 1}, 0},                       // rows of a wider matrix
      {{3, 4}, {8, 2}, 0},                       // every second element
      {{3, 4}, {0, 1}, 0},                       // a row that is broadcast
      {{3, 4}, {0, 0}, 0},                       //
      {{5}, {-1}, 64},                           // backwards
      {{1, 2, 2}, {int64_t{1} << 62, 4, 1}, 0},  // one of something says anything
      {{40, 50}, {1, 64}, 0},                    // a transposed part
      {{3, 40, 50}, {4000, 1, 64}, 0},           //
      {{2, 3, 4, 5}, {120, 1, 30, -6}, 400},     //
      {{2, 2, 2, 2, 2}, {1, 3, 9, 27, 81}, 0},
  };
  for (const DType dtype : {DType::kI8, DType::kF16, DType::kF32, DType::kI64, DType::kC128})
    for (const Case& c : cases) {
      CAPTURE(DTypeName(dtype));
      CAPTURE(c.strides);
      const int64_t width = DTypeBits(dtype) / 8;
      StridedMemory m = s.Of(dtype, c.dims, c.strides, c.at * width);
      if (c.dims.size() == 3 && width > 4) continue;  // beyond the source
      m.read_only = true;
      auto owner = std::make_shared<int>(1);
      const std::weak_ptr<int> watch = owner;
      m.owner = std::move(owner);
      const std::vector<char> want =
          Walk(static_cast<const char*>(m.data), c.dims, c.strides, width);
      const BorderCopies before = CountBorderCopies();
      const ForeignTensor f = FromStrided(std::move(m));
      CHECK(f.copied);
      CHECK(f.perm.empty());
      CHECK(f.tensor->dims() == c.dims);
      CHECK_FALSE(f.tensor->read_only());  // it is ours
      CHECK(watch.expired());
      CHECK(Bytes(f) == want);
      CHECK(CountBorderCopies().copies == before.copies + 1);
      CHECK(CountBorderCopies().bytes == before.bytes + int64_t(want.size()));
    }
}

TEST_CASE("strided: an order that is asked for is viewed where it lies so, else copied into") {
  Source s;
  const Ints channels_last{0, 3, 1, 2};
  const Ints dims{2, 3, 4, 5};
  ForeignTensor f = FromStrided(s.Of(DType::kF32, dims, {60, 1, 15, 3}), channels_last);
  CHECK_FALSE(f.copied);
  CHECK(f.perm == channels_last);
  f = FromStrided(s.Of(DType::kF32, dims, {}), channels_last);
  CHECK(f.copied);
  CHECK(f.perm == channels_last);
  CHECK(f.tensor->dims() == Ints{2, 4, 5, 3});
  CHECK(Bytes(f) == Walk(s.bytes.data(), dims, RowMajor(dims), 4));
  f = FromStrided(s.Of(DType::kF32, dims, {60, 1, 15, 3}), Ints());
  CHECK(f.copied);
  CHECK(f.perm.empty());
  CHECK(Bytes(f) == Walk(s.bytes.data(), dims, {60, 1, 15, 3}, 4));
  // One channel: both orders at once, and the one that the program was made for.
  f = FromStrided(s.Of(DType::kF32, {2, 1, 4, 5}, {20, 20, 5, 1}), channels_last);
  CHECK_FALSE(f.copied);
  CHECK(f.tensor->dims() == Ints{2, 4, 5, 1});
  for (const Ints& bad : {Ints{0, 1}, Ints{0, 1, 2, 2}, Ints{0, 1, 2, 4}, Ints{-1, 0, 1, 2}})
    CHECK(CodeOf([&] { FromStrided(s.Of(DType::kF32, dims, {}), bad); }) == ErrorCode::kBadInput);
}

TEST_CASE("strided: random permutations of random dims, with and without gaps") {
  Source s;
  std::mt19937 random(11);
  for (int n = 0; n < 300; ++n) {
    const size_t rank = random() % 5;
    Ints dims(rank), order(rank), strides(rank);
    for (int64_t& d : dims) d = 1 + int64_t(random() % 5);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const bool gap = random() % 3 == 0;
    int64_t stride = gap ? 2 : 1;
    for (size_t k = rank; k-- > 0; stride *= dims[size_t(order[k])])
      strides[size_t(order[k])] = stride;
    const int64_t count =
        std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
    CAPTURE(dims);
    CAPTURE(strides);
    const ForeignTensor f = FromStrided(s.Of(DType::kI16, dims, strides));
    CHECK(f.copied == (gap && count > 1));
    CHECK(Bytes(f) == Walk(s.bytes.data(), dims, strides, 2));
  }
}

TEST_CASE("strided: read-only memory makes read-only tensors, and what makes no sense is refused") {
  Source s;
  StridedMemory m = s.Of(DType::kF32, {2, 3}, {});
  m.read_only = true;
  const std::shared_ptr<Tensor> t = FromStrided(m).tensor;
  CHECK(t->read_only());
  CHECK(CodeOf([&] { t->mutable_data(); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { t->set(0, 1); }) == ErrorCode::kApiMisuse);
  CHECK(std::as_const(*t).data() == s.bytes.data());
  CHECK(Tensor::Reshaped(t, {6})->read_only());

  const auto refused = [&](StridedMemory bad) {
    return CodeOf([&] { FromStrided(std::move(bad)); });
  };
  CHECK(refused(s.Of(DType::kF32, {2, -3}, {})) == ErrorCode::kBadInput);
  CHECK(refused(s.Of(DType::kF32, {2, 3}, {1})) == ErrorCode::kBadInput);
  CHECK(refused(s.Of(DType::kF32, {2, 3}, {INT64_MIN, 1})) == ErrorCode::kBadInput);
  CHECK(refused(s.Of(DType::kF32, {2, 3}, {INT64_MAX / 2, INT64_MAX / 2})) == ErrorCode::kOverflow);
  CHECK(refused(s.Of(DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}, {})) ==
        ErrorCode::kOverflow);
  CHECK(refused(s.Of(DType::kString, {2}, {})) == ErrorCode::kUnsupported);
  CHECK(refused(s.Of(DType::kI4, {2}, {})) == ErrorCode::kUnsupported);
  StridedMemory none = s.Of(DType::kF32, {2, 3}, {});
  none.data = nullptr;
  CHECK(refused(none) == ErrorCode::kBadInput);
  none.dims = {0, 3};
  CHECK(FromStrided(none).tensor->num_elements() == 0);
}

}  // namespace
}  // namespace weft
