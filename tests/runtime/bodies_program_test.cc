/// bodies_program_test.cc: If, Loop and Scan whose bodies are programs, on the backend that
/// compiles.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/body_graphs.h"
#include "tests/support/e2e_util.h"
#include "tests/support/temp_folder.h"
#include "weft/runtime/saved/saved_program.h"

namespace weft::e2e {
namespace {

/// The program of the graph gives at these bindings what the interpreter does, without it.
std::shared_ptr<const Program> CheckCompiled(const Graph& g,
                                             const std::vector<SymBindings>& bindings) {
  const auto program = CompileFor(g, "cpu");
  CHECK(program->stats().interpreted == 0);
  CHECK(program->stats().kernels + program->stats().library_calls > 0);
  Session session(program);
  uint64_t seed = 0;
  for (const SymBindings& bind : bindings) {
    const Reference r = RunReference(g, ++seed, bind);
    CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
    CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
  }
  return program;
}

TensorPtr Int(int64_t v) { return Tensor::Scalar(DType::kI64, double(v)); }
TensorPtr Floats(const std::vector<double>& v) {
  return Tensor::FromDoubles(DType::kF32, {int64_t(v.size())}, v);
}

}  // namespace

TEST_CASE("a Scan: one program for any length and any batch") {
  if (!HasCpu()) return;
  CheckCompiled(FromText(kCellScan), CellScanSizes());
}

TEST_CASE("a Scan from the end, over another axis, stacked on another one") {
  if (!HasCpu()) return;
  CheckCompiled(FromText(kCrossedScan), CrossedScanSizes());
}

TEST_CASE("states that swap, stay, or are the initial ones") {
  if (!HasCpu()) return;
  const Graph g =
      FromText(R"(graph (%n: i64[], %a: f32[3], %b: f32[3], %c: f32[3]) -> (%x, %y, %z) {
    %x, %y, %z = Loop(%n, _, %a, %b, %c) {
      body = graph (%i: i64[], %go: bool[], %p: f32[3], %q: f32[3], %r: f32[3]) -> (%go, %q, %p, %s) {
        %s = Add(%r, %p) : ?
      }
    } : ?, ?, ?
  })");
  Session session(CompileFor(g, "cpu"));
  CHECK(session.program().stats().interpreted == 0);
  const TensorPtr a = Floats({1, 2, 3}), b = Floats({10, 20, 30}), c = Floats({0, 0, 0});
  for (const int64_t n : {0, 1, 2, 3, 10, 11}) {
    CAPTURE(n);
    const auto got = session.Run({Int(n), a, b, c});
    // a + b + a + ...: as many of a as of b, or one more.
    const double of_a = double((n + 1) / 2), of_b = double(n / 2);
    CHECK(got[0]->at(1) == (n % 2 ? 20 : 2));
    CHECK(got[1]->at(1) == (n % 2 ? 2 : 20));
    CHECK(got[2]->at(1) == 2 * of_a + 20 * of_b);
  }
}

TEST_CASE("a Loop that its condition ends") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%x: f32[n]) -> (%y, %k) {
    %one = Constant() {value = tensor f32[] [1000.0]} : ?
    %zero = Constant() {value = tensor i64[] [0]} : ?
    %y, %k = Loop(_, _, %x, %zero, %one) {
      num_captures = 1,
      body = graph (%i: i64[], %go: bool[], %v: f32[n], %c: i64[], %most: f32[]) -> (%on, %w, %d) {
        %w = Add(%v, %v) : ?
        %s = ReduceSum(%w) {keepdims = 0} : ?
        %on = Less(%s, %most) : ?
        %e = Constant() {value = tensor i64[] [1]} : ?
        %d = Add(%c, %e) : ?
      }
    } : ?, ?
  })");
  Session session(CompileFor(g, "cpu"));
  CHECK(session.program().stats().interpreted == 0);
  // 2^10 > 1000; 3 * 2^9 > 1000.
  for (const auto& [x, steps] : {std::pair{Floats({1}), 10}, std::pair{Floats({1, 1, 1}), 9}}) {
    const auto got = session.Run({x});
    CHECK(got[1]->at_int(0) == steps);
    CHECK(got[0]->at(0) == double(1 << steps));
  }
}

TEST_CASE("a body that needs a size which none of its inputs has is regions") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%c: bool[], %x: f32[n, 2], %k: f32[2]) -> (%y) {
    %s = Shape(%x) : ?
    %z = If(%c, %s, %k) {
      num_captures = 2,
      then_branch = graph (%t: i64[2], %v: f32[2]) -> (%e) { %e = Expand(%v, %t) : ? },
      else_branch = graph (%t: i64[2], %v: f32[2]) -> (%f) {
        %e = Expand(%v, %t) : ?
        %f = Exp(%e) : ?
      }
    } : ?
    %y = Add(%z, %x) : ?
  })");
  const auto program = CompileFor(g, "cpu");
  CHECK(program->stats().interpreted == 0);
  CHECK(program->stats().kernels >= 3);
  Session session(program);
  for (int64_t n : {1, 4, 9}) {
    const Reference r = RunReference(g, uint64_t(n), {{"n", n}});
    CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
  }
}

