/// layout_pass.cc: HsimdLayout. Every value gets a layout in the memories of the PEs, and moves
/// stand where two nodes want different ones.
///   needs      shape, dtype; static extents
///   provides   hsimd_machine, hsimd_place
///   preserves  shapes and dtypes
///   never      changes what the graph computes
///   cost       candidates^2 moves are estimated for every value, what is chosen is measured; then
///              l3/assign_layouts.h
///   source     PFN's layout planner (notation); elimination: assign_layouts.h
///
///   y = MatMul(x, w)   ->   y = MatMul(Load(x), Load(w)); Store(y)
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "../l3/assign_layouts.h"
#include "../move/estimate.h"
#include "../rules/rule.h"
#include "banks.h"
#include "l3.h"
#include "node_lowering.h"
#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

using namespace weft;

/// Moves are thought to take a part of their estimate, until they are measured: what is estimated
/// too high would never be looked at.
constexpr int64_t kHope = 2;

std::vector<int64_t> StaticDims(const Graph& g, const NodeEntry& e) {
  const Shape& shape = g.GetAttr<ShapeMap>("shape")[e];
  WEFT_CHECK(shape.is_static(), kUnsupported,
             "{}: shape {} is not static; the machine's programs are made for numbers (--bind)",
             e.node->Describe(), shape.ToString());
  return shape.ints();
}

class Planner {
 public:
  Planner(Graph g, PassContext& ctx)
      : g_(std::move(g)),
        ctx_(ctx),
        machine_(std::make_shared<Machine>(FindMachine(ctx.option<std::string>("machine")))),
        memories_(MemoriesOf(*machine_)),
        most_(size_t(ctx.option<int64_t>("candidates"))) {}

  Graph Run() {
    order_ = g_.TopoOrder();
    for (const NodePtr& n : order_) FindCandidates(n);
    for (const NodePtr& n : order_) AddValues(n);
    AddResults();
    for (Value& v : values_) FillSwitches(v);
    const LayoutChoice choice = Choose();
    ctx_.Count("candidates", int64_t(total_));
    ctx_.Count("cycles", choice.cost);
    ctx_.Count("bound", choice.bound);
    ctx_.Count("width", choice.width);
    Rewrite(choice.candidate);
    g_.SetAttr("hsimd_layout_costs", LayoutCosts{choice.cost, choice.bound});
    return std::move(g_);
  }

 private:
  struct Work {
    int node = -1;  ///< of the problem
    std::vector<LayoutCandidate> candidates;
    std::vector<ProductOperands> products;
    std::vector<bool> measured;  ///< by candidate
  };
  struct Value {
    NodeEntry entry;
    bool off_chip = false;
    std::vector<Layout> layouts;  ///< index 0 of an off-chip value, or of a result: row-major there
    std::vector<bool> dram;
    std::map<std::string, int> index;
    int problem = -1;
    std::vector<char> measured;  ///< as LayoutProblem::Value::switches
  };

  /// By the planner, or as one would do without it.
  LayoutChoice Pick() const {
    const std::string how = ctx_.option<std::string>("choice");
    LayoutChoice choice = AssignLayouts(problem_);
    if (how == "plan") return choice;
    if (how == "each")
      choice.candidate = EachNodeForItself(problem_);
    else if (how == "greedy")
      choice.candidate = GreedyInOrder(problem_);
    else if (how == "single")
      choice.candidate = BestSingleFamily(problem_);
    else if (how == "batch")
      choice.candidate = OnlyFamily(problem_, BatchFamily(*machine_));
    else
      WEFT_THROW(kUsage, "HsimdLayout: choice '{}'; known: plan, each, greedy, single, batch", how);
    choice.cost = CostOfLayouts(problem_, choice.candidate);
    return choice;
  }

