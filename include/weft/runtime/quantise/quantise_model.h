/// quantise_model.h: post-training quantisation of a whole model: simplified, calibrated, smoothed
/// where asked, rounded (pass InsertQdq), measured layer by layer against the floats; layers that
/// lose too much go back to floats.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "weft/runtime/quantise/calibrate.h"

namespace weft {

struct QuantiseOptions {
  CalibrateOptions calibrate;
  /// As the pass InsertQdq has them.
  std::string activations = "u8", ops = "Conv;Gemm;MatMul;Add", except;
  bool symmetric = false, per_channel = true, bias_correction = false;
  /// How much of the difficulty of activations weights take over (pass SmoothQuant), 0 to 1;
  /// below 0: none.
  double smooth = -1;
  /// A product whose own result has less signal to noise, in dB, stays in floats. -infinity: none.
  double least_sqnr_db = 15;
  /// Products are given up until every output has so much signal to noise, in dB, over the samples:
  /// those first that alone cost the outputs most. -infinity: none.
  double target_db = -std::numeric_limits<double>::infinity();
};

/// Sums of squares of what was expected, and of the differences from it.
struct ErrorSums {
  double signal = 0, noise = 0, max_error = 0;
  /// Of elements that were expected to be finite: NaN in place of one is an infinite error. Nothing
  /// where the extents differ.
  void Add(const Tensor& got, const Tensor& want);
  /// Signal to quantisation noise, in dB; infinity: there is no difference; NaN: nothing was added.
  double sqnr_db() const;
};

/// One node that was, or could have been, quantised. Bytes are those of weights and bias.
struct QuantisedLayer {
  std::string name, op, state;  ///< state: "quantised", or why not
  std::string range;            ///< of what it reads
  double scale = 0;
  int64_t zero = 0;
  double weights_db = 0;  ///< of the rounded weights alone
  double own_db = 0;      ///< of its result, for operands that are right but rounded
  double db = 0;          ///< of its result in the quantised model, with all errors before it
  double max_error = 0;   ///< of that
  int64_t bytes_before = 0, bytes_after = 0;
  bool quantised() const { return state == "quantised"; }
};
/// An output of the model, over all samples.
struct QuantisedOutput {
  std::string name;
  double db = 0, max_error = 0;
  /// Share of rows along the last axis whose greatest element is at the same place; NaN where it
  /// has only one element.
  double same_top = 0;
};
struct QuantisedModel {
  Graph graph;
  std::vector<QuantisedLayer> layers;
  std::vector<QuantisedOutput> outputs;
  size_t samples = 0;
  int64_t bytes_before = 0, bytes_after = 0;  ///< of all constants of the model
  /// Of the program that runs the result: products of integers, those whose result is of 8 bits,
  /// and operators that move 8-bit numbers.
  int64_t integer_calls = 0, requantised = 0, moved = 0;
};

/// Of a graph as it was imported. Throws kInvalidModel for one that is quantised already, and one
/// in which nothing can be quantised; kUsage for options out of range; what Calibrate throws.
WEFT_API QuantisedModel QuantiseModel(const Graph& graph, const Samples& samples,
                                      const QuantiseOptions& options = {});

}  // namespace weft
