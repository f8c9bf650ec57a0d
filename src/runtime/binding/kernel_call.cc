/// kernel_call.cc: see kernel_call.h. The call becomes a graph of its own with constant extents,
/// whose operands are as they lie in memory and transposed before and after; the passes make
/// kernels of it, which share the scratch memory.
#include "kernel_call.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "binding.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/variable.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/pipelines.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/log.h"
#include "weft/support/request.h"

namespace weft {
namespace {

using Dims = std::vector<int64_t>;

bool IsLast(const std::vector<Layout>& layouts, size_t i, const Dims& dims) {
  return i < layouts.size() && layouts[i] == Layout::kChannelsLast && dims.size() >= 3;
}

/// From [n, c, spatial ..] to [n, spatial .., c].
Ints ToLast(size_t rank) {
  std::vector<int64_t> perm{0};
  for (size_t k = 2; k < rank; ++k) perm.push_back(int64_t(k));
  perm.push_back(1);
  return perm;
}
/// And back.
Ints FromLast(size_t rank) {
  std::vector<int64_t> perm{0, int64_t(rank) - 1};
  for (size_t k = 1; k + 1 < rank; ++k) perm.push_back(int64_t(k));
  return perm;
}

class CallGraph {
 public:
  explicit CallGraph(const ComputeRequest& q) : q_(q) {}

  /// `slots`: of each input of the graph, by name, its number among those of the call.
  Graph Make(std::map<std::string, size_t>* slots) {
    for (size_t i = 0; i < q_.input_dims.size(); ++i) {
      if (q_.input_types[i] == DType::kUnknown) {
        Operand(i, {}, DType::kUnknown, false);
        continue;
      }
      const NodeEntry x = Operand(i, q_.input_dims[i], q_.input_types[i],
                                  IsLast(q_.input_layouts, i, q_.input_dims[i]));
      // Extents must be known to infer others.
      const TensorPtr& known = q_.constants[i];
      entries_[i] = known && known->dtype() == DType::kI64 ? g_.AddConstant(known) : x;
    }
    for (const CallStep& s : q_.epilogue)
      if (s.operand >= 0)
        Operand(size_t(s.operand), s.operand_dims, s.operand_type,
                s.operand_layout == Layout::kChannelsLast && s.operand_dims.size() >= 3);
    std::vector<NodeEntry> inputs;
    for (size_t i = 0; i < q_.input_dims.size(); ++i) inputs.push_back(entries_[i]);
    const NodePtr n = g_.AddNode(q_.node->op(), inputs, q_.node->attrs.dict);
    std::vector<NodeEntry> results;
    for (uint32_t i = 0; i < n->num_outputs(); ++i) results.emplace_back(n, i);
    for (const CallStep& s : q_.epilogue) results[0] = Step(s, results[0]);
    for (size_t i = 0; i < results.size(); ++i)
      if (IsLast(q_.output_layouts, i, q_.output_dims[i]))
        results[i] = Transposed(results[i], ToLast(q_.output_dims[i].size()));
    g_.outputs = results;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i]) slots->emplace(inputs_[i]->attrs.name, i);
    return std::move(g_);
  }

 private:
  NodeEntry Transposed(const NodeEntry& x, Ints perm) {
    return NodeEntry(g_.AddNode("Transpose", {x}, {{"perm", std::move(perm)}}));
  }
  /// Input number `i` of the call; those before it are there even if unnamed.
  NodeEntry Operand(size_t i, Dims dims, DType type, bool last) {
    while (entries_.size() <= i) {
      entries_.emplace_back();
      inputs_.push_back(nullptr);
    }
    if (type == DType::kUnknown) return entries_[i];
    if (inputs_[i]) return entries_[i];
    const size_t rank = dims.size();
    if (last) std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
    inputs_[i] = g_.AddInput("x" + std::to_string(i), type, Shape::OfInts(dims));
    entries_[i] = NodeEntry(inputs_[i]);
    if (last) entries_[i] = Transposed(entries_[i], FromLast(rank));
    return entries_[i];
  }
  NodeEntry Step(const CallStep& s, const NodeEntry& so_far) {
    std::vector<NodeEntry> inputs;
    for (size_t i = 0; i < s.node->num_inputs(); ++i) {
      const NodeEntry& e = s.node->inputs[i];
      const TensorPtr constant = e.node ? Graph::ConstantOf(e) : nullptr;
      if (int(i) == s.slot)
        inputs.push_back(so_far);
      else if (constant)
        inputs.push_back(g_.AddConstant(constant));
      else if (e.node && s.operand >= 0)
        inputs.push_back(entries_[size_t(s.operand)]);
      else
        inputs.emplace_back();
    }
    return NodeEntry(g_.AddNode(s.node->op(), inputs, s.node->attrs.dict));
  }

