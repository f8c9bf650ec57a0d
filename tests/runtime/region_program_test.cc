/// region_program_test.cc: programs whose extents depend on values, on the backend that compiles.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "tests/support/e2e_util.h"
#include "tests/support/temp_folder.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/file.h"

namespace weft::e2e {
namespace {

TensorPtr Ints(std::vector<int64_t> dims, const std::vector<double>& v) {
  return Tensor::FromDoubles(DType::kI64, std::move(dims), v);
}
TensorPtr Floats(std::vector<int64_t> dims, const std::vector<double>& v) {
  return Tensor::FromDoubles(DType::kF32, std::move(dims), v);
}

/// Results on cpu against those of the interpreter.
void CheckSame(const Graph& g, Session* session, const std::vector<TensorPtr>& inputs) {
  const auto want = GetEvaluator()->Eval(g, inputs);
  CHECK(Difference(session->Run(inputs), want) <= 1);
}

}  // namespace

TEST_CASE("a shape that is an input: one program for many values") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph @m<n>(%x: f32[n, 4], %s: i64[2]) -> (%z) {\n"
      "  %a = Add(%x, %x) : ?\n  %y = Reshape(%a, %s) : ?\n  %z = Softmax(%y) {axis = -1} : "
      "?\n}\n");
  const auto program = CompileFor(g, "cpu");
  Session session(program);
  const TensorPtr x = Floats({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  for (const auto& s :
       {Ints({2}, {2, 6}), Ints({2}, {-1, 3}), Ints({2}, {2, 6}), Ints({2}, {12, 1})})
    CheckSame(g, &session, {x, s});
  CheckSame(g, &session, {Floats({1, 4}, {4, 3, 2, 1}), Ints({2}, {2, 2})});
  const auto wrong = Catch([&] { session.Run({x, Ints({2}, {5, 5})}); });
  REQUIRE(wrong.has_value());
  CHECK(wrong->code == ErrorCode::kShapeMismatch);
  CheckSame(g, &session, {x, Ints({2}, {4, 3})});  // the session goes on
}

TEST_CASE("extents that only the run tells, with compiled parts around them") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph @m(%x: f32[2, 3], %k: i64[1]) -> (%sum, %top) {\n"
      "  %a = Relu(%x) : ?\n  %i = NonZero(%a) : ?\n  %t = Transpose(%i) : ?\n"
      "  %v = GatherND(%a, %t) : ?\n  %d = Mul(%v, %v) : ?\n"
      "  %sum = ReduceSum(%d) {keepdims = 0} : ?\n  %top, %at = TopK(%v, %k) : ?, ?\n}\n");
  Session session(CompileFor(g, "cpu"));
  CheckSame(g, &session, {Floats({2, 3}, {1, -1, 2, 0, 3, -4}), Ints({1}, {2})});
  CheckSame(g, &session, {Floats({2, 3}, {-1, -1, 2, 0, 3, 4}), Ints({1}, {3})});
  CheckSame(g, &session, {Floats({2, 3}, {-1, -1, -2, 0, -3, -4}), Ints({1}, {0})});
}

TEST_CASE("arithmetic on sizes that data decide, fractions included") {
  if (!HasCpu()) return;
  // The first three tenths of what was found, in the order of their places.
  const Graph g = FromText(
      "graph @m<n>(%x: f32[n, 3]) -> (%y, %count) {\n"
      "  %i = NonZero(%x) : ?\n  %s = Shape(%i) {start = 1} : ?\n"
      "  %f = Cast(%s) {to = f32} : ?\n"
      "  %part = Constant() {value = tensor f32[1] [0.3]} : ?\n  %m = Mul(%f, %part) : ?\n"
      "  %floor = Floor(%m) : ?\n  %count = Cast(%floor) {to = i64} : ?\n"
      "  %from = Constant() {value = tensor i64[1] [0]} : ?\n"
      "  %axis = Constant() {value = tensor i64[1] [1]} : ?\n"
      "  %h = Slice(%i, %from, %count, %axis) : ?\n  %y = Neg(%h) : ?\n}\n");
  const auto program = CompileFor(g, "cpu");
  Session session(program);
  for (const int64_t n : {2, 4, 7, 4}) {
    const TensorPtr x = Floats({n, 3}, std::vector<double>(size_t(3 * n), 1));
    CheckSame(g, &session, {x});
    CHECK(session.Run({x})[1]->at_int(0) == 9 * n / 10);
    CHECK(program->stats().kernels == 2);  // the count, and the slice, negated
  }
}

TEST_CASE("a value that decides is remembered by its content, not by where it lay") {
  if (!HasCpu()) return;
  // Memory of the caller: reused, then gone. Few elements may become literals of a kernel, many are
  // read where they lie.
  const Graph nonzero = FromText(
      "graph (%a: i64[n], %b: i64[n]) -> (%i, %s) {\n  %i = NonZero(%a) : ?\n"
      "  %s = Add(%a, %b) : ?\n}\n");
  const Graph top = FromText(
      "graph (%a: i64[1], %b: i64[n]) -> (%v, %m) {\n  %v, %i = TopK(%b, %a) : ?, ?\n"
      "  %m = Mul(%v, %a) : ?\n}\n");
  const auto view = [](std::vector<int64_t>* memory, std::shared_ptr<void> owner = nullptr) {
    return std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{int64_t(memory->size())},
                                    memory->data(), std::move(owner));
  };
  for (const size_t count : {4, 300}) {
    CAPTURE(count);
    std::vector<int64_t> other;
    for (size_t i = 0; i < count; ++i) other.push_back(int64_t(10 * i));
    for (const bool is_top : {false, true}) {
      CAPTURE(is_top);
      const Graph& g = is_top ? top : nonzero;
      Session session(CompileFor(g, "cpu"));
      std::vector<int64_t> first(is_top ? 1 : count, 2);
      if (!is_top) first[1] = 0;
      std::vector<int64_t> memory = first;
      CheckSame(g, &session, {view(&memory), view(&other)});
      for (int64_t& v : memory) v = is_top ? 3 : 7 - v;
      CheckSame(g, &session, {view(&memory), view(&other)});
      std::vector<int64_t> elsewhere = first;
      CheckSame(g, &session, {view(&elsewhere), view(&other)});
      // Nothing holds the caller's tensor when the run is over.
      const auto owner = std::make_shared<int>(0);
      for (const int64_t v : {1, 3}) {
        std::fill(elsewhere.begin(), elsewhere.end(), v);
        session.Run({view(&elsewhere, owner), view(&other)});
        CHECK(owner.use_count() == 1);
      }
    }
  }
}

