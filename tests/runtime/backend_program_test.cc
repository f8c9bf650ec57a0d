/// backend_program_test.cc: programs that a backend makes of whole graphs: by symbols or for each
/// set of extents, with state variables on a machine of its own, and what they do wrong.
#include "weft/runtime/program/backend_program.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <thread>

#include "tests/support/e2e_util.h"
#include "tests/support/variables_util.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/module/backend_module.h"
#include "weft/runtime/program/predict_arena.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/runtime/session/variable_store.h"

using namespace weft;
using namespace weft::e2e;

namespace {

/// A machine whose memory only its programs reach. It counts what is done to it.
struct Card {
  std::atomic<int> programs{0}, loads{0}, fetches{0}, homes{0};
  std::atomic<int> loaded{0};
  bool fails = false, refuses = false, forgets = false, lies = false, other = false;
  bool has_homes = true;
  std::vector<std::string> shapes;  ///< of the first input of each graph that it was given
  static Card& Get() {
    static Card card;
    return card;
  }
  void Reset() {
    programs = loads = fetches = homes = loaded = 0;
    fails = refuses = forgets = lies = other = false;
    has_homes = true;
    shapes.clear();
  }
};

struct CardHome final : VariableHome {
  explicit CardHome(Card* c) : card(c) { ++card->homes; }
  ~CardHome() override { --card->homes; }
  void Load(const Tensor& host) override {
    content = std::make_shared<Tensor>(host.dtype(), host.dims());
    std::memcpy(content->mutable_data(), host.data(), size_t(host.num_bytes()));
    ++card->loads;
  }
  void Fetch(Tensor* host) override {
    std::memcpy(host->mutable_data(), content->data(), size_t(host->num_bytes()));
    ++card->fetches;
  }
  Card* card;
  std::shared_ptr<Tensor> content;
};

/// Evaluates the graph, with variables from the card and back to it.
class CardProgram final : public BackendProgram {
 public:
  explicit CardProgram(const Graph& graph) : graph_(graph) { ++Card::Get().programs; }
  struct Own final : State {
    int runs = 0;
  };
  std::unique_ptr<State> NewState() const override { return std::make_unique<Own>(); }
  bool has_homes() const override { return Card::Get().has_homes; }
  void AddStats(ProgramStats* stats) const override { stats->library_calls += 7; }
  std::vector<ProgramField> Fields(const State* last) const override {
    const int64_t runs = last ? static_cast<const Own*>(last)->runs : -1;
    return {{"runs", runs}, {"busy", std::vector<ProgramField>{{"ALU", 0.5}}}};
  }
  std::vector<NamedBytes> Artifacts() const override {
    return {{"graph.weft", PrintGraph(graph_)}};
  }
  std::vector<NamedBytes> Save() const override {
    return {{"made for", "card 1"}, {"bytes", std::string("\0\n\t", 3)}};
  }

  void Run(State& state, ProgramRun& run) const override {
    Card& card = Card::Get();
    WEFT_CHECK(!card.fails, kDevice, "the card has failed");
    if (card.forgets) return;
    StateMap contents;
    std::vector<CardHome*> homes;
    for (StateVariable& v : run.variables()) {
      homes.push_back(
          &v.At<CardHome>(Owner(), true, [&] { return std::make_unique<CardHome>(&card); }));
      contents[v.name()] = homes.back()->content;
    }
    EvalOptions options;
    options.state = &contents;
    std::vector<TensorPtr> results = GetEvaluator()->Eval(graph_, run.inputs(), options);
    for (size_t i = 0; i < homes.size(); ++i)
      homes[i]->content = OwnedCopy(*contents[run.variables()[i].name()]);
    for (size_t i = 0; i < results.size(); ++i) {
      if (card.lies) {
        run.NewResult(i, DType::kF64, results[i]->dims());
        continue;
      }
      const auto y = run.NewResult(i, results[i]->dtype(), results[i]->dims());
      std::memcpy(y->mutable_data(), results[i]->data(), size_t(y->num_bytes()));
    }
    ++static_cast<Own&>(state).runs;
    run.SetMemory({1000, 900, 5000});
    if (!run.profiled()) return;
    StepTime step;
    step.name = "all of it";
    step.times = static_cast<Own&>(state).runs;
    run.AddTime(step);
  }

