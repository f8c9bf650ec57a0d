/// session.cc: sessions, and what Compile does for every backend.
#include <algorithm>

#include "program_impl.h"
#include "weft/core/evaluator.h"
#include "weft/core/graph_attr.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/timer.h"

namespace weft {
namespace {

IoSpec SpecOf(const Graph& g, const NodeEntry& e, std::string name) {
  IoSpec s;
  s.name = std::move(name);
  if (g.HasAttr("dtype")) s.dtype = g.GetAttr<TypeMap>("dtype")[e].dtype;
  if (g.HasAttr("shape")) s.shape = g.GetAttr<ShapeMap>("shape")[e];
  return s;
}

/// The tensor must have the declared dtype, rank and constant extents; symbolic ones are checked by the binding.
void CheckInput(const IoSpec& spec, const TensorPtr& t) {
  WEFT_CHECK(t != nullptr, kBadInput, "input '{}' is missing", spec.name);
  WEFT_CHECK(spec.dtype == DType::kUnknown || t->dtype() == spec.dtype, kBadInput,
             "input '{}': expected dtype {}, got {}", spec.name, DTypeName(spec.dtype),
             DTypeName(t->dtype()));
  if (!spec.shape.has_rank()) return;
  bool fits = spec.shape.rank() == t->rank();
  for (int d = 0; fits && d < t->rank(); ++d)
    if (auto v = spec.shape[d].known() ? spec.shape[d].try_value() : std::nullopt)
      fits = *v == t->dims()[size_t(d)];
  WEFT_CHECK(fits, kBadInput, "input '{}': expected shape {}, got {}", spec.name,
             spec.shape.ToString(), t->shape().ToString());
}

}  // namespace

std::shared_ptr<const Program> Compile(Graph graph, const CompileOptions& options) {
  Timer timer;
  std::shared_ptr<Backend> backend = GetBackend(options.backend);
  if (options.threads > 0) backend->set_threads(options.threads);
  PassOptions passes = options.passes;
  passes.target = backend->target().empty() ? options.backend : backend->target();
  std::vector<PassRecord> records;
  passes.records = &records;
  const std::string text =
      options.pipeline.empty() ? backend->default_pipeline() : options.pipeline;
  Graph compiled = ApplyPasses(std::move(graph), Pipeline::Parse(text), passes);
  std::shared_ptr<Program> program = backend->target().empty()
                                         ? MakeReferenceProgram(std::move(compiled))
                                         : MakeHostProgram(std::move(compiled), backend);
  program->backend_name_ = options.backend;
  for (NodePtr p : program->graph_.AllInputs())
    program->inputs_.push_back(SpecOf(program->graph_, NodeEntry(p), p->attrs.name));
  for (size_t i = 0; i < program->graph_.outputs.size(); ++i)
    program->outputs_.push_back(
        SpecOf(program->graph_, program->graph_.outputs[i], program->graph_.OutputName(i)));
  program->stats_.passes = std::move(records);
  program->stats_.compile_seconds = timer.seconds();
  if (options.passes.records) *options.passes.records = program->stats_.passes;
  return program;
}

Session::Session(std::shared_ptr<const Program> program)
    : program_(std::move(program)), state_(program_->NewState()) {}
Session::~Session() = default;
int64_t Session::arena_bytes() const { return state_->arena_bytes; }
int64_t Session::bytes_moved() const { return state_->bytes_moved; }

void Session::RunInto(const std::vector<TensorPtr>& inputs,
                      std::vector<std::shared_ptr<Tensor>>* outputs) {
  const auto& specs = program_->inputs();
  WEFT_CHECK(inputs.size() == specs.size(), kBadInput, "the program takes {} inputs, {} given",
             specs.size(), inputs.size());
  for (size_t i = 0; i < specs.size(); ++i) CheckInput(specs[i], inputs[i]);
  outputs->resize(program_->outputs().size());
  program_->Run(*state_, inputs, outputs);
}

std::vector<TensorPtr> Session::Run(const std::vector<TensorPtr>& inputs) {
  std::vector<std::shared_ptr<Tensor>> outputs;
  RunInto(inputs, &outputs);
  return {outputs.begin(), outputs.end()};
}

std::vector<TensorPtr> Session::Run(const std::map<std::string, TensorPtr>& inputs) {
  std::vector<TensorPtr> ordered;
  std::vector<std::string> names;
  for (const IoSpec& s : program_->inputs()) names.push_back(s.name);
  for (const auto& [name, tensor] : inputs)
    if (std::find(names.begin(), names.end(), name) == names.end())
      ThrowError(ErrorCode::kBadBinding, fmt::format("the model has no input '{}'", name), "",
                 DidYouMean(name, names));
  for (const std::string& n : names) {
    auto it = inputs.find(n);
    WEFT_CHECK(it != inputs.end(), kBadBinding, "input '{}' is not given", n);
    ordered.push_back(it->second);
  }
  return Run(ordered);
}

std::vector<StepTime> Session::Profile(const std::vector<TensorPtr>& inputs) {
  std::vector<StepTime> steps;
  std::vector<std::shared_ptr<Tensor>> outputs;
  struct Reset {
    Program::State& state;
    ~Reset() { state.profile = nullptr; }
  } reset{*state_};
  state_->profile = &steps;
  RunInto(inputs, &outputs);
  return steps;
}

std::vector<TensorPtr> RandomProgramInputs(const Program& program, uint64_t seed,
                                           const SymBindings& bind) {
  SymBindings all = bind;
  for (const IoSpec& s : program.inputs())
    for (SymInt d : s.shape.dims())
      if (d.known())
        for (SymInt symbol : d.Symbols()) all.emplace(symbol.symbol_name(), 1);
  return MakeRandomInputs(program.graph(), seed, all).tensors;
}

}  // namespace weft
