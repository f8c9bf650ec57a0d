/// programs_test.cc: programs with engines of delegates: how they are made, shared and run, and
/// what becomes of those that err.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "tests/delegates/test_delegate.h"
#include "tests/support/e2e_util.h"
#include "tests/support/temp_folder.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/module/delegate.h"
#include "weft/runtime/delegate_counts.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/program/division.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/log.h"
#include "weft/support/mapped_file.h"
#include "weft/support/request.h"

namespace weft::e2e {
namespace {

const bool registered = RegisterTestDelegates();

/// Two operators that an engine takes, one that none does, and two again.
Graph Divisible() {
  return FromText(R"(graph (%x: f32[n, 4]) -> (%e, %i) {
    %a = Relu(%x) : ?
    %b = Exp(%a) : ?
    %i = NonZero(%b) : ?
    %d = Neg(%b) : ?
    %e = Tanh(%d) : ?
  })");
}
std::shared_ptr<const Program> CompileTo(const Graph& g, const std::string& delegates,
                                         const std::string& choice = "all",
                                         const std::string& only = {}) {
  CompileOptions options;
  options.backend = std::string(HasCpu() ? "cpu+" : "ref+") + delegates;
  options.division = {choice, only, -1, {}};
  options.threads = 2;
  return Compile(g, options);
}
double OffAt(Session* session, const Graph& g, int64_t n, uint64_t seed = 1) {
  const Reference r = RunReference(g, seed, {{"n", n}});
  return Difference(session->Run(r.inputs), r.outputs);
}

/// Warnings while it lives.
class Warnings {
 public:
  Warnings() {
    Lines().clear();
    SetLogSink([](LogLevel level, const char*, int, std::string_view text) {
      if (level == LogLevel::kWarning) Lines().emplace_back(text);
    });
  }
  ~Warnings() { SetLogSink(nullptr); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  /// How many hold `part`.
  static int With(const std::string& part) {
    int n = 0;
    for (const std::string& line : Lines()) n += line.find(part) != std::string::npos;
    return n;
  }

 private:
  static std::vector<std::string>& Lines() {
    static auto* lines = new std::vector<std::string>;
    return *lines;
  }
};

}  // namespace

TEST_CASE("delegates: engines run parts of a program, one for each set of extents") {
  if (!registered || !HasCpu()) return;
  TestDelegateCounts& counts = TestDelegateCounts::Get();
  counts.Reset();
  const int64_t engines_before = counts.engines, instances_before = counts.instances;
  const Graph g = Divisible();
  {
    const auto program = CompileTo(g, "test_a");
    CHECK(program->stats().delegated == 1);
    Session session(program);
    CHECK(OffAt(&session, g, 3) <= 1);
    CHECK(counts.compiled == 1);
    CHECK(OffAt(&session, g, 5) <= 1);
    CHECK(counts.compiled == 2);
    // Known extents, another session.
    Session other(program);
    CHECK(OffAt(&other, g, 3, 2) <= 1);
    CHECK(counts.compiled == 2);
    CHECK(counts.runs == 3);
    bool seen = false;
    for (const StepTime& s : session.Profile(MakeRandomInputs(g, 1, {{"n", 3}}).tensors)) {
      if (s.kind != "delegate") continue;
      seen = true;
      CHECK(s.how == "test_a 1.0: 4 nodes");
    }
    CHECK(seen);
  }
  // Engines live no longer than what runs them.
  CHECK(counts.engines == engines_before);
  CHECK(counts.instances == instances_before);
}

TEST_CASE("delegates: one engine for all extents, where it takes any") {
  if (!registered || !HasCpu()) return;
  TestDelegateCounts& counts = TestDelegateCounts::Get();
  const Graph g = Divisible();
  const auto program = CompileTo(g, "test_any");
  counts.Reset();
  Session session(program);
  for (int64_t n : {3, 1, 5, 3}) CHECK(OffAt(&session, g, n) <= 1);
  CHECK(counts.compiled == 1);
  CHECK(counts.prepared == 1);
  // Who refuses a region without sizes gets it with sizes.
  const auto refused = CompileTo(g, "test_any:largest=1000");
  counts.Reset();
  Session sized(refused);
  for (int64_t n : {3, 1, 3}) CHECK(OffAt(&sized, g, n) <= 1);
  CHECK(counts.compiled == 4);  // twice for each of two, and refused once
  // A file keeps it.
  const TempFolder folder;
  SaveProgram(*program, folder.path() + "/p.weftx");
  counts.Reset();
  Session loaded(LoadProgram(folder.path() + "/p.weftx"));
  for (int64_t n : {2, 4}) CHECK(OffAt(&loaded, g, n) <= 1);
  CHECK(counts.imported == 1);
  CHECK(counts.compiled == 0);
}

TEST_CASE("delegates: programs of one body share its engine") {
  if (!registered || !HasCpu()) return;
  TestDelegateCounts& counts = TestDelegateCounts::Get();
  const Graph g = Divisible();
  const auto first = CompileTo(g, "test_a:copies=48");
  // Of the same graph once more there is another body.
  counts.Reset();
  Session a(first), b(first);
  const int64_t copied = CountDelegates().copied_bytes;
  CHECK(OffAt(&a, g, 3) <= 1);
  CHECK(OffAt(&b, g, 3) <= 1);
  CHECK(counts.compiled == 1);
  CHECK(counts.prepared == 1);
  CHECK(CountDelegates().copied_bytes - copied == 96);
}

TEST_CASE("delegates: equal regions with other constants have engines of their own") {
  if (!registered || !HasCpu()) return;
  // The target of the reshape is known when extents are, and differs where no operand does.
  const Graph g = FromText(R"(graph (%x: f32[12], %z: f32[n]) -> (%c) {
    %s = Shape(%z) : ?
    %rest = Constant() {value = tensor i64[1] [-1]} : ?
    %t = Concat(%s, %rest) {axis = 0} : ?
    %a = Relu(%x) : ?
    %c = Reshape(%a, %t) : ?
  })");
  Session session(CompileTo(g, "test_a"));
  for (const int64_t n : {3, 4, 6, 3, 2}) {
    CAPTURE(n);
    CHECK(OffAt(&session, g, n) <= 1);
  }
}