 private:
  static std::shared_ptr<const void> Owner() {
    static const auto owner = std::make_shared<int>(0);
    return owner;
  }
  static std::shared_ptr<Tensor> OwnedCopy(const Tensor& t) {
    auto copy = std::make_shared<Tensor>(t.dtype(), t.dims());
    std::memcpy(copy->mutable_data(), t.data(), size_t(t.num_bytes()));
    return copy;
  }
  const Graph graph_;
};

/// Of two names: one takes symbols, the other numbers only.
class CardBackend final : public Backend {
 public:
  CardBackend(std::string name, bool constant) : name_(std::move(name)), constant_(constant) {}
  std::string name() const override { return name_; }
  Target target() const override { return name_; }
  std::string default_pipeline() const override {
    return StandardPipeline({PipelineEnd::kSimplified}).ToString();
  }
  bool constant_extents() const override { return constant_; }
  std::shared_ptr<const BackendProgram> MakeProgram(const Graph& graph,
                                                    const CompileOptions& options) override {
    CHECK(options.backend == name_);
    if (Card::Get().refuses) return nullptr;
    const std::vector<NodePtr> inputs = graph.AllInputs();
    if (!inputs.empty())
      Card::Get().shapes.push_back(
          graph.GetAttr<ShapeMap>("shape")[NodeEntry(inputs[0])].ToString());
    return std::make_shared<CardProgram>(graph);
  }
  std::shared_ptr<const BackendProgram> LoadProgram(
      const Graph& graph, const CompileOptions& options,
      const std::vector<NamedBytes>& sections) override {
    REQUIRE(sections.size() == 2);
    CHECK(sections[0].name == "made for");
    CHECK(sections[1].name == "bytes");
    CHECK(sections[1].bytes == std::string("\0\n\t", 3));
    WEFT_CHECK(!Card::Get().other, kUnsupported, "the program is {}, this is card 2",
               sections[0].bytes);
    ++Card::Get().loaded;
    return MakeProgram(graph, options);
  }
  std::string WhyNot(const Graph& graph, const NodePtr& n) const override {
    CHECK(graph.HasAttr("shape"));
    return n->op()->name == "Exp" ? "the card has no exponential" : "";
  }
  std::optional<int64_t> PredictPeak(const Graph& graph) const override {
    int64_t bytes = 0;
    for (const NodePtr& n : graph.TopoOrder())
      if (!n->is_variable())
        bytes += 4 * graph.GetAttr<ShapeMap>("shape")[NodeEntry(n)].num_elements().value();
    return bytes;
  }

 private:
  const std::string name_;
  const bool constant_;
};

bool Register(const std::string& name, bool constant) {
  TargetTraits traits;
  traits.kernels = false;
  return RegisterBackendModule(BackendModule(name).set_traits(traits).set_backend(
      [name, constant](const BackendParameters&) {
        return std::make_shared<CardBackend>(name, constant);
      }));
}
[[maybe_unused]] const bool registered = Register("card", false) && Register("constant_card", true);

Graph Sums() {
  return FromText(
      "graph (%x: f32[n, 3], %y: f32[m, 3]) -> (%z) {\n"
      "  %s = ReduceSum(%y) {keepdims=0}\n  %t = Exp(%x)\n  %z = Add(%t, %s)\n}\n");
}
/// v <- v + x, and the new content.
Graph Counter() {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({SymInt(2)})));
  const NodeEntry v(AddState(g, "v", DType::kF32, Shape({SymInt(2)}), Vector({0, 0})));
  g.outputs = {Assign(v, v + x)};
  return g;
}
std::vector<TensorPtr> Inputs(const Graph& g, int64_t n, int64_t m, uint64_t seed = 3) {
  return MakeRandomInputs(g, seed, {{"n", n}, {"m", m}}).tensors;
}

}  // namespace