TEST_CASE("more values than a program remembers bindings for") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph @m(%x: f32[1], %s: i64[1]) -> (%y) {\n"
      "  %e = Expand(%x, %s) : ?\n  %y = Add(%e, %e) : ?\n}\n");
  Session session(CompileFor(g, "cpu"));
  const TensorPtr x = Floats({1}, {3});
  for (int i = 0; i < 150; ++i) CheckSame(g, &session, {x, Ints({1}, {1.0 + i % 75})});
  CHECK(session.bytes_moved() > 0);
}

TEST_CASE("a program of regions tells its steps before it runs, and they stay") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph @m(%x: f32[2, 3], %k: i64[1]) -> (%y, %top) {\n"
      "  %a = Relu(%x) : ?\n  %i = NonZero(%a) : ?\n  %t = Transpose(%i) : ?\n"
      "  %v = GatherND(%a, %t) : ?\n  %y = Exp(%v) : ?\n  %top, %at = TopK(%v, %k) : ?, ?\n}\n");
  const auto program = CompileFor(g, "cpu");
  Session session(program);
  const int kernels = program->stats().kernels;
  CHECK(kernels >= 2);
  CHECK(program->stats().library_calls >= 1);  // NonZero
  const CompileCounts before = CountCompiled();
  for (double k : {2, 1, 3}) {
    session.Run({Floats({2, 3}, {1, -1, 2, 0, 3, -4}), Ints({1}, {k})});
    CHECK(program->stats().kernels == kernels);
  }
  CHECK(program->stats().launches == 0);  // there is no device
  CHECK(CountCompiled().programs == before.programs);
  CHECK(CountCompiled().kernels == before.kernels);
}

