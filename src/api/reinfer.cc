/// reinfer.cc: see reinfer.h. Bodies before the nodes that hold them; nesting is bounded by
/// the readers' depth limit.
#include "reinfer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/variable.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/provide.h"
#include "weft/sym/symbols.h"

namespace weft {
namespace {

Graph Cleaned(Graph g);

/// Derived attributes go; given ones (hints, metadata, facts) stay.
void DropDerived(Graph* g) {
  std::vector<std::string> derived;
  for (const auto& [name, value] : g->attrs) {
    const AttrType* type = FindAttrType(name);
    if (!type || type->kind == AttrKind::kDerived) derived.push_back(name);
  }
  for (const std::string& name : derived) g->DropAttr(name);
}

/// Symbols of what the inputs and variables of a graph declare.
std::vector<SymInt> DeclaredSymbols(const Graph& g) {
  std::vector<SymInt> all;
  const auto add = [&all](const NodePtr& n) {
    const std::optional<Shape> s = n->is_variable() ? DeclaredShape(n) : std::nullopt;
    for (SymInt d : s ? s->dims() : std::vector<SymInt>()) {
      const std::vector<SymInt> symbols = d.known() ? d.Symbols() : std::vector<SymInt>();
      all.insert(all.end(), symbols.begin(), symbols.end());
    }
  };
  for (const NodePtr& n : g.inputs()) add(n);
  for (const NodePtr& n : g.TopoOrder()) add(n);
  return all;
}

/// What is known of these symbols; where it is nothing, no such attribute.
void SetFactsAbout(const std::vector<SymInt>& symbols, const Facts& facts, Graph* g) {
  Facts about = facts.About(symbols);
  if (about.empty())
    g->DropAttr("facts");
  else
    g->SetAttr("facts", std::move(about));
}

/// The body with what inference finds; its symbols are those of the graph around it, and so are
/// the facts about them. `named`: those with a name; a number is that of another size in a body
/// that does not get it.
GraphPtr CleanedBody(const GraphPtr& body, bool infer, const Facts* facts,
                     const std::vector<SymInt>& named) {
  Graph clean = *body;
  DropDerived(&clean);
  if (facts) {
    std::vector<SymInt> symbols = DeclaredSymbols(clean);
    symbols.insert(symbols.end(), named.begin(), named.end());
    SetFactsAbout(symbols, *facts, &clean);
  }
  clean = Cleaned(std::move(clean));
  if (infer) clean = ProvideTypes(std::move(clean));
  return std::make_shared<const Graph>(std::move(clean));
}

/// With the bodies of its nodes cleaned.
Graph Cleaned(Graph g) {
  const bool any = g.HasAttr("facts");
  const Facts facts = g.AttrOr<Facts>("facts");
  std::vector<SymInt> named = any ? DeclaredSymbols(g) : std::vector<SymInt>();
  named.erase(std::remove_if(named.begin(), named.end(), [](SymInt d) { return d.is_unbacked(); }),
              named.end());
  for (NodePtr n : g.TopoOrder()) {
    std::vector<std::pair<std::string, GraphPtr>> bodies;
    for (const auto& [name, value] : n->attrs.dict)
      if (value.is<GraphPtr>()) bodies.emplace_back(name, value.get<GraphPtr>());
    for (auto& [name, body] : bodies)
      g.SetAttr(n, name,
                CleanedBody(body, IsOp(n, builtin::kFused), any ? &facts : nullptr, named));
  }
  return g;
}

/// The shape with other symbols in the place of some.
Shape Renamed(const Shape& s, const std::unordered_map<SymInt, SymInt>& names) {
  std::vector<SymInt> dims = s.dims();
  for (SymInt& d : dims)
    if (d.known())
      d = Substitute(d, [&](SymInt symbol) {
        const auto it = names.find(symbol);
        return it == names.end() ? symbol : it->second;
      });
  return Shape(std::move(dims));
}

/// Sizes that depend on data are numbered by inference, which gives them other numbers than the
/// file: what passes had written down under those of the file (weft::ShapeTensor) follows. Of the
/// recorded shapes nothing is believed but where in them a size has its name.
class SizesOfFile {
 public:
  explicit SizesOfFile(const Graph& g)
      : recorded_(g.AttrOr<ShapeMap>("shape")), named_(DeclaredSymbols(g)) {
    declared_.insert(named_.begin(), named_.end());
    for (const NodePtr& n : g.TopoOrder()) {
      if (!IsOp(n, builtin::kShapeTensor)) continue;
      for (SymInt symbol : SymbolsOf(n->attr<Shape>("dims")))
        if (symbol.is_unbacked() && !declared_.count(symbol)) StandInFor(symbol);
    }
  }
  /// What the file says of sizes with numbers, by which others are meant soon.
  void ForgetFacts(Graph* g) const {
    if (g->HasAttr("facts")) SetFactsAbout(named_, Facts(g->GetAttr<Facts>("facts")), g);
  }
  /// `g`: without what the file records.
  Graph Follow(Graph g) const {
    if (stand_ins_.empty()) return g;
    Rename(&g, stand_ins_);
    const Graph inferred = ProvideTypes(g);
    const ShapeMap& shapes = inferred.GetAttr<ShapeMap>("shape");
    std::unordered_map<SymInt, SymInt> now;
    int64_t next = 0;
    for (SymInt symbol : named_)
      if (const auto k = symbol.unbacked_number()) next = std::max(next, *k + 1);
    for (const NodePtr& n : inferred.TopoOrder()) {
      for (uint32_t i = 0; i < n->num_outputs(); ++i) {
        const Shape& is = shapes[NodeEntry(n, i)];
        for (SymInt symbol : SymbolsOf(is))
          if (const auto k = symbol.unbacked_number()) next = std::max(next, *k + 1);
        const Shape* was = recorded_.find(n->id(), i);
        if (!was || !was->has_rank() || !is.has_rank() || was->rank() != is.rank()) continue;
        for (int d = 0; d < is.rank(); ++d) {
          const auto it = stand_ins_.find((*was)[d]);
          if (it != stand_ins_.end() && IsTold(is[d])) now.emplace(it->second, is[d]);
        }
      }
    }
    // What nobody tells keeps no number that inference has given another.
    std::vector<SymInt> left;
    for (const auto& [was, stand_in] : stand_ins_)
      if (!now.count(stand_in)) left.push_back(was);
    std::sort(left.begin(), left.end(), [](SymInt a, SymInt b) {
      return a.unbacked_number().value_or(-1) < b.unbacked_number().value_or(-1);
    });
    for (SymInt was : left) now.emplace(stand_ins_.at(was), SymInt::Unbacked(next++));
    Rename(&g, now);
    g.SetAttr("unbacked", inferred.AttrOr<NodeMap<Ints>>("unbacked"));
    return g;
  }

