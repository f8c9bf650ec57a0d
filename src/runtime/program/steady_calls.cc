/// steady_calls.cc: see steady_calls.h. A run whose steady inputs are as before looks at each once.
#include "steady_calls.h"

#include <algorithm>

#include "weft/core/plan/layout.h"

namespace weft {

SteadySteps::SteadySteps(const ExecutionPlan& plan, const std::vector<bool>& steady) {
  std::map<int, size_t> by_storage;
  for (size_t i = 0; i < plan.num_fed(); ++i) {
    if (!steady[i]) continue;
    by_storage.emplace(plan.values[size_t(plan.input_values[i])].storage, inputs_.size());
    inputs_.push_back(i);
  }
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const Step& step = plan.steps[k];
    if (step.kind != StepKind::kLibrary) continue;
    StepOf s{k, {}};
    for (int v : step.inputs) {
      if (v < 0 || plan.values[size_t(v)].layout != Layout::kPlain) continue;
      const auto it = by_storage.find(plan.values[size_t(v)].storage);
      if (it != by_storage.end()) s.operands.push_back({v, it->second});
    }
    if (!s.operands.empty()) steps_.push_back(std::move(s));
  }
}

int64_t SteadyCalls::Update(const SteadySteps& steady, const ExecutionPlan& plan,
                            const std::shared_ptr<const Binding>& binding,
                            const std::vector<TensorPtr>& inputs, const Prepare& prepare) {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.binding == binding; });
  const bool other = found != kept_.begin() || kept_.empty();
  if (found == kept_.end()) {
    if (kept_.size() == kMaxKept) kept_.pop_back();
    Kept fresh;
    fresh.binding = binding;
    fresh.seen.resize(steady.inputs_.size());
    fresh.calls.resize(steady.steps_.size());
    kept_.insert(kept_.begin(), std::move(fresh));
  } else if (other) {
    std::rotate(kept_.begin(), found, found + 1);
  }
  Kept& kept = kept_.front();
  std::vector<char> changed;
  for (size_t i = 0; i < steady.inputs_.size(); ++i) {
    const Tensor& t = *inputs[steady.inputs_[i]];
    if (kept.seen[i].is(t)) continue;
    changed.resize(steady.inputs_.size());
    changed[i] = 1;
  }
  if (changed.empty() && !other && !calls_.empty()) return 0;
  // Where a call cannot be made, nothing is left that says it was.
  calls_.clear();
  for (size_t i = 0; i < changed.size(); ++i)
    if (changed[i]) kept.seen[i] = {};
  int64_t packs = 0;
  for (size_t k = 0; k < steady.steps_.size() && !changed.empty(); ++k) {
    const SteadySteps::StepOf& s = steady.steps_[k];
    if (std::none_of(s.operands.begin(), s.operands.end(),
                     [&](const SteadySteps::Operand& o) { return changed[o.input]; }))
      continue;
    std::map<int, TensorPtr> known;
    for (const SteadySteps::Operand& o : s.operands) {
      const TensorPtr& t = inputs[steady.inputs_[o.input]];
      known[o.value] = std::make_shared<const Tensor>(
          plan.values[size_t(o.value)].dtype, binding->dims[size_t(o.value)],
          const_cast<void*>(t->data()), std::const_pointer_cast<Tensor>(t));
    }
    kept.calls[k] = AsLibraryCall(prepare(s.step, known));
    ++packs;
  }
  for (size_t i = 0; i < changed.size(); ++i)
    if (changed[i]) {
      const Tensor& t = *inputs[steady.inputs_[i]];
      kept.seen[i] = {t.data(), t.version()};
    }
  std::vector<int64_t> scratch = binding->sizes.scratch;
  calls_.assign(plan.steps.size(), nullptr);
  for (size_t k = 0; k < steady.steps_.size(); ++k) {
    calls_[steady.steps_[k].step] = kept.calls[k].get();
    if (kept.calls[k]) scratch[steady.steps_[k].step] = kept.calls[k]->scratch_bytes();
  }
  if (scratch != kept.scratch) {
    ArenaSizes sizes = binding->sizes;
    sizes.scratch = scratch;
    kept.layout = scratch == binding->sizes.scratch ? binding->arena : LayArena(plan, sizes);
    kept.scratch = std::move(scratch);
  }
  return packs;
}

}  // namespace weft
