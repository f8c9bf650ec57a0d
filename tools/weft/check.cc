/// check.cc: `weft check MODEL`: does a model compute what it means? Compiled engines against the interpreter, on inputs
/// that arithmetic is easily wrong about (check_inputs.h), at several extents, in sessions that go on from round to round.
///
/// A round is a function of the model, --seed and its number, so that --round repeats it. The first result that differs
/// ends the check; the first node behind it is looked for with every result exposed, then, where that hides the fault (it
/// keeps kernels apart), from the output back, by programs that end at an operand.
#include "weft/support/check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>

#include "check_inputs.h"
#include "check_verdict.h"
#include "command_line.h"
#include "common.h"
#include "inputs.h"
#include "layers.h"
#include "weft/core/builtin_ops.h"
#include "weft/core/effects.h"
#include "weft/core/npy.h"
#include "weft/core/op.h"
#include "weft/core/op_attr_types.h"
#include "weft/core/repeatable.h"
#include "weft/core/request.h"
#include "weft/core/variable.h"
#include "weft/runtime/variable_store.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/table.h"

namespace weft::tool {
namespace {

using Tensors = std::vector<TensorPtr>;
using Clock = std::chrono::steady_clock;

struct Args {
  ModelArgs model;
  InputArgs inputs;
  std::vector<std::string> engines;
  std::string passes, save;
  int rounds = 0, only = -1;
  double seconds = 120;
};

/// What an engine made of inputs: results, or the reason that it gave none.
struct Outcome {
  Tensors results;
  std::optional<ErrorCode> code;
  std::string refusal;
  bool gave_none() const { return code.has_value(); }
};
template <class F>
Outcome Try(F&& f) {
  Outcome o;
  try {
    o.results = f();
  } catch (const Error& e) {
    o.code = e.code();
    o.refusal = e.what();
  }
  return o;
}
/// A reason that says nothing about the model.
bool IsExhausted(const Outcome& o) {
  return o.code && (*o.code == ErrorCode::kLimit || *o.code == ErrorCode::kOutOfMemory);
}

/// Does the node draw numbers that nobody can repeat? One with a `seed` gives the same in every run.
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

struct Round {
  int number = 0;
  CheckValues values = CheckValues::kUnit;
  SymBindings bind;
  std::string result;  ///< "equal", or why nothing was compared
  bool compared = false;
};

struct Found {
  std::string engine, output, detail;
  std::string node;      ///< empty: not known
  std::string why_none;  ///< then
  bool only_reused = false;
};

/// What comparing an engine with the reference gave.
struct Reply {
  std::optional<size_t> result;  ///< the first that differs
  std::string
      detail;  ///< how; without a result: why nothing was compared, empty where all are equal
  bool differs() const { return result.has_value(); }
};

class Checker {
 public:
  Checker(const Args& args, Graph graph)
      : args_(args), graph_(std::move(graph)), maker_(graph_), limits_(args.model.Check()) {
    FindDrawn();
    guesses_shapes_ = maker_.GuessesShapes();
    const SymBindings given = ParseBindings(args.inputs.binds);
    CompleteBindings(graph_, given);  // names first
    TakeFiles(given);
    for (const std::string& text : args.engines) engines_.push_back(ParseEngine(text, args.passes));
    for (const NodePtr& v : StateVariables(graph_))
      if (const AttrValue* value = v->attrs.dict.find("value"))
        initial_[v->attrs.name] = value->get<TensorPtr>();
  }

