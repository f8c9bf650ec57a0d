/// checkpoint.cc: Checkpoint. Has values computed again instead of kept, so that a run stays within
/// a budget of bytes.
///   needs      shape, dtype; behind Fusion and Layout, best right in front of Schedule: kernels
///              say what is written in place, and copies share them
///   provides   planned_order, recompute_of
///   preserves  what is known of nodes: shapes, layouts, kernels
///   never      runs an effect twice, draws again, changes a bit of a result; reads a variable
///              behind a write that the first run was in front of, but for what that write alone
///              is computed from (idle_operand.h)
///   cost       counted work (core/recompute/recompute_search.h), linear above ten thousand nodes
///   source     Checkmate (Jain et al., 2020) for the form of plans; the search is ours
///
///   %a = Exp(%x)                    %a = Exp(%x)
///   %b = ... %a ...                 %b = ... %a ...
///   ...                       ->    ...
///   %c = Mul(%g, %a)                %a2 = Exp(%x) after(what runs in front of it)
///                                   %c = Mul(%g, %a2)
///
/// Bytes are those of the arena, at the attribute `hint` where sizes are symbolic, with what nodes
/// take while they run, as the attribute `scratch` says: a copy takes what it copies. The order
/// that was planned goes to Schedule as an attribute, and control edges keep a copy behind the step
/// in front of it.
#include <algorithm>
#include <cmath>
#include <map>

#include "idle_operand.h"
#include "memory_problem_of.h"
#include "planned_order.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/pass/pass.h"
#include "weft/core/plan/memory_budget.h"
#include "weft/core/plan/order_search.h"
#include "weft/core/plan/storage.h"
#include "weft/core/recompute/recompute_search.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

MemoryBudget ParseBudget(const std::string& text) {
  const MemoryBudget budget = MemoryBudget::Parse(text, "Checkpoint{budget}");
  WEFT_CHECK(!budget.all, kUsage, "'{}' counts what no pass plans", text);
  return budget;
}

double ParseShare(const std::string& text) {
  const bool marked = !text.empty() && text.back() == '%';
  const auto share = TryParseDouble(marked ? text.substr(0, text.size() - 1) : std::string());
  WEFT_CHECK(share && *share >= 0 && *share <= 1000, kUsage,
             "'{}' is not a share of the cost of a run: expected a number as 10%", text);
  return *share / 100;
}

class Planner {
 public:
  Planner(const Graph& g, int64_t work)
      : g_(g), nodes_(PlannedNodes(g)), memory_(MemoryProblemOf(g, nodes_)) {
    if (work > 0) work_ = work;
    const MemoryProblem& p = memory_.problem;
    for (size_t k = 0; k < nodes_.size(); ++k)
      for (auto [i, o] : WrittenInputs(nodes_[k]))
        if (const NodePtr variable = VariableOf(nodes_[k]->inputs[size_t(i)]))
          writers_[variable->id()].push_back(int(k));
    for (size_t k = 0; k < nodes_.size(); ++k) {
      Judge(int(k));
      if (writers_.empty()) continue;
      std::vector<MemoryNode>& nodes = memory_.problem.nodes;
      nodes[k].before = FindWritersBehind(int(k));
      for (int writer : nodes[k].before) nodes[size_t(writer)].after.push_back(int(k));
    }
    given_ = UseOf(p, GivenOrder(p));
  }

  const MemoryUse& given() const { return given_; }
  const std::vector<NodePtr>& nodes() const { return nodes_; }
  const GraphMemory& memory() const { return memory_; }
  const std::map<std::string, int>& kept() const { return kept_; }

  /// The cheapest plan for the goal, of those in the given order and in that of SearchOrder.
  /// `share` of the least peak without recomputation, where the budget is one.
  RecomputeChoice Choose(const MemoryBudget& budget, double cost_share) {
    const MemoryProblem& p = memory_.problem;
    const OrderPlan ordered = SearchOrder(p);
    least_without_ = std::min(ordered.peak, given_.peak);
    RecomputeGoal goal;
    if (cost_share >= 0)
      goal.cost_share = cost_share;
    else if (budget.kind != MemoryBudget::Kind::kLeast)
      goal.budget = budget.BytesOf(least_without_);
    budget_ = goal.budget;
    std::vector<MemoryOrder> orders{GivenOrder(p)};
    if (ordered.peak < given_.peak) orders.push_back(ordered.order);
    // The list of plans is the same whatever the goal, so that less is never asked for in vain
    // where more is met.
    RecomputeEffort effort;
    effort.work = std::max<int64_t>(1, work_ / int64_t(orders.size()));
    std::vector<RecomputePlan> plans;
    for (const MemoryOrder& order : orders) {
      std::vector<RecomputePlan> found = RecomputePlans(p, order, effort);
      found.erase(std::remove_if(found.begin(), found.end(),
                                 [&](const RecomputePlan& plan) { return ReadsTooLate(plan); }),
                  found.end());
      plans = JoinPlans(std::move(plans), std::move(found));
    }
    return ChooseRecompute(p, plans, goal);
  }

