/// device_bodies_test.cc: If, Loop, Scan and regions on a device with memory of its own: equal bits
/// to the host, the host waits where it must see a number and nowhere else, and what needs no
/// number is replayed. The device is that of counting_device.h, whose memory the host cannot touch.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/body_graphs.h"
#include "tests/support/counting_device.h"
#include "tests/support/e2e_util.h"
#include "tests/support/error_bound.h"
#include "tests/support/random/random_control_flow.h"
#include "weft/support/log.h"

namespace weft::e2e {
namespace {

TensorPtr Int(int64_t v) { return Tensor::Scalar(DType::kI64, double(v)); }
TensorPtr Flag(bool v) { return Tensor::Scalar(DType::kBool, v); }
TensorPtr Floats(const std::vector<double>& v) {
  return Tensor::FromDoubles(DType::kF32, {int64_t(v.size())}, v);
}

/// A program on the device beside the same on the host.
struct Pair {
  explicit Pair(const Graph& g)
      : program(CompileFor(g, "counting")), device(program), host(CompileFor(g, "cpu")) {}
  /// Equal bits, `times` runs in a row, the last one started and waited for.
  void Check(const std::vector<TensorPtr>& in, int times = 1) {
    const std::vector<TensorPtr> want = host.Run(in);
    for (int run = 0; run < times; ++run) {
      const std::vector<TensorPtr> got =
          run + 1 == times && times > 1 ? device.Start(in).Wait() : device.Run(in);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i]->Equals(*want[i]));
    }
    CHECK(CountingDevice::Get().strangers == 0);
  }
  const ProgramStats& stats() const { return program->stats(); }

  const std::shared_ptr<const Program> program;
  Session device, host;
};

/// Nothing of it needs the host: from the third run on it is one recording.
void CheckReplayed(const Graph& g, const std::vector<SymBindings>& bindings) {
  Pair pair(g);
  CHECK(pair.stats().interpreted == 0);
  uint64_t seed = 0;
  for (const SymBindings& bind : bindings) {
    const Reference r = RunReference(g, ++seed, bind);
    CHECK(Difference(pair.device.Run(r.inputs), r.outputs) <= 1);
    pair.Check(r.inputs);
    const int64_t launches = pair.stats().launches, replays = pair.stats().replays;
    pair.Check(r.inputs, 3);
    CHECK(pair.stats().launches == launches);
    CHECK(pair.stats().replays == replays + 3);
  }
  CHECK(pair.stats().host_waits == 0);
}

}  // namespace

TEST_CASE("device: a Scan stays there, and is one recording") {
  if (!StartCountingDevice()) return;
  CheckReplayed(FromText(kCellScan), CellScanSizes());
}

TEST_CASE("device: a Scan from the end, over another axis, stacked on another one") {
  if (!StartCountingDevice()) return;
  CheckReplayed(FromText(kCrossedScan), CrossedScanSizes());
}

TEST_CASE("device: recurrent operators, forward and gradient, wait for nothing") {
  if (!StartCountingDevice()) return;
  for (const char* op : {"RNN", "GRU", "LSTM"})
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      CAPTURE(op);
      CAPTURE(direction);
      const Graph g = RecurrentGraph(op, direction);
      CheckReplayed(g, {{{"t", 5}, {"b", 2}}, {{"t", 1}, {"b", 1}}});
      CheckReplayed(WithGradients(g), {{{"t", 4}, {"b", 3}}});
    }
}

