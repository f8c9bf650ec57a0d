/// session.cc: runs of a program, with every input judged before.
#include <algorithm>
#include <set>
#include <utility>

#include "runtime/program/result_tensors.h"
#include "session_caches.h"
#include "variable_access.h"
#include "weft/core/pass/evaluator.h"
#include "weft/runtime/program/backend_program.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/out_of_memory.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// A program of the host, or of another device, does not copy what lies elsewhere: that would be
/// slow, and nobody would see why.
void CheckPlace(const char* what, const std::string& name, const Tensor& t, MemoryPlace place) {
  if (t.on_host() || t.place() == place) return;
  ThrowError(ErrorCode::kBadInput,
             fmt::format("{} '{}' is on {}, the program takes what is on {}", what, name,
                         t.place().ToString(),
                         place.on_host() ? "the host" : place.ToString() + " or the host"),
             "", "copy it there first");
}

/// The tensor must have the declared dtype, rank and constant extents; symbolic ones are
/// checked by the binding.
void CheckInput(const IoSpec& spec, const TensorPtr& t, MemoryPlace place) {
  WEFT_CHECK(t != nullptr, kBadInput, "input '{}' is missing", spec.name);
  WEFT_CHECK(spec.dtype == DType::kUnknown || t->dtype() == spec.dtype, kBadInput,
             "input '{}': expected dtype {}, got {}", spec.name, DTypeName(spec.dtype),
             DTypeName(t->dtype()));
  WEFT_CHECK(spec.dtype == DType::kUnknown || t->type() == spec.type(), kBadInput,
             "input '{}': expected a value of type {}, got {}", spec.name, spec.type().ToString(),
             t->type().ToString());
  WEFT_CHECK(FitsShape(spec, *t), kBadInput, "input '{}': expected shape {}, got {}", spec.name,
             spec.shape.ToString(), t->shape().ToString());
  if (!t->on_host()) CheckPlace("input", spec.name, *t, place);
  if (t->is_tensor()) return;
  for (const TensorPtr& e : t->elements())
    if (!e->on_host()) CheckPlace("an element of input", spec.name, *e, MemoryPlace());
}

/// Variables in memory of the caller are apart from what the run reads and writes besides.
void CheckAdopted(const Program::Impl& p, const ProgramState& s,
                  const std::vector<TensorPtr>& inputs,
                  const std::vector<std::shared_ptr<Tensor>>& outputs) {
  for (const size_t v : s.adopted) {
    const std::string& name = p.variables_[v].name;
    for (size_t i = 0; i < inputs.size() && p.written_[v]; ++i)
      WEFT_CHECK(!ShareMemory(*inputs[i], *s.variables[v]), kBadBinding,
                 "input '{}' shares memory with variable '{}', which the run writes",
                 p.inputs_[i].name, name);
    const auto check = [&](size_t i, const Tensor* given) {
      WEFT_CHECK(!given || !ShareMemory(*given, *s.variables[v]), kBadBinding,
                 "the tensor given for output '{}' shares memory with variable '{}'",
                 p.outputs_[i].name, name);
    };
    for (size_t i = 0; i < outputs.size(); ++i) check(i, outputs[i].get());
    for (const auto& [i, given] : s.replaced) check(i, given);
  }
}

/// The outputs of a run while it is at work: those that others hold are not written, and a run that
/// fails leaves the caller the tensors that he gave.
class GivenOutputs {
 public:
  GivenOutputs(ProgramState* state, std::vector<std::shared_ptr<Tensor>>* outputs)
      : state_(*state), outputs_(*outputs), keeps_(state->keeps_outputs) {
    if (keeps_) return;  // RunBound's own list: the caller's is another, and whole
    state_.given_outputs = outputs_;
    for (auto& t : outputs_)
      if (t && t.use_count() > 2) t = nullptr;
    state_.keeps_outputs = true;
  }
  ~GivenOutputs() {
    if (keeps_) return;
    if (failed_) outputs_.swap(state_.given_outputs);
    state_.given_outputs.clear();
    state_.keeps_outputs = false;
  }
  GivenOutputs(const GivenOutputs&) = delete;
  GivenOutputs& operator=(const GivenOutputs&) = delete;
  void Done() { failed_ = false; }

 private:
  ProgramState& state_;
  std::vector<std::shared_ptr<Tensor>>& outputs_;
  const bool keeps_;
  bool failed_ = true;
};

}  // namespace

