/// sized_places.h: where results are written whose sizes the data tell: in tensors of the caller,
/// or in blocks that a session keeps from run to run. Private to the runtime.
#pragma once

#include <memory>
#include <vector>

#include "runtime/program/planned_program.h"
#include "weft/runtime/backend/sized_compute.h"

namespace weft {

/// Memory of the results of one slot; it grows.
struct KeptBlock {
  std::shared_ptr<void> memory;
  int64_t bytes = 0;
  int64_t least = 0;  ///< what it has from the start, where more may come

  /// A tensor in it, where none of an earlier run is still held; else in another such.
  std::shared_ptr<Tensor> Place(Backend& backend, DType dtype, std::vector<int64_t> dims);
};

/// What the library of a backend has for the node; null: nothing.
const FSizedCompute* SizedRoutine(const Backend& backend, const NodePtr& n);

class SizedPlaces final : public SizedResults {
 public:
  /// Of the run of `state`, whose arena nobody needs while a routine runs.
  SizedPlaces(Backend& backend, ProgramState* state) : backend_(backend), state_(*state) {}
  /// The next result: output `index` of the program, whose tensor is reused where it takes the
  /// result.
  void AddOutput(std::shared_ptr<Tensor>* output, size_t index) {
    results_.push_back({output, index, nullptr, nullptr});
  }
  /// The next result: in a block, where no tensor of an earlier run is in it that is still held.
  void AddKept(KeptBlock* block) { results_.push_back({nullptr, 0, block, nullptr}); }

  void* Place(size_t k, DType dtype, std::vector<int64_t> dims) override;
  void* Scratch(int64_t bytes) override { return state_.arena->Reserve(backend_, bytes); }
  /// Result `k`, which was placed.
  TensorPtr Take(size_t k);

 private:
  struct Result {
    std::shared_ptr<Tensor>* output;
    size_t index;
    KeptBlock* block;
    std::shared_ptr<Tensor> tensor;
  };
  Backend& backend_;
  ProgramState& state_;
  std::vector<Result> results_;
};

}  // namespace weft
