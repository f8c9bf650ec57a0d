/// dlpack.cc: host tensors as managed tensors of DLPack, versioned or not, and back.
#include "weft/core/tensor/dlpack.h"

#include <algorithm>
#include <optional>

#include "dlpack_versioned.h"
#include "weft/support/check.h"

namespace weft {
namespace {

static_assert(kDLCPU == MemoryPlace::kHost && kDLCUDA == MemoryPlace::kCuda &&
              kDLExtDev == MemoryPlace::kExtension);
static_assert(kDLInt == 0 && kDLUInt == 1 && kDLFloat == 2 && kDLBfloat == 4 && kDLComplex == 5,
              "DTypeTraits::dlpack");

using Versioned = DLManagedTensorVersioned;
using Ints = std::vector<int64_t>;

/// Throws unless the fields of `managed` are where this build believes them.
void CheckVersion(const DLManagedTensor&) {}
void CheckVersion(const Versioned& managed) {
  WEFT_CHECK(managed.version.major == dlpack::kMajor, kUnsupported,
             "a DLPack tensor of version {}.{}, this build reads {}.x", managed.version.major,
             managed.version.minor, dlpack::kMajor);
}
bool IsReadOnly(const DLManagedTensor&) { return false; }
bool IsReadOnly(const Versioned& managed) { return (managed.flags & dlpack::kReadOnly) != 0; }

StridedMemory MemoryOf(const DLTensor& t, bool read_only) {
  const int kind = int(t.device.device_type);
  const bool pinned = kind == kDLCUDAHost || kind == kDLROCMHost;
  WEFT_CHECK(t.ndim >= 0 && (t.ndim == 0 || t.shape), kBadInput,
             "the DLPack tensor has {} dimensions and no shape", t.ndim);
  std::optional<DType> dtype;
  for (const DTypeTraits& row : DTypeTable::kRows)
    if (row.dlpack == t.dtype.code && row.bits == t.dtype.bits) dtype = row.type;
  WEFT_CHECK(dtype && t.dtype.lanes == 1, kUnsupported,
             "no dtype for DLPack's code {}, {} bits, {} lanes", int(t.dtype.code),
             int(t.dtype.bits), int(t.dtype.lanes));
  StridedMemory memory;
  memory.dtype = *dtype;
  memory.dims.assign(t.shape, t.shape + t.ndim);
  if (t.strides) memory.strides.assign(t.strides, t.strides + t.ndim);
  memory.data = t.data ? static_cast<char*>(t.data) + t.byte_offset : nullptr;
  memory.read_only = read_only;
  WEFT_CHECK(
      kind > 0 && kind <= INT16_MAX && t.device.device_id >= 0 && t.device.device_id <= INT16_MAX,
      kBadInput, "the DLPack tensor is on device {} of the type {}", int(t.device.device_id), kind);
  if (kind != kDLCPU && !pinned) memory.place = {int16_t(kind), int16_t(t.device.device_id)};
  return memory;
}

/// Deletes what it has taken over.
template <class Managed>
struct Owner {
  Managed* managed = nullptr;
  ~Owner() {
    if (managed && managed->deleter) managed->deleter(managed);
  }
};

/// `take`: from StridedMemory to ForeignTensor.
template <class Managed, class F>
ForeignTensor Take(Managed* managed, F&& take) {
  WEFT_CHECK(managed, kApiMisuse, "no DLPack tensor is given");
  CheckVersion(*managed);
  StridedMemory memory = MemoryOf(managed->dl_tensor, IsReadOnly(*managed));
  const auto owner = std::make_shared<Owner<Managed>>();
  memory.owner = owner;
  ForeignTensor taken = take(std::move(memory));
  owner->managed = managed;  // what has thrown up to here leaves it with the caller
  return taken;
}

template <class Managed>
std::shared_ptr<Tensor> View(Managed* managed) {
  return Take(managed,
              [](StridedMemory memory) {
                const std::optional<Ints> perm = DensePerm(memory.dims, memory.strides);
                WEFT_CHECK(perm && perm->empty(), kUnsupported,
                           "the DLPack tensor is not dense in row-major order; copy it first");
                return FromStrided(std::move(memory), Ints());
              })
      .tensor;
}
template <class Managed>
ForeignTensor TakeInItsOrder(Managed* managed) {
  return Take(managed, [](StridedMemory memory) { return FromStrided(std::move(memory)); });
}
template <class Managed>
ForeignTensor TakeInOrder(Managed* managed, const Ints& perm) {
  return Take(managed, [&](StridedMemory memory) { return FromStrided(std::move(memory), perm); });
}

/// What a given-out view holds: the tensor, and its extents where DLPack wants to see them.
template <class Managed>
struct Given {
  Managed managed{};
  TensorPtr tensor;
  Ints dims, strides;
};

template <class Managed>
std::unique_ptr<Given<Managed>> Give(const TensorPtr& tensor) {
  WEFT_CHECK(tensor, kApiMisuse, "no tensor is given");
  WEFT_CHECK(tensor->is_tensor(), kUnsupported, "DLPack has no values of type {}",
             tensor->type().ToString());
  const DTypeTraits& type = TraitsOf(tensor->dtype());
  WEFT_CHECK(type.dlpack >= 0, kUnsupported, "DLPack has no dtype {}", DTypeName(tensor->dtype()));
  auto given = std::make_unique<Given<Managed>>();
  given->tensor = tensor;
  given->dims = tensor->dims();
  given->strides.resize(given->dims.size());
  int64_t stride = 1;
  for (size_t d = given->dims.size(); d-- > 0; stride *= std::max<int64_t>(given->dims[d], 1))
    given->strides[d] = stride;
  DLTensor& t = given->managed.dl_tensor;
  t.data = const_cast<void*>(tensor->data());
  t.device.device_type = DLDeviceType(tensor->place().kind);
  t.device.device_id = tensor->place().device;
  t.ndim = tensor->rank();
  t.dtype = {uint8_t(type.dlpack), uint8_t(type.bits), 1};
  t.shape = given->dims.data();
  t.strides = given->strides.data();
  given->managed.manager_ctx = given.get();
  given->managed.deleter = [](Managed* m) { delete static_cast<Given<Managed>*>(m->manager_ctx); };
  return given;
}

}  // namespace

std::shared_ptr<Tensor> FromDLPack(DLManagedTensor* managed) { return View(managed); }
std::shared_ptr<Tensor> FromDLPack(Versioned* managed) { return View(managed); }
ForeignTensor TakeDLPack(DLManagedTensor* managed) { return TakeInItsOrder(managed); }
ForeignTensor TakeDLPack(Versioned* managed) { return TakeInItsOrder(managed); }
ForeignTensor TakeDLPack(DLManagedTensor* managed, const Ints& perm) {
  return TakeInOrder(managed, perm);
}
ForeignTensor TakeDLPack(Versioned* managed, const Ints& perm) {
  return TakeInOrder(managed, perm);
}

DLManagedTensor* ToDLPack(const TensorPtr& tensor) {
  auto given = Give<DLManagedTensor>(tensor);
  if (tensor->read_only())
    ThrowError(ErrorCode::kUnsupported, "a read-only tensor as a DLManagedTensor", "",
               "only DLManagedTensorVersioned can say that it is read-only: ToDLPackVersioned");
  return &given.release()->managed;
}

Versioned* ToDLPackVersioned(const TensorPtr& tensor, DLPackFlags flags) {
  auto given = Give<Versioned>(tensor);
  given->managed.version = {dlpack::kMajor, dlpack::kMinor};
  given->managed.flags = (flags.read_only || tensor->read_only() ? dlpack::kReadOnly : 0) |
                         (flags.copied ? dlpack::kCopied : 0);
  return &given.release()->managed;
}

}  // namespace weft
