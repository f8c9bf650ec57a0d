/// sample_inputs.h: dimensions and values for a run of a model for which nobody has given any.
///
/// Dimensions are the least sensible ones that the model allows. Each symbol of the inputs has a
/// preset, by the words of its name, else by where it stands:
///
///   batch, n, axis 0 of an input              1
///   channels                                  3
///   height, width, axes of an image           224
///   total                                     128
///   past, cache                               127
///   seq, length, tokens, ..., other axes      128; 1 beside a past, as in a step of decoding
///   samples, audio                            16000
///
/// It moves to what the facts of the graph say (equalities, ranges, divisors), and all are tried:
/// shapes are inferred at these numbers. Where that fails, other values are tried, sums and
/// differences of the others among them (total = past + seq). Where they can be had, they are such
/// that both branches of every If fit.
///
/// Values fit what an input feeds (input_role.h): indices lie within the axis that they select
/// from, shapes are shapes that their operand can take, what an integer is compared with is what it
/// gets, what decides sizes is 1, and masks, by their name, are ones. A sequence holds three
/// tensors of two rows and three columns, an optional one such value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// Symbols of the declared dimensions of the graph's inputs, sorted.
WEFT_API std::vector<std::string> InputSymbols(const Graph& graph);

/// "batch=64", "a=1,b=2": values of symbols. Throws kUsage with `option` as its place for what is
/// not such a list, below 0, or given twice.
WEFT_API SymBindings ParseBindings(const std::vector<std::string>& texts,
                                   const std::string& option);

/// Dimensions of whole inputs, by name.
using InputDims = std::map<std::string, std::vector<int64_t>>;

struct ChosenDims {
  SymBindings bindings;             ///< of every symbol of the inputs
  std::vector<std::string> chosen;  ///< those that were not given, sorted
  std::string failure;              ///< why no choice fits that was tried; then of the first one
};
struct DimWishes {
  std::optional<int64_t> every;  ///< what every symbol gets that is not given, as it is
  SymBindings presets;           ///< in the place of those above
};
/// `given` and `dims` stay as they are.
WEFT_API ChosenDims ChooseDims(const Graph& graph, const SymBindings& given = {},
                               const InputDims& dims = {}, const DimWishes& wishes = {});

/// Values of graph.AllInputs(), in order: a function of the graph, the dimensions and the seed.
/// Throws kUnsupported for a dtype that has no random values.
WEFT_API std::vector<TensorPtr> SampleInputs(const Graph& graph, uint64_t seed,
                                             const SymBindings& bindings,
                                             const InputDims& dims = {});

}  // namespace weft
