/// kernel_call.h: generated kernels in the place of a library call that no library takes. For the
/// runtime, and for backends whose libraries do a part of a call.
#pragma once

#include <memory>

#include "weft/runtime/backend/backend.h"

namespace weft {

/// Computes what `q` asks for, its epilogue included, in any layout. Null where no kernels are
/// generated for it, or they need the host in between. `failed` (may be null) grows by the kernels
/// that could not be generated (PassContext::Fault).
WEFT_API std::unique_ptr<PreparedCall> MakeKernelCall(const ComputeRequest& q, Backend& backend,
                                                      int* failed = nullptr);

}  // namespace weft
