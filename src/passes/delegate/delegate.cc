/// delegate.cc: Delegate. Parts of the graph that engines take become weft::Delegated nodes
/// (core/module/delegate.h).
///   needs      shape, dtype, value
///   provides   -
///   preserves  -
///   never      takes a node with an effect or a draw, a result whose size data decide
///   cost       linear in nodes and edges; choice=auto: cuts of a network of that size
///   source     the levels of Fusion; PyTorch's and ONNX Runtime's partitioners
///
///   y = Conv(x, w); z = Relu(y); i = NonZero(z)  ->  z = Delegated(x) {Conv, Relu}; i = NonZero(z)
///
/// Every node has a side: one of the engines, or ours. Along an edge between two sides the level
/// rises by one, so a path that leaves a side comes back on a higher level: nodes of one side and
/// one level never wait for each other through a third, and those of them that touch are a region.
/// Constants go into each region that reads them, and so do the small tensors that inference
/// follows (targets of Reshape): computing them again costs nothing, and a region that waited for a
/// shape of its own would wait for itself.
#include "weft/core/module/delegate.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "sides.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"
#include "weft/core/plan/storage.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// Finds the smaller of two.
class Components {
 public:
  explicit Components(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }
  int Find(int i) {
    while (parent_[size_t(i)] != i) i = parent_[size_t(i)] = parent_[size_t(parent_[size_t(i)])];
    return i;
  }
  void Join(int a, int b) {
    a = Find(a), b = Find(b);
    parent_[size_t(std::max(a, b))] = std::min(a, b);
  }

 private:
  std::vector<int> parent_;
};

class Divider {
 public:
  Divider(Graph g, PassContext& ctx)
      : g_(std::move(g)),
        ctx_(ctx),
        engines_(ParseDelegates(ctx.option<std::string>("to"))),
        shapes_(g_.GetAttr<ShapeMap>("shape")),
        types_(g_.GetAttr<TypeMap>("dtype")),
        values_(g_.GetAttr<ValueMap>("value")),
        facts_(g_.AttrOr<Facts>("facts")),
        order_(g_.TopoOrder()),
        place_(g_.id_bound()) {
    auto only = ctx.option<std::string>("only");
    std::replace(only.begin(), only.end(), ',', ';');
    for (const std::string& op : Split(only, ';'))
      if (!Trim(op).empty()) only_.emplace_back(Trim(op));
  }

  Graph Run() {
    if (engines_.empty()) return std::move(g_);
    for (size_t i = 0; i < order_.size(); ++i) place_[order_[i]->id()].at = int(i);
    for (const NodePtr& p : g_.AllInputs())
      for (SymInt d : shapes_[NodeEntry(p)].dims())
        if (d.known() && d.is_symbol()) told_.try_emplace(d, NodeEntry(p));
    FindCandidates();
    ChooseSides();
    FindLevels();
    MakeRegions();
    for (const auto& [from, to] : results_) g_.ReplaceUses(from, to);
    for (const auto& [region, origin] : origins_) g_.SetOrigin(region, origin);
    for (const NodePtr& n : order_)
      if (place_[n->id()].taken) MoveControlEdges(n, region_of_);
    g_.EraseDead();
    return std::move(g_);
  }

 private:
  static constexpr int kOurs = kOursSide;
  struct Place {
    int at = 0;  ///< in the order
    int side = kOurs, piece = 0, level = 0;
    bool given = false;     ///< a variable or a constant
    bool followed = false;  ///< a small tensor that inference follows: computed wherever it is read
    bool taken = false;     ///< by a region
    int copied_for = 0;     ///< the latest region that holds a copy
    NodePtr copy;           ///< in it
    /// Of a followed one: the level at which a node of each side that reads it may stand; ours
    /// last.
    std::vector<int> ready;
  };
  Place& PlaceOf(const NodePtr& n) { return place_[n->id()]; }

  // ---- who may take a node ----

