/// body_programs.cc: see body_programs.h.
#include "body_programs.h"

#include <algorithm>
#include <optional>

#include "planned_program.h"
#include "runtime/plan/instruction.h"
#include "step_times.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/plan/storage.h"
#include "weft/support/checked.h"
#include "weft/support/error.h"

namespace weft {

bool MayHaveBodyPrograms(const NodePtr& n) {
  return IsOp(n, builtin::kRegion) || HasControlBodies(n);
}

namespace {

/// Parts of the node run at the same time, a thread each: where its steps leave threads idle, which
/// are those of few threads, and small ones.
bool RunsTogether(const NodePtr& n, const Backend& backend) {
  if (backend.threads() <= 1) return false;
  if (IsOp(n, "Scan")) return n->attr<int64_t>("parts") > 1;
  constexpr int64_t kSmall = 1 << 20;
  return IsOp(n, builtin::kConcurrent) &&
         (backend.threads() < 4 || n->attr<int64_t>("work") <= kSmall);
}
/// Waking a thread takes as long as what is less.
bool IsWorthThreads(const KeptLoop& kept) {
  constexpr double kMicroseconds = 20;
  const double us = kept.parts[0].body->Microseconds();
  return us < 0 || us * double(kept.loop.count) * double(kept.parts.size()) > kMicroseconds;
}

}  // namespace

BodyPrograms::BodyPrograms(const NodePtr& n, const std::shared_ptr<Backend>& given)
    : node_(n), backend_(given) {
  std::shared_ptr<Backend> backend = given;
  if (RunsTogether(n, *given))
    if (std::shared_ptr<Backend> alone = given->WithThreads(1); alone && given->host()) {
      together_ = given;
      backend = std::move(alone);
    }
  for (const std::string& name : BodyNames(n)) {
    const Graph& body = *n->attr<GraphPtr>(name);
    if (IsPlanned(body)) programs_[name] = MakePlannedProgram(body, backend);
  }
}

const Program::Impl* BodyPrograms::Find(const std::string& name) const {
  const auto it = programs_.find(name);
  return it == programs_.end() ? nullptr : it->second.get();
}

void BodyPrograms::AddTo(ProgramStats* stats) const {
  for (const auto& [name, body] : programs_)
    for (int ProgramStats::*count :
         {&ProgramStats::kernels, &ProgramStats::distinct_kernels, &ProgramStats::library_calls,
          &ProgramStats::delegated, &ProgramStats::reorders, &ProgramStats::interpreted,
          &ProgramStats::host_steps})
      stats->*count += body->stats_.*count;
}

int BodyPrograms::num_flags() const {
  int all = 0;
  for (const auto& [name, body] : programs_) all += body->num_flags_;
  return all;
}

void BodyPrograms::TakeCallOptions(const CallOptions& options) {
  for (auto& [name, body] : programs_) body->TakeCallOptions(options);
}

std::string BodyPrograms::Name() const {
  return node_->attrs.name.empty() ? node_->Describe() : node_->attrs.name;
}

void BodyPrograms::TakeTimes(BodyStates* states, const std::string& in,
                             std::vector<StepTime>* times) const {
  for (const auto& [name, body] : programs_)
    for (auto it = states->lower_bound({body.get(), 0});
         it != states->end() && it->first.first == body.get(); ++it)
      body->TakeTimes(*it->second, PlaceIn(PlaceIn(in, Name()), name), times);
}

ProgramState& StateOf(const Program::Impl& program, BodyStates* states, size_t part) {
  std::unique_ptr<ProgramState>& state = (*states)[{&program, part}];
  if (!state) {
    state = program.NewState();
    state->keeps_outputs = true;
  }
  return *state;
}

ProgramState& ProgramRunner::Enter(const Program::Impl& body) const {
  ProgramState& state = StateOf(body, states_, part_);
  state.is_profiled = of_all_->is_profiled;
  state.arena = of_all_->arena->inside(part_);
  state.bounds = of_all_->bounds;
  return state;
}
void ProgramRunner::Leave(const ProgramState& state) const {
  of_all_->bytes_moved += state.bytes_moved;
  most_ = std::max(most_, state.arena_bytes + state.inside_bytes);
}

class BodyPrograms::Runner final : public ProgramRunner {
 public:
  Runner(const BodyPrograms& bodies, BodyStates* states, ProgramState* of_all, size_t part = 0)
      : ProgramRunner(states, of_all, part), bodies_(bodies) {}
  void Run(const std::string& name, const std::vector<TensorPtr>& inputs,
           ResultTensors* results) const override {
    const Program::Impl* body = bodies_.Find(name);
    if (!body) return Evaluate(*bodies_.node_->attr<GraphPtr>(name), inputs, results);
    ProgramState& state = Enter(*body);
    body->Run(state, inputs, results);
    Leave(state);
  }
  std::unique_ptr<RepeatedBody> Repeat(const std::string& name) const override {
    const Program::Impl* body = bodies_.Find(name);
    if (!body) return nullptr;
    ProgramState& state = StateOf(*body, states_, part_);
    std::unique_ptr<RepeatedBody> again = body->Repeat(state);
    if (!again) return nullptr;
    return std::make_unique<Counted>(std::move(again), state.bytes_moved, &of_all_->bytes_moved);
  }
  void Keep(const StraightLoop& loop) const override { kept_ = loop; }
  /// What the node has left; null: nothing, or nothing that its programs can repeat.
  std::unique_ptr<KeptLoop> TakeKept(int64_t moved_before) const {
    const Program::Impl* body = kept_ ? bodies_.Find(kept_->body) : nullptr;
    if (!body || of_all_->bounds) return nullptr;
    auto kept = std::make_unique<KeptLoop>();
    for (size_t k = 0; k < size_t(kept_->parts); ++k) {
      ProgramState& state = StateOf(*body, states_, k);
      std::unique_ptr<RepeatedBody> again = body->Repeat(state);
      if (!again) return nullptr;
      kept->parts.push_back({&state, std::move(again), {}, {}});
    }
    for (const StraightLoop::Piece& state : kept_->states) {
      kept->offsets.push_back(-1);
      if (state.result >= 0) continue;  // the stack has its places
      kept->offsets.back() = kept->place_bytes;
      const int64_t bytes = CheckedRoundUp(std::max<int64_t>(state.bytes, 1), kArenaAlign);
      kept->place_bytes = CheckedAdd(kept->place_bytes, bytes);
    }
    kept->loop = *kept_;
    kept->bytes_moved = of_all_->bytes_moved - moved_before;
    kept->inside_bytes = bytes();
    return kept;
  }
  void RunTogether(size_t count,
                   const std::function<void(size_t, const BodyRunner&)>& part) const override {
    // What parts share is made before they begin.
    std::vector<ProgramState> of_part(count);
    std::vector<Runner> runners;
    runners.reserve(count);
    for (size_t k = 0; k < count; ++k) {
      for (const auto& [name, body] : bodies_.programs_) StateOf(*body, states_, k);
      of_all_->arena->inside(k);
      of_part[k].arena = of_all_->arena;
      of_part[k].is_profiled = of_all_->is_profiled;
      of_part[k].bounds = of_all_->bounds;
      runners.emplace_back(bodies_, states_, &of_part[k], k);
    }
    const auto run = [&](size_t k) { part(k, runners[k]); };
    // A profile is of one step after another.
    if (bodies_.together_ && !of_all_->is_profiled)
      bodies_.together_->host()->RunTogether(count, run);
    else
      for (size_t k = 0; k < count; ++k) run(k);
    int64_t most = 0;
    for (size_t k = 0; k < count; ++k) {
      of_all_->bytes_moved += of_part[k].bytes_moved;
      most += runners[k].bytes();
    }
    most_ = std::max(most_, most);
  }