TEST_CASE("a run of regions compiles nothing that the call that compiled could hear of") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph @m(%x: f32[6], %s: i64[2]) -> (%z) {\n"
      "  %y = Reshape(%x, %s) : ?\n  %z = Softmax(%y) {axis = -1} : ?\n}\n");
  int heard = 0;
  CompileOptions options;
  options.passes.on_pass = [&](const PassRecord&) { ++heard; };
  options.passes.print = [&](const std::string&) { ++heard; };
  options.passes.print_after = ".";
  const auto program = Compile(g, options);
  CHECK(heard > 0);
  heard = 0;
  Session session(program);
  CheckSame(g, &session, {Floats({6}, {1, 2, 3, 4, 5, 6}), Ints({2}, {2, 3})});
  CHECK(heard == 0);
}

TEST_CASE("regions are saved, with those of bodies, and loaded without a compiler") {
  if (!HasCpu()) return;
  const TempFolder folder;
  const Graph g = FromText(R"(graph (%x: f32[a], %n: i64[]) -> (%count, %y) {
    %r = Relu(%x) : ?
    %i = NonZero(%r) : ?
    %j = Squeeze(%i) : ?
    %y = Gather(%r, %j) : ?
    %zero = Constant() {value = tensor f32[1] [0]} : ?
    %count = Loop(%n, _, %zero, %y) {
      num_captures = 1,
      body = graph (%k: i64[], %c: bool[], %s: f32[1], %v: f32?) -> (%c, %t) {
        %e = Exp(%v) : ?
        %floor = Cast(%e) {to = i64} : ?
        %found = NonZero(%floor) : ?
        %sum = ReduceSum(%found) {keepdims = 0} : ?
        %f = Cast(%sum) {to = f32} : ?
        %t = Add(%s, %f) : ?
      }
    } : ?
  })");
  const auto program = CompileFor(g, "cpu");
  SaveProgram(*program, folder / "regions.weftx");
  const int64_t kernels = CountCompiled().kernels;
  const auto loaded = LoadProgram(folder / "regions.weftx");
  CHECK(CountCompiled().kernels == kernels);
  CHECK(loaded->stats().kernels == program->stats().kernels);
  CHECK(loaded->stats().interpreted == program->stats().interpreted);
  CHECK(loaded->stats().kernels > 1);
  Session session(loaded);
  for (const auto& x : {Floats({4}, {1, -1, -2, 3}), Floats({2}, {0, 1}), Floats({1}, {-1})})
    for (double n : {3, 0, 1}) CheckSame(g, &session, {x, Tensor::Scalar(DType::kI64, n)});
  SaveProgram(*loaded, folder / "again.weftx");
  CHECK(ReadFile(folder / "regions.weftx") == ReadFile(folder / "again.weftx"));
}

TEST_CASE("a sequence that a Loop appends to is a tensor") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%n: i64[], %x: f32[2, 3], %p: i64[]) -> (%a, %b, %c, %d, %k) {
    %e = SequenceEmpty() {dtype = f32} : ?
    %s, %f = Loop(%n, _, %e, %x) {
      num_captures = 0,
      body = graph (%i: i64[], %go: bool[], %l: seq(f32), %h: f32[2, 3]) -> (%go, %m, %w) {
        %w = Sin(%h) : ?
        %m = SequenceInsert(%l, %w) : ?
      }
    } : ?, ?
    %j = ConcatFromSequence(%s) {axis = 0} : ?
    %a = Exp(%j) : ?
    %b = ConcatFromSequence(%s) {axis = -1} : ?
    %c = ConcatFromSequence(%s) {axis = 1, new_axis = 1} : ?
    %d = SequenceAt(%s, %p) : ?
    %k = SequenceLength(%s) : ?
  })");
  const auto program = CompileFor(g, "cpu");
  CHECK(program->stats().interpreted == 0);
  Session session(program);
  const TensorPtr x = Floats({2, 3}, {1, -2, 3, -4, 5, 6});
  for (const double n : {1, 2, 7})
    for (const double p : {0.0, -1.0, -n, n - 1})
      CheckSame(g, &session, {Tensor::Scalar(DType::kI64, n), x, Tensor::Scalar(DType::kI64, p)});
  const auto outside = Catch([&] {
    session.Run({Tensor::Scalar(DType::kI64, 3), x, Tensor::Scalar(DType::kI64, 3)});
  });
  REQUIRE(outside.has_value());
  CHECK(outside->code == ErrorCode::kIndexRange);
}