  int Run() {
    WEFT_CHECK(drawn_outputs_ < graph_.outputs.size(), kUnsupported,
               "every output depends on what is drawn without a seed, by {}", Join(drawing_, ", "));
    for (const Engine& e : engines_)
      sessions_.push_back(std::make_unique<Session>(CompileProgram(graph_, e, 0, limits_)));
    const std::vector<CheckValues> kinds = maker_.Kinds();
    const int count = args_.rounds > 0 ? args_.rounds : int(kinds.size()) * 2;
    const int first = std::max(args_.only, 0), end = args_.only >= 0 ? args_.only + 1 : count;
    Progress progress;
    for (int r = first; r < end && !found_; ++r) {
      if (SecondsLeft() <= 0) {
        not_compared_.push_back(
            fmt::format("rounds {} to {}: {} s are over (--seconds)", r, end - 1, args_.seconds));
        break;
      }
      Round round;
      round.number = r;
      round.values = kinds[size_t(r) % kinds.size()];
      round.bind = bindings_[(size_t(r) + size_t(r) / kinds.size()) % bindings_.size()];
      progress.Show(fmt::format("round {} of {}: {}", r, end, NameOf(round.values)));
      RunRound(&round);
      rounds_.push_back(std::move(round));
    }
    return Report();
  }

 private:
  void FindDrawn() {
    drawn_.assign(graph_.id_bound(), 0);
    for (const NodePtr& n : graph_.TopoOrder()) {
      if (DrawsWithoutSeed(n)) {
        drawn_[n->id()] = 1;
        drawing_.push_back(n->Describe());
      }
      for (const NodeEntry& e : n->inputs)
        if (e.node && drawn_[e.node->id()]) drawn_[n->id()] = 1;
    }
    for (const NodeEntry& e : graph_.outputs) drawn_outputs_ += drawn_[e.node->id()];
  }
  /// Inputs that the user gives, and every set of extents to run at.
  void TakeFiles(SymBindings given) {
    InputArgs all = args_.inputs;
    all.random = true;
    if (!all.files.empty()) {
      const NamedTensors made = MakeInputs(graph_, all, limits_);
      for (const auto& [name, file] : SplitAssignments(all.files, "--input")) {
        files_[name] = made.at(name);
        for (const NodePtr& p : graph_.AllInputs()) {
          const std::optional<Shape> declared = DeclaredShape(p);
          if (p->attrs.name != name || !declared || !declared->has_rank()) continue;
          for (int d = 0; d < declared->rank(); ++d)
            if ((*declared)[d].known() && (*declared)[d].is_symbol())
              given[(*declared)[d].symbol_name()] = made.at(name)->dims()[size_t(d)];
        }
      }
    }
    const std::vector<std::string> symbols = InputSymbols(graph_);
    // The generic case, what broadcasts, an even one; odd ones that differ.
    for (int kind : {0, 1, 2}) {
      SymBindings bind = given;
      int64_t odd = 3;
      for (const std::string& s : symbols)
        if (bind.emplace(s, kind == 0 ? odd : kind).second) odd += 2;
      if (std::find(bindings_.begin(), bindings_.end(), bind) == bindings_.end())
        bindings_.push_back(bind);
    }
  }

  double SecondsLeft() const {
    return args_.seconds - std::chrono::duration<double>(Clock::now() - start_).count();
  }
  uint64_t SeedOf(const Round& r) const { return args_.inputs.seed * 1000003 + uint64_t(r.number); }
  NamedTensors InputsOf(const Round& r, int shape_guess) const {
    NamedTensors in = maker_.Make(r.values, SeedOf(r), r.bind, shape_guess);
    for (const auto& [name, t] : files_) in[name] = t;
    return in;
  }
  StateMap StateFor(const Round& r) const {
    StateMap state = initial_;
    if (state.empty() && StateVariables(graph_).empty()) return state;
    for (const auto& [name, t] : MakeRandomInputs(graph_, SeedOf(r), r.bind).state) state[name] = t;
    return state;
  }

