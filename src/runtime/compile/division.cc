/// division.cc: see division.h.
#include "division.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/module/delegate.h"
#include "weft/core/op/op.h"
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
/// What a node that the arithmetic is in weighs among those that it is fused with.
constexpr double kHeavy = 20;

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
    graph_ = Through(head, graph);
    for (const NodePtr& n : graph_.TopoOrder())
      if (!n->is_variable() && !Graph::ConstantOf(NodeEntry(n))) nodes_.push_back(n);
    for (const Option& o : tail_.passes().front().options)
      if (o.name == "to") engines_ = ParseDelegates(std::get<std::string>(o.value));
    const ChosenDims chosen = ChooseDims(graph, options_.memory.hints);
    WEFT_CHECK(chosen.failure.empty(), kBadBinding, "no dimensions to time the model at: {}",
               chosen.failure);
    bindings_ = chosen.bindings;
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

  /// Rows of a profile on the nodes that they stand for.
  class Costs {
   public:
    explicit Costs(const std::vector<NodePtr>& nodes) : nodes_(nodes), us_(nodes.size(), -1) {
      for (size_t i = 0; i < nodes.size(); ++i)
        for (const std::string& name : NamesOf(nodes[i]))
          if (!name.empty()) by_name_[name].push_back(i);
    }
    /// Those that have one of the names.
    std::set<size_t> Find(const std::vector<std::string>& names) const {
      std::set<size_t> all;
      for (const std::string& name : names)
        if (const auto it = by_name_.find(name); it != by_name_.end())
          all.insert(it->second.begin(), it->second.end());
      return all;
    }
    /// False where no node has one of the names.
    bool Add(const std::vector<std::string>& names, double us) {
      const std::set<size_t> all = Find(names);
      double weight = 0;
      for (const size_t i : all) weight += WeightOf(nodes_[i]);
      for (const size_t i : all) Add(i, us * WeightOf(nodes_[i]) / weight);
      return !all.empty();
    }
    void Add(size_t i, double us) { us_[i] = Known(i) + us; }
    double operator[](size_t i) const { return us_[i]; }
    double Known(size_t i) const { return std::max(us_[i], 0.0); }  ///< 0 where nothing is
    static std::vector<std::string> NamesOf(const NodePtr& n) {
      std::vector<std::string> names{n->attrs.name};
      if (n->origin()) names.insert(names.end(), n->origin()->begin(), n->origin()->end());
      return names;
    }

   private:
    static double WeightOf(const NodePtr& n) { return n->op()->has("FFlops") ? kHeavy : 1; }
    const std::vector<NodePtr>& nodes_;
    std::vector<double> us_;  ///< by node; negative: nothing is known
    std::unordered_map<std::string, std::vector<size_t>> by_name_;
  };
  static std::vector<std::string> NamesOf(const StepTime& row) {
    std::vector<std::string> names = Split(row.name, ',');
    for (std::string& name : names) name = std::string(Trim(name));
    if (row.origin) names.insert(names.end(), row.origin->begin(), row.origin->end());
    return names;
  }
  std::vector<ProfileRow> ProfileOf(const std::shared_ptr<const Program>& program) const {
    Session session(program);
    return ProfileSteps([&] { return session.Profile(inputs_); }, Machine());
  }
  /// What nodes cost with an engine: by its own rows, and where it has none, as nodes cost here, in
  /// the proportion in which the region as a whole does.
  static void AddTheirs(const std::vector<ProfileRow>& rows, const Costs& ours, Costs* theirs) {
    for (size_t r = 0; r < rows.size(); ++r) {
      if (rows[r].kind != "delegate") continue;
      double left = rows[r].duration;
      for (size_t k = r + 1; k < rows.size() && rows[k].kind == "engine"; ++k)
        if (!theirs->Add(NamesOf(rows[k]), rows[k].duration)) left += rows[k].duration;
      const std::set<size_t> inside = ours.Find(NamesOf(rows[r]));
      double sum = 0;
      for (const size_t i : inside) sum += ours.Known(i);
      for (const size_t i : inside)
        theirs->Add(i, left * (sum > 0 ? ours.Known(i) / sum : 1 / double(inside.size())));
    }
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
  void Time(std::vector<Runner>* runners) const {
    std::vector<Session> sessions;
    std::vector<std::vector<std::shared_ptr<Tensor>>> outputs(runners->size());
    for (const Runner& r : *runners) sessions.emplace_back(r.program);
    const Timer all;
    const double most = kSeconds * double(runners->size());
    for (int round = 0; round < kMostRounds; ++round) {
      if (round >= kLeastRounds && all.seconds() > most) break;
      for (size_t k = 0; k < sessions.size(); ++k)
        for (int run = 0; run < kTurn; ++run) {
          RequestScope::Poll();
          const Timer one;
          sessions[k].RunInto(inputs_, &outputs[k]);
          if (run > 0) (*runners)[k].us = std::min((*runners)[k].us, 1000 * one.milliseconds());
        }
    }
  }
  Choice Race() {
    inputs_ = SampleInputs(given_, 1, bindings_);
    std::vector<Runner> runners;
    runners.push_back(RunnerOf({"none", {}}, graph_));
    Costs ours(nodes_);
    for (const StepTime& row : ProfileOf(runners[0].program)) ours.Add(NamesOf(row), row.duration);
    std::vector<Costs> theirs;
    for (DelegateSpec engine : engines_) {
      // Rows of its own cost time, so an engine is asked to tell them only here.
      if (const auto it = engine.options.find("profile"); it != engine.options.end())
        it->second = "1";
      theirs.emplace_back(nodes_);
      AddTheirs(ProfileOf(Made(graph_, PipelineOf("all", engine.ToString()))), ours,
                &theirs.back());
    }
    runners.push_back(RunnerOf({"all", {}}, graph_));
    NodeMap<Floats> costs;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Floats row{std::vector<double>{ours.Known(i)}};
      for (const Costs& c : theirs) row.push_back(c[i]);
      costs.set(nodes_[i], std::move(row));
    }
    Graph costed = graph_;
    costed.SetAttr("delegate_costs", std::move(costs));
    if (const Choice cheapest{"auto", SidesIn(costed)}; !cheapest.sides.empty())
      runners.push_back(RunnerOf(cheapest, WithSides(cheapest)));
    Time(&runners);
    size_t best = 0;
    for (size_t k = 0; k < runners.size(); ++k) {
      WEFT_LOG(kInfo, "division '{}': {:.1f} us", runners[k].choice.name, runners[k].us);
      if (runners[k].us * (best == 0 ? kGain : 1) < runners[best].us) best = k;
    }
    return runners[best].choice;
  }

  // ---- sides ----

  /// What the pass chooses by costs: each node's side, in runs. Empty: nothing is given away.
  std::vector<std::pair<int, int>> SidesIn(const Graph& costed) const {
    const Graph divided = Through({PipelineOf("auto", {}).passes().front()}, costed);
    std::unordered_map<std::string, int> side_of;
    for (const NodePtr& n : divided.TopoOrder()) {
      if (!IsOp(n, builtin::kDelegated)) continue;
      const auto name = n->attr<std::string>("delegate");
      int side = -1;
      for (size_t k = 0; k < engines_.size(); ++k)
        if (engines_[k].ToString() == name) side = int(k);
      for (const NodePtr& inside : n->attr<GraphPtr>("body")->TopoOrder())
        for (const std::string& s : Costs::NamesOf(inside))
          if (!s.empty()) side_of[s] = side;
    }
    std::vector<std::pair<int, int>> runs;
    bool any = false;
    for (const NodePtr& n : nodes_) {
      const std::vector<std::string> names = Costs::NamesOf(n);
      int side = -1;
      for (const std::string& s : names)
        if (const auto it = side_of.find(s); it != side_of.end()) side = it->second;
      any = any || side >= 0;
      if (runs.empty() || runs.back().first != side) runs.emplace_back(side, 0);
      ++runs.back().second;
    }
    if (!any) runs.clear();
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

}  // namespace weft