  const ComputeRequest& q_;
  Graph g_;
  std::vector<NodeEntry> entries_;  ///< what lies in each input, its axes in the usual order
  std::vector<NodePtr> inputs_;
};

bool HasOnlyKernels(const ExecutionPlan& plan) {
  return plan.copies.empty() &&
         std::all_of(plan.steps.begin(), plan.steps.end(), [](const Step& s) {
           return s.kind == StepKind::kKernel && !s.has_flag && s.commits.empty();
         });
}

/// The kernels, and where their operands are.
class KernelSteps {
 public:
  /// `slots`: of each input of the graph, in their order, its number among those of the call.
  /// `replaced`: those inputs of the call that may lie where result 0 goes.
  KernelSteps(Graph graph, ExecutionPlan plan, std::vector<size_t> slots,
              std::vector<size_t> replaced, Backend& backend)
      : graph_(std::move(graph)),
        plan_(std::move(plan)),
        slots_(std::move(slots)),
        replaced_(std::move(replaced)),
        binding_(Binder(plan_, graph_.AttrOr<Facts>("facts")).Bind({}, {}, nullptr, backend, {})) {
    if (!replaced_.empty()) {
      const Value& v = plan_.values[size_t(plan_.output_values[0])];
      staged_bytes_ =
          DTypeBytes(v.dtype, NumElements(binding_->dims[size_t(plan_.output_values[0])]));
      staged_at_ = CheckedRoundUp(binding_->arena.arena_bytes, kAlign);
    }
    for (const Value& v : plan_.values)
      if (v.constant) Place(v, backend);
  }

  int64_t scratch_bytes() const {
    return std::max(binding_->arena.arena_bytes, CheckedAdd(staged_at_, staged_bytes_));
  }
  /// launch(step, buffers, dims) for each; copy(to, from, bytes) of what was made beside its place.
  template <class Launch, class Copy>
  void Run(const void* const* inputs, void* const* outputs, void* scratch, Launch&& launch,
           Copy&& copy) const {
    void* const staged = Staged(inputs, outputs, scratch);
    ForEach(inputs, outputs, scratch, staged, launch);
    if (staged) copy(outputs[0], staged, staged_bytes_);
  }