TEST_CASE("delegates: two engines, random divisions, and only some operators") {
  if (!registered || !HasCpu()) return;
  const Graph g = Divisible();
  for (const char* choice : {"all", "random", "auto"}) {
    Session session(CompileTo(g, "test_a:ops=Relu|Neg+test_b", choice));
    CHECK(OffAt(&session, g, 3) <= 1);
  }
  CHECK(CompileTo(g, "test_a:ops=Relu|Neg+test_b")->stats().delegated == 4);
  CHECK(CompileTo(g, "test_a", "auto")->stats().delegated == 0);
  CHECK(CompileTo(g, "test_a", "all", "Exp")->stats().delegated == 1);
}

TEST_CASE("delegates: estimates and times of named divisions") {
  if (!registered || !HasCpu()) return;
  CompileOptions options;
  options.backend = "cpu+test_a";
  options.threads = 1;
  const std::vector<DivisionTime> times =
      TimeDivisions(Divisible(), options, {"none", "all", "alternate:2"});
  REQUIRE(times.size() == 3);
  CHECK(times[0].choice == "none");
  CHECK(times[0].regions == 0);
  CHECK(times[0].tensors == 0);
  CHECK(times[1].regions == 1);
  for (const DivisionTime& t : times) {
    CHECK(t.us > 0);
    CHECK(t.estimate_us > 0);
  }
  options.backend = "cpu";
  CHECK(Catch([&] { TimeDivisions(Divisible(), options, {"none"}); })->code == ErrorCode::kUsage);
}

TEST_CASE("delegates: of our pipelines the pass for 8-bit networks goes, of others nothing") {
  const auto has = [](const Pipeline& p, const char* pass) {
    return std::any_of(p.passes().begin(), p.passes().end(),
                       [&](const PassSpec& s) { return s.name == pass; });
  };
  const Pipeline own = StandardPipeline();
  REQUIRE(has(own, "Quantised"));
  CHECK(!has(WithoutQuantised(own), "Quantised"));
  const Pipeline theirs = WithDelegates(own, "test_a");
  CHECK(has(theirs, "Quantised"));
  CHECK(has(theirs, "Delegate"));
}

TEST_CASE("delegates: names, options and memory that do not fit are told before anything is made") {
  const Graph g = Divisible();
  const auto code = [&](const std::string& delegates) {
    const auto caught = Catch([&] { CompileTo(g, delegates); });
    return caught ? *caught : Caught{ErrorCode(0), ""};
  };
  CHECK(code("test_z").code == ErrorCode::kUnsupported);
  CHECK(code("test_a:streams=2").code == ErrorCode::kUsage);
  CHECK(code("test_a+test_a").code == ErrorCode::kUsage);
  const Caught absent = code("test_absent");
  CHECK(absent.code == ErrorCode::kUnsupported);
  CHECK(absent.says("libabsent.so.3 is not installed"));
  CHECK(absent.says("ABSENT_LIBRARY"));
  if (!HasCpu()) return;
  const Caught device = code("test_device");
  CHECK(device.code == ErrorCode::kUnsupported);
  CHECK(device.says("works in memory of"));
  CHECK(code("test_a:fail=supports").code == ErrorCode::kPlugin);
}

