/// own_program.cc: programs that backends make of whole graphs (backend_program.h), as sessions run
/// them: one for all extents, or one for each set of them.
#include "own_program.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/program/result_tensors.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/variable.h"
#include "weft/support/bounded_cache.h"
#include "weft/support/check.h"

namespace weft {

BackendProgram::~BackendProgram() = default;
std::unique_ptr<BackendProgram::State> BackendProgram::NewState() const {
  return std::make_unique<State>();
}
std::vector<ProgramField> BackendProgram::Fields(const State*) const { return {}; }
std::vector<NamedBytes> BackendProgram::Artifacts() const { return {}; }
std::string BackendProgram::ReportPage() const { return {}; }
std::vector<NamedBytes> BackendProgram::Save() const { return {}; }

std::shared_ptr<const BackendProgram> OwnProgramOf(const Program& program) {
  return program.impl().own();
}

struct ProgramRun::Impl {
  const std::vector<TensorPtr>& inputs;
  const SymBindings& extents;
  ProgramState& state;
  std::vector<std::shared_ptr<Tensor>>& outputs;
  std::vector<StateVariable> variables;
  std::vector<char> given;  ///< by result
  std::vector<StepTime>* times;

  void Give(size_t index) {
    WEFT_CHECK(index < given.size() && !given[index], kApiMisuse, "result {} of {} is given {}",
               index, given.size(), index < given.size() ? "twice" : "by a program that has fewer");
    given[index] = 1;
  }
};

const std::vector<TensorPtr>& ProgramRun::inputs() const { return impl_.inputs; }
const SymBindings& ProgramRun::extents() const { return impl_.extents; }
std::vector<StateVariable>& ProgramRun::variables() { return impl_.variables; }
bool ProgramRun::profiled() const { return impl_.state.is_profiled; }
void ProgramRun::AddTime(StepTime step) { impl_.times->push_back(std::move(step)); }

std::shared_ptr<Tensor> ProgramRun::NewResult(size_t index, DType dtype,
                                              const std::vector<int64_t>& dims) {
  impl_.Give(index);
  std::shared_ptr<Tensor>& t = impl_.outputs[index];
  if (!TakesResult(t, dtype, dims, impl_.state.keeps_outputs))
    t = weft::NewResult(impl_.state, index, dtype, dims);
  return t;
}

void ProgramRun::SetResult(size_t index, TensorPtr value) {
  WEFT_CHECK(value, kApiMisuse, "result {} is null", index);
  impl_.Give(index);
  const bool own = value.use_count() == 1 && value->is_tensor() && !impl_.state.make_result;
  impl_.outputs[index] =
      own ? std::const_pointer_cast<Tensor>(value) : NewResultOf(impl_.state, index, *value);
}

void ProgramRun::WriteVariables(const std::vector<TensorPtr>& now) {
  std::vector<StateVariable>& all = impl_.variables;
  WEFT_CHECK(now.size() == all.size(), kApiMisuse, "{} new contents for {} variables", now.size(),
             all.size());
  const std::vector<std::shared_ptr<Tensor>>& hosts = impl_.state.variables;
  std::vector<TensorPtr> apart = now;
  for (size_t i = 0; i < now.size(); ++i) {
    if (!now[i]) continue;
    all[i].CheckFits(*now[i]);
    // What is written may be what another variable is to become.
    for (size_t k = 0; k < hosts.size(); ++k)
      if (k != i && now[k] && now[k] != hosts[k] && ShareMemory(*now[i], *hosts[k]))
        apart[i] = OwnCopy(*now[i]);
  }
  for (size_t i = 0; i < apart.size(); ++i)
    if (apart[i] && apart[i] != hosts[i]) all[i].Write(*apart[i]);
}

void ProgramRun::SetMemory(const RunMemory& memory) {
  impl_.state.arena_bytes = memory.arena_bytes;
  impl_.state.live_bytes = memory.live_bytes;
  impl_.state.bytes_moved = memory.bytes_moved;
}

std::vector<SymbolPlace> SymbolPlaces(const Graph& graph) {
  std::vector<SymbolPlace> places;
  size_t operand = 0;
  const auto note = [&](const NodePtr& v, const char* what) {
    const std::optional<Shape> declared = DeclaredShape(v);
    for (int d = 0; declared && d < declared->rank(); ++d)
      if (const SymInt s = (*declared)[d]; s.known() && s.is_symbol())
        places.push_back(
            {operand, size_t(d), s.symbol_name(), fmt::format("{} '{}'", what, v->attrs.name)});
    ++operand;
  };
  for (const NodePtr& p : graph.AllInputs()) note(p, "input");
  for (const NodePtr& v : StateVariables(graph)) note(v, "variable");
  return places;
}

namespace {

class OwnProgram final : public Program::Impl {
 public:
  using Made = std::shared_ptr<const BackendProgram>;

