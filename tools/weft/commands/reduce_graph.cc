/// reduce_graph.cc: see reduce_graph.h. What keeps it from going on for ever: a step is
/// taken only when it leaves fewer bodies, or as many with fewer operators, or as many of both with
/// fewer outputs, or as many of all with fewer inputs.
#include "reduce_graph.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "reduce_bodies.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/variable.h"
#include "weft/core/pass/pass.h"
#include "weft/core/pass/provide.h"
#include "weft/runtime/pipelines.h"
#include "weft/support/check.h"

namespace weft::tool {
namespace {

using Outputs = std::vector<std::pair<NodeEntry, std::string>>;

bool Removable(NodePtr n) { return !n->is_variable() && !IsOp(n, builtin::kConstant); }

std::vector<NodeId> Operators(const Graph& g) {
  std::vector<NodeId> out;
  for (NodePtr n : g.TopoOrder())
    if (Removable(n)) out.push_back(n->id());
  return out;
}

/// Types of the entries of the graph that one starts from. Ids are kept by all later copies, and
/// what replaces an entry has its type, so they hold to the end.
class Types {
 public:
  explicit Types(const Graph& graph) {
    try {
      const Graph typed = ProvideTypes(graph);
      types_ = typed.GetAttr<TypeMap>("dtype");
      shapes_ = typed.GetAttr<ShapeMap>("shape");
    } catch (const Error&) {
      // A model that cannot be inferred may be what one is after; new inputs then have no type.
    }
  }
  Type type(const NodeEntry& e) const {
    return e.node->is_variable() ? DeclaredType(e.node) : types_[e];
  }
  Shape shape(const NodeEntry& e) const {
    return e.node->is_variable() ? DeclaredShape(e.node).value_or(Shape()) : shapes_[e];
  }
  bool Equal(const NodeEntry& a, const NodeEntry& b) const {
    return type(a).known() && type(a) == type(b) && shape(a).has_rank() && shape(a).same(shape(b));
  }

 private:
  TypeMap types_;
  ShapeMap shapes_;
};

std::string FreshName(std::set<std::string>* names, const NodeEntry& e) {
  const std::string base =
      e.node->attrs.name.empty() ? fmt::format("cut_{}", e.node->id()) : e.node->attrs.name;
  std::string name = e.index == 0 ? base : fmt::format("{}_{}", base, e.index);
  for (int k = 2; !names->insert(name).second; ++k) name = fmt::format("{}.{}", base, k);
  return name;
}

void SetOutputs(Graph* g, const Outputs& outputs) {
  std::vector<NodeEntry> entries;
  for (const auto& o : outputs) entries.push_back(o.first);
  g->outputs = entries;
  for (size_t i = 0; i < outputs.size(); ++i) g->SetOutputName(i, outputs[i].second);
  g->EraseDead();
}

Outputs OutputsOf(const Graph& g) {
  Outputs out;
  for (size_t i = 0; i < g.outputs.size(); ++i) out.emplace_back(g.outputs[i], g.OutputName(i));
  return out;
}

/// The graph without these operators, given producers first; nothing where there is no such graph.
std::optional<Graph> Without(const Graph& graph, const std::vector<NodeId>& nodes, bool bypass,
                             const Types& types) {
  Graph g = graph;
  Outputs outputs = OutputsOf(g);
  g.outputs = std::vector<NodeEntry>();
  std::vector<NodePtr> inputs = g.inputs();
  std::set<std::string> names;
  for (NodePtr p : g.AllInputs()) names.insert(p->attrs.name);
  for (NodeId id = 0; id < g.id_bound(); ++id)
    if (NodePtr n = g.node(id); n && n->is_variable()) names.insert(n->attrs.name);
  // Users first: when a node's turn comes, all its uses are outside.
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const NodePtr n = g.node(*it);
    if (!n) continue;
    auto stand_in = [&](const NodeEntry& e) {
      if (bypass)
        for (const NodeEntry& i : n->inputs)
          if (i && types.Equal(i, e)) return i;
      return NodeEntry();
    };
    Outputs kept;
    auto keep = [&](const NodeEntry& e, const std::string& name) {
      if (!e || !Removable(e.node)) return;
      for (const Outputs* list : {&kept, &outputs})
        for (const auto& o : *list)
          if (o.first == e) return;
      kept.emplace_back(e, name);
    };
    for (const auto& [entry, name] : outputs) {
      if (entry.node != n) {
        kept.emplace_back(entry, name);
      } else if (const NodeEntry i = stand_in(entry)) {
        keep(i, name);
      } else {
        for (const NodeEntry& e : n->inputs) keep(e, "");
      }
    }
    outputs = std::move(kept);
    std::set<uint32_t> used;
    for (const Use& u : n->uses()) {
      if (u.control) return std::nullopt;
      used.insert(u.user->inputs[u.slot].index);
    }
    for (const uint32_t index : used) {
      const NodeEntry e(n, index);
      NodeEntry to = stand_in(e);
      if (!to) {
        to = NodeEntry(g.AddInput(FreshName(&names, e), types.type(e), types.shape(e)));
        inputs.push_back(to.node);
      }
      g.ReplaceUses(e, to);
    }
    g.Erase(n);
  }
  if (outputs.empty()) return std::nullopt;
  std::set<std::string> taken;
  for (auto& [entry, name] : outputs) {
    if (name.empty()) name = FreshName(&taken, entry);
    taken.insert(name);
  }
  g.SetInputs(inputs);
  SetOutputs(&g, outputs);
  return g;
}

class Reducer {
 public:
  Reducer(const Graph& graph, const IsInteresting& interesting)
      : graph_(graph), interesting_(interesting), types_(graph) {}

