/// schedule_pass.cc: HsimdSchedule. The order of nodes and moves, and what leaves the memories of
/// the PEs for a time, so that the words in them stay within a budget.
///   needs      hsimd_machine, hsimd_place, hsimd_cycles
///   provides   order
///   preserves  -; spills, refills and nodes that run again become nodes of their own
///   never      passes the budget; changes what the graph computes
///   cost       that of l3/schedule.h
///   source     l3/schedule.h
///
///   a = Load(x); y = F(a); z = G(y, a)   ->   a = Load(x); y = F(a); b = Load(x); z = G(y, b)
#include <algorithm>
#include <map>
#include <unordered_map>

#include "../l3/addresses.h"
#include "../l3/schedule.h"
#include "l3.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

using namespace weft;

class Scheduler {
 public:
  Scheduler(Graph g, PassContext& ctx)
      : g_(std::move(g)),
        ctx_(ctx),
        machine_(MachineOf(g_)),
        memories_(MemoriesOf(*machine_)),
        places_(g_.GetAttr<PlaceMap>("hsimd_place")),
        cycles_(g_.GetAttr<CyclesMap>("hsimd_cycles")) {}

  Graph Run() {
    const int64_t percent = ctx_.option<int64_t>("percent"), words = ctx_.option<int64_t>("words");
    WEFT_CHECK(percent >= 1 && percent <= 100 && words >= 0, kUsage,
               "HsimdSchedule: percent={} words={}; expected 1 to 100, and 0 or more", percent,
               words);
    for (const MachineMemories::Bank& bank : memories_.banks)
      problem_.memories.push_back(
          {machine_->memories[size_t(bank.memory)].name,
           words ? std::min(words, bank.words) : bank.words * percent / 100});
    std::vector<NodePtr> writes;
    for (const NodePtr& n : g_.TopoOrder()) {
      if (WrittenBy(n))
        writes.push_back(n);
      else
        AddNode(n);
    }
    AddWrites(writes);
    for (const auto& [v, store] : store_of_) problem_.values[size_t(v)].to_dram = true;
    const PlacedSchedule plan = PlanPlacedSchedule(problem_, {}, Mode());
    VerifySchedule(problem_, plan.schedule);
    ctx_.Count("cycles", plan.schedule.cycles);
    ctx_.Count("bound", plan.schedule.bound_cycles);
    ctx_.Count("spilled_words", plan.schedule.spilled_words);
    ctx_.Count("recomputed", plan.schedule.recomputed);
    for (const int64_t peak : plan.schedule.peak_words) ctx_.Count("peak_words", peak);
    Rewrite(plan.schedule);
    return std::move(g_);
  }

 private:
  ScheduleMode Mode() const {
    const std::string mode = ctx_.option<std::string>("mode");
    if (mode == "plan") return ScheduleMode::kPlan;
    if (mode == "reuse") return ScheduleMode::kReuse;
    WEFT_CHECK(mode == "dram", kUsage, "HsimdSchedule: mode '{}'; known: plan, reuse, dram", mode);
    return ScheduleMode::kFromDram;
  }
  int64_t CyclesOf(const NodePtr& n) const {
    const int64_t* c = cycles_.find(n);
    return c ? *c : 0;
  }
  /// Not an operand that lies off chip and is not read.
  bool IsNear(const NodeEntry& e) const {
    const ValuePlace* place = places_.find(e);
    return place && place->memory != machine_->memories[size_t(memories_.dram)].name;
  }
  /// The value of the problem that an entry is; one of its own where there is none yet.
  int ValueOf(const NodeEntry& entry) {
    const NodeEntry e = Whole(entry);
    const auto [it, fresh] = value_of_.try_emplace(e.key().packed(), int(problem_.values.size()));
    if (!fresh) return it->second;
    ScheduleProblem::Value v;
    v.name = e.node->Describe();
    const ValuePlace& place = *places_.find(e);
    v.words = Words(place.layout);
    for (size_t m = 0; m < problem_.memories.size(); ++m)
      if (problem_.memories[m].name == place.memory) v.memory = int(m);
    problem_.values.push_back(v);
    entry_of_.push_back(e);
    return it->second;
  }