  /// By estimates first; then what is chosen is measured, nodes and moves, and chosen again, until
  /// all that is chosen has been measured.
  LayoutChoice Choose() {
    NodeLowering lowering(g_, machine_);
    const int64_t rounds = ctx_.option<int64_t>("rounds");
    for (int64_t round = 0;; ++round) {
      LayoutChoice choice = Pick();
      bool changed = false;
      if (round < rounds)
        for (Value& v : values_) changed = MeasureSwitches(lowering, v, choice) || changed;
      for (auto& [id, w] : work_) {
        const size_t c = size_t(choice.candidate[size_t(w.node)]);
        if (round >= rounds || w.measured[c] || IsView(g_.node(id))) continue;
        w.measured[c] = true;
        int64_t& cost = problem_.nodes[size_t(w.node)].cost[c];
        const int64_t cycles = CyclesOf(lowering, g_.node(id), w, w.candidates[c]);
        changed = changed || cycles != cost;
        cost = cycles;
        ctx_.Count("measured");
      }
      if (!changed) return choice;
    }
  }
  /// Whether the costs of a value's moves under a choice are others than was thought.
  bool MeasureSwitches(NodeLowering& lowering, Value& v, const LayoutChoice& choice) {
    LayoutProblem::Value& p = problem_.values[size_t(v.problem)];
    const size_t n = v.layouts.size();
    const size_t from = size_t(p.made[size_t(choice.candidate[size_t(p.producer)])]);
    bool changed = false;
    for (const LayoutProblem::Reader& r : p.readers) {
      const int wanted = r.wanted[size_t(choice.candidate[size_t(r.node)])];
      if (wanted < 0 || size_t(wanted) == from) continue;
      const size_t at = from * n + size_t(wanted);
      if (v.measured.empty()) v.measured.resize(n * n);
      if (v.measured[at]) continue;
      v.measured[at] = 1;
      int64_t cycles = kNeverCost;
      try {
        cycles = lowering.MeasureMove(PlaceOf(v, from), PlaceOf(v, size_t(wanted)));
      } catch (const Error& e) {
        if (e.code() != ErrorCode::kLimit && e.code() != ErrorCode::kUnsupported &&
            e.code() != ErrorCode::kInvalidModel)
          throw;
      }
      changed = changed || cycles != p.switches[at];
      p.switches[at] = cycles;
      ctx_.Count("measured_moves");
    }
    return changed;
  }
  ValuePlace PlaceOf(const Value& v, size_t layout) const {
    const int memory = v.dram[layout] ? memories_.dram : memories_.home;
    return {machine_->memories[size_t(memory)].name, -1, v.layouts[layout]};
  }

