/// make_plan.cc: from a planned graph to steps: kernels for fused nodes, library calls, the
/// interpreter where neither is.
#include <algorithm>
#include <unordered_map>

#include "instruction.h"
#include "usable_layouts.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/cache_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/plan/layout.h"
#include "weft/runtime/placement.h"
#include "weft/support/check.h"
#include "weft/support/log.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

class PlanMaker {
 public:
  PlanMaker(const Graph& g, Backend& backend, bool code)
      : g_(g),
        code_(code),
        backend_(backend),
        target_(backend.target()),
        storage_(g.GetAttr<StoragePlan>("storage")),
        shapes_(g.GetAttr<ShapeMap>("shape")),
        types_(g.GetAttr<TypeMap>("dtype")),
        values_(g.HasAttr("value") ? &g.GetAttr<ValueMap>("value") : nullptr),
        kernels_(g.HasAttr("kernel") ? &g.GetAttr<KernelMap>("kernel") : nullptr),
        layouts_(UsableLayouts(g, target_) ? &g.GetAttr<LayoutMap>("layout") : nullptr),
        rtc_(g.HasAttr("rtc") ? &g.GetAttr<RtcMap>("rtc") : nullptr) {}

  ExecutionPlan Run() {
    plan_.storages = storage_.storages;
    plan_.copies = storage_.copies;
    for (NodePtr p : g_.AllInputs()) {
      plan_.input_values.push_back(ValueOf(NodeEntry(p)));
      plan_.fed.push_back(p->attrs.name);
    }
    TakeVariables();
    const std::vector<NodeId>& order = g_.GetAttr<Order>("order").nodes;
    for (size_t at = 0; at < order.size(); ++at) {
      RequestScope::Poll();  // code is loaded
      const size_t first = plan_.steps.size();
      AddSteps(g_.node(order[at]));
      for (size_t k = first; k < plan_.steps.size(); ++k) plan_.steps[k].at = int(at);
    }
    for (const NodeEntry& e : g_.outputs) plan_.output_values.push_back(ValueOf(e));
    TakeParts();
    WEFT_CHECK(unsupported_.empty(), kUnsupported, "backend '{}' cannot run {} nodes:{}",
               backend_.name(), unsupported_.size(), "\n  " + Join(unsupported_, "\n  "));
    return std::move(plan_);
  }

