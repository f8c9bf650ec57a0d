/// found_sizes_test.cc: memory of programs whose data decide sizes: laid out for the most that they
/// can be, where that is known and not too much, so that a run that finds more takes no more than
/// one that finds less.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/e2e_util.h"
#include "weft/runtime/program/predict_arena.h"

namespace weft::e2e {
namespace {

using Inputs = std::vector<TensorPtr>;

/// The first `ones` elements are 1 to 7 in turn, the others 0.
TensorPtr Some(std::vector<int64_t> dims, int64_t ones) {
  auto t = std::make_shared<Tensor>(DType::kF32, std::move(dims));
  for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, i < ones ? double(1 + i % 7) : 0);
  return t;
}
TensorPtr Int(int64_t v) { return Tensor::FromDoubles(DType::kI64, {1}, {double(v)}); }

/// What the run takes; its results are those of the interpreter.
int64_t ArenaOf(const Graph& g, Session* session, const Inputs& inputs) {
  CHECK(Difference(session->Run(inputs), GetEvaluator()->Eval(g, inputs)) <= 1);
  return session->arena_bytes();
}

const char* const kFound =
    "graph (%x: f32[n, 4]) -> (%y) {\n  %r = Relu(%x) : ?\n  %i = NonZero(%r) : ?\n"
    "  %t = Transpose(%i) : ?\n  %v = GatherND(%r, %t) : ?\n  %e = Exp(%v) : ?\n"
    "  %s = Softmax(%e) {axis = 0} : ?\n  %y = ReduceSum(%s) {keepdims = 0} : ?\n}";

}  // namespace

TEST_CASE("a run that finds more takes no more than one that finds less") {
  if (!HasCpu()) return;
  const char* const graphs[] = {
      kFound,
      // two sizes, one at most as large as the other
      "graph (%x: f32[n, 4]) -> (%y) {\n  %z = Constant() {value = tensor f32[] [2]} : ?\n"
      "  %all = Constant() {value = tensor i64[1] [-1]} : ?\n"
      "  %m = Greater(%x, %z) : ?\n  %f = Reshape(%m, %all) : ?\n"
      "  %d = Reshape(%x, %all) : ?\n  %p = Compress(%d, %f) : ?\n  %e = Exp(%p) : ?\n"
      "  %u, %a, %b, %k = Unique(%e) : ?, ?, ?, ?\n  %l = Log(%u) : ?\n"
      "  %y = ReduceSum(%l) {keepdims = 0} : ?\n}",
      // behind a size that is computed of a found one
      "graph (%x: f32[n, 4]) -> (%y) {\n  %i = NonZero(%x) : ?\n  %n = Shape(%i) {start = 1} : ?\n"
      "  %most = Constant() {value = tensor i64[1] [50]} : ?\n  %k = Min(%n, %most) : ?\n"
      "  %t = Transpose(%i) : ?\n  %v = GatherND(%x, %t) : ?\n"
      "  %top, %at = TopK(%v, %k) : ?, ?\n  %e = Exp(%top) : ?\n"
      "  %y = ReduceSum(%e) {keepdims = 0} : ?\n}",
      // a body over what was found
      "graph (%x: f32[n, 4]) -> (%y) {\n  %i = NonZero(%x) : ?\n  %t = Transpose(%i) : ?\n"
      "  %v = GatherND(%x, %t) : ?\n  %s = ReduceSum(%v) {keepdims = 0} : ?\n"
      "  %z = Constant() {value = tensor f32[] [-1]} : ?\n  %c = Greater(%s, %z) : ?\n"
      "  %w = If(%c, %v) {num_captures = 1,\n"
      "    then_branch = graph (%h: f32[m]) -> (%o) {\n"
      "      %zero = Constant() {value = tensor i64[] [0]} : ?\n"
      "      %a = Exp(%h) : ?\n      %b = Softmax(%a) {axis = 0} : ?\n"
      "      %d = CumSum(%b, %zero) : ?\n      %o = Add(%d, %a) : ?\n    },\n"
      "    else_branch = graph (%h: f32[m]) -> (%o) {\n      %o = Neg(%h) : ?\n    }} : ?\n"
      "  %y = ReduceSum(%w) {keepdims = 0} : ?\n}",
  };
  for (const char* text : graphs) {
    INFO(std::string(text));
    const Graph g = FromText(text);
    Session session(CompileFor(g, "cpu"));
    const int64_t n = 100;
    const int64_t first = ArenaOf(g, &session, {Some({n, 4}, 3)});
    CHECK(first > 0);
    for (const int64_t ones : {0, 1, 40, 200, 400, 399, 7})
      CHECK(ArenaOf(g, &session, {Some({n, 4}, ones)}) == first);
    // Another session begins with more.
    Session other(CompileFor(g, "cpu"));
    CHECK(ArenaOf(g, &other, {Some({n, 4}, 400)}) == first);
    // It is what was told in front of the first run.
    const PredictedArena said = PredictArena(g, {}, {{"n", n}});
    CHECK(said.at_most);
    CHECK(first <= said.bytes);
    // For fewer elements it is less.
    CHECK(ArenaOf(g, &session, {Some({10, 4}, 3)}) < first);
    CHECK(ArenaOf(g, &session, {Some({n, 4}, 5)}) == first);
  }
  const PredictedArena said = PredictArena(FromText(kFound), {}, {{"n", 100}});
  Session session(CompileFor(FromText(kFound), "cpu"));
  CHECK(ArenaOf(FromText(kFound), &session, {Some({100, 4}, 9)}) == said.bytes);
}