  OwnProgram(Graph graph, std::shared_ptr<Backend> backend, Made always, MakeAtExtents make)
      : backend_(std::move(backend)),
        places_(SymbolPlaces(graph)),
        always_(std::move(always)),
        make_(std::move(make)) {
    graph_ = std::move(graph);
    // Of programs that are not made yet nothing is known.
    has_homes_ = !always_ || always_->has_homes();
    if (always_) always_->AddStats(&stats_);
  }
  /// Where these are all that a run tells.
  void MakeFirst(const SymBindings& extents) {
    for (const SymbolPlace& p : places_)
      if (!extents.count(p.symbol)) return;
    At(extents)->AddStats(&stats_);
  }

  std::unique_ptr<State> NewState() const override { return std::make_unique<OwnState>(); }

  void Run(State& state, const std::vector<TensorPtr>& inputs,
           std::vector<std::shared_ptr<Tensor>>* outputs) const override {
    auto& s = static_cast<OwnState&>(state);
    const SymBindings extents = ExtentsOf(inputs, s.variables);
    const Made program = always_ ? always_ : At(extents);
    std::unique_ptr<BackendProgram::State>& own = s.StateOf(program);
    s.last = program;
    if (!own) own = program->NewState();
    s.arena_bytes = s.live_bytes = s.bytes_moved = 0;
    ProgramRun::Impl impl{inputs, extents, s, *outputs, {}, {}, &s.times};
    impl.given.resize(outputs->size());
    for (size_t i = 0; i < variables_.size(); ++i)
      impl.variables.emplace_back(variables_[i].name, s.variables[i],
                                  has_homes_ ? s.homes[i] : nullptr);
    ProgramRun run(&impl);
    program->Run(*own, run);
    CheckResults(impl);
    s.output_bytes = 0;
    for (const auto& t : *outputs) s.output_bytes += t->is_tensor() ? t->num_bytes() : 0;
  }

  void TakeTimes(State& state, const std::string&, std::vector<StepTime>* times) const override {
    auto& s = static_cast<OwnState&>(state);
    std::move(s.times.begin(), s.times.end(), std::back_inserter(*times));
    s.times.clear();
  }
  Made own() const override {
    if (always_) return always_;
    std::lock_guard lock(mutex_);
    return newest_;
  }
  /// Those of one set of extents are made again.
  std::vector<NamedBytes> OwnSections() const override {
    return always_ ? always_->Save() : std::vector<NamedBytes>();
  }
  std::vector<ProgramField> Fields(const State& state) const override {
    const auto& s = static_cast<const OwnState&>(state);
    const Made program = s.last ? s.last : own();
    if (!program) return {};
    const auto* last = s.last ? s.own.Find(s.last) : nullptr;
    return program->Fields(last ? last->get() : nullptr);
  }
  void ForgetBindings() const override {
    std::lock_guard lock(mutex_);
    made_.clear();
  }

 private:
  static constexpr size_t kMostKept = 32;  // as of bindings

  struct OwnState : State {
    std::vector<StepTime> times;  ///< that nobody has taken yet
    Made last;                    ///< that ran
    /// Of the programs that the session has run of late.
    mutable BoundedCache<Made, std::unique_ptr<BackendProgram::State>> own{kMostKept,
                                                                           Evict::kLeastRecent};
    std::unique_ptr<BackendProgram::State>& StateOf(const Made& program) {
      if (auto* known = own.Find(program)) return *known;
      return own.Put(program, nullptr);
    }
  };

