/// concurrent_bodies_test.cc: loops that run at the same time, and parts of one that do: the
/// results, failures and deadlines of those that run alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/support/e2e_util.h"
#include "weft/core/graph/builtin_ops.h"

namespace weft::e2e {
namespace {

/// A cell with a product, as a Scan of `rows` rows over %x; `more`: further attributes.
std::string Cell(const std::string& names, const std::string& rows, const std::string& more) {
  return "  " + names + " = Scan(%s, %x, %w) {num_scan_inputs = 1, num_captures = 1" + more +
         ", body = graph (%h: f32[" + rows + ", 3], %v: f32[" + rows +
         ", 3], %m: f32[3, 3]) -> (%q, %r) {\n" +
         "    %p = MatMul(%h, %m) : ?\n    %u = Add(%p, %v) : ?\n    %q = Tanh(%u) : ?\n" +
         "    %r = Exp(%q) : ?\n  }} : ?, ?\n";
}
Graph BothWays(const std::string& rows) {
  return FromText(
      "graph (%s: f32[" + rows + ", 3], %x: f32[9, " + rows +
      ", 3], %w: f32[3, 3]) -> (%a, %y, %b, %z) {\n" + Cell("%a, %y", rows, "") +
      Cell("%b, %z", rows, ", scan_input_directions = [1], scan_output_directions = [1]") + "}");
}
Graph Rows(const std::string& rows, int64_t trips) {
  return FromText(
      "graph (%s: f32[" + rows + ", 3], %x: f32[" + std::to_string(trips) + ", " + rows +
      ", 3], %w: f32[3, 3]) -> (%a, %y) {\n" +
      Cell("%a, %y", rows, ", scan_input_directions = [1], scan_output_directions = [1]") + "}");
}

bool Has(const Graph& g, const char* op) {
  for (const NodePtr& n : g.TopoOrder())
    if (IsOp(n, op)) return true;
  return false;
}
int64_t PartsOf(const Graph& g) {
  for (const NodePtr& n : g.TopoOrder())
    if (IsOp(n, "Scan")) return n->attr<int64_t>("parts");
  return 0;
}

/// Loops of any length stay loops.
std::shared_ptr<const Program> CompileWithThreads(const Graph& g, int threads) {
  CompileOptions options;
  options.backend = "cpu";
  options.threads = threads;
  const std::string standard = GetBackend("cpu")->WithThreads(threads)->default_pipeline();
  options.pipeline = WithPass(Pipeline::Parse(standard), "Unroll", {}).ToString();
  return Compile(g, options);
}

/// Several runs, in several sessions at once.
void CheckInSessions(const Graph& g, int threads) {
  const auto program = CompileWithThreads(g, threads);
  CHECK(program->stats().interpreted == 0);
  constexpr int kSessions = 4;
  std::vector<double> worst(kSessions, 1e300);
  std::vector<std::thread> team;
  for (int t = 0; t < kSessions; ++t)
    team.emplace_back([&, t] {
      const Reference r = RunReference(g, uint64_t(t) + 1);
      Session session(program);
      double most = 0;
      for (int i = 0; i < 20; ++i)
        most = std::max(most, Difference(session.Run(r.inputs), r.outputs));
      worst[size_t(t)] = most;
    });
  for (std::thread& t : team) t.join();
  for (const double w : worst) CHECK(w <= 1);
}

}  // namespace

TEST_CASE("two loops that do not read each other's results run at the same time") {
  if (!HasCpu()) return;
  for (const char* rows : {"1", "5"})
    for (const int threads : {1, 2, 3}) {
      CAPTURE(rows);
      CAPTURE(threads);
      CHECK(Has(CompileWithThreads(BothWays(rows), threads)->graph(), "weft::Concurrent") ==
            (threads > 1));
      CheckInSessions(BothWays(rows), threads);
    }
}

TEST_CASE("the rows of a loop run in parts, one for each thread") {
  if (!HasCpu()) return;
  for (const int64_t trips : {1, 2, 3, 8}) {
    CAPTURE(trips);
    CHECK(PartsOf(CompileWithThreads(Rows("8", trips), 2)->graph()) == 2);
    CheckInSessions(Rows("8", trips), 2);
  }
  CHECK(PartsOf(CompileWithThreads(Rows("9", 9), 2)->graph()) == 1);
  CHECK(PartsOf(CompileWithThreads(Rows("8", 9), 1)->graph()) == 1);
  CHECK(PartsOf(CompileWithThreads(Rows("18", 9), 4)->graph()) == 3);
  CheckInSessions(Rows("18", 9), 4);
  // How many there are says the run: they stay together.
  CHECK(PartsOf(CompileWithThreads(Rows("n", 9), 2)->graph()) == 1);
}

TEST_CASE("an error in one part ends the run, and the session stays good") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%s: f32[8], %i: i64[9, 8], %t: f32[5]) -> (%a, %y) {
    %a, %y = Scan(%s, %i, %t) {num_scan_inputs = 1, num_captures = 1,
      body = graph (%h: f32[8], %v: i64[8], %m: f32[5]) -> (%q, %q) {
        %p = Gather(%m, %v) : ?
        %q = Add(%p, %h) : ?
      }} : ?, ?
  })");
  const auto program = CompileWithThreads(g, 2);
  CHECK(PartsOf(program->graph()) == 2);
  Session session(program);
  const auto s = Tensor::FromDoubles(DType::kF32, {8}, std::vector<double>(8, 0.5));
  const auto t = Tensor::FromDoubles(DType::kF32, {5}, {1, 2, 3, 4, 5});
  std::vector<double> at(72, 2);
  const auto good = Tensor::FromDoubles(DType::kI64, {9, 8}, at);
  at[size_t(4 * 8 + 7)] = 5;  // in the second part
  const auto bad = Tensor::FromDoubles(DType::kI64, {9, 8}, at);
  for (int round = 0; round < 3; ++round) {
    const auto caught = Catch([&] { session.Run({s, bad, t}); });
    REQUIRE(caught);
    CHECK(caught->code == ErrorCode::kIndexRange);
    CHECK(session.Run({s, good, t})[0]->at(7) == 0.5 + 9 * 3);
  }
}