TEST_CASE("device: a number of iterations that is fed is known to the host") {
  if (!StartCountingDevice()) return;
  Pair pair(FromText(R"(graph (%n: i64[], %a: f32[3], %b: f32[3], %c: f32[3]) -> (%x, %y, %z) {
    %x, %y, %z = Loop(%n, _, %a, %b, %c) {
      body = graph (%i: i64[], %go: bool[], %p: f32[3], %q: f32[3], %r: f32[3]) -> (%go, %q, %p, %s) {
        %f = Cast(%i) {to = f32} : ?
        %t = Add(%r, %p) : ?
        %s = Add(%t, %f) : ?
      }
    } : ?, ?, ?
  })"));
  CHECK(pair.stats().interpreted == 0);
  const TensorPtr a = Floats({1, 2, 3}), b = Floats({10, 20, 30}), c = Floats({0, 0, 0});
  for (const int64_t n : {0, 1, 2, 3, 10, 11, 3000, 2}) pair.Check({Int(n), a, b, c}, 3);
  CHECK(pair.stats().host_waits == 0);
}

TEST_CASE("device: a condition that the device computes is read once an iteration") {
  if (!StartCountingDevice()) return;
  Pair pair(FromText(R"(graph (%x: f32[n]) -> (%y, %k, %all) {
    %one = Constant() {value = tensor f32[] [1000.0]} : ?
    %zero = Constant() {value = tensor i64[] [0]} : ?
    %y, %k, %all = Loop(_, _, %x, %zero, %one) {
      num_captures = 1,
      body = graph (%i: i64[], %go: bool[], %v: f32[n], %c: i64[], %most: f32[]) -> (%on, %w, %d, %s) {
        %w = Add(%v, %v) : ?
        %s = ReduceSum(%w) {keepdims = 0} : ?
        %on = Less(%s, %most) : ?
        %e = Constant() {value = tensor i64[] [1]} : ?
        %d = Add(%c, %e) : ?
      }
    } : ?, ?, ?
  })"));
  CHECK(pair.stats().interpreted == 0);
  int64_t waits = 0;
  // 2^10 > 1000; 3 * 2^9 > 1000.
  for (const auto& [x, steps] : {std::pair{Floats({1}), 10}, std::pair{Floats({1, 1, 1}), 9}}) {
    pair.Check({x}, 3);
    waits += 3 * steps;
  }
  CHECK(pair.stats().host_waits == waits);
}

TEST_CASE("device: a branch is chosen by what is fed without waiting, by what is computed with") {
  if (!StartCountingDevice()) return;
  const std::string branches = R"( {num_captures = 1,
      then_branch = graph (%v: f32[n]) -> (%u) {
        %e = Exp(%v) : ?
        %m = ReduceMax(%e) {keepdims = 0} : ?
        %u = Sub(%e, %m) : ?
      },
      else_branch = graph (%v: f32[n]) -> (%u) { %u = Mul(%v, %v) : ? }
    } : ?
  })";
  Pair fed(FromText("graph (%c: bool[], %x: f32[n]) -> (%y) {\n %y = If(%c, %x)" + branches));
  for (int round = 0; round < 3; ++round)
    for (const bool c : {true, false, false, true}) fed.Check({Flag(c), Floats({1, 2, 3})});
  CHECK(fed.stats().interpreted == 0);
  CHECK(fed.stats().host_waits == 0);
  Pair computed(
      FromText("graph (%x: f32[n], %z: f32[]) -> (%y) {\n %s = ReduceSum(%x) {keepdims = 0} : ?\n"
               " %c = Less(%s, %z) : ?\n %y = If(%c, %x)" +
               branches));
  for (int round = 0; round < 4; ++round)
    for (const double z : {-5., 100., 3.})
      computed.Check({Floats({1, 2, 3}), Tensor::Scalar(DType::kF32, z)});
  CHECK(computed.stats().interpreted == 0);
  CHECK(computed.stats().host_waits == 12);
  CHECK(computed.stats().replays > 0);  // what stands before it
}

