/// measure.h: a quantised graph against the one in floats that it was made of.
#pragma once

#include <map>
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

/// Of the outputs. *program: that of the quantised graph.
std::vector<QuantisedOutput> MeasureOutputs(const Graph& floats, const Graph& quantised,
                                            const Samples& samples, const CompileOptions& options,
                                            std::shared_ptr<const Program>* program);

}  // namespace weft
