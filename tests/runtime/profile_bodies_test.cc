/// profile_bodies_test.cc: profiles of programs with bodies and regions: every step in them has a
/// row, and the rows add up to what the run took and moved.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "tests/support/body_graphs.h"
#include "tests/support/e2e_util.h"
#include "weft/runtime/program/profile.h"
#include "weft/support/timer.h"

namespace weft::e2e {
namespace {

struct Profiled {
  std::vector<StepTime> steps;
  double whole_us = 0;
  int64_t bytes_moved = 0;

  double SumUs() const {
    double sum = 0;
    for (const StepTime& t : steps) sum += t.duration;
    return sum;
  }
  int64_t SumBytes() const {
    int64_t sum = 0;
    for (const StepTime& t : steps) sum += t.bytes;
    return sum;
  }
  /// Runs of the steps in a place; all of them have run equally often.
  int64_t TimesIn(const std::string& in) const {
    int64_t times = 0;
    for (const StepTime& t : steps) {
      if (t.in != in) continue;
      if (times) CHECK(t.times == times);
      times = t.times;
    }
    return times;
  }
  int64_t CountKind(const std::string& kind) const {
    return std::count_if(steps.begin(), steps.end(),
                         [&](const StepTime& t) { return t.kind == kind; });
  }
};

Profiled ProfileOnce(Session* session, const std::vector<TensorPtr>& inputs) {
  session->Run(inputs);
  Profiled p;
  const Timer timer;
  p.steps = session->Profile(inputs);
  p.whole_us = timer.milliseconds() * 1e3;
  p.bytes_moved = session->bytes_moved();
  return p;
}

}  // namespace

TEST_CASE("a body's steps have rows, with the sums of their runs") {
  if (!HasCpu()) return;
  const Graph g = FromText(kCellScan);
  Session session(CompileFor(g, "cpu"));
  for (const int64_t t : {1, 2, 40}) {
    CAPTURE(t);
    const Reference r = RunReference(g, uint64_t(t), {{"t", t}, {"n", 4}});
    const Profiled p = ProfileOnce(&session, r.inputs);
    REQUIRE(p.CountKind("bodies") == 1);
    const auto scan = std::find_if(p.steps.begin(), p.steps.end(),
                                   [](const StepTime& s) { return s.kind == "bodies"; });
    CHECK(scan->in.empty());
    CHECK(scan->times == 1);
    CHECK(scan->bytes == 0);  // its steps read and write
    CHECK(p.TimesIn(scan->name + "/body") == t);
    CHECK(p.SumUs() <= p.whole_us);
    CHECK(p.SumBytes() == p.bytes_moved);
    // What is profiled is what runs: iterations are repeated by pointers then, too.
    std::vector<std::shared_ptr<Tensor>> out;
    session.Profile(r.inputs, &out);
    CHECK(Difference({out.begin(), out.end()}, r.outputs) <= 1);
  }
}

TEST_CASE("bodies in bodies: each branch under its own name, as often as it was taken") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%n: i64[], %x: f32[k], %w: f32[k]) -> (%y) {
    %y = Loop(%n, _, %x, %w) {
      num_captures = 1,
      body = graph (%i: i64[], %go: bool[], %v: f32[k], %u: f32[k]) -> (%go, %r) {
        %three = Constant() {value = tensor i64[] [3]} : ?
        %m = Mod(%i, %three) : ?
        %odd = Cast(%m) {to = bool} : ?
        %r = If(%odd, %v, %u) {
          num_captures = 2,
          then_branch = graph (%a: f32[k], %b: f32[k]) -> (%c) { %c = Add(%a, %b) : ? },
          else_branch = graph (%a: f32[k], %b: f32[k]) -> (%c) { %d = Mul(%a, %b) : ?
            %c = Einsum(%d, %b) {equation = "i,i->i"} : ? }
        } : ?
      }
    } : ?
  })");
  Session session(CompileFor(g, "cpu"));
  const auto floats = [](std::vector<double> v) {
    return Tensor::FromDoubles(DType::kF32, {int64_t(v.size())}, v);
  };
  const Profiled p =
      ProfileOnce(&session, {Tensor::Scalar(DType::kI64, 10), floats({1, 2}), floats({3, 4})});
  std::map<std::string, int64_t> times;
  for (const StepTime& t : p.steps) {
    CAPTURE(t.in);
    times[t.in] = t.times;
  }
  CHECK(times.at("") == 1);
  CHECK(times.at("y/body") == 10);
  CHECK(times.at("y/body/r/then_branch") == 6);
  CHECK(times.at("y/body/r/else_branch") == 4);
  CHECK(p.SumUs() <= p.whole_us);
  CHECK(p.SumBytes() == p.bytes_moved);
  // A run that takes the other branch more often leaves nothing behind.
  const Profiled again =
      ProfileOnce(&session, {Tensor::Scalar(DType::kI64, 1), floats({1, 2}), floats({3, 4})});
  CHECK(again.TimesIn("y/body/r/then_branch") == 0);
  CHECK(again.TimesIn("y/body/r/else_branch") == 1);
}

