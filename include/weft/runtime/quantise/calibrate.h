/// calibrate.h: which numbers the values of a network take, measured while sample inputs run
/// through it: what post-training quantisation rounds by.
///
///   const Samples samples = {files.size(), [&](size_t k) { return ReadInputs(files[k]); }};
///   Graph g = Calibrate(LoadModel("model.onnx"), samples, {RangeMethod::kEntropy});
///   g = ApplyPasses(g, "InsertQdq{bias_correction=true}");
///
/// A pass is a function of a graph alone and has no data, so that this is a function of the
/// runtime: it compiles the graph with more outputs, runs it in a session as any run does, and
/// gives the graph back with the attributes "range" and "channels" (weft/core/op/calibration.h),
/// which the text form keeps.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "weft/runtime/program/program.h"

namespace weft {

/// How a range follows from the numbers that were seen. All but the first cut off what is rare, for
/// finer steps of the rest; none goes beyond what was seen, and 0 is in every range.
enum class RangeMethod : uint8_t {
  kMinMax,      ///< from the least to the greatest
  kPercentile,  ///< so that CalibrateOptions::percentile of them are within it
  kEntropy,     ///< the least Kullback-Leibler divergence of what is left (Migacz, TensorRT 2017)
  kMse,         ///< the least mean square of the error by rounding and cutting off
};
/// minmax, percentile, entropy, mse. Throws kUsage with near names.
WEFT_API RangeMethod ParseRangeMethod(const std::string& text);

/// Inputs of runs, by their names.
using NamedInputs = std::map<std::string, TensorPtr>;
struct Samples {
  size_t count = 0;
  std::function<NamedInputs(size_t)> get;  ///< asked several times for each
};

struct CalibrateOptions {
  RangeMethod method = RangeMethod::kMinMax;
  double percentile = 99.99;  ///< above 50, at most 100
  CompileOptions compile;
};

/// `graph` with the attributes. Values are measured in the graph itself, not in bodies of If, Loop
/// and Scan; what is infinite in some run gets no range. One run of each sample, for other methods
/// than kMinMax two. Throws kBadInput without samples and where an input or a value is NaN, with
/// the sample and its name; kUsage for options out of range; what Compile and Session::Run throw.
WEFT_API Graph Calibrate(Graph graph, const Samples& samples, const CalibrateOptions& options = {});

}  // namespace weft
