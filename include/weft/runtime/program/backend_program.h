/// backend_program.h: a program that a backend makes of a whole graph, for accelerators whose
/// compiler is their own. Backend::MakeProgram gives one; sessions, tools and files take it as any
/// other program.
///
///   class Machine final : public BackendProgram {
///    public:
///     void Run(State&, ProgramRun& run) const override {
///       const std::shared_ptr<Tensor> y = run.NewResult(0, DType::kF32, {n_});
///       card_->Execute(code_, run.inputs()[0]->data(), y->mutable_data());
///     }
///   };
///
/// The graph is what the backend's pipeline left (Backend::default_pipeline), with "dtype" and
/// "shape". Where Backend::constant_extents says so, it has numbers for its extents: the runtime
/// compiles one program for each set of extents that runs come with, and keeps the last ones, as it
/// keeps bindings.
///
/// A program is immutable and shared by threads. What a session needs of its own is in a State: one
/// thread at a time. State variables belong to the session's store (state_variable.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/runtime/program/program.h"
#include "weft/runtime/program/state_variable.h"

namespace weft {

/// What a run takes beside inputs, variables and results. Bytes.
struct RunMemory {
  int64_t arena_bytes = 0;  ///< intermediate results, of all memories of the machine
  int64_t live_bytes = 0;   ///< the most of them that are needed at once
  int64_t bytes_moved = 0;  ///< read and written by steps
};

/// A file, or a part of one.
struct NamedBytes {
  std::string name;   ///< letters, digits, '.', '_' and '-'; not empty, not "." or ".."
  std::string bytes;  ///< text is UTF-8
};

/// A figure that a program tells of itself, or several under one name.
struct ProgramField {
  std::string name;  ///< snake_case, with its unit: "predicted_cycles", "peak_words"
  std::variant<int64_t, double, std::string, std::vector<ProgramField>> value;
};

/// One run of one session.
class WEFT_API ProgramRun {
 public:
  /// The runtime's (src/runtime/own/own_program.cc).
  struct Impl;
  explicit ProgramRun(Impl* impl) : impl_(*impl) {}
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  /// In the order of graph.AllInputs(): on the host, of the declared dtype, rank and constant
  /// extents. Not to be written.
  const std::vector<TensorPtr>& inputs() const;
  /// Values of the symbols that are dimensions of inputs and state variables; all agree about them
  /// (kBadInput, before the run). The graph's facts hold where its extents are constants; else they
  /// are the program's to check (Facts::CheckHolds).
  const SymBindings& extents() const;
  /// In the order of StateVariables(graph) (weft/core/graph/effects.h).
  std::vector<StateVariable>& variables();
  /// New contents of all of them, in that order; null: it stays. All are judged before any is
  /// written (kShapeMismatch).
  void WriteVariables(const std::vector<TensorPtr>& now);
  /// The tensor to write result `index` into, in host memory: one that the caller gave, or a new
  /// one. Asked for once a result. Throws kBadBinding, kOutOfMemory.
  std::shared_ptr<Tensor> NewResult(size_t index, DType dtype, const std::vector<int64_t>& dims);
  /// The result is this value: itself where nobody else holds it, else a copy. For values that are
  /// not tensors (sequences, optionals, strings) the only way.
  void SetResult(size_t index, TensorPtr value);
  /// The run is timed: its steps are to be told.
  bool profiled() const;
  void AddTime(StepTime step);
  void SetMemory(const RunMemory& memory);

 private:
  Impl& impl_;
};

class WEFT_API BackendProgram {
 public:
  /// Of one session: memory of the machine, streams, what stays from run to run.
  class State {
   public:
    virtual ~State() = default;
  };
  virtual ~BackendProgram();
  /// By default nothing.
  virtual std::unique_ptr<State> NewState() const;
  /// Every result has to be given. Long runs poll RequestScope::Poll (weft/support/request.h). What
  /// it throws ends the run and goes to the caller; the session stays good.
  virtual void Run(State& state, ProgramRun& run) const = 0;
  /// It calls StateVariable::At. Runs that share a store then take turns.
  virtual bool has_homes() const { return false; }
  /// Counts of steps, of those fields that mean something.
  virtual void AddStats(ProgramStats* /*stats*/) const {}

  /// What `weft compile --json` and `weft bench --json` tell beside what they tell of all programs;
  /// a name that they use themselves is kPlugin. `last`: the state of a session, for what its last
  /// run took; null: nothing has run.
  virtual std::vector<ProgramField> Fields(const State* last) const;
  /// What it was made of and what was made, for people and other tools (`weft compile
  /// --save-kernels`): stages as text, machine code.
  virtual std::vector<NamedBytes> Artifacts() const;
  /// A page in HTML that needs no other file (`weft compile --report`); empty: there is none.
  virtual std::string ReportPage() const;
  /// What Backend::LoadProgram needs beside the graph: sections of a `.weftx` file. By default
  /// none: loading compiles again.
  virtual std::vector<NamedBytes> Save() const;
};

/// The backend's own program behind one that Compile or LoadProgram gave; of one that is compiled
/// once a set of extents the last that was made. Null: it is one of the runtime's kinds, or none
/// is made yet.
WEFT_API std::shared_ptr<const BackendProgram> OwnProgramOf(const Program& program);

}  // namespace weft