TEST_CASE("device: bodies in bodies") {
  if (!StartCountingDevice()) return;
  Pair pair(FromText(R"(graph (%n: i64[], %x: f32[k], %w: f32[k]) -> (%y) {
    %y = Loop(%n, _, %x, %w) {
      num_captures = 1,
      body = graph (%i: i64[], %go: bool[], %v: f32[k], %u: f32[k]) -> (%go, %r) {
        %two = Constant() {value = tensor i64[] [2]} : ?
        %m = Mod(%i, %two) : ?
        %odd = Cast(%m) {to = bool} : ?
        %r = If(%odd, %v, %u) {
          num_captures = 2,
          then_branch = graph (%a: f32[k], %b: f32[k]) -> (%c) {
            %m = ReduceMax(%a) {keepdims = 0} : ?
            %c = Add(%m, %b) : ?
          },
          else_branch = graph (%a: f32[k], %b: f32[k]) -> (%c) { %c = Mul(%a, %b) : ? }
        } : ?
      }
    } : ?
  })"));
  for (const int64_t n : {1, 6, 5, 0})
    pair.Check({Int(n), Floats({1, 2, 3}), Floats({3, 0.5, -1})}, 3);
  CHECK(pair.stats().host_waits == 3 * (1 + 6 + 5));
}

TEST_CASE("device: a branch without a plan is left to the interpreter") {
  if (!StartCountingDevice()) return;
  Pair pair(FromText(kMisfitIf));
  const TensorPtr x = Tensor::FromDoubles(DType::kF32, {2, 3}, {0, 1, 2, 3, 4, 5});
  pair.Check({Flag(true), x}, 4);
  const auto wrong = Catch([&] { pair.device.Run({Flag(false), x}); });
  REQUIRE(wrong);
  CHECK(wrong->code == ErrorCode::kShapeMismatch);
  pair.Check({Flag(true), x}, 2);  // the session is good
}

TEST_CASE("device: what leaves the axis inside of a body is found, also in a replay") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(R"(graph (%x: f32[4], %i: i64[3]) -> (%y) {
    %y = Scan(%i, %x) {
      num_scan_inputs = 1, num_captures = 1,
      body = graph (%k: i64[], %v: f32[4]) -> (%u) { %g = Gather(%v, %k) : ? %u = Sin(%g) : ? }
    } : ?
  })");
  Session s(CompileFor(g, "counting")), host(CompileFor(g, "cpu"));
  const TensorPtr x = Floats({1, 2, 3, 4});
  for (int run = 0; run < 5; ++run) {
    CHECK(s.Run({x, Tensor::Ints({3, -4, 0})})[0]->Equals(
        *host.Run({x, Tensor::Ints({3, -4, 0})})[0]));
    const auto caught = Catch([&] { s.Run({x, Tensor::Ints({0, 4, 1})}); });
    REQUIRE(caught);
    CHECK(caught->code == ErrorCode::kIndexRange);
  }
  // A loop that goes on while what it finds is small ends where it leaves the axis.
  Session endless(CompileFor(FromText(R"(graph (%x: f32[4], %z: i64[]) -> (%k) {
    %k = Loop(_, _, %z, %x) {
      num_captures = 1,
      body = graph (%i: i64[], %go: bool[], %at: i64[], %v: f32[4]) -> (%on, %next) {
        %g = Gather(%v, %at) : ?
        %most = Constant() {value = tensor f32[] [100.0]} : ?
        %on = Less(%g, %most) : ?
        %one = Constant() {value = tensor i64[] [1]} : ?
        %next = Add(%at, %one) : ?
      }
    } : ?
  })"),
                             "counting"));
  const auto caught = Catch([&] { endless.Run({x, Int(0)}); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kIndexRange);
  CHECK(endless.Run({Floats({1, 2, 3, 400}), Int(0)})[0]->at_int(0) == 4);
}

TEST_CASE("device: random control flow gives the bits of the host, run after run") {
  if (!StartCountingDevice()) return;
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  const auto first = uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1));
  const auto count = uint64_t(FromEnvironment("WEFT_FUZZ_COUNT", 60));
  for (uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    const fuzz::ControlFlowGraph g = fuzz::MakeControlFlowGraph(seed, false);
    Pair pair(g.graph);
    for (uint64_t round = 0; round < 2; ++round)
      for (size_t b = 0; b < g.bindings.size(); ++b) {
        CAPTURE(b);
        pair.Check(Ordered(*pair.program, g.graph, fuzz::MakeInputs(g, b, round)), 4);
      }
  }
  SetLogLevel(before);
  CHECK(CountingDevice::Get().replays > 0);
}

