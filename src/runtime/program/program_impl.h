/// program_impl.h: the kinds of program, and what makes them. Private to the runtime.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/op/run_bodies.h"
#include "weft/runtime/memory/report.h"
#include "weft/runtime/program/program.h"
#include "weft/runtime/program/weights.h"

namespace weft {

class Arena;
class BackendProgram;
struct NamedBytes;
class HomeSlot;
class DeviceSession;
struct FrameBounds;

/// The content of a tensor of one element on a device, as the host has it.
struct KnownValue {
  TensorPtr value;      ///< null: it has not
  bool always = false;  ///< the same in every run of the same extents
};

/// Makes the results of a region.
class ResultMaker {
 public:
  virtual ~ResultMaker() = default;
  /// For result `k`, whose given place does not fit or is none; null: as the program does it.
  virtual std::shared_ptr<Tensor> NewResult(size_t k, DType dtype,
                                            const std::vector<int64_t>& dims) = 0;
};

/// State of one session.
struct ProgramState {
  virtual ~ProgramState() = default;
  std::shared_ptr<Arena> arena;  ///< null: one of its own, when it runs
  int64_t arena_bytes = 0, live_bytes = 0, bytes_moved = 0;
  int64_t tensor_bytes = 0, scratch_bytes = 0, output_bytes = 0;
  int64_t budget_bytes = -1;  ///< -1: there is none
  bool budget_met = true;
  /// What arena and results together may take; INT64_MAX: what they come to.
  int64_t most_bytes = INT64_MAX;
  size_t way = 0;  ///< of a program with a budget
  int64_t recompute_flops = 0;
  /// The most that the bodies of a node have taken in this run, and the node around them.
  int64_t inside_bytes = 0;
  int kernels_failed = 0;  ///< for the last extents, besides ProgramStats::kernels_failed
  int64_t packs = 0;       ///< calls made ready for steady inputs
  std::vector<std::shared_ptr<Tensor>> variables;  ///< of the store, in the order of variables()
  /// Those of them, by number, that lie in memory of the caller (VariableStore::Adopt).
  std::vector<size_t> adopted;
  /// Their homes, for programs that have such.
  std::vector<HomeSlot*> homes;
  bool is_profiled = false;  ///< steps are timed: Program::Impl::TakeTimes
  /// Given tensors of the right type are written though others hold them.
  bool keeps_outputs = false;
  MemoryPlace place;  ///< Program::Impl::place_
  /// Makes new results (result_tensors.h); null: the runtime does.
  ResultAllocator make_result;
  /// What these may not share memory with: inputs, variables, given results, those made so far.
  std::vector<const Tensor*> apart;
  /// Of a session that runs: what the caller gave, and gets back where the run fails.
  std::vector<std::shared_ptr<Tensor>> given_outputs;
  /// Of Session::RunBound: outputs, by number, and tensors bound to them that share memory with an
  /// input, and so are written behind the run.
  std::vector<std::pair<size_t, const Tensor*>> replaced;
  /// Of a body or a region on a device: whose stream it is given to; its operands and results are
  /// the device's. Null: it is a program by itself.
  std::shared_ptr<DeviceSession> device;
  std::vector<KnownValue> known_inputs;  ///< then; in the order of the inputs, or shorter
  /// Of a region or a body: what the program around it knows of sizes that data decide; or null.
  std::shared_ptr<const FrameBounds> bounds;
  ResultMaker* results = nullptr;  ///< of a region; null: none
};

/// A state variable that rows are appended to (passes/effects/cache_in_place.cc).
struct CacheSpec {
  size_t variable = 0;  ///< of Program::Impl::variables_
  int axis = 0;
  SymInt kept, rows;  ///< that a run finds, and leaves
};

/// What is left of a run that has begun; both empty: nothing.
struct RunRest {
  std::function<bool()> ended;
  /// The results are there when it returns; throws what the run throws.
  std::function<void()> finish;
};

/// What a program is: its interface to sessions, and what all kinds of it share.
struct Program::Impl {
  using State = ProgramState;
  using Rest = RunRest;
  Impl();
  virtual ~Impl() = default;
  virtual std::unique_ptr<State> NewState() const = 0;
  /// `inputs` checked against the specs. Fills `outputs`; a given tensor of the right dtype
  /// and extents is reused.
  virtual void Run(State& state, const std::vector<TensorPtr>& inputs,
                   std::vector<std::shared_ptr<Tensor>>* outputs) const = 0;
  /// As Run, but the results may come later. By default they do not.
  virtual Rest Start(State& state, const std::vector<TensorPtr>& inputs,
                     std::vector<std::shared_ptr<Tensor>>* outputs) const {
    Run(state, inputs, outputs);
    return {};
  }
  /// Its last run in this state again, for tensors of the same dtypes and extents elsewhere; until
  /// the next Run. Null: there is no shorter way than Run.
  virtual std::unique_ptr<RepeatedBody> Repeat(State& /*state*/) const { return nullptr; }
  /// Appends what each step took in the profiled runs since it was last asked, those of bodies
  /// behind the operator that has them, and forgets it. `in`: StepTime::in of its own steps.
  virtual void TakeTimes(State& /*state*/, const std::string& /*in*/,
                         std::vector<StepTime>* /*times*/) const {}
  /// What a run takes on tensors of these dtypes and extents (inputs, then variables), of which
  /// nothing is read. Throws kUnsupported for a program that plans nothing.
  virtual MemoryReport Report(const std::vector<TensorPtr>& tensors) const;
  /// OwnProgramOf; null: it is no such.
  virtual std::shared_ptr<const BackendProgram> own() const { return nullptr; }
  /// What of it goes into a file (BackendProgram::Save).
  virtual std::vector<NamedBytes> OwnSections() const;
  /// BackendProgram::Fields, of the program that the state last ran.
  virtual std::vector<ProgramField> Fields(const State& state) const;
  /// Bindings are made again when they are needed.
  virtual void ForgetBindings() const {}
  /// Of a program with a budget: its ways (compile/budget_program.h); else none.
  virtual std::vector<const Program::Impl*> Ways() const { return {}; }
  virtual MemoryBudget budget() const { return {}; }
  virtual WeightBytes weights() const { return {}; }
  const ProgramStats& stats() const { return stats_; }
  virtual void TakeCallOptions(const CallOptions& options) { call_options_ = options; }

