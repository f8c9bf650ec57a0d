/// report.cc: see report.h and weft/runtime/program/memory.h.
#include "report.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/program/predict_parts.h"
#include "runtime/program/program_impl.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/body_types.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// Bytes of constants, of bodies too, each tensor once.
int64_t ConstantBytes(const Graph& g, std::set<const void*>* seen) {
  int64_t bytes = 0;
  for (const NodePtr& n : g.TopoOrder()) {
    if (const TensorPtr t = Graph::ConstantOf(NodeEntry(n)); t && seen->insert(t->data()).second)
      bytes = CheckedAdd(bytes, t->num_bytes());
    if (!n->is_variable() && !IsOp(n, builtin::kFused))
      for (const std::string& body : BodyNames(n))
        bytes = CheckedAdd(bytes, ConstantBytes(*n->attr<GraphPtr>(body), seen));
  }
  return bytes;
}

/// One plan: its storages by the steps of its order.
class PlanReport {
 public:
  PlanReport(const Graph& g, const ExecutionPlan& plan, const Binding& binding)
      : g_(g), plan_(plan), b_(binding), order_(g.GetAttr<Order>("order")) {}

  MemoryReport Run() {
    for (size_t k = 0; k < order_.nodes.size(); ++k) {
      const NodePtr n = g_.node(order_.nodes[k]);
      r_.steps.push_back(UserName(n));
      step_of_[n->id()] = int(k);
    }
    r_.live.assign(order_.nodes.size(), 0);
    CountTensors();
    AddBlocks();
    AddScratch();
    const auto most = std::max_element(r_.live.begin(), r_.live.end());
    if (most != r_.live.end() && *most > 0) {
      r_.at_step = int(most - r_.live.begin());
      r_.bound_bytes = *most;
    }
    r_.arena_bytes = b_.arena_bytes;
    r_.peak_bytes = CheckedAdd(r_.arena_bytes, r_.output_bytes);
    r_.floor_bytes = CheckedAdd(LargestStep(), r_.output_bytes);
    std::stable_sort(
        r_.blocks.begin(), r_.blocks.end(),
        [](const MemoryHolder& a, const MemoryHolder& b) { return a.begin < b.begin; });
    return std::move(r_);
  }

