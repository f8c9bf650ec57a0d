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

BodyPrograms::BodyPrograms(const NodePtr& n, const std::shared_ptr<Backend>& backend) : node_(n) {
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

int BodyPrograms::num_flags() const {
  int all = 0;
  for (const auto& [name, body] : programs_) all += body->num_flags_;
  return all;
}

void BodyPrograms::TakeCallOptions(const CallOptions& options) {
  for (auto& [name, body] : programs_) body->TakeCallOptions(options);
}

ProgramState& StateOf(const Program::Impl& program, BodyStates* states) {
  std::unique_ptr<ProgramState>& state = (*states)[&program];
  if (!state) {
    state = program.NewState();
    state->keeps_outputs = true;
  }
  return *state;
}

class BodyPrograms::Runner final : public BodyRunner {
 public:
  Runner(const BodyPrograms& bodies, BodyStates* states, ProgramState* of_all)
      : bodies_(bodies), states_(states), of_all_(of_all) {}
  void Run(const std::string& name, const std::vector<TensorPtr>& inputs,
           ResultTensors* results) const override {
    const Program::Impl* body = bodies_.Find(name);
    if (!body) return Evaluate(*bodies_.node_->attr<GraphPtr>(name), inputs, results);
    ProgramState& state = StateOf(*body, states_);
    body->Run(state, inputs, results);
    of_all_->bytes_moved += state.bytes_moved;
  }
  std::unique_ptr<RepeatedBody> Repeat(const std::string& name) const override {
    const Program::Impl* body = bodies_.Find(name);
    if (!body) return nullptr;
    ProgramState& state = StateOf(*body, states_);
    std::unique_ptr<RepeatedBody> again = body->Repeat(state);
    if (!again) return nullptr;
    return std::make_unique<Counted>(std::move(again), state.bytes_moved, &of_all_->bytes_moved);
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
};

void BodyPrograms::RunNode(const std::vector<TensorPtr>& inputs, BodyStates* states,
                           ProgramState* of_all, ResultTensors* results) const {
  RunNode(inputs, Runner(*this, states, of_all), states, of_all, results);
}

void BodyPrograms::RunNode(const std::vector<TensorPtr>& inputs, const BodyRunner& runner,
                           BodyStates* states, ProgramState* of_all, ResultTensors* results) const {
  static const auto& runs = Op::GetAttr<FRunBodies>("FRunBodies");
  (*runs.find(node_->op()))(node_, inputs, runner, results);
  for (const auto& [name, body] : programs_)
    if (const auto it = states->find(body.get()); it != states->end())
      of_all->kernels_failed += it->second->kernels_failed;
}

}  // namespace weft