  /// The entry that has `e`'s elements now: of a view, of what it looks at now.
  NodeEntry Near(const NodeEntry& e) {
    if (!IsView(e.node)) return near_[size_t(value_of_.at(e.key().packed()))];
    const NodeEntry on = Near(e.node->inputs[0]);
    NodeEntry& twin = views_[{e.key().packed(), on.key().packed()}];
    if (twin) return twin;
    if (on == e.node->inputs[0]) {
      twin = e;
    } else {
      std::vector<NodeEntry> inputs = e.node->inputs;
      inputs[0] = on;
      twin = NodeEntry(g_.AddCopy(e.node, inputs), e.index);
      g_.MutableAttr<PlaceMap>("hsimd_place").set(twin, *places_.find(e));
    }
    order_.push_back(twin.node->id());
    return twin;
  }

  /// Loads and Stores of the graph are what brings values near and puts them out; what else is not
  /// a variable runs. So does a Store of what lies off chip already, in another shape: views of one
  /// value are that value here.
  void AddNode(const NodePtr& n) {
    if (!Runs(n)) return;
    if (IsOp(n, kLoad)) {
      const int v = ValueOf(NodeEntry(n));
      problem_.values[size_t(v)].in_dram = true;
      problem_.values[size_t(v)].load_cycles = CyclesOf(n);
      return;
    }
    if (IsOp(n, kStore)) {
      const int v = ValueOf(n->inputs[0]);
      if (!problem_.values[size_t(v)].in_dram && store_of_.emplace(v, n).second) {
        problem_.values[size_t(v)].store_cycles = CyclesOf(n);
        return;
      }
    }
    ScheduleProblem::Node node;
    node.name = n->Describe();
    node.cycles = CyclesOf(n);
    for (const NodeEntry& e : n->inputs)
      if (e.node && IsNear(e)) {
        const int v = ValueOf(e);
        if (std::find(node.inputs.begin(), node.inputs.end(), v) == node.inputs.end())
          node.inputs.push_back(v);
      }
    const uint32_t made = IsOp(n, kStore) ? 0 : n->num_outputs();  // what is stored is not near
    for (uint32_t i = 0; i < made; ++i) {
      const int v = ValueOf(NodeEntry(n, i));
      // A spill goes out and comes back, by an estimate: at the pace of the slowest link. A Store
      // that the graph has says what it takes.
      ScheduleProblem::Value& value = problem_.values[size_t(v)];
      value.store_cycles = value.load_cycles = MoveCycles(NodeEntry(n, i));
      node.outputs.push_back(v);
    }
    for (Node* before : n->control_deps)
      if (const auto it = node_of_.find(before->id()); it != node_of_.end())
        node.after.push_back(it->second);
    node.may_run_again = !HasEffect(n) && !DrawsAnew(n);
    node_of_.emplace(n->id(), int(problem_.nodes.size()));
    run_of_.push_back({n, n->inputs});
    problem_.nodes.push_back(std::move(node));
  }