 private:
  /// What each run moves is added up.
  struct Counted final : RepeatedBody {
    Counted(std::unique_ptr<RepeatedBody> of, int64_t each, int64_t* sum)
        : body(std::move(of)), bytes(each), total(sum) {}
    void Run(const void* const* inputs, void* const* results) override {
      body->Run(inputs, results);
      *total += bytes;
    }
    void RunAll(int64_t* at, int64_t last, const std::vector<IteratedPlace>& inputs,
                const std::vector<IteratedPlace>& results) override {
      const int64_t first = *at;
      body->RunAll(at, last, inputs, results);
      *total += bytes * (last - first);
    }
    const std::unique_ptr<RepeatedBody> body;
    const int64_t bytes;
    int64_t* const total;
  };

  static void Evaluate(const Graph& body, const std::vector<TensorPtr>& inputs,
                       ResultTensors* results) {
    const std::vector<TensorPtr> out = GetEvaluator()->Eval(body, inputs);
    for (size_t i = 0; i < out.size(); ++i) (*results)[i] = OwnCopy(*out[i]);
  }

  const BodyPrograms& bodies_;
  mutable std::optional<StraightLoop> kept_;
};

void BodyPrograms::RunNode(const std::vector<TensorPtr>& inputs, BodyStates* states,
                           ProgramState* of_all, ResultTensors* results,
                           std::unique_ptr<KeptLoop>* kept) const {
  const Runner runner(*this, states, of_all);
  const int64_t moved = of_all->bytes_moved;
  RunNode(inputs, runner, states, of_all, results);
  if (kept) *kept = runner.TakeKept(moved);
}

bool BodyPrograms::RunKept(KeptLoop* kept, const void* const* operands, void* const* results,
                           BodyStates* states, ProgramState* of_all) const {
  for (const KeptLoop::Part& part : kept->parts)
    if (!part.body->IsOfLastRun()) return false;
  try {
    char* const places = of_all->arena->places()->Reserve(*backend_, kept->place_bytes);
    kept->others.clear();
    for (const int64_t at : kept->offsets) kept->others.push_back(at < 0 ? nullptr : places + at);
  } catch (const Error& e) {
    // The node itself may need less: states that an iteration does not write have no second place.
    if (e.code() == ErrorCode::kOutOfMemory || e.code() == ErrorCode::kLimit) return false;
    throw;
  }
  for (size_t k = 0; k < kept->parts.size(); ++k) {
    ProgramState& state = *kept->parts[k].state;
    state.is_profiled = false;
    state.arena = of_all->arena->inside(k);
    state.bounds = of_all->bounds;
  }
  const StraightLoop& loop = kept->loop;
  // Nothing counts its own failures anew: what bodies inside it add is of one run.
  std::vector<int> failed;
  for (const KeptLoop::Part& part : kept->parts) failed.push_back(part.state->kernels_failed);
  const auto run = [&](size_t k) {
    KeptLoop::Part& part = kept->parts[k];
    loop.Point(int64_t(k), operands, results, kept->others.data(), &part.from, &part.to);
    int64_t at = 0;
    try {
      part.body->RunAll(&at, loop.count, part.from, part.to);
      loop.Finish(int64_t(k), results);
    } catch (Error& e) {
      ExplainIteration(&e, at, loop.states_text, 0);
      throw;
    }
  };
  try {
    if (together_ && IsWorthThreads(*kept))
      together_->host()->RunTogether(kept->parts.size(), run);
    else
      for (size_t k = 0; k < kept->parts.size(); ++k) run(k);
  } catch (Error& e) {
    e.AddPlace(node_->Describe());
    throw;
  }
  of_all->bytes_moved += kept->bytes_moved;
  of_all->inside_bytes = std::max(of_all->inside_bytes, kept->inside_bytes);
  for (size_t k = 0; k < failed.size(); ++k) kept->parts[k].state->kernels_failed = failed[k];
  CountFailures(*states, of_all);
  return true;
}

void BodyPrograms::CountFailures(const BodyStates& states, ProgramState* of_all) const {
  for (const auto& [name, body] : programs_)
    for (auto it = states.lower_bound({body.get(), 0});
         it != states.end() && it->first.first == body.get(); ++it)
      of_all->kernels_failed += it->second->kernels_failed;
}

void BodyPrograms::RunNode(const std::vector<TensorPtr>& inputs, const ProgramRunner& runner,
                           BodyStates* states, ProgramState* of_all, ResultTensors* results) const {
  static const auto& runs = Op::GetAttr<FRunBodies>("FRunBodies");
  try {
    (*runs.find(node_->op()))(node_, inputs, runner, results);
  } catch (Error& e) {
    e.AddPlace(node_->Describe());
    throw;
  }
  of_all->inside_bytes = std::max(of_all->inside_bytes, runner.bytes());
  CountFailures(*states, of_all);
}

}  // namespace weft