  bool HasPlace(const NodeEntry& e) const {
    return HasArenaPlace(types_[e]) && shapes_[e].fully_known();
  }
  bool IsFollowed(const NodePtr& n) const {
    if (n->num_outputs() != 1 || !n->control_deps.empty()) return false;
    const SymTensorPtr* v = values_.find(NodeEntry(n));
    return v && *v && (*v)->fully_known() && !HasEffect(n) && !DrawsAnew(n);
  }
  /// Is a size of its results one that data decide, and that is not among its operands' either?
  bool FindsSizes(const NodePtr& n) const {
    std::vector<SymInt> unbacked;
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      for (SymInt d : shapes_[NodeEntry(n, i)].dims())
        if (!d.is_const())
          for (SymInt s : d.Symbols())
            if (s.is_unbacked()) unbacked.push_back(s);
    if (unbacked.empty()) return false;
    std::unordered_set<SymInt> known;
    for (const NodeEntry& e : n->inputs)
      if (e.node)
        for (SymInt d : shapes_[e].dims())
          for (SymInt s : d.Symbols()) known.insert(s);
    return std::any_of(unbacked.begin(), unbacked.end(),
                       [&](SymInt s) { return known.count(s) == 0; });
  }
  bool MayMove(const NodePtr& n) const {
    if (HasEffect(n) || DrawsAnew(n)) return false;
    if (IsOp(n, builtin::kDelegated) || IsOp(n, builtin::kFused) || IsOp(n, builtin::kRegion))
      return false;
    if (!only_.empty() && std::find(only_.begin(), only_.end(), n->op()->name) == only_.end() &&
        std::find(only_.begin(), only_.end(), BareName(n->op()->name)) == only_.end())
      return false;
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      if (!HasPlace(NodeEntry(n, i))) return false;
    return std::all_of(n->inputs.begin(), n->inputs.end(),
                       [&](const NodeEntry& e) { return !e.node || HasPlace(e); }) &&
           !FindsSizes(n);
  }
  /// "weft::ConvGradData" -> "ConvGradData"
  static std::string BareName(const std::string& op) {
    const size_t colons = op.rfind("::");
    return colons == std::string::npos ? op : op.substr(colons + 2);
  }
  void FindCandidates() {
    candidates_.resize(order_.size());
    for (const DelegateSpec& e : engines_)
      e.delegate->Version();  // opens it, or says what is missing
    for (size_t i = 0; i < order_.size(); ++i) {
      const NodePtr& n = order_[i];
      Place& p = PlaceOf(n);
      p.given = n->is_variable() || Graph::ConstantOf(NodeEntry(n)) != nullptr;
      p.followed = !p.given && IsFollowed(n);
      if (p.given || p.followed || !MayMove(n)) continue;
      for (size_t k = 0; k < engines_.size(); ++k) {
        const std::string why = engines_[k].delegate->WhyNot(g_, n, engines_[k].options);
        if (why.empty()) candidates_[i].push_back(int(k));
      }
      ctx_.Count(candidates_[i].empty() ? "refused" : "supported");
    }
  }

  // ---- sides ----

