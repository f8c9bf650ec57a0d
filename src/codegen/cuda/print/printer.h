/// printer.h: kernels as CUDA C++ text that needs no header, and how they are launched: the
/// contract between the printer and whoever launches.
///
/// Entries. One kernel gives up to five kinds of `extern "C" __global__` functions in one source:
///
///   <name>           everything in one launch; 64-bit indices unless `small_index`. Not there
///                    where the extents are known and ask for steps; plain code where <name>_n does
///                    the work of all but the largest extents
///   <name>_n         the same with 32-bit indices: kernels with run-time extents
///                    that are not `small_index`
///   <name>_s0, _s1.. few and long rows: step k of a launch in steps, see below
///   <name>_m4k, _m32k  many parts in one launch (form multi), see below
///
/// Which of them a source has depends on the kernel and the tuning alone; `CudaSchedule::Plan`
/// says for given extents which are to be launched and how. Launches of a plan follow each
/// other on one stream.
///
/// Parameters, each 8 bytes, in this order (all entries but MULTI):
///   the kernel's buffers       device pointers; one element's alignment is enough; fast if all lie
///                              alike to 16 bytes
///   d0, d1 ..                  int64: values of the kernel's symbols
///     or, in place of both, where they exceed 4 KB of parameters (`CudaSchedule::has_table`):
///   table                      device pointer: the words CudaSchedule::Table
///   total                      int64: points or rows; > 0, a plan has no
///                              launch where it is 0
///   CudaLaunch::tail           uint64 each (`_n`, `_s<k>`): multipliers of divisions
///                              by run-time extents; slices
///   workspace                  device pointer on 16 bytes (`_s<k>` only),
///                              CudaPlan::workspace_bytes long; its content need not be set before
///                              and must stay between the launches of one plan
///
/// Grid (x, y, 1), block (x, 1, 1), no dynamic shared memory, no cluster, no cooperation between
/// blocks.
///
/// Range flag (Kernel::has_flag): its byte is set to 0 before the first launch of the plan.
///
/// Aliasing: an output may share the memory of an input only if both have the same dtype and number
/// of elements and every read of the input is at the offset that is written. Inputs for which no
/// output qualifies are `__restrict__`.
///
/// Steps. Where rows are too few to fill a GPU and long, they are cut: block (x, y) takes slice y
/// of its rows. Launch k leaves the partial results of the reductions of stage k in the
/// workspace; each later one brings those of all slices together again, in an order that extents
/// alone decide. Then follow a launch for the elements of outputs, where there are any, and one
/// for the values of rows.
///
/// MULTI. The part table is the entry's only parameter, `CudaMultiLaunch::table` (`_m4k`: up to 4
/// KB, `_m32k`: up to 32 KB, which needs NVRTC 12.1, a driver for CUDA 12.1 and sm_70), passed by
/// value: kernelParams[0] points to its bytes. Printed for kernels of one flat run-time loop, which
/// is what LowerParts makes of parts of any shape; other parts are launched by themselves. Parts
/// must not read what others write.
///
/// Determinism: equal extents and equal inputs give equal bits, on any number of multiprocessors.
#pragma once

#include <string>
#include <vector>

#include "weft/codegen/kernel/kernel.h"