  /// Stores to variables: each behind all that reads the old content, and as soon in the order as
  /// that allows, so that the new one need not stay near.
  void AddWrites(const std::vector<NodePtr>& writes) {
    const auto reads = [](const ScheduleProblem::Node& node, int v) {
      return std::count(node.inputs.begin(), node.inputs.end(), v) > 0;
    };
    std::vector<std::vector<size_t>> behind(problem_.nodes.size());
    std::vector<ScheduleProblem::Node> nodes;
    for (size_t w = 0; w < writes.size(); ++w) {
      ScheduleProblem::Node node;
      node.name = writes[w]->Describe();
      node.cycles = CyclesOf(writes[w]);
      node.inputs = {ValueOf(writes[w]->inputs[0])};
      const NodeEntry variable = WrittenBy(writes[w]);
      for (size_t v = 0; v < entry_of_.size(); ++v)
        if (problem_.values[v].in_dram && entry_of_[v].node->inputs[0] == variable)
          node.overwrites.push_back(int(v));
      size_t last = 0;
      for (size_t n = 0; n < problem_.nodes.size(); ++n) {
        const ScheduleProblem::Node& other = problem_.nodes[n];
        const bool old = std::any_of(node.overwrites.begin(), node.overwrites.end(),
                                     [&](int v) { return reads(other, v); });
        if (old) node.after.push_back(int(n));
        if (old || std::count(other.outputs.begin(), other.outputs.end(), node.inputs[0])) last = n;
      }
      behind[last].push_back(w);
      nodes.push_back(std::move(node));
    }
    std::vector<int> now(problem_.nodes.size());
    ScheduleProblem all = problem_;
    std::vector<Running> runs;
    all.nodes.clear();
    for (size_t n = 0; n < problem_.nodes.size(); ++n) {
      now[n] = int(all.nodes.size());
      for (int& k : problem_.nodes[n].after) k = now[size_t(k)];
      all.nodes.push_back(std::move(problem_.nodes[n]));
      runs.push_back(std::move(run_of_[n]));
      for (const size_t w : behind[n]) {
        for (int& k : nodes[w].after) k = now[size_t(k)];
        all.nodes.push_back(std::move(nodes[w]));
        runs.push_back({writes[w], writes[w]->inputs});
      }
    }
    problem_ = std::move(all);
    run_of_ = std::move(runs);
  }

  int64_t MoveCycles(const NodeEntry& e) const {
    const int64_t words = places_.find(e)->layout.elements();
    int64_t slowest = 1;
    for (const Unit& u : machine_->units)
      if ((u.kind == UnitKind::kUp || u.kind == UnitKind::kDown) && !u.ops.empty())
        slowest = std::max(slowest, u.ops[0].rate.StartOf(words) + u.ops[0].latency);
    return slowest;
  }

  /// A move that the graph did not have.
  NodePtr AddMove(const char* op, size_t value, const NodeEntry& from, ValuePlace place,
                  int64_t cycles) {
    const NodePtr n = g_.AddNode(op, {from});
    g_.SetOrigin(n, entry_of_[value].node->origin());
    g_.MutableAttr<PlaceMap>("hsimd_place").set(NodeEntry(n), std::move(place));
    g_.MutableAttr<CyclesMap>("hsimd_cycles").set(n, cycles);
    return n;
  }

  NodePtr LoadAt(size_t v) {
    const ScheduleProblem::Value& value = problem_.values[v];
    const NodePtr first = entry_of_[v].node;
    NodePtr n = first;
    if (!value.in_dram || near_[v]) {
      n = AddMove(kLoad, v, far_[v], *places_.find(entry_of_[v]), value.load_cycles);
      ctx_.Count("refills");
    }
    near_[v] = NodeEntry(n);
    return n;
  }

  NodePtr StoreAt(size_t v) {
    NodePtr n;
    if (const auto it = store_of_.find(int(v)); it != store_of_.end()) {
      n = it->second;
      const NodeEntry now = Near(n->inputs[0]);
      if (now != n->inputs[0]) g_.SetInput(n, 0, now);
      store_of_.erase(it);
    } else {
      const std::string dram = machine_->memories[size_t(memories_.dram)].name;
      n = AddMove(kStore, v, near_[v],
                  {dram, -1, RowMajor(places_.find(entry_of_[v])->layout.shape)},
                  problem_.values[v].store_cycles);
      ctx_.Count("spills");
    }
    far_[v] = NodeEntry(n);
    return n;
  }

