/// dlpack_test.cc: views across the border: lifetimes, layouts that fit and that do not.
#include "weft/core/tensor/dlpack.h"

#include <dlpack/dlpack.h>
#include <doctest/doctest.h>

#include <functional>

#include "dlpack_versioned.h"
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

/// The same in the versioned form.
struct Versioned {
  Foreign old;
  DLManagedTensorVersioned managed{};
  int deleted = 0;
  Versioned() {
    managed.version = {dlpack::kMajor, 0};
    managed.dl_tensor = old.managed.dl_tensor;
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* m) {
      ++static_cast<Versioned*>(m->manager_ctx)->deleted;
    };
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
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.device.device_id = 1 << 20; }) ==
        ErrorCode::kBadInput);
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.data = nullptr; }) == ErrorCode::kBadInput);
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.ndim = -1; }) == ErrorCode::kBadInput);
  CHECK(refused([](Foreign& f) { f.shape[0] = -2; }) == ErrorCode::kBadInput);
  CHECK(refused([](Foreign& f) {
          f.managed.dl_tensor.strides = nullptr;
          f.shape = {int64_t{1} << 40, int64_t{1} << 40, 1};
          f.managed.dl_tensor.shape = f.shape.data();
        }) == ErrorCode::kOverflow);
  CHECK(CodeOf([] { FromDLPack(static_cast<DLManagedTensor*>(nullptr)); }) ==
        ErrorCode::kApiMisuse);
}