 private:
  int64_t BytesOf(int value) const {
    const Value& v = plan_.values[size_t(value)];
    return DTypeBytes(v.dtype, NumElements(b_.dims[size_t(value)]));
  }
  void AddWhole(MemoryKind kind, std::string name, int64_t bytes, const char* why) {
    r_.blocks.push_back({std::move(name), kind, bytes, -1, 0, int(order_.nodes.size()), why});
  }
  void CountTensors() {
    for (size_t i = 0; i < plan_.input_values.size(); ++i) {
      const int64_t bytes = BytesOf(plan_.input_values[i]);
      const bool fed = i < plan_.num_fed();
      (fed ? r_.input_bytes : r_.variable_bytes) += bytes;
      AddWhole(fed ? MemoryKind::kInput : MemoryKind::kVariable,
               fed ? plan_.fed[i] : plan_.variables[i - plan_.num_fed()], bytes,
               fed ? "an input" : "state of the session");
    }
    for (size_t i = 0; i < plan_.output_values.size(); ++i) {
      const int64_t bytes = BytesOf(plan_.output_values[i]);
      r_.output_bytes = CheckedAdd(r_.output_bytes, bytes);
      AddWhole(MemoryKind::kOutput, g_.OutputName(i), bytes, "a result");
    }
    std::set<const void*> seen;
    for (const Value& v : plan_.values)
      if (v.constant && seen.insert(v.constant->data()).second)
        r_.constant_bytes += v.constant->num_bytes();
  }
  void AddBlocks() {
    struct Ends {
      NodePtr writer, reader;
    };
    std::vector<Ends> ends(plan_.storages.size());
    for (const Step& s : plan_.steps) {
      const auto of = [&](int v) { return size_t(plan_.values[size_t(v)].storage); };
      for (int v : s.inputs)
        if (v >= 0) ends[of(v)].reader = s.node;
      for (int v : s.outputs)
        if (v >= 0 && !ends[of(v)].writer) ends[of(v)].writer = s.node;
    }
    std::vector<int64_t> sizes(plan_.storages.size(), 0);
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      int64_t& size = sizes[size_t(plan_.values[v].storage)];
      size = std::max(size, BytesOf(int(v)));
    }
    for (size_t k = 0; k < plan_.storages.size(); ++k) {
      const Storage& s = plan_.storages[k];
      if (s.kind != StorageKind::kArena || !ends[k].writer) continue;
      const NodePtr& reader = ends[k].reader;
      const std::string why =
          !reader ? "nothing reads it"
                  : fmt::format("read by '{}' at step {}", UserName(reader), StepOf(reader));
      r_.blocks.push_back({UserName(ends[k].writer), MemoryKind::kArena, sizes[k], b_.offsets[k],
                           s.begin, s.end, why});
      for (int step = s.begin; step < std::min(s.end, int(r_.live.size())); ++step)
        r_.live[size_t(step)] = CheckedAdd(r_.live[size_t(step)], sizes[k]);
    }
  }
  int StepOf(const NodePtr& n) const {
    const auto it = step_of_.find(n->id());
    return it == step_of_.end() ? -1 : it->second;
  }
  void AddScratch() {
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const int64_t bytes = b_.calls[k] ? b_.calls[k]->scratch_bytes() : 0;
      const int step = StepOf(plan_.steps[k].node);
      if (bytes <= 0 || step < 0) continue;
      r_.scratch_bytes = std::max(r_.scratch_bytes, bytes);
      r_.live[size_t(step)] = CheckedAdd(r_.live[size_t(step)], bytes);
      r_.blocks.push_back({UserName(plan_.steps[k].node), MemoryKind::kScratch, bytes, -1, step,
                           step + 1, "while it runs"});
    }
  }
  /// Operands and results in the arena, each block once, and scratch.
  int64_t LargestStep() const {
    int64_t largest = 0;
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const Step& s = plan_.steps[k];
      int64_t bytes = b_.calls[k] ? b_.calls[k]->scratch_bytes() : 0;
      std::map<int, int64_t> blocks;
      const auto add = [&](int v) {
        if (v < 0) return;
        const int storage = plan_.values[size_t(v)].storage;
        if (plan_.storages[size_t(storage)].kind != StorageKind::kArena) return;
        blocks[storage] = std::max(blocks[storage], BytesOf(v));
      };
      for (int v : s.inputs) add(v);
      for (int v : s.outputs) add(v);
      for (const auto& [storage, size] : blocks) bytes = CheckedAdd(bytes, size);
      largest = std::max(largest, bytes);
    }
    return largest;
  }

  const Graph& g_;
  const ExecutionPlan& plan_;
  const Binding& b_;
  const Order& order_;
  MemoryReport r_;
  std::map<NodeId, int> step_of_;
};

}  // namespace

std::string UserName(const NodePtr& node) {
  if (!node->attrs.name.empty()) return node->attrs.name;
  return node->origin() && !node->origin()->empty() ? node->origin()->back() : node->Describe();
}

const char* MemoryKindName(MemoryKind kind) {
  static constexpr const char* kNames[] = {"arena", "scratch",  "output",
                                           "input", "variable", "constant"};
  return kNames[size_t(kind)];
}

std::vector<MemoryHolder> MemoryReport::Holders() const {
  std::vector<MemoryHolder> out;
  for (const MemoryHolder& h : blocks) {
    const bool added = h.kind == MemoryKind::kArena || h.kind == MemoryKind::kScratch ||
                       h.kind == MemoryKind::kOutput;
    if (added && h.bytes > 0 && h.begin <= at_step && at_step < h.end) out.push_back(h);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const MemoryHolder& a, const MemoryHolder& b) { return a.bytes > b.bytes; });
  return out;
}

int64_t MemoryReport::Counted(const MemoryBudget& budget) const {
  if (!budget.all) return peak_bytes;
  return CheckedAdd(CheckedAdd(peak_bytes, input_bytes),
                    CheckedAdd(variable_bytes, constant_bytes));
}

MemoryReport ReportPlan(const Graph& graph, const ExecutionPlan& plan, const Binding& binding) {
  return PlanReport(graph, plan, binding).Run();
}