  /// The reference's answer for `g`, which is the model or a part of it; `typed` false: in double precision.
  Tensors Evaluate(const Graph& g, const NamedTensors& in, StateMap state, bool typed) const {
    // No run of the interpreter may eat more than a quarter of the time.
    Limits limits = limits_;
    limits.deadline_s = std::max(0.1, std::min(args_.seconds / 4, SecondsLeft()));
    if (limits_.deadline_s > 0) limits.deadline_s = std::min(limits.deadline_s, limits_.deadline_s);
    const RequestScope scope(limits);
    EvalOptions options;
    options.typed = typed;
    options.state = &state;
    Tensors ordered;
    for (const NodePtr& p : g.AllInputs()) ordered.push_back(in.at(p->attrs.name));
    return GetEvaluator()->Eval(g, ordered, options);
  }
  Tensors RunSession(Session* session, const NamedTensors& in, const StateMap& state) const {
    for (const auto& [name, t] : state) session->store()->Set(name, t);
    return session->Run(OrderInputs(session->program(), in));
  }
  Tensors RunOnce(const Graph& g, const Engine& e, const NamedTensors& in,
                  const StateMap& state) const {
    Session session(CompileProgram(g, e, 0, limits_));
    return RunSession(&session, in, state);
  }
  /// The tensor with floats that differ in their last bits; what has none, and what may be the scales of a Resize, as it is.
  static TensorPtr Nearby(const TensorPtr& t, int which) {
    constexpr int64_t kMostScales = 16;
    if (!IsFloat(t->dtype()) || !IsComputable(t->dtype()) ||
        (t->rank() <= 1 && t->num_elements() <= kMostScales))
      return t;
    const double bits = t->dtype() == DType::kF16    ? 0x1p-10
                        : t->dtype() == DType::kBF16 ? 0x1p-7
                        : t->dtype() == DType::kF64  ? 0x1p-48
                                                     : 0x1p-20;
    auto moved = std::make_shared<Tensor>(t->dtype(), t->dims());
    for (int64_t i = 0; i < t->num_elements(); ++i) {
      const bool up = ((uint64_t(i) * 0x9e3779b97f4a7c15u >> 40) + uint64_t(which)) & 1;
      moved->set(i, t->at(i) * (1 + (up ? bits : -bits)));
      if (!std::isfinite(moved->at(i))) moved->set(i, t->at(i));  // the largest values stay finite
    }
    return moved;
  }
  static NamedTensors Nearby(const NamedTensors& in, int which) {
    NamedTensors out;
    for (const auto& [name, t] : in) out[name] = Nearby(t, which);
    return out;
  }
  /// With its parameters moved, too: a difference of equal numbers is exact only where they are.
  static Graph Nearby(const Graph& g, int which) {
    Graph out = g;
    for (const NodePtr& n : out.TopoOrder())
      if (const TensorPtr t = Graph::ConstantOf(NodeEntry(n)))
        if (const TensorPtr moved = Nearby(t, which); moved != t) out.SetAttr(n, "value", moved);
    return out;
  }

  /// What the reference says of `g`, and says when it is asked again.
  class Question {
   public:
    Question(const Checker& c, const Graph& g, NamedTensors in, StateMap state)
        : c_(c), g_(g), in_(std::move(in)), state_(std::move(state)) {}
    Tensors Answer() const { return c_.Evaluate(g_, in_, state_, true); }
    OtherAnswers OthersFor(size_t i) {
      return [this, i] {
        if (others_.empty()) {
          others_.push_back(c_.Evaluate(g_, in_, state_, false));
          for (int which : {0, 1})
            others_.push_back(c_.Evaluate(Nearby(g_, which), Nearby(in_, which), state_, true));
        }
        Tensors of_result;
        for (const Tensors& all : others_) of_result.push_back(all[i]);
        return of_result;
      };
    }

   private:
    const Checker& c_;
    const Graph& g_;
    NamedTensors in_;
    StateMap state_;
    std::vector<Tensors> others_;
  };