TEST_CASE("whole programs: results are the reference's, at all extents by one program") {
  Card::Get().Reset();
  const Graph g = Sums();
  const auto program = CompileFor(g, "card"), ref = CompileFor(g, "ref");
  CHECK(program->stats().library_calls == 7);
  CHECK(program->outputs()[0].shape.ToString() == "[n, 3]");
  Session session(program), reference(ref);
  for (int64_t n : {1, 4, 4, 0, 9}) {
    const auto in = Inputs(g, n, 2);
    CHECK(Difference(session.Run(in), reference.Run(in)) <= 1);
  }
  CHECK(Card::Get().programs == 1);
  CHECK(session.arena_bytes() == 1000);
  CHECK(session.live_bytes() == 900);
  CHECK(session.bytes_moved() == 5000);
  CHECK(session.memory().output_bytes == 9 * 3 * 4);
  // A session's state stays from run to run; its steps are told once.
  const auto steps = session.Profile(Inputs(g, 2, 2));
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].name == "all of it");
  CHECK(steps[0].times == 6);
  CHECK(session.Profile(Inputs(g, 2, 2)).size() == 1);
  // Given tensors are written, new ones made where they do not fit.
  std::vector<std::shared_ptr<Tensor>> out;
  session.RunInto(Inputs(g, 2, 2), &out);
  const Tensor* first = out[0].get();
  session.RunInto(Inputs(g, 2, 5), &out);
  CHECK(out[0].get() == first);
  session.RunInto(Inputs(g, 3, 5), &out);
  CHECK(out[0]->dims() == std::vector<int64_t>{3, 3});
}

TEST_CASE("whole programs: one for each set of extents, in a bounded number") {
  Card::Get().Reset();
  const Graph g = Sums();
  const auto program = CompileFor(g, "constant_card");
  CHECK(Card::Get().programs == 0);
  Session session(program), other(program), reference(CompileFor(g, "ref"));
  const auto run = [&](Session& s, int64_t n, int64_t m) {
    const auto in = Inputs(g, n, m);
    CHECK(Difference(s.Run(in), reference.Run(in)) <= 1);
  };
  run(session, 2, 3);
  run(session, 2, 3);
  run(other, 2, 3);
  CHECK(Card::Get().programs == 1);
  run(session, 3, 2);
  run(session, 2, 3);
  CHECK(Card::Get().programs == 2);
  CHECK(Card::Get().shapes == std::vector<std::string>{"[2, 3]", "[3, 3]"});
  // The state of a set of extents stays while the session comes back to it.
  CHECK(session.Profile(Inputs(g, 2, 3))[0].times == 4);
  for (int64_t n = 1; n <= 40; ++n) run(session, n, 1);
  CHECK(Card::Get().programs == 42);
  run(session, 40, 1);
  CHECK(Card::Get().programs == 42);
  run(session, 1, 1);  // long gone
  CHECK(Card::Get().programs == 43);

  CompileOptions options;
  options.backend = "constant_card";
  options.memory.hints = {{"n", 5}, {"m", 6}};
  Session hinted(Compile(g, options));
  CHECK(Card::Get().programs == 44);
  CHECK(hinted.program().stats().library_calls == 7);
  run(hinted, 5, 6);
  CHECK(Card::Get().programs == 44);
  // A graph without symbols is compiled by Compile.
  const Graph fixed = FromText("graph (%x: f32[2]) -> (%y) {\n  %y = Relu(%x)\n}\n");
  const auto at_once = CompileFor(fixed, "constant_card");
  CHECK(Card::Get().programs == 45);
  CHECK(Difference(Session(at_once).Run({Vector({-1, 2})}), {Vector({0, 2})}) <= 1);
}

