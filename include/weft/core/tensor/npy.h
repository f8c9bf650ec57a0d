/// npy.h: tensors in NumPy's .npy files, for the command line tool and for tests.
///
/// Read: format versions 1 to 3, C or Fortran order (transposed to C), little-endian bool,
/// integers, f16, f32, f64, c64, c128. Strings, objects, records and big-endian data are refused
/// with kBadTensorFile, and so is anything truncated. NumPy has no bfloat16: a bf16 tensor is
/// written as u16, its bits as they are, and reads back as u16 (view it). The sub-byte and 8-bit
/// float types are refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/core/tensor/tensor.h"

namespace weft {

/// Throws kIo, kLimit (a file above `max_bytes`) or kBadTensorFile.
WEFT_API TensorPtr ReadNpy(const std::string& path, int64_t max_bytes = int64_t{1} << 40);
/// The whole file is written or nothing. Throws kIo, or kUnsupported for a dtype that NumPy lacks.
WEFT_API void WriteNpy(const std::string& path, const Tensor& tensor);

/// The same from and to bytes; `place` names them in messages.
WEFT_API TensorPtr ParseNpy(std::string_view bytes, const std::string& place = "<npy>");
WEFT_API std::string FormatNpy(const Tensor& tensor);

}  // namespace weft