Session::Session(std::shared_ptr<const Program> program, std::shared_ptr<VariableStore> store)
    : program_(std::move(program)),
      store_(store ? std::move(store) : std::make_shared<VariableStore>()),
      state_(program_->impl().NewState()) {
  state_->place = program_->impl().place_;
  if (!program_->impl().caches_.empty())
    caches_ = std::make_shared<SessionCaches>(program_->impl());
  Initialise();
}
Session::~Session() = default;

void Session::Initialise() {
  const Program::Impl& p = program_->impl();
  for (size_t i = 0; i < p.variables_.size(); ++i)
    if (p.initial_values_[i]) store_->SetIfAbsent(p.variables_[i].name, p.initial_values_[i]);
}

int64_t Session::live_bytes() const { return state_->live_bytes; }
int64_t Session::arena_bytes() const { return state_->arena_bytes + state_->inside_bytes; }
SessionMemory Session::memory() const {
  const ProgramState& s = *state_;
  SessionMemory m;
  m.arena_bytes = arena_bytes();
  m.bound_bytes = s.live_bytes;
  m.tensor_bytes = s.tensor_bytes;
  m.scratch_bytes = s.scratch_bytes;
  m.output_bytes = s.output_bytes;
  m.peak_bytes = m.arena_bytes + m.output_bytes;
  m.budget_bytes = s.budget_bytes;
  m.budget_met = s.budget_met;
  m.way = s.way;
  m.recompute_flops = s.recompute_flops;
  return m;
}
int64_t Session::bytes_moved() const { return state_->bytes_moved; }
std::vector<ProgramField> Session::fields() const { return program_->impl().Fields(*state_); }
int64_t Session::packs() const { return state_->packs; }
CacheStats Session::caches() const { return caches_ ? caches_->stats() : CacheStats(); }
void Session::ReserveRows(int64_t rows) {
  WEFT_CHECK(rows >= 0, kApiMisuse, "room for {} rows", rows);
  WEFT_CHECK(caches_, kApiMisuse, "the program has no caches (CompileOptions::feedback)");
  caches_->Reserve(rows);
}
int Session::kernels_failed() const {
  return program_->stats().kernels_failed + state_->kernels_failed;
}

void Session::RunProgram(const std::vector<TensorPtr>& inputs,
                         std::vector<std::shared_ptr<Tensor>>* outputs, RunRest* rest) {
  const Program::Impl& p = program_->impl();
  const auto run = [&] {
    if (rest)
      *rest = p.Start(*state_, inputs, outputs);
    else
      p.Run(*state_, inputs, outputs);
  };
  const std::vector<IoSpec>& specs = p.variables_;
  if (specs.empty()) return run();
  const auto open = [&] {
    return std::make_unique<VariableAccess>(*store_, p.writes_variables_, p.has_homes_);
  };
  std::vector<std::shared_ptr<Tensor>> before;  // goes behind the lock: it may be the caller's
  auto access = open();
  if (caches_) caches_->Prepare(inputs, access.get());
  if (access->version() != store_version_) {
    // The caller may have erased a variable since the session was made.
    if (std::any_of(specs.begin(), specs.end(),
                    [&](const IoSpec& spec) { return !access->Find(spec.name); })) {
      access.reset();
      Initialise();
      access = open();
      if (caches_) caches_->Prepare(inputs, access.get());
    }
    before.swap(state_->variables);
    state_->homes.clear();
    state_->adopted.clear();
    store_version_ = 0;
    for (const IoSpec& spec : specs) {
      std::shared_ptr<Tensor> t = access->Find(spec.name);
      CheckVariable(spec, t.get(), *access);
      if (access->IsAdopted(spec.name)) state_->adopted.push_back(state_->variables.size());
      state_->variables.push_back(std::move(t));
      if (p.has_homes_) state_->homes.push_back(access->Home(spec.name));
    }
    store_version_ = access->version();
  }
  if (!state_->adopted.empty()) CheckAdopted(p, *state_, inputs, *outputs);
  if (state_->make_result)
    for (const auto& v : state_->variables) state_->apart.push_back(v.get());
  run();
  if (caches_) caches_->Ran(access.get());
}

