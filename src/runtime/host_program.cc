/// host_program.cc: runs a plan on host memory.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "binding.h"
#include "program_impl.h"
#include "step_cost.h"
#include "weft/codegen/interpreter.h"
#include "weft/core/builtin_ops.h"
#include "weft/core/evaluator.h"
#include "weft/core/layout.h"
#include "weft/core/op.h"
#include "weft/core/request.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// The backend's memory; it grows and is not cleared.
class Arena {
 public:
  char* Reserve(Backend& backend, int64_t bytes) {
    if (bytes > size_) {
      data_.reset();
      size_ = 0;
      data_ = backend.Allocate(bytes);
      size_ = bytes;
    }
    return static_cast<char*>(data_.get());
  }

 private:
  std::shared_ptr<void> data_;
  int64_t size_ = 0;
};

bool IsReorder(const Step& s) {
  return s.kind == StepKind::kLibrary && IsOp(s.node, builtin::kReorder);
}

class HostProgram final : public Program {
 public:
  HostProgram(Graph graph, std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {
    graph_ = std::move(graph);
    plan_ = MakePlan(graph_, *backend_);
    binder_ = std::make_unique<Binder>(plan_, graph_.AttrOr<Facts>("facts"));
    std::vector<const KernelLauncher*> distinct;
    for (const Step& s : plan_.steps) {
      stats_.kernels += s.kind == StepKind::kKernel;
      stats_.reorders += IsReorder(s);
      stats_.library_calls += s.kind == StepKind::kLibrary && !IsReorder(s);
      stats_.interpreted += s.kind == StepKind::kInterpreter;
      stats_.host_steps += s.kind == StepKind::kShapeValue || s.kind == StepKind::kCopy;
      stats_.host_steps += int(s.commits.size());
      if (s.launcher &&
          std::find(distinct.begin(), distinct.end(), s.launcher.get()) == distinct.end())
        distinct.push_back(s.launcher.get());
    }
    stats_.host_steps += int(plan_.copies.size());
    stats_.distinct_kernels = int(distinct.size());
  }

 protected:
  struct HostState final : State {
    Arena arena;
    std::vector<int64_t> key;
    std::shared_ptr<const Binding> binding;
    std::vector<void*> base, buffers;  // per storage; arguments of one step
  };
  std::unique_ptr<State> NewState() const override { return std::make_unique<HostState>(); }

  void Run(State& state, const std::vector<TensorPtr>& fed,
           std::vector<std::shared_ptr<Tensor>>* outputs) const override {
    HostState& s = static_cast<HostState&>(state);
    std::vector<TensorPtr> with_variables;
    if (!plan_.variables.empty()) {
      with_variables = fed;
      with_variables.insert(with_variables.end(), s.variables.begin(), s.variables.end());
    }
    const std::vector<TensorPtr>& inputs = plan_.variables.empty() ? fed : with_variables;
    std::vector<int64_t> key = binder_->Solve(inputs);
    if (!s.binding || s.key != key) {
      s.binding = BindingFor(key, inputs);
      s.key = std::move(key);
    }
    const Binding& b = *s.binding;
    binder_->CheckInputs(b, inputs);
    const int64_t scratch_at = (b.arena_bytes + 63) / 64 * 64;
    char* arena = s.arena.Reserve(*backend_, std::max<int64_t>(scratch_at + b.scratch_bytes, 64));
    s.arena_bytes = b.arena_bytes;
    s.live_bytes = b.live_bytes;
    s.bytes_moved = b.bytes_moved;
    for (size_t i = 0; i < outputs->size(); ++i) {
      const int v = plan_.output_values[i];
      auto& t = (*outputs)[i];
      if (!t || (t.use_count() > 1 && !s.keeps_outputs) ||
          t->dtype() != plan_.values[size_t(v)].dtype || t->dims() != b.dims[size_t(v)])
        t = std::make_shared<Tensor>(plan_.values[size_t(v)].dtype, b.dims[size_t(v)]);
    }
    SetBases(&s, arena, inputs, *outputs);
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const Step& step = plan_.steps[k];
      RequestScope::Poll();
      if (!s.profile) {
        Execute(step, k, b, &s, arena + scratch_at);
        continue;
      }
      const auto begin = std::chrono::steady_clock::now();
      Execute(step, k, b, &s, arena + scratch_at);
      const double us =
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
              .count();
      static constexpr const char* kKinds[] = {"kernel", "library", "interpreter", "shape", "copy"};
      StepTime& t = s.profile->emplace_back();
      t.name = step.name;
      t.kind = IsReorder(step) ? "copy" : kKinds[int(step.kind)];
      t.microseconds = us;
    }
    if (s.profile) DescribeSteps(b, s.profile);
    for (int i : plan_.copies) {
      const Value& v = plan_.values[size_t(plan_.output_values[size_t(i)])];
      Tensor& t = *(*outputs)[size_t(i)];
      if (t.num_bytes() > 0)
        std::memcpy(t.mutable_data(), s.base[size_t(v.storage)], size_t(t.num_bytes()));
    }
  }

