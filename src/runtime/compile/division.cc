/// division.cc: see division.h.
#include "division.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "constant_extents.h"
#include "division_costs.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/module/delegate.h"
#include "weft/core/text/text.h"
#include "weft/runtime/inputs/sample_inputs.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/program/profile.h"
#include "weft/support/check.h"
#include "weft/support/hash.h"
#include "weft/support/log.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace weft {
namespace {

/// Seconds that the timing of one division takes, and how much faster another has to be than none.
constexpr double kSeconds = 0.5, kGain = 1.01;
constexpr int kLeastRounds = 2, kMostRounds = 50, kTurn = 6;
/// Divisions whose times tell what a border costs: few and many of them.
const char* const kTelling[] = {"alternate:4", "alternate:16"};
/// What a border costs at least, whatever a few times said: a call, and writing and reading again
/// what registers or caches held (20 GB/s).
constexpr double kLeastTensorUs = 10, kLeastMibUs = 100;
/// Factors of what a border costs at which cheapest divisions are tried: the estimate may err.
constexpr double kBorderFactors[] = {0.5, 1, 2, 4};
/// By which costs of an engine are corrected at most, so that they add up to the time of a run.
constexpr double kLeastFactor = 0.25, kMostFactor = 4;

/// A division as an option of the pass and the costs that it goes by.
struct Choice {
  std::string name;                        ///< all, none, auto
  std::vector<std::pair<int, int>> sides;  ///< of "auto": nodes of a side, in order: side, how many
};

class Chooser {
 public:
  Chooser(const Graph& graph, const Pipeline& pipeline, const CompileOptions& options)
      : options_(options), given_(graph) {
    bool behind = false;
    Pipeline head;
    for (const PassSpec& p : pipeline.passes()) {
      behind = behind || GivesToDelegates(p);
      (behind ? tail_ : head).push_back(p);
    }
    options_.division.choice = "all";
    options_.memory.budget = {};
    const SymBindings at = std::move(options_.division.at);
    graph_ = Through(head, graph);
    for (const NodePtr& n : graph_.TopoOrder())
      if (!n->is_variable() && !Graph::ConstantOf(NodeEntry(n))) nodes_.push_back(n);
    for (const Option& o : tail_.passes().front().options)
      if (o.name == "to") engines_ = ParseDelegates(std::get<std::string>(o.value));
    const ChosenDims chosen = ChooseDims(graph, at.empty() ? options_.memory.hints : at);
    WEFT_CHECK(chosen.failure.empty(), kBadBinding, "no dimensions to time the model at: {}",
               chosen.failure);
    bindings_ = chosen.bindings;
    sized_ = AtExtents(graph_, bindings_, options_.passes);
  }

  Divided Run() {
    const std::string key = Key();
    KernelCache& cache = KernelCache::Process();
    if (const std::optional<std::string> known = cache.FindText(key))
      if (const std::optional<Choice> choice = Parse(*known)) return By(*choice);
    const Choice best = Race();
    cache.StoreText(key, Text(best));
    return By(best);
  }

  std::vector<DivisionTime> Times(const std::vector<std::string>& choices) {
    Measured m = Measure();
    std::vector<Runner> runners;
    std::vector<Runner*> all;
    std::vector<DivisionTime> times(choices.size());
    for (size_t k = 0; k < choices.size(); ++k) {
      DivisionTime& t = times[k];
      const DivisionSample s = SampleOf(m.costed, choices[k], &t.regions);
      t.choice = choices[k];
      t.tensors = int64_t(s.tensors), t.bytes = int64_t(s.bytes);
      t.estimate_us = s.nodes_us + m.border.Of(s);
      runners.push_back(RunnerOf({choices[k], {}}, m.costed));
    }
    for (Runner& r : runners) all.push_back(&r);
    // The machine may be faster or slower than when it was measured: none and all tell.
    double then = 0, now = 0;
    for (Runner& r : m.runners) {
      then += r.us;
      r.us = std::numeric_limits<double>::infinity();
      all.push_back(&r);
    }
    Time(all);
    for (const Runner& r : m.runners) now += r.us;
    for (size_t k = 0; k < choices.size(); ++k) {
      times[k].us = runners[k].us;
      times[k].estimate_us *= now / then;
    }
    return times;
  }

 private:
  // ---- programs ----

