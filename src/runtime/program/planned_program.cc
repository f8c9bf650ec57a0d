/// planned_program.cc: the loop over the steps of a plan, for every kind of memory.
#include "planned_program.h"

#include <algorithm>

#include "predict_parts.h"
#include "result_tensors.h"
#include "runtime/binding/step_cost.h"
#include "runtime/memory/plan_report.h"
#include "weft/codegen/interp/interpreter.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/cache_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/plan/layout.h"
#include "weft/runtime/backend/packing_call.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

bool IsReorder(const Step& s) {
  return s.kind == StepKind::kLibrary && IsOp(s.node, builtin::kReorder);
}
bool IsDelegated(const Step& s) {
  return s.kind == StepKind::kLibrary && IsOp(s.node, builtin::kDelegated);
}
/// Steps that read what a cache holds into other memory, or write all of a cache.
int64_t CountCacheCopies(const ExecutionPlan& plan) {
  const auto cuts = [](const NodePtr& n) { return IsOp(n, builtin::kPrefix); };
  int64_t copies = 0;
  for (const Step& s : plan.steps) {
    bool copy = cuts(s.node);
    if (IsOp(s.node, builtin::kFused))
      for (const NodePtr& n : FusedBody(s.node)->TopoOrder()) copy = copy || cuts(n);
    for (const auto& commit : s.commits)
      for (size_t v = 0; v < plan.variables.size(); ++v) {
        const int target = plan.input_values[plan.num_fed() + v];
        copy = copy ||
               (plan.values[size_t(commit.second)].storage == plan.values[size_t(target)].storage &&
                plan.grows[v]);
      }
    copies += copy;
  }
  return copies;
}
const char* KindOf(const Step& s) {
  static constexpr const char* kKinds[] = {"kernel", "library", "interpreter",
                                           "shape",  "copy",    "bodies"};
  return IsReorder(s) ? "copy" : IsDelegated(s) ? "delegate" : kKinds[int(s.kind)];
}

}  // namespace

PlannedProgram::PlannedProgram(Graph graph, std::shared_ptr<Backend> backend)
    : backend_(std::move(backend)) {
  graph_ = std::move(graph);
  plan_ = MakePlan(graph_, *backend_);
  binder_ = std::make_unique<Binder>(plan_, graph_.AttrOr<Facts>("facts"));
  std::vector<const void*> distinct;
  for (const Step& s : plan_.steps) {
    stats_.kernels += s.kind == StepKind::kKernel;
    stats_.reorders += IsReorder(s);
    stats_.delegated += IsDelegated(s);
    stats_.library_calls += s.kind == StepKind::kLibrary && !IsReorder(s) && !IsDelegated(s);
    stats_.interpreted += s.kind == StepKind::kInterpreter;
    stats_.host_steps += s.kind == StepKind::kShapeValue || s.kind == StepKind::kCopy;
    stats_.host_steps += int(s.commits.size());
    const void* launcher = s.launcher.get();
    if (!launcher) launcher = s.device_launcher.get();
    if (launcher && std::find(distinct.begin(), distinct.end(), launcher) == distinct.end())
      distinct.push_back(launcher);
  }
  stats_.host_steps += int(plan_.copies.size());
  cache_copies_ = CountCacheCopies(plan_);
  stats_.distinct_kernels = int(distinct.size());
}

RunRest PlannedProgram::RunUntil(State& state, const std::vector<TensorPtr>& fed,
                                 std::vector<std::shared_ptr<Tensor>>* outputs, bool later) const {
  PlannedState& s = static_cast<PlannedState&>(state);
  Prepare(s);
  std::vector<TensorPtr> with_variables;
  if (!plan_.variables.empty()) {
    with_variables = fed;
    with_variables.insert(with_variables.end(), s.variables.begin(), s.variables.end());
  }
  const std::vector<TensorPtr>& inputs = plan_.variables.empty() ? fed : with_variables;
  std::vector<int64_t> key = binder_->Solve(inputs);
  if (s.bounds) binder_->AddBounds(*s.bounds, &key);
  if (!s.binding || s.key != key) {
    CountWork(&s);
    s.binding = BindingFor(key, inputs, s.bounds.get(), s.binding.get());
    s.key = std::move(key);
  }
  const Binding& b = *s.binding;
  binder_->CheckInputs(b, inputs);
  s.layout = has_own_calls_ ? PrepareCalls(s, inputs) : &b.arena;
  s.arena_bytes = s.layout->arena_bytes;
  s.live_bytes = s.layout->live_bytes;
  s.tensor_bytes = s.layout->tensor_bytes;
  s.scratch_bytes = s.layout->scratch_bytes;
  s.inside_bytes = 0;
  s.bytes_moved = b.bytes_moved;
  s.kernels_failed = b.kernels_failed;
  s.output_bytes = 0;
  for (const int v : plan_.output_values) s.output_bytes += BytesOf(b, v);
  if (s.most_bytes != INT64_MAX) KeepBudget(s);
  for (size_t i = 0; i < outputs->size(); ++i) {
    const int v = plan_.output_values[i];
    auto& t = (*outputs)[i];
    const DType dtype = plan_.values[size_t(v)].dtype;
    if (TakesResult(t, dtype, b.dims[size_t(v)], s.keeps_outputs)) continue;
    t = nullptr;
    if (s.results) t = s.results->NewResult(i, dtype, b.dims[size_t(v)]);
    if (!t) t = NewResult(s, i, dtype, b.dims[size_t(v)]);
  }
  s.base.resize(plan_.storages.size());
  try {
    if (!s.arena) s.arena = std::make_shared<Arena>();
    if (!s.arena->Fits(FrameBytes(s))) Wait(s);  // for runs that were started before
    PlaceFrame(s);
    Begin(s, inputs, *outputs);
    RunSteps(s);
    return End(s, *outputs, later);
  } catch (Error& e) {
    if (e.code() == ErrorCode::kOutOfMemory && e.hint().empty())
      e.SetHint(
          fmt::format("at these dimensions the plan needs {}, {} at once: tensors take up to {} of "
                      "them, library calls up to {}",
                      FormatBytes(s.arena_bytes), FormatBytes(s.live_bytes),
                      FormatBytes(s.tensor_bytes), FormatBytes(s.scratch_bytes)));
    Abandon(s);
    throw;
  } catch (...) {
    Abandon(s);
    throw;
  }
}