  Graph Run() {
    graph_.EraseDead();
    for (bool changed = true; changed;) {
      changed = DropOutputs();
      changed |= InlineBodies();
      changed |= RemoveOperators();
      changed |= PruneLoops();
      changed |= RemoveInBodies();
      changed |= DropInputs();
    }
    return std::move(graph_);
  }

 private:
  bool Try(std::optional<Graph> candidate) {
    if (!candidate) return false;
    try {
      if (!interesting_(*candidate)) return false;
    } catch (const UserError& e) {
      // One that cannot be written in the format is none. A check that cannot be run
      // is the caller's error.
      if (e.code() == ErrorCode::kUsage || e.code() == ErrorCode::kCancelled) throw;
      return false;
    }
    graph_ = std::move(*candidate);
    return true;
  }

  /// Tries to do without parts of `count()` things: halves, quarters ... single ones; from the end,
  /// where removing one frees others. `drop(begin, end)` tells whether it went.
  template <class Count, class Drop>
  bool Shrink(const Count& count, const Drop& drop) {
    bool changed = false;
    for (size_t part = std::max<size_t>(count() / 2, 1);; part /= 2) {
      for (size_t end = count(); end > 0;) {
        const size_t begin = end > part ? end - part : 0;
        if (drop(begin, end)) {
          changed = true;
          end = std::min(begin, count());
        } else {
          end = begin;
        }
      }
      if (part <= 1) return changed;
    }
  }

  bool DropOutputs() {
    return Shrink([&] { return graph_.outputs.size(); },
                  [&](size_t begin, size_t end) {
                    Outputs all = OutputsOf(graph_);
                    if (end - begin >= all.size()) return false;
                    all.erase(all.begin() + int64_t(begin), all.begin() + int64_t(end));
                    Graph g = graph_;
                    SetOutputs(&g, Rebased(g, all));
                    return Try(std::move(g));
                  });
  }
  static Outputs Rebased(const Graph& g, Outputs outputs) {
    for (auto& o : outputs) o.first = g.at(o.first);
    return outputs;
  }

