/// program.cc: what programs of all kinds are called by, and which planned kind a graph asks for.
#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "program_impl.h"
#include "runtime/plan/instruction.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/cache_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/numbers.h"
#include "weft/runtime/placement.h"
#include "weft/runtime/program/backend_program.h"
#include "weft/support/check.h"

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

namespace {
std::atomic<int64_t> programs_made{0};
}  // namespace

Program::Impl::Impl() { ++programs_made; }
MemoryReport Program::Impl::Report(const std::vector<TensorPtr>&) const {
  WEFT_THROW(kUnsupported, "the backend {} plans no memory", backend_name_);
}
std::vector<NamedBytes> Program::Impl::OwnSections() const { return {}; }
std::vector<ProgramField> Program::Impl::Fields(const State&) const { return {}; }
CompileCounts CountCompiled() { return {programs_made, KernelCache::Process().kernels_asked()}; }

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
  for (NodePtr p : program->graph_.AllInputs()) {
    program->inputs_.push_back(SpecOf(program->graph_, NodeEntry(p), p->attrs.name));
    if (!IsNumberInput(p)) continue;
    program->numbers_.push_back(program->inputs_.size() - 1);
    IoSpec& number = program->inputs_.back();
    number.number = DeclaredShape(p)->dims()[1];
    number.dtype = DType::kI64;
    number.shape = Shape::Scalar();
  }
  for (size_t i = 0; i < program->graph_.outputs.size(); ++i)
    program->outputs_.push_back(
        SpecOf(program->graph_, program->graph_.outputs[i], program->graph_.OutputName(i)));
  for (NodePtr v : StateVariables(program->graph_)) {
    program->variables_.push_back(SpecOf(program->graph_, NodeEntry(v), v->attrs.name));
    const AttrValue* value = v->attrs.dict.find("value");
    program->initial_values_.push_back(value ? value->get<TensorPtr>() : nullptr);
    if (!v->has_attr(builtin::kGrows)) continue;
    program->caches_.push_back(
        {program->variables_.size() - 1, int(v->attr<int64_t>(builtin::kGrows)),
         v->attr<Shape>(builtin::kKept)[0], v->attr<Shape>(builtin::kRows)[0]});
  }
  std::set<std::string> written;
  for (NodePtr n : program->graph_.TopoOrder())
    for (const auto& [i, result] : WrittenInputs(n))
      written.insert(n->inputs[size_t(i)].node->attrs.name);
  program->writes_variables_ = !written.empty();
  for (const IoSpec& v : program->variables_)
    program->written_.push_back(written.count(v.name) > 0);
}

bool FitsShape(const IoSpec& spec, const Tensor& t) {
  if (!spec.shape.has_rank()) return true;
  bool fits = spec.shape.rank() == t.rank();
  for (int d = 0; fits && d < t.rank(); ++d)
    if (auto v = spec.shape[d].known() ? spec.shape[d].try_value() : std::nullopt)
      fits = *v == t.dims()[size_t(d)];
  return fits;
}

std::shared_ptr<Program> FinishProgram(std::unique_ptr<Program::Impl> program,
                                       const std::string& backend_name,
                                       std::vector<PassRecord> passes, const Limits& limits,
                                       const CallOptions& calls) {
  DescribeProgram(program.get(), backend_name);
  program->limits_ = limits;
  program->TakeCallOptions(calls);
  for (const PassRecord& r : passes) program->stats_.kernels_failed += int(r.faults.size());
  program->stats_.passes = std::move(passes);
  return std::make_shared<Program>(std::move(program));
}

std::unique_ptr<Program::Impl> MakePlannedProgram(Graph graph,
                                                  const std::shared_ptr<Backend>& backend) {
  const bool late = !HasPlan(graph) && !Placement(graph, backend->target()).WhyRegions().empty();
  return late                ? MakeRegionProgram(std::move(graph), backend)
         : backend->device() ? MakeDeviceProgram(std::move(graph), backend)
                             : MakeHostProgram(std::move(graph), backend);
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

}  // namespace weft