TEST_CASE("whole programs: threads share the programs of extents") {
  Card::Get().Reset();
  const Graph g = Sums();
  const auto program = CompileFor(g, "constant_card");
  const auto in = Inputs(g, 3, 4);
  const auto want = Session(CompileFor(g, "ref")).Run(in);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      Session session(program);
      for (int k = 0; k < 20; ++k) wrong += !(Difference(session.Run(in), want) <= 1);
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("whole programs: what inputs do not agree about, and sizes that no input tells") {
  Card::Get().Reset();
  const Graph twice = FromText("graph (%x: f32[n], %y: f32[n]) -> (%z) {\n  %z = Add(%x, %y)\n}\n");
  for (const char* backend : {"card", "constant_card", "ref"}) {
    Session session(CompileFor(twice, backend));
    const auto e = Catch([&] { session.Run({Vector({1, 2}), Vector({1, 2, 3})}); });
    REQUIRE(e);
    CHECK(e->code == ErrorCode::kBadInput);
    CHECK(e->says("the dimension 'n' is 2 in input 'x' and 3 in input 'y'"));
  }
  const Graph doubled = FromText("graph (%x: f32[2 * n]) -> (%z) {\n  %z = Relu(%x)\n}\n");
  const auto e = Catch([&] { CompileFor(doubled, "constant_card"); });
  REQUIRE(e);
  CHECK(e->code == ErrorCode::kUnsupported);
  CHECK(e->says("'n'"));
}

TEST_CASE("whole programs: state variables stay on the machine from run to run") {
  for (const char* backend : {"card", "constant_card"}) {
    INFO(std::string(backend));
    Card& card = Card::Get();
    card.Reset();
    {
      const auto store = std::make_shared<VariableStore>();
      Session a(CompileFor(Counter(), backend), store), b(CompileFor(Counter(), backend), store);
      a.Run({Vector({1, 2})});
      b.Run({Vector({1, 2})});
      a.Run({Vector({1, 2})});
      CHECK(card.homes == 1);  // of all sessions and programs
      CHECK(card.loads == 1);
      CHECK(card.fetches == 0);
      CHECK(ValuesOf(*store->Get("v")) == Values{3, 6});
      CHECK(card.fetches == 1);
      CHECK(ValuesOf(*store->Get("v")) == Values{3, 6});
      CHECK(card.fetches == 1);
      // What the host sets, the next run sees.
      store->Set("v", Vector({10, 20}));
      CHECK(ValuesOf(*a.Run({Vector({1, 2})})[0]) == Values{11, 22});
      CHECK(card.loads == 2);
      CHECK(card.fetches == 1);
      // A program on the host and one on the card take turns.
      Session host(CompileFor(Counter(), "ref"), store);
      CHECK(ValuesOf(*host.Run({Vector({1, 1})})[0]) == Values{12, 23});
      CHECK(ValuesOf(*b.Run({Vector({1, 1})})[0]) == Values{13, 24});
      CHECK(ValuesOf(*host.Run({Vector({1, 1})})[0]) == Values{14, 25});
      // Memory of the caller has the content when it is given up.
      auto mine = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{2});
      std::memcpy(mine->mutable_data(), Vector({5, 5})->data(), 8);
      store->Adopt("v", mine);
      a.Run({Vector({1, 1})});
      store->Sync();
      CHECK(ValuesOf(*mine) == Values{6, 6});
      a.Run({Vector({1, 1})});
      CHECK(store->Erase("v"));
      CHECK(ValuesOf(*mine) == Values{7, 7});
      CHECK(ValuesOf(*a.Run({Vector({1, 1})})[0]) == Values{1, 1});
    }
    CHECK(card.homes == 0);
  }
}

TEST_CASE("whole programs: what they tell of themselves") {
  Card::Get().Reset();
  const Graph g = Sums();
  for (const char* backend : {"card", "constant_card"}) {
    const auto program = CompileFor(g, backend);
    Session session(program);
    const bool made = std::string(backend) == "card";
    CHECK((OwnProgramOf(*program) != nullptr) == made);
    CHECK(session.fields().size() == (made ? 2 : 0));
    if (made) CHECK(std::get<int64_t>(session.fields()[0].value) == -1);
    session.Run(Inputs(g, 2, 3));
    session.Run(Inputs(g, 2, 3));
    REQUIRE(session.fields().size() == 2);
    CHECK(std::get<int64_t>(session.fields()[0].value) == 2);
    REQUIRE(bool(OwnProgramOf(*program)));
    CHECK(OwnProgramOf(*program)->Artifacts()[0].name == "graph.weft");
    CHECK(OwnProgramOf(*program)->ReportPage().empty());
  }
  if (HasCpu()) {
    const auto planned = CompileFor(g, "cpu");
    CHECK(!bool(OwnProgramOf(*planned)));
    CHECK(Session(planned).fields().empty());
  }
  CHECK(bool(OwnProgramOf(*CompileFor(g, "ref"))));
  CompileOptions options;
  options.backend = "constant_card";
  // Exp of [4, 3], the sum and the result of the addition: 12, 1, 12 floats.
  CHECK(PredictArena(g, options, {{"n", 4}, {"m", 2}}).bytes == 100);
  options.backend = "ref";
  CHECK(Catch([&] { PredictArena(g, options, {{"n", 4}, {"m", 2}}); })->says("plans nothing"));
}

