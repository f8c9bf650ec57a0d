/// check.cc: `weft check MODEL`: does a model compute what it means? Compiled engines against the
/// interpreter, on inputs that arithmetic is easily wrong about (check_inputs.h), at several
/// extents, in sessions that go on from round to round.
///
/// A round is a function of the model, --seed and its number, so that --round repeats it. The first
/// result that differs ends the check; then the first node behind it is looked for
/// (check_search.h).
#include "weft/support/check.h"

#include <algorithm>
#include <optional>

#include "check_engines.h"
#include "check_inputs.h"
#include "check_report.h"
#include "check_search.h"
#include "command_line.h"
#include "common.h"
#include "inputs.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/graph/variable.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

struct Args {
  ModelArgs model;
  InputArgs inputs;
  std::vector<std::string> engines;
  std::string passes, save;
  int rounds = 0, only = -1;
  double seconds = 120;
};

/// Does the node draw numbers that cannot be repeated? One with a `seed` gives the
/// same in every run.
bool DrawsWithoutSeed(const NodePtr& n) {
  if (!DrawsAnew(n)) return false;
  bool has_body = false;
  for (const auto& [name, value] : n->attrs.dict) {
    if (!value.is<GraphPtr>() || !value.get<GraphPtr>()) continue;
    has_body = true;
    const std::vector<NodePtr> order = value.get<GraphPtr>()->TopoOrder();
    if (std::any_of(order.begin(), order.end(), DrawsWithoutSeed)) return true;
  }
  return !has_body && !n->attrs.dict.find("seed");
}

std::vector<Engine> ParseEngines(const Args& args) {
  std::vector<Engine> engines;
  for (const std::string& text : args.engines) engines.push_back(ParseEngine(text, args.passes));
  return engines;
}

/// Larger ones cost the interpreter too much: images have products of several.
constexpr int64_t kLargeExtent = 17;

class Checker {
 public:
  Checker(const Args& args, Graph graph)
      : args_(args),
        graph_(std::move(graph)),
        maker_(graph_),
        limits_(args.model.Check()),
        engines_(ParseEngines(args), limits_, args.seconds),
        search_(engines_, graph_, drawn_) {
    FindDrawn();
    guesses_shapes_ = maker_.GuessesShapes();
    TakeGiven();
    for (const NodePtr& v : StateVariables(graph_))
      if (const AttrValue* value = v->attrs.dict.find("value"))
        initial_[v->attrs.name] = value->get<TensorPtr>();
  }

  int Run() {
    WEFT_CHECK(drawn_outputs_ < graph_.outputs.size(), kUnsupported,
               "every output depends on what is drawn without a seed, by {}",
               Join(report_.random, ", "));
    engines_.Compile(graph_);
    const std::vector<CheckValues> kinds = maker_.Kinds();
    const int count = args_.rounds > 0 ? args_.rounds : int(kinds.size()) * 2;
    const int first = std::max(args_.only, 0), end = args_.only >= 0 ? args_.only + 1 : count;
    Progress progress;
    for (int r = first; r < end && !report_.difference; ++r) {
      if (engines_.SecondsLeft() <= 0) {
        report_.not_compared.push_back(
            fmt::format("rounds {} to {}: {} s are over (--seconds)", r, end - 1, args_.seconds));
        break;
      }
      CheckRound round;
      round.number = r;
      round.values = kinds[size_t(r) % kinds.size()];
      round.bind = bindings_[(size_t(r) + size_t(r) / kinds.size()) % bindings_.size()];
      progress.Show(fmt::format("round {} of {}: {}", r, end, NameOf(round.values)));
      RunRound(&round);
      report_.rounds.push_back(std::move(round));
    }
    return Report();
  }

