/// dlpack.h: tensors across borders without copies: DLPack's `DLManagedTensor` and, since its
/// version 1, `DLManagedTensorVersioned` (dlpack.h of DLPack, not included here), as other
/// frameworks give and take them. Only the versioned form can say that a tensor is read-only.
///
/// What is taken over is deleted by its deleter when the last user of its memory is gone. Where a
/// function throws, it stays the caller's: kUnsupported for vector lanes, dtypes that DLPack alone
/// has and another major version than 1; kBadInput for extents, strides or a pointer that make no
/// sense.
///
/// Memory of a device (kDLCUDA and others) becomes a tensor of that place, and goes out as one;
/// pinned memory of the host is the host's. Nothing here waits for a device: what is fed to a
/// program has to be written when the run begins (weft/runtime/backend/device_tensor.h).
#pragma once

#include <vector>

#include "weft/core/tensor/strided.h"
#include "weft/core/tensor/tensor.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace weft {

/// A view of `managed`, which is taken over; read-only where that is. Throws kUnsupported for
/// strides that are not dense and row-major.
WEFT_API std::shared_ptr<Tensor> FromDLPack(DLManagedTensor* managed);
WEFT_API std::shared_ptr<Tensor> FromDLPack(DLManagedTensorVersioned* managed);

/// The same for any strides: in the order in which it lies, or in that of `perm`, as FromStrided.
/// What had to be copied is deleted at once.
WEFT_API ForeignTensor TakeDLPack(DLManagedTensor* managed);
WEFT_API ForeignTensor TakeDLPack(DLManagedTensor* managed, const std::vector<int64_t>& perm);
WEFT_API ForeignTensor TakeDLPack(DLManagedTensorVersioned* managed);
WEFT_API ForeignTensor TakeDLPack(DLManagedTensorVersioned* managed,
                                  const std::vector<int64_t>& perm);

/// A view that keeps `tensor` alive until its deleter is called. Consumers may not write to
/// what they get of a tensor that Weft shares. Throws kUnsupported for strings, dtypes that DLPack
/// lacks and tensors that are read-only, which this form cannot say.
WEFT_API DLManagedTensor* ToDLPack(const TensorPtr& tensor);

/// What the versioned form says of the tensor.
struct DLPackFlags {
  bool read_only = false;  ///< a tensor that is read-only says so anyhow
  bool copied = false;     ///< the tensor was made for whoever takes it
};
WEFT_API DLManagedTensorVersioned* ToDLPackVersioned(const TensorPtr& tensor,
                                                     DLPackFlags flags = {});

}  // namespace weft