namespace {

/// A number as the graph takes it: the extent of an empty tensor.
TensorPtr AsExtent(const IoSpec& spec, const TensorPtr& t) {
  WEFT_CHECK(t != nullptr, kBadInput, "input '{}' is missing", spec.name);
  if (t->dtype() == DType::kBool && t->rank() == 2 && t->dims()[0] == 0) return t;
  WEFT_CHECK(t->dtype() == DType::kI64 && t->is_tensor(), kBadInput,
             "input '{}': expected dtype i64, got {}", spec.name, t->type().ToString());
  WEFT_CHECK(t->on_host(), kBadInput, "input '{}': a number is read on the host", spec.name);
  WEFT_CHECK(t->rank() == 0, kBadInput, "input '{}': expected shape [], got {}", spec.name,
             t->shape().ToString());
  const int64_t n = t->at_int(0);
  WEFT_CHECK(n >= 0, kBadInput, "input '{}': {} is negative; a size is at least 0", spec.name, n);
  return std::make_shared<Tensor>(DType::kBool, std::vector<int64_t>{0, n});
}

std::vector<TensorPtr> WithExtents(const std::vector<IoSpec>& specs,
                                   const std::vector<size_t>& numbers,
                                   std::vector<TensorPtr> inputs) {
  for (size_t i : numbers) inputs[i] = AsExtent(specs[i], inputs[i]);
  return inputs;
}

}  // namespace

void Session::CheckAndRun(const std::vector<TensorPtr>& inputs,
                          std::vector<std::shared_ptr<Tensor>>* outputs, RunRest* rest) {
  const auto& specs = program_->inputs();
  WEFT_CHECK(inputs.size() == specs.size(), kBadInput, "the program takes {} inputs, {} given",
             specs.size(), inputs.size());
  for (size_t i = 0; i < specs.size(); ++i)
    if (!specs[i].number.known()) CheckInput(specs[i], inputs[i], state_->place);
  outputs->resize(program_->outputs().size());
  for (size_t i = 0; i < outputs->size(); ++i)
    if (const Tensor* t = (*outputs)[i].get(); t && !t->on_host())
      CheckPlace("the tensor for output", program_->outputs()[i].name, *t, state_->place);
  if (state_->make_result) NoteApart(inputs, *outputs);
  WithMemoryTo("run the program", {}, [&] {
    RequestScope scope(program_->impl().limits_, &cancel_);
    RequestScope::Poll();
    GivenOutputs given(state_.get(), outputs);
    const std::vector<size_t>& numbers = program_->impl().numbers_;
    if (numbers.empty())
      RunProgram(inputs, outputs, rest);
    else
      RunProgram(WithExtents(specs, numbers, inputs), outputs, rest);
    given.Done();
  });
}

void Session::set_result_allocator(ResultAllocator make) { state_->make_result = std::move(make); }

void Session::NoteApart(const std::vector<TensorPtr>& inputs,
                        const std::vector<std::shared_ptr<Tensor>>& outputs) {
  state_->apart.clear();
  for (const TensorPtr& t : inputs) state_->apart.push_back(t.get());
  if (!state_->keeps_outputs) return;  // others are given up where they are not written
  for (const auto& t : outputs)
    if (t) state_->apart.push_back(t.get());
}

void Session::RunInto(const std::vector<TensorPtr>& inputs,
                      std::vector<std::shared_ptr<Tensor>>* outputs) {
  CheckAndRun(inputs, outputs, nullptr);
}

/// Keeps alive what the run works on.
struct PendingRun::Impl {
  std::shared_ptr<const Program> program;
  std::shared_ptr<ProgramState> state;
  std::vector<std::shared_ptr<Tensor>> outputs;
  RunRest rest;
};

PendingRun::PendingRun() : impl_(std::make_unique<Impl>()) {}
PendingRun::PendingRun(PendingRun&&) noexcept = default;
bool PendingRun::ready() const { return !impl_->rest.ended || impl_->rest.ended(); }

PendingRun Session::Start(const std::vector<TensorPtr>& inputs) {
  PendingRun run;
  run.impl_->program = program_;
  run.impl_->state = state_;
  CheckAndRun(inputs, &run.impl_->outputs, &run.impl_->rest);
  return run;
}

std::vector<TensorPtr> PendingRun::Wait() {
  if (impl_->rest.finish) std::exchange(impl_->rest, {}).finish();
  return {impl_->outputs.begin(), impl_->outputs.end()};
}