  void RunRound(Round* round) {
    NamedTensors in;
    const StateMap state = StateFor(*round);
    Outcome want;
    for (int guess = 0; guess < (guesses_shapes_ ? CheckInputMaker::kShapeGuesses : 1); ++guess) {
      in = InputsOf(*round, guess);
      if (!reference_) break;
      want = Try([&] { return Evaluate(graph_, in, state, true); });
      if (!want.gave_none() || IsExhausted(want)) break;
    }
    if (reference_ && IsExhausted(want)) {
      // One more time would not be shorter.
      reference_ = false;
      not_compared_.push_back(
          fmt::format("ref, from round {} on: {}", round->number, want.refusal));
    }
    std::vector<Outcome> got;
    for (auto& session : sessions_)
      got.push_back(Try([&] { return RunSession(session.get(), in, state); }));
    size_t from = 0;
    if (!reference_) {
      // The engines among themselves: the last one, without fusion, is the plainest.
      if (engines_.size() < 2) {
        round->result = "not compared: no reference";
        return;
      }
      want = got.back();
      got.pop_back();
    }
    Question question(*this, graph_, in, state);
    for (; from < got.size(); ++from) {
      const Outcome& o = got[from];
      if (o.code == ErrorCode::kInternal) return Note(round, from, 0, o.refusal, in, state);
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
        return Note(round, from, 0, "it refuses what ref computes: " + o.refusal, in, state);
      const Reply reply = Compare(graph_, o.results, want.results, &question);
      if (reply.differs()) return Note(round, from, *reply.result, reply.detail, in, state);
      if (!reply.detail.empty()) {
        round->result = "not compared: " + reply.detail;
        return;
      }
    }
    if (want.gave_none()) return;
    round->compared = true;
    round->result = "equal";
  }

  void Note(Round* round, size_t engine, size_t output, std::string why, const NamedTensors& in,
            const StateMap& state) {
    round->compared = true;
    round->result = "DIFFERENT";
    Found f;
    f.engine = engines_[engine].text;
    f.output = graph_.OutputName(output);
    f.detail = std::move(why);
    const Engine& e = engines_[engine];
    // With the whole model once more, in a session of its own.
    const Reply fresh = CompareOnce(graph_, e, in, state);
    f.only_reused = !fresh.differs() && fresh.detail.empty();
    if (fresh.differs())
      f.node = FirstNode(e, graph_.outputs[output], in, state, &f.detail);
    else
      f.why_none =
          f.only_reused ? "it differs only in a session that has run before" : fresh.detail;
    found_ = std::move(f);
    provoking_ = in;
  }

  Reply Compare(const Graph& g, const Tensors& got, const Tensors& want, Question* question) const {
    Reply reply;
    const Outcome tried = Try([&] {
      for (size_t i = 0; i < want.size() && !reply.differs(); ++i) {
        if (drawn_[g.outputs[i].node->id()]) continue;
        reply.detail = DescribeDifference(
            *got[i], *want[i],
            reference_ ? question->OthersFor(i) : OtherAnswers([] { return Tensors(); }));
        if (!reply.detail.empty()) reply.result = i;
      }
      return Tensors();
    });
    if (tried.gave_none()) reply.detail = tried.refusal;  // the reference could not be asked again
    return reply;
  }
  /// Of `g` by a program of its own; where the engine alone gives nothing, its first result differs.
  Reply CompareOnce(const Graph& g, const Engine& e, const NamedTensors& in,
                    const StateMap& state) const {
    Question question(*this, g, in, state);
    const Outcome got = Try([&] { return RunOnce(g, e, in, state); });
    if (got.code == ErrorCode::kInternal) return {0, got.refusal};
    const Outcome want = Try(
        [&] { return reference_ ? question.Answer() : RunOnce(g, engines_.back(), in, state); });
    if (want.gave_none()) return {std::nullopt, want.refusal};
    if (got.gave_none()) return {IsExhausted(got) ? std::optional<size_t>() : 0, got.refusal};
    return Compare(g, got.results, want.results, &question);
  }