 private:
  void TakeVariables() {
    const std::vector<NodePtr> variables = StateVariables(g_);
    for (NodePtr v : variables) {
      plan_.input_values.push_back(ValueOf(NodeEntry(v)));
      plan_.variables.push_back(v->attrs.name);
      plan_.grows.push_back(v->has_attr(builtin::kGrows));
    }
    plan_.written.assign(variables.size(), false);
    for (NodeId id : g_.GetAttr<Order>("order").nodes)
      for (auto [i, k] : WrittenInputs(g_.node(id))) {
        const NodePtr v = g_.node(id)->inputs[size_t(i)].node;
        const auto it = std::find(variables.begin(), variables.end(), v);
        if (it != variables.end()) plan_.written[size_t(it - variables.begin())] = true;
      }
  }
  void TakeParts() {
    std::unordered_map<NodeId, size_t> step_of;
    for (size_t k = 0; k < plan_.steps.size(); ++k) step_of[plan_.steps[k].node->id()] = k;
    for (const StoragePart& p : storage_.parts) {
      const auto it = step_of.find(p.node);
      if (it == step_of.end()) continue;  // what it gives is known
      if (!plan_.steps[it->second].commits.empty()) continue;
      plan_.parts.push_back({it->second, p.part, p.whole, p.bytes_before, p.rows, p.copies});
    }
  }
  bool ShowsInput(NodePtr n) const { return view_.get(n->op(), false) || IsOp(n, builtin::kRead); }
  bool SameBlock(const NodeEntry& a, const NodeEntry& b) const {
    const int *s = a.node ? storage_.of.find(a) : nullptr, *t = storage_.of.find(b);
    return s && t && *s == *t;
  }
  bool IsView(NodePtr n) const {
    return n->num_inputs() > 0 && ShowsInput(n) && SameBlock(n->inputs[0], NodeEntry(n));
  }
  bool IsReorderedConstant(NodePtr n) const {
    if (!ReorderedConstant(n)) return false;
    const int* s = storage_.of.find(NodeEntry(n));
    return s && storage_.storages[size_t(*s)].kind == StorageKind::kConstant;
  }
  /// The entry is read as a tensor: an output, or an operand that is more than the
  /// shape of a view.
  bool IsRead(NodePtr n) const {
    for (const Use& u : n->uses())
      if (!u.control && !(IsView(u.user) && u.slot > 0)) return true;
    return g_.is_output(n);
  }
  void AddSteps(NodePtr n) {
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n)) || IsView(n) ||
        IsOp(n, builtin::kGroup) || IsReorderedConstant(n))
      return;
    if (n->num_outputs() == 1 && values_) {
      const SymTensorPtr* v = values_->find(NodeEntry(n));
      if (v && *v && (*v)->fully_known()) {
        if (IsRead(n)) AddShapeValue(n, **v);
        return;
      }
    }
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      const Shape& s = shapes_[NodeEntry(n, i)];
      if (!s.fully_known()) {
        unsupported_.push_back(
            fmt::format("{}: output {} has the shape {}, which is not known before the run",
                        n->Describe(), i, s.ToString()));
        return;
      }
    }
    for (const NodeEntry& e : n->inputs) {
      if (!e.node || shapes_[e].fully_known()) continue;
      unsupported_.push_back(
          fmt::format("{}: it reads a tensor of the shape {}, which is not known before the run",
                      n->Describe(), shapes_[e].ToString()));
      return;
    }
    const bool assigns = IsOp(n, builtin::kAssign);
    // The value of an Assign may have been computed where the variable lies.
    if (assigns && SameBlock(n->inputs[1], NodeEntry(n))) return;
    Step step;
    step.node = n;
    step.name = n->attrs.name.empty() && n->origin() && !n->origin()->empty() ? n->origin()->back()
                                                                              : n->attrs.name;
    for (auto [i, k] : WrittenInputs(n))
      if (k >= 0 && !SameBlock(n->inputs[size_t(i)], NodeEntry(n, uint32_t(k))))
        step.commits.emplace_back(ValueOf(NodeEntry(n, uint32_t(k))),
                                  ValueOf(n->inputs[size_t(i)]));
    if (assigns || IsCopy(n)) {
      step.kind = StepKind::kCopy;
      step.inputs = {ValueOf(n->inputs[assigns ? 1 : 0])};
      step.outputs = {ValueOf(NodeEntry(n))};
      plan_.steps.push_back(std::move(step));
      return;
    }
    for (const NodeEntry& e : n->inputs) step.inputs.push_back(e.node ? ValueOf(e) : -1);
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      step.outputs.push_back(ValueOf(NodeEntry(n, i)));
    if (!ChooseKernel(n, &step) && !ChooseLibrary(n, &step) && !ChooseBodies(n, &step) &&
        !ChooseInterpreter(n, &step))
      return;
    plan_.steps.push_back(std::move(step));
  }
  /// A view of what is overwritten before the view is read.
  bool IsCopy(NodePtr n) {
    if (!ShowsInput(n) || n->num_outputs() != 1 || !storage_.of.find(n->inputs[0])) return false;
    return plan_.values[size_t(ValueOf(n->inputs[0]))].layout ==
           plan_.values[size_t(ValueOf(NodeEntry(n)))].layout;
  }
  /// Steps share kernels.
  template <class Kind, class Launchers>
  static auto Loaded(Kind& backend, const Kernel& kernel, const CompiledKernel& compiled,
                     Launchers* launchers) {
    auto& launcher = (*launchers)[&kernel];
    if (!launcher) launcher = backend.Load(kernel, compiled);
    return launcher;
  }
  bool ChooseKernel(NodePtr n, Step* step) {
    const LoweredKernel* k = kernels_ ? kernels_->find(n) : nullptr;
    if (k && !code_) {
      step->kind = StepKind::kKernel;
      return true;
    }
    const CompiledKernels* c = rtc_ ? rtc_->find(n) : nullptr;
    if (!k || !c || c->size() != k->Kernels().size()) return false;
    if (!backend_.host() && !backend_.device()) return false;  // it runs no kernels
    if (!layouts_ && !k->layouts.empty()) {
      WEFT_LOG(kWarning,
               "{} has a kernel for other layouts than its tensors have since the graph was "
               "edited; it runs in the interpreter",
               n->Describe());
      return false;
    }
    for (const CompiledKernelPtr& made : *c)
      if (!made || made->binary.empty()) return false;
    step->kind = StepKind::kKernel;
    step->symbols = k->symbols;
    if (k->is_multi()) {
      if (HostBackend* host = backend_.host())
        step->launcher = host->LoadMulti(*k, *c);
      else
        step->device_launcher = backend_.device()->LoadMulti(*k, *c);
      for (const KernelPart& p : k->parts) step->has_flag |= p.kernel->has_flag();
      return true;
    }
    if (HostBackend* host = backend_.host())
      step->launcher = Loaded(*host, *k->kernel, *c->front(), &launchers_);
    else
      step->device_launcher =
          Loaded(*backend_.device(), *k->kernel, *c->front(), &device_launchers_);
    step->has_flag = k->kernel->has_flag();
    return true;
  }
  bool ChooseLibrary(NodePtr n, Step* step) {
    const FCompute* f = LibraryRoutine(target_, n, types_);
    if (!f) return false;
    step->kind = StepKind::kLibrary;
    if (std::optional<AnchoredCall> anchored = AnchoredCallOf(n))
      step->anchored = std::make_shared<const AnchoredCall>(*std::move(anchored));
    step->compute = *f;
    return true;
  }
  /// Bodies that the passes have entered have plans.
  bool ChooseBodies(NodePtr n, Step* step) {
    if (!RunsBodies(target_, n)) return false;
    const std::vector<std::string> bodies = BodyNames(n);
    if (std::none_of(bodies.begin(), bodies.end(),
                     [&](const std::string& name) { return IsPlanned(*n->attr<GraphPtr>(name)); }))
      return false;
    step->kind = StepKind::kBodies;
    return true;
  }
  bool ChooseInterpreter(NodePtr n, Step* step) {
    step->kind = StepKind::kInterpreter;
    // An expression may hold the numbers of one draw: such a node is expanded anew in every run.
    const Evaluator* evaluator = GetEvaluator();
    if (DrawsAnew(n) && evaluator && evaluator->WhyNot(n).empty()) return true;
    std::string why;
    if (std::optional<ComputeSpec> spec = TryExpand(g_, n, &why)) {
      step->spec = std::make_shared<ComputeSpec>(*std::move(spec));
      return true;
    }
    if (evaluator && evaluator->WhyNot(n).empty()) return true;  // as a whole
    unsupported_.push_back(fmt::format("{}: {}", n->Describe(), why));
    return false;
  }
  void AddShapeValue(NodePtr n, const SymTensor& v) {
    Step step;
    step.kind = StepKind::kShapeValue;
    step.node = n;
    step.name = n->attrs.name;
    step.outputs = {ValueOf(NodeEntry(n))};
    step.elements = v.elements;
    plan_.steps.push_back(std::move(step));
  }
  int ValueOf(const NodeEntry& e) {
    const EntryKey key = e.key();
    if (auto it = value_of_.find(key); it != value_of_.end()) return it->second;
    Value v;
    v.dtype = types_[e].dtype;
    v.shape = shapes_[e];
    if (layouts_) v.layout = (*layouts_)[e];
    const int* s = storage_.of.find(e);
    WEFT_ICHECK(s, "{} has no storage", e.node->Describe());
    v.storage = *s;
    const Storage& block = plan_.storages[size_t(*s)];
    if (block.kind == StorageKind::kConstant) {
      const NodePtr holder = g_.node(NodeId(block.number));
      const TensorPtr plain = ReorderedConstant(holder);
      v.constant =
          plain ? InLayout(plain, Layout::kPlain, v.layout) : Graph::ConstantOf(NodeEntry(holder));
    }
    plan_.values.push_back(std::move(v));
    return value_of_[key] = int(plan_.values.size()) - 1;
  }

  const Graph& g_;
  const bool code_;
  Backend& backend_;
  const Target target_;
  const StoragePlan& storage_;
  const ShapeMap& shapes_;
  const TypeMap& types_;
  const ValueMap* values_;
  const KernelMap* kernels_;
  const LayoutMap* layouts_;
  const RtcMap* rtc_;
  const OpMap<TIsView>& view_ = Op::GetAttr<TIsView>("TIsView");
  ExecutionPlan plan_;
  std::unordered_map<EntryKey, int> value_of_;
  std::unordered_map<const Kernel*, std::shared_ptr<KernelLauncher>> launchers_;
  std::unordered_map<const Kernel*, std::shared_ptr<DeviceLauncher>> device_launchers_;
  std::vector<std::string> unsupported_;
};

}  // namespace

TensorPtr InLayout(const TensorPtr& t, Layout from, Layout to) {
  if (from == to) return t;
  auto other = std::make_shared<Tensor>(t->dtype(), t->dims());
  CopyLayout(t->dtype(), t->dims(), t->data(), other->mutable_data(), from, to);
  return other;
}

bool HasPlan(const Graph& graph) {
  return graph.IsComplete("storage") && graph.IsComplete("order");
}
bool HasRegions(const Graph& graph) {
  const std::vector<NodePtr> order = graph.TopoOrder();
  return std::any_of(order.begin(), order.end(),
                     [](const NodePtr& n) { return IsOp(n, builtin::kRegion); });
}
bool IsPlanned(const Graph& graph) { return HasPlan(graph) || HasRegions(graph); }

ExecutionPlan MakePlan(const Graph& graph, Backend& backend) {
  return PlanMaker(graph, backend, true).Run();
}
ExecutionPlan MakePlanWithoutCode(const Graph& graph, Backend& backend) {
  return PlanMaker(graph, backend, false).Run();
}

}  // namespace weft
