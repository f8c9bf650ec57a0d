/// npz.h: NumPy's .npz files: tensors by name, as numpy.savez writes them.
///
/// A .npz file is a ZIP archive of .npy files. Read: stored entries, also of ZIP64, whose checksums
/// are tested. Compressed ones (numpy.savez_compressed) and encrypted ones are refused.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "weft/core/tensor/tensor.h"

namespace weft {

/// By name, without ".npy". Throws kIo, kLimit (a file above `max_bytes`), kBadTensorFile.
WEFT_API std::map<std::string, TensorPtr> ReadNpz(const std::string& path,
                                                  int64_t max_bytes = int64_t{1} << 40);
/// The same from bytes; `place` names them in messages.
WEFT_API std::map<std::string, TensorPtr> ParseNpz(std::string_view bytes,
                                                   const std::string& place = "<npz>");

}  // namespace weft