  std::string FirstNode(const Engine& e, const NodeEntry& output, const NamedTensors& in,
                        const StateMap& state, std::string* detail) const {
    std::vector<std::string> names;
    const Graph exposed =
        ExposeAll(graph_, &names, [&](const NodeEntry& x) { return !drawn_[x.node->id()]; });
    if (!names.empty()) {
      const Reply reply = CompareOnce(exposed, e, in, state);
      if (reply.differs()) {
        *detail = reply.detail;
        return names[*reply.result];
      }
    }
    constexpr int kMostPrograms = 64;  // each is compiled
    NodePtr node = output.node;
    int programs = 0;
    for (bool deeper = true; deeper;) {
      deeper = false;
      for (const NodeEntry& x : node->inputs) {
        if (!x.node || x.node->is_variable() || Graph::ConstantOf(x) || drawn_[x.node->id()] ||
            ++programs > kMostPrograms)
          continue;
        Graph part = graph_;
        part.outputs = {part.at(x)};
        const Reply reply = CompareOnce(part, e, in, state);
        if (!reply.differs()) continue;
        *detail = reply.detail;
        node = x.node;
        deeper = true;
        break;
      }
    }
    return node->Describe();
  }

  std::string Extents(const SymBindings& bind) const {
    std::vector<std::string> parts;
    for (const auto& [name, value] : bind) parts.push_back(fmt::format("{}={}", name, value));
    return parts.empty() ? "-" : Join(parts, ", ");
  }
  std::string Again(const Round& r) const {
    std::string line = fmt::format("weft check {} --seed {} --round {}", args_.model.path,
                                   args_.inputs.seed, r.number);
    for (const std::string& b : args_.inputs.binds) line += " --bind " + b;
    for (const std::string& f : args_.inputs.files) line += " --input " + f;
    if (!args_.passes.empty()) line += " --passes '" + args_.passes + "'";
    return line;
  }
  void SaveInputs() const {
    MakeDirectories(args_.save);
    for (const auto& [name, t] : provoking_)
      WriteNpy(JoinPath(args_.save, FileStem(name) + ".npy"), *t);
  }

  int Report() {
    if (found_ && !args_.save.empty()) SaveInputs();
    std::vector<std::string> excluded;
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      if (drawn_[graph_.outputs[i].node->id()]) excluded.push_back(graph_.OutputName(i));
    const auto compared =
        std::count_if(rounds_.begin(), rounds_.end(), [](const Round& r) { return r.compared; });
    std::vector<std::string> engines;
    for (const Engine& e : engines_) engines.push_back(e.text);
    if (args_.model.json) {
      Json rows = Json::array();
      for (const Round& r : rounds_) {
        Json bind = Json::object();
        for (const auto& [name, value] : r.bind) bind[name] = value;
        rows.push_back({{"round", r.number},
                        {"values", NameOf(r.values)},
                        {"bind", std::move(bind)},
                        {"compared", r.compared},
                        {"result", r.result}});
      }
      Json difference = nullptr;
      if (found_)
        difference = {{"engine", found_->engine},
                      {"output", found_->output},
                      {"node", found_->node},
                      {"detail", found_->detail},
                      {"only_in_reused_session", found_->only_reused},
                      {"round", rounds_.back().number},
                      {"values", NameOf(rounds_.back().values)},
                      {"seed", args_.inputs.seed},
                      {"again", Again(rounds_.back())}};
      PrintJson({{"equal", !found_ && compared > 0},
                 {"engines", engines},
                 {"reference", reference_ ? "ref" : engines.back()},
                 {"compared", compared},
                 {"random", drawing_},
                 {"outputs_not_compared", excluded},
                 {"not_compared", not_compared_},
                 {"difference", std::move(difference)},
                 {"rounds", std::move(rows)}});
    } else {
      Table table({">round", "values", "extents", "result"});
      for (const Round& r : rounds_)
        table.AddRow({std::to_string(r.number), NameOf(r.values), Extents(r.bind), r.result});
      if (table.size() > 1) Print(table.ToString());
      if (!drawing_.empty())
        Print(fmt::format("draw without a seed: {}; not compared: {}\n", Join(drawing_, ", "),
                          excluded.empty() ? "no output" : Join(excluded, ", ")));
      for (const std::string& text : not_compared_) Print("not compared: " + text + "\n");
    }
    if (found_) {
      if (!args_.model.json) {
        Print(fmt::format("output  {}, on {}\n", found_->output, found_->engine));
        Print(found_->node.empty() ? fmt::format("        {}\nnode    not known: {}\n",
                                                 found_->detail, found_->why_none)
                                   : fmt::format("node    {}: {}\n", found_->node, found_->detail));
        Print(fmt::format("again   {}\n", Again(rounds_.back())));
      }
      ThrowError(ErrorCode::kCheckFailed,
                 fmt::format("{} differs from {} in round {} ({}); the first node is {}",
                             found_->engine, reference_ ? "ref" : engines.back(),
                             rounds_.back().number, NameOf(rounds_.back().values),
                             found_->node.empty() ? "not known" : found_->node),
                 args_.model.path,
                 args_.save.empty() ? "--save D keeps the inputs of that round" : "");
    }
    WEFT_CHECK(compared > 0, kUnsupported, "no round could be compared: {}",
               rounds_.empty() ? "there was none" : rounds_.back().result);
    if (!args_.model.json)
      Print(fmt::format("{} and {} agree in {}\n", Join(engines, ", "),
                        reference_ ? "ref" : "each other", Plural(compared, "round")));
    return 0;
  }

