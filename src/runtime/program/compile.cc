/// compile.cc: what Compile does for every backend: the pipeline, then a program of what it left.
#include <algorithm>
#include <map>

#include "program_impl.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/placement.h"
#include "weft/support/check.h"
#include "weft/support/out_of_memory.h"
#include "weft/support/request.h"
#include "weft/support/timer.h"

namespace weft {
namespace {

IoSpec SpecOf(const Graph& g, const NodeEntry& e, std::string name) {
  IoSpec s;
  s.name = std::move(name);
  if (g.HasAttr("dtype")) {
    const Type type = g.GetAttr<TypeMap>("dtype")[e];
    s.dtype = type.dtype;
    s.kind = type.kind;
    s.key = type.key;
  }
  if (g.HasAttr("shape")) s.shape = g.GetAttr<ShapeMap>("shape")[e];
  return s;
}

}  // namespace

std::shared_ptr<Backend> BackendFor(const std::string& name, int threads) {
  std::shared_ptr<Backend> shared = GetBackend(name);
  if (threads <= 0) return shared;
  if (std::shared_ptr<Backend> own = shared->WithThreads(threads)) return own;
  shared->set_threads(threads);
  return shared;
}

namespace {

/// What a fused body assigns is a variable outside, and its new content a result.
void CheckBody(const NodePtr& fused) {
  const Graph& body = *FusedBody(fused);
  for (NodePtr n : body.TopoOrder()) {
    if (!IsOp(n, builtin::kAssign)) continue;
    const bool is_input = std::count(body.inputs().begin(), body.inputs().end(), n->inputs[0].node);
    WEFT_CHECK(
        is_input && body.is_output(n), kInvalidModel,
        "{}: in its body {} writes what is not an input of the body, or is not a result of it",
        fused->Describe(), n->Describe());
  }
}

}  // namespace

void CheckEffects(const Graph& graph) {
  std::map<std::string, NodePtr> names;
  for (NodePtr v : StateVariables(graph)) {
    WEFT_CHECK(!v->attrs.name.empty(), kInvalidModel, "{}: a state variable needs a name",
               v->Describe());
    const auto [it, fresh] = names.emplace(v->attrs.name, v);
    WEFT_CHECK(fresh, kInvalidModel, "two state variables are called '{}': {} and {}",
               v->attrs.name, it->second->Describe(), v->Describe());
  }
  for (NodePtr n : graph.TopoOrder()) {
    if (IsOp(n, builtin::kAssign))
      for (const NodeEntry& e : n->inputs)
        WEFT_CHECK(e.node, kArity, "{}: needs a variable and a value", n->Describe());
    if (IsOp(n, builtin::kFused)) CheckBody(n);
    for (auto [i, k] : WrittenInputs(n)) {
      const NodePtr v = n->inputs[size_t(i)].node;
      WEFT_CHECK(IsState(v), kInvalidModel,
                 "{}: writes {}, which is not a state variable; what it writes must outlive the "
                 "run: set the attribute `state` of the variable",
                 n->Describe(), v->Describe());
      WEFT_CHECK(k >= 0, kUnsupported,
                 "{}: no backend runs operators that write an input by themselves; give the new "
                 "content as a result and weft::Assign it",
                 n->Describe());
    }
  }
}

void DescribeProgram(Program::Impl* program, const std::string& backend_name) {
  program->backend_name_ = backend_name;
  for (NodePtr p : program->graph_.AllInputs())
    program->inputs_.push_back(SpecOf(program->graph_, NodeEntry(p), p->attrs.name));
  for (size_t i = 0; i < program->graph_.outputs.size(); ++i)
    program->outputs_.push_back(
        SpecOf(program->graph_, program->graph_.outputs[i], program->graph_.OutputName(i)));
  for (NodePtr v : StateVariables(program->graph_)) {
    program->variables_.push_back(SpecOf(program->graph_, NodeEntry(v), v->attrs.name));
    const AttrValue* value = v->attrs.dict.find("value");
    program->initial_values_.push_back(value ? value->get<TensorPtr>() : nullptr);
  }
  for (NodePtr n : program->graph_.TopoOrder())
    program->writes_variables_ = program->writes_variables_ || !WrittenInputs(n).empty();
}

std::shared_ptr<Program> MakeProgram(Graph compiled, const std::string& backend_name,
                                     const std::shared_ptr<Backend>& backend,
                                     std::vector<PassRecord> passes, const Limits& limits,
                                     const CallOptions& calls) {
  std::unique_ptr<Program::Impl> program =
      !backend->target().traits().kernels ? MakeReferenceProgram(std::move(compiled))
      : backend->device()                 ? MakeDeviceProgram(std::move(compiled), backend)
                                          : MakeHostProgram(std::move(compiled), backend);
  DescribeProgram(program.get(), backend_name);
  program->limits_ = limits;
  program->TakeCallOptions(calls);
  for (const PassRecord& r : passes) program->stats_.kernels_failed += int(r.faults.size());
  program->stats_.passes = std::move(passes);
  return std::make_shared<Program>(std::move(program));
}

Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::~Program() = default;
const std::vector<IoSpec>& Program::inputs() const { return impl_->inputs_; }
const std::vector<IoSpec>& Program::outputs() const { return impl_->outputs_; }
const std::vector<IoSpec>& Program::variables() const { return impl_->variables_; }
bool Program::writes_variables() const { return impl_->writes_variables_; }
const ProgramStats& Program::stats() const { return impl_->stats(); }
const Graph& Program::graph() const { return impl_->graph_; }
const std::string& Program::backend() const { return impl_->backend_name_; }

Planned PlanGraph(Graph graph, const CompileOptions& options, Backend& backend, bool code) {
  PassOptions passes = options.passes;
  passes.target = backend.target();
  Pipeline pipeline =
      Pipeline::Parse(options.pipeline.empty() ? backend.default_pipeline() : options.pipeline);
  if (!options.fusion) pipeline = WithoutFusion(pipeline);
  if (!code) pipeline = WithoutCode(pipeline);
  Planned planned;
  // Asked once: before the first pass that makes kernels and calls, or at the end where none does.
  bool asked = !passes.target.traits().kernels;
  const auto ask = [&](const Graph& g) {
    asked = true;
    planned.why_stages = Placement(g, passes.target).WhyStages();
    return planned.why_stages.empty();
  };
  passes.go_on = [&](const PassEntry& next, const Graph& g) {
    if (options.passes.go_on && !options.passes.go_on(next, g)) return false;
    return asked || !next.fuses || ask(g);
  };
  // Bodies that one plan can hold become programs; the others are left to the Evaluator.
  passes.enters = [&](const PassEntry& next, const Graph& body) {
    if (options.passes.enters && !options.passes.enters(next, body)) return false;
    return !asked || CanPlanBody(body, passes.target);
  };
  planned.graph = ApplyPasses(std::move(graph), pipeline, passes);
  if (!asked) ask(planned.graph);
  return planned;
}

namespace {

/// One program; null, with the reason, where its graph has to run by stages.
std::shared_ptr<Program> TryCompile(Graph graph, const CompileOptions& options,
                                    std::string* why_stages) {
  std::shared_ptr<Backend> backend = BackendFor(options.backend, options.threads);
  std::vector<PassRecord> own;
  CompileOptions recorded = options;
  if (!options.passes.records) recorded.passes.records = &own;
  std::vector<PassRecord>& records = *recorded.passes.records;
  records.clear();
  Planned planned = PlanGraph(std::move(graph), recorded, *backend, true);
  *why_stages = planned.why_stages;
  if (!why_stages->empty()) return nullptr;
  return MakeProgram(std::move(planned.graph), options.backend, backend, records,
                     options.passes.limits, options.calls);
}

}  // namespace

std::shared_ptr<Program> CompileStatic(Graph graph, const CompileOptions& options) {
  std::string why_stages;
  std::shared_ptr<Program> program = TryCompile(std::move(graph), options, &why_stages);
  WEFT_CHECK(program, kUnsupported, "{}", why_stages);
  return program;
}

namespace {

std::shared_ptr<const Program> CompileAny(Graph graph, const CompileOptions& options) {
  Timer timer;
  RequestScope scope(options.passes.limits, &options.passes.cancel);
  CheckEffects(graph);
  MarkState(graph);
  const Graph original = graph;
  std::string why;
  std::shared_ptr<Program> program = TryCompile(std::move(graph), options, &why);
  if (!program) {
    // What a stage does cannot be undone by a later one that fails, nor be ordered against its
    // effects.
    WEFT_CHECK(StateVariables(original).empty(), kUnsupported,
               "a program with state variables needs shapes that do not depend on values: {}", why);
    const std::string why_not = WhyNoStages(original);
    WEFT_CHECK(why_not != why, kUnsupported, "{}", why);
    WEFT_CHECK(why_not.empty(), kUnsupported, "{}; nor can it run by stages: {}", why, why_not);
    program = MakeStagedProgram(original, options);
  }
  program->impl().limits_ = options.passes.limits;
  program->impl().stats_.compile_seconds = timer.seconds();
  return program;
}

}  // namespace

std::shared_ptr<const Program> Compile(Graph graph, const CompileOptions& options) {
  return WithMemoryTo("compile the graph", {}, [&] {
    if (!options.backend.empty()) return CompileAny(std::move(graph), options);
    CompileOptions with_backend = options;
    with_backend.backend = kDefaultBackend;
    return CompileAny(std::move(graph), with_backend);
  });
}

}  // namespace weft
