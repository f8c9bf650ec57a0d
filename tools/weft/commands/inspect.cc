/// inspect.cc: `weft inspect`: what a model holds, what it costs, and what a target cannot run of
/// it.
#include <algorithm>
#include <map>

#include "command_line.h"
#include "common.h"
#include "division_report.h"
#include "inputs.h"
#include "memory_report.h"
#include "support_report.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/module/delegate.h"
#include "weft/core/op/flops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/provide.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/inputs/input_role.h"
#include "weft/runtime/program/predict_arena.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/strings.h"
#include "weft/support/table.h"

namespace weft::tool {
namespace {

struct Args {
  ModelArgs model;
  InputArgs inputs;
  std::string support;
  MemoryReportArgs memory;
  DelegateArgs delegates;
  std::string divisions;
};

struct Io {
  std::string name, type, shape;
};
struct UnknownShape {
  std::string place, shape, why;
};
/// An extent that only the run tells, and the node that makes it.
struct RuntimeExtent {
  std::string name, place;
};

/// Everything that is found out, before it is printed in one form or the other.
struct Report {
  std::string name;
  std::vector<Io> inputs, outputs;
  std::map<std::string, int64_t> ops, dtypes;
  std::vector<std::string> symbols;
  SymBindings bindings;
  std::vector<std::string> chosen;  ///< symbols to which nobody has given a value
  int64_t nodes = 0, parameters = 0, parameter_elements = 0, parameter_bytes = 0;
  SymInt flops = 0;
  std::string flops_error;  ///< why they have no value
  int64_t flops_value = -1, flops_unknown = 0, flops_loops = 0;
  int64_t arena_bytes = -1;
  bool arena_at_most = false;
  std::string arena_error, peak_backend;
  std::vector<UnknownShape> unknown;
  std::vector<RuntimeExtent> runtime_extents;
};

std::string DescribeNode(NodePtr n) {
  const bool named = n->origin() && !n->origin()->empty();
  return named
             ? fmt::format("'{}' ({})", Join(*n->origin(), "+"), n->op() ? n->op()->name : "input")
             : n->Describe();
}

void CountParameter(const Tensor& t, Report* r) {
  ++r->parameters;
  r->parameter_elements = CheckedAdd(r->parameter_elements, t.num_elements());
  r->parameter_bytes = CheckedAdd(r->parameter_bytes, t.num_bytes());
}

/// Operations of a graph, bodies included: of branches the dearer one, of a loop every iteration.
struct Cost {
  SymInt flops = 0;
  int64_t unknown = 0;  ///< nodes whose cost is not known
  int64_t loops = 0;    ///< of which one iteration is counted: how many there are is not known
};
SymInt Iterations(const NodePtr& n, const ShapeMap& shapes) {
  if (IsOp(n, "Loop")) {
    const TensorPtr most = n->inputs[0].node ? Graph::ConstantOf(n->inputs[0]) : nullptr;
    const bool stops = n->inputs[1].node && !Graph::ConstantOf(n->inputs[1]);
    return most && !stops && most->num_elements() == 1 ? SymInt(most->at_int(0)) : SymInt();
  }
  const int64_t captures = n->attr<int64_t>("num_captures");
  const size_t last = size_t(int64_t(n->num_inputs()) - captures) - 1;
  if (n->has_attr("scan_input_axes") && !n->attr<Ints>("scan_input_axes").empty()) return SymInt();
  const Shape* s = shapes.find(n->inputs[last]);
  return s && s->has_rank() && s->rank() > 0 ? (*s)[0] : SymInt();
}
/// `numbers`: what is no number is not known.
Cost CostOf(const Graph& g, bool numbers);
Cost CostOfBodies(const NodePtr& n, const ShapeMap& shapes, const TypeMap& types, bool numbers) {
  Cost cost;
  for (const std::string& name : BodyNames(n)) {
    const Cost body = CostOf(TypedBody(n, name, shapes, types), numbers);
    cost.flops = IsOp(n, "If") ? Max(cost.flops, body.flops) : cost.flops + body.flops;
    cost.unknown += body.unknown;
    cost.loops += body.loops;
  }
  if (!IsOp(n, "Loop") && !IsOp(n, "Scan")) return cost;
  const SymInt times = Iterations(n, shapes);
  if (times.known() && (!numbers || times.is_const()))
    cost.flops = cost.flops * times;
  else
    ++cost.loops;
  return cost;
}
Cost CostOf(const Graph& g, bool numbers) {
  const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
  const TypeMap& types = g.GetAttr<TypeMap>("dtype");
  Cost total;
  for (NodePtr n : g.TopoOrder()) {
    if (n->is_variable()) continue;
    if (!BodyNames(n).empty()) {
      const Cost bodies = CostOfBodies(n, shapes, types, numbers);
      total.flops = total.flops + bodies.flops;
      total.unknown += bodies.unknown;
      total.loops += bodies.loops;
    }
    const std::optional<SymInt> cost = FlopsOf(n, shapes);
    if (cost && cost->known() && (!numbers || cost->is_const()))
      total.flops = total.flops + *cost;
    else if (cost)
      ++total.unknown;
  }
  return total;
}

/// What the graph and its bodies hold.
void CountNodes(const Graph& g, Report* r) {
  const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
  const TypeMap& types = g.GetAttr<TypeMap>("dtype");
  for (NodePtr n : g.TopoOrder()) {
    const TensorPtr constant = Graph::ConstantOf(NodeEntry(n));
    if (constant) CountParameter(*constant, r);
    for (uint32_t i = 0; i < n->num_outputs(); ++i) ++r->dtypes[types[NodeEntry(n, i)].ToString()];
    if (n->is_variable() || constant) continue;
    ++r->nodes;
    ++r->ops[n->op()->name];
    for (const std::string& name : BodyNames(n)) CountNodes(TypedBody(n, name, shapes, types), r);
  }
}

void FindUnknowns(const Graph& g, Report* r) {
  const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
  const UnknownMap* unknown = g.HasAttr("unknown") ? &g.GetAttr<UnknownMap>("unknown") : nullptr;
  const NodeMap<Ints>* unbacked =
      g.HasAttr("unbacked") ? &g.GetAttr<NodeMap<Ints>>("unbacked") : nullptr;
  for (NodePtr n : g.TopoOrder()) {
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      const NodeEntry e(n, i);
      // Sequences and other types that are no tensor have no shape to know, and no reason.
      if (const std::string* why = unknown ? unknown->find(e) : nullptr)
        r->unknown.push_back({DescribeNode(n), shapes[e].ToString(), *why});
    }
    if (const Ints* ks = unbacked ? unbacked->find(n) : nullptr)
      for (int64_t k : *ks) r->runtime_extents.push_back({fmt::format("u{}", k), DescribeNode(n)});
  }
}

/// The formula is that of the symbols; where it does not tell all, the number is that of a graph
/// with numbers for dimensions, in which more is known.
void CountFlops(const Graph& imported, const Graph& typed, const GivenDims& given, Report* r) {
  const auto take = [r](const Cost& cost) {
    r->flops_unknown = cost.unknown;
    r->flops_loops = cost.loops;
    try {
      r->flops_value = Evaluate(cost.flops, r->bindings);
      r->flops_error.clear();
    } catch (const Error& e) {
      r->flops_error = e.message();
    }
  };
  const Cost cost = CostOf(typed, false);
  r->flops = cost.flops;
  take(cost);
  if (r->flops_error.empty() && cost.unknown == 0) return;
  try {
    take(CostOf(AtDims(imported, r->bindings, given.shapes), true));
  } catch (const Error&) {  // these dimensions do not fit; what is known stays
  }
}

/// Where the peak is predicted for: what --support asks about, where that is a backend here, else
/// the one that `weft run` takes.
std::string PeakBackend(const std::string& support) {
  try {
    if (!support.empty()) {
      GetBackend(support);
      return support;
    }
  } catch (const Error&) {
    // An architecture, or a delegate: its memory is known where it runs.
  }
  return kDefaultBackend;
}

/// Arena of a run at the bindings.
void PredictPeak(const Graph& graph, const Limits& limits, Report* r) {
  try {
    CompileOptions options;
    options.backend = r->peak_backend;
    options.passes.limits = limits;
    const PredictedArena arena = PredictArena(graph, options, r->bindings);
    r->arena_bytes = arena.bytes;
    r->arena_at_most = arena.at_most;
  } catch (const Error& e) {
    r->arena_error = e.message();
  }
}

/// `partly`: what was not imported stands in the graph as variables, which nobody has to feed.
Report Inspect(const Graph& imported, const Args& a, bool partly) {
  Report r;
  r.name = imported.name();
  const Graph g = ProvideTypes(imported);
  const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
  const TypeMap& types = g.GetAttr<TypeMap>("dtype");
  auto io = [&](const NodeEntry& e, const std::string& name) {
    return Io{name, types[e].ToString(), shapes[e].ToString()};
  };
  for (NodePtr p : partly ? g.inputs() : g.AllInputs())
    r.inputs.push_back(io(NodeEntry(p), p->attrs.name));
  for (size_t i = 0; i < g.outputs.size(); ++i)
    r.outputs.push_back(io(g.outputs[i], g.OutputName(i)));
  r.symbols = InputSymbols(imported);
  const GivenDims given = ParseDims(imported, a.inputs);
  const ChosenDims dims = CompleteDims(imported, given, a.inputs);
  r.bindings = dims.bindings;
  r.chosen = dims.chosen;
  CountNodes(g, &r);
  FindUnknowns(g, &r);
  CountFlops(imported, g, given, &r);
  r.peak_backend = PeakBackend(a.support);
  PredictPeak(imported, a.model.Check(), &r);
  return r;
}

std::string BoundAt(const Report& r) {
  std::string out;
  for (const std::string& s : r.symbols)
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", s, r.bindings.at(s));
  return out.empty() ? "" : " at " + out;
}

std::string HeadText(const Report& r) {
  std::string out = fmt::format("graph    {}\n", r.name.empty() ? "(unnamed)" : r.name);
  for (const Io& i : r.inputs) out += fmt::format("input    {}: {}{}\n", i.name, i.type, i.shape);
  for (const Io& o : r.outputs) out += fmt::format("output   {}: {}{}\n", o.name, o.type, o.shape);
  out += fmt::format("symbols  {}\n", r.symbols.empty() ? "none" : Join(r.symbols, ", "));
  if (!r.chosen.empty()) out += fmt::format("chosen   {}\n", DimsText(r.bindings, r.chosen));
  out += fmt::format("params   {} tensors, {} elements, {}\n", r.parameters, r.parameter_elements,
                     FormatBytes(r.parameter_bytes));
  return out;
}

std::string ReportText(const Report& r) {
  std::string out = HeadText(r);
  std::string formula = r.flops.ToString();
  if (formula.size() > 120) formula.clear();
  out += r.flops_error.empty() ? fmt::format("flops    {}{}", r.flops_value, BoundAt(r))
                               : fmt::format("flops    unknown: {}", r.flops_error);
  if (!formula.empty() && !r.flops.is_const()) out += fmt::format(" = {}", formula);
  if (r.flops_unknown > 0)
    out += fmt::format(" (without {} of unknown cost)", Plural(r.flops_unknown, "node"));
  if (r.flops_loops > 0)
    out += fmt::format(" (one iteration of {})", Plural(r.flops_loops, "loop"));
  out += "\n";
  const std::string on = r.peak_backend == kDefaultBackend ? "" : " on " + r.peak_backend;
  out += r.arena_error.empty() ? fmt::format("peak     {}{} of intermediate results{}{}\n",
                                             r.arena_at_most ? "at most " : "",
                                             FormatBytes(r.arena_bytes), on, BoundAt(r))
                               : fmt::format("peak     unknown{}: {}\n", on, r.arena_error);
  std::string dtypes;
  for (const auto& [name, count] : r.dtypes)
    dtypes += fmt::format("{}{} {}", dtypes.empty() ? "" : ", ", count, name);
  out += fmt::format("dtypes   {}\n", dtypes);
  std::vector<std::pair<std::string, int64_t>> ops(r.ops.begin(), r.ops.end());
  std::stable_sort(ops.begin(), ops.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Table table({"op", ">nodes"});
  for (const auto& [name, count] : ops) table.AddRow({name, fmt::format("{}", count)});
  table.AddRow({"total", fmt::format("{}", r.nodes)});
  out += "\n" + table.ToString();
  if (!r.unknown.empty()) {
    out += fmt::format("\n{} results whose shape is not known:\n", r.unknown.size());
    for (const UnknownShape& u : r.unknown)
      out += fmt::format("  {}: {}: {}\n", u.place, u.shape, u.why);
  }
  if (!r.runtime_extents.empty()) {
    out +=
        fmt::format("\n{} dimensions that are known only at run time:\n", r.runtime_extents.size());
    for (const RuntimeExtent& x : r.runtime_extents)
      out += fmt::format("  {}: {}: data-dependent\n", x.name, x.place);
  }
  return out;
}

Json IosJson(const std::vector<Io>& list) {
  Json out = Json::array();
  for (const Io& i : list) out.push_back({{"name", i.name}, {"type", i.type}, {"shape", i.shape}});
  return out;
}

Json ToJson(const Report& r) {
  Json bindings = BindingsJson(r.bindings);
  Json unknown = Json::array();
  for (const UnknownShape& u : r.unknown)
    unknown.push_back({{"place", u.place}, {"shape", u.shape}, {"why", u.why}});
  Json extents = Json::array();
  for (const RuntimeExtent& x : r.runtime_extents)
    extents.push_back({{"name", x.name}, {"place", x.place}});
  auto or_null = [](int64_t v) { return v < 0 ? Json(nullptr) : Json(v); };
  return {{"name", r.name},
          {"inputs", IosJson(r.inputs)},
          {"outputs", IosJson(r.outputs)},
          {"nodes", r.nodes},
          {"ops", r.ops},
          {"dtypes", r.dtypes},
          {"symbols", r.symbols},
          {"bindings", std::move(bindings)},
          {"chosen", r.chosen},
          {"parameters", r.parameters},
          {"parameter_elements", r.parameter_elements},
          {"parameter_bytes", r.parameter_bytes},
          {"flops", or_null(r.flops_value)},
          {"flops_formula", r.flops.ToString()},
          {"flops_unknown_nodes", r.flops_unknown},
          {"flops_loops", r.flops_loops},
          {"peak_bytes", or_null(r.arena_bytes)},
          {"peak_is_bound", r.arena_at_most},
          {"peak_error", r.arena_error},
          {"peak_backend", r.peak_backend},
          {"unknown_shapes", std::move(unknown)},
          {"runtime_extents", std::move(extents)}};
}

/// What of a model a compiled program still tells: what it takes, gives, and is made of.
int InspectProgram(const Args& a) {
  for (const auto& [option, given] :
       {std::pair{"--support", !a.support.empty()}, std::pair{"--bind", a.inputs.given_dims()}})
    if (given)
      ThrowError(ErrorCode::kUsage,
                 fmt::format("{}: '{}' is compiled already", option, a.model.path), "",
                 "give the model's .onnx, .weft or .json file");
  const auto program = LoadProgram(a.model.path, {"", 0, a.model.Check(), {}});
  const ProgramStats& stats = program->stats();
  Report r;
  r.name = program->graph().name();
  const auto io = [](const IoSpec& s) {
    return Io{s.name, std::string(DTypeName(s.dtype)), s.shape.ToString()};
  };
  for (const IoSpec& s : program->inputs()) r.inputs.push_back(io(s));
  for (const IoSpec& s : program->outputs()) r.outputs.push_back(io(s));
  r.symbols = InputSymbols(program->graph());
  for (NodePtr n : program->graph().TopoOrder())
    if (const TensorPtr t = Graph::ConstantOf(NodeEntry(n))) CountParameter(*t, &r);
  if (a.model.json) {
    PrintJson({{"name", r.name},
               {"backend", program->backend()},
               {"inputs", IosJson(r.inputs)},
               {"outputs", IosJson(r.outputs)},
               {"symbols", r.symbols},
               {"parameters", r.parameters},
               {"parameter_elements", r.parameter_elements},
               {"parameter_bytes", r.parameter_bytes},
               {"kernels", stats.kernels},
               {"distinct_kernels", stats.distinct_kernels},
               {"library_calls", stats.library_calls},
               {"reorders", stats.reorders},
               {"interpreted", stats.interpreted}});
    return 0;
  }
  PrintText(HeadText(r) +
            fmt::format("program  compiled for {}: {} kernels ({} distinct), {} library "
                        "calls, {} reorders, {} interpreted\n",
                        program->backend(), stats.kernels, stats.distinct_kernels,
                        stats.library_calls, stats.reorders, stats.interpreted));
  return 0;
}

/// As in "openvino:streams=2".
bool IsDelegate(const std::string& name) {
  const std::vector<std::string> names = ListDelegates();
  return std::find(names.begin(), names.end(), name.substr(0, name.find(':'))) != names.end();
}

int RunInspect(const Args& a) {
  if (!a.delegates.to.empty()) {
    std::vector<std::string> choices = Split(a.divisions, ',');
    if (a.divisions.empty()) choices.clear();
    return InspectDivision(a.model, a.inputs, a.delegates, choices);
  }
  WEFT_CHECK(a.divisions.empty(), kUsage, "--divisions goes with --delegate");
  if (a.memory.asked) return InspectMemory(a.model, a.inputs, a.memory);
  WEFT_CHECK(
      a.memory.html.empty() && a.memory.memory.budget.empty() && a.memory.memory.hints.empty(),
      kUsage, "--html, --memory-budget and --hint go with --memory");
  if (IsProgramFile(a.model.path)) return InspectProgram(a);
  ImportOptions import;
  import.allow_unsupported = true;
  std::vector<Finding> findings;
  import.findings = &findings;
  const Graph graph = ReadModel(a.model, import);
  const bool partly = std::any_of(findings.begin(), findings.end(), [](const Finding& f) {
    return !f.op.empty() && f.oddity.empty();
  });
  const Report report = Inspect(graph, a, partly);
  Support support;
  if (IsDelegate(a.support))
    support = FindDelegateSupport(graph, findings, ParseDelegates(a.support).at(0));
  else if (!a.support.empty())
    support = FindSupport(graph, findings, a.support, report.bindings);

  if (a.model.json) {
    Json out = ToJson(report);
    Json remarks = Json::array();
    for (const Finding& f : findings)
      remarks.push_back({{"op", f.op},
                         {"place", f.place},
                         {"message", f.message},
                         {"hint", f.hint},
                         {"count", f.count},
                         {"oddity", f.oddity}});
    out["findings"] = std::move(remarks);
    if (!a.support.empty()) {
      out["unsupported"] = SupportJson(support.unsupported);
      out["between_regions"] = SupportJson(support.between_regions);
      out["on_host"] = SupportJson(support.on_host);
    }
    PrintJson(out);
  } else {
    std::string text = ReportText(report);
    const bool left_out = std::any_of(findings.begin(), findings.end(),
                                      [](const Finding& f) { return f.oddity.empty(); });
    if (left_out && a.support.empty()) {
      text += "\nnot imported:\n";
      for (const Finding& f : findings)
        if (f.oddity.empty())
          text += fmt::format("  {} x {}: {}{}\n", f.count, f.op.empty() ? f.place : f.op,
                              f.message, f.hint.empty() ? "" : " (hint: " + f.hint + ")");
    }
    if (!a.support.empty()) text += "\n" + SupportText(support, a.support);
    PrintText(text);
  }
  if (support.unsupported.empty()) return 0;
  ThrowError(ErrorCode::kUnsupported,
             fmt::format("{} nodes cannot run on {}", CountNodes(support.unsupported), a.support),
             a.model.path);
}

}  // namespace

Command MakeInspect(Options& parent) {
  auto a = std::make_shared<Args>();
  Options app = parent.AddCommand("inspect", "what a model holds, costs and needs");
  AddModel(app, &a->model);
  AddRandomWeights(app, &a->model);
  AddBind(app, &a->inputs);
  app.Add(
      "--support TARGET", &a->support,
      "list every node that TARGET (cpu, ref, cuda:sm_90, a plugin's backend or delegate) cannot "
      "run");
  AddMemoryReport(app, &a->memory);
  AddDelegates(app, &a->delegates);
  app.Add("--divisions C,C..", &a->divisions,
          "with --delegate: what divisions by these choices (none, too) take by costs of nodes and "
          "borders, and what they take timed whole");
  return {app, [a] { return RunInspect(*a); }};
}

}  // namespace weft::tool
