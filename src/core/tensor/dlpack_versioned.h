/// dlpack_versioned.h: the versioned form of a managed tensor, which libdlpack-dev 0.6 lacks, as
/// the specification of DLPack 1 lays it out. Private to the core.
#pragma once

#include <dlpack/dlpack.h>

#ifndef DLPACK_MAJOR_VERSION  // of a header that has it

struct DLPackVersion {
  uint32_t major;  ///< another one: no field behind `deleter` is where this says
  uint32_t minor;
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  ///< deletes `self` too; may be null
  uint64_t flags;
  DLTensor dl_tensor;
};

#endif

namespace weft::dlpack {

inline constexpr uint32_t kMajor = 1;
/// Since 1.2 every tensor that has dims has strides.
inline constexpr uint32_t kMinor = 2;

inline constexpr uint64_t kReadOnly = 1;  ///< in `flags`: nobody may write to it
inline constexpr uint64_t kCopied = 2;    ///< the producer has made a copy for its taker

}  // namespace weft::dlpack