  NodePtr RunAt(size_t i) {
    Running& r = run_of_[i];
    std::vector<NodeEntry> inputs;
    for (const NodeEntry& e : r.inputs) inputs.push_back(e.node && IsNear(e) ? Near(e) : e);
    NodePtr n = r.node;
    if (r.ran) {
      n = g_.AddCopy(r.node, inputs);
      PlaceMap& places = g_.MutableAttr<PlaceMap>("hsimd_place");
      for (uint32_t o = 0; o < n->num_outputs(); ++o)
        places.set(NodeEntry(n, o), *places_.find(NodeEntry(r.node, o)));
      g_.MutableAttr<CyclesMap>("hsimd_cycles").set(n, CyclesOf(r.node));
    } else {
      for (uint32_t k = 0; k < n->num_inputs(); ++k)
        if (inputs[k] != n->inputs[k]) g_.SetInput(n, k, inputs[k]);
    }
    r.ran = true;
    for (uint32_t o = 0; o < n->num_outputs(); ++o)
      if (const auto it = value_of_.find(NodeEntry(r.node, o).key().packed());
          it != value_of_.end())
        near_[size_t(it->second)] = NodeEntry(n, o);
    return n;
  }

  void Rewrite(const Schedule& schedule) {
    near_.resize(problem_.values.size());
    far_.resize(problem_.values.size());
    for (const NodePtr& n : g_.TopoOrder())
      if (LiesOffChip(n) && !IsOp(n, kJoin)) order_.push_back(n->id());
    for (size_t v = 0; v < entry_of_.size(); ++v)
      if (problem_.values[v].in_dram) far_[v] = entry_of_[v].node->inputs[0];
    for (const ScheduleStep& step : schedule.steps) {
      const size_t i = size_t(step.index);
      const NodePtr n = step.kind == ScheduleStep::kLoad    ? LoadAt(i)
                        : step.kind == ScheduleStep::kStore ? StoreAt(i)
                                                            : RunAt(i);
      order_.push_back(n->id());
      // What it writes is then so.
      if (WrittenBy(n))
        for (const Use& use : n->uses())
          if (IsOp(use.user, builtin::kAssign)) order_.push_back(use.user->id());
    }
    for (const NodePtr& n : g_.TopoOrder())
      if (IsOp(n, kJoin)) order_.push_back(n->id());
    g_.SetAttr("order", Order{std::move(order_)});
  }

  struct Running {
    NodePtr node;
    std::vector<NodeEntry> inputs;  ///< as the graph had them
    bool ran = false;
  };

  Graph g_;
  PassContext& ctx_;
  MachinePtr machine_;
  MachineMemories memories_;
  const PlaceMap places_;  // as they were: rows of nodes that are there already
  const CyclesMap cycles_;
  ScheduleProblem problem_;
  std::unordered_map<uint64_t, int> value_of_;
  std::vector<NodeEntry> entry_of_;  // by value: where it is made first
  std::unordered_map<NodeId, int> node_of_;
  std::vector<Running> run_of_;        // by node of the problem
  std::map<int, NodePtr> store_of_;    // of values whose store has not run yet
  std::vector<NodeEntry> near_, far_;  // by value: where it is now
  /// By view and what it looks at now: those that stand in the order.
  std::map<std::pair<uint64_t, uint64_t>, NodeEntry> views_;
  std::vector<NodeId> order_;
};

WEFT_REGISTER_PASS(HsimdSchedule)
    .describe("orders nodes and moves, within a budget of words in every PE")
    .set_body([](Graph g, PassContext& ctx) { return Scheduler(std::move(g), ctx).Run(); })
    .set_change_graph(true)
    .depend_graph_attr("hsimd_machine")
    .depend_graph_attr("hsimd_place")
    .depend_graph_attr("hsimd_cycles")
    .provide_graph_attr("order")
    .option("mode", "plan",
            "plan; reuse: Belady in the order of the graph; dram: every node loads and stores")
    .option("percent", int64_t{100}, "of the words of each memory that values live in")
    .option("words", int64_t{0}, "of each, instead of percent")
    .statistic("cycles", "of the schedule")
    .statistic("bound", "no schedule takes less")
    .statistic("spilled_words", "words put out that are needed again")
    .statistic("recomputed", "nodes that run again")
    .statistic("peak_words", "the most at a time, in every PE, summed over memories")
    .statistic("refills", "loads that were not there before")
    .statistic("spills", "stores that were not there before");

}  // namespace
}  // namespace hsimd