TEST_CASE("boxes that are kept: bounded by all of them, as many as asked for") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph (%b: f32[1, n, 4], %s: f32[1, 2, n], %least: f32[1]) -> (%y) {\n"
      "  %most = Constant() {value = tensor i64[] [5]} : ?\n"
      "  %iou = Constant() {value = tensor f32[] [0.5]} : ?\n"
      "  %k = NonMaxSuppression(%b, %s, %most, %iou, %least) : ?\n"
      "  %f = Cast(%k) {to = f32} : ?\n  %e = Exp(%f) : ?\n"
      "  %y = ReduceSum(%e) {keepdims = 0} : ?\n}");
  Session session(CompileFor(g, "cpu"));
  const int64_t n = 9;
  auto boxes = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{1, n, 4});
  auto scores = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{1, 2, n});
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < 4; ++k) boxes->set(i * 4 + k, double(2 * i + (k > 1)));
  for (int64_t i = 0; i < 2 * n; ++i) scores->set(i, double(i) / 18);
  int64_t first = -1;
  for (const double least : {0.95, 0.8, 0.3, 0.99, 0.0}) {
    const auto bound = Tensor::FromDoubles(DType::kF32, {1}, {least});
    const int64_t now = ArenaOf(g, &session, {boxes, scores, bound});
    if (first < 0) first = now;
    CHECK(now == first);
  }
}

TEST_CASE("a bound that is far more than what is fed is not reserved") {
  if (!HasCpu()) return;
  // Rows of 2048 numbers for each pair of elements that is not 0: at most n * n of them.
  const Graph g = FromText(
      "graph (%x: f32[n, 1], %r: f32[n, 2048]) -> (%y) {\n  %t = Transpose(%x) : ?\n"
      "  %p = Mul(%x, %t) : ?\n  %i = NonZero(%p) : ?\n"
      "  %one = Constant() {value = tensor i64[] [1]} : ?\n"
      "  %at = Gather(%i, %one) {axis = 0} : ?\n  %f = Gather(%r, %at) {axis = 0} : ?\n"
      "  %e = Exp(%f) : ?\n  %s = Softmax(%e) {axis = 0} : ?\n"
      "  %y = ReduceSum(%s) {keepdims = 0} : ?\n}");
  Session session(CompileFor(g, "cpu"));
  const int64_t n = 1000;
  const auto rows = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{n, 2048});
  const int64_t few = ArenaOf(g, &session, {Some({n, 1}, 2), rows});
  CHECK(PredictArena(g, {}, {{"n", n}}).bytes > int64_t{4} << 30);
  CHECK(few < 256 << 20);
  const int64_t more = ArenaOf(g, &session, {Some({n, 1}, 40), rows});
  CHECK(more > few);
  CHECK(ArenaOf(g, &session, {Some({n, 1}, 2), rows}) == few);
}

TEST_CASE("what values of operands tell is there when memory is laid out") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph (%x: f32[n], %k: i64[1]) -> (%y) {\n  %top, %at = TopK(%x, %k) : ?, ?\n"
      "  %zero = Constant() {value = tensor i64[] [0]} : ?\n"
      "  %e = Exp(%top) : ?\n  %s = Softmax(%e) {axis = 0} : ?\n"
      "  %c = CumSum(%s, %zero) : ?\n"
      "  %y = ReduceSum(%c) {keepdims = 0} : ?\n}");
  Session session(CompileFor(g, "cpu"));
  const TensorPtr x = Some({10000}, 10000);
  const int64_t small = ArenaOf(g, &session, {x, Int(10)});
  CHECK(session.memory().tensor_bytes < 10000);
  CHECK(ArenaOf(g, &session, {x, Int(5000)}) > small);
  CHECK(ArenaOf(g, &session, {x, Int(10)}) == small);
}

}  // namespace weft::e2e
