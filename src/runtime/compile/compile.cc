/// compile.cc: what Compile does for every backend: the pipeline, then a program of what it left.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "budget_program.h"
#include "constant_extents.h"
#include "division.h"
#include "mapped_constants.h"
#include "plan_graph.h"
#include "runtime/own/own_program.h"
#include "runtime/plan/instruction.h"
#include "runtime/program/state_values.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/variable.h"
#include "weft/core/module/delegate.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/provide.h"
#include "weft/core/pass/size_names.h"
#include "weft/core/plan/scratch.h"
#include "weft/core/plan/size_hints.h"
#include "weft/runtime/inputs/sample_inputs.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/placement.h"
#include "weft/runtime/program/planned_graph.h"
#include "weft/support/aligned_memory.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/out_of_memory.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"
#include "weft/sym/symbols.h"

namespace weft {
namespace {

/// A pipeline as it runs where one plan may not hold the graph: cut before the first pass that
/// makes kernels and calls.
struct CutPipeline {
  Pipeline head, tail;
  explicit CutPipeline(const Pipeline& whole) {
    bool behind = false;
    for (const PassSpec& spec : whole.passes()) {
      const PassEntry& pass = *PassEntry::Get(spec.name);
      behind = behind || pass.fuses || Provides(pass, "kernel") || Provides(pass, "order");
      (behind ? tail : head).push_back(spec);
    }
  }
  static bool Provides(const PassEntry& pass, const char* attr) {
    return std::count(pass.provides.begin(), pass.provides.end(), attr) > 0;
  }
};

/// Graphs and their bodies from the first pass that makes kernels on.
class Planner {
 public:
  Planner(const CutPipeline& pipeline, const PassOptions& passes)
      : pipeline_(pipeline), passes_(passes) {
    // Bodies that one plan can hold become programs with the graph around them.
    passes_.enters = [this](const PassEntry& next, const Graph& body) {
      if (user_enters_ && !user_enters_(next, body)) return false;
      return CanPlanBody(body, passes_.target);
    };
    user_enters_ = passes.enters;
  }

  /// `why`: why one plan cannot hold it; where that is so.
  Graph Plan(Graph g, std::string* why) const {
    g = ProvideTypes(std::move(g), Quiet());
    FollowSizeNames(&g);
    g = ProvideTypes(std::move(g), Quiet());
    *why = Placement(g, passes_.target).WhyRegions();
    if (why->empty()) return ApplyPasses(WithBodies(std::move(g), false), pipeline_.tail, passes_);
    // What a region writes could not be undone when one behind it fails.
    const StateValues state(&g);
    // Inference behind the first renaming may have found more sizes equal: a region is told one.
    FollowSizeNames(&g);
    g = ProvideTypes(std::move(g), Quiet());
    g = ProvideTypes(ApplyPasses(std::move(g), RegionPipeline(), passes_), Quiet());
    g = WithBodies(std::move(g), true);
    state.Restore(&g);
    return ProvideTypes(std::move(g), Quiet());
  }

