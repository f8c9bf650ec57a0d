/// split_regions.cc: SplitRegions. Where sizes depend on data, or tensors have no place in an
/// arena, one plan cannot hold the graph: what can be planned together becomes a weft::Region, and
/// the nodes that tell sizes stand between.
///   needs      shape, value
///   provides   -
///   preserves  -
///   never      changes what is computed; leaves a node out of a region for its kind
///   cost       linear in nodes, times the longest chain of nodes that tell sizes
///   source     XLA's regions between dynamic shapes; torch.export's unbacked sizes
///
///   y = Relu(x); i = NonZero(y); z = Exp(Gather(y, i))
///     ->  y = Region(x) {Relu};  i = NonZero(y);  z = Region(y, i) {Gather, Exp}
///
/// A size has a time: those of the graph's inputs are there first, one that a node gives its result
/// when that node has run. Each node goes to the first region at which all sizes in it are there.
/// Where values of small operands tell a size (TSizeOperands), the node itself is no border: a
/// weft::Sizes stands there, and the node goes to the region behind it.
///
/// A body is a graph of its own over the same symbols. Each that it mentions is a dimension of some
/// input; where no operand has it as such, one is added that nothing reads.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"
#include "weft/core/pass/provide.h"
#include "weft/core/plan/storage.h"

namespace weft {
namespace {

constexpr int kNever = INT32_MAX;

/// Where a node goes. Regions and what stands between them are numbered alike: region k, then the
/// nodes between k and k + 1.
struct Place {
  int level = kNever;
  bool in_region = false;
};

class Splitter {
 public:
  Splitter(Graph g, PassContext& ctx)
      : g_(std::move(g)),
        ctx_(ctx),
        shapes_(g_.GetAttr<ShapeMap>("shape")),
        types_(g_.GetAttr<TypeMap>("dtype")),
        values_(g_.GetAttr<ValueMap>("value")),
        unbacked_(g_.AttrOr<NodeMap<Ints>>("unbacked")),
        facts_(g_.AttrOr<Facts>("facts")),
        resolved_(g_.AttrOr<Facts>("resolved")),
        order_(g_.TopoOrder()),
        places_(g_.id_bound()) {}

  Graph Run() {
    FindPlaces();
    const bool late = std::any_of(order_.begin(), order_.end(), [&](const NodePtr& n) {
      return !IsGiven(n) && !places_[n->id()].in_region;
    });
    if (!late && last_level_ == 0) return std::move(g_);
    AddSizes();
    for (int level = 0; level <= last_level_; ++level) AddRegion(level);
    for (const auto& [from, to] : results_) g_.ReplaceUses(from, to);
    for (const NodePtr& n : order_)
      if (region_of_.count(n->id())) MoveControlEdges(n, region_of_);
    for (auto n = order_.rbegin(); n != order_.rend(); ++n)
      if (region_of_.count((*n)->id())) g_.Erase(*n);
    g_.EraseDead();
    return std::move(g_);
  }

 private:
  static bool IsGiven(const NodePtr& n) {
    return n->is_variable() || Graph::ConstantOf(NodeEntry(n));
  }
  // ---- where each node goes ----

