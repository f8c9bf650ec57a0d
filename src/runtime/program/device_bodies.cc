/// device_bodies.cc: see device_bodies.h.
#include "device_bodies.h"

#include <algorithm>

#include "planned_program.h"
#include "weft/core/pass/evaluator.h"
#include "weft/support/check.h"

namespace weft {
namespace {

class DeviceBodies final : public ProgramRunner {
 public:
  DeviceBodies(const NodePtr& node, const BodyPrograms& bodies,
               const std::vector<TensorPtr>& inputs, const std::vector<KnownValue>& known,
               const std::shared_ptr<DeviceSession>& session, BodyStates* states,
               ProgramState* of_all)
      : ProgramRunner(states, of_all, 0),
        node_(node),
        bodies_(bodies),
        inputs_(inputs),
        known_(known),
        session_(*session),
        shared_(session) {}

  void Run(const std::string& name, const std::vector<TensorPtr>& inputs,
           ResultTensors* results) const override {
    const Program::Impl* body = bodies_.Find(name);
    if (!body) return Evaluate(*node_->attr<GraphPtr>(name), inputs, results);
    ProgramState& state = Enter(*body);
    state.device = shared_;
    state.known_inputs.clear();
    for (const TensorPtr& t : inputs) state.known_inputs.push_back(KnownOf(t));
    body->Run(state, inputs, results);
    Leave(state);
  }
  std::unique_ptr<RepeatedBody> Repeat(const std::string& name) const override {
    const Program::Impl* body = bodies_.Find(name);
    return body ? body->Repeat(StateOf(*body, states_)) : nullptr;
  }
  std::shared_ptr<Tensor> NewTensor(DType dtype, std::vector<int64_t> dims) const override {
    if (DTypeBits(dtype) == 0) return BodyRunner::NewTensor(dtype, std::move(dims));
    return session_.NewTensor(dtype, std::move(dims));
  }
  TensorPtr Place(const TensorPtr& host) const override {
    return LiesOnDevice(*host) ? session_.Bring(*host) : host;
  }
  int64_t Read(const TensorPtr& t) const override {
    const KnownValue known = KnownOf(t);
    if (known.value && known.always) return known.value->at_int(0);
    if (known.value) {
      session_.CountAsked();
      return known.value->at_int(0);
    }
    const std::shared_ptr<Tensor> fetched = session_.Fetch(*t);
    session_.WaitForHost();
    return fetched->at_int(0);
  }
  void Copy(void* to, const void* from, int64_t bytes) const override {
    session_.stream().Copy(to, from, bytes);
  }

 private:
  KnownValue KnownOf(const TensorPtr& t) const {
    for (size_t i = 0; t && i < known_.size(); ++i)
      if (inputs_[i] == t) return known_[i];
    return {};
  }
  void Evaluate(const Graph& body, const std::vector<TensorPtr>& inputs,
                ResultTensors* results) const {
    std::vector<TensorPtr> in = inputs;
    for (TensorPtr& t : in)
      if (t && LiesOnDevice(*t)) t = session_.Fetch(*t);
    session_.WaitForHost();
    const std::vector<TensorPtr> out = GetEvaluator()->Eval(body, in);
    for (size_t i = 0; i < out.size(); ++i) {
      std::shared_ptr<Tensor>& result = (*results)[i];
      const Tensor& t = *out[i];
      if (!LiesOnDevice(t))
        result = OwnCopy(t);
      else if (!result || result->dtype() != t.dtype() || result->dims() != t.dims())
        result = session_.Bring(t);
      else if (t.num_bytes() > 0)
        session_.stream().CopyIn(result->mutable_data(), t.data(), t.num_bytes());
    }
  }

  const NodePtr& node_;
  const BodyPrograms& bodies_;
  const std::vector<TensorPtr>& inputs_;
  const std::vector<KnownValue>& known_;
  DeviceSession& session_;
  const std::shared_ptr<DeviceSession>& shared_;
};

}  // namespace

void RunNodeOnDevice(const NodePtr& node, const BodyPrograms& bodies,
                     const std::vector<TensorPtr>& inputs, const std::vector<KnownValue>& known,
                     const std::shared_ptr<DeviceSession>& session, BodyStates* states,
                     ProgramState* of_all, ResultTensors* results) {
  const DeviceBodies runner(node, bodies, inputs, known, session, states, of_all);
  bodies.RunNode(inputs, runner, states, of_all, results);
}

}  // namespace weft