MemoryReport ReportRegions(const Program::Impl& program, const Target& target,
                           const std::vector<TensorPtr>& tensors) {
  const Graph& g = program.graph_;
  MemoryReport r;
  SymBindings bindings;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t fed = program.inputs_.size();
    const IoSpec& spec = i < fed ? program.inputs_[i] : program.variables_[i - fed];
    for (int d = 0; spec.shape.has_rank() && d < tensors[i]->rank() && d < spec.shape.rank(); ++d)
      if (spec.shape[d].known() && spec.shape[d].is_symbol())
        bindings[spec.shape[d].symbol_name()] = tensors[i]->dims()[size_t(d)];
    (i < fed ? r.input_bytes : r.variable_bytes) += tensors[i]->num_bytes();
  }
  const ArenaParts parts = PredictParts(g, target, bindings, &r);
  r.arena_bytes = parts.sum();
  r.at_most = parts.at_most;
  std::set<const void*> seen;
  r.constant_bytes = ConstantBytes(g, &seen);
  int steps = 0;
  for (const MemoryHolder& h : r.blocks) steps = std::max(steps, h.end);
  r.live.assign(size_t(steps), 0);
  r.steps.resize(size_t(steps));
  for (const MemoryHolder& h : r.blocks) {
    r.steps[size_t(h.begin)] = h.name;
    for (int k = h.begin; k < h.end; ++k)
      r.live[size_t(k)] = CheckedAdd(r.live[size_t(k)], h.bytes);
  }
  const auto most = std::max_element(r.live.begin(), r.live.end());
  if (most != r.live.end()) {
    r.at_step = int(most - r.live.begin());
    r.bound_bytes = *most;
  }
  for (size_t i = 0; i < program.outputs_.size(); ++i) {
    const IoSpec& spec = program.outputs_[i];
    int64_t bytes = 0;
    if (spec.kind == TypeKind::kTensor && spec.shape.has_rank() && DTypeBits(spec.dtype) > 0) {
      try {
        int64_t count = 1;
        for (SymInt d : spec.shape.dims()) count = CheckedMul(count, Evaluate(d, bindings));
        bytes = DTypeBytes(spec.dtype, count);
      } catch (const UserError&) {
        r.unbounded.push_back(spec.name);
      }
    }
    r.output_bytes = CheckedAdd(r.output_bytes, bytes);
  }
  r.peak_bytes = CheckedAdd(r.arena_bytes, r.output_bytes);
  r.floor_bytes = r.peak_bytes;
  return r;
}

std::vector<TensorPtr> TensorsAt(const Program::Impl& program, const SymBindings& bindings) {
  std::vector<TensorPtr> out;
  static char none = 0;  // nothing is read
  const std::shared_ptr<void> owner(&none, [](void*) {});
  for (const std::vector<IoSpec>* list : {&program.inputs_, &program.variables_})
    for (const IoSpec& spec : *list) {
      if (spec.number.known()) {  // as Session gives it to the program
        out.push_back(std::make_shared<Tensor>(
            DType::kBool, std::vector<int64_t>{0, Evaluate(spec.number, bindings)}));
        continue;
      }
      WEFT_CHECK(spec.kind == TypeKind::kTensor && spec.shape.has_rank(), kUnsupported,
                 "the memory of '{}', a {} of unknown rank, is not known before it is there",
                 spec.name, spec.type().ToString());
      std::vector<int64_t> dims;
      for (SymInt d : spec.shape.dims()) dims.push_back(Evaluate(d, bindings));
      if (spec.dtype == DType::kString)
        out.push_back(std::make_shared<Tensor>(spec.dtype, std::move(dims)));
      else
        out.push_back(std::make_shared<Tensor>(spec.dtype, std::move(dims), &none, owner));
    }
  return out;
}

MemoryReport ReportMemory(const Program& program, const SymBindings& bindings) {
  const Program::Impl& p = program.impl();
  RequestScope scope(p.limits_);
  return p.Report(TensorsAt(p, bindings));
}

std::string NameHolders(const MemoryReport& report, size_t most) {
  std::vector<std::string> out;
  for (const MemoryHolder& h : report.Holders()) {
    if (out.size() == most) break;
    out.push_back(fmt::format("{} '{}' {}", MemoryKindName(h.kind), h.name, FormatBytes(h.bytes)));
  }
  return Join(out, ", ");
}

}  // namespace weft