  /// The number behind `name` and a colon in the option; nothing: it is another choice.
  static std::optional<int64_t> NumberIn(const std::string& choice, const std::string& name) {
    if (choice.rfind(name + ":", 0) != 0) return std::nullopt;
    return TryParseInt64(choice.substr(name.size() + 1));
  }
  void ChooseSides() {
    const auto choice = ctx_.option<std::string>("choice");
    std::vector<bool> follows(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) follows[i] = PlaceOf(order_[i]).followed;
    DivisionCosts costs(g_, order_, follows);
    std::vector<int> sides(order_.size(), kOurs);
    for (size_t i = 0; i < order_.size(); ++i)
      if (!candidates_[i].empty()) sides[i] = candidates_[i].front();
    if (const auto pieces = NumberIn(choice, "all"); pieces && *pieces > 0) {
      Cut(EqualPieces(&costs, candidates_, *pieces));
    } else if (const auto parts = NumberIn(choice, "alternate"); parts && *parts > 0) {
      const std::vector<int> piece = EqualPieces(&costs, candidates_, *parts);
      for (size_t i = 0; i < order_.size(); ++i)
        if (piece[i] % 2 == 0) sides[i] = kOurs;
    } else if (const auto seed = NumberIn(choice, "random"); seed || choice == "random") {
      std::mt19937_64 rng{uint64_t(seed ? *seed : ctx_.option<int64_t>("seed"))};
      for (size_t i = 0; i < order_.size(); ++i) {
        if (candidates_[i].empty()) continue;
        const size_t pick = size_t(rng() % (candidates_[i].size() + 1));
        sides[i] = pick == 0 ? kOurs : candidates_[i][pick - 1];
      }
    } else if (choice != "all") {
      WEFT_CHECK(choice == "auto", kUsage,
                 "choice is all, all:PIECES, alternate:PIECES, auto, random or random:SEED, not "
                 "'{}'",
                 choice);
      sides = CheapestSides(&costs, candidates_, engines_.size());
    }
    int64_t left = ctx_.option<int64_t>("most");
    for (size_t i = 0; i < order_.size(); ++i) {
      Place& p = PlaceOf(order_[i]);
      p.side = sides[i];
      if (p.side != kOurs && (left == 0 || !ctx_.Fuel("delegate", order_[i]))) p.side = kOurs;
      if (p.side != kOurs && left > 0) --left;
    }
    if (g_.HasAttr("delegate_costs")) CountCosts(&costs);
  }
  void Cut(const std::vector<int>& pieces) {
    for (size_t i = 0; i < order_.size(); ++i) PlaceOf(order_[i]).piece = pieces[i];
    cut_ = true;
  }
  static SidePiece PieceOf(const Place& p) { return {p.side, p.side == kOurs ? 0 : p.piece}; }
  void CountCosts(DivisionCosts* costs) {
    std::vector<SidePiece> pieces;
    for (const NodePtr& n : order_) pieces.push_back(PieceOf(PlaceOf(n)));
    const DivisionCosts::Sum sum = costs->SumOf(pieces);
    ctx_.Count("nodes_ns", int64_t(1000 * sum.nodes_us));
    ctx_.Count("border_tensors", sum.tensors);
    ctx_.Count("border_bytes", sum.bytes);
  }
  /// The level at which a node of the side and piece may stand as far as one of its operands says.
  int ReadyFor(const SidePiece& reader, const NodePtr& operand) {
    const Place& p = PlaceOf(operand);
    if (p.given) return 0;
    if (p.followed)
      return p.ready[size_t(reader.side == kOurs ? int(engines_.size()) : reader.side)];
    return p.level + (PieceOf(p) != reader);
  }
  void FindLevels() {
    for (const NodePtr& n : order_) {
      Place& p = PlaceOf(n);
      if (p.given) continue;
      const auto level_of = [&](const SidePiece& reader) {
        int level = 0;
        for (const NodeEntry& e : n->inputs)
          if (e.node) level = std::max(level, ReadyFor(reader, e.node));
        for (const Node* d : n->control_deps)
          level = std::max(level, ReadyFor(reader, g_.node(d->id())));
        return level;
      };
      if (!p.followed) {
        p.level = level_of(PieceOf(p));
        continue;
      }
      // Where there are pieces, of one that nobody has: for none is it earlier.
      for (int k = 0; k < int(engines_.size()); ++k)
        p.ready.push_back(level_of({k, cut_ ? -1 : 0}));
      p.ready.push_back(level_of({kOurs, 0}));
    }
  }

  // ---- regions ----

