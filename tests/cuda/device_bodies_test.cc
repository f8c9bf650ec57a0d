/// device_bodies_test.cc: If, Loop, Scan, recurrent operators and regions on a GPU, against the
/// interpreter. Each passes, and says so, where there is no GPU (device_test.cc).
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>

#include "tests/cuda/device_util.h"
#include "tests/support/body_graphs.h"
#include "tests/support/error_bound.h"
#include "tests/support/random/random_control_flow.h"
#include "weft/support/log.h"

namespace weft::e2e {
namespace {

/// Weights are small: a recurrence that amplifies would tell roundings, and nothing else.
std::string Recurrent(const std::string& op, const std::string& direction) {
  const int gates = op[0] == 'R' ? 1 : op[0] == 'G' ? 3 : 4;
  const int d = direction[0] == 'b' ? 2 : 1;
  return fmt::format(
      "graph (%x: f32[t, b, 20], %w: f32[{0}, {1}, 20], %r: f32[{0}, {1}, 32], "
      "%c: f32[{0}, {2}]) -> (%y, %h) {{\n  %few = Constant() {{value = tensor f32[] [0.125]}}\n"
      "  %v = Mul(%w, %few)\n  %q = Mul(%r, %few)\n"
      "  %y, %h{3} = {4}(%x, %v, %q, %c) {{direction = \"{5}\", hidden_size = 32}}\n}}",
      d, 32 * gates, 64 * gates, gates == 4 ? ", %k" : "", op, direction);
}

}  // namespace

TEST_CASE("device: a Scan is one recording") {
  if (!Ready()) return;
  CheckGraph(
      R"(graph (%s: f32[n, 30], %x: f32[t, n, 30], %w: f32[30, 30]) -> (%y, %z) {
  %few = Constant() {value = tensor f32[] [0.125]}
  %v = Mul(%w, %few)
  %y, %z = Scan(%s, %x, %v) {
    num_scan_inputs = 1, num_captures = 1,
    body = graph (%h: f32[n, 30], %v: f32[n, 30], %m: f32[30, 30]) -> (%q, %r) {
      %p = MatMul(%h, %m)
      %u = Add(%p, %v)
      %q = Tanh(%u)
      %r = Exp(%q)
    }
  }
})",
      {{{"t", 1}, {"n", 1}}, {{"t", 7}, {"n", 4}}, {{"t", 0}, {"n", 2}}, {{"t", 60}, {"n", 33}}});
  CheckGraph(R"(graph (%s: f32[6], %x: f32[6, t], %k: f32[t, 6]) -> (%y, %z, %q) {
  %y, %z, %q = Scan(%s, %x, %k) {
    num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [1, 0],
    scan_output_axes = [1, 0], scan_output_directions = [0, 1],
    body = graph (%h: f32[6], %v: f32[6], %w: f32[6]) -> (%a, %b, %a) {
      %c = Mul(%h, %w)
      %a = Add(%c, %v)
      %b = Neg(%a)
    }
  }
})",
             {{{"t", 1}}, {{"t", 5}}});
}

TEST_CASE("device: recurrent operators, forward and gradient") {
  if (!Ready()) return;
  for (const auto& [op, direction] : {std::pair{"RNN", "forward"}, std::pair{"GRU", "reverse"},
                                      std::pair{"LSTM", "bidirectional"}}) {
    const std::string text = Recurrent(op, direction);
    CheckGraph(text, {{{"t", 9}, {"b", 4}}, {{"t", 1}, {"b", 1}}});
    CheckGraph(WithGradients(FromText(text)), {{{"t", 5}, {"b", 3}}});
  }
}

