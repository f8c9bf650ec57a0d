/// device_tensor.h: tensors in the memory of a device, for programs that run there: fed, bound to
/// results or made for them (Session::set_result_allocator) they are used where they lie. Those of
/// other libraries come as DLPack (core/tensor/dlpack.h).
///
/// A run does not know what else works on the device. What is fed has to be written, and what is
/// bound no longer read, when Run or Start is called: wait for the stream that does so before. When
/// Run or PendingRun::Wait returns, everything is written, and nothing is read any more.
#pragma once

#include <memory>
#include <vector>

#include "weft/core/tensor/tensor.h"
#include "weft/runtime/backend/backend.h"

namespace weft {

/// In memory of the backend, which stays as long as the tensor. The content is anything. Throws
/// kUnsupported for a backend without a place (DeviceBackend::place) and for strings, kOutOfMemory.
WEFT_API std::shared_ptr<Tensor> NewTensorOn(const std::shared_ptr<Backend>& backend, DType dtype,
                                             std::vector<int64_t> dims);
/// The same with the content of a tensor of the host.
WEFT_API std::shared_ptr<Tensor> CopyTo(const std::shared_ptr<Backend>& backend,
                                        const Tensor& host);
/// The content of a tensor that lies there, on the host.
WEFT_API std::shared_ptr<Tensor> CopyFrom(const std::shared_ptr<Backend>& backend,
                                          const Tensor& on_device);

}  // namespace weft