TEST_CASE("delegates: a region that is refused when it is compiled runs here, which is said once") {
  if (!registered || !HasCpu()) return;
  const Graph g = Divisible();
  Session session(CompileTo(g, "test_a:fail=compile,code=unsupported"));
  const Warnings warnings;
  for (int i = 0; i < 3; ++i) CHECK(OffAt(&session, g, 3) <= 1);
  CHECK(Warnings::With("does not run a, b, d, e, which runs here") == 1);
  CHECK(Warnings::With("") == 1);
}

TEST_CASE("delegates: a region may be refused for some extents only") {
  if (!registered || !HasCpu()) return;
  const Graph g = Divisible();
  Session session(CompileTo(g, "test_a:largest=12"));
  const Warnings warnings;
  TestDelegateCounts::Get().Reset();
  for (const int64_t n : {3, 5, 3, 5}) CHECK(OffAt(&session, g, n) <= 1);
  CHECK(TestDelegateCounts::Get().runs == 2);
  CHECK(Warnings::With("20 elements are more than the 12") == 1);
}

TEST_CASE("delegates: what fails otherwise ends the run, says where, and is not tried again") {
  if (!registered || !HasCpu()) return;
  const Graph g = Divisible();
  TestDelegateCounts& counts = TestDelegateCounts::Get();
  const Reference r = RunReference(g, 1, {{"n", 3}});
  for (const char* where : {"compile", "prepare", "run"}) {
    CAPTURE(std::string(where));
    for (const auto& [name, code] :
         {std::pair{"internal", ErrorCode::kPlugin}, std::pair{"oom", ErrorCode::kOutOfMemory}}) {
      Session session(CompileTo(g, std::string("test_a:fail=") + where + ",code=" + name));
      counts.Reset();
      const Warnings warnings;
      const auto caught = Catch([&] { session.Run(r.inputs); });
      REQUIRE(caught);
      CHECK(caught->code == code);
      CHECK(caught->says("a, b, d, e"));
      CHECK(Warnings::With("") == 0);
      CHECK(counts.compiled == 1);
      CHECK(counts.runs == (std::string(where) == "run"));
    }
  }
  // The second call of three fails; the session stays good.
  Session session(CompileTo(g, "test_a:fail=run,at=2"));
  counts.Reset();
  CHECK(OffAt(&session, g, 3) <= 1);
  CHECK(Catch([&] { session.Run(r.inputs); }));
  CHECK(OffAt(&session, g, 3) <= 1);
  CHECK(counts.runs == 3);
  CHECK(counts.prepared == 2);  // what failed is not used again
}

TEST_CASE("delegates: a deadline is told after the call, a cancellation before the next one") {
  if (!registered || !HasCpu()) return;
  const Graph g = Divisible();
  Session session(CompileTo(g, "test_a:sleep_ms=60"));
  const Reference r = RunReference(g, 1, {{"n", 3}});
  session.Run(r.inputs);
  TestDelegateCounts::Get().Reset();
  Limits limits;
  limits.deadline_s = 0.02;
  const auto caught = Catch([&] {
    const RequestScope request(limits);
    session.Run(r.inputs);
  });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kLimit);
  CHECK(TestDelegateCounts::Get().runs == 1);
  CHECK(OffAt(&session, g, 3) <= 1);
}

TEST_CASE("delegates: eight threads on engines that allow one run at a time, and on others") {
  if (!registered || !HasCpu()) return;
  const Graph g = Divisible();
  for (const char* name : {"test_serial:sleep_ms=1", "test_a:sleep_ms=1"}) {
    const auto program = CompileTo(g, name);
    TestDelegateCounts::Get().Reset();
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        Session session(program);
        for (int i = 0; i < 10; ++i) wrong += !(OffAt(&session, g, 3, uint64_t(t)) <= 1);
      });
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
    CHECK(TestDelegateCounts::Get().runs == 80);
    if (std::string(name)[5] == 's') CHECK(TestDelegateCounts::Get().overlaps == 0);
    CHECK(TestDelegateCounts::Get().prepared <= 8);
  }
}

TEST_CASE("delegates: bodies and sizes that data decide") {
  if (!registered || !HasCpu()) return;
  const Graph g = FromText(R"(graph (%k: i64[], %x: f32[n, 4]) -> (%y, %f) {
    %a = Relu(%x) : ?
    %y = Loop(%k, _, %a) {num_captures = 0,
      body = graph (%i: i64[], %more: bool[], %p: f32[n, 4]) -> (%more, %q) {
        %r = Tanh(%p) : ?
        %q = Neg(%r) : ?
      }} : ?
    %i = NonZero(%a) : ?
    %c = Cast(%i) {to = f32} : ?
    %f = Sqrt(%c) : ?
  })");
  Session session(CompileTo(g, "test_a"));
  TestDelegateCounts::Get().Reset();
  for (const int64_t n : {2, 5}) CHECK(OffAt(&session, g, n) <= 1);
  CHECK(TestDelegateCounts::Get().runs >= 4);
}