  /// kNeverCost where there is no room for what the node computes with on its way.
  int64_t CyclesOf(NodeLowering& lowering, const NodePtr& n, const Work& w,
                   const LayoutCandidate& c) {
    try {
      return lowering.Measure(n, PlacesOf(memories_, *machine_, w.products, c));
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kLimit && e.code() != ErrorCode::kUnsupported &&
          e.code() != ErrorCode::kInvalidModel)
        throw;
      problem_.nodes[size_t(w.node)].why = e.message();
      return kNeverCost;
    }
  }

  void FindCandidates(const NodePtr& n) {
    if (LiesOffChip(n) || IsOp(n, builtin::kAssign)) return;
    Work w;
    w.candidates = IsView(n) ? ViewCandidates(n) : CandidatesOf(n);
    std::vector<LayoutCandidate> fitting;
    int64_t least = 0, room = 0;
    w.products = ProductsOf(g_, n);
    for (const MachineMemories::Bank& bank : memories_.banks) room += bank.words;
    for (LayoutCandidate& c : w.candidates) {
      int64_t words = 0;
      for (const Layout& l : c.inputs) words += Words(l);
      for (const Layout& l : c.outputs) words += Words(l);
      least = least ? std::min(least, words) : words;
      if (fitting.size() < most_ && FitsBanks(memories_, *machine_, w.products, c))
        fitting.push_back(std::move(c));
    }
    WEFT_CHECK(!fitting.empty(), kLimit,
               "{} needs {} words in every PE of machine '{}', which has {} for values",
               n->Describe(), least, machine_->name, room);
    w.candidates = std::move(fitting);
    total_ += w.candidates.size();
    w.measured.resize(w.candidates.size());
    LayoutProblem::Node p;
    p.name = n->Describe();
    for (const LayoutCandidate& c : w.candidates) {
      p.cost.push_back(c.cycles);
      p.family.push_back(c.family);
    }
    w.node = int(problem_.nodes.size());
    problem_.nodes.push_back(std::move(p));
    work_.emplace(n->id(), std::move(w));
  }

  /// Of a node that is not a view; views that it reads ask before the node itself.
  const std::vector<LayoutCandidate>& CandidatesOf(const NodePtr& n) {
    const auto [it, fresh] = asked_.try_emplace(n->id());
    if (fresh) it->second = LayoutCandidates(g_, n, *machine_);
    return it->second;
  }

  /// A view in the layouts that its operand's maker and its readers have: where digits say the
  /// result, nothing moves.
  std::vector<LayoutCandidate> ViewCandidates(const NodePtr& n) {
    const std::vector<int64_t> from = StaticDims(g_, n->inputs[0]),
                               to = StaticDims(g_, NodeEntry(n));
    std::vector<LayoutCandidate> out;
    std::set<std::string> seen;
    const auto add = [&](const Layout& in, const Layout& result) {
      if (!seen.insert(PrintLayout(in)).second) return;
      LayoutCandidate c;
      c.inputs = {in};
      c.outputs = {result};
      c.name = "view";
      out.push_back(std::move(c));
    };
    if (const auto it = work_.find(n->inputs[0].node->id()); it != work_.end())
      for (const LayoutCandidate& c : it->second.candidates)
        if (auto l = Reshape(c.outputs[n->inputs[0].index], to))
          add(c.outputs[n->inputs[0].index], *l);
    for (const Use& use : n->uses()) {
      if (use.control || !Runs(use.user)) continue;
      size_t slot = 0;
      for (uint32_t i = 0; i < use.slot; ++i) slot += use.user->inputs[i].node ? 1 : 0;
      for (const LayoutCandidate& c : CandidatesOf(use.user))
        if (auto l = Reshape(c.inputs[slot], from)) add(*l, c.inputs[slot]);
    }
    // Words in a row in one PE's memory, if nothing else.
    if (out.empty()) add(RowMajor(from), RowMajor(to));
    return out;
  }

  /// The same for layouts that need no move between them: the same places, and room for as much
  /// padding, which rules read and write.
  std::string KeyOf(const Layout& layout, bool dram) const {
    std::string key = (dram ? "D " : "") + PrintLayout(Canonical(layout, *machine_));
    for (size_t a = 0; a < layout.axes.size(); ++a) {
      int64_t padded = 1;
      for (const Digit& d : layout.axes[a]) padded *= d.size;
      if (padded != layout.shape[a]) key += fmt::format(" {}:{}", a, padded);
    }
    return key;
  }

  int LayoutIndex(Value& v, const Layout& layout, bool dram) {
    const auto [it, fresh] = v.index.emplace(KeyOf(layout, dram), int(v.layouts.size()));
    if (fresh) {
      v.layouts.push_back(layout);
      v.dram.push_back(dram);
    }
    return it->second;
  }

  Value& ValueOf(const NodeEntry& e) {
    const auto [it, fresh] = value_of_.try_emplace(e.key().packed(), values_.size());
    if (!fresh) return values_[it->second];
    Value v;
    v.entry = e;
    v.off_chip = LiesOffChip(e.node);
    LayoutProblem::Value p;
    if (v.off_chip) {
      LayoutIndex(v, OffChipLayout(e), true);
      p.producer = int(problem_.nodes.size());
      p.made = {0};
      problem_.nodes.push_back({e.node->Describe(), {0}, {0}});
    } else {
      const Work& w = work_.at(e.node->id());
      p.producer = w.node;
      for (const LayoutCandidate& c : w.candidates)
        p.made.push_back(LayoutIndex(v, c.outputs[e.index], false));
    }
    v.problem = int(problem_.values.size());
    problem_.values.push_back(std::move(p));
    values_.push_back(std::move(v));
    return values_.back();
  }

  /// The size of a result, say: it stays where it is, where shapes are inferred from it.
  static bool IsUnread(const Work& w, size_t slot) {
    const LayoutCandidate& c = w.candidates[0];
    return slot < c.unread.size() && c.unread[slot];
  }

  Layout OffChipLayout(const NodeEntry& e) const {
    if (!IsOp(e.node, kSlice)) return RowMajor(StaticDims(g_, e));
    return PartLayout(StaticDims(g_, e.node->inputs[0]), e.node->attr<int64_t>("axis"),
                      e.node->attr<int64_t>("start"), e.node->attr<int64_t>("size"));
  }
  /// Where a Join has each of its inputs.
  std::vector<Layout> PartsOf(const NodePtr& join) const {
    std::vector<Layout> parts;
    const int64_t axis = join->attr<int64_t>("axis");
    int64_t start = 0;
    for (const NodeEntry& e : join->inputs) {
      const int64_t size = StaticDims(g_, e)[size_t(axis)];
      parts.push_back(PartLayout(StaticDims(g_, NodeEntry(join)), axis, start, size));
      start += size;
    }
    return parts;
  }

  void AddValues(const NodePtr& n) {
    if (IsOp(n, kJoin)) {
      const std::vector<Layout>& parts = parts_[n->id()] = PartsOf(n);
      for (uint32_t i = 0; i < n->num_inputs(); ++i)
        AddResult(n->inputs[i], parts[i], "part of " + n->Describe());
    }
    if (IsOp(n, kSlice)) ValueOf(n->inputs[0]);  // the whole lies somewhere, too
    if (LiesOffChip(n)) return;
    if (IsOp(n, builtin::kAssign)) {
      ValueOf(n->inputs[0]);
      AddResult(n->inputs[1], RowMajor(StaticDims(g_, n->inputs[1])), n->Describe());
      return;
    }
    const Work& w = work_.at(n->id());
    size_t slot = 0;
    for (const NodeEntry& e : n->inputs) {
      if (!e.node) continue;
      if (slot > 0 && IsView(n)) break;  // the target of a Reshape
      if (IsUnread(w, slot)) {
        ++slot;
        continue;
      }
      Value& v = ValueOf(e);
      LayoutProblem::Reader reader;
      reader.node = w.node;
      for (const LayoutCandidate& c : w.candidates)
        reader.wanted.push_back(LayoutIndex(v, c.inputs[slot], false));
      problem_.values[size_t(v.problem)].readers.push_back(std::move(reader));
      ++slot;
    }
    for (uint32_t i = 0; i < n->num_outputs(); ++i) ValueOf(NodeEntry(n, i));
  }

  void AddResults() {
    for (const NodeEntry& e : g_.outputs)
      if (!IsEmpty(e)) AddResult(e, RowMajor(StaticDims(g_, e)), "result of " + e.node->Describe());
  }
  /// Nothing lies anywhere of it.
  bool IsEmpty(const NodeEntry& e) const {
    const std::vector<int64_t> dims = StaticDims(g_, e);
    return std::count(dims.begin(), dims.end(), 0) > 0;
  }
  /// Something that wants a value off chip.
  void AddResult(const NodeEntry& e, const Layout& layout, std::string name) {
    Value& v = ValueOf(e);
    const int dram = LayoutIndex(v, layout, true);
    LayoutProblem::Reader reader;
    reader.node = int(problem_.nodes.size());
    reader.wanted = {dram};
    problem_.nodes.push_back({std::move(name), {0}, {0}});
    problem_.values[size_t(v.problem)].readers.push_back(std::move(reader));
  }

  void FillSwitches(Value& v) {
    LayoutProblem::Value& p = problem_.values[size_t(v.problem)];
    const size_t n = v.layouts.size();
    p.layouts = int(n);
    p.switches.assign(n * n, kNeverCost);
    std::vector<char> wanted(n);
    for (const LayoutProblem::Reader& r : p.readers)
      for (const int l : r.wanted) wanted[size_t(l)] = 1;
    std::vector<char> made(n);
    for (const int l : p.made) made[size_t(l)] = 1;
    const auto at = [&](size_t l) {
      return TensorAt{v.dram[l] ? memories_.dram : memories_.home, 0, v.layouts[l]};
    };
    for (size_t a = 0; a < n; ++a)
      for (size_t b = 0; b < n; ++b)
        if (a == b || (made[a] && wanted[b]))
          p.switches[a * n + b] =
              a == b ? 0 : std::min(EstimateMove(*machine_, at(a), at(b)) / kHope, kNeverCost);
  }

  void Rewrite(const std::vector<int>& choice) {
    PlaceMap places;
    const std::string home = machine_->memories[size_t(memories_.home)].name;
    const std::string dram = machine_->memories[size_t(memories_.dram)].name;
    for (const Value& v : values_) {
      if (v.off_chip) {
        places.set(v.entry, {dram, -1, v.layouts[0]});
      } else {
        const Work& w = work_.at(v.entry.node->id());
        places.set(v.entry,
                   {home, -1, w.candidates[size_t(choice[size_t(w.node)])].outputs[v.entry.index]});
      }
    }
    std::map<std::pair<uint64_t, std::string>, NodeEntry> moved;
    const auto in_layout = [&](const NodeEntry& e, const Layout& layout,
                               bool to_dram) -> NodeEntry {
      const ValuePlace& now = *places.find(e);
      const bool in_dram = now.memory == dram;
      const std::string key = KeyOf(layout, to_dram);
      if (in_dram == to_dram && (to_dram || KeyOf(now.layout, to_dram) == key)) return e;
      NodeEntry& twin = moved[{e.key().packed(), key}];
      if (!twin) {
        const char* op = in_dram ? kLoad : to_dram ? kStore : kSwitch;
        twin = NodeEntry(g_.AddNode(op, {e}));
        g_.SetOrigin(twin.node, e.node->origin());
        places.set(twin, {to_dram ? dram : home, -1, layout});
        ctx_.Count(in_dram ? "loads" : to_dram ? "stores" : "switches");
      }
      return twin;
    };
    for (const NodePtr& n : order_) {
      if (IsOp(n, kJoin)) {
        const std::vector<Layout>& parts = parts_.at(n->id());
        for (uint32_t i = 0; i < n->num_inputs(); ++i)
          g_.SetInput(n, i, in_layout(n->inputs[i], parts[i], true));
      }
      if (LiesOffChip(n)) continue;
      if (IsOp(n, builtin::kAssign)) {
        const NodeEntry store(g_.AddNode(kStore, {n->inputs[1]}));
        g_.SetOrigin(store.node, n->inputs[1].node->origin());
        places.set(store, *places.find(n->inputs[0]));
        places.set(NodeEntry(n), *places.find(n->inputs[0]));
        g_.SetInput(n, 1, store);
        ctx_.Count("stores");
        continue;
      }
      const Work& w = work_.at(n->id());
      const LayoutCandidate& c = w.candidates[size_t(choice[size_t(w.node)])];
      size_t slot = 0;
      for (uint32_t i = 0; i < n->num_inputs(); ++i) {
        const NodeEntry e = n->inputs[i];
        if (!e.node) continue;
        if (slot > 0 && IsView(n)) break;
        if (IsUnread(w, slot)) {
          ++slot;
          continue;
        }
        const NodeEntry twin = in_layout(e, c.inputs[slot++], false);
        if (twin != e) g_.SetInput(n, i, twin);
      }
    }
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      const NodeEntry e = g_.outputs[i];
      if (!places.find(e)) continue;  // it has no elements
      const std::string name = g_.OutputName(i);
      const NodeEntry twin = in_layout(e, RowMajor(places.find(e)->layout.shape), true);
      if (twin != e) g_.outputs.set(i, twin);
      g_.SetOutputName(i, name);
    }
    AssignBanks(g_, memories_, *machine_, &places);
    g_.SetAttr("hsimd_machine", MachinePtr(machine_));
    g_.SetAttr("hsimd_place", std::move(places));
  }

  Graph g_;
  PassContext& ctx_;
  MachinePtr machine_;
  MachineMemories memories_;
  size_t most_, total_ = 0;
  std::vector<NodePtr> order_;
  std::map<NodeId, Work> work_;
  std::map<NodeId, std::vector<LayoutCandidate>> asked_;
  std::deque<Value> values_;
  std::unordered_map<uint64_t, size_t> value_of_;
  std::map<NodeId, std::vector<Layout>> parts_;  ///< of a Join: where it has its inputs
  LayoutProblem problem_;
};

