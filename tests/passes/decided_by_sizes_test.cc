/// decided_by_sizes_test.cc: branches that sizes decide: known when dimensions are, with what they
/// give, and no step of a run.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/e2e_util.h"
#include "tests/support/temp_folder.h"
#include "weft/runtime/program/predict_arena.h"
#include "weft/runtime/saved/saved_program.h"

namespace weft::e2e {
namespace {

/// Compares with the interpreter at all these sizes, twice each.
void CheckAt(const Graph& g, Session* session, const std::vector<SymBindings>& bindings) {
  uint64_t seed = 0;
  for (int round = 0; round < 2; ++round)
    for (const SymBindings& bind : bindings) {
      for (const auto& [name, value] : bind) CAPTURE(value);
      const Reference r = RunReference(g, ++seed, bind);
      CHECK(Difference(session->Run(r.inputs), r.outputs) <= 1);
    }
}
std::vector<SymBindings> OneTo(int64_t last) {
  std::vector<SymBindings> all;
  for (int64_t n = 1; n <= last; ++n) all.push_back({{"n", n}});
  return all;
}
/// `before`, an If by `condition` (a number n of x's first axis, and constants), `behind`.
Graph Branching(const std::string& condition, const std::string& then_branch,
                const std::string& else_branch) {
  return FromText(
      "graph (%x: f32[n, 4]) -> (%z) {\n  %s = Shape(%x) : ?\n"
      "  %zero = Constant() {value = tensor i64[] [0]} : ?\n"
      "  %one = Constant() {value = tensor i64[] [1]} : ?\n"
      "  %five = Constant() {value = tensor i64[] [5]} : ?\n"
      "  %n = Gather(%s, %zero) : ?\n" +
      condition +
      "  %a = Exp(%x) : ?\n  %y = If(%c, %a) {num_captures = 1,\n"
      "    then_branch = graph (%p: f32[n, 4]) -> (%q) {\n" +
      then_branch + "    },\n    else_branch = graph (%p: f32[n, 4]) -> (%q) {\n" + else_branch +
      "    }} : ?\n  %z = Tanh(%y) : ?\n}\n");
}

}  // namespace

TEST_CASE("every comparison of sizes decides, and what is made of them") {
  if (!HasCpu()) return;
  for (const char* condition : {
           "  %c = Greater(%n, %five) : ?\n",
           "  %c = GreaterOrEqual(%n, %five) : ?\n",
           "  %c = Less(%n, %five) : ?\n",
           "  %c = LessOrEqual(%five, %n) : ?\n",
           "  %c = Equal(%n, %five) : ?\n",
           "  %d = Equal(%n, %five) : ?\n  %c = Not(%d) : ?\n",
           "  %d = Less(%n, %five) : ?\n  %e = Equal(%n, %one) : ?\n  %f = Not(%e) : ?\n"
           "  %c = And(%d, %f) : ?\n",
           "  %d = Greater(%n, %five) : ?\n  %e = Equal(%n, %one) : ?\n  %c = Or(%d, %e) : ?\n",
           "  %d = Less(%n, %five) : ?\n  %e = Less(%one, %n) : ?\n  %c = Xor(%d, %e) : ?\n",
           "  %d = Mul(%n, %n) : ?\n  %e = Sub(%d, %five) : ?\n  %c = Less(%e, %n) : ?\n",
       }) {
    INFO(std::string(condition));
    const Graph g = Branching(condition, "      %r = Neg(%p) : ?\n      %q = Abs(%r) : ?\n",
                              "      %q = Sqrt(%p) : ?\n");
    Session session(CompileFor(g, "cpu"));
    CheckAt(g, &session, OneTo(8));
    // The graph of each branch is one kernel, with what stands around the branch.
    for (int64_t n = 1; n <= 8; ++n) {
      const auto in = MakeRandomInputs(g, 1, {{"n", n}}).tensors;
      const std::vector<StepTime> steps = session.Profile(in);
      CHECK(std::count_if(steps.begin(), steps.end(),
                          [](const StepTime& s) { return s.kind == "kernel"; }) == 1);
      CHECK(std::none_of(steps.begin(), steps.end(), [](const StepTime& s) {
        return s.kind == "interpreter" || s.kind == "region" || s.kind == "library";
      }));
    }
  }
}

TEST_CASE("sizes that branches give are known where sizes decide") {
  if (!HasCpu()) return;
  const std::string cut =
      "      %from = Constant() {value = tensor i64[1] [0]} : ?\n"
      "      %to = Constant() {value = tensor i64[1] [5]} : ?\n"
      "      %q = Slice(%p, %from, %to, %from) : ?\n";
  const Graph g = Branching("  %c = Greater(%n, %five) : ?\n", cut,
                            "      %q = Concat(%p, %p) {axis = 0} : ?\n");
  // Also where the graph stays one, as one of more nodes does.
  for (const bool split : {true, false}) {
    CAPTURE(split);
    CompileOptions options;
    if (!split)
      options.pipeline = WithPass(StandardPipeline(), "SplitConditions",
                                  ParsePipeline("SplitConditions{most_nodes=1}"))
                             .ToString();
    const auto program = Compile(g, options);
    Session session(program);
    CheckAt(g, &session, OneTo(9));
    // No region: the size is no number that a run computes.
    const std::vector<StepTime> steps = session.Profile(MakeRandomInputs(g, 1, {{"n", 7}}).tensors);
    CHECK(std::none_of(steps.begin(), steps.end(),
                       [](const StepTime& s) { return s.kind == "region"; }));
  }
}

TEST_CASE("graphs that are chosen by sizes are saved, and told what they take") {
  if (!HasCpu()) return;
  const Graph g =
      Branching("  %c = Greater(%n, %five) : ?\n", "      %q = Softmax(%p) {axis = 0} : ?\n",
                "      %k = Constant() {value = tensor i64[] [0]} : ?\n"
                "      %q = CumSum(%p, %k) : ?\n");
  const auto program = CompileFor(g, "cpu");
  const TempFolder folder;
  SaveProgram(*program, folder.path() + "/p.weftx");
  const auto loaded = LoadProgram(folder.path() + "/p.weftx");
  for (const auto& p : {program, loaded}) {
    Session session(p);
    CheckAt(g, &session, OneTo(8));
    for (int64_t n : {3, 8}) {
      session.Run(MakeRandomInputs(g, 1, {{"n", n}}).tensors);
      CHECK(session.arena_bytes() <= PredictArena(g, {}, {{"n", n}}).bytes);
    }
  }
}

TEST_CASE("the size of a branch that is not taken need have no value") {
  if (!HasCpu()) return;
  // Sizes that do not broadcast, and what nothing can be divided by.
  const Graph broadcast = FromText(R"(graph (%x: f32[n, 4], %y: f32[m, 4]) -> (%z) {
    %0 = Constant() {value = tensor i64[] [0]} : ?
    %s = Shape(%x) : ?
    %t = Shape(%y) : ?
    %n = Gather(%s, %0) : ?
    %m = Gather(%t, %0) : ?
    %c = Equal(%n, %m) : ?
    %z = If(%c, %x, %y) {
      num_captures = 2,
      then_branch = graph (%a: f32[n, 4], %b: f32[m, 4]) -> (%r) { %r = Add(%a, %b) : ? },
      else_branch = graph (%a: f32[n, 4], %b: f32[m, 4]) -> (%r) { %r = Neg(%a) : ? }
    } : ?
  })");
  const Graph divided = FromText(R"(graph (%x: f32[n, 4], %y: f32[m]) -> (%z) {
    %0 = Constant() {value = tensor i64[] [0]} : ?
    %t = Shape(%y) : ?
    %m = Gather(%t, %0) : ?
    %c = Greater(%m, %0) : ?
    %z = If(%c, %x, %t) {
      num_captures = 2,
      then_branch = graph (%a: f32[n, 4], %s: i64[1]) -> (%r) {
        %rest = Constant() {value = tensor i64[1] [-1]} : ?
        %to = Concat(%s, %rest) {axis = 0} : ?
        %r = Reshape(%a, %to) : ?
      },
      else_branch = graph (%a: f32[n, 4], %s: i64[1]) -> (%r) { %r = Neg(%a) : ? }
    } : ?
  })");
  Session first(CompileFor(broadcast, "cpu")), second(CompileFor(divided, "cpu"));
  CheckAt(broadcast, &first, {{{"n", 3}, {"m", 3}}, {{"n", 3}, {"m", 5}}, {{"n", 5}, {"m", 2}}});
  CheckAt(divided, &second, {{{"n", 3}, {"m", 2}}, {{"n", 3}, {"m", 0}}, {{"n", 2}, {"m", 8}}});
}

}  // namespace weft::e2e