TEST_CASE("a sequence whose making is seen leaves no trace between compiled parts") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%x: f32[4, n], %y: f32[4, n]) -> (%z, %w) {
    %a = Relu(%x) : ?
    %s = SequenceConstruct(%a, %y) : ?
    %b = Exp(%y) : ?
    %t = SequenceInsert(%s, %b) : ?
    %i = Constant() {value = tensor i64[] [-2]} : ?
    %c = SequenceAt(%t, %i) : ?
    %d = ConcatFromSequence(%t) {axis = 0, new_axis = 1} : ?
    %z = Softmax(%d) {axis = -1} : ?
    %p = SplitToSequence(%c) {axis = 0, keepdims = 0} : ?
    %q = SequenceAt(%p, %i) : ?
    %w = Neg(%q) : ?
  })");
  const auto program = CompileFor(g, "cpu");
  CHECK(program->stats().interpreted == 0);
  Session session(program);
  for (const int64_t n : {1, 5}) {
    const Reference r = RunReference(g, uint64_t(n), {{"n", n}});
    CHECK(Difference(session.Run(r.inputs), r.outputs) <= 1);
  }
}

TEST_CASE("strings pass a program that computes") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph @m(%s: str[2], %x: f32[2]) -> (%t, %y) {\n"
      "  %t = StringConcat(%s, %s) : ?\n  %y = Exp(%x) : ?\n}\n");
  auto s = std::make_shared<Tensor>(DType::kString, std::vector<int64_t>{2});
  s->mutable_strings() = {"a", "b"};
  Session session(CompileFor(g, "cpu"));
  const auto out = session.Run({s, Floats({2}, {0, 1})});
  CHECK(out[0]->strings() == std::vector<std::string>{"aa", "bb"});
  CHECK(out[1]->at(0) == doctest::Approx(1));
}

TEST_CASE("products of doubles are compiled once for all sizes") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph (%a: f64[m, k], %b: f64[k, n]) -> (%y) {\n  %p = MatMul(%a, %b) : ?\n"
      "  %y = Tanh(%p) : ?\n}\n");
  Session session(CompileFor(g, "cpu"));
  const int64_t kernels = CountCompiled().kernels;
  const auto matrix = [](int64_t rows, int64_t columns) {
    std::vector<double> v;
    for (int64_t i = 0; i < rows * columns; ++i) v.push_back(double(i % 7 - 3) / 8);
    return Tensor::FromDoubles(DType::kF64, {rows, columns}, v);
  };
  for (const auto& [m, k, n] : {std::array{3, 4, 5}, {1, 1, 1}, {0, 2, 3}, {2, 0, 3}, {7, 2, 1}})
    CheckSame(g, &session, {matrix(m, k), matrix(k, n)});
  CHECK(CountCompiled().kernels == kernels);
}

TEST_CASE("pools of doubles are compiled once for all sizes") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph (%x: f64[n, 2, h, w]) -> (%y, %a) {\n  %r = Relu(%x) : ?\n"
      "  %p, %i = MaxPool(%r) {kernel_shape = [2, 2], strides = [2, 2]} : ?, ?\n"
      "  %y = Tanh(%p) : ?\n"
      "  %a = AveragePool(%r) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]} : ?\n}\n");
  Session session(CompileFor(g, "cpu"));
  const int64_t kernels = CountCompiled().kernels;
  for (const auto& [n, h, w] : {std::array{1, 5, 6}, {2, 4, 4}, {0, 4, 4}, {1, 9, 7}}) {
    auto x = std::make_shared<Tensor>(DType::kF64, std::vector<int64_t>{n, 2, h, w});
    for (int64_t i = 0; i < x->num_elements(); ++i) x->set(i, double(i * 5 % 11 - 5) / 8);
    CheckSame(g, &session, {x});
  }
  CHECK(CountCompiled().kernels == kernels);
}