 private:
  void FindDrawn() {
    drawn_.assign(graph_.id_bound(), 0);
    for (const NodePtr& n : graph_.TopoOrder()) {
      if (DrawsWithoutSeed(n)) {
        drawn_[n->id()] = 1;
        report_.random.push_back(n->Describe());
      }
      for (const NodeEntry& e : n->inputs)
        if (e.node && drawn_[e.node->id()]) drawn_[n->id()] = 1;
    }
    for (const NodeEntry& e : graph_.outputs) drawn_outputs_ += drawn_[e.node->id()];
  }
  /// Inputs that the user gives, and every set of dimensions to run at.
  void TakeGiven() {
    GivenDims given = ParseDims(graph_, args_.inputs);
    if (!args_.inputs.values.empty() || !args_.inputs.load.empty()) {
      InputArgs all = args_.inputs;
      all.random = all.smallest = true;
      RunInputs made = MakeInputs(graph_, all, limits_);
      std::vector<std::string> names = GivenInputs(all), inputs;
      std::vector<Type> types;
      for (const NodePtr& p : graph_.AllInputs()) {
        inputs.push_back(p->attrs.name);
        types.push_back(DeclaredType(p));
      }
      if (!all.load.empty())
        for (const auto& [name, t] : ReadTensors(all.load, inputs, types, limits_))
          names.push_back(name);
      for (const std::string& name : names) {
        fed_[name] = made.tensors.at(name);
        given.shapes[name] = fed_[name]->dims();
      }
      for (const NodePtr& p : graph_.AllInputs()) {
        const std::optional<Shape> declared = DeclaredShape(p);
        if (!fed_.count(p->attrs.name) || !declared || !declared->has_rank()) continue;
        for (int d = 0; d < declared->rank(); ++d)
          if ((*declared)[d].known() && (*declared)[d].is_symbol())
            given.bindings[(*declared)[d].symbol_name()] = fed_[p->attrs.name]->dims()[size_t(d)];
      }
    }
    dims_ = given.shapes;
    const std::vector<std::string> symbols = InputSymbols(graph_);
    for (const std::string& s : symbols)
      if (!given.bindings.count(s)) report_.unbound.push_back(s);
    // The generic case: odd ones that differ; what broadcasts; an even one; more than a
    // vector of f32 holds. Each moves to what the model allows.
    struct Extents {
      int64_t first, step;
    };
    for (const Extents& e : {Extents{3, 2}, {1, 0}, {2, 0}, {kLargeExtent, 2}}) {
      DimWishes wishes;
      wishes.every = args_.inputs.bind_all;
      int64_t next = e.first;
      for (const std::string& s : report_.unbound) {
        wishes.presets[s] = next;
        next += e.step;
      }
      const SymBindings bind = ChooseDims(graph_, given.bindings, dims_, wishes).bindings;
      if (std::find(bindings_.begin(), bindings_.end(), bind) == bindings_.end())
        bindings_.push_back(bind);
    }
  }

  uint64_t SeedOf(const CheckRound& r) const {
    return args_.inputs.seed * 1000003 + uint64_t(r.number);
  }
  NamedTensors InputsOf(const CheckRound& r, int shape_guess) const {
    NamedTensors in = maker_.Make(r.values, SeedOf(r), r.bind, dims_, shape_guess);
    for (const auto& [name, t] : fed_) in[name] = t;
    return in;
  }
  StateMap StateFor(const CheckRound& r) const {
    StateMap state = initial_;
    if (state.empty() && StateVariables(graph_).empty()) return state;
    for (const auto& [name, t] : MakeRandomInputs(graph_, SeedOf(r), r.bind).state) state[name] = t;
    return state;
  }

  void RunRound(CheckRound* round) {
    if (too_large_ && round->bind == bindings_.back()) {
      round->result = "not compared: these dimensions are too large for the interpreter";
      return;
    }
    NamedTensors in;
    const StateMap state = StateFor(*round);
    CheckOutcome want;
    for (int guess = 0; guess < (guesses_shapes_ ? CheckInputMaker::kShapeGuesses : 1); ++guess) {
      in = InputsOf(*round, guess);
      if (!engines_.has_reference()) break;
      want = TryCheck([&] { return engines_.Evaluate(graph_, in, state, true); });
      if (!want.gave_none() || IsExhausted(want)) break;
    }
    if (engines_.has_reference() && IsExhausted(want) && bindings_.size() > 1 &&
        round->bind == bindings_.back()) {
      too_large_ = true;  // for the interpreter; smaller extents may not be
      round->result = "not compared: " + want.refusal;
      return;
    }
    if (engines_.has_reference() && IsExhausted(want)) {
      // One more time would not be shorter.
      engines_.DropReference();
      report_.not_compared.push_back(
          fmt::format("ref, from round {} on: {}", round->number, want.refusal));
    }
    std::vector<CheckOutcome> got;
    for (size_t i = 0; i < engines_.list().size(); ++i)
      got.push_back(TryCheck([&] { return engines_.RunSession(i, in, state); }));
    if (!engines_.has_reference()) {
      // The engines among themselves.
      if (got.size() < 2) {
        round->result = "not compared: no reference";
        return;
      }
      want = got.back();
      got.pop_back();
    }
    CompareRound(round, got, want, in, state);
  }

  void CompareRound(CheckRound* round, const std::vector<CheckOutcome>& got,
                    const CheckOutcome& want, const NamedTensors& in, const StateMap& state) {
    CheckQuestion question(engines_, graph_, in, state);
    for (size_t i = 0; i < got.size(); ++i) {
      const CheckOutcome& o = got[i];
      if (o.code == ErrorCode::kInternal) return Note(round, i, 0, o.refusal, in, state);
      if (IsExhausted(o) || IsExhausted(want)) {
        round->result = "not compared: " + (IsExhausted(o) ? o : want).refusal;
        return;
      }
      if (want.gave_none()) {
        // What no result needs is left out, and with it the reason to refuse.
        round->result =
            (o.gave_none() ? "all refuse: " : "not compared, ref refuses: ") + want.refusal;
        continue;
      }
      if (o.gave_none())
        return Note(round, i, 0, "it refuses what ref computes: " + o.refusal, in, state);
      const CheckReply reply = search_.Compare(graph_, o.results, want.results, &question);
      if (reply.differs()) return Note(round, i, *reply.result, reply.detail, in, state);
      if (!reply.detail.empty()) {
        round->result = "not compared: " + reply.detail;
        return;
      }
    }
    if (want.gave_none()) return;
    round->compared = true;
    round->result = "equal";
  }

