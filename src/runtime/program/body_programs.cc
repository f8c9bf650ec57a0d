/// body_programs.cc: see body_programs.h.
#include "body_programs.h"

#include "runtime/plan/instruction.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/evaluator.h"

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

}  // namespace

BodyPrograms::BodyPrograms(const NodePtr& n, const std::shared_ptr<Backend>& given) : node_(n) {
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
          &ProgramStats::reorders, &ProgramStats::interpreted, &ProgramStats::host_steps})
      stats->*count += body->stats_.*count;
}

void BodyPrograms::TakeCallOptions(const CallOptions& options) {
  for (auto& [name, body] : programs_) body->TakeCallOptions(options);
}

ProgramState& StateOf(const Program::Impl& program, BodyStates* states, size_t part) {
  std::unique_ptr<ProgramState>& state = (*states)[{&program, part}];
  if (!state) {
    state = program.NewState();
    state->keeps_outputs = true;
  }
  return *state;
}

class BodyPrograms::Runner final : public BodyRunner {
 public:
  Runner(const BodyPrograms& bodies, BodyStates* states, ProgramState* of_all, size_t part = 0)
      : bodies_(bodies), states_(states), of_all_(of_all), part_(part) {}
  void Run(const std::string& name, const std::vector<TensorPtr>& inputs,
           ResultTensors* results) const override {
    const Program::Impl* body = bodies_.Find(name);
    if (!body) return Evaluate(*bodies_.node_->attr<GraphPtr>(name), inputs, results);
    ProgramState& state = StateOf(*body, states_, part_);
    body->Run(state, inputs, results);
    of_all_->bytes_moved += state.bytes_moved;
  }
  std::unique_ptr<RepeatedBody> Repeat(const std::string& name) const override {
    const Program::Impl* body = bodies_.Find(name);
    if (!body) return nullptr;
    ProgramState& state = StateOf(*body, states_, part_);
    std::unique_ptr<RepeatedBody> again = body->Repeat(state);
    if (!again) return nullptr;
    return std::make_unique<Counted>(std::move(again), state.bytes_moved, &of_all_->bytes_moved);
  }
  void RunTogether(size_t count,
                   const std::function<void(size_t, const BodyRunner&)>& part) const override {
    // A profile is of one step after another.
    if (!bodies_.together_ || of_all_->profile) return BodyRunner::RunTogether(count, part);
    std::vector<ProgramState> of_part(count);
    for (size_t k = 0; k < count; ++k)
      for (const auto& [name, body] : bodies_.programs_) StateOf(*body, states_, k);
    bodies_.together_->host()->RunTogether(
        count, [&](size_t k) { part(k, Runner(bodies_, states_, &of_part[k], k)); });
    for (const ProgramState& s : of_part) of_all_->bytes_moved += s.bytes_moved;
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
  BodyStates* states_;
  ProgramState* of_all_;
  const size_t part_;  ///< whose states it uses
};

void BodyPrograms::RunNode(const std::vector<TensorPtr>& inputs, BodyStates* states,
                           ProgramState* of_all, ResultTensors* results) const {
  static const auto& runs = Op::GetAttr<FRunBodies>("FRunBodies");
  (*runs.find(node_->op()))(node_, inputs, Runner(*this, states, of_all), results);
  for (const auto& [name, body] : programs_)
    if (const auto it = states->find({body.get(), 0}); it != states->end())
      of_all->kernels_failed += it->second->kernels_failed;
}

}  // namespace weft