/// What a run takes is known: it is no more than it may be, and so is what the arena has from runs
/// before.
void PlannedProgram::KeepBudget(PlannedState& s) const {
  const int64_t room = s.most_bytes - s.output_bytes;
  WEFT_CHECK(s.arena_bytes <= room, kOutOfMemory,
             "the memory budget leaves {} for intermediate results, and operands that are kept "
             "packed make them {}",
             FormatBytes(std::max<int64_t>(room, 0)), FormatBytes(s.arena_bytes));
  if (!s.arena || s.arena->size() <= room) return;
  Wait(s);
  s.arena->Drop();
}

char* PlannedProgram::PlaceFrame(PlannedState& s) const {
  s.frame = s.arena->Reserve(*backend_, FrameBytes(s));
  for (size_t k = 0; k < plan_.storages.size(); ++k)
    if (plan_.storages[k].kind == StorageKind::kArena) s.base[k] = s.frame + s.layout->offsets[k];
  return s.frame;
}

std::shared_ptr<Tensor> PlannedProgram::NewResult(PlannedState& s, size_t index, DType dtype,
                                                  const std::vector<int64_t>& dims) const {
  return weft::NewResult(s, index, dtype, dims);
}

void PlannedProgram::RunSteps(PlannedState& s) const { RunSteps(s, 0, plan_.steps.size()); }

void PlannedProgram::RunSteps(PlannedState& s, size_t begin, size_t end) const {
  for (size_t k = begin; k < end; ++k) {
    const Step& step = plan_.steps[k];
    RequestScope::Poll();
    if (s.layout->left_out[k]) continue;
    if (!s.is_profiled) {
      Execute(step, k, s);
      continue;
    }
    Wait(s);
    s.timed.resize(plan_.steps.size());
    const Stopwatch watch(&s.timed[k]);
    Execute(step, k, s);
    Wait(s);
  }
}

void PlannedProgram::Execute(const Step& step, size_t k, PlannedState& s) const {
  const auto copy = [&](int from, int to) {
    Copy(s, Pointer(s, to), Pointer(s, from), BytesOf(*s.binding, from));
  };
  if (step.kind == StepKind::kCopy)
    copy(step.inputs[0], step.outputs[0]);
  else
    Compute(step, k, s);
  for (auto [from, to] : step.commits) copy(from, to);
}

size_t PlannedProgram::FillBuffers(const Step& step, PlannedState& s) const {
  s.buffers.clear();
  for (int v : step.inputs) s.buffers.push_back(Pointer(s, v));
  for (int v : step.outputs) s.buffers.push_back(Pointer(s, v));
  return step.inputs.size();
}

std::vector<TensorPtr> PlannedProgram::Interpret(const Step& step, const Binding& b,
                                                 const std::vector<TensorPtr>& inputs) const {
  std::vector<TensorPtr> out;
  if (step.spec) {
    std::vector<TensorPtr> present;
    for (const TensorPtr& t : inputs)
      if (t) present.push_back(t);
    out = weft::Interpret(*step.spec, present, b.symbols);
  } else {
    out = GetEvaluator()->EvalNode(step.node, inputs, {});
  }
  for (size_t i = 0; i < out.size(); ++i)
    WEFT_ICHECK(out[i]->dims() == b.dims[size_t(step.outputs[i])],
                "{}: result {} has the shape {}, {} was inferred", step.node->Describe(), i,
                out[i]->shape().ToString(),
                Shape::OfInts(b.dims[size_t(step.outputs[i])]).ToString());
  return out;
}

void PlannedProgram::ThrowOutside(const Step& step) {
  ThrowError(ErrorCode::kIndexRange, "an index is outside of the axis that it selects from",
             step.node->Describe());
}