  Graph Through(const Pipeline& pipeline, const Graph& graph) const {
    PassOptions passes = options_.passes;
    std::vector<PassRecord> records;
    passes.records = &records;
    passes.target = GetBackend(options_.backend)->target();
    return ApplyPasses(graph, pipeline, passes);
  }
  Pipeline PipelineOf(const std::string& choice, const std::string& to) const {
    Pipeline p;
    for (PassSpec spec : tail_.passes()) {
      if (GivesToDelegates(spec)) {
        for (Option& o : spec.options) {
          if (o.name == "choice") o.value = choice == "none" ? "all" : choice;
          if (o.name == "to" && choice == "none") o.value = "";
          if (o.name == "to" && !to.empty()) o.value = to;
        }
      }
      p.push_back(std::move(spec));
    }
    return p;
  }
  std::shared_ptr<const Program> Made(const Graph& graph, const Pipeline& pipeline) const {
    CompileOptions o = options_;
    o.pipeline = pipeline.ToString();
    std::vector<PassRecord> records;
    o.passes.records = &records;
    return Compile(graph, o);
  }

  // ---- costs ----

  std::vector<ProfileRow> ProfileOf(const std::shared_ptr<const Program>& program) const {
    Session session(program);
    return ProfileSteps([&] { return session.Profile(inputs_); }, Machine());
  }
  /// `sized_` with what is known of costs.
  Graph Costed(const NodeCosts& ours, const std::vector<NodeCosts>& theirs,
               const BorderCosts& border) const {
    NodeMap<Floats> costs;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Floats row{std::vector<double>{ours.Known(i)}};
      // Where an engine's profile tells nothing of a node: as long as it takes here.
      for (const NodeCosts& c : theirs) row.push_back(c[i] < 0 ? ours.Known(i) : c[i]);
      costs.set(nodes_[i], std::move(row));
    }
    Graph g = sized_;
    g.SetAttr("delegate_costs", std::move(costs));
    g.SetAttr("delegate_border_costs",
              Floats{std::vector<double>{border.tensor_us, border.mib_us}});
    return g;
  }
  /// What the pass says of a division of a graph with costs.
  DivisionSample SampleOf(const Graph& costed, const std::string& choice, int64_t* regions) const {
    PassOptions passes = options_.passes;
    std::vector<PassRecord> records;
    passes.records = &records;
    passes.target = GetBackend(options_.backend)->target();
    PassSpec divide = PipelineOf("all", {}).passes().front();
    for (Option& o : divide.options) {
      if (o.name == "choice" && choice != "none") o.value = choice;
      if (o.name == "most" && choice == "none") o.value = int64_t{0};
    }
    ApplyPasses(costed, {divide}, passes);
    DivisionSample s;
    for (PassRecord& r : records) {
      if (r.name != divide.name) continue;
      s.nodes_us = double(r.statistics["nodes_ns"]) / 1000;
      s.tensors = double(r.statistics["border_tensors"]);
      s.bytes = double(r.statistics["border_bytes"]);
      if (regions) *regions = r.statistics["regions"];
    }
    return s;
  }

  // ---- the race ----