TEST_CASE("bodies in bodies, and one that is left to the interpreter") {
  if (!HasCpu()) return;
  const Graph nested = FromText(R"(graph (%n: i64[], %x: f32[k], %w: f32[k]) -> (%y) {
    %y = Loop(%n, _, %x, %w) {
      num_captures = 1,
      body = graph (%i: i64[], %go: bool[], %v: f32[k], %u: f32[k]) -> (%go, %r) {
        %two = Constant() {value = tensor i64[] [2]} : ?
        %m = Mod(%i, %two) : ?
        %odd = Cast(%m) {to = bool} : ?
        %r = If(%odd, %v, %u) {
          num_captures = 2,
          then_branch = graph (%a: f32[k], %b: f32[k]) -> (%c) { %c = Add(%a, %b) : ? },
          else_branch = graph (%a: f32[k], %b: f32[k]) -> (%c) { %c = Mul(%a, %b) : ? }
        } : ?
      }
    } : ?
  })");
  CheckCompiled(nested, {{{"k", 1}}, {{"k", 5}}});
  const Graph misfit = FromText(kMisfitIf);
  const auto program = CompileFor(misfit, "cpu");
  Session session(program);
  CHECK(program->stats().kernels == 1);
  const TensorPtr x = Tensor::FromDoubles(DType::kF32, {2, 3}, {0, 0, 0, 0, 0, 0});
  CHECK(session.Run({Tensor::Scalar(DType::kBool, 1), x})[0]->at(0) == 1);
  const auto wrong = Catch([&] { session.Run({Tensor::Scalar(DType::kBool, 0), x}); });
  REQUIRE(wrong);
  CHECK(wrong->code == ErrorCode::kShapeMismatch);
  CHECK(session.Run({Tensor::Scalar(DType::kBool, 1), x})[0]->at(5) == 1);  // the session is good
}

TEST_CASE("recurrent operators are programs") {
  if (!HasCpu()) return;
  for (const char* op : {"RNN", "GRU", "LSTM"}) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      CAPTURE(op);
      CAPTURE(direction);
      const Graph g = RecurrentGraph(op, direction);
      CheckCompiled(g, {{{"t", 1}, {"b", 1}}, {{"t", 5}, {"b", 2}}, {{"t", 4}, {"b", 3}}});
    }
  }
}

TEST_CASE("a recurrent operator in a branch whose sizes are known late is a program") {
  if (!HasCpu()) return;
  // Sizes of the branch are known when %k has been folded.
  CheckCompiled(
      FromText(R"(graph (%c: bool[], %x: f32[t, 1, 2], %w: f32[1, 8, 2], %r: f32[1, 8, 2]) -> (%y) {
  %f = Constant() {value = tensor f32[3] [0.0, 1.0, 4.0]} : ?
  %q = Sqrt(%f) : ?
  %k = Cast(%q) {to = i64} : ?
  %y = If(%c, %x, %w, %r, %k) {
    num_captures = 4,
    then_branch = graph (%x: f32?, %w: f32?, %r: f32?, %k: i64?) -> (%h) {
      %u = Reshape(%x, %k) : ?
      %h, %h2, %c2 = LSTM(%u, %w, %r) {hidden_size = 2} : ?, ?, ?
    },
    else_branch = graph (%x: f32?, %w: f32?, %r: f32?, %k: i64?) -> (%z) {
      %n = Constant() {value = tensor i64[4] [-1, 1, 1, 2]} : ?
      %z = Reshape(%x, %n) : ?
    }
  } : ?
})"),
      {{{"t", 5}}, {{"t", 1}}});
}

TEST_CASE("a program with bodies is saved with their kernels") {
  if (!HasCpu()) return;
  const Graph g = FromText(kCellScan);
  const auto program = CompileFor(g, "cpu");
  TempFolder folder;
  SaveProgram(*program, folder / "scan.weftx");
  const auto loaded = LoadProgram(folder / "scan.weftx");
  CHECK(loaded->stats().kernels == program->stats().kernels);
  CHECK(loaded->stats().library_calls == program->stats().library_calls);
  CHECK(loaded->stats().interpreted == 0);
  const Reference r = RunReference(g, 3, {{"t", 4}, {"n", 2}});
  Session session(loaded);
  CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
}

}  // namespace weft::e2e