  bool RemoveOperators() {
    return Shrink([&] { return Operators(graph_).size(); },
                  [&](size_t begin, size_t end) {
                    const std::vector<NodeId> all = Operators(graph_);
                    const std::vector<NodeId> part(all.begin() + int64_t(begin),
                                                   all.begin() + int64_t(end));
                    for (const bool bypass : {true, false}) {
                      std::optional<Graph> g = Without(graph_, part, bypass, types_);
                      if (g && Operators(*g).size() < all.size() && Try(std::move(g))) return true;
                    }
                    return false;
                  });
  }

  /// A branch, or the first iteration of a loop, in the place of its operator: from then on it is
  /// reduced as the graph is.
  bool InlineBodies() {
    bool changed = false;
    for (bool more = true; more;) {
      more = false;
      for (const BodyPath& path : ListBodies(graph_)) {
        if (path.empty() || more) continue;
        const BodyPath around(path.begin(), path.end() - 1);
        std::optional<Graph> g =
            Inlined(BodyAt(graph_, around), path.back().first, path.back().second);
        if (g) g = WithBodyAt(graph_, around, *std::move(g));
        more = g && Retyped(*std::move(g));
      }
      changed = changed || more;
    }
    return changed;
  }
  /// States, results and slices that nothing reads, by the pass.
  bool PruneLoops() {
    if (ControlNodes(graph_).empty()) return false;
    try {
      Graph g = ApplyPasses(graph_, PruningPipeline());
      return CountOperators(g) < CountOperators(graph_) && Retyped(std::move(g));
    } catch (const Error&) {
      return false;  // what is wrong may be the model
    }
  }
  bool RemoveInBodies() {
    bool changed = false;
    const size_t bodies = ListBodies(graph_).size();
    for (size_t k = 1; k < bodies; ++k) {
      const auto body = [&]() -> const Graph& { return BodyAt(graph_, ListBodies(graph_)[k]); };
      changed |= ListBodies(graph_).size() == bodies &&
                 Shrink([&] { return Operators(body()).size(); },
                        [&](size_t begin, size_t end) {
                          if (ListBodies(graph_).size() != bodies) return false;
                          const std::vector<NodeId> all = Operators(body());
                          std::optional<Graph> less = BodyWithout(
                              body(), {all.begin() + int64_t(begin), all.begin() + int64_t(end)});
                          if (!less || Operators(*less).size() >= all.size()) return false;
                          return Try(WithBodyAt(graph_, ListBodies(graph_)[k], *std::move(less)));
                        });
    }
    return changed;
  }
  /// As Try, of a graph with nodes of which no types are known yet.
  bool Retyped(Graph g) {
    if (!Try(std::move(g))) return false;
    types_ = Types(graph_);
    return true;
  }

  std::vector<NodePtr> Unused() const {
    std::vector<NodePtr> out;
    for (NodePtr p : graph_.inputs())
      if (p->uses().empty() && !graph_.is_output(p)) out.push_back(p);
    return out;
  }
  bool DropInputs() {
    return Shrink([&] { return Unused().size(); },
                  [&](size_t begin, size_t end) {
                    const std::vector<NodePtr> unused = Unused();
                    std::set<NodeId> gone;
                    for (size_t i = begin; i < end; ++i) gone.insert(unused[i]->id());
                    Graph g = graph_;
                    std::vector<NodePtr> left;
                    for (NodePtr p : g.inputs())
                      if (!gone.count(p->id())) left.push_back(p);
                    g.SetInputs(left);
                    g.EraseDead();
                    return Try(std::move(g));
                  });
  }

  Graph graph_;
  const IsInteresting& interesting_;
  Types types_;
};

}  // namespace

size_t CountOperators(const Graph& graph) {
  size_t count = 0;
  for (const BodyPath& path : ListBodies(graph)) count += Operators(BodyAt(graph, path)).size();
  return count;
}

Graph ReduceGraph(const Graph& graph, const IsInteresting& interesting) {
  return Reducer(graph, interesting).Run();
}

}  // namespace weft::tool
