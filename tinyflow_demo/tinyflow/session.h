/// session.h: where graphs run. A session owns the values of variables and keeps every program it
/// has compiled, by what is fetched and fed, so training and evaluation take turns without
/// compiling again. Extents may change from run to run.
///
///   tf::Session sess("cpu fusion");
///   sess.run(tf::initialize_all_variables());
///   sess.run({train_step, loss}, {{x, images}, {y, labels}});
///   sess.run(accuracy, {{x, images}, {y, labels}}, tf::Mode::kInference);
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tinyflow/graph.h"
#include "weft/runtime/program/program.h"
#include "weft/runtime/session/variable_store.h"

namespace tf {

using Feeds = std::vector<std::pair<Tensor, Array>>;

/// What one compiled program is made of.
struct ProgramInfo {
  int kernels = 0;  ///< generated kernels launched a run
  int distinct_kernels = 0;
  int library_calls = 0;
  int reorders = 0;     ///< copies of a tensor into another layout
  int interpreted = 0;  ///< steps without a kernel or library call
  double compile_seconds = 0;
  int64_t arena_bytes = 0;  ///< of the last run
  int64_t live_bytes = 0;   ///< the most that it needed at once; no arena can be smaller
  weft::SessionMemory memory;
  /// Of all runs so far on a GPU: steps given one by one, recordings of steps, waits for a
  /// step on the host.
  int64_t launches = 0, replays = 0, host_waits = 0;
  std::string backend;  ///< of Weft: "cpu", "cuda"
};

class Session {
 public:
  /// "cpu", "cpu fusion", "gpu" or "gpu fusion", or another backend of Weft in their place, one of
  /// a plugin that is loaded, say: "npu:v2 fusion"; for the default graph. `threads`: 0 takes all
  /// there are. `tune`: library calls are chosen by timing, where no earlier run has. `memory`:
  /// what a run that is fed something may add (weft/runtime/program/program.h); such runs throw
  /// kOutOfMemory where that cannot be kept. Delegates take parts of the graph where they stand
  /// behind the device, "cpu+libtorch fusion", as `division` says.
  explicit Session(const std::string& config = "cpu fusion", int threads = 0, bool tune = false,
                   const weft::MemoryBudget& memory = {},
                   const weft::DivisionOptions& division = {});
  ~Session();

  /// Values of the fetches. Throws kBadBinding for a placeholder that is missing or a variable
  /// without a value, kBadInput for a fed value of another dtype or shape.
  std::vector<Array> run(const std::vector<Tensor>& fetches, const Feeds& feeds = {},
                         Mode mode = Mode::kTraining);
  Array run(const Tensor& fetch, const Feeds& feeds = {}, Mode mode = Mode::kTraining);
  /// Begins a run and returns; on a GPU further ones can be started before its
  /// values are asked for:
  ///   auto pending = sess.start({train_step, loss}, feeds);  ...  pending.Wait()[1]
  /// Runs happen in the order in which they were started, and see the variables so.
  weft::PendingRun start(const std::vector<Tensor>& fetches, const Feeds& feeds = {},
                         Mode mode = Mode::kTraining);
  /// As run, but gives the time of every step.
  std::vector<weft::StepTime> profile(const std::vector<Tensor>& fetches, const Feeds& feeds,
                                      Mode mode = Mode::kTraining);
  /// About the program of a run; compiles it where there is none yet.
  ProgramInfo info(const std::vector<Tensor>& fetches, const Feeds& feeds,
                   Mode mode = Mode::kTraining);

  /// A copy of the value of a variable; null where it has none yet.
  Array value(const Tensor& variable) const;
  bool has(const Tensor& variable) const { return store()->Has(variable.name()); }
  /// Throws kBadInput for another dtype or shape than the variable's.
  void set(const Tensor& variable, const Array& value);
  const std::shared_ptr<weft::VariableStore>& store() const;

  /// Writes the graph of `outputs` over `inputs` in inference, with the values
  /// that variables have now.
  void export_onnx(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                   const std::string& path) const;

  /// How many programs were compiled since the session began. At most kKept are
  /// kept, the latest used.
  int compiled() const;
  static constexpr size_t kKept = 32;
  const GraphPtr& graph() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tf