TEST_CASE("what is stacked in no iteration has the sizes of one") {
  // How many columns there are, the body reads of a tensor.
  const Graph g = FromText(
      "graph (%t: i64[], %x: f32[4], %s: i64[2]) -> (%y) {\n"
      "  %y = Loop(%t, _, %x, %s) {num_captures = 2, body = graph (%i: i64[], %c: bool[], %v: "
      "f32[4], %d: "
      "i64[2]) -> (%c, %r) {\n    %r = Reshape(%v, %d) : ?\n  }} : ?\n}\n");
  const TensorPtr x = Floats({4}, {1, 2, 3, 4}), s = Ints({2}, {-1, 2});
  for (double trips : {0, 2}) {
    const std::vector<int64_t> want{int64_t(trips), 2, 2};
    CHECK(GetEvaluator()->Eval(g, {Tensor::Scalar(DType::kI64, trips), x, s})[0]->dims() == want);
    if (!HasCpu()) continue;
    Session session(CompileFor(g, "cpu"));
    CHECK(session.Run({Tensor::Scalar(DType::kI64, trips), x, s})[0]->dims() == want);
  }
}

TEST_CASE("a size that gets a name in a body gets no other input's, though nothing reads that") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph (%x: f32[n], %y: f32[m], %c: bool[]) -> (%r) {\n"
      "  %b = NonZero(%x) : ?\n  %a = NonZero(%y) : ?\n  %bb = Concat(%b, %b) {axis = 1} : ?\n"
      "  %r = If(%c, %bb, %a) {num_captures = 2,\n"
      "    then_branch = graph (%p: i64[1, ?], %q: i64[1, ?]) -> (%v) {\n"
      "      %v = Neg(%p) : ?\n    },\n"
      "    else_branch = graph (%p: i64[1, ?], %q: i64[1, ?]) -> (%v) {\n"
      "      %v = Neg(%q) : ?\n    }} : ?\n}\n");
  Session session(CompileFor(g, "cpu"));
  for (const double c : {1.0, 0.0})
    CheckSame(g, &session,
              {Floats({3}, {1, 0, 2}), Floats({5}, {1, 1, 1, 1, 0}),
               Tensor::FromDoubles(DType::kBool, {}, {c})});
}

