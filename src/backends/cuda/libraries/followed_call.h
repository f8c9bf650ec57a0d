/// followed_call.h: calls that a library does a part of: it leaves what it computes in scratch
/// memory, and generated kernels make the result of that in one pass. Private to src/backends/cuda.
#pragma once

#include <memory>
#include <vector>

#include "libraries.h"

namespace weft::cuda {

/// What follows the library's part.
class StepsBehind {
 public:
  /// `q`: the whole call.
  explicit StepsBehind(const ComputeRequest& q);
  /// Input number `input` of the call, whose extents broadcast to those of the result.
  void Add(int input, std::vector<int64_t> dims);
  /// The epilogue of the call, without the first `skipped` steps.
  void AddEpilogue(size_t skipped = 0);
  /// `part` writes something of the extents, type and layout of result 0, and reads inputs of the
  /// call. Null where no kernels are generated for the steps.
  std::unique_ptr<DeviceCall> After(PlannedCall part);

 private:
  int Number(int input);

  const ComputeRequest& q_;
  Graph nodes_;  ///< owns those of the steps
  NodeEntry made_, other_;
  std::vector<int> others_;  ///< inputs of the call that the kernels read
  std::vector<CallStep> steps_;
};

}  // namespace weft::cuda