  int64_t least_without() const { return least_without_; }
  int64_t budget() const { return budget_; }

  /// Steps that write a variable which step k reads, and stand behind it.
  const std::vector<int>& WritersBehind(int k) const {
    return memory_.problem.nodes[size_t(k)].before;
  }
  /// An operand of a step that shows a variable, and that a run of the step behind step `writer`,
  /// which writes it, does not need.
  struct Idle {
    size_t input;
    int writer;
    NodeEntry content;  ///< what that run has in its place
  };
  const std::vector<Idle>& IdleOf(int k) const {
    static const std::vector<Idle> kNone;
    const auto it = idle_.find(k);
    return it == idle_.end() ? kNone : it->second;
  }

 private:
  std::vector<int> FindWritersBehind(int k) {
    const NodePtr n = nodes_[size_t(k)];
    std::vector<int> behind;
    size_t at = 0;  // among the operands that the problem has
    for (size_t i = 0; i < n->num_inputs() && !IsOp(n, builtin::kGroup); ++i) {
      if (!n->inputs[i].node) continue;
      const NodePtr variable = WrittenBehind(memory_.problem.nodes[size_t(k)].inputs[at++]);
      if (!variable) continue;
      const std::vector<int>& writers = writers_.at(variable->id());
      if (writers.size() == 1 && writers[0] > k) {
        const NodePtr writer = nodes_[size_t(writers[0])];
        if (const NodeEntry content = IdleOperand(g_, n, i, variable, writer); content.node) {
          idle_[k].push_back({i, writers[0], content});
          continue;
        }
      }
      for (const int writer : writers)
        if (writer > k) behind.push_back(writer);
    }
    return behind;
  }
  void Keep(int k, const char* reason) {
    if (!std::exchange(memory_.problem.nodes[size_t(k)].recompute, false)) return;
    ++kept_[reason];
  }

  /// Who may run again.
  void Judge(int k) {
    MemoryProblem& p = memory_.problem;
    const NodePtr n = nodes_[size_t(k)];
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n)) || IsOp(n, builtin::kGroup)) {
      p.nodes[size_t(k)].recompute = false;
      return;
    }
    if (!p.nodes[size_t(k)].recompute) ++kept_["once-effect"];
    if (DrawsAnew(n)) Keep(k, "once-draws");
    for (const char* sized : {"introduced", "unbacked"})
      if (HasRow(sized, n)) Keep(k, "once-sized-by-data");
    // Of a node with a result of the graph and other outputs, the copy's would be in the arena.
    if (n->num_outputs() > 1 && g_.is_output(n)) Keep(k, "once-result");
    for (int v : p.nodes[size_t(k)].outputs)
      if (n->num_outputs() > 1 && !HasArenaPlace(TypeOf(v))) Keep(k, "once-no-bytes");
  }
  Type TypeOf(int value) const {
    return g_.GetAttr<TypeMap>("dtype")[memory_.entries[size_t(value)]];
  }
  bool HasRow(const char* name, NodePtr n) const {
    if (!g_.HasAttr(name)) return false;
    if (std::string_view(name) == "unbacked")
      return g_.GetAttr<NodeMap<Ints>>(name).find(n) != nullptr;
    for (uint32_t o = 0; o < n->num_outputs(); ++o)
      if (g_.GetAttr<ShapeMap>(name).find(NodeEntry(n, o))) return true;
    return false;
  }

  /// The variable that an entry is, or is the new content of; else null.
  static NodePtr VariableOf(NodeEntry e) {
    while (!e.node->is_variable()) {
      NodeEntry written;
      for (auto [i, o] : WrittenInputs(e.node))
        if (o >= 0 && uint32_t(o) == e.index) written = e.node->inputs[size_t(i)];
      if (!written.node) return nullptr;
      e = written;
    }
    return e.node;
  }
  /// The variable whose content a value shows, where something writes it; else null.
  NodePtr WrittenBehind(int value) const {
    const MemoryProblem& p = memory_.problem;
    while (p.values[size_t(value)].shows >= 0) value = p.values[size_t(value)].shows;
    const NodePtr n = VariableOf(memory_.entries[size_t(value)]);
    return n && writers_.count(n->id()) ? n : nullptr;
  }
  /// The search knows it of nodes; that no view is made again behind such a write is tested.
  bool ReadsTooLate(const RecomputePlan& plan) const {
    std::vector<char> ran(nodes_.size(), 0);
    for (size_t step = 0; !writers_.empty() && step < plan.order.size(); ++step) {
      const int k = plan.order[step];
      ran[size_t(k)] = 1;
      for (int writer : memory_.problem.nodes[size_t(k)].before)
        if (ran[size_t(writer)]) return true;
    }
    return false;
  }

  const Graph& g_;
  std::vector<NodePtr> nodes_;
  GraphMemory memory_;
  std::map<NodeId, std::vector<int>> writers_;  ///< of a variable
  std::map<int, std::vector<Idle>> idle_;       ///< by step, of those that have any
  std::map<std::string, int> kept_;             ///< nodes that run once, by reason
  int64_t work_ = RecomputeEffort().work;
  int64_t least_without_ = 0, budget_ = -1;
  MemoryUse given_;
};