  void FindPlaces() {
    for (const NodePtr& p : g_.AllInputs())
      for (SymInt d : shapes_[NodeEntry(p)].dims())
        if (d.known() && d.is_symbol()) TellAt(d, 0, NodeEntry(p));
    for (const NodePtr& n : order_)
      if (IsGiven(n)) places_[n->id()] = {0, HasArenaPlace(types_[NodeEntry(n)])};
    // A size may be told by a node that stands behind those that mention it: weft::ShapeTensor.
    for (bool moved = true, last = false; moved || !last;) {
      last = !moved;  // nothing tells what is still missing
      moved = false;
      for (const NodePtr& n : order_)
        if (places_[n->id()].level == kNever) moved = TryPlace(n, last) || moved;
    }
  }
  bool TryPlace(const NodePtr& n, bool anyhow) {
    int level = 0;
    for (const NodeEntry& e : n->inputs)
      if (e.node) level = std::max(level, ReadyAt(e.node));
    for (const Node* d : n->control_deps) level = std::max(level, ReadyAt(g_.node(d->id())));
    if (level == kNever) return false;
    bool plannable = true;
    for (const NodeEntry& e : n->inputs) plannable = plannable && (!e.node || HasPlace(e));
    std::vector<SymInt> own;  // sizes that begin here
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      const NodeEntry e(n, i);
      plannable = plannable && HasPlace(e);
      for (SymInt symbol : SymbolsOf(e)) {
        const auto told = told_.find(symbol);
        if (told != told_.end()) {
          level = std::max(level, told->second.level);
        } else if (BeginsAt(n, symbol)) {
          if (std::find(own.begin(), own.end(), symbol) == own.end()) own.push_back(symbol);
        } else if (anyhow) {
          plannable = false;
        } else {
          return false;
        }
      }
    }
    const bool by_values = plannable && !own.empty() && SizesAreTold(n);
    if (by_values) sized_.emplace_back(n, own);
    const bool between = !plannable || (!own.empty() && !by_values);
    for (SymInt symbol : own) TellAt(symbol, level + 1, by_values ? NodeEntry() : Bare(n, symbol));
    // A node between two regions reads what the one before it gives.
    places_[n->id()] = {by_values ? level + 1 : level, !between};
    last_level_ = std::max(last_level_, places_[n->id()].level);
    return true;
  }
  /// The first region that can read its results.
  int ReadyAt(const NodePtr& n) const {
    const Place& p = places_[n->id()];
    return p.level == kNever || p.in_region || IsGiven(n) ? p.level : p.level + 1;
  }
  bool HasPlace(const NodeEntry& e) const {
    return HasArenaPlace(types_[e]) && shapes_[e].fully_known();
  }
  std::vector<SymInt> SymbolsOf(const NodeEntry& e) const {
    std::vector<SymInt> all;
    const auto add = [&all](SymInt d) {
      if (!d.known() || d.is_const()) return;
      for (SymInt s : d.Symbols())
        if (std::find(all.begin(), all.end(), s) == all.end()) all.push_back(s);
    };
    if (const Shape* s = shapes_.find(e))
      for (SymInt d : s->dims()) add(d);
    if (const SymTensorPtr* v = values_.find(e); v && *v)
      for (SymInt d : (*v)->elements) add(d);
    return all;
  }
  bool BeginsAt(const NodePtr& n, SymInt symbol) const {
    const Ints* numbers = unbacked_.find(n);
    const auto is_it = [&](int64_t k) {
      return k >= 0 && resolved_.Simplify(SymInt::Unbacked(k)) == symbol;
    };
    return numbers && symbol.is_unbacked() && std::any_of(numbers->begin(), numbers->end(), is_it);
  }
  bool SizesAreTold(const NodePtr& n) const {
    static const auto& operands = Op::GetAttr<TSizeOperands>("TSizeOperands");
    return operands.find(n->op()) != nullptr;
  }
  /// An output of `n` that has the symbol as a dimension; null: none.
  NodeEntry Bare(const NodePtr& n, SymInt symbol) const {
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      for (SymInt d : shapes_[NodeEntry(n, i)].dims())
        if (d == symbol) return NodeEntry(n, i);
    return {};
  }
  void TellAt(SymInt symbol, int level, const NodeEntry& by) {
    told_.try_emplace(symbol, Told{level, by});
  }

  // ---- the new graph ----