TEST_CASE("a run that is cancelled ends in all parts") {
  if (!HasCpu()) return;
  for (const bool pair : {false, true}) {
    CAPTURE(pair);
    std::string text = "graph (%s: f32[8, 3], %x: f32[300000, 8, 3], %w: f32[3, 3]) -> (%a";
    text += pair ? ", %b) {\n" : ") {\n";
    text += Cell("%a, %y", "8", "");
    if (pair) text += Cell("%b, %z", "8", ", scan_input_directions = [1]");
    const auto program = CompileWithThreads(FromText(text + "}"), 2);
    CHECK(Has(program->graph(), "weft::Concurrent") == pair);
    Session session(program);
    const auto zeros = [](std::vector<int64_t> dims) {
      int64_t n = 1;
      for (const int64_t d : dims) n *= d;
      return Tensor::FromDoubles(DType::kF32, dims, std::vector<double>(size_t(n)));
    };
    const std::vector<TensorPtr> inputs{zeros({8, 3}), zeros({300000, 8, 3}), zeros({3, 3})};
    // A quick machine may have done all iterations before the other thread comes to cancel them.
    std::optional<Caught> caught;
    for (int round = 0; round < 100 && !caught; ++round) {
      CancelToken token;
      session.set_cancel(token);
      std::thread other([token]() mutable {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        token.Cancel();
      });
      caught = Catch([&] { session.Run(inputs); });
      other.join();
    }
    REQUIRE(caught);
    CHECK(caught->code == ErrorCode::kCancelled);
    session.set_cancel(CancelToken());
    CHECK(session.Run(inputs)[0]->at(0) == 0);
  }
}

}  // namespace weft::e2e
