/// program_impl.h: the kinds of program, and what makes them. Private to the runtime.
#pragma once

#include <memory>

#include "weft/runtime/program/program.h"

namespace weft {

/// What Compile and LoadProgram share: the program of a graph that its passes have left.
struct ProgramMaker {
  static std::shared_ptr<Program> Make(Graph compiled, const std::string& backend_name,
                                       const std::shared_ptr<Backend>& backend);
  /// Names and types of inputs and outputs, from the program's graph.
  static void Finish(Program* program, const std::string& backend_name);
  static void SetLimits(Program* program, const Limits& limits) { program->limits_ = limits; }
  static void SetCallOptions(Program* program, const CallOptions& options) {
    program->call_options_ = options;
  }
  static ProgramStats& Stats(Program& program) { return program.stats_; }
  /// What the passes told; their faults are kernels.
  static void SetPasses(Program* program, std::vector<PassRecord> records) {
    for (const PassRecord& r : records) program->stats_.kernels_failed += int(r.faults.size());
    program->stats_.passes = std::move(records);
  }
};

/// A tensor of the same content that nothing else holds: what a caller may write to.
std::shared_ptr<Tensor> OwnCopy(const Tensor& t);
/// Between tensors of equal dtype and extents.
void CopyContent(const Tensor& from, Tensor* to);
/// The backend of that name, for one program with `threads` (0: as many as the process may
/// use). Throws as GetBackend.
std::shared_ptr<Backend> BackendFor(const std::string& name, int threads);
/// Where CompileOptions name none. Every write must be one to a state variable, by an operator
/// whose result is the new content, and the names of state variables must tell them apart
/// (kInvalidModel, kUnsupported).
void CheckEffects(const Graph& graph);

/// Runs every node in the Evaluator on tensors of the sizes that come: the reference.
std::shared_ptr<Program> MakeReferenceProgram(Graph graph);
/// Runs the planned instruction list on host memory.
std::shared_ptr<Program> MakeHostProgram(Graph graph, std::shared_ptr<Backend> backend);
/// Runs it on a backend with memory of its own.
std::shared_ptr<Program> MakeDeviceProgram(Graph graph, std::shared_ptr<Backend> backend);

/// What a program of this backend is planned from: the graph after the pipeline, or, where one plan
/// cannot hold it, after so much of the pipeline as it takes to know that, and the reason.
struct Planned {
  Graph graph;
  std::string why_stages;
};
/// `code`: with the machine code of kernels, which no plan asks for. options.passes.records is
/// filled where given.
Planned PlanGraph(Graph graph, const CompileOptions& options, Backend& backend, bool code);
/// The whole pipeline and one program, without stages (kUnsupported); options.passes.records is
/// filled where given.
std::shared_ptr<Program> CompileStatic(Graph graph, const CompileOptions& options);

// staged_program.cc: for extents that depend on values and tensors without a place in an arena.
/// `graph` is as the user gave it; options.backend compiles its parts.
std::shared_ptr<Program> MakeStagedProgram(Graph graph, const CompileOptions& options);

}  // namespace weft
