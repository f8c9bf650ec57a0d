/// tensor.h: a dense host tensor: dtype, extents, row-major contiguous bytes. Shared and immutable
/// once built: parameters, constants, inputs and results of the reference evaluator. Sequences and
/// optionals of tensors, and maps, are values of the same kind, without elements of their own.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/tensor/dtype.h"
#include "weft/core/tensor/shape.h"

namespace weft {

class Tensor;
using TensorPtr = std::shared_ptr<const Tensor>;

/// What addresses mean: memory of the host, or of a device, by its kind (a DLDeviceType of DLPack:
/// 2 is CUDA, 12 a device of somebody's own) and its number.
struct MemoryPlace {
  static constexpr int16_t kHost = 1, kCuda = 2, kExtension = 12;
  int16_t kind = kHost;
  int16_t device = 0;
  bool on_host() const { return kind == kHost; }
  /// "the host", "CUDA device 1", "device 0 of kind 12".
  WEFT_API std::string ToString() const;
  friend bool operator==(const MemoryPlace& a, const MemoryPlace& b) {
    return a.kind == b.kind && a.device == b.device;
  }
  friend bool operator!=(const MemoryPlace& a, const MemoryPlace& b) { return !(a == b); }
};

class WEFT_API Tensor {
 public:
  /// Zero-filled (strings: empty). Throws kOverflow /
  /// kOutOfMemory / kInvalidModel (negative extent).
  Tensor(DType dtype, std::vector<int64_t> dims);
  /// Views memory kept alive by `owner` (a mapped file, another tensor, a DLPack capsule). 64-byte
  /// alignment is not promised.
  Tensor(DType dtype, std::vector<int64_t> dims, void* data, std::shared_ptr<void> owner);
  /// The same of memory that may be a device's: only programs of that device read and write it.
  Tensor(DType dtype, std::vector<int64_t> dims, void* data, std::shared_ptr<void> owner,
         MemoryPlace place);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int rank() const { return int(dims_.size()); }
  int64_t num_elements() const { return count_; }
  int64_t num_bytes() const { return DTypeBytes(dtype_, count_); }
  /// Of unknown rank for a list.
  Shape shape() const { return type_kind_ == TypeKind::kTensor ? Shape::OfInts(dims_) : Shape(); }

  /// Of a tensor its dtype, of a list what List was given.
  Type type() const { return Type(type_kind_, dtype_, key_); }
  bool is_tensor() const { return type_kind_ == TypeKind::kTensor; }
  /// What a sequence or an optional holds; the keys and the values of a map, two tensors of one
  /// axis; empty for a tensor.
  const std::vector<TensorPtr>& elements() const { return elements_; }

  /// Where data() is an address. What looks at elements (at, set, Equals, ContentHash) throws
  /// kApiMisuse where it is not the host.
  const MemoryPlace& place() const { return place_; }
  bool on_host() const { return place_.on_host(); }
  /// Which content this is of what lies at `data()`: a number of the caller's, who gives another
  /// one with every change where steady inputs are kept packed (CompileOptions::steady).
  uint32_t version() const { return version_; }
  void set_version(uint32_t version) { version_ = version; }

  const void* data() const { return data_; }
  /// Forgets the content's hash: ask again before writing through a pointer that was kept. Throws
  /// kApiMisuse where the tensor is read-only.
  void* mutable_data() {
    if (read_only_) ThrowReadOnly();
    hash_ = 0;
    return data_;
  }
  template <class T>
  const T* data_as() const {
    return static_cast<const T*>(data_);
  }
  template <class T>
  T* mutable_data_as() {
    return static_cast<T*>(mutable_data());
  }
  /// A view of memory that its owner lets nobody write.
  bool read_only() const { return read_only_; }
  void set_read_only() { read_only_ = true; }
  /// Elements of a string tensor.
  const std::vector<std::string>& strings() const { return strings_; }
  std::vector<std::string>& mutable_strings() {
    hash_ = 0;
    return strings_;
  }

  /// Element i as a double / int64 whatever the numeric dtype (f16, bf16, bool included; floats
  /// truncate to int64, u64 above 2^63 keeps its bits). For tests, printing and small constants:
  /// not a fast path.
  double at(int64_t i) const;
  int64_t at_int(int64_t i) const;
  void set(int64_t i, double v);
  void set_int(int64_t i, int64_t v);

  /// Same dtype, extents and bytes.
  bool Equals(const Tensor& o) const;
  /// 64-bit hash of dtype, extents and bytes; cached.
  uint64_t ContentHash() const;

  /// A sequence, or an optional of at most one element, which is `type.element()`: kTypeMismatch
  /// else. To whoever asks for extents and bytes it is an empty tensor.
  static TensorPtr List(Type type, std::vector<TensorPtr> elements);
  /// A map. Throws kTypeMismatch or kShapeMismatch unless both are of one axis and one extent.
  static TensorPtr Map(TensorPtr keys, TensorPtr values);
  static TensorPtr Scalar(DType dtype, double v);
  static TensorPtr Ints(const std::vector<int64_t>& values);  ///< i64 [n]
  static TensorPtr FromDoubles(DType dtype, std::vector<int64_t> dims,
                               const std::vector<double>& values);
  /// Same bytes, other extents (equal element count, else kShapeMismatch); read-only as `t` is.
  static TensorPtr Reshaped(const TensorPtr& t, std::vector<int64_t> dims);

 private:
  [[noreturn]] void ThrowReadOnly() const;
  void CheckOnHost() const;
  DType dtype_;
  uint32_t version_ = 0;
  std::vector<int64_t> dims_;
  int64_t count_ = 0;
  void* data_ = nullptr;
  std::shared_ptr<void> owner_;
  std::vector<std::string> strings_;
  TypeKind type_kind_ = TypeKind::kTensor;
  DType key_ = DType::kUnknown;
  bool read_only_ = false;
  MemoryPlace place_;
  std::vector<TensorPtr> elements_;
  mutable uint64_t hash_ = 0;
};

}  // namespace weft