  const Args& args_;
  Graph graph_;
  CheckInputMaker maker_;
  Limits limits_;
  const Clock::time_point start_ = Clock::now();
  std::vector<Engine> engines_;
  std::vector<std::unique_ptr<Session>> sessions_;
  NamedTensors files_;
  StateMap initial_;
  std::vector<SymBindings> bindings_;
  std::vector<uint8_t> drawn_;  ///< by node id
  std::vector<std::string> drawing_, not_compared_;
  size_t drawn_outputs_ = 0;
  bool guesses_shapes_ = false;
  bool reference_ = true;  ///< the interpreter is fast enough
  std::vector<Round> rounds_;
  std::optional<Found> found_;
  NamedTensors provoking_;
};

int Run(const Args& args) {
  ImportOptions import;
  import.limits = args.model.Check();
  for (const auto& [name, file] : SplitAssignments(args.inputs.files, "--input"))
    import.overridable.push_back(name);
  Checker checker(args, LoadModel(args.model.path, import));
  return checker.Run();
}

}  // namespace

Command MakeCheck(CLI::App& parent) {
  auto a = std::make_shared<Args>();
  a->engines = {"cpu", "cpu:no-fusion"};
  CLI::App* app = parent.add_subcommand(
      "check",
      "compare engines with the interpreter on adversarial inputs; names the first node "
      "that differs");
  AddModel(app, &a->model);
  AddInputs(app, &a->inputs);
  app->add_option("--rounds", a->rounds, "rounds; default two of each kind of values")
      ->type_name("N")
      ->check(WholeNumber(1, 1000000));
  app->add_option("--round", a->only, "only this one")
      ->type_name("R")
      ->check(WholeNumber(0, 1000000));
  AddList(app, "--engine", &a->engines, "engine to check (repeatable); default cpu, cpu:no-fusion")
      ->type_name("E");
  app->add_option("--passes", a->passes, "passes instead of the engines' own")->type_name("P");
  app->add_option("--seconds", a->seconds,
                  "time for all rounds; the interpreter has a quarter for one")
      ->type_name("S")
      ->check(NonNegative());
  app->add_option("--save", a->save, "folder for the inputs that make the difference")
      ->type_name("D");
  return {app, [a] { return Run(*a); }};
}

}  // namespace weft::tool
