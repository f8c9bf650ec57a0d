/// plan_report.cc: see plan_report.h.
#include "plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "weft/support/checked.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

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
    r_.arena_bytes = b_.arena.arena_bytes;
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
  }
  void AddBlocks() {
    std::vector<NodePtr> writer(plan_.storages.size()), reader(plan_.storages.size());
    for (const Step& s : plan_.steps) {
      const auto of = [&](int v) { return size_t(plan_.values[size_t(v)].storage); };
      for (int v : s.inputs)
        if (v >= 0) reader[of(v)] = s.node;
      for (int v : s.outputs)
        if (v >= 0 && !writer[of(v)]) writer[of(v)] = s.node;
    }
    for (const ArenaBlock& block : b_.arena.blocks) {
      NodePtr by, last;
      for (const int s : block.storages) {
        if (!by) by = writer[size_t(s)];
        const NodePtr& r = reader[size_t(s)];
        if (r && (!last || StepOf(r) > StepOf(last))) last = r;
      }
      const std::string why =
          !last ? "nothing reads it"
                : fmt::format("read by '{}' at step {}", UserName(last), StepOf(last));
      AddAlive({by ? UserName(by) : "", MemoryKind::kArena, block.bytes, block.offset, block.begin,
                block.end, why});
    }
  }
  void AddAlive(MemoryHolder holder) {
    for (int step = holder.begin; step < std::min(holder.end, int(r_.live.size())); ++step)
      r_.live[size_t(step)] = CheckedAdd(r_.live[size_t(step)], holder.bytes);
    r_.blocks.push_back(std::move(holder));
  }
  int StepOf(const NodePtr& n) const {
    const auto it = step_of_.find(n->id());
    return it == step_of_.end() ? -1 : it->second;
  }
  void AddScratch() {
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const int64_t bytes = b_.sizes.scratch[k];
      if (bytes == 0) continue;
      const Step& step = plan_.steps[k];
      r_.scratch_bytes = std::max(r_.scratch_bytes, bytes);
      AddAlive({UserName(step.node), MemoryKind::kScratch, bytes, b_.arena.scratch_at[k], step.at,
                step.at + 1, "while it runs"});
    }
  }
  /// Operands and results in the arena, each block once, and scratch.
  int64_t LargestStep() const {
    int64_t largest = 0;
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const Step& s = plan_.steps[k];
      int64_t bytes = b_.sizes.scratch[k];
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
                    CheckedAdd(variable_bytes, CheckedAdd(constant_bytes, packed_bytes)));
}

MemoryReport ReportPlan(const Graph& graph, const ExecutionPlan& plan, const Binding& binding) {
  return PlanReport(graph, plan, binding).Run();
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
