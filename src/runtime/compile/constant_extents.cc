/// constant_extents.cc: see constant_extents.h.
#include "constant_extents.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "plan_graph.h"
#include "runtime/own/own_program.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/variable.h"
#include "weft/core/pass/provide.h"
#include "weft/support/check.h"
#include "weft/sym/symbols.h"

namespace weft {

namespace {

std::vector<NodePtr> InputsAndState(const Graph& graph) {
  std::vector<NodePtr> all = graph.AllInputs();
  for (const NodePtr& v : StateVariables(graph)) all.push_back(v);
  return all;
}

}  // namespace

std::vector<std::string> ExtentSymbols(const Graph& graph) {
  std::set<std::string> names;
  for (const NodePtr& v : InputsAndState(graph))
    if (const std::optional<Shape> shape = DeclaredShape(v); shape && shape->has_rank())
      for (SymInt d : shape->dims())
        if (d.known())
          for (SymInt s : d.Symbols()) names.insert(s.symbol_name());
  return {names.begin(), names.end()};
}

namespace {

/// Of symbols, where attributes of nodes name them.
void GiveValues(const std::unordered_map<SymInt, SymInt>& values, Graph* g) {
  for (const NodePtr& n : g->TopoOrder()) {
    std::vector<std::pair<std::string, Shape>> changed;
    for (const auto& [name, value] : n->attrs.dict) {
      if (!value.is<Shape>() || !value.get<Shape>().has_rank()) continue;
      std::vector<SymInt> dims = value.get<Shape>().dims();
      for (SymInt& d : dims)
        if (d.known())
          d = Substitute(d, [&](SymInt s) {
            const auto it = values.find(s);
            return it == values.end() ? s : it->second;
          });
      if (Shape now(std::move(dims)); !now.same(value.get<Shape>()))
        changed.emplace_back(name, std::move(now));
    }
    for (auto& [name, shape] : changed) g->SetAttr(n, name, std::move(shape));
  }
}

}  // namespace

Graph WithValues(Graph g, const std::unordered_map<SymInt, SymInt>& values,
                 const PassOptions& passes) {
  GiveValues(values, &g);
  for (const char* attr : {"shape", "value", "facts", "resolved", "introduced"}) g.DropAttr(attr);
  return ProvideTypes(std::move(g), passes);
}

Graph AtExtents(Graph g, const SymBindings& extents, const PassOptions& passes) {
  for (const NodePtr& v : InputsAndState(g))  // some declare theirs as text
    if (const std::optional<Shape> s = DeclaredShape(v); s && s->has_rank() && !s->is_static())
      g.SetAttr(v, "shape", *s);
  std::unordered_map<SymInt, SymInt> values;
  for (const auto& [name, value] : extents) values.emplace(SymInt::Symbol(name), value);
  return WithValues(std::move(g), values, passes);
}

bool CompilesPerExtents(const Graph& graph, const Backend& backend) {
  return backend.constant_extents() && !ExtentSymbols(graph).empty();
}

std::unique_ptr<Program::Impl> CompilePerExtents(Graph graph, const CompileOptions& options,
                                                 const std::shared_ptr<Backend>& backend) {
  PassOptions quiet;
  quiet.target = backend->target();
  quiet.limits = options.passes.limits;
  quiet.faults = options.passes.faults;
  graph = ProvideTypes(std::move(graph), quiet);
  const std::vector<SymbolPlace> told = SymbolPlaces(graph);
  for (const std::string& s : ExtentSymbols(graph))
    WEFT_CHECK(
        std::any_of(told.begin(), told.end(), [&](const SymbolPlace& p) { return p.symbol == s; }),
        kUnsupported,
        "backend '{}' compiles for constant dimensions, and none of an input is '{}' alone, "
        "which would tell its value",
        backend->name(), s);
  // What the caller of Compile watches ends with it.
  CompileOptions later = options;
  later.passes = quiet;
  const auto shared = std::make_shared<const Graph>(graph);
  const auto make = [shared, later, backend](const SymBindings& extents) {
    const Graph planned =
        PlanGraph(AtExtents(*shared, extents, later.passes), later, *backend, true).graph;
    std::shared_ptr<const BackendProgram> made = backend->MakeProgram(planned, later);
    WEFT_CHECK(made, kUnsupported,
               "backend '{}' makes no program of this graph, and declares to compile for constant "
               "dimensions",
               backend->name());
    return made;
  };
  return MakeProgramPerExtents(std::move(graph), backend, make, options.memory.hints);
}

}  // namespace weft
