/// measure.h: a quantised graph against the one in floats that it was made of.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "weft/runtime/quantise/quantise_model.h"

namespace weft {

struct LayerErrors {
  ErrorSums own, all;
};

/// Of every node that reads rounded operands in `quantised`, by its id, which is the same in both;
/// those that only move elements apart. `own`: of a copy of the node with the rounded operands
/// beside the node in the graph of floats.
std::map<NodeId, LayerErrors> MeasureLayers(const Graph& floats, const Graph& quantised,
                                            const Samples& samples, const CompileOptions& options);

/// Outputs of graphs against those of the one in floats.
class OutputMeter {
 public:
  OutputMeter(const Graph& floats, const Samples& samples, const CompileOptions& options);
  /// Over the first samples, `most` of them. *program, where it is asked for: that of the graph.
  std::vector<QuantisedOutput> Measure(const Graph& quantised, size_t most = SIZE_MAX,
                                       std::shared_ptr<const Program>* program = nullptr);
  /// Of the worst of the outputs, in dB.
  double WorstDb(const Graph& quantised, size_t most);

 private:
  const Samples& samples_;
  const CompileOptions& options_;
  Session floats_;
};

}  // namespace weft
