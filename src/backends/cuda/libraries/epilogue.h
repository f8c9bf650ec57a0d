/// epilogue.h: the epilogues that NVIDIA's libraries take, read off graphs and off
/// requests. Private to src/backends/cuda.
///
/// In this order, each at most once: a constant factor, a row added to every row of the result, a
/// tensor of the result's extents added, an activation.
#pragma once

#include <optional>

#include "libraries.h"
#include "weft/core/plan/epilogue.h"

namespace weft::cuda {

/// Which of the steps a call accepts.
struct AcceptedSteps {
  bool factor = false, row = false, addend = false, relu = false, gelu_tanh = false;
};
/// For an FEpilogue: does a call that accepts these take the next step, after those before it?
bool TakesNext(const EpilogueRequest& q, const AcceptedSteps& accepted);

/// The epilogue of a request. Pointers into it; null: no such step.
struct EpilogueSteps {
  std::optional<float> factor;
  const CallStep* row = nullptr;
  const CallStep* addend = nullptr;
  Activation activation = Activation::kNone;
  bool empty() const { return !factor && !row && !addend && activation == Activation::kNone; }
};
/// Nothing where there is a step that is not accepted.
std::optional<EpilogueSteps> ReadSteps(const ComputeRequest& q, const AcceptedSteps& accepted);

}  // namespace weft::cuda
