/// tensor.cc: host tensors: 64-byte aligned, zero-filled memory, or a view of memory that someone
/// else keeps alive.
#include "weft/core/tensor/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "scalar_io.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/hash.h"
#include "weft/support/request.h"

namespace weft {
namespace {

constexpr int64_t kAlignment = 64;  // a cache line; no vector instruction wants more

/// Zeroed pages come from calloc, so that a large tensor costs nothing until it is written.
std::shared_ptr<void> AllocateZeroed(int64_t bytes) {
  const int64_t total = CheckedAdd(bytes, kAlignment);
  RequestScope::CheckTensor(bytes);
  RequestScope::CheckMemory(total);
  void* memory = std::calloc(size_t(total), 1);
  WEFT_CHECK(memory != nullptr, kOutOfMemory, "no memory for a tensor of {} bytes", bytes);
  return std::shared_ptr<void>(memory, std::free);
}

void* AlignUp(void* p) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  return reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

std::string MemoryPlace::ToString() const {
  if (on_host()) return "the host";
  if (kind == kCuda) return fmt::format("CUDA device {}", device);
  return fmt::format("device {} of kind {}", device, kind);
}

Tensor::Tensor(DType dtype, std::vector<int64_t> dims)
    : dtype_(dtype), dims_(std::move(dims)), count_(NumElements(dims_)) {
  WEFT_CHECK(dtype_ != DType::kUnknown, kTypeMismatch, "a tensor needs a dtype");
  if (dtype_ == DType::kString) {
    const int64_t bytes = CheckedMul(count_, int64_t{sizeof(std::string)});
    RequestScope::CheckTensor(bytes);
    RequestScope::CheckMemory(bytes);
    strings_.resize(size_t(count_));
    return;
  }
  owner_ = AllocateZeroed(num_bytes());
  data_ = AlignUp(owner_.get());
}

Tensor::Tensor(DType dtype, std::vector<int64_t> dims, void* data, std::shared_ptr<void> owner)
    : Tensor(dtype, std::move(dims), data, std::move(owner), MemoryPlace()) {}

Tensor::Tensor(DType dtype, std::vector<int64_t> dims, void* data, std::shared_ptr<void> owner,
               MemoryPlace place)
    : dtype_(dtype),
      dims_(std::move(dims)),
      count_(NumElements(dims_)),
      data_(data),
      owner_(std::move(owner)),
      place_(place) {
  WEFT_CHECK(DTypeBits(dtype_) > 0, kTypeMismatch,
             "memory cannot be viewed as a tensor of dtype {}", DTypeName(dtype_));
  (void)num_bytes();  // the overflow check
}

void Tensor::ThrowReadOnly() const {
  ThrowError(ErrorCode::kApiMisuse,
             fmt::format("a read-only tensor {}{} cannot be written", DTypeName(dtype_),
                         shape().ToString()),
             "", "its owner lends it for reading: write to a copy");
}

void Tensor::CheckOnHost() const {
  if (__builtin_expect(on_host(), 1)) return;
  ThrowError(ErrorCode::kApiMisuse,
             fmt::format("the elements of a tensor {}{} on {} are not the host's to read",
                         DTypeName(dtype_), shape().ToString(), place_.ToString()),
             "", "copy it to the host first, or give it to a program of that device");
}

double Tensor::at(int64_t i) const {
  CheckOnHost();
  WEFT_ICHECK(i >= 0 && i < count_, "element {} of {}", i, count_);
  return LoadDouble(dtype_, data_, i);
}

int64_t Tensor::at_int(int64_t i) const {
  CheckOnHost();
  WEFT_ICHECK(i >= 0 && i < count_, "element {} of {}", i, count_);
  return LoadInt(dtype_, data_, i);
}

void Tensor::set(int64_t i, double v) {
  CheckOnHost();
  WEFT_ICHECK(i >= 0 && i < count_, "element {} of {}", i, count_);
  StoreDouble(dtype_, mutable_data(), i, v);
}

void Tensor::set_int(int64_t i, int64_t v) {
  CheckOnHost();
  WEFT_ICHECK(i >= 0 && i < count_, "element {} of {}", i, count_);
  StoreInt(dtype_, mutable_data(), i, v);
}

bool Tensor::Equals(const Tensor& o) const {
  if (type() != o.type() || dims_ != o.dims_) return false;
  if (!is_tensor())
    return std::equal(elements_.begin(), elements_.end(), o.elements_.begin(), o.elements_.end(),
                      [](const TensorPtr& a, const TensorPtr& b) { return a->Equals(*b); });
  if (dtype_ == DType::kString) return strings_ == o.strings_;
  CheckOnHost();
  o.CheckOnHost();
  const int64_t bytes = num_bytes();
  return data_ == o.data_ || bytes == 0 || std::memcmp(data_, o.data_, size_t(bytes)) == 0;
}

uint64_t Tensor::ContentHash() const {
  // Threads may race to fill the cache; they all write the same value.
  uint64_t hash = __atomic_load_n(&hash_, __ATOMIC_RELAXED);
  if (hash != 0) return hash;
  Hasher h;
  h.Add(int(dtype_)).Add(int64_t(dims_.size()));
  for (const int64_t d : dims_) h.Add(d);
  if (!is_tensor()) h.Add(int(type_kind_)).Add(int(key_)).Add(int64_t(elements_.size()));
  for (const TensorPtr& t : elements_) h.Add(int64_t(t->ContentHash()));
  if (dtype_ == DType::kString) {
    for (const std::string& s : strings_) h.Add(s);
  } else {
    CheckOnHost();
    h.AddBytes(data_, size_t(num_bytes()));
  }
  hash = h.Finish64();
  if (hash == 0) hash = 1;  // 0 stands for "not computed"
  __atomic_store_n(&hash_, hash, __ATOMIC_RELAXED);
  return hash;
}

TensorPtr Tensor::List(Type type, std::vector<TensorPtr> elements) {
  WEFT_CHECK(type.is_sequence() || type.is_map_sequence() || type.is_optional(), kTypeMismatch,
             "{} is not a list", type.ToString());
  WEFT_CHECK(!type.is_optional() || elements.size() <= 1, kTypeMismatch,
             "{} values for an optional", elements.size());
  for (const TensorPtr& t : elements)
    WEFT_CHECK(t && t->type() == type.element(), kTypeMismatch, "an element of type {} in a {}",
               t ? t->type().ToString() : "?", type.ToString());
  auto list = std::make_shared<Tensor>(type.dtype, std::vector<int64_t>{0});
  list->type_kind_ = type.kind;
  list->key_ = type.key;
  list->elements_ = std::move(elements);
  return list;
}

TensorPtr Tensor::Map(TensorPtr keys, TensorPtr values) {
  WEFT_CHECK(keys->type() == DType::kI64 || keys->type() == DType::kString, kTypeMismatch,
             "keys of type {} in a map", keys->type().ToString());
  WEFT_CHECK(values->is_tensor(), kTypeMismatch, "values of type {} in a map",
             values->type().ToString());
  WEFT_CHECK(keys->rank() == 1 && values->dims() == keys->dims(), kShapeMismatch,
             "keys of shape {} and values of shape {} in a map", keys->shape().ToString(),
             values->shape().ToString());
  auto map = std::make_shared<Tensor>(values->dtype(), std::vector<int64_t>{0});
  map->type_kind_ = TypeKind::kMap;
  map->key_ = keys->dtype();
  map->elements_ = {std::move(keys), std::move(values)};
  return map;
}

TensorPtr Tensor::Scalar(DType dtype, double v) {
  auto t = std::make_shared<Tensor>(dtype, std::vector<int64_t>{});
  t->set(0, v);
  return t;
}

TensorPtr Tensor::Ints(const std::vector<int64_t>& values) {
  auto t = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{int64_t(values.size())});
  if (!values.empty())
    std::memcpy(t->mutable_data(), values.data(), values.size() * sizeof(int64_t));
  return t;
}

TensorPtr Tensor::FromDoubles(DType dtype, std::vector<int64_t> dims,
                              const std::vector<double>& values) {
  auto t = std::make_shared<Tensor>(dtype, std::move(dims));
  WEFT_CHECK(int64_t(values.size()) == t->num_elements(), kShapeMismatch,
             "{} values for a tensor of {} elements", values.size(), t->num_elements());
  for (size_t i = 0; i < values.size(); ++i) t->set(int64_t(i), values[i]);
  return t;
}

TensorPtr Tensor::Reshaped(const TensorPtr& t, std::vector<int64_t> dims) {
  WEFT_CHECK(NumElements(dims) == t->num_elements(), kShapeMismatch,
             "cannot view {} as {}: {} elements against {}", t->shape().ToString(),
             Shape::OfInts(dims).ToString(), t->num_elements(), NumElements(dims));
  if (t->dtype() == DType::kString) {
    auto copy = std::make_shared<Tensor>(DType::kString, std::move(dims));
    copy->mutable_strings() = t->strings();
    return copy;
  }
  // The view keeps the viewed tensor alive, whose memory is never written through a TensorPtr.
  auto view = std::make_shared<Tensor>(t->dtype(), std::move(dims), const_cast<void*>(t->data()),
                                       std::const_pointer_cast<Tensor>(t), t->place());
  if (t->read_only()) view->set_read_only();
  return view;
}

}  // namespace weft