  struct Runner {
    Choice choice;
    std::shared_ptr<const Program> program;
    double us = std::numeric_limits<double>::infinity();  ///< the least of several runs
  };
  Runner RunnerOf(Choice choice, const Graph& graph) const {
    Runner r;
    r.program = Made(graph, PipelineOf(choice.name, {}));
    r.choice = std::move(choice);
    return r;
  }
  /// In turns of several runs, so that what else the machine does hits all alike, and each finds
  /// the caches as it left them.
  void Time(const std::vector<Runner*>& runners) const {
    std::vector<Session> sessions;
    std::vector<std::vector<std::shared_ptr<Tensor>>> outputs(runners.size());
    for (const Runner* r : runners) sessions.emplace_back(r->program);
    const Timer all;
    const double most = kSeconds * double(runners.size());
    for (int round = 0; round < kMostRounds; ++round) {
      if (round >= kLeastRounds && all.seconds() > most) break;
      for (size_t k = 0; k < sessions.size(); ++k)
        for (int run = 0; run < kTurn; ++run) {
          RequestScope::Poll();
          const Timer one;
          sessions[k].RunInto(inputs_, &outputs[k]);
          if (run > 0) runners[k]->us = std::min(runners[k]->us, 1000 * one.milliseconds());
        }
    }
  }
  /// Programs without delegates and with all that they take, their times, and what these and a few
  /// other divisions tell of costs.
  struct Measured {
    std::vector<Runner> runners;  ///< none, all
    Graph costed;
    BorderCosts border;
  };
  Measured Measure() {
    Measured m;
    inputs_ = SampleInputs(given_, 1, bindings_);
    m.runners.push_back(RunnerOf({"none", {}}, graph_));
    NodeCosts ours(nodes_);
    ours.AddOurs(ProfileOf(m.runners[0].program));
    std::vector<NodeCosts> theirs;
    for (DelegateSpec engine : engines_) {
      // Rows of its own cost time, so an engine is asked to tell them only here.
      if (const auto it = engine.options.find("profile"); it != engine.options.end())
        it->second = "1";
      theirs.emplace_back(nodes_);
      theirs.back().AddTheirs(ProfileOf(Made(graph_, PipelineOf("all", engine.ToString()))), ours);
    }
    m.runners.push_back(RunnerOf({"all", {}}, graph_));
    std::vector<Runner> telling;
    m.costed = Costed(ours, theirs, {});
    if (nodes_.size() > 1)
      for (const char* choice : kTelling) telling.push_back(RunnerOf({choice, {}}, m.costed));
    std::vector<Runner*> all{&m.runners[0], &m.runners[1]};
    for (Runner& r : telling) all.push_back(&r);
    Time(all);
    // Profiles tell proportions; whole runs tell how long all takes.
    const auto factor = [&](const Runner& runner, double held) {
      const double us = SampleOf(m.costed, runner.choice.name, nullptr).nodes_us - held;
      return us > 0 ? std::clamp((runner.us - held) / us, kLeastFactor, kMostFactor) : 1.0;
    };
    ours.Scale(factor(m.runners[0], 0));
    m.costed = Costed(ours, theirs, {});
    const double kept = KeptUs(m.costed, ours);
    const double scale = factor(m.runners[1], kept);
    for (NodeCosts& c : theirs) c.Scale(scale);
    m.costed = Costed(ours, theirs, {});
    std::vector<DivisionSample> samples;
    for (const Runner& r : telling) {
      samples.push_back(SampleOf(m.costed, r.choice.name, nullptr));
      samples.back().us = r.us;
    }
    m.border = FitBorders(samples);
    m.border.tensor_us = std::max(m.border.tensor_us, kLeastTensorUs);
    m.border.mib_us = std::max(m.border.mib_us, kLeastMibUs);
    m.costed = Costed(ours, theirs, m.border);
    WEFT_LOG(kInfo, "a tensor that crosses a border costs {:.1f} us and {:.1f} us a MiB",
             m.border.tensor_us, m.border.mib_us);
    return m;
  }
  /// What nodes take that stay with us where delegates get all that they take.
  double KeptUs(const Graph& costed, const NodeCosts& ours) const {
    const std::vector<int> sides = SidesBy("all", costed);
    double us = 0;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (sides[i] < 0) us += ours.Known(i);
    return us;
  }
  Choice Race() {
    Measured m = Measure();
    for (const double factor : kBorderFactors) {
      Graph g = m.costed;
      g.SetAttr("delegate_border_costs",
                Floats{std::vector<double>{m.border.tensor_us * factor, m.border.mib_us * factor}});
      const Choice cheapest{"auto", RunsOf(SidesBy("auto", g))};
      const auto alike = [&](const Runner& r) { return r.choice.sides == cheapest.sides; };
      if (!cheapest.sides.empty() && std::none_of(m.runners.begin(), m.runners.end(), alike))
        m.runners.push_back(RunnerOf(cheapest, WithSides(cheapest)));
    }
    std::vector<Runner*> all;
    for (Runner& r : m.runners) all.push_back(&r);
    Time(all);
    size_t best = 0;
    for (size_t k = 0; k < m.runners.size(); ++k) {
      WEFT_LOG(kInfo, "division '{}': {:.1f} us", m.runners[k].choice.name, m.runners[k].us);
      if (m.runners[k].us * (best == 0 ? kGain : 1) < m.runners[best].us) best = k;
    }
    return m.runners[best].choice;
  }

  // ---- sides ----

