/// observed.h: values of a graph while samples run through it, for calibration and for comparing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/runtime/quantise/calibrate.h"

namespace weft {

/// Runs every sample. The graph's outputs become `entries`, which are f32; `see` gets them by their
/// order. Throws kBadInput for inputs that are NaN.
class ObservedRuns {
 public:
  ObservedRuns(Graph graph, const std::vector<NodeEntry>& entries, const CompileOptions& options);
  std::vector<TensorPtr> Run(const NamedInputs& sample);
  const Program& program() const { return session_->program(); }

 private:
  std::vector<std::string> fed_;      ///< names of entries that are inputs; empty: a result
  std::unique_ptr<Session> session_;  ///< null: there is nothing but inputs
};

/// Inputs of sample `k`; throws kBadInput for one that is NaN somewhere.
NamedInputs CheckedSample(const Samples& samples, size_t k);

}  // namespace weft
