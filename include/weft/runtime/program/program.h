/// program.h: compile a graph once, run it many times.
///
///   auto program = Compile(graph, {.backend = "cpu"});
///   Session session(program);
///   std::vector<TensorPtr> y = session.Run({x});
///
/// A `Program` is immutable and shared by threads. What depends on the extents of the inputs
/// (sizes, offsets, library primitives) is a binding, made once per set of extents and cached. A
/// `Session` owns the arena; one thread at a time.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/pass/pass.h"
#include "weft/core/plan/memory_budget.h"
#include "weft/runtime/backend/backend.h"

namespace weft {

/// What runs may take.
struct MemoryOptions {
  /// A promise: of what a run adds (the arena with all scratch, and results) no byte more, or the
  /// run is refused before it begins, with kOutOfMemory, the floor and who holds it. What does not
  /// fit otherwise is computed a second time; no bit of a result changes. Where data decide sizes
  /// nothing is refused.
  MemoryBudget budget;
  /// Likely values of symbols: what plans are made for. Others are chosen.
  SymBindings hints;
};

/// How a graph is divided between the backend and the delegates behind its name: options of the
/// pass Delegate.
struct DivisionOptions {
  std::string choice = "all";  ///< all, auto, random ..
  std::string only;            ///< operators that may be given away, "Conv;MatMul"; empty: all
  int64_t most = -1;           ///< nodes that are given away, the first ones; -1: all that may be
  SymBindings at;              ///< extents to time at; empty: the hinted ones, or likely ones
};

struct CompileOptions {
  /// "cpu", "cuda:1"; with delegates that take parts of the graph (core/module/delegate.h):
  /// "cpu+openvino:streams=2+libtorch". Empty: "cpu".
  std::string backend;
  DivisionOptions division;
  std::string pipeline;  ///< empty: the backend's own
  bool fusion = true;    ///< false: one operator a kernel, to compare with
  PassOptions passes;
  int threads = 0;    ///< of this program; 0: what the process may use
  CallOptions calls;  ///< `tune`, `tf32`
  /// Names of inputs that rarely change, such as weights. What library calls make of them before
  /// they compute (packed operands) a session keeps, on the CPU, until one comes that lies
  /// elsewhere or has another Tensor::version(). Who writes to the memory of such an input has to
  /// give it another version. Throws kBadBinding for a name that no input has.
  std::vector<std::string> steady;
  /// "OUTPUT=INPUT": what that output gives is what that input is in the next run. Both are gone
  /// from the program: the value is a state of the session, by the name of the input. Where the
  /// output is the input with new rows behind (a cache of keys), these are written in place, and
  /// how many rows the input has is fed as a number, unless another input tells it: 0 begins a
  /// text, a smaller one than before goes back. "auto": all outputs that are such caches. Throws
  /// what the pass CacheInPlace throws.
  std::vector<std::string> feedback;
  MemoryOptions memory;
};

/// Name, type and symbolic shape of an input or output.
struct IoSpec {
  std::string name;
  DType dtype = DType::kUnknown;  ///< of a sequence, an optional or a map, that of its tensors
  Shape shape;
  TypeKind kind = TypeKind::kTensor;
  DType key = DType::kUnknown;  ///< of a map
  /// Of an input that is a number: the symbol that it gives a value (weft/core/op/numbers.h).
  SymInt number;
  Type type() const { return Type(kind, dtype, key); }
};

/// What the time of a step is counted in.
enum class TimeUnit : uint8_t { kMicroseconds, kCycles };
/// As it stands in tables and keys.
constexpr const char* NameOf(TimeUnit unit) { return unit == TimeUnit::kCycles ? "cycles" : "us"; }

/// One step of one run, as the profiler saw it. A step of a body that ran several times has the
/// sums of all of them.
struct StepTime {
  /// kind: "kernel", "library", "delegate", "interpreter", "shape", "copy"; "bodies", "region",
  /// "delegate": what such a node took beyond the steps in it, which have rows of their own; those
  /// of a delegate, as its engine tells them, are of kind "engine".
  std::string name, kind;
  double duration = 0;  ///< in `unit`
  int64_t bytes = 0;    ///< of its operands and results, each once
  int64_t flops = 0;    ///< arithmetic operations, by FFlops
  std::string how;      ///< of a library call: what it says that it runs
  std::string in;       ///< bodies and regions around it: "loop_3/body/region 2"; empty: none
  int64_t times = 1;    ///< that it ran
  Origin origin;        ///< the user's nodes that it stands for; null: what `name` says
  TimeUnit unit = TimeUnit::kMicroseconds;  ///< the same for all steps of a program
  /// What it ran on, where several work side by side: "DMA", "MAT". Empty: one after another.
  std::string track;
  double start = -1;  ///< since the run began, in `unit`; < 0: when the step before it ended
};

/// A number that grows while sessions run, in any thread; copies show the same one.
class RunCount {
 public:
  operator int64_t() const { return n_->load(std::memory_order_relaxed); }
  void Add(int64_t n = 1) const { n_->fetch_add(n, std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<int64_t>> n_ = std::make_shared<std::atomic<int64_t>>(0);
};

/// Of a program of regions (sizes that depend on values) and of bodies the steps of all of them.
struct ProgramStats {
  double compile_seconds = 0;
  int kernels = 0;  ///< generated kernels launched a run
  int distinct_kernels = 0;
  int library_calls = 0;
  int delegated = 0;    ///< parts of the graph that engines of delegates run
  int reorders = 0;     ///< copies of a tensor into another layout, which no library makes
  int interpreted = 0;  ///< steps that fall back to the interpreter
  /// Kernels that could not be generated, by a fault of ours (PassRecord::faults): the
  /// interpreter does their work.
  int kernels_failed = 0;
  int host_steps = 0;  ///< shape values written, copies
  // Of all runs so far on a device with memory of its own; elsewhere 0.
  RunCount launches;    ///< kernels and library calls that were given to it one by one
  RunCount replays;     ///< recordings of steps that it was given as a whole
  RunCount host_waits;  ///< times that a run waited for it in its middle, for a step on the host
  std::vector<PassRecord> passes;
};

/// The caches of a session (CompileOptions::feedback).
struct CacheStats {
  int64_t caches = 0;
  int64_t rows = 0;             ///< that they hold behind the last run
  int64_t room = 0;             ///< rows that they have memory for
  int64_t bytes = 0;            ///< of all of that memory
  int64_t allocations = 0;      ///< times that they were given memory, all at once
  int64_t moved_bytes = 0;      ///< of rows that were copied into new memory then
  int64_t copied_by_steps = 0;  ///< steps of a run that copy what a cache holds
};

/// Of this process, so far. A run adds to neither.
struct CompileCounts {
  int64_t programs = 0;  ///< made, those of bodies and regions each for itself
  int64_t kernels = 0;   ///< that compilers, or the cache of what they made, were asked for
};
WEFT_API CompileCounts CountCompiled();

/// What the last run of a session took.
struct SessionMemory {
  int64_t peak_bytes = 0;    ///< arena and results: what it added
  int64_t arena_bytes = 0;   ///< as Session::arena_bytes, with scratch
  int64_t bound_bytes = 0;   ///< the most of it that was needed at once
  int64_t tensor_bytes = 0;  ///< the most of it that tensors needed at once
  /// The most that one library call needed beside tensors while it ran; in another step, perhaps.
  int64_t scratch_bytes = 0;
  int64_t output_bytes = 0;
  int64_t budget_bytes = -1;  ///< -1: there is none
  bool budget_met = true;
  size_t way = 0;               ///< 0: nothing was computed twice
  int64_t recompute_flops = 0;  ///< operations that were done a second time
};

/// Makes the tensor that a run writes result `index` of its program into: of that dtype and these
/// extents, not read-only, in memory that no input and no other result has.
using ResultAllocator = std::function<std::shared_ptr<Tensor>(size_t index, DType dtype,
                                                              const std::vector<int64_t>& dims)>;

class VariableStore;
struct ProgramField;
// The runtime's own (src/runtime/program/program_impl.h).
struct ProgramState;
struct RunRest;
class SessionCaches;

class WEFT_API Program {
 public:
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  const std::vector<IoSpec>& inputs() const;
  const std::vector<IoSpec>& outputs() const;
  /// State variables (core/graph/effects.h), which are not fed: their contents are
  /// in the session's store.
  const std::vector<IoSpec>& variables() const;
  /// A run writes some of them.
  bool writes_variables() const;
  /// Stays as it is, but for the counts of runs.
  const ProgramStats& stats() const;
  /// The graph after the pipeline.
  const Graph& graph() const;
  const std::string& backend() const;

  /// What runs it. Compile and LoadProgram make it; nothing outside the runtime can.
  struct Impl;
  explicit Program(std::unique_ptr<Impl> impl);
  Impl& impl() const { return *impl_; }

 private:
  const std::unique_ptr<Impl> impl_;
};

/// Runs the pipeline and prepares the program. Throws what passes throw; kUnsupported names every
/// node the backend cannot run.
WEFT_API std::shared_ptr<const Program> Compile(Graph graph, const CompileOptions& options = {});

/// A run that Session::Start has begun. To be used by one thread at a time, together with its
/// session, which it outlives.
class WEFT_API PendingRun {
 public:
  PendingRun(PendingRun&&) noexcept;
  PendingRun& operator=(PendingRun&&) = delete;
  ~PendingRun();
  /// The results are there.
  bool ready() const;
  /// Waits for the results and gives them, in the order of program->outputs(). Throws what the run
  /// throws. To be called once.
  std::vector<TensorPtr> Wait();

 private:
  friend class Session;
  struct Impl;
  PendingRun();
  std::unique_ptr<Impl> impl_;
};

class WEFT_API Session {
 public:
  /// State variables live in `store`, which other sessions may share
  /// (runtime/session/variable_store.h); null: in one of the session's own. Those that the store
  /// has not begin with the values that the graph gives them.
  explicit Session(std::shared_ptr<const Program> program,
                   std::shared_ptr<VariableStore> store = nullptr);
  ~Session();
  /// Results in the order of program->outputs(). Throws kBadInput on a wrong count, dtype or
  /// extent, kBadBinding where the store has no variable of that name, dtype and extents.
  std::vector<TensorPtr> Run(const std::vector<TensorPtr>& inputs);
  std::vector<TensorPtr> Run(std::initializer_list<TensorPtr> inputs) {
    return Run(std::vector<TensorPtr>(inputs));
  }
  /// Begins a run and returns, where the program runs on a device; elsewhere the run is done.
  /// Inputs may change, and further runs be started, at once: runs of one session happen in their
  /// order, and see the variables so.
  PendingRun Start(const std::vector<TensorPtr>& inputs);
  /// By name; a missing or unknown name throws kBadBinding with near names.
  std::vector<TensorPtr> Run(const std::map<std::string, TensorPtr>& inputs);
  /// Reuses tensors in `outputs` that fit, and nobody else holds; a run that fails gives all back.
  void RunInto(const std::vector<TensorPtr>& inputs, std::vector<std::shared_ptr<Tensor>>* outputs);
  /// Writes result i into `bound[i]`, which others may hold too and which must have the dtype and
  /// extents of the result (kBadBinding); null: into a new tensor. Returns all results. After a
  /// failure the content of `bound` is anything.
  std::vector<std::shared_ptr<Tensor>> RunBound(const std::vector<TensorPtr>& inputs,
                                                const std::vector<std::shared_ptr<Tensor>>& bound);
  /// Results for which no tensor is given are born in tensors of `make`, from the next run on;
  /// null: in Weft's own. Not asked for are strings, sequences, optionals and maps. A tensor that
  /// cannot be the result ends the run with kBadBinding; what `make` throws goes through, but for
  /// std::bad_alloc, which is kOutOfMemory; the session stays good.
  void set_result_allocator(ResultAllocator make);
  /// As RunInto, timing every step. Without `outputs` the results are new tensors, whose memory the
  /// steps that write them touch first.
  std::vector<StepTime> Profile(const std::vector<TensorPtr>& inputs,
                                std::vector<std::shared_ptr<Tensor>>* outputs = nullptr);
  /// What cancels the runs of this session, from any thread: between steps, and inside long ones of
  /// the interpreter. A run that is cancelled throws kCancelled, one that goes on past
  /// Limits::deadline_s kLimit; the session stays good.
  void set_cancel(CancelToken token) { cancel_ = std::move(token); }
  /// What the last run took beside inputs, variables and results: intermediate results, those of
  /// bodies and between regions, states of loops that swap, slices before they are stacked, and the
  /// scratch memory of library calls.
  int64_t arena_bytes() const;
  /// The most bytes of the arena that are needed at once, for the last extents: no
  /// arena can be smaller.
  int64_t live_bytes() const;
  SessionMemory memory() const;
  /// Bytes that kernels and library calls read and write in one run of the last extents.
  int64_t bytes_moved() const;
  /// Times that a library call has been made ready for steady inputs (CompileOptions::steady).
  int64_t packs() const;
  CacheStats caches() const;
  /// From the next run on caches have room for so many rows at least, and grow no sooner.
  void ReserveRows(int64_t rows);
  /// What the backend's own program tells of itself and of the last run
  /// (weft/runtime/program/backend_program.h); of other programs nothing.
  std::vector<ProgramField> fields() const;
  /// ProgramStats::kernels_failed and those of the calls that the last run was made of.
  int kernels_failed() const;
  const Program& program() const { return *program_; }
  const std::shared_ptr<VariableStore>& store() const { return store_; }

 private:
  /// Puts initial values into the store where it has none.
  void Initialise();
  /// What results that the caller makes may not share memory with.
  void NoteApart(const std::vector<TensorPtr>& inputs,
                 const std::vector<std::shared_ptr<Tensor>>& outputs);
  /// `rest` null: until the results are there.
  void RunProgram(const std::vector<TensorPtr>& inputs,
                  std::vector<std::shared_ptr<Tensor>>* outputs, RunRest* rest);
  void CheckAndRun(const std::vector<TensorPtr>& inputs,
                   std::vector<std::shared_ptr<Tensor>>* outputs, RunRest* rest);
  std::shared_ptr<const Program> program_;
  std::shared_ptr<VariableStore> store_;
  uint64_t store_version_ = 0;             // that state_->variables were taken of
  std::shared_ptr<SessionCaches> caches_;  // null: the program has none
  std::shared_ptr<ProgramState> state_;
  CancelToken cancel_;
};

/// Random inputs for the program's specs under bindings of its symbols (unbound ones: 1);
/// see MakeRandomInputs. A name that is no symbol of an input throws kBadBinding and
/// lists those that are.
WEFT_API std::vector<TensorPtr> RandomProgramInputs(const Program& program, uint64_t seed,
                                                    const SymBindings& bind);

}  // namespace weft