 private:
  static constexpr int64_t kAlign = 64;
  void Place(const Value& v, Backend& backend) {
    std::shared_ptr<void>& place = constants_[v.storage];
    if (place) return;
    const int64_t bytes = v.constant->num_bytes();
    if (!backend.device()) {
      place = std::shared_ptr<void>(v.constant, const_cast<void*>(v.constant->data()));
      return;
    }
    place = backend.Allocate(std::max<int64_t>(bytes, 1));
    const std::unique_ptr<DeviceStream> stream = backend.device()->NewStream();
    if (bytes > 0) stream->CopyIn(place.get(), v.constant->data(), bytes);
    stream->Wait();
  }
  /// Where result 0 is made when an operand lies in its place, which kernels take for memory that
  /// nothing writes; else null.
  void* Staged(const void* const* inputs, void* const* outputs, void* scratch) const {
    const bool there = std::any_of(replaced_.begin(), replaced_.end(),
                                   [&](size_t i) { return inputs[i] == outputs[0]; });
    return there && staged_bytes_ > 0 ? static_cast<char*>(scratch) + staged_at_ : nullptr;
  }
  template <class F>
  void ForEach(const void* const* inputs, void* const* outputs, void* scratch, void* staged,
               F&& launch) const {
    std::vector<void*> base(plan_.storages.size()), buffers;
    for (size_t k = 0; k < base.size(); ++k) {
      const Storage& s = plan_.storages[k];
      if (s.kind == StorageKind::kInput)
        base[k] = const_cast<void*>(inputs[slots_[size_t(s.number)]]);
      else if (s.kind == StorageKind::kOutput)
        base[k] = s.number == 0 && staged ? staged : outputs[s.number];
      else if (s.kind == StorageKind::kArena)
        base[k] = static_cast<char*>(scratch) + binding_->arena.offsets[k];
    }
    for (const auto& [storage, place] : constants_) base[size_t(storage)] = place.get();
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const Step& step = plan_.steps[k];
      if (binding_->arena.left_out[k]) continue;
      buffers.clear();
      for (const auto* list : {&step.inputs, &step.outputs})
        for (int v : *list)
          buffers.push_back(v < 0 ? nullptr : base[size_t(plan_.values[size_t(v)].storage)]);
      launch(step, buffers.data(), binding_->kernel_dims[k].data());
    }
  }

  const Graph graph_;
  const ExecutionPlan plan_;
  const std::vector<size_t> slots_, replaced_;
  const std::shared_ptr<const Binding> binding_;
  int64_t staged_at_ = 0, staged_bytes_ = 0;
  std::map<int, std::shared_ptr<void>> constants_;  ///< by storage
};

class HostKernelCall final : public LibraryCall {
 public:
  explicit HostKernelCall(std::unique_ptr<KernelSteps> steps) : steps_(std::move(steps)) {}
  int64_t scratch_bytes() const override { return steps_->scratch_bytes(); }
  std::string description() const override { return "generated"; }
  void Run(const void* const* inputs, void* const* outputs, void* scratch) const override {
    steps_->Run(
        inputs, outputs, scratch,
        [](const Step& s, void* const* buffers, const int64_t* dims) {
          s.launcher->Launch(buffers, dims);
        },
        [](void* to, const void* from, int64_t bytes) { std::memcpy(to, from, size_t(bytes)); });
  }

 private:
  const std::unique_ptr<KernelSteps> steps_;
};

class DeviceKernelCall final : public DeviceCall {
 public:
  explicit DeviceKernelCall(std::unique_ptr<KernelSteps> steps) : steps_(std::move(steps)) {}
  int64_t scratch_bytes() const override { return steps_->scratch_bytes(); }
  std::string description() const override { return "generated"; }
  void Enqueue(DeviceStream& stream, const void* const* inputs, void* const* outputs,
               void* scratch) const override {
    steps_->Run(
        inputs, outputs, scratch,
        [&](const Step& s, void* const* buffers, const int64_t* dims) {
          s.device_launcher->Enqueue(stream, buffers, dims);
        },
        [&](void* to, const void* from, int64_t bytes) { stream.Copy(to, from, bytes); });
  }

 private:
  const std::unique_ptr<KernelSteps> steps_;
};

/// Results of no elements: nothing is to be computed, and nothing compiled for that.
class EmptyHostCall final : public LibraryCall {
 public:
  std::string description() const override { return "generated"; }
  void Run(const void* const*, void* const*, void*) const override {}
};
class EmptyDeviceCall final : public DeviceCall {
 public:
  std::string description() const override { return "generated"; }
  void Enqueue(DeviceStream&, const void* const*, void* const*, void*) const override {}
};
bool GivesNothing(const ComputeRequest& q) {
  return std::all_of(q.output_dims.begin(), q.output_dims.end(), [](const Dims& dims) {
    return std::find(dims.begin(), dims.end(), 0) != dims.end();
  });
}