/// The three largest of what is alive at the peak of an order.
std::string Holders(const GraphMemory& memory, const RecomputePlan& plan) {
  const MemoryProblem& p = memory.problem;
  const int at = UseOf(p, plan.order).at;
  if (at < 0) return "nothing";
  const std::vector<int> alive = AliveAt(p, plan.order, at);
  std::vector<std::string> each;
  for (size_t k = 0; k < alive.size() && k < 3; ++k)
    each.push_back(memory.entries[size_t(alive[k])].node->Describe() + " " +
                   FormatBytes(p.values[size_t(alive[k])].bytes));
  return Join(each, ", ");
}

/// Puts rows of every attribute that says something of `of` beside it for its copy.
void CopyRows(Graph& g, NodePtr of, NodePtr copy, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const AttrType* t = FindAttrType(name);
    std::shared_ptr<std::any>& slot = g.attrs.at(name);
    t->copy_rows(*slot, of->id(), *slot, copy->id());
  }
}

/// Node and entry attributes of the graph that the pass preserves, in slots of its own.
std::vector<std::string> OwnRows(Graph& g, const PassEntry& pass) {
  std::vector<std::string> names;
  for (const std::string& name : pass.preserves) {
    const AttrType* t = FindAttrType(name);
    if (!t || t->scope == AttrScope::kGraph || !g.HasAttr(name)) continue;
    std::shared_ptr<std::any>& slot = g.attrs.at(name);
    if (slot.use_count() > 1) slot = std::make_shared<std::any>(*slot);
    names.push_back(name);
  }
  return names;
}

void MakeCopies(Graph& g, const Planner& planner, const RecomputePlan& plan, PassContext& ctx) {
  const std::vector<std::string> names = OwnRows(g, ctx.pass());
  NodeMap<std::string> again = g.TakeAttrOr<NodeMap<std::string>>("recompute_of");
  std::vector<NodePtr> latest(planner.nodes().size());  // by step
  std::vector<char> moved(planner.nodes().size(), 0);
  for (int k : plan.moved) moved[size_t(k)] = 1;
  std::vector<int> step_of(g.id_bound(), -1);
  for (size_t k = 0; k < planner.nodes().size(); ++k) step_of[planner.nodes()[k]->id()] = int(k);
  Order planned;
  NodePtr before;  // what a copy waits for
  int64_t copies = 0;
  for (int k : plan.order) {
    const NodePtr n = planner.nodes()[size_t(k)];
    const auto current = [&](const NodeEntry& e) {
      return e.node ? NodeEntry(latest[size_t(step_of[e.node->id()])], e.index) : e;
    };
    NodePtr made = n;
    if (!latest[size_t(k)]) {
      for (size_t i = 0; i < n->num_inputs(); ++i)
        if (const NodeEntry now = current(n->inputs[i]); now != n->inputs[i]) g.SetInput(n, i, now);
    } else {
      std::vector<NodeEntry> inputs;
      for (const NodeEntry& e : n->inputs) inputs.push_back(current(e));
      for (const Planner::Idle& idle : planner.IdleOf(k))
        if (latest[size_t(idle.writer)]) inputs[idle.input] = idle.content;
      made = g.AddCopy(n, inputs);
      // Operands of what follows may be copies by now.
      step_of.resize(g.id_bound(), -1);
      step_of[made->id()] = k;
      CopyRows(g, n, made, names);
      const std::string* source = again.find(n);
      const std::string name =
          n->attrs.name.empty() ? "%" + std::to_string(n->id()) : n->attrs.name;
      again.set(made, source ? *source : name);
      ++copies;
    }
    if (made != n || moved[size_t(k)]) {
      if (before && before != n) made->control_deps.push_back(before);
      for (int writer : planner.WritersBehind(k))
        planner.nodes()[size_t(writer)]->control_deps.push_back(made);
      for (const Planner::Idle& idle : planner.IdleOf(k))
        if (!latest[size_t(idle.writer)])
          planner.nodes()[size_t(idle.writer)]->control_deps.push_back(made);
    }
    latest[size_t(k)] = made;
    planned.nodes.push_back(made->id());
    if (!made->is_variable() && !Graph::ConstantOf(NodeEntry(made))) before = made;
  }
  g.SetAttr("recompute_of", std::move(again));
  g.SetAttr("planned_order", std::move(planned));
  ctx.Count("copies", copies);
}