TEST_CASE("device: conditions that are fed need no wait, those that are computed one each") {
  if (!Ready()) return;
  const auto program = OnDevice(FromText(R"(graph (%c: bool[], %x: f32[n]) -> (%y, %k) {
    %z = If(%c, %x) {num_captures = 1,
      then_branch = graph (%v: f32[n]) -> (%u) { %e = ReduceMax(%v) {keepdims = 0} %u = Sub(%v, %e) },
      else_branch = graph (%v: f32[n]) -> (%u) { %u = Mul(%v, %v) }
    }
    %most = Constant() {value = tensor f32[] [1000.0]}
    %zero = Constant() {value = tensor i64[] [0]}
    %y, %k = Loop(_, _, %z, %zero, %most) {num_captures = 1,
      body = graph (%i: i64[], %go: bool[], %v: f32[n], %s: i64[], %m: f32[]) -> (%on, %w, %d) {
        %w = Add(%v, %v)
        %a = ReduceMax(%w) {keepdims = 0}
        %on = Less(%a, %m)
        %e = Constant() {value = tensor i64[] [1]}
        %d = Add(%s, %e)
      }
    }
  })"));
  const ProgramStats& stats = program->stats();
  CHECK(stats.interpreted == 0);
  Session session(program);
  const TensorPtr x = Tensor::FromDoubles(DType::kF32, {3}, {1, -2, 3});
  for (int run = 0; run < 5; ++run) {
    const auto got = session.Run({Tensor::Scalar(DType::kBool, 0), x});
    CHECK(got[1]->at_int(0) == 7);  // 9 * 2^7 > 1000
    CHECK(got[0]->at(2) == 9 * 128);
  }
  if (IsDevice()) CHECK(stats.host_waits == 5 * 7);
}

TEST_CASE("device: regions") {
  if (!Ready()) return;
  const Graph g = FromText(
      "graph @m(%x: f32[n, 5], %k: i64[1]) -> (%sum, %top, %z) {\n"
      "  %a = Relu(%x)\n  %i = NonZero(%a)\n  %t = Transpose(%i)\n"
      "  %v = GatherND(%a, %t)\n  %d = Mul(%v, %v)\n"
      "  %sum = ReduceMax(%d) {keepdims = 0}\n  %top, %at = TopK(%v, %k)\n  %z = Neg(%a)\n}\n");
  Session session(OnDevice(g));
  for (const int64_t n : {3, 40, 3}) {
    std::vector<double> x;
    for (int64_t i = 0; i < 5 * n; ++i) x.push_back(std::sin(double(i)));
    const std::vector<TensorPtr> in{Tensor::FromDoubles(DType::kF32, {n, 5}, x), Tensor::Ints({2})};
    const std::vector<TensorPtr> want = GetEvaluator()->Eval(g, in);
    for (int run = 0; run < 4; ++run) CHECK(Difference(session.Run(in), want) <= 1);
  }
}

TEST_CASE("device: random control flow") {
  if (!Ready()) return;
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  const auto seconds =
      std::chrono::milliseconds(500 * FromEnvironment("WEFT_DEVICE_TEST_SECONDS", 20));
  const auto begin = std::chrono::steady_clock::now();
  int graphs = 0, wrong = 0;
  for (auto seed = uint64_t(FromEnvironment("WEFT_DEVICE_TEST_SEED", 1));
       std::chrono::steady_clock::now() - begin < seconds && wrong < 20; ++seed, ++graphs) {
    CAPTURE(seed);
    const fuzz::ControlFlowGraph g = fuzz::MakeControlFlowGraph(seed, false);
    const auto program = OnDevice(g.graph), plain = CompileFor(g.graph, "ref");
    Session device(program), reference(plain);
    for (size_t b = 0; b < g.bindings.size(); ++b) {
      const auto in = fuzz::MakeInputs(g, b, 0);
      const auto want = reference.Run(Ordered(*plain, g.graph, in));
      for (int run = 0; run < 4; ++run) {
        const auto got = device.Run(Ordered(*program, g.graph, in));
        for (size_t i = 0; i < got.size(); ++i) {
          if (g.outputs[i] != fuzz::Drawn::kNothing) continue;
          const std::string why = Compare(*got[i], *want[i], 0);
          wrong += !why.empty();
          CHECK_MESSAGE(why.empty(), why);
        }
      }
    }
  }
  SetLogLevel(before);
  MESSAGE(graphs << " random graphs with control flow, " << wrong << " mismatches");
  CHECK(graphs > 0);
}

}  // namespace weft::e2e