 private:
  PassOptions Quiet() const {
    PassOptions quiet;
    quiet.target = passes_.target;
    quiet.limits = passes_.limits;
    quiet.verify = false;
    return quiet;
  }
  /// With plans in the bodies that the passes over the graph around them do not enter. `apart`:
  /// they enter none, since the graph is regions.
  Graph WithBodies(Graph g, bool apart) const {
    std::string why;
    for (const NodePtr& n : g.TopoOrder()) {
      if (IsOp(n, builtin::kRegion))
        ReplaceBody(g, n, "body", Plan(*n->attr<GraphPtr>("body"), &why));
      if (!RunsBodies(passes_.target, n)) continue;
      for (const std::string& name : BodyNames(n)) {
        std::optional<Graph> body =
            FittingBody(n, name, g.GetAttr<ShapeMap>("shape"), g.GetAttr<TypeMap>("dtype"));
        if (!body) continue;
        if (!apart && CanPlanBody(*body, passes_.target)) continue;
        body = WithNamedSizes(*std::move(body));
        Graph planned = ApplyPasses(*body, pipeline_.head, passes_);
        planned = Plan(std::move(planned), &why);
        if (why.empty() || HasRegions(planned)) ReplaceBody(g, n, name, std::move(planned));
      }
    }
    return g;
  }
  /// The dimensions of the inputs of a body that nobody knows get names, which its run tells, and
  /// so do those in symbols that are no dimension by themselves: [2 * n] where nothing is [n].
  Graph WithNamedSizes(Graph body) const {
    int64_t next = FirstFreeSize(body);
    std::vector<Shape> shapes;
    std::unordered_set<SymInt> told;
    for (const NodePtr& input : body.inputs()) {
      shapes.push_back(body.GetAttr<ShapeMap>("shape")[NodeEntry(input)]);
      for (SymInt d : shapes.back().dims())
        if (d.known() && d.is_symbol()) told.insert(d);
    }
    const auto is_told = [&](SymInt d) {
      return EverySymbol(d, [&](SymInt s) { return told.count(s) != 0; });
    };
    std::unordered_map<SymInt, SymInt> names;
    std::vector<SymInt> known(told.begin(), told.end());
    bool any = false;
    for (size_t i = 0; i < shapes.size(); ++i) {
      Shape s = shapes[i];
      for (int d = 0; s.has_rank() && d < s.rank(); ++d) {
        if (!s[d].known()) {
          s.set(d, SymInt::Unbacked(next++));
        } else if (!is_told(s[d])) {
          const auto [it, fresh] = names.try_emplace(s[d]);
          if (fresh) it->second = SymInt::Unbacked(next++);
          s.set(d, it->second);
        }
        known.push_back(s[d]);
      }
      if (s.same(shapes[i])) continue;
      body.SetAttr(body.inputs()[i], "shape", s);
      any = true;
    }
    if (!any) return body;
    for (const NodePtr& n : body.TopoOrder()) {
      if (names.empty() || !IsOp(n, builtin::kShapeTensor)) continue;
      std::vector<SymInt> dims = n->attr<Shape>("dims").dims();
      for (SymInt& d : dims)
        if (const auto it = names.find(d); it != names.end()) d = it->second;
      if (const Shape now(std::move(dims)); !now.same(n->attr<Shape>("dims")))
        body.SetAttr(n, "dims", now);
    }
    // What was found under names that nobody tells is found again.
    if (body.HasAttr("facts")) body.SetAttr("facts", body.GetAttr<Facts>("facts").About(known));
    for (const char* attr : {"resolved", "introduced", "shape", "value"}) body.DropAttr(attr);
    return ProvideTypes(std::move(body), Quiet());
  }
  /// Beyond the number of every size that depends on data and that the body mentions: also of an
  /// input that nothing reads, since a run looks at all of them.
  static int64_t FirstFreeSize(const Graph& body) {
    int64_t next = 0;
    const auto note = [&next](const Shape& shape) {
      for (SymInt d : shape.dims())
        for (SymInt s : d.known() ? d.Symbols() : std::vector<SymInt>())
          if (const std::optional<int64_t> k = s.unbacked_number()) next = std::max(next, *k + 1);
    };
    const ShapeMap& shapes = body.GetAttr<ShapeMap>("shape");
    for (const NodePtr& input : body.inputs()) note(shapes[NodeEntry(input)]);
    for (const NodePtr& n : body.TopoOrder()) {
      for (uint32_t i = 0; i < n->num_outputs(); ++i) note(shapes[NodeEntry(n, i)]);
      if (IsOp(n, builtin::kShapeTensor)) note(n->attr<Shape>("dims"));
    }
    return next;
  }

