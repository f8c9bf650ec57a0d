/// bench.h: the time of a training step on random operands of one size, in a steady loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "programs/program.h"

namespace app {

struct BenchOptions {
  std::string program;
  int64_t batch = 64;
  std::optional<double> rate;
  bool fusion = true, profile = false, tune = false;
  int threads = 0;
  std::string device = "cpu";
  double seconds = 3;
  uint64_t seed = 1;
};
struct BenchResult {
  double step_ms = 0, min_ms = 0;  ///< median, and the fastest step
  int64_t steps = 0;
  double build_seconds = 0;  ///< of the graph, gradients included
  double loss = 0;
  tf::ProgramInfo program;
  std::vector<weft::StepTime> profile;  ///< medians, where asked for
};

BenchResult Bench(const BenchOptions& options);

/// Random operands as the peers of a comparison get them: pictures normal, classes uniform.
tf::data::Batch RandomBatch(const tf::data::Layout& layout, int64_t batch, uint64_t seed);

}  // namespace app