 private:
  static std::vector<SymInt> SymbolsOf(const Shape& s) {
    std::vector<SymInt> all;
    for (SymInt d : s.dims()) {
      if (!d.known()) continue;
      const std::vector<SymInt> symbols = d.Symbols();
      all.insert(all.end(), symbols.begin(), symbols.end());
    }
    return all;
  }
  static void Rename(Graph* g, const std::unordered_map<SymInt, SymInt>& names) {
    for (const NodePtr& n : g->TopoOrder()) {
      if (!IsOp(n, builtin::kShapeTensor)) continue;
      const Shape was = n->attr<Shape>("dims");
      if (const Shape now = Renamed(was, names); !now.same(was)) g->SetAttr(n, "dims", now);
    }
  }
  /// A symbol that nothing else is called.
  void StandInFor(SymInt symbol) {
    std::string name = "was." + symbol.ToString();
    while (declared_.count(SymInt::Symbol(name))) name += '.';
    stand_ins_.emplace(symbol, SymInt::Symbol(name));
  }
  /// In sizes of the graph alone.
  bool IsTold(SymInt d) const {
    return d.known() && EverySymbol(d, [&](SymInt s) {
             return std::none_of(stand_ins_.begin(), stand_ins_.end(),
                                 [&](const auto& pair) { return pair.second == s; });
           });
  }

  const ShapeMap recorded_;
  const std::vector<SymInt> named_;  ///< by inputs
  std::unordered_set<SymInt> declared_;
  std::unordered_map<SymInt, SymInt> stand_ins_;
};

/// Fused bodies may read sizes that operands tell: the target of a Pad outside of the body.
Graph WithSizesOfOperands(Graph g) {
  std::vector<NodePtr> open;
  for (const NodePtr& n : g.TopoOrder())
    if (IsOp(n, builtin::kFused) && !TellsItsSizes(*n->attr<GraphPtr>("body"))) open.push_back(n);
  if (open.empty()) return g;
  Graph inferred = ProvideTypes(g);
  for (const NodePtr& n : open) {
    const NodePtr at = inferred.at(n);
    Graph body = *n->attr<GraphPtr>("body");
    DropDerived(&body);
    inferred.SetAttr(at, "body", std::make_shared<const Graph>(std::move(body)));
    const ValueMap values = inferred.AttrOr<ValueMap>("value");
    const Facts facts = inferred.AttrOr<Facts>("facts");
    const auto known = std::make_shared<const Graph>(
        TypedBody(at, "body", inferred.GetAttr<ShapeMap>("shape"),
                  inferred.GetAttr<TypeMap>("dtype"), &values, &facts));
    g.SetAttr(n, "body", known);
    inferred.SetAttr(at, "body", known);
    inferred = ProvideTypes(std::move(inferred));  // those behind it may read what it tells
  }
  return g;
}

}  // namespace

Graph Reinferred(Graph g) {
  const SizesOfFile sizes(g);
  DropDerived(&g);
  sizes.ForgetFacts(&g);
  return WithSizesOfOperands(sizes.Follow(Cleaned(std::move(g))));
}

}  // namespace weft