  const CutPipeline& pipeline_;
  PassOptions passes_;
  std::function<bool(const PassEntry&, const Graph&)> user_enters_;
};

void SetHints(const SymBindings& hints, Graph* graph) {
  if (!hints.empty()) graph->SetAttr("hint", SizeHints{{hints.begin(), hints.end()}});
}

/// Plans one graph, perhaps in several ways, which differ behind its code only.
class GraphPlanner {
 public:
  GraphPlanner(const Pipeline& pipeline, Graph graph, const PassOptions& passes)
      : passes_(passes), cut_(pipeline) {
    head_ = ApplyPasses(std::move(graph), cut_.head, passes_);
  }
  /// Before the first plan: all have them in common.
  void MapConstants() { MapDelegatedConstants(&head_); }
  Planned Plan() const { return PlanBehind(head_, cut_); }
  /// As PlanWay takes them. Records are those of this way.
  Planned PlanWithin(int64_t arena_bytes, const ScratchMap& scratch, const SymBindings& at) {
    if (!coded_ && !apart_) MakeCode();
    passes_.records->resize(coded_ ? records_ : head_records_);
    CutPipeline cut = cut_;
    if (apart_) {
      cut.tail = WithBudget(cut.tail, arena_bytes);
      Graph head = head_;
      SetHints(at, &head);
      return PlanBehind(head, cut);
    }
    Planned planned;
    planned.graph = *coded_;
    planned.graph.SetAttr("scratch", scratch);
    SetHints(at, &planned.graph);
    planned.graph = ApplyPasses(std::move(planned.graph), WithBudget(order_, arena_bytes), passes_);
    return planned;
  }

 private:
  Planned PlanBehind(const Graph& head, const CutPipeline& cut) const {
    Planned planned;
    planned.graph = Planner(cut, passes_).Plan(head, &planned.why_regions);
    return planned;
  }
  /// All that ways have in common. Regions and bodies are planned as they are met, each way by
  /// itself.
  void MakeCode() {
    head_records_ = passes_.records->size();
    CutPipeline code = cut_;
    code.tail = Pipeline();
    for (const PassSpec& spec : cut_.tail.passes()) {
      const bool orders =
          !order_.passes().empty() || CutPipeline::Provides(*PassEntry::Get(spec.name), "order");
      (orders ? order_ : code.tail).push_back(spec);
    }
    const std::vector<NodePtr> nodes = head_.TopoOrder();
    apart_ = std::any_of(nodes.begin(), nodes.end(), [&](const NodePtr& n) {
      return !n->is_variable() && !BodyNames(n).empty();
    });
    if (apart_) return;
    Planned planned = PlanBehind(head_, code);
    apart_ = !planned.why_regions.empty();
    if (!apart_) {
      coded_ = std::move(planned.graph);
      coded_->Compact();  // rows of every way are as many as there are ids
    }
    records_ = passes_.records->size();
  }