PendingRun::~PendingRun() {
  if (!impl_) return;  // it has been moved from
  // The device writes the results.
  try {
    Wait();
  } catch (const std::exception&) {
    // A destructor cannot report it; Wait() would have.
  }
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

std::vector<std::shared_ptr<Tensor>> Session::RunBound(
    const std::vector<TensorPtr>& inputs, const std::vector<std::shared_ptr<Tensor>>& bound) {
  struct Reset {
    ProgramState& state;
    ~Reset() {
      state.keeps_outputs = false;
      state.replaced.clear();
    }
  } reset{*state_};
  state_->keeps_outputs = true;
  std::vector<std::shared_ptr<Tensor>> outputs = bound;
  for (size_t i = 0; i < bound.size(); ++i) {
    if (!bound[i]) continue;
    WEFT_CHECK(!bound[i]->read_only(), kBadBinding, "the tensor bound to output '{}' is read-only",
               i < program_->outputs().size() ? program_->outputs()[i].name : std::to_string(i));
    for (size_t k = 0; k < i; ++k)
      WEFT_CHECK(!bound[k] || !ShareMemory(*bound[i], *bound[k]), kBadBinding,
                 "the tensors bound to outputs {} and {} share memory", k, i);
    // A result that replaces an input is written when nothing reads the input any more.
    for (const TensorPtr& in : inputs) {
      if (!in || !ShareMemory(*bound[i], *in)) continue;
      WEFT_CHECK(bound[i]->on_host(), kBadBinding,
                 "the tensor on {} bound to output {} shares memory with an input",
                 bound[i]->place().ToString(), i);
      outputs[i] = nullptr;
    }
    if (!outputs[i]) state_->replaced.emplace_back(i, bound[i].get());
  }
  RunInto(inputs, &outputs);
  for (size_t i = 0; i < outputs.size() && i < bound.size(); ++i) {
    if (!bound[i] || outputs[i] == bound[i]) continue;
    const Tensor& from = *outputs[i];
    Tensor& to = *bound[i];
    WEFT_CHECK(to.dtype() == from.dtype() && to.dims() == from.dims(), kBadBinding,
               "output '{}' is {}{}, the tensor bound to it {}{}", program_->outputs()[i].name,
               DTypeName(from.dtype()), from.shape().ToString(), DTypeName(to.dtype()),
               to.shape().ToString());
    CopyContent(from, &to);
    outputs[i] = bound[i];
  }
  return outputs;
}

std::vector<StepTime> Session::Profile(const std::vector<TensorPtr>& inputs,
                                       std::vector<std::shared_ptr<Tensor>>* outputs) {
  const Program::Impl& p = program_->impl();
  std::vector<StepTime> steps;
  p.TakeTimes(*state_, "", &steps);  // those of a run that failed
  steps.clear();
  std::vector<std::shared_ptr<Tensor>> made;
  struct Reset {
    ProgramState& state;
    ~Reset() { state.is_profiled = false; }
  } reset{*state_};
  state_->is_profiled = true;
  RunInto(inputs, outputs ? outputs : &made);
  p.TakeTimes(*state_, "", &steps);
  return steps;
}

std::vector<TensorPtr> RandomProgramInputs(const Program& program, uint64_t seed,
                                           const SymBindings& bind) {
  std::set<std::string> known;
  for (const IoSpec& s : program.inputs()) {
    if (s.number.known()) known.insert(s.number.symbol_name());
    for (SymInt d : s.shape.dims())
      if (d.known())
        for (SymInt symbol : d.Symbols()) known.insert(symbol.symbol_name());
  }
  std::set<std::string> unknown;  // sorted: the same message every time
  for (const auto& [name, value] : bind)
    if (!known.count(name)) unknown.insert(name);
  if (!unknown.empty()) {
    const std::vector<std::string> names(known.begin(), known.end());
    ThrowError(ErrorCode::kBadBinding,
               fmt::format("the inputs of the program have no symbol '{}'", *unknown.begin()), "",
               names.empty() ? "they have no symbols" : "they have: " + Join(names, ", "));
  }
  SymBindings all = bind;
  for (const std::string& name : known) all.emplace(name, 1);
  std::vector<TensorPtr> inputs = MakeRandomInputs(program.graph(), seed, all).tensors;
  for (size_t i : program.impl().numbers_)
    inputs[i] = Tensor::Scalar(DType::kI64, double(inputs[i]->dims()[1]));
  return inputs;
}

}  // namespace weft