  /// Inputs and variables have to agree about them, as the binding of a plan checks it.
  SymBindings ExtentsOf(const std::vector<TensorPtr>& inputs,
                        const std::vector<std::shared_ptr<Tensor>>& variables) const {
    struct Bound {
      int64_t value;
      const std::string* where;
    };
    std::map<std::string, Bound> bound;
    for (const SymbolPlace& p : places_) {
      const Tensor& t =
          p.operand < inputs.size() ? *inputs[p.operand] : *variables[p.operand - inputs.size()];
      if (p.axis >= t.dims().size()) continue;
      const int64_t n = t.dims()[p.axis];
      const auto [it, fresh] = bound.try_emplace(p.symbol, Bound{n, &p.where});
      WEFT_CHECK(it->second.value == n, kBadInput, "the dimension '{}' is {} in {} and {} in {}",
                 p.symbol, it->second.value, *it->second.where, n, p.where);
    }
    SymBindings symbols;
    for (const auto& [name, b] : bound) symbols.emplace(name, b.value);
    return symbols;
  }

  Made At(const SymBindings& extents) const {
    std::vector<std::pair<std::string, int64_t>> key(extents.begin(), extents.end());
    std::sort(key.begin(), key.end());
    {
      std::lock_guard lock(mutex_);
      if (const Made* known = made_.Find(key)) return *known;
    }
    graph_.AttrOr<Facts>("facts").CheckHolds(extents);
    // Without the lock: compiling takes long. Of two threads that make one each, the first stays.
    Made made = make_(extents);
    std::lock_guard lock(mutex_);
    return newest_ = made_.GetOrMake(key, [&] { return made; });
  }

  /// A program of a plugin may forget one, or give another than the graph says.
  void CheckResults(const ProgramRun::Impl& run) const {
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      const IoSpec& spec = outputs_[i];
      WEFT_CHECK(run.given[i], kPlugin, "the program of backend '{}' gave no result '{}'",
                 backend_name_, spec.name);
      const Tensor& t = *run.outputs[i];
      const bool fits = spec.dtype == DType::kUnknown || t.type() == spec.type();
      WEFT_CHECK(fits && FitsShape(spec, t), kPlugin,
                 "the program of backend '{}' gave {}{} for result '{}', which is {}{}",
                 backend_name_, t.type().ToString(), t.shape().ToString(), spec.name,
                 spec.type().ToString(), spec.shape.ToString());
    }
  }

  const std::shared_ptr<Backend> backend_;
  const std::vector<SymbolPlace> places_;
  const Made always_;  ///< null: made by make_, for each set of extents
  const MakeAtExtents make_;
  mutable std::mutex mutex_;
  mutable BoundedCache<std::vector<std::pair<std::string, int64_t>>, Made> made_{
      kMostKept, Evict::kLeastRecent};
  mutable Made newest_;
};

}  // namespace

std::unique_ptr<Program::Impl> MakeAnyProgram(Graph compiled,
                                              const std::shared_ptr<Backend>& backend,
                                              const CompileOptions& options,
                                              const std::vector<NamedBytes>& saved) {
  std::shared_ptr<const BackendProgram> own = saved.empty()
                                                  ? backend->MakeProgram(compiled, options)
                                                  : backend->LoadProgram(compiled, options, saved);
  if (own)
    return std::make_unique<OwnProgram>(std::move(compiled), backend, std::move(own), nullptr);
  WEFT_CHECK(backend->target().traits().kernels, kUnsupported,
             "backend '{}' makes no programs: its module declares no kernels, and MakeProgram of "
             "the backend gives none",
             backend->name());
  return MakePlannedProgram(std::move(compiled), backend);
}
std::unique_ptr<Program::Impl> MakeProgramPerExtents(Graph graph, std::shared_ptr<Backend> backend,
                                                     MakeAtExtents make, const SymBindings& first) {
  auto program =
      std::make_unique<OwnProgram>(std::move(graph), std::move(backend), nullptr, std::move(make));
  program->MakeFirst(first);
  return program;
}

}  // namespace weft
