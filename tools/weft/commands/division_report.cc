/// division_report.cc: see division_report.h.
#include "division_report.h"

#include <algorithm>
#include <limits>

#include "common.h"
#include "inputs.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/module/delegate.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/provide.h"
#include "weft/core/plan/storage.h"
#include "weft/runtime/program/division.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"
#include "weft/support/table.h"

namespace weft::tool {
namespace {

constexpr size_t kNamesShown = 3;
constexpr int kRuns = 5;

struct Row {
  std::string delegate;
  std::vector<std::string> nodes;
  Origin origin;
  int64_t bytes_in = -1, bytes_out = -1;  ///< at the dimensions of the run
  double estimate_us = -1, us = -1;
};

int64_t BytesAt(const NodeEntry& e, const Graph& g, const SymBindings& bindings) {
  const SymInt bytes = ArenaBytes(g.GetAttr<TypeMap>("dtype")[e], g.GetAttr<ShapeMap>("shape")[e]);
  if (!bytes.known()) return 0;
  for (SymInt s : bytes.Symbols())
    if (!bindings.count(s.symbol_name())) return 0;  // a size that the run finds
  return Evaluate(bytes, bindings);
}

Row RowOf(const NodePtr& n, const Graph& g, const SymBindings& bindings) {
  Row r;
  r.delegate = n->attr<std::string>("delegate");
  r.origin = n->origin();
  const Graph& body = *n->attr<GraphPtr>("body");
  for (const NodePtr& p : body.TopoOrder())
    if (!p->is_variable() && !Graph::ConstantOf(NodeEntry(p)))
      r.nodes.push_back(p->attrs.name.empty() ? p->op()->name : p->attrs.name);
  r.bytes_in = r.bytes_out = 0;
  for (const NodeEntry& e : n->inputs)
    if (e.node && !Graph::ConstantOf(e)) r.bytes_in += BytesAt(e, g, bindings);
  for (uint32_t i = 0; i < n->num_outputs(); ++i)
    r.bytes_out += BytesAt(NodeEntry(n, i), g, bindings);
  const DelegateSpec spec = ParseDelegates(r.delegate).at(0);
  r.estimate_us = spec.delegate->Estimate({&body, spec.options, 1});
  return r;
}

/// Those of the graph, and of regions and bodies in it.
void FindRows(const Graph& g, const SymBindings& bindings, std::vector<Row>* rows) {
  for (const NodePtr& n : g.TopoOrder()) {
    if (IsOp(n, builtin::kDelegated)) rows->push_back(RowOf(n, g, bindings));
    if (!IsOp(n, builtin::kRegion) && !HasControlBodies(n)) continue;
    for (const std::string& name : BodyNames(n)) {
      const auto body = n->attr<GraphPtr>(name);
      const bool typed = body->IsComplete("dtype") && body->IsComplete("shape");
      FindRows(typed ? *body : ProvideTypes(*body), bindings, rows);
    }
  }
}

std::string Names(const std::vector<std::string>& all) {
  std::vector<std::string> shown(all.begin(),
                                 all.begin() + long(std::min(all.size(), kNamesShown)));
  return Join(shown, ", ") +
         (all.size() > kNamesShown ? fmt::format(" and {} more", all.size() - kNamesShown) : "");
}
std::string UsOrDash(double us) { return us < 0 ? "-" : fmt::format("{:.1f}", us); }

int PrintTimes(const std::vector<DivisionTime>& times, const SymBindings& bindings, bool as_json) {
  if (as_json) {
    Json list = Json::array();
    for (const DivisionTime& t : times)
      list.push_back({{"choice", t.choice},
                      {"regions", t.regions},
                      {"border_tensors", t.tensors},
                      {"border_bytes", t.bytes},
                      {"estimate_us", t.estimate_us},
                      {"us", t.us}});
    PrintJson({{"divisions", std::move(list)}, {"bindings", BindingsJson(bindings)}});
    return 0;
  }
  Table table({"division", ">regions", ">tensors", ">bytes", ">estimate us", ">us", ">error"});
  for (const DivisionTime& t : times)
    table.AddRow({t.choice, fmt::format("{}", t.regions), fmt::format("{}", t.tensors),
                  FormatBytes(t.bytes), UsOrDash(t.estimate_us), UsOrDash(t.us),
                  fmt::format("{:+.1f} %", 100 * (t.estimate_us / t.us - 1))});
  PrintText(table.ToString());
  return 0;
}

}  // namespace

int InspectDivision(const ModelArgs& model, const InputArgs& inputs, const DelegateArgs& delegates,
                    const std::vector<std::string>& choices) {
  const Limits limits = model.Check();
  Engine engine = ParseEngine(EngineName(kDefaultBackend, delegates));
  engine.division = delegates.Division();
  const Graph graph = ReadModel(model, ImportFor(inputs));
  InputArgs random = inputs;
  random.random = true;
  const RunInputs made = MakeInputs(graph, random, limits);
  engine.division.at = made.dims.bindings;
  if (!choices.empty()) {
    CompileOptions options;
    options.backend = engine.backend;
    options.division = engine.division;
    options.passes.limits = limits;
    return PrintTimes(TimeDivisions(graph, options, choices), made.dims.bindings, model.json);
  }
  const auto program = CompileProgram(graph, engine, 0, limits);
  Session session(program);
  const std::vector<TensorPtr> fed = OrderInputs(*program, made.tensors);
  session.Run(fed);
  std::vector<Row> rows;
  FindRows(program->graph(), made.dims.bindings, &rows);
  double own = std::numeric_limits<double>::infinity();
  for (int k = 0; k < kRuns; ++k) {
    double here = 0;
    for (const StepTime& t : session.Profile(fed)) {
      if (t.kind == "engine") continue;
      if (t.kind != "delegate") {
        here += t.duration;
        continue;
      }
      for (size_t r = 0; r < rows.size(); ++r)
        if (rows[r].origin == t.origin && (rows[r].us < 0 || t.duration < rows[r].us))
          rows[r].us = t.duration;
    }
    own = std::min(own, here);
  }
  if (model.json) {
    Json list = Json::array();
    for (const Row& r : rows)
      list.push_back({{"delegate", r.delegate},
                      {"nodes", r.nodes},
                      {"bytes_in", r.bytes_in},
                      {"bytes_out", r.bytes_out},
                      {"estimate_us", r.estimate_us < 0 ? Json() : Json(r.estimate_us)},
                      {"us", r.us < 0 ? Json() : Json(r.us)}});
    PrintJson({{"regions", std::move(list)},
               {"own_us", own},
               {"bindings", BindingsJson(made.dims.bindings)}});
    return 0;
  }
  Table table({"delegate", ">nodes", ">bytes in", ">bytes out", ">estimate us", ">us", "what"});
  for (const Row& r : rows)
    table.AddRow({r.delegate, fmt::format("{}", r.nodes.size()), FormatBytes(r.bytes_in),
                  FormatBytes(r.bytes_out), UsOrDash(r.estimate_us), UsOrDash(r.us),
                  Names(r.nodes)});
  PrintText(table.ToString());
  PrintText(fmt::format("{} in delegates; the other steps take {:.1f} us\n",
                        Plural(rows.size(), "region"), own));
  return 0;
}

}  // namespace weft::tool