  const PassOptions& passes_;
  const CutPipeline cut_;
  Graph head_;
  // Of PlanWithin:
  Pipeline order_;              ///< the passes from the one that orders steps on
  std::optional<Graph> coded_;  ///< the graph in front of them
  bool apart_ = false;
  size_t head_records_ = 0, records_ = 0;
};

Planned PlanBy(const Pipeline& pipeline, Graph graph, const PassOptions& passes) {
  if (passes.target.traits().kernels)
    return GraphPlanner(pipeline, std::move(graph), passes).Plan();
  Planned planned;
  planned.graph = ApplyPasses(std::move(graph), pipeline, passes);
  return planned;
}

/// Operands of its engines lie where those of the backend's steps do.
void CheckDelegates(const std::string& text, Backend& backend) {
  const int16_t memory =
      backend.device() ? backend.device()->place().kind : int16_t{MemoryPlace::kHost};
  for (const DelegateSpec& spec : ParseDelegates(text)) {
    const DelegateTraits traits = spec.delegate->traits();
    WEFT_CHECK(traits.memory == memory, kUnsupported,
               "delegate '{}' works in memory of {}, backend '{}' in that of {}",
               spec.delegate->name(), MemoryPlace{traits.memory, 0}.ToString(), backend.name(),
               MemoryPlace{memory, 0}.ToString());
  }
}

/// options.division is all but "auto".
Pipeline PipelineOf(const CompileOptions& options, Backend& backend, bool code) {
  Pipeline pipeline =
      Pipeline::Parse(options.pipeline.empty() ? backend.default_pipeline() : options.pipeline);
  if (!options.fusion) pipeline = WithoutFusion(pipeline);
  const std::string delegates = SplitDelegates(options.backend).second;
  CheckDelegates(delegates, backend);
  if (!delegates.empty() && options.pipeline.empty()) pipeline = WithoutQuantised(pipeline);
  pipeline = WithDelegates(pipeline, delegates, options.division.choice, options.division.only,
                           options.division.most);
  return code ? pipeline : WithoutCode(pipeline);
}

PassOptions PassesOf(const CompileOptions& options, Backend& backend) {
  PassOptions passes = options.passes;
  passes.target = backend.target();
  return passes;
}

}  // namespace

Planned PlanGraph(Graph graph, const CompileOptions& options, Backend& backend, bool code) {
  return PlanBy(PipelineOf(options, backend, code), std::move(graph), PassesOf(options, backend));
}

Graph MakePlannedGraph(Graph graph, const Pipeline& pipeline, const PassOptions& passes) {
  return PlanBy(pipeline, std::move(graph), passes).graph;
}

namespace {

void CheckHints(const std::vector<std::string>& symbols, const SymBindings& hints) {
  for (const auto& [name, value] : hints) {
    if (!std::binary_search(symbols.begin(), symbols.end(), name))
      ThrowError(ErrorCode::kBadBinding,
                 fmt::format("a hint for '{}', which is not a symbol of the inputs", name), "",
                 DidYouMean(name, symbols));
    WEFT_CHECK(value >= 0, kBadBinding, "the hint {}={} is negative", name, value);
  }
}

/// A value of every symbol: those that are given, and likely ones.
SymBindings HintsFor(const Graph& graph, const SymBindings& given) {
  const std::vector<std::string> symbols = ExtentSymbols(graph), fed = InputSymbols(graph);
  CheckHints(symbols, given);
  SymBindings of_inputs, hints;
  for (const auto& [name, value] : given)
    if (std::binary_search(fed.begin(), fed.end(), name)) of_inputs[name] = value;
  // Runs of one example are not what memory is short for.
  constexpr int64_t kMany = 64;
  const ChosenDims chosen = ChooseDims(graph, of_inputs);
  DimWishes many;
  for (const std::string& s : chosen.chosen)
    many.presets[s] = chosen.bindings.at(s) == 1 ? kMany : chosen.bindings.at(s);
  const ChosenDims more = ChooseDims(graph, of_inputs, {}, many);
  hints = more.failure.empty() ? more.bindings : chosen.bindings;
  for (const std::string& s : symbols) {
    const auto it = given.find(s);
    hints.emplace(s, it == given.end() ? kMany : it->second);
  }
  return hints;
}

/// A program that keeps the budget of the options.
std::unique_ptr<Program::Impl> CompileToBudget(Graph graph, const CompileOptions& options,
                                               const std::shared_ptr<Backend>& backend) {
  WEFT_CHECK(backend->target().traits().kernels, kUnsupported,
             "the backend {} plans no memory; a budget means nothing to it", options.backend);
  const SymBindings hints = HintsFor(graph, options.memory.hints);
  const bool is_static = hints.empty();
  const PassOptions passes = PassesOf(options, *backend);
  SetHints(hints, &graph);
  GraphPlanner planner(PipelineOf(options, *backend, true), std::move(graph), passes);
  planner.MapConstants();
  return MakeBudgetProgram(PlanWays(
      options.memory.budget, hints, is_static,
      [&](int64_t arena_bytes, const ScratchMap& scratch, const SymBindings& at) {
        auto way = MakePlannedProgram(planner.PlanWithin(arena_bytes, scratch, at).graph, backend);
        DescribeProgram(way.get(), options.backend);
        way->limits_ = options.passes.limits;
        way->TakeCallOptions(options.calls);
        return way;
      }));
}

std::shared_ptr<const Program> CompileDivided(Graph graph, const CompileOptions& options);

std::shared_ptr<const Program> CompileAny(Graph graph, const CompileOptions& options) {
  Timer timer;
  RequestScope scope(options.passes.limits, &options.passes.cancel);
  CheckEffects(graph);
  MarkState(graph);
  MarkSteady(graph, options.steady);
  if (options.division.choice == "auto" && !SplitDelegates(options.backend).second.empty())
    return CompileDivided(std::move(graph), options);
  const std::shared_ptr<Backend> backend = BackendFor(options.backend, options.threads);
  std::vector<PassRecord> own;
  CompileOptions recorded = options;
  if (!options.passes.records) recorded.passes.records = &own;
  std::vector<PassRecord>& records = *recorded.passes.records;
  records.clear();
  std::unique_ptr<Program::Impl> made;
  if (options.memory.budget.any()) {
    made = CompileToBudget(std::move(graph), recorded, backend);
  } else {
    if (!options.memory.hints.empty()) CheckHints(ExtentSymbols(graph), options.memory.hints);
    SetHints(options.memory.hints, &graph);
    if (CompilesPerExtents(graph, *backend)) {
      made = CompilePerExtents(std::move(graph), recorded, backend);
    } else {
      Planned planned = PlanGraph(std::move(graph), recorded, *backend, true);
      MapDelegatedConstants(&planned.graph);
      made = MakeAnyProgram(std::move(planned.graph), backend, recorded);
    }
  }
  const std::shared_ptr<Program> program = FinishProgram(std::move(made), options.backend, records,
                                                         options.passes.limits, options.calls);
  // What compiling took is free before the first run takes its share.
  if (options.memory.budget.any()) ReturnFreeMemory();
  program->impl().stats_.compile_seconds = timer.seconds();
  return program;
}

/// `options` without delegates.
CompileOptions Undivided(const CompileOptions& options) {
  CompileOptions left = options;
  left.backend = SplitDelegates(options.backend).first;
  left.division = {};
  left.division.at = options.division.at;
  return left;
}

std::shared_ptr<const Program> CompileDivided(Graph graph, const CompileOptions& options) {
  const Pipeline pipeline = PipelineOf(options, *GetBackend(options.backend), true);
  CompileOptions left = Undivided(options);
  Divided divided = ChooseDivision(graph, pipeline, left);
  graph = Graph();  // what it holds may be held in a file (MapDelegatedConstants)
  left = options;
  left.division.choice = "all";  // the pass is in the pipeline, with its choice
  left.pipeline = divided.pipeline.ToString();
  return CompileAny(std::move(divided.graph), left);
}

}  // namespace

std::vector<DivisionTime> TimeDivisions(const Graph& graph, const CompileOptions& options,
                                        const std::vector<std::string>& choices) {
  WEFT_CHECK(!SplitDelegates(options.backend).second.empty(), kUsage,
             "'{}' names no delegates to divide a graph with", options.backend);
  const Pipeline pipeline = PipelineOf(options, *GetBackend(options.backend), true);
  return TimesOfDivisions(graph, pipeline, Undivided(options), choices);
}

std::shared_ptr<const Program> Compile(Graph graph, const CompileOptions& options) {
  return WithMemoryTo("compile the graph", {}, [&] {
    if (!options.feedback.empty()) {
      CompileOptions rest = options;
      rest.feedback.clear();
      PassOptions passes;
      passes.limits = options.passes.limits;
      passes.cancel = options.passes.cancel;
      const std::string pairs = Join(options.feedback, ";");
      return Compile(ApplyPasses(std::move(graph), FeedbackPipeline(pairs), passes), rest);
    }
    if (!options.backend.empty()) return CompileAny(std::move(graph), options);
    CompileOptions with_backend = options;
    with_backend.backend = kDefaultBackend;
    return CompileAny(std::move(graph), with_backend);
  });
}

}  // namespace weft