  /// A graph of this node alone, each operand an input.
  GraphPtr Alone(const NodePtr& n, std::vector<NodeEntry>* operands) const {
    auto body = std::make_shared<Graph>();
    std::vector<NodeEntry> inputs;
    for (const NodeEntry& e : n->inputs) {
      if (!e.node) {
        inputs.emplace_back();
        continue;
      }
      operands->push_back(e);
      inputs.emplace_back(
          body->AddInput("x" + std::to_string(operands->size()), types_[e], shapes_[e]));
    }
    const NodePtr copy = body->AddCopy(n, inputs);
    for (uint32_t i = 0; i < copy->num_outputs(); ++i) body->outputs.emplace_back(copy, i);
    return std::make_shared<const Graph>(ProvideAttrs(std::move(*body), {"dtype"}, Plain()));
  }
  void AddSizes() {
    for (const auto& [n, symbols] : sized_) {
      Ints at;
      std::vector<SymInt> dims;
      for (uint32_t i = 0; i < n->num_outputs(); ++i) {
        const Shape& s = shapes_[NodeEntry(n, i)];
        for (int d = 0; d < s.rank(); ++d) {
          if (std::find(symbols.begin(), symbols.end(), s[d]) == symbols.end()) continue;
          if (std::find(dims.begin(), dims.end(), s[d]) != dims.end()) continue;
          dims.push_back(s[d]);
          at.push_back(i);
          at.push_back(d);
        }
      }
      std::vector<NodeEntry> operands;
      const GraphPtr body = Alone(n, &operands);
      const NodePtr sizes = g_.AddNode(builtin::kSizes, operands,
                                       {{"body", body}, {"dims", Shape(dims)}, {"at", at}});
      ctx_.Count("sizes");
      dims.insert(dims.begin(), SymInt(0));
      made_[NodeEntry(sizes).key()] = {Type(DType::kBool), Shape(std::move(dims))};
      for (SymInt symbol : symbols) told_.at(symbol).by = NodeEntry(sizes);
    }
  }

  struct Typed {
    Type type;
    Shape shape;
  };
  Typed TypeOf(const NodeEntry& e) const {
    const auto it = made_.find(e.key());
    return it != made_.end() ? it->second : Typed{types_[e], shapes_[e]};
  }

  /// What becomes one region.
  struct Region {
    Graph body;
    std::vector<NodeEntry> operands;
    std::unordered_map<EntryKey, NodeEntry> inside;  ///< by entry of the whole graph
    std::vector<SymInt> told, mentioned;             ///< by inputs; by anything
    ValueMap values;                                 ///< of inputs
  };
  NodeEntry Take(Region* r, const NodeEntry& e) const {
    const auto [it, fresh] = r->inside.try_emplace(e.key());
    if (!fresh) return it->second;
    const Typed t = TypeOf(e);
    const std::string name = e.node->attrs.name.empty() ? "x" : e.node->attrs.name;
    const NodePtr input =
        r->body.AddInput(fmt::format("{}:{}", name, r->operands.size()), t.type, t.shape);
    r->operands.push_back(e);
    for (SymInt d : t.shape.dims())
      if (d.known() && d.is_symbol()) r->told.push_back(d);
    if (const SymTensorPtr* v = values_.find(e); v && *v) r->values.set(NodeEntry(input), *v);
    Mention(r, e);
    return it->second = NodeEntry(input);
  }
  void Mention(Region* r, const NodeEntry& e) const {
    for (SymInt symbol : SymbolsOf(e)) Mention(r, symbol);
  }
  static void Mention(Region* r, SymInt symbol) {
    if (std::find(r->mentioned.begin(), r->mentioned.end(), symbol) == r->mentioned.end())
      r->mentioned.push_back(symbol);
  }