 private:
  /// What the steps had to do, told when all are timed: it would cool their caches.
  void DescribeSteps(const Binding& b, std::vector<StepTime>* times) const {
    const ShapeMap& shapes = graph_.GetAttr<ShapeMap>("shape");
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const StepCost cost = CostOf(plan_.steps[k], plan_, b, shapes);
      StepTime& t = (*times)[times->size() - plan_.steps.size() + k];
      t.bytes = cost.bytes;
      t.flops = cost.flops;
      if (b.calls[k]) t.how = b.calls[k]->description();
    }
  }
  std::shared_ptr<const Binding> BindingFor(const std::vector<int64_t>& key,
                                            const std::vector<TensorPtr>& inputs) const {
    constexpr size_t kMaxBindings = 32;
    std::lock_guard lock(mutex_);
    if (auto it = bindings_.find(key); it != bindings_.end()) return it->second;
    auto b = binder_->Bind(key, inputs, *backend_, tune_);
    if (bindings_.size() >= kMaxBindings) {  // the oldest goes
      bindings_.erase(made_.front());
      made_.pop_front();
    }
    made_.push_back(key);
    return bindings_[key] = b;
  }
  void SetBases(HostState* s, char* arena, const std::vector<TensorPtr>& inputs,
                const std::vector<std::shared_ptr<Tensor>>& outputs) const {
    s->base.resize(plan_.storages.size());
    for (size_t k = 0; k < plan_.storages.size(); ++k) {
      const Storage& block = plan_.storages[k];
      switch (block.kind) {
        case StorageKind::kArena:
          s->base[k] = arena + s->binding->offsets[k];
          break;
        case StorageKind::kInput:
          s->base[k] = const_cast<void*>(inputs[size_t(block.number)]->data());
          break;
        case StorageKind::kOutput:
          s->base[k] = outputs[size_t(block.number)]->mutable_data();
          break;
        case StorageKind::kConstant:
        case StorageKind::kVariable:
          break;
      }
    }
    for (size_t i = 0; i < plan_.variables.size(); ++i) {
      // What is written forgets its hash.
      Tensor& t = *s->variables[i];
      const int v = plan_.input_values[plan_.num_fed() + i];
      s->base[size_t(plan_.values[size_t(v)].storage)] =
          plan_.written[i] ? t.mutable_data() : const_cast<void*>(t.data());
    }
    for (const Value& v : plan_.values)
      if (v.constant) s->base[size_t(v.storage)] = const_cast<void*>(v.constant->data());
  }
  void* Pointer(const HostState& s, int value) const {
    return value < 0 ? nullptr : s.base[size_t(plan_.values[size_t(value)].storage)];
  }
  void Execute(const Step& step, size_t k, const Binding& b, HostState* s, char* scratch) const {
    Compute(step, k, b, s, scratch);
    for (auto [from, to] : step.commits) Copy(*s, b, from, to);
  }
  void Copy(const HostState& s, const Binding& b, int from, int to) const {
    const int64_t bytes =
        DTypeBytes(plan_.values[size_t(from)].dtype, NumElements(b.dims[size_t(from)]));
    if (bytes > 0) std::memcpy(Pointer(s, to), Pointer(s, from), size_t(bytes));
  }
  void Compute(const Step& step, size_t k, const Binding& b, HostState* s, char* scratch) const {
    switch (step.kind) {
      case StepKind::kCopy:
        return Copy(*s, b, step.inputs[0], step.outputs[0]);
      case StepKind::kKernel: {
        s->buffers.clear();
        for (int v : step.inputs) s->buffers.push_back(Pointer(*s, v));
        for (int v : step.outputs) s->buffers.push_back(Pointer(*s, v));
        uint8_t outside = 0;
        if (step.has_flag) s->buffers.push_back(&outside);
        step.launcher->Launch(s->buffers.data(), b.kernel_dims[k].data());
        if (outside)
          ThrowError(ErrorCode::kIndexRange, "an index is outside of the axis that it selects from",
                     step.node->Describe());
        return;
      }
      case StepKind::kLibrary: {
        if (!b.calls[k])
          return Interpret(step, b, *s);  // refused for these extents or types; Binder said so
        s->buffers.clear();
        for (int v : step.inputs) s->buffers.push_back(Pointer(*s, v));
        const size_t n = s->buffers.size();
        for (int v : step.outputs) s->buffers.push_back(Pointer(*s, v));
        b.calls[k]->Run(s->buffers.data(), s->buffers.data() + n, scratch);
        return;
      }
      case StepKind::kShapeValue: {
        const int v = step.outputs[0];
        Tensor t(plan_.values[size_t(v)].dtype, b.dims[size_t(v)], Pointer(*s, v), nullptr);
        for (int64_t i = 0; i < t.num_elements(); ++i) t.set_int(i, b.shape_values[k][size_t(i)]);
        return;
      }
      default:
        return Interpret(step, b, *s);
    }
  }
  /// The slow way: the meaning of the operator, on views of the arena; on plain copies of what lies there otherwise.
  void Interpret(const Step& step, const Binding& b, const HostState& s) const {
    std::vector<TensorPtr> in;
    for (int v : step.inputs) {
      if (v < 0) {
        in.push_back(nullptr);
        continue;
      }
      const Value& value = plan_.values[size_t(v)];
      auto t = std::make_shared<Tensor>(value.dtype, b.dims[size_t(v)], Pointer(s, v), nullptr);
      if (value.layout == Layout::kChannelsLast) {
        auto plain = std::make_shared<Tensor>(value.dtype, b.dims[size_t(v)]);
        CopyLayout(value.dtype, plain->dims(), t->data(), plain->mutable_data(), value.layout,
                   Layout::kPlain);
        t = std::move(plain);
      }
      in.push_back(std::move(t));
    }
    std::vector<TensorPtr> out;
    if (step.spec) {
      std::vector<TensorPtr> present;
      for (const TensorPtr& t : in)
        if (t) present.push_back(t);
      out = weft::Interpret(*step.spec, present, b.symbols);
    } else {
      out = GetEvaluator()->EvalNode(step.node, in, {});
    }
    for (size_t i = 0; i < out.size(); ++i) {
      WEFT_ICHECK(out[i]->dims() == b.dims[size_t(step.outputs[i])],
                  "{} gave another shape than inferred", step.node->Describe());
      if (out[i]->num_bytes() == 0) continue;
      CopyLayout(out[i]->dtype(), out[i]->dims(), out[i]->data(), Pointer(s, step.outputs[i]),
                 Layout::kPlain, plan_.values[size_t(step.outputs[i])].layout);
    }
  }

  std::shared_ptr<Backend> backend_;
  ExecutionPlan plan_;
  std::unique_ptr<Binder> binder_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<int64_t>, std::shared_ptr<const Binding>> bindings_;
  mutable std::deque<std::vector<int64_t>> made_;  // keys in the order of making
};

}  // namespace

std::shared_ptr<Program> MakeHostProgram(Graph graph, std::shared_ptr<Backend> backend) {
  return std::make_shared<HostProgram>(std::move(graph), std::move(backend));
}

}  // namespace weft