TEST_CASE("whole programs: files hold their sections, and the graph as it was") {
  Card& card = Card::Get();
  card.Reset();
  const Graph g = Sums();
  const auto in = Inputs(g, 3, 2);
  const auto want = Session(CompileFor(g, "ref")).Run(in);
  const auto load = [](const std::string& bytes, const std::string& backend = {}) {
    LoadOptions options;
    options.backend = backend;
    return LoadProgramFromMemory(bytes.data(), bytes.size(), nullptr, "the file", options);
  };
  const std::string file = PackProgram(*CompileFor(g, "card"));
  const auto loaded = load(file);
  CHECK(card.loaded == 1);
  CHECK(loaded->backend() == "card");
  CHECK(Difference(Session(loaded).Run(in), want) <= 1);
  // Another backend runs the graph, where it can.
  CHECK(Difference(Session(load(file, "ref")).Run(in), want) <= 1);
  CHECK(card.loaded == 1);
  card.other = true;
  const auto other = Catch([&] { load(file); });
  REQUIRE(other);
  CHECK(other->code == ErrorCode::kUnsupported);
  CHECK(other->says("the program is card 1"));
  card.other = false;
  // One that is compiled for dimensions is compiled again when they come.
  card.Reset();
  const auto constant = CompileFor(g, "constant_card");
  Session(constant).Run(in);
  const auto again = load(PackProgram(*constant));
  CHECK(card.programs == 1);
  CHECK(Difference(Session(again).Run(in), want) <= 1);
  CHECK(card.programs == 2);
  CHECK(card.loaded == 0);
  // Cut and damaged tables are found, though the hash is right: tests/safety does the rest.
  for (size_t at = 0; at < file.size(); at += 97) {
    std::string damaged = file;
    damaged[at] = char(damaged[at] ^ 0x20);
    CHECK(Catch([&] { load(damaged); })->code == ErrorCode::kInvalidModel);
  }
}

TEST_CASE("whole programs: what a backend does wrong is one error") {
  Card& card = Card::Get();
  const Graph g = Sums();
  card.Reset();
  const auto program = CompileFor(g, "card");
  Session session(program);
  const auto in = Inputs(g, 2, 2);
  card.fails = true;
  CHECK(Catch([&] { session.Run(in); })->code == ErrorCode::kDevice);
  card.Reset();
  CHECK(!Catch([&] { session.Run(in); }));  // the session stays good
  card.forgets = true;
  const auto forgotten = Catch([&] { session.Run(in); });
  REQUIRE(forgotten);
  CHECK(forgotten->code == ErrorCode::kPlugin);
  CHECK(forgotten->says("'card' gave no result 'z'"));
  card.Reset();
  card.lies = true;
  const auto lie = Catch([&] { session.Run(in); });
  REQUIRE(lie);
  CHECK(lie->code == ErrorCode::kPlugin);
  CHECK(lie->says("f64[2, 3]"));
  card.Reset();
  card.refuses = true;
  for (const char* backend : {"card", "constant_card"}) {
    const auto refused = Catch([&] { Session(CompileFor(g, backend)).Run(in); });
    REQUIRE(refused);
    CHECK(refused->code == ErrorCode::kUnsupported);
    CHECK(refused->says("MakeProgram") == (std::string(backend) == "card"));
  }
  card.Reset();
  card.has_homes = false;
  Session homeless(CompileFor(Counter(), "card"));
  const auto no_home = Catch([&] { homeless.Run({Vector({1, 2})}); });
  REQUIRE(no_home);
  CHECK(no_home->code == ErrorCode::kApiMisuse);
  CHECK(no_home->says("has_homes"));
  card.Reset();
}