  /// What the pass chooses: each node's side.
  std::vector<int> SidesBy(const std::string& choice, const Graph& costed) const {
    const Graph divided = Through({PipelineOf(choice, {}).passes().front()}, costed);
    std::unordered_map<std::string, int> side_of;
    for (const NodePtr& n : divided.TopoOrder()) {
      if (!IsOp(n, builtin::kDelegated)) continue;
      const auto name = n->attr<std::string>("delegate");
      int side = -1;
      for (size_t k = 0; k < engines_.size(); ++k)
        if (engines_[k].ToString() == name) side = int(k);
      for (const NodePtr& inside : n->attr<GraphPtr>("body")->TopoOrder())
        for (const std::string& s : NodeCosts::NamesOf(inside))
          if (!s.empty()) side_of[s] = side;
    }
    std::vector<int> sides;
    for (const NodePtr& n : nodes_) {
      sides.push_back(-1);
      for (const std::string& s : NodeCosts::NamesOf(n))
        if (const auto it = side_of.find(s); it != side_of.end()) sides.back() = it->second;
    }
    return sides;
  }
  /// Sides and how many nodes in order have them. Empty: nothing is given away.
  static std::vector<std::pair<int, int>> RunsOf(const std::vector<int>& sides) {
    std::vector<std::pair<int, int>> runs;
    for (const int side : sides) {
      if (runs.empty() || runs.back().first != side) runs.emplace_back(side, 0);
      ++runs.back().second;
    }
    if (std::all_of(sides.begin(), sides.end(), [](int side) { return side < 0; })) runs.clear();
    return runs;
  }
  /// With costs that leave the pass no other choice.
  Graph WithSides(const Choice& choice) const {
    constexpr double kFar = 1e9;  // microseconds
    Graph g = graph_;
    NodeMap<Floats> costs;
    size_t at = 0;
    for (const auto& [side, count] : choice.sides)
      for (int k = 0; k < count && at < nodes_.size(); ++k, ++at) {
        Floats row(std::vector<double>(engines_.size() + 1, kFar));
        row[size_t(side + 1)] = 0;
        costs.set(nodes_[at], std::move(row));
      }
    g.SetAttr("delegate_costs", std::move(costs));
    return g;
  }
  Divided By(const Choice& choice) const {
    return {choice.name == "auto" ? WithSides(choice) : graph_, PipelineOf(choice.name, {})};
  }

  // ---- what is kept ----

  std::string Key() const {
    PrintOptions print;
    SideData side;
    print.side_data = &side;
    const std::string text = PrintGraph(graph_, print);
    std::string key = fmt::format("division {}\ntarget {}\nprocessor {}\nthreads {}\n",
                                  HashBytes(text.data(), text.size()).ToHex(), options_.backend,
                                  CpuModel(), options_.threads);
    for (const DelegateSpec& e : engines_)
      key += fmt::format("engine {} {}\n", e.ToString(), e.delegate->Version());
    for (const auto& [name, value] : bindings_) key += fmt::format("{} {}\n", name, value);
    return key + tail_.ToString();
  }
  std::string Text(const Choice& choice) const {
    std::string text = choice.name;
    for (const auto& [side, count] : choice.sides) text += fmt::format(" {} {}", side, count);
    return text;
  }
  /// Nothing where it is not of this graph.
  std::optional<Choice> Parse(const std::string& text) const {
    const std::vector<std::string> words = Split(text, ' ');
    Choice c{words.empty() ? "" : words[0], {}};
    if (c.name != "none" && c.name != "all" && c.name != "auto") return std::nullopt;
    size_t nodes = 0;
    for (size_t k = 1; k + 1 < words.size(); k += 2) {
      const auto side = TryParseInt64(words[k]), count = TryParseInt64(words[k + 1]);
      if (!side || !count || *side < -1 || *side >= int64_t(engines_.size()) || *count < 1 ||
          *count > int64_t(nodes_.size()))
        return std::nullopt;
      c.sides.emplace_back(int(*side), int(*count));
      nodes += size_t(*count);
    }
    if (c.name == "auto" && nodes != nodes_.size()) return std::nullopt;
    return c;
  }

  CompileOptions options_;
  const Graph& given_;
  Pipeline tail_;  ///< from the pass Delegate on
  Graph graph_;    ///< as it comes to it
  Graph sized_;    ///< the same with numbers for extents, those that it is timed at
  std::vector<NodePtr> nodes_;
  std::vector<DelegateSpec> engines_;
  SymBindings bindings_;
  std::vector<TensorPtr> inputs_;  ///< of timed runs
};

}  // namespace

Divided ChooseDivision(const Graph& graph, const Pipeline& pipeline,
                       const CompileOptions& options) {
  return Chooser(graph, pipeline, options).Run();
}

std::vector<DivisionTime> TimesOfDivisions(const Graph& graph, const Pipeline& pipeline,
                                           const CompileOptions& options,
                                           const std::vector<std::string>& choices) {
  return Chooser(graph, pipeline, options).Times(choices);
}

}  // namespace weft
