/// dlpack.h: tensors across borders without copies: DLPack's `DLManagedTensor` (dlpack.h of
/// libdlpack-dev, not included here), as other frameworks give and take it.
#pragma once

#include "weft/core/tensor/tensor.h"

struct DLManagedTensor;

namespace weft {

/// A view of `managed`, which is taken over: its deleter runs when the last user of the tensor is
/// gone. Throws kUnsupported for memory that the host cannot address, for strides that are not
/// compact row-major, vector lanes and dtypes that DLPack alone has, kBadInput for extents or a
/// pointer that make no sense; then `managed` stays the caller's.
WEFT_API std::shared_ptr<Tensor> FromDLPack(DLManagedTensor* managed);

/// A view that keeps `tensor` alive until its deleter is called. Consumers may not write to
/// what they get of a tensor that Weft shares. Throws kUnsupported for strings and dtypes
/// that DLPack lacks.
WEFT_API DLManagedTensor* ToDLPack(const TensorPtr& tensor);

}  // namespace weft