namespace weft {

/// Bytes of parameters that a launch may have: with drivers for CUDA 12.1 and later,
/// and with earlier ones.
inline constexpr int64_t kMostParameterBytes = 32764, kLeastParameterBytes = 4096;

/// Where one way ends and the next begins. The defaults are for H100 and H200;
/// tests set small numbers.
struct CudaTuning {
  int64_t narrow_limit = INT32_MAX;  ///< extents whose products exceed it need 64-bit indices
  // Launches in steps: for rows that a block takes each, and for columns, of which it takes 32.
  int64_t split_rows = 128, split_columns = 256;        ///< more blocks than this fill the GPU
  int64_t slice_elements = 8 << 10, slice_depth = 128;  ///< least part of a row, of a column
  int64_t blocks = 512;                                 ///< wanted
  /// Threads of a multiprocessor for which registers are to be left; 0: the compiler weighs. It may
  /// then keep values in memory for the sake of more threads.
  int min_threads = 0;
  int64_t parameter_bytes = kMostParameterBytes;  ///< of the compiler; NVRTC 12.0: the least
};

/// One launch of an entry.
struct CudaLaunch {
  std::string entry;
  uint32_t grid_x = 1, grid_y = 1;
  uint32_t block = 256;
  uint32_t shared_bytes = 0;   ///< dynamic; static shared memory is the entry's own
  std::vector<uint64_t> tail;  ///< parameters behind `total`
  bool workspace = false;      ///< the pointer to the workspace is the last parameter
};

struct CudaPlan {
  std::vector<CudaLaunch> launches;  ///< in this order; none: nothing to compute
  int64_t total = 0;                 ///< the parameter
  int64_t workspace_bytes = 0;
};

/// Operands of one part of a MULTI launch, on the device.
struct CudaPart {
  std::vector<uint64_t> buffers;  ///< addresses, in the order of kernel.buffers
  std::vector<int64_t> dims;      ///< values of d0 ..
};
struct CudaMultiLaunch {
  std::string entry;
  uint32_t grid_x = 1;
  uint32_t block = 256;
  std::string table;  ///< the parameter, 8-byte aligned where it is passed
};

/// How to launch a printed kernel, computed once per kernel; a plain value that keeps no reference.
class WEFT_API CudaSchedule {
 public:
  int block = 256;                ///< threads per block of <name>
  int64_t items_per_block = 256;  ///< work items that one block takes at a time
  /// Rows with run-time R: from this R + 1 on a block takes one row; -1: no such rule
  int64_t long_row = -1;

  /// Blocks of <name> to launch. `row` is the number of elements of a row, any
  /// value where there are none.
  int64_t Blocks(int64_t total, int64_t row, int num_multiprocessors) const;

  /// The launches for given values of d0 ... Throws kOverflow where a size cannot be expressed.
  CudaPlan Plan(const std::vector<int64_t>& dims, int num_multiprocessors) const;
  /// Has it MULTI entries?
  bool has_multi() const { return multi_; }
  /// Do operands come through a table?
  bool has_table() const { return has_table_; }
  /// Its content for these addresses and values of d0 ...
  std::vector<uint64_t> Table(const std::vector<uint64_t>& buffers,
                              const std::vector<int64_t>& dims) const;
  /// As few launches as hold all parts; parts with nothing to compute are left out.
  /// `parameter_bytes`: of parameters that the driver takes.
  std::vector<CudaMultiLaunch> PlanMulti(const std::vector<CudaPart>& parts,
                                         int num_multiprocessors,
                                         int64_t parameter_bytes = kMostParameterBytes) const;

 private:
  friend CudaSchedule ScheduleCuda(const Kernel&, const CudaTuning&);
  CudaTuning tuning_;
  std::string name_;
  std::vector<SymInt> outer_, row_;           ///< extents of P and R
  std::vector<std::vector<SymInt>> reduced_;  ///< extents of every reduction
  std::vector<SymInt> divisors_;  ///< whose multipliers are parameters with 32-bit indices
  int num_buffers_ = 0, num_symbols_ = 0;
  bool narrow_twin_ = false, multi_ = false, small_index_ = false, has_table_ = false;
  std::vector<int> chained_;  ///< buffers behind the first words of the table
  int stages_ = 0;            ///< of reductions, for a launch in steps; 0: there is none
  bool element_stores_ = false, row_stores_ = false, columns_ = false;
  int64_t words_ = 0;  ///< of 8 bytes that a slice of a row leaves
};

WEFT_API CudaSchedule ScheduleCuda(const Kernel& kernel, const CudaTuning& tuning = {});

/// Names of all entries of a kernel.
WEFT_API std::vector<std::string> CudaEntries(const Kernel& kernel, const CudaTuning& tuning = {});

/// Deterministic; holds no name of the model.
WEFT_API std::string PrintCuda(const Kernel& kernel, const CudaTuning& tuning = {});
/// One source with all kernels and the functions they share. Kernels must be distinct. Lines of a
/// kernel are those of a file called Kernel::Name().
WEFT_API std::string PrintCuda(const std::vector<KernelPtr>& kernels,
                               const CudaTuning& tuning = {});

}  // namespace weft