/// Of an operand without elements, as of a product over a dimension of 0: what the operator itself
/// gives is one value throughout, and nothing is compiled for these extents to write that.
bool ReadsNothing(const ComputeRequest& q) {
  for (size_t i = 0; i < q.input_dims.size(); ++i)
    if (q.input_types[i] != DType::kUnknown &&
        std::find(q.input_dims[i].begin(), q.input_dims[i].end(), 0) != q.input_dims[i].end())
      return true;
  return false;
}
class EvaluatedCall final : public LibraryCall {
 public:
  /// `slots`: of each input of the graph, in their order, its number among those of the call.
  EvaluatedCall(Graph graph, std::vector<size_t> slots)
      : graph_(std::move(graph)), slots_(std::move(slots)), variables_(graph_.AllInputs()) {}
  std::string description() const override { return "generated"; }
  void Run(const void* const* inputs, void* const* outputs, void*) const override {
    std::vector<TensorPtr> in;
    for (size_t i = 0; i < variables_.size(); ++i) {
      void* const place = const_cast<void*>(inputs[slots_[i]]);
      in.push_back(std::make_shared<const Tensor>(
          DeclaredType(variables_[i]).dtype, DeclaredShape(variables_[i])->ints(), place, nullptr));
    }
    const std::vector<TensorPtr> out = GetEvaluator()->Eval(graph_, in);
    for (size_t i = 0; i < out.size(); ++i)
      if (const int64_t bytes = out[i]->num_bytes())
        std::memcpy(outputs[i], out[i]->data(), size_t(bytes));
  }

 private:
  const Graph graph_;
  const std::vector<size_t> slots_;
  const std::vector<NodePtr> variables_;
};
std::unique_ptr<PreparedCall> MakeEvaluatedCall(const ComputeRequest& q) {
  std::map<std::string, size_t> slot_of;
  Graph g = CallGraph(q).Make(&slot_of);
  std::vector<size_t> slots;
  for (const NodePtr& p : g.AllInputs()) slots.push_back(slot_of.at(p->attrs.name));
  return std::make_unique<EvaluatedCall>(std::move(g), std::move(slots));
}

}  // namespace

std::unique_ptr<PreparedCall> MakeKernelCall(const ComputeRequest& q, Backend& backend,
                                             int* failed) {
  if (!backend.target().traits().kernels) return nullptr;
  if (GivesNothing(q)) {
    if (backend.device()) return std::make_unique<EmptyDeviceCall>();
    return std::make_unique<EmptyHostCall>();
  }
  if (ReadsNothing(q) && !backend.device()) return MakeEvaluatedCall(q);
  PassOptions options;
  options.target = backend.target();
  std::vector<PassRecord> records;
  options.records = &records;
  try {
    std::map<std::string, size_t> slot_of;
    Graph g = ApplyPasses(CallGraph(q).Make(&slot_of), SmallGraphPipeline(), options);
    if (failed)
      for (const PassRecord& r : records) *failed += int(r.faults.size());
    for (size_t i = 0; i < g.outputs.size(); ++i)
      if (!g.GetAttr<ShapeMap>("shape")[g.outputs[i]].fully_known()) return nullptr;
    std::vector<size_t> slots;
    for (const NodePtr& p : g.AllInputs()) slots.push_back(slot_of.at(p->attrs.name));
    ExecutionPlan plan = MakePlan(g, backend);
    if (!HasOnlyKernels(plan)) return nullptr;
    std::vector<size_t> replaced;
    for (const CallStep& s : q.epilogue)
      if (s.operand >= 0 && s.operand_dims == q.output_dims[0])
        replaced.push_back(size_t(s.operand));
    auto steps = std::make_unique<KernelSteps>(std::move(g), std::move(plan), std::move(slots),
                                               std::move(replaced), backend);
    if (backend.device()) return std::make_unique<DeviceKernelCall>(std::move(steps));
    return std::make_unique<HostKernelCall>(std::move(steps));
  } catch (const UserError& e) {
    RequestScope::Poll();  // a run that is to end leaves no binding behind
    WEFT_LOG(kInfo, "no kernels for {}: {}", q.node->Describe(), e.message());
    return nullptr;
  }
}

}  // namespace weft