TEST_CASE("regions and what stands between them") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%x: f32[n], %k: i64[]) -> (%y, %count) {
    %r = Relu(%x) : ?
    %i = NonZero(%r) : ?
    %axis = Constant() {value = tensor i64[1] [0]} : ?
    %j = Squeeze(%i, %axis) : ?
    %v = Gather(%r, %j) : ?
    %y = Exp(%v) : ?
    %count = Loop(%k, _, %y) {
      num_captures = 0,
      body = graph (%i: i64[], %go: bool[], %s: f32?) -> (%go, %t) {
        %t = Mul(%s, %s) : ?
      }
    } : ?
  })");
  Session session(CompileFor(g, "cpu"));
  const auto x = Tensor::FromDoubles(DType::kF32, {4}, {1, -1, 2, 3});
  const Profiled p = ProfileOnce(&session, {x, Tensor::Scalar(DType::kI64, 5)});
  CHECK(p.CountKind("region") == 2);
  CHECK(p.TimesIn("region 1") == 1);
  CHECK(p.TimesIn("region 2") == 1);
  CHECK(p.SumUs() <= p.whole_us);
  const auto nonzero =
      std::find_if(p.steps.begin(), p.steps.end(), [](const StepTime& s) { return s.name == "i"; });
  REQUIRE(nonzero != p.steps.end());
  CHECK(nonzero->kind == "library");
  CHECK(nonzero->bytes == 4 * 4 + 3 * 8);
  int64_t in_loop = 0;
  for (const StepTime& t : p.steps)
    if (t.in.find("count/body") != std::string::npos) in_loop = t.times;
  CHECK(in_loop == 5);
}

TEST_CASE("profiles of several runs: steps are found again, whichever branch ran") {
  int run = 0;
  const auto rows = ProfileSteps(
      [&]() -> std::vector<StepTime> {
        const auto step = [](const char* name, double us, const char* in) {
          StepTime t;
          t.name = name, t.kind = "kernel", t.duration = us, t.in = in;
          return t;
        };
        const bool first = run++ % 2 == 0;
        return {step("a", 1, ""),
                first ? step("b", 2, "c/then_branch") : step("b", 3, "c/else_branch"),
                step("d", 4, ""), step("d", 5, "")};
      },
      Machine());
  REQUIRE(rows.size() == 5);
  CHECK(rows[1].in == "c/then_branch");
  CHECK(rows[1].duration == 2);
  CHECK(rows[2].name == "d");
  CHECK(rows[2].duration == 4);
  CHECK(rows[3].duration == 5);
  CHECK(rows[4].in == "c/else_branch");
  CHECK(rows[4].duration == 3);
  CHECK(rows[4].step == 5);
}

}  // namespace weft::e2e
