/// tensor_test.cc: elements of every dtype, equality, hashes, views.
#include "weft/core/tensor/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "weft/support/error.h"

namespace weft {
namespace {

TEST_CASE("a tensor is zero-filled and aligned") {
  const Tensor t(DType::kF32, {3, 5});
  CHECK(t.num_elements() == 15);
  CHECK(t.num_bytes() == 60);
  CHECK(reinterpret_cast<uintptr_t>(t.data()) % 64 == 0);
  for (int i = 0; i < 15; ++i) CHECK(t.at(i) == 0);
  CHECK(Tensor(DType::kI64, {0, 7}).num_elements() == 0);
  CHECK_THROWS_AS(Tensor(DType::kF32, {-1}), UserError);
  CHECK_THROWS_AS(Tensor(DType::kF32, {INT64_MAX, 4}), UserError);
  CHECK_THROWS_AS(Tensor(DType::kF64, {INT64_MAX / 4}), Error);
  CHECK_THROWS_AS(Tensor(DType::kUnknown, {1}), UserError);
}

TEST_CASE("numbers of every dtype come back") {
  for (int i = 1; i < kNumDTypes; ++i) {
    const DType t = DType(i);
    if (t == DType::kString || t == DType::kC64 || t == DType::kC128) continue;
    CAPTURE(DTypeName(t));
    Tensor x(t, {5});
    x.set(1, 1);
    x.set_int(3, 1);
    CHECK(x.at(1) == 1);
    CHECK(x.at_int(3) == 1);
    if (t != DType::kF8E8M0) {  // has no zero
      CHECK(x.at(0) == 0);
      CHECK(x.at(2) == 0);
      CHECK(x.at(4) == 0);
    }
  }
  Tensor i8(DType::kI8, {3});
  i8.set(0, -200);
  i8.set(1, 1e30);
  i8.set(2, std::nan(""));
  CHECK(i8.at_int(0) == -128);
  CHECK(i8.at_int(1) == 127);
  CHECK(i8.at_int(2) == 0);
  Tensor u64(DType::kU64, {1});
  u64.set_int(0, -1);
  CHECK(u64.at_int(0) == -1);
  CHECK(u64.at(0) == 0x1p64);
  Tensor f(DType::kF64, {2});
  f.set(0, -2.9);
  CHECK(f.at_int(0) == -2);
  Tensor i4(DType::kI4, {4});
  i4.set(0, -8), i4.set(1, 7), i4.set(2, -1), i4.set(3, 100);
  CHECK(i4.at(0) == -8);
  CHECK(i4.at(1) == 7);
  CHECK(i4.at(2) == -1);
  CHECK(i4.at(3) == 7);
  CHECK(i4.data_as<uint8_t>()[0] == 0x78);
  Tensor c(DType::kC64, {1});
  CHECK_THROWS_AS(c.at(0), UserError);
  CHECK_THROWS_AS(f.at(2), InternalError);
}

TEST_CASE("small floats by their definitions") {
  Tensor e4m3(DType::kF8E4M3FN, {4});
  e4m3.set(0, 448), e4m3.set(1, 1e9), e4m3.set(2, -0.001953125), e4m3.set(3, std::nan(""));
  CHECK(e4m3.at(0) == 448);
  CHECK(e4m3.at(1) == 448);
  CHECK(e4m3.at(2) == -0.001953125);  // 2^-9, the smallest
  CHECK(std::isnan(e4m3.at(3)));
  CHECK(e4m3.data_as<uint8_t>()[0] == 0x7e);
  Tensor e5m2(DType::kF8E5M2, {2});
  e5m2.set(0, 57344);
  CHECK(e5m2.at(0) == 57344);
  e5m2.mutable_data_as<uint8_t>()[1] = 0x7c;
  CHECK(std::isinf(e5m2.at(1)));
  Tensor fnuz(DType::kF8E4M3FNUZ, {1});
  fnuz.set(0, 240);
  CHECK(fnuz.at(0) == 240);
  fnuz.set(0, -0.0);
  CHECK(fnuz.data_as<uint8_t>()[0] == 0);
  Tensor e2m1(DType::kF4E2M1, {2});
  e2m1.set(0, 6), e2m1.set(1, -0.5);
  CHECK(e2m1.at(0) == 6);
  CHECK(e2m1.at(1) == -0.5);
  Tensor e8m0(DType::kF8E8M0, {1});
  e8m0.set(0, 8);
  CHECK(e8m0.at(0) == 8);
}

TEST_CASE("equality and hash see dtype, extents and bytes") {
  const TensorPtr a = Tensor::Ints({1, 2, 3, 4}), b = Tensor::Ints({1, 2, 3, 4});
  CHECK(a->Equals(*b));
  CHECK(a->ContentHash() == b->ContentHash());
  const TensorPtr r = Tensor::Reshaped(a, {2, 2});
  CHECK(r->data() == a->data());
  CHECK_FALSE(r->Equals(*a));
  CHECK(r->ContentHash() != a->ContentHash());
  CHECK_THROWS_AS(Tensor::Reshaped(a, {3}), UserError);
  const TensorPtr d = Tensor::FromDoubles(DType::kU64, {4}, {1, 2, 3, 4});
  CHECK_FALSE(d->Equals(*a));
  CHECK_THROWS_AS(Tensor::FromDoubles(DType::kF32, {2}, {1}), UserError);
  Tensor s(DType::kString, {2}), s2(DType::kString, {2});
  s.mutable_strings() = {"ab", "c"};
  s2.mutable_strings() = {"a", "bc"};
  CHECK_FALSE(s.Equals(s2));
  CHECK(s.ContentHash() != s2.ContentHash());
  CHECK(Tensor::Scalar(DType::kF16, 0.5)->at(0) == 0.5);
  CHECK(Tensor::Scalar(DType::kF16, 0.5)->rank() == 0);
}

TEST_CASE("a view keeps its owner alive") {
  TensorPtr view;
  {
    auto base = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{2});
    base->set(1, 7);
    view = Tensor::Reshaped(base, {1, 2});
  }
  CHECK(view->at(1) == 7);
}

TEST_CASE("tensor: writing forgets the content's hash") {
  Tensor t(DType::kF32, {2});
  const uint64_t zeros = t.ContentHash();
  t.set(0, 1);
  const uint64_t one = t.ContentHash();
  CHECK(one != zeros);
  t.mutable_data_as<float>()[0] = 0;
  CHECK(t.ContentHash() == zeros);
  Tensor s(DType::kString, {1});
  const uint64_t none = s.ContentHash();
  s.mutable_strings()[0] = "x";
  CHECK(s.ContentHash() != none);
}

}  // namespace
}  // namespace weft