TEST_CASE("a size that operands tell keeps its name, though one that data decide equals it") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      "graph (%x: f32[3, t, n], %y: f32[m], %c: bool[]) -> (%r) {\n"
      "  %b = NonZero(%y) : ?\n  %f = Cast(%b) {to = f32} : ?\n"
      "  %g = Concat(%f, %f) {axis = 1} : ?\n"
      "  %r = If(%c, %x, %g) {num_captures = 2,\n"
      "    then_branch = graph (%x: f32[3, t, n], %g: f32[1, ?]) -> (%v) {\n"
      "      %p = MatMul(%g, %x) : ?\n      %s = Shape(%x) : ?\n"
      "      %o = Constant() {value = tensor f32[] [1]} : f32[]\n"
      "      %e = Expand(%o, %s) : ?\n      %v = Concat(%p, %e) {axis = 1} : ?\n    },\n"
      "    else_branch = graph (%x: f32[3, t, n], %g: f32[1, ?]) -> (%v) {\n"
      "      %v = Neg(%g) : ?\n    }} : ?\n}\n");
  Session session(CompileFor(g, "cpu"));
  const TensorPtr x = Floats({3, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  for (const double c : {1.0, 0.0})
    CheckSame(g, &session, {x, Floats({3}, {1, 0, 2}), Tensor::FromDoubles(DType::kBool, {}, {c})});
}

TEST_CASE("a run that fails leaves the caller his tensors, and the session good") {
  if (!HasCpu()) return;
  // What fails: a step of a region behind outputs of its own and of the one in front of it.
  const char* const graphs[] = {
      // an index that is outside, in a region
      "graph (%x: f32[n], %at: i64[2], %s: i64[2]) -> (%a, %found, %got, %e) {\n"
      "  %a = Exp(%x) : ?\n  %r = Relu(%x) : ?\n  %found = NonZero(%r) : ?\n"
      "  %t = Transpose(%found) : ?\n  %v = GatherND(%r, %t) : ?\n  %e = Exp(%v) : ?\n"
      "  %got = Gather(%a, %at) {axis = 0} : ?\n}\n",
      // a size that does not fit, in front of a region and in it
      "graph (%x: f32[n], %at: i64[2], %s: i64[2]) -> (%a, %found, %y, %e) {\n"
      "  %a = Exp(%x) : ?\n  %r = Relu(%x) : ?\n  %found = NonZero(%r) : ?\n"
      "  %y = Reshape(%a, %s) : ?\n  %e = Exp(%y) : ?\n}\n",
      // a body, between regions and in one
      "graph (%x: f32[n], %at: i64[2], %s: i64[2]) -> (%a, %found, %last, %e) {\n"
      "  %a = Exp(%x) : ?\n  %r = Relu(%x) : ?\n  %found = NonZero(%r) : ?\n"
      "  %e = Exp(%r) : ?\n"
      "  %n = Size(%found) : ?\n  %last = Loop(%n, _, %a, %at) {num_captures = 1,\n"
      "    body = graph (%i: i64[], %c: bool[], %h: f32[n], %w: i64[2]) -> (%k, %o) {\n"
      "      %k = Identity(%c) : ?\n      %g = Gather(%h, %w) {axis = 0} : ?\n"
      "      %q = ReduceSum(%g) {keepdims = 0} : ?\n      %o = Add(%h, %q) : ?\n    }} : ?\n}\n",
  };
  const TensorPtr x = Floats({6}, {1, -1, 2, 0, 3, -4}), more = Floats({6}, {1, 1, 2, 5, 3, 4});
  const TensorPtr other = Floats({3}, {1, 2, 3});
  const TensorPtr at = Ints({2}, {1, 2}), outside = Ints({2}, {1, 60});
  const TensorPtr s = Ints({2}, {2, 3}), s3 = Ints({2}, {1, 3}), wrong = Ints({2}, {4, 4});
  for (const char* text : graphs) {
    INFO(std::string(text));
    const Graph g = FromText(text);
    Session session(CompileFor(g, "cpu"));
    std::vector<std::shared_ptr<Tensor>> out;
    const auto check = [&](const std::vector<TensorPtr>& in) {
      session.RunInto(in, &out);
      CHECK(Difference({out.begin(), out.end()}, GetEvaluator()->Eval(g, in)) <= 1);
    };
    check({x, at, s});
    for (const auto& bad : {std::vector<TensorPtr>{x, outside, wrong},
                            {more, outside, wrong},      // with more to find
                            {other, outside, wrong}}) {  // of other sizes
      const auto before = out;
      const auto why = Catch([&] { session.RunInto(bad, &out); });
      CAPTURE(bad[0]->num_elements());
      REQUIRE(why.has_value());
      CHECK(out == before);
      for (const auto& t : out) CHECK(t != nullptr);
      check({x, at, s});
      // Those that somebody else has are not written.
      for (size_t k = 0; k < out.size(); ++k) CHECK(out[k] != before[k]);
      check({other, at, s3});
      check({more, at, s});
    }
    // Without anybody else, the same tensors come back from good and from bad runs.
    check({x, at, s});
    std::vector<const Tensor*> places;
    for (const auto& t : out) places.push_back(t.get());
    for (int k = 0; k < 3; ++k) {
      REQUIRE(Catch([&] { session.RunInto({x, outside, wrong}, &out); }).has_value());
      for (size_t i = 0; i < out.size(); ++i) CHECK(out[i].get() == places[i]);
      check({x, at, s});
      for (size_t i = 0; i < out.size(); ++i) CHECK(out[i].get() == places[i]);
    }
    // Cancelled before it ends.
    CancelToken token;
    session.set_cancel(token);
    token.Cancel();
    REQUIRE(Catch([&] { session.RunInto({x, at, s}, &out); }).has_value());
    for (size_t i = 0; i < out.size(); ++i) CHECK(out[i].get() == places[i]);
    session.set_cancel({});
    check({x, at, s});
  }
}

}  // namespace weft::e2e
