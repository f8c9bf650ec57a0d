/// quantise_samples.h: the inputs that `weft quantise` calibrates a model with.
#pragma once

#include "command_line.h"
#include "weft/core/graph/graph.h"
#include "weft/runtime/quantise/calibrate.h"

namespace weft::tool {

struct SampleArgs {
  std::string data;  ///< a folder or a .npz; empty: `random`
  int64_t rows = 0;  ///< of axis 0 in a sample; 0: as the model declares, or all
  int64_t most = 0;  ///< samples; 0: all
  bool random = false;
  InputArgs inputs;  ///< dimensions and the seed of random ones
};

/// A folder of folders holds a sample in each; another folder, or a .npz, holds one, or many behind
/// each other along axis 0. Throws kBadInput where there is none, or axes 0 do not fit together,
/// kUsage for neither data nor `random`, and what MakeInputs throws.
Samples FindSamples(const Graph& graph, const SampleArgs& args, const Limits& limits);

}  // namespace weft::tool
