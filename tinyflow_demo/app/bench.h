/// bench.h: the time of a training step on random operands of one size, in a steady loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "programs/program.h"
#include "weft/runtime/program/profile.h"

namespace app {

struct BenchOptions {
  std::string program;
  int64_t batch = 64;
  std::optional<double> rate;
  bool fusion = true, profile = false, tune = false;
  int threads = 0;
  weft::MemoryBudget memory;  ///< of a step
  std::string device = "cpu";
  std::string delegates;  ///< behind it: "libtorch"; empty: none
  weft::DivisionOptions division;
  std::string dtype = "float32";  ///< as Settings, where the program has a choice
  int64_t size = 0;
  int blocks = 0;
  /// operands are variables, there from the beginning, instead of being fed
  bool resident = false;
  double seconds = 3;
  uint64_t seed = 1;
};
struct BenchResult {
  double step_ms = 0, min_ms = 0;  ///< median, and the fastest step
  int64_t steps = 0;
  /// The mean of steps of which several are started before the first is waited for, and the
  /// processor time that starting one takes; 0 where no time is given to measure.
  double unwaited_ms = 0, cpu_us = 0;
  double build_seconds = 0;  ///< of the graph, gradients included
  double loss = 0;
  std::vector<double> losses;  ///< of the first steps
  tf::ProgramInfo program;
  weft::Machine machine;                  ///< that `profile` is measured against
  std::vector<weft::ProfileRow> profile;  ///< where asked for
};

BenchResult Bench(const BenchOptions& options);

/// Random operands as the peers of a comparison get them: pictures normal, classes uniform.
tf::data::Batch RandomBatch(const tf::data::Layout& layout, int64_t batch, uint64_t seed,
                            int64_t classes = 10);

}  // namespace app