  void Note(CheckRound* round, size_t engine, size_t output, std::string why,
            const NamedTensors& in, const StateMap& state) {
    round->compared = true;
    round->result = "differs";
    const Engine& e = engines_.list()[engine];
    CheckDifference d;
    d.engine = e.backend;
    d.output = graph_.OutputName(output);
    d.detail = std::move(why);
    // With the whole model once more, in a session of its own.
    const CheckReply fresh = search_.CompareOnce(graph_, e, in, state);
    d.only_reused = !fresh.differs() && fresh.detail.empty();
    if (fresh.differs())
      d.node = search_.FirstNode(e, graph_.outputs[output], in, state, &d.detail);
    else
      d.why_none =
          d.only_reused ? "it differs only in a session that has run before" : fresh.detail;
    report_.difference = std::move(d);
    provoking_ = in;
  }

  std::string Again(const CheckRound& r) const {
    std::string line = fmt::format("weft check {} --seed {} --round {}", args_.model.path,
                                   args_.inputs.seed, r.number);
    for (const std::string& b : args_.inputs.binds) line += " --bind " + b;
    for (const std::string& s : args_.inputs.shapes) line += " --shape " + s;
    if (args_.inputs.bind_all) line += fmt::format(" --bind-all {}", *args_.inputs.bind_all);
    for (const std::string& v : args_.inputs.values) line += " --input " + v;
    if (!args_.inputs.load.empty()) line += " --load-inputs " + args_.inputs.load;
    if (!args_.passes.empty()) line += " --passes '" + args_.passes + "'";
    return line;
  }
  void SaveInputs() const {
    std::vector<std::string> names;
    std::vector<TensorPtr> tensors;
    for (const auto& [name, t] : provoking_) {
      names.push_back(name);
      tensors.push_back(t);
    }
    WriteTensors(args_.save, TensorFiles(args_.save, names, "--save"), names, tensors);
  }

  int Report() {
    if (report_.difference && !args_.save.empty()) SaveInputs();
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      if (drawn_[graph_.outputs[i].node->id()])
        report_.outputs_not_compared.push_back(graph_.OutputName(i));
    report_.model = args_.model.path;
    report_.engines = engines_.Names();
    report_.reference = engines_.ReferenceName();
    report_.seed = args_.inputs.seed;
    report_.saved = !args_.save.empty();
    if (!report_.rounds.empty()) report_.again = Again(report_.rounds.back());
    report_.Print(args_.model.json);
    return 0;
  }

  const Args& args_;
  Graph graph_;
  CheckInputMaker maker_;
  Limits limits_;
  CheckEngines engines_;
  std::vector<uint8_t> drawn_;  ///< by node id
  CheckSearch search_;
  NamedTensors fed_;  ///< by the user
  InputDims dims_;
  StateMap initial_;
  std::vector<SymBindings> bindings_;
  size_t drawn_outputs_ = 0;
  bool guesses_shapes_ = false, too_large_ = false;
  CheckReport report_;
  NamedTensors provoking_;
};

int RunCheck(const Args& args) {
  Checker checker(args, ReadModel(args.model, ImportFor(args.inputs)));
  return checker.Run();
}

}  // namespace

Command MakeCheck(Options& parent) {
  auto a = std::make_shared<Args>();
  a->engines = {"cpu", "cpu:no-fusion"};
  Options app = parent.AddCommand(
      "check",
      "compare engines with the interpreter on adversarial inputs; names the first node "
      "that differs");
  AddModel(app, &a->model);
  AddRandomWeights(app, &a->model);
  AddInputs(app, &a->inputs);
  app.Add("--rounds N", &a->rounds, "rounds; default two of each kind of values")
      .WholeNumber(1, 1000000);
  app.Add("--round R", &a->only, "only this one").WholeNumber(0, 1000000);
  app.Add("--engine E", &a->engines, "engine to check (repeatable); default cpu, cpu:no-fusion");
  app.Add("--passes P", &a->passes, "passes instead of the engines' own");
  app.Add("--seconds S", &a->seconds, "time for all rounds; the interpreter has a quarter for one")
      .ShowDefault()
      .NonNegative();
  app.Add("--save D", &a->save, "folder for the inputs that make the difference");
  return {app, [a] { return RunCheck(*a); }};
}

}  // namespace weft::tool
