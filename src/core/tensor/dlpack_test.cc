/// dlpack_test.cc: views across the border: lifetimes, layouts that fit and that do not.
#include "weft/core/tensor/dlpack.h"

#include <dlpack/dlpack.h>
#include <doctest/doctest.h>

#include <functional>

#include "tests/support/code_of.h"
#include "weft/support/error.h"

namespace weft {
namespace {

/// A tensor of somebody else that counts its deletions.
struct Foreign {
  std::vector<float> data = std::vector<float>(24, 1.5f);
  std::vector<int64_t> shape{2, 3, 4}, strides{12, 4, 1};
  int deleted = 0;
  DLManagedTensor managed{};
  Foreign() {
    DLTensor& t = managed.dl_tensor;
    t.data = data.data();
    t.device.device_type = kDLCPU;
    t.ndim = 3;
    t.dtype = {kDLFloat, 32, 1};
    t.shape = shape.data();
    t.strides = strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* m) { ++static_cast<Foreign*>(m->manager_ctx)->deleted; };
  }
};

TEST_CASE("a DLPack tensor is viewed, and deleted with its last user") {
  Foreign f;
  {
    TensorPtr t = FromDLPack(&f.managed);
    CHECK(t->data() == f.data.data());
    CHECK(t->dims() == f.shape);
    CHECK(t->dtype() == DType::kF32);
    TensorPtr other = t;
    t.reset();
    CHECK(f.deleted == 0);
  }
  CHECK(f.deleted == 1);
}

TEST_CASE("offsets, missing strides, strides of single extents") {
  Foreign f;
  f.managed.dl_tensor.byte_offset = 16;
  f.shape = {1, 5, 4};
  f.strides = {77, 4, 1};
  f.managed.dl_tensor.shape = f.shape.data();
  f.managed.dl_tensor.strides = f.strides.data();
  CHECK(FromDLPack(&f.managed)->data() == f.data.data() + 4);
  f.managed.dl_tensor.strides = nullptr;
  CHECK(FromDLPack(&f.managed)->num_elements() == 20);
}

TEST_CASE("what cannot be viewed is refused and stays with its owner") {
  const auto refused = [](const std::function<void(Foreign&)>& change) {
    Foreign f;
    change(f);
    const ErrorCode code = CodeOf([&] { FromDLPack(&f.managed); });
    CHECK(f.deleted == 0);
    return code;
  };
  CHECK(refused([](Foreign& f) { f.strides[1] = 1; }) == ErrorCode::kUnsupported);
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.dtype.lanes = 4; }) ==
        ErrorCode::kUnsupported);
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.dtype.bits = 24; }) ==
        ErrorCode::kUnsupported);
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.device.device_type = kDLCUDA; }) ==
        ErrorCode::kUnsupported);
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.data = nullptr; }) == ErrorCode::kBadInput);
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.ndim = -1; }) == ErrorCode::kBadInput);
  CHECK(refused([](Foreign& f) { f.shape[0] = -2; }) == ErrorCode::kBadInput);
  CHECK(refused([](Foreign& f) {
          f.managed.dl_tensor.strides = nullptr;
          f.shape = {int64_t{1} << 40, int64_t{1} << 40, 1};
          f.managed.dl_tensor.shape = f.shape.data();
        }) == ErrorCode::kOverflow);
  CHECK(CodeOf([] { FromDLPack(nullptr); }) == ErrorCode::kApiMisuse);
}

TEST_CASE("every dtype that both have goes out and comes back equal, without a copy") {
  for (int i = 1; i < kNumDTypes; ++i) {
    const auto dtype = DType(i);
    CAPTURE(DTypeName(dtype));
    const bool both = i < int(DType::kI4) && dtype != DType::kString;
    auto t = std::make_shared<Tensor>(dtype, std::vector<int64_t>{3, 2});
    if (!both) {
      CHECK(CodeOf([&] { ToDLPack(t); }) == ErrorCode::kUnsupported);
      continue;
    }
    std::weak_ptr<Tensor> watch = t;
    TensorPtr back = FromDLPack(ToDLPack(t));
    CHECK(back->Equals(*t));
    CHECK(back->data() == t->data());
    t.reset();
    CHECK(!watch.expired());
    back.reset();
    CHECK(watch.expired());
  }
}

TEST_CASE("scalars and empty tensors") {
  CHECK(FromDLPack(ToDLPack(Tensor::Scalar(DType::kF64, 2.5)))->at(0) == 2.5);
  const auto none = std::make_shared<Tensor>(DType::kI32, std::vector<int64_t>{0, 4});
  CHECK(FromDLPack(ToDLPack(none))->dims() == none->dims());
}

}  // namespace
}  // namespace weft