WEFT_REGISTER_PASS(HsimdLayout)
    .describe("gives every value a layout on a machine, and moves it where layouts differ")
    .set_body([](Graph g, PassContext& ctx) { return Planner(std::move(g), ctx).Run(); })
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .provide_graph_attr("hsimd_machine")
    .provide_graph_attr("hsimd_place")
    .provide_graph_attr("hsimd_layout_costs")
    .option("machine", kDefaultMachine, "a built-in machine or a file")
    .option("rounds", int64_t{24}, "of measuring what is chosen and choosing again; 0: estimates")
    .option("candidates", kMostPlanned, "of each node, the cheapest")
    .option("choice", "plan",
            "plan; to compare with: each (node for itself), greedy, single (the best layout for "
            "all), batch (axis 0 over all levels)")
    .statistic("candidates", "layouts of nodes among which it chose")
    .statistic("measured", "of them, lowered to count their cycles")
    .statistic("measured_moves", "moves between layouts, planned to count their cycles")
    .statistic("cycles", "of nodes and moves, one after another")
    .statistic("bound", "no choice costs less")
    .statistic("width", "nodes that the choice has to remember at once, at most")
    .statistic("loads", "moves from off chip")
    .statistic("stores", "moves to off chip")
    .statistic("switches", "moves between layouts");

}  // namespace
}  // namespace hsimd