  void MakeRegions() {
    Components together(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) {
      const Place& p = PlaceOf(order_[i]);
      if (p.side == kOurs) continue;
      for (const NodeEntry& e : order_[i]->inputs) {
        if (!e.node) continue;
        const Place& q = PlaceOf(e.node);
        if (q.side == p.side && q.level == p.level) together.Join(int(i), q.at);
      }
    }
    std::unordered_map<int, std::vector<NodePtr>> members;
    std::vector<int> firsts;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (PlaceOf(order_[i]).side == kOurs) continue;
      const int first = together.Find(int(i));
      if (members[first].empty()) firsts.push_back(first);
      members[first].push_back(order_[i]);
    }
    for (const int first : firsts) MakeRegion(members.at(first));
  }

  struct Region {
    int number = 0;  ///< from 1
    Graph body;
    std::vector<NodeEntry> operands;
    std::unordered_map<EntryKey, NodeEntry> inputs;  ///< by entry of the whole graph
    ShapeMap shapes;                                 ///< of the body, as they are outside
    TypeMap types;
    std::unordered_set<SymInt> symbols;  ///< that its shapes mention
  };
  bool IsInside(const Region& r, NodeId n) const { return place_[n].copied_for == r.number; }
  /// What is known of an entry of the body.
  NodeEntry Know(Region* r, const NodeEntry& outside, const NodeEntry& inside) {
    r->shapes.set(inside, shapes_[outside]);
    r->types.set(inside, types_[outside]);
    for (SymInt d : shapes_[outside].dims())
      if (d.known() && !d.is_const())
        for (SymInt s : d.Symbols()) r->symbols.insert(s);
    return inside;
  }
  NodeEntry Inside(Region* r, const NodeEntry& e) {
    if (IsInside(*r, e.node->id())) return NodeEntry(PlaceOf(e.node).copy, e.index);
    if (const TensorPtr constant = Graph::ConstantOf(e)) {
      const NodeEntry inside = r->body.AddConstant(constant, e.node->attrs.name);
      SetCopy(r, e.node, inside.node);
      return Know(r, e, inside);
    }
    if (PlaceOf(e.node).followed) return Followed(r, e);
    if (const auto it = r->inputs.find(e.key()); it != r->inputs.end()) return it->second;
    const NodePtr input =
        r->body.AddInput(fmt::format("x{}", r->operands.size()), types_[e], shapes_[e]);
    r->operands.push_back(e);
    r->inputs.emplace(e.key(), input);
    return Know(r, e, NodeEntry(input));
  }
  /// A copy of a followed tensor, operands first.
  NodeEntry Followed(Region* r, const NodeEntry& e) {
    std::vector<NodePtr> stack{e.node};
    while (!stack.empty()) {
      const NodePtr n = stack.back();
      bool ready = true;
      for (const NodeEntry& in : n->inputs) {
        if (!in.node || IsInside(*r, in.node->id()) || !PlaceOf(in.node).followed) continue;
        stack.push_back(in.node);
        ready = false;
      }
      if (!ready) continue;
      stack.pop_back();
      if (!IsInside(*r, n->id())) Copy(r, n);
    }
    return NodeEntry(PlaceOf(e.node).copy, e.index);
  }
  void SetCopy(const Region* r, const NodePtr& n, const NodePtr& copy) {
    Place& p = PlaceOf(n);
    p.copied_for = r->number;
    p.copy = copy;
  }
  void Copy(Region* r, const NodePtr& n) {
    std::vector<NodeEntry> inputs;
    for (const NodeEntry& e : n->inputs) inputs.push_back(e.node ? Inside(r, e) : NodeEntry());
    const NodePtr copy = r->body.AddCopy(n, inputs);
    SetCopy(r, n, copy);
    for (uint32_t i = 0; i < n->num_outputs(); ++i) Know(r, NodeEntry(n, i), NodeEntry(copy, i));
  }
  /// Inputs that nothing in the region reads, but for what sizes in it depend on: each symbol has
  /// to be a dimension of some input.
  void AddSizes(Region* r) {
    if (r->symbols.empty()) return;
    std::unordered_set<SymInt> told;
    for (const NodePtr& p : r->body.inputs())
      for (SymInt d : r->shapes[NodeEntry(p)].dims())
        if (d.known() && d.is_symbol()) told.insert(d);
    for (SymInt s : Sorted(r->symbols))
      if (told_.count(s) && !told.count(s)) Inside(r, told_.at(s));
  }
  static std::vector<SymInt> Sorted(const std::unordered_set<SymInt>& symbols) {
    std::vector<SymInt> all(symbols.begin(), symbols.end());
    std::sort(all.begin(), all.end(),
              [](SymInt a, SymInt b) { return a.symbol_name() < b.symbol_name(); });
    return all;
  }
  void MakeRegion(const std::vector<NodePtr>& nodes) {
    Region r;
    r.number = ++regions_;
    for (const NodePtr& n : nodes) Copy(&r, n);
    AddSizes(&r);
    std::vector<NodeEntry> given;
    for (const NodePtr& n : nodes) PlaceOf(n).taken = true;
    for (const NodePtr& n : nodes)
      for (uint32_t i = 0; i < n->num_outputs(); ++i)
        if (IsReadOutside(r, NodeEntry(n, i))) given.emplace_back(n, i);
    for (size_t k = 0; k < given.size(); ++k) {
      r.body.outputs.push_back(Inside(&r, given[k]));
      r.body.SetOutputName(k, fmt::format("y{}", k));
    }
    r.body.SetAttr("shape", std::move(r.shapes));
    r.body.SetAttr("dtype", std::move(r.types));
    if (!r.symbols.empty())
      if (Facts about = facts_.About(Sorted(r.symbols)); !about.empty())
        r.body.SetAttr("facts", std::move(about));
    if (given.empty() || !TellsItsSizes(r.body)) {
      for (const NodePtr& n : nodes) PlaceOf(n).taken = false;
      return ctx_.Count("left");
    }
    const DelegateSpec& engine = engines_[size_t(PlaceOf(nodes[0]).side)];
    const NodePtr region =
        g_.AddNode(builtin::kDelegated, r.operands,
                   {{"body", GraphPtr(std::make_shared<const Graph>(std::move(r.body)))},
                    {"delegate", engine.ToString()}});
    origins_.emplace_back(region, OriginOf(nodes));
    for (const NodePtr& n : nodes) region_of_[n->id()] = region;
    ctx_.Count("regions");
    ctx_.Count("nodes", int64_t(nodes.size()));
    for (size_t k = 0; k < given.size(); ++k)
      results_.emplace_back(given[k], NodeEntry(region, uint32_t(k)));
  }
  static Origin OriginOf(const std::vector<NodePtr>& nodes) {
    std::vector<std::string> names;
    std::unordered_set<std::string_view> seen;
    names.reserve(nodes.size()), seen.reserve(nodes.size());
    const auto add = [&](const std::string& name) {
      if (!name.empty() && seen.insert(name).second) names.push_back(name);
    };
    for (const NodePtr& n : nodes) {
      if (!n->origin()) add(n->attrs.name);
      if (n->origin())
        for (const std::string& name : *n->origin()) add(name);
    }
    return std::make_shared<const std::vector<std::string>>(std::move(names));
  }
  bool IsReadOutside(const Region& r, const NodeEntry& e) const {
    for (const Use& u : e.node->uses()) {
      if (u.control || !(u.user->inputs[u.slot] == e)) continue;
      if (u.user->id() >= place_.size()) return true;  // a region
      // A followed one is computed in the region as well, and outside if anybody reads it there.
      if (!IsInside(r, u.user->id()) || place_[u.user->id()].followed) return true;
    }
    return g_.is_output(e.node) && std::any_of(g_.outputs.begin(), g_.outputs.end(),
                                               [&](const NodeEntry& out) { return out == e; });
  }

  Graph g_;
  PassContext& ctx_;
  const std::vector<DelegateSpec> engines_;
  const ShapeMap shapes_;
  const TypeMap types_;
  const ValueMap values_;
  const Facts facts_;
  const std::vector<NodePtr> order_;
  std::vector<Place> place_;                  // by node id
  std::vector<std::vector<int>> candidates_;  // by place in the order: engines that may take it
  std::vector<std::string> only_;
  std::unordered_map<SymInt, NodeEntry> told_;  ///< inputs by what they are a dimension of
  std::vector<std::pair<NodeEntry, NodeEntry>> results_;
  std::vector<std::pair<NodePtr, Origin>> origins_;
  std::unordered_map<NodeId, NodePtr> region_of_;  ///< of what is taken
  int regions_ = 0;
  bool cut_ = false;  ///< in pieces
};