TEST_CASE("delegates: a saved program keeps regions, and engines of fixed extents") {
  if (!registered || !HasCpu()) return;
  const Graph g = FromText(
      "graph (%x: f32[3, 4]) -> (%b) {\n  %a = Relu(%x) : ?\n"
      "  %b = Exp(%a) : ?\n}\n");
  const TempFolder folder;
  SaveProgram(*CompileTo(g, "test_a"), folder.path() + "/p.weftx");
  TestDelegateCounts::Get().Reset();
  const auto loaded = LoadProgram(folder.path() + "/p.weftx");
  CHECK(loaded->stats().delegated == 1);
  Session session(loaded);
  const Reference r = RunReference(g, 1);
  CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
  CHECK(TestDelegateCounts::Get().imported == 1);
  CHECK(TestDelegateCounts::Get().compiled == 0);
}

TEST_CASE("delegates: large constants of parts lie in a file, where nobody else holds them") {
  if (!registered || !HasCpu()) return;
  const int64_t wide = 640;  // 1.6 MB
  const auto make = [&] {
    Graph g;
    const NodePtr x = g.AddInput("x", DType::kF32, Shape({SymInt::Symbol("n"), SymInt(wide)}));
    std::vector<double> values;
    for (int64_t i = 0; i < wide * wide; ++i) values.push_back(double(i % 113) / 1e4);
    const NodeEntry w = g.AddConstant(Tensor::FromDoubles(DType::kF32, {wide, wide}, values), "w");
    const NodeEntry a(g.AddNode("MatMul", {NodeEntry(x), w}));
    g.outputs = {NodeEntry(g.AddNode("Tanh", {a}))};
    return g;
  };
  // Mapped, of all large ones in bodies.
  const auto mapped = [](const Program& p) {
    int n = 0, all = 0;
    for (const NodePtr& node : p.graph().TopoOrder()) {
      if (!IsOp(node, builtin::kDelegated)) continue;
      for (const NodePtr& inner : node->attr<GraphPtr>("body")->TopoOrder()) {
        const TensorPtr t = Graph::ConstantOf(NodeEntry(inner));
        if (!t) continue;
        ++all;
        n += !MappedName(t->data(), t->num_bytes()).empty();
      }
    }
    REQUIRE(all == 1);
    return n;
  };
  CompileOptions options;
  options.backend = "cpu+test_a";
  const auto program = Compile(make(), options);
  CHECK(mapped(*program) == 1);
  const Graph kept = make();
  CHECK(mapped(*Compile(kept, options)) == 0);
  // Within a budget, too: all ways have them in common.
  CompileOptions tight = options;
  tight.memory.budget = MemoryBudget::Parse("100%", "budget");
  const auto within = Compile(make(), tight);
  CHECK(mapped(*within) == 1);
  Session budgeted(within);
  CHECK(OffAt(&budgeted, kept, 2) <= 1);
  Session session(program);
  for (int64_t n : {1, 3}) CHECK(OffAt(&session, kept, n) <= 1);

  // It is read again where the part runs here, and where the program is saved.
  options.backend = "cpu+test_a:fail=compile,code=unsupported";
  const auto here = Compile(make(), options);
  CHECK(mapped(*here) == 1);
  Session own(here);
  CHECK(OffAt(&own, kept, 2) <= 1);
  const TempFolder folder;
  SaveProgram(*program, folder.path() + "/p.weftx");
  Session loaded(LoadProgram(folder.path() + "/p.weftx"));
  CHECK(OffAt(&loaded, kept, 2) <= 1);

  // Without a folder to write to they stay.
  const char* const told = std::getenv("TMPDIR");
  const std::string before = told ? told : "";
  setenv("TMPDIR", "/nowhere", 1);
  options.backend = "cpu+test_a";
  const auto without = Compile(make(), options);
  told ? setenv("TMPDIR", before.c_str(), 1) : unsetenv("TMPDIR");
  CHECK(mapped(*without) == 0);
  Session stays(without);
  CHECK(OffAt(&stays, kept, 2) <= 1);
}

TEST_CASE("delegates: a wrong number from an engine is seen by a comparison") {
  if (!registered || !HasCpu()) return;
  const Graph g = Divisible();
  Session session(CompileTo(g, "test_a:off=0.01"));
  CHECK(OffAt(&session, g, 3) > 1);
}

}  // namespace weft::e2e