TEST_CASE("every dtype that both have goes out and comes back equal, without a copy") {
  for (int i = 1; i < kNumDTypes; ++i) {
    const auto dtype = DType(i);
    CAPTURE(DTypeName(dtype));
    const bool both = DTypeBits(dtype) >= 8;
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

TEST_CASE("the versioned form is viewed, read-only where it says so, and deleted with its user") {
  for (const bool read_only : {false, true}) {
    Versioned v;
    v.managed.flags = (read_only ? dlpack::kReadOnly : 0) | dlpack::kCopied;
    {
      const std::shared_ptr<Tensor> t = FromDLPack(&v.managed);
      CHECK(std::as_const(*t).data() == v.old.data.data());
      CHECK(t->dims() == v.old.shape);
      CHECK(t->read_only() == read_only);
      CHECK(v.deleted == 0);
    }
    CHECK(v.deleted == 1);
  }
}

TEST_CASE("another major version is refused, unread, and stays with its owner") {
  for (const uint32_t major : {0u, 2u, 77u}) {
    Versioned v;
    v.managed.version = {major, 5};
    v.managed.dl_tensor.ndim = 1 << 20;  // nothing behind `deleter` may be believed
    CHECK(CodeOf([&] { FromDLPack(&v.managed); }) == ErrorCode::kUnsupported);
    CHECK(CodeOf([&] { TakeDLPack(&v.managed); }) == ErrorCode::kUnsupported);
    CHECK(v.deleted == 0);
  }
  Versioned newer;
  newer.managed.version.minor = 99;
  CHECK(FromDLPack(&newer.managed)->num_elements() == 24);
}

TEST_CASE("what goes out in the versioned form says what it is") {
  const auto t = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{2, 3});
  const auto flags = [](const TensorPtr& tensor, DLPackFlags given) {
    DLManagedTensorVersioned* m = ToDLPackVersioned(tensor, given);
    CHECK(m->version.major == 1);
    REQUIRE(m->dl_tensor.strides);
    CHECK(m->dl_tensor.strides[0] == 3);
    CHECK(m->dl_tensor.strides[1] == 1);
    const uint64_t said = m->flags;
    m->deleter(m);
    return said;
  };
  CHECK(flags(t, {}) == 0);
  CHECK(flags(t, {true, false}) == dlpack::kReadOnly);
  CHECK(flags(t, {false, true}) == dlpack::kCopied);
  std::weak_ptr<Tensor> watch = t;
  const std::shared_ptr<Tensor> back = FromDLPack(ToDLPackVersioned(t, {true, false}));
  CHECK(back->read_only());
  CHECK(flags(back, {}) == dlpack::kReadOnly);
  CHECK(CodeOf([&] { ToDLPack(back); }) == ErrorCode::kUnsupported);  // which cannot say it
  CHECK(watch.use_count() == 2);
}

TEST_CASE("other strides are taken in their order, or copied and given back at once") {
  Foreign f;
  f.shape = {3, 2, 4};
  f.strides = {4, 12, 1};
  const BorderCopies before = CountBorderCopies();
  {
    const ForeignTensor taken = TakeDLPack(&f.managed);
    CHECK(taken.tensor->data() == f.data.data());
    CHECK(taken.tensor->dims() == std::vector<int64_t>{2, 3, 4});
    CHECK(taken.perm == std::vector<int64_t>{1, 0, 2});
    CHECK(f.deleted == 0);
  }
  CHECK(f.deleted == 1);
  CHECK(CountBorderCopies().bytes == before.bytes);

  Versioned v;
  v.old.shape = {2, 2, 4};
  for (int i = 0; i < 24; ++i) v.old.data[size_t(i)] = float(i);
  v.managed.flags = dlpack::kReadOnly;
  const ForeignTensor copy = TakeDLPack(&v.managed);
  CHECK(v.deleted == 1);
  CHECK(copy.copied);
  CHECK_FALSE(copy.tensor->read_only());
  CHECK(copy.tensor->at(8) == 12);
  CHECK(copy.tensor->at(15) == 19);
  CHECK(CountBorderCopies().bytes == before.bytes + 64);
  const ForeignTensor asked = TakeDLPack(&v.managed, {2, 1, 0});
  CHECK(asked.tensor->dims() == std::vector<int64_t>{4, 2, 2});
  CHECK(asked.tensor->at(1) == 12);
}

TEST_CASE("memory of a device keeps its place, and its elements are not the host's to read") {
  Versioned v;
  v.managed.dl_tensor.device = {kDLCUDA, 3};
  const std::shared_ptr<Tensor> t = FromDLPack(&v.managed);
  CHECK(t->place() == MemoryPlace{MemoryPlace::kCuda, 3});
  CHECK(t->place().ToString() == "CUDA device 3");
  CHECK_FALSE(t->on_host());
  CHECK(CodeOf([&] { t->at(0); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { t->at_int(0); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { t->set(0, 1); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { t->ContentHash(); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { t->Equals(*t); }) == ErrorCode::kApiMisuse);
  CHECK(Tensor::Reshaped(t, {24})->place() == t->place());
  DLManagedTensorVersioned* out = ToDLPackVersioned(t);
  CHECK(out->dl_tensor.device.device_type == kDLCUDA);
  CHECK(out->dl_tensor.device.device_id == 3);
  out->deleter(out);
  // Pinned memory is the host's; what is not dense is not copied from here.
  Versioned pinned;
  pinned.managed.dl_tensor.device = {kDLCUDAHost, 0};
  CHECK(FromDLPack(&pinned.managed)->on_host());
  Versioned part;
  part.managed.dl_tensor.device = {kDLCUDA, 0};
  part.old.shape[1] = 2;
  CHECK(CodeOf([&] { TakeDLPack(&part.managed); }) == ErrorCode::kUnsupported);
  CHECK(part.deleted == 0);
}

TEST_CASE("scalars and empty tensors") {
  CHECK(FromDLPack(ToDLPack(Tensor::Scalar(DType::kF64, 2.5)))->at(0) == 2.5);
  const auto none = std::make_shared<Tensor>(DType::kI32, std::vector<int64_t>{0, 4});
  CHECK(FromDLPack(ToDLPack(none))->dims() == none->dims());
}

}  // namespace
}  // namespace weft