TEST_CASE("device: draws in bodies are new in every run") {
  if (!StartCountingDevice()) return;
  for (const char* length : {"3", "t"}) {
    const Graph g = FromText(fmt::format(
        "graph (%x: f32[{}, 64]) -> (%a, %b) {{\n %a, %b = Scan(%x) {{num_scan_inputs = 1,\n"
        " body = graph (%v: f32[64]) -> (%u, %w) {{ %u = RandomUniformLike(%v) : ? "
        "%w = Neg(%v) : ? }} }} : ?, ?\n}}",
        length));
    Session s(CompileFor(g, "counting"));
    const TensorPtr x = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{3, 64});
    std::vector<TensorPtr> seen;
    for (int run = 0; run < 6; ++run) seen.push_back(s.Run({x})[0]);
    for (size_t i = 0; i < seen.size(); ++i)
      for (size_t k = 0; k < i; ++k) CHECK_FALSE(seen[i]->Equals(*seen[k]));
  }
}

TEST_CASE("device: regions hand each other what they compute there") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(
      "graph @m(%x: f32[n, 3], %k: i64[1]) -> (%sum, %top, %z) {\n"
      "  %a = Relu(%x) : ?\n  %i = NonZero(%a) : ?\n  %t = Transpose(%i) : ?\n"
      "  %v = GatherND(%a, %t) : ?\n  %d = Mul(%v, %v) : ?\n"
      "  %sum = ReduceSum(%d) {keepdims = 0} : ?\n  %top, %at = TopK(%v, %k) : ?, ?\n"
      "  %z = Exp(%a) : ?\n}\n");
  Pair pair(g);
  const auto x = [](int64_t n, double first) {
    std::vector<double> v;
    for (int64_t i = 0; i < 3 * n; ++i) v.push_back(std::sin(first + double(i)));
    return Tensor::FromDoubles(DType::kF32, {n, 3}, v);
  };
  for (int round = 0; round < 3; ++round)
    for (const int64_t n : {2, 5, 40}) pair.Check({x(n, round), Tensor::Ints({1})}, 2);
}

TEST_CASE("device: a failure inside of a body is told, and the next run is right again") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(kCellScan);
  const Reference r = RunReference(g, 3, {{"t", 4}, {"n", 2}});
  CountingDevice& d = CountingDevice::Get();
  bool failed = true;
  for (int64_t n = 0; failed; ++n) {
    REQUIRE(n < 200);
    Session s(CompileFor(g, "counting"));
    d.fail_at = n;
    const auto caught = Catch([&] {
      for (int i = 0; i < 4; ++i) s.Run(r.inputs);
    });
    failed = caught.has_value();
    if (failed) CHECK(caught->code == ErrorCode::kDevice);
    d.fail_at = -1;
    CHECK(Difference(s.Run(r.inputs), r.outputs) <= 1);
  }
  CHECK(d.strangers == 0);
}

TEST_CASE("device: extents of a loop in turn, more than recordings are kept") {
  if (!StartCountingDevice()) return;
  const Graph g = FromText(kCellScan);
  Pair pair(g);
  for (int round = 0; round < 4; ++round)
    for (int64_t n = 1; n <= 120; n += 6) {
      const Reference r = RunReference(g, uint64_t(n), {{"t", 3}, {"n", n}});
      pair.Check(r.inputs);
    }
  for (const int64_t n : {7, 3000, 7})
    pair.Check(RunReference(g, uint64_t(n), {{"t", 3}, {"n", n}}).inputs, 5);
  CHECK(pair.stats().replays > 0);
}

}  // namespace weft::e2e