Graph DelegatePass(Graph g, PassContext& ctx) { return Divider(std::move(g), ctx).Run(); }

WEFT_REGISTER_GRAPH_ATTR(delegate_costs, kGiven, NodeMap<Floats>)
    .describe(
        "measured microseconds of a node: here, then with each delegate of the pass Delegate in "
        "its order; negative: not measured");

WEFT_REGISTER_GRAPH_ATTR(delegate_border_costs, kGiven, Floats)
    .describe(
        "measured microseconds of a tensor that crosses a border of a division made by the pass "
        "Delegate, and those for a MiB of it");

WEFT_REGISTER_PASS(Delegate)
    .describe("parts of the graph that other engines run become weft::Delegated nodes")
    .set_body(DelegatePass)
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("value")
    .enters_bodies()
    .keeps_onnx()
    .option("to", "", "delegates in order of preference, as in openvino:streams=2;libtorch")
    .option("choice", "all",
            "all: every node that a delegate takes, by the first that does; all:PIECES: cut in "
            "consecutive pieces; alternate:PIECES: every other piece; auto: the cheapest division; "
            "random, random:SEED: each node by one that takes it or by none")
    .option("only", "", "operators that may be given away, as in Conv;MatMul; empty: all")
    .option("most", int64_t{-1}, "nodes that are given away, the first ones; -1: all that may be")
    .option("seed", int64_t{1}, "of choice=random")
    .statistic("supported", "nodes that a delegate takes")
    .statistic("refused", "nodes that none takes")
    .statistic("regions", "made")
    .statistic("nodes", "in regions")
    .statistic("nodes_ns", "that all nodes take by delegate_costs, where the graph has them")
    .statistic("border_tensors", "that cross borders, of such a graph")
    .statistic("border_bytes", "that cross borders, of such a graph")
    .statistic("left", "regions that were not made, since a size in them could not be told")
    .rewrite("delegate", "a node that is given away");

}  // namespace
}  // namespace weft
