/// cuda_printer.h: kernels as CUDA C++ text that needs no header.
///
/// Entry: extern "C" __global__ void <kernel.Name()>(buffers in order, long long d0 .. , long long
/// total). `total` is the number of work items: points of all loops (kElementwise) or rows (kRow);
/// it must be > 0.
///
/// Aliasing: an output may share the memory of an input only if both have the same dtype and number
/// of elements and every read of the input is at the offset that is written. Inputs for which no
/// output qualifies are `__restrict__`.
#pragma once

#include <string>
#include <vector>

#include "weft/codegen/kernel.h"

namespace weft {

/// How to launch a printed kernel. Computed once per kernel; a plain value.
struct WEFT_API CudaSchedule {
  int block = 256;                ///< threads per block
  int64_t items_per_block = 256;  ///< work items that one block takes at a time
  int64_t long_row =
      -1;  ///< kRow with run-time R: from this R + 1 on a block takes one row; -1: no such rule

  /// Blocks to launch. `row` is the number of elements of a row (kRow), any value otherwise.
  int64_t Blocks(int64_t total, int64_t row, int num_multiprocessors) const;
};

WEFT_API CudaSchedule ScheduleCuda(const Kernel& kernel);

/// Deterministic; holds no name of the model.
WEFT_API std::string PrintCuda(const Kernel& kernel);
/// One source with all kernels and the functions they share. Kernels must be distinct.
WEFT_API std::string PrintCuda(const std::vector<KernelPtr>& kernels);

}  // namespace weft