  void AddRegion(int level) {
    Region r;
    std::vector<NodePtr> nodes;
    NodeMap<Ints> unbacked;
    for (const NodePtr& n : order_) {
      const Place& p = places_[n->id()];
      if (IsGiven(n) || !p.in_region || p.level != level) continue;
      std::vector<NodeEntry> inputs;
      for (const NodeEntry& e : n->inputs) {
        if (!e.node) {
          inputs.emplace_back();
        } else if (const TensorPtr constant = Graph::ConstantOf(e)) {
          NodeEntry& own = r.inside[e.key()];
          if (!own.node) own = r.body.AddConstant(constant, e.node->attrs.name);
          inputs.push_back(own);
        } else {
          inputs.push_back(Take(&r, e));
        }
      }
      const NodePtr copy = r.body.AddCopy(n, inputs);
      if (const Ints* numbers = unbacked_.find(n)) {
        for (int64_t k : *numbers)
          if (k >= 0) Mention(&r, SymInt::Unbacked(k));
        unbacked.set(copy, *numbers);
      }
      for (uint32_t i = 0; i < n->num_outputs(); ++i) {
        r.inside[NodeEntry(n, i).key()] = NodeEntry(copy, i);
        Mention(&r, NodeEntry(n, i));
      }
      nodes.push_back(n);
    }
    if (nodes.empty()) return;
    for (SymInt symbol : std::vector<SymInt>(r.mentioned)) {
      if (std::find(r.told.begin(), r.told.end(), symbol) != r.told.end()) continue;
      const auto told = told_.find(symbol);
      if (told != told_.end() && told->second.by.node) Take(&r, told->second.by);
    }
    std::vector<NodeEntry> given;  // entries of the whole graph that the region gives out
    for (const NodePtr& n : nodes)
      for (uint32_t i = 0; i < n->num_outputs(); ++i)
        if (IsReadOutside(NodeEntry(n, i), level)) given.emplace_back(n, i);
    if (given.empty()) return;
    for (const NodeEntry& e : given) r.body.outputs.push_back(r.inside.at(e.key()));
    r.body.SetAttr("unbacked", std::move(unbacked));
    r.body.SetAttr("value", std::move(r.values));
    // The body has numbers of its own for sizes that begin in it.
    for (const auto& [attr, facts] :
         {std::pair{"facts", &facts_}, std::pair{"resolved", &resolved_}})
      if (Facts about = facts->About(r.mentioned); !about.empty())
        r.body.SetAttr(attr, std::move(about));
    Graph body = ProvideTypes(std::move(r.body), Plain());
    if (!TellsItsSizes(body)) return ctx_.Count("left");
    const NodePtr region =
        g_.AddNode(builtin::kRegion, r.operands,
                   {{"body", GraphPtr(std::make_shared<const Graph>(std::move(body)))}});
    ctx_.Count("regions");
    for (const NodePtr& n : nodes) region_of_[n->id()] = region;
    for (size_t k = 0; k < given.size(); ++k)
      results_.emplace_back(given[k], NodeEntry(region, uint32_t(k)));
  }
  bool IsReadOutside(const NodeEntry& e, int level) const {
    for (const Use& u : e.node->uses()) {
      if (u.control || !(u.user->inputs[u.slot] == e)) continue;
      if (u.user->id() >= places_.size()) return true;  // a region, a weft::Sizes
      const Place& p = places_[u.user->id()];
      if (!p.in_region || p.level != level) return true;
    }
    return g_.is_output(e.node) && std::any_of(g_.outputs.begin(), g_.outputs.end(),
                                               [&](const NodeEntry& out) { return out == e; });
  }
  static PassOptions Plain() {
    PassOptions plain;
    plain.verify = false;
    return plain;
  }

  struct Told {
    int level;
    NodeEntry by;  ///< has it as a dimension; null: nothing does
  };
  Graph g_;
  PassContext& ctx_;
  const ShapeMap shapes_;
  const TypeMap types_;
  const ValueMap values_;
  const NodeMap<Ints> unbacked_;
  const Facts facts_, resolved_;
  const std::vector<NodePtr> order_;
  std::vector<Place> places_;  // by node id
  std::unordered_map<SymInt, Told> told_;
  std::vector<std::pair<NodePtr, std::vector<SymInt>>> sized_;
  std::unordered_map<EntryKey, Typed> made_;
  std::vector<std::pair<NodeEntry, NodeEntry>> results_;  ///< what was given, and by which region
  std::unordered_map<NodeId, NodePtr> region_of_;         ///< of what has moved
  int last_level_ = 0;
};

Graph SplitRegions(Graph g, PassContext& ctx) {
  g.EraseDead();  // what a pass has replaced tells sizes of the same names
  return Splitter(std::move(g), ctx).Run();
}

WEFT_REGISTER_PASS(SplitRegions)
    .describe("parts of a graph with sizes that depend on data become regions with known sizes")
    .set_body(SplitRegions)
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("value")
    .statistic("regions", "made")
    .statistic("sizes", "nodes whose sizes are told by values of their operands")
    .statistic("left", "regions that were not made, since a size in them could not be told");

}  // namespace
}  // namespace weft
