/// dlpack.cc: host tensors as DLManagedTensor and back; both are views.
#include "weft/core/tensor/dlpack.h"

#include <dlpack/dlpack.h>

#include <optional>

#include "weft/support/check.h"

namespace weft {
namespace {

static_assert(kDLInt == 0 && kDLUInt == 1 && kDLFloat == 2 && kDLBfloat == 4 && kDLComplex == 5,
              "DTypeTraits::dlpack");

/// What a given-out view holds: the tensor, and its extents where DLPack wants to see them.
struct Given {
  DLManagedTensor managed{};
  TensorPtr tensor;
  std::vector<int64_t> dims;
};

/// Are the strides those of a compact row-major tensor? Dims of extent 1 may say
/// anything, empty tensors too.
bool IsCompact(const DLTensor& t) {
  if (!t.strides) return true;
  int64_t expected = 1;
  bool same = true;
  for (int d = t.ndim - 1; d >= 0; --d) {
    if (t.shape[d] == 0) return true;
    if (t.shape[d] != 1) same = same && t.strides[d] == expected;
    if (__builtin_mul_overflow(expected, t.shape[d], &expected)) return false;
  }
  return same;
}

}  // namespace

std::shared_ptr<Tensor> FromDLPack(DLManagedTensor* managed) {
  WEFT_CHECK(managed, kApiMisuse, "no DLPack tensor is given");
  const DLTensor& t = managed->dl_tensor;
  const int device = int(t.device.device_type);
  WEFT_CHECK(device == kDLCPU || device == kDLCUDAHost, kUnsupported,
             "the DLPack tensor is on device type {}, which the host cannot read", device);
  WEFT_CHECK(t.ndim >= 0 && (t.ndim == 0 || t.shape), kBadInput,
             "the DLPack tensor has {} dimensions and no shape", t.ndim);
  std::optional<DType> dtype;
  for (const DTypeTraits& row : DTypeTable::kRows)
    if (row.dlpack == t.dtype.code && row.bits == t.dtype.bits) dtype = row.type;
  WEFT_CHECK(dtype && t.dtype.lanes == 1, kUnsupported,
             "no dtype for DLPack's code {}, {} bits, {} lanes", int(t.dtype.code),
             int(t.dtype.bits), int(t.dtype.lanes));
  for (int d = 0; d < t.ndim; ++d)
    WEFT_CHECK(t.shape[d] >= 0, kBadInput, "the DLPack tensor has the dimension {}", t.shape[d]);
  WEFT_CHECK(IsCompact(t), kUnsupported,
             "the DLPack tensor is not compact in row-major order; copy it first");
  std::vector<int64_t> dims(t.shape, t.shape + t.ndim);
  // Judged whole before it is taken over: what is thrown up to here leaves it with the caller.
  auto view = std::make_shared<Tensor>(*dtype, std::move(dims),
                                       static_cast<char*>(t.data) + t.byte_offset, nullptr);
  WEFT_CHECK(t.data || view->num_bytes() == 0, kBadInput, "the DLPack tensor has no data");
  struct Owner {
    std::shared_ptr<Tensor> view;
    DLManagedTensor* managed = nullptr;
    ~Owner() {
      if (managed && managed->deleter) managed->deleter(managed);
    }
  };
  auto owner = std::make_shared<Owner>();
  owner->view = std::move(view);
  owner->managed = managed;
  return std::shared_ptr<Tensor>(owner, owner->view.get());
}

DLManagedTensor* ToDLPack(const TensorPtr& tensor) {
  WEFT_CHECK(tensor, kApiMisuse, "no tensor is given");
  WEFT_CHECK(tensor->is_tensor(), kUnsupported, "DLPack has no values of type {}",
             tensor->type().ToString());
  const DTypeTraits& type = TraitsOf(tensor->dtype());
  WEFT_CHECK(type.dlpack >= 0, kUnsupported, "DLPack has no dtype {}", DTypeName(tensor->dtype()));
  auto given = std::make_unique<Given>();
  given->tensor = tensor;
  given->dims = tensor->dims();
  DLTensor& t = given->managed.dl_tensor;
  t.data = const_cast<void*>(tensor->data());
  t.device.device_type = kDLCPU;
  t.ndim = tensor->rank();
  t.dtype = {uint8_t(type.dlpack), uint8_t(type.bits), 1};
  t.shape = given->dims.data();
  given->managed.manager_ctx = given.get();
  given->managed.deleter = [](DLManagedTensor* m) { delete static_cast<Given*>(m->manager_ctx); };
  return &given.release()->managed;
}

}  // namespace weft