Graph Checkpoint(Graph g, PassContext& ctx) {
  const MemoryBudget budget = ParseBudget(ctx.option<std::string>("budget"));
  const std::string cost = ctx.option<std::string>("cost");
  const double share = cost.empty() ? -1 : ParseShare(cost);
  Planner planner(g, ctx.option<int64_t>("work"));
  // The whole: there is nothing to find.
  if (share < 0 &&
      (!budget.any() || (budget.kind == MemoryBudget::Kind::kShare && budget.share >= 1)))
    return g;
  const RecomputeChoice choice = planner.Choose(budget, share);
  for (const auto& [reason, times] : planner.kept()) ctx.Count(reason, times);
  if (!choice.met) {
    const std::string message = fmt::format(
        "the budget of {} is not met: {} ({} bytes) is the least that was found, of {} without "
        "recomputation. It is held by {}; the largest step takes {}",
        FormatBytes(planner.budget()), FormatBytes(choice.plan.peak), choice.plan.peak,
        FormatBytes(planner.least_without()), Holders(planner.memory(), choice.plan),
        FormatBytes(choice.lower_bound));
    WEFT_CHECK(!ctx.option<bool>("hard"), kLimit, "{}", message);
    if (ctx.option<bool>("warn")) ctx.Warn(message);
  }
  ctx.Count("bytes_before", planner.least_without());
  ctx.Count("bytes", choice.plan.peak);
  if (choice.plan.peak >= planner.given().peak) {
    if (ctx.option<bool>("warn") && (budget.kind == MemoryBudget::Kind::kLeast || share >= 0))
      ctx.Warn("nothing that could be computed again lowers the peak");
    return g;
  }
  if (planner.given().cost > 0)
    ctx.Count("permille_added", choice.plan.extra_cost * 1000 / planner.given().cost);
  MakeCopies(g, planner, choice.plan, ctx);
  return g;
}

WEFT_REGISTER_GRAPH_ATTR(recompute_of, kGiven, NodeMap<std::string>)
    .describe("the node that this one computes again, to keep fewer bytes alive")
    .text([](const std::string& name) { return name; },
          [](const std::string& text) { return text; });

WEFT_REGISTER_PASS(Checkpoint)
    .describe("computes values again instead of keeping them, to stay within a budget of bytes")
    .set_body(Checkpoint)
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .preserve_graph_attr("value")
    .preserve_graph_attr("unknown")
    .preserve_graph_attr("layout")
    .preserve_graph_attr("subgraph")
    .preserve_graph_attr("kernel")
    .preserve_graph_attr("rtc")
    .preserve_graph_attr("device")
    .preserve_graph_attr("scratch")
    .option("budget", std::string("100%"),
            "of the arena: bytes with K, M or G, a share of what it takes without recomputation as "
            "50%, or min")
    .option("hard", false, "a budget that is not met is an error; else the least is taken")
    .option("warn", true, "say so where a budget is not met, or nothing is gained")
    .option("cost", std::string(),
            "instead: the least memory for at most so much more work, as 10%")
    .option("work", int64_t{0}, "looks at operands that the search may take; 0: thirty million")
    .statistic("copies", "nodes that run again")
    .statistic("bytes_before", "of the arena, at the sizes that plans are made for")
    .statistic("bytes", "the same with recomputation")
    .statistic("permille_added", "operations and bytes moved that were added")
    .statistic("once-effect", "nodes that run once: they write a variable, or hidden state")
    .statistic("once-draws", "nodes that run once: they draw random numbers")
    .statistic("once-sized-by-data", "nodes that run once: the size of a result depends on data")
    .statistic("once-result", "nodes that run once: one of several outputs is a result")
    .statistic("once-no-bytes", "nodes that run once: one of several outputs is not a tensor");

}  // namespace
}  // namespace weft