/// What the steps have done at the extents of the binding. Not while they are timed: it would cool
/// their caches.
void PlannedProgram::CountWork(PlannedState* s) const {
  if (s->timed.empty() || !s->binding) return;
  const ShapeMap& shapes = graph_.GetAttr<ShapeMap>("shape");
  for (size_t k = 0; k < s->timed.size(); ++k) {
    if (s->timed[k].times == s->timed[k].counted) continue;
    s->timed[k].Count(CostOf(plan_.steps[k], plan_, *s->binding, shapes));
  }
}

MemoryReport PlannedProgram::Report(const std::vector<TensorPtr>& tensors) const {
  const std::shared_ptr<const Binding> b =
      BindingFor(binder_->Solve(tensors), tensors, nullptr, nullptr);
  MemoryReport r = ReportPlan(graph_, plan_, *b);
  const WeightBytes held = weights();
  r.constant_bytes = held.constants;
  r.packed_bytes = held.packed;
  const ArenaParts parts = PredictBodies(graph_, *backend_, call_options_, b->symbols, &r);
  r.at_most = parts.at_most;
  if (parts.inside == 0) return r;
  // Arenas of bodies stay from run to run, as this one does.
  std::string name;
  for (const Step& step : plan_.steps)
    if (step.kind == StepKind::kBodies && name.empty()) name = UserName(step.node);
  r.blocks.push_back(
      {name, MemoryKind::kArena, parts.inside, -1, 0, int(r.live.size()), "what its bodies take"});
  for (int64_t* bytes : {&r.arena_bytes, &r.peak_bytes, &r.bound_bytes, &r.floor_bytes})
    *bytes = CheckedAdd(*bytes, parts.inside);
  for (int64_t& live : r.live) live = CheckedAdd(live, parts.inside);
  if (r.at_step < 0) r.at_step = 0;
  return r;
}

void PlannedProgram::ForgetBindings() const {
  std::lock_guard lock(mutex_);
  bindings_.clear();
}

void PlannedProgram::TakeTimes(State& state, const std::string& in,
                               std::vector<StepTime>* times) const {
  PlannedState& s = static_cast<PlannedState&>(state);
  CountWork(&s);
  for (size_t k = 0; k < s.timed.size(); ++k) {
    const Step& step = plan_.steps[k];
    if (s.timed[k].times == 0) continue;
    StepTime t = s.timed[k].Row(step.name, KindOf(step), in);
    t.origin = step.node->origin();
    std::vector<StepTime> inside;
    if (const PreparedCall* call = s.binding->calls[k].get()) {
      t.how = call->description();
      for (CallPart& part : call->parts()) {
        StepTime row;
        row.name = std::move(part.name);
        row.kind = "engine";
        row.how = std::move(part.how);
        row.duration = part.us;
        row.in = PlaceIn(in, step.name);
        row.times = 1;
        inside.push_back(std::move(row));
      }
    }
    TakeTimesInside(s, k, in, &inside);
    AppendTimes(std::move(t), std::move(inside), times);
  }
  s.timed.clear();
}

std::unique_ptr<PreparedCall> PlannedProgram::PrepareCall(
    const Step& step, const PlannedState& s, const std::map<int, TensorPtr>& known) const {
  std::lock_guard lock(mutex_);
  return binder_->Prepare(step, *s.binding, *backend_, call_options_, known);
}

std::shared_ptr<const Binding> PlannedProgram::BindingFor(const std::vector<int64_t>& key,
                                                          const std::vector<TensorPtr>& inputs,
                                                          const FrameBounds* bounds,
                                                          const Binding* before) const {
  std::lock_guard lock(mutex_);
  return bindings_.GetOrMake(key, [&] {
    auto made = binder_->Bind(key, inputs, bounds, *backend_, call_options_, before);
    made_.erase(
        std::remove_if(made_.begin(), made_.end(), [](const auto& b) { return b.expired(); }),
        made_.end());
    made_.push_back(made);
    return made;
  });
}

WeightBytes PlannedProgram::weights() const {
  std::lock_guard lock(mutex_);
  std::map<const void*, int64_t> packed, constants;
  std::vector<bool> released(plan_.values.size(), !made_.empty());
  for (const auto& known : made_) {
    const std::shared_ptr<const Binding> b = known.lock();
    if (!b) continue;
    for (size_t v = 0; v < released.size(); ++v) released[v] = released[v] && b->released[v];
    for (const auto& call : b->calls)
      if (const auto* packs = dynamic_cast<const PackingCall*>(call.get()))
        packs->AddPacked(&packed);
  }
  for (size_t v = 0; v < released.size(); ++v)
    if (const TensorPtr& t = plan_.values[v].constant; t && !released[v])
      constants[t->data()] = t->num_bytes();
  WeightBytes bytes;
  for (const auto& [at, n] : constants) bytes.constants += n;
  for (const auto& [at, n] : packed) bytes.packed += n;
  return bytes;
}

WeightBytes WeightsOf(const Program& program) { return program.impl().weights(); }

}  // namespace weft