  /// Of every run: CompileOptions::passes.limits, LoadOptions::limits.
  Limits limits_;
  CallOptions call_options_;  ///< of CompileOptions, LoadOptions
  Graph graph_;
  std::string backend_name_;
  std::vector<IoSpec> inputs_, outputs_, variables_;
  std::vector<size_t> numbers_;            ///< inputs that are numbers
  std::vector<TensorPtr> initial_values_;  ///< of variables; null: none
  std::vector<char> written_;              ///< by variable: a run writes it
  std::vector<CacheSpec> caches_;
  int64_t cache_copies_ = 0;  ///< steps that copy what a cache holds
  bool writes_variables_ = false;
  bool has_homes_ = false;  ///< Run takes State::homes
  /// Tensors that lie there are taken and given; those of the host always.
  MemoryPlace place_;
  int num_flags_ = 0;  ///< on a device: range flags, those of bodies too
  ProgramStats stats_;
};

/// The program with all that it is called by and told. `passes` tell the faults, which are kernels.
std::shared_ptr<Program> FinishProgram(std::unique_ptr<Program::Impl> program,
                                       const std::string& backend_name,
                                       std::vector<PassRecord> passes, const Limits& limits,
                                       const CallOptions& calls);

/// Names and types of inputs and outputs, from the graph.
void DescribeProgram(Program::Impl* program, const std::string& backend_name);

/// Rank and constant dimensions of the tensor are those that the spec declares.
bool FitsShape(const IoSpec& spec, const Tensor& t);

/// A tensor of the same content that nothing else holds: what a caller may write to.
std::shared_ptr<Tensor> OwnCopy(const Tensor& t);
/// The same, where a list may hold one of these, which runs write to.
std::shared_ptr<Tensor> OwnCopy(const Tensor& t,
                                const std::vector<std::shared_ptr<Tensor>>& variables);
/// Between tensors of equal dtype and extents.
void CopyContent(const Tensor& from, Tensor* to);
/// The backend of that name, for one program with `threads` (0: as many as the process may
/// use). Throws as GetBackend.
std::shared_ptr<Backend> BackendFor(const std::string& name, int threads);
/// Every write must be one to a state variable, by an operator
/// whose result is the new content, and the names of state variables must tell them apart
/// (kInvalidModel, kUnsupported).
void CheckEffects(const Graph& graph);

/// Runs the planned instruction list on host memory.
std::unique_ptr<Program::Impl> MakeHostProgram(Graph graph, std::shared_ptr<Backend> backend);
/// Runs it on a backend with memory of its own.
std::unique_ptr<Program::Impl> MakeDeviceProgram(Graph graph, std::shared_ptr<Backend> backend);

/// Runs regions and what stands between them (passes/regions); their bodies are planned.
std::unique_ptr<Program::Impl> MakeRegionProgram(Graph graph, std::shared_ptr<Backend> backend);
/// Of these three the one for this graph.
std::unique_ptr<Program::Impl> MakePlannedProgram(Graph graph,
                                                  const std::shared_ptr<Backend>& backend);

}  // namespace weft
