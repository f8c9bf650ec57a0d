/// runtime_test.cc: bindings, unknown shapes, profiles, aliases: what a program must refuse, and
/// what it must not spoil.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tests/support/code_of.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/profile.h"
#include "weft/runtime/program/program.h"
#include "weft/support/error.h"

namespace {

using namespace weft;

TensorPtr Floats1(std::vector<double> v) {
  return Tensor::FromDoubles(DType::kF32, {int64_t(v.size())}, v);
}
std::vector<double> Values(const Tensor& t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.num_elements(); ++i) v.push_back(t.at(i));
  return v;
}
Session SessionOf(const char* text, const char* backend = "cpu") {
  CompileOptions options;
  options.backend = backend;
  return Session(Compile(ParseGraph(text), options));
}

TEST_CASE("extents that are no bare symbol are checked on every run, not only on the first") {
  Session s = SessionOf(
      "weft 1\ngraph (%x: f32[n], %y: f32[2*n]) -> (%z) { %z = Concat(%x, %y) {axis = 0} : ? }");
  CHECK(s.Run({Floats1({1, 2}), Floats1({3, 4, 5, 6})})[0]->num_elements() == 6);
  CHECK(CodeOf([&] { s.Run({Floats1({1, 2}), Floats1({7})}); }) == ErrorCode::kBadInput);
  CHECK(Values(*s.Run({Floats1({1}), Floats1({2, 3})})[0]) == std::vector<double>{1, 2, 3});
}

TEST_CASE("facts that compilation relied on are checked for every binding") {
  Graph g = ParseGraph(
      "weft 1\ngraph (%x: f32[n]) -> (%y) {\n"
      "  %a = Constant() {value = tensor i64[1] [0]} : i64[1]\n"
      "  %b = Constant() {value = tensor i64[1] [4]} : i64[1]\n"
      "  %y = Slice(%x, %a, %b) : ?\n}");
  Facts facts;
  facts.SetRange(SymInt::Symbol("n"), {1, 4});
  g.SetAttr("facts", facts);
  Session s(Compile(g));
  CHECK(s.Run({Floats1({1, 2, 3})})[0]->num_elements() == 3);
  CHECK(CodeOf([&] { s.Run({Floats1({1, 2, 3, 4, 5, 6})}); }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("a program accepts the bindings that its model accepts, whatever was simplified away") {
  // Only the extents of the product are asked for, and no kernel computes it; still a and b must
  // agree, as they must where every node runs.
  const char* asked =
      "weft 1\ngraph (%x: f32[2, a], %y: f32[b, 3]) -> (%s) {\n"
      "  %p = MatMul(%x, %y) : ?\n  %s = Shape(%p) : ?\n}";
  // Nothing asks for the product: it would not run, so it demands nothing.
  const char* idle =
      "weft 1\ngraph (%x: f32[2, a], %y: f32[b, 3]) -> (%s) {\n"
      "  %p = MatMul(%x, %y) : ?\n  %s = Shape(%y) : ?\n}";
  auto floats = [](std::vector<int64_t> dims) {
    return std::make_shared<Tensor>(DType::kF32, std::move(dims));
  };
  for (const char* backend : {"cpu", "ref"}) {
    CAPTURE(backend);
    Session s = SessionOf(asked, backend);
    CHECK(Values(*s.Run({floats({2, 4}), floats({4, 3})})[0]) == std::vector<double>{2, 3});
    CHECK(CodeOf([&] { s.Run({floats({2, 4}), floats({5, 3})}); }) == ErrorCode::kShapeMismatch);
    Session t = SessionOf(idle, backend);
    CHECK(Values(*t.Run({floats({2, 4}), floats({5, 3})})[0]) == std::vector<double>{5, 3});
  }
}

TEST_CASE("random inputs of a program: a binding of an unknown symbol names those that there are") {
  CompileOptions options;
  options.backend = "ref";
  const auto program = Compile(
      ParseGraph("weft 1\ngraph (%x: f32[rows, 2*cols]) -> (%y) { %y = Neg(%x) : ? }"), options);
  CHECK(RandomProgramInputs(*program, 1, {{"cols", 3}})[0]->dims() == std::vector<int64_t>{1, 6});
  try {
    RandomProgramInputs(*program, 1, {{"row", 3}, {"cols", 3}});
    FAIL("an unknown symbol was taken");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kBadBinding);
    CHECK(e.message().find("'row'") != std::string::npos);
    CHECK(e.hint().find("cols, rows") != std::string::npos);
  }
}

TEST_CASE("operands of unknown shape run at the shapes that come, not as scalars") {
  const char* text = "weft 1\ngraph (%x: f32?) -> (%y) { %y = ReduceSum(%x) {keepdims = 0} : ? }";
  const TensorPtr square = Tensor::FromDoubles(DType::kF32, {2, 2}, {1, 2, 3, 4});
  for (const char* backend : {"cpu", "ref"}) {
    Session s = SessionOf(text, backend);
    CHECK(Values(*s.Run({Floats1({1, 2, 3, 4})})[0]) == std::vector<double>{10});
    CHECK(Values(*s.Run({square})[0]) == std::vector<double>{10});
  }
}

TEST_CASE("an input of unknown extent that nobody reads does not stop a run") {
  Session s = SessionOf("weft 1\ngraph (%x: f32[2], %u: f32[?]) -> (%y) { %y = Neg(%x) : ? }");
  CHECK(Values(*s.Run({Floats1({1, 2}), Floats1({9, 9, 9})})[0]) == std::vector<double>{-1, -2});
}

TEST_CASE("a profile that throws leaves nothing behind") {
  Session s = SessionOf(
      "weft 1\ngraph (%x: f32[n], %y: f32[2*n]) -> (%z) { %z = Concat(%x, %y) {axis = 0} : ? }");
  CHECK(CodeOf([&] { s.Profile({Floats1({1}), Floats1({1})}); }) == ErrorCode::kBadInput);
  CHECK(s.Run({Floats1({1}), Floats1({2, 3})})[0]->num_elements() == 3);
  CHECK(s.Profile({Floats1({1}), Floats1({2, 3})}).size() == 1);
}

TEST_CASE("a profile writes into the outputs that it is given") {
  Session s = SessionOf("weft 1\ngraph (%x: f32[2]) -> (%y) { %y = Neg(%x) : ? }");
  std::vector<std::shared_ptr<Tensor>> out;
  CHECK(s.Profile({Floats1({1, 2})}, &out).size() == 1);
  REQUIRE(out.size() == 1);
  const Tensor* kept = out[0].get();
  CHECK(Values(*kept) == std::vector<double>{-1, -2});
  s.Profile({Floats1({3, 4})}, &out);
  CHECK(out[0].get() == kept);
  CHECK(Values(*kept) == std::vector<double>{-3, -4});
}

TEST_CASE("floors: bytes go through the level that holds them, operations at the peak") {
  Machine m;
  CHECK(m.Floor(1000, 1000) == 0);  // not measured
  m.own_gbs = 100;
  m.shared_gbs = 50;
  m.memory_gbs = 10;
  m.gflops = 200;
  m.own_bytes = 1'000'000;
  m.cache_bytes = 4'000'000;
  CHECK(m.Floor(0, 400'000) == doctest::Approx(2));
  CHECK(m.Floor(1'000'000, 0) == doctest::Approx(10));
  CHECK(m.Floor(2'000'000, 0) == doctest::Approx(10 + 20));
  CHECK(m.Floor(5'000'000, 200'000) == doctest::Approx(10 + 60 + 100 + 1));
}

TEST_CASE("profiles: the median of every step, sums, and a table that begins with the slowest") {
  Machine m;
  m.own_gbs = m.shared_gbs = m.memory_gbs = m.gflops = 1;
  m.own_bytes = m.cache_bytes = 1 << 20;
  int run = 0;
  const auto rows = ProfileSteps(
      [&]() -> std::vector<StepTime> {
        const double us[] = {4, 1, 100};
        const double t = us[run++ % 3];
        StepTime quick, slow;
        quick.name = "quick", quick.kind = "kernel", quick.duration = t, quick.bytes = 1000;
        slow.name = "slow", slow.kind = "library", slow.duration = 2 * t, slow.bytes = 2000;
        slow.flops = 1000, slow.how = "how";
        return {quick, slow};
      },
      m);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].step == 1);
  CHECK(rows[0].duration == 4);
  CHECK(rows[0].floor == doctest::Approx(1));
  CHECK(rows[1].duration == 8);
  CHECK(rows[1].floor == doctest::Approx(3));
  const ProfileRow all = SumOf(rows);
  CHECK(all.duration == 12);
  CHECK(all.floor == doctest::Approx(4));
  CHECK(all.bytes == 3000);
  const std::string table = ProfileTable(rows, m, 16);
  CHECK(table.find("slow") < table.find("quick"));
  CHECK(table.find("33.3 %") != std::string::npos);  // of floor, all steps
  CHECK(table.find("25.0 %") != std::string::npos);  // of floor, a run
  CHECK(ProfileTable({}, m).find("does not report") != std::string::npos);
  CHECK(ProfileSteps([] { return std::vector<StepTime>(); }, m).empty());
}

TEST_CASE("floors of a machine without caches, which counts cycles and overlaps") {
  Machine m;
  m.unit = TimeUnit::kCycles;
  m.memory_gbs = 16;
  m.gflops = 64;
  CHECK(m.Floor(1600, 6400) == doctest::Approx(100 + 100));
  m.overlaps = true;
  CHECK(m.Floor(1600, 640) == doctest::Approx(100));
  CHECK(m.Floor(160, 6400) == doctest::Approx(100));
  CHECK(m.Floor(0, 0) == 0);
}

TEST_CASE("profiles: tracks lie side by side, in cycles") {
  const auto step = [](const char* name, const char* track, double start, double cycles) {
    StepTime s;
    s.name = name, s.kind = "machine", s.track = track, s.start = start, s.duration = cycles;
    s.unit = TimeUnit::kCycles;
    s.bytes = s.flops = 64;
    return s;
  };
  Machine m;
  m.unit = TimeUnit::kCycles;
  m.memory_gbs = m.gflops = 64;
  const auto rows = ProfileSteps(
      [&]() -> std::vector<StepTime> {
        return {step("a", "DMA", 0, 10), step("a", "MAT", 10, 30), step("b", "DMA", -1, 20),
                step("b", "MAT", 45, 5)};
      },
      m);
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].floor == 2);
  const auto placed = PlaceRows(rows);
  CHECK(placed[2].start == 10);  // behind what its track did before
  CHECK(placed[2].end == 30);
  CHECK(placed[3].end == 50);
  const auto tracks = TracksOf(rows);
  REQUIRE(tracks.size() == 2);
  CHECK(tracks[0].name == "DMA");
  CHECK(tracks[0].steps == 2);
  CHECK(tracks[0].busy == 30);
  CHECK(tracks[0].share == doctest::Approx(0.6));
  CHECK(tracks[1].share == doctest::Approx(0.7));
  const ProfileRow all = SumOf(rows);
  CHECK(all.duration == 50);
  CHECK(all.floor == 4);
  CHECK(all.unit == TimeUnit::kCycles);
  const std::string table = ProfileTable(rows, m);
  CHECK(table.find("cycles") != std::string::npos);
  CHECK(table.find("70.0 %") != std::string::npos);
  CHECK(table.find("64 bytes and 64 operations a cycle") != std::string::npos);
  // Figures in nanoseconds say nothing about cycles.
  Machine other = m;
  other.unit = TimeUnit::kMicroseconds;
  CHECK(ProfileSteps([&]() -> std::vector<StepTime> { return {step("a", "", 0, 1)}; }, other)[0]
            .floor == 0);
  CHECK(TracksOf(ProfileSteps([&]() -> std::vector<StepTime> { return {step("a", "", 0, 1)}; }, m))
            .empty());
}

TEST_CASE("a machine is measured once, of other backends nothing is known") {
  CHECK(!MachineOf("ref").measured());
  const Machine m = MachineOf("cpu", 1);
  CHECK(m.measured());
  CHECK(m.threads == 1);
  CHECK(m.own_gbs > 0);
  CHECK(m.shared_gbs > 0);
  CHECK(m.memory_gbs > 0);
  CHECK(m.own_bytes <= m.cache_bytes);
  CHECK(MachineOf("cpu", 1).gflops == m.gflops);
}

TEST_CASE("results that are parameters or inputs are the caller's own copies") {
  for (const char* backend : {"cpu", "ref"}) {
    CAPTURE(backend);
    Session s = SessionOf(
        "weft 1\ngraph (%x: f32[2], %w: f32[2] param = [1.0, 2.0]) -> (%w, %x, %s) { %s = Add(%x, "
        "%w) : ? }",
        backend);
    std::vector<std::shared_ptr<Tensor>> out;
    const TensorPtr x = Floats1({10, 20});
    s.RunInto({x}, &out);
    std::memset(out[0]->mutable_data(), 0, 8);
    std::memset(out[1]->mutable_data(), 0, 8);
    CHECK(Values(*x) == std::vector<double>{10, 20});
    CHECK(Values(*s.Run({x})[2]) == std::vector<double>{11, 22});
  }
}

TEST_CASE("a look-up takes the place of a one-hot product only when columns and rows agree") {
  const char* text =
      "weft 1\ngraph (%i: i32[3, 1], %w: f32[5, 2] param = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, "
      "8.0, 9.0, 10.0]) -> (%y) {\n"
      "  %t = Constant() {value = tensor i64[2] [3, 5]} : i64[2]\n"
      "  %e = Expand(%i, %t) : ?\n"
      "  %zero = Constant() {value = tensor i32[1] [0]} : i32[1]\n"
      "  %q = Equal(%e, %zero) : ?\n  %c = Cast(%q) {to = f32} : ?\n  %y = MatMul(%c, %w) : ?\n}";
  auto i = std::make_shared<Tensor>(DType::kI32, std::vector<int64_t>{3, 1});
  i->set_int(1, 1);
  i->set_int(2, 2);
  CHECK(Values(*SessionOf(text).Run({i})[0]) == std::vector<double>{25, 30, 0, 0, 0, 0});
}

TEST_CASE("a fused graph that is edited gets its bodies back without being fused again") {
  Graph g = ApplyPasses(
      ParseGraph("weft 1\ngraph (%x: f32[4]) -> (%y) { %a = Neg(%x) : ?\n %y = Abs(%a) : ? }"),
      "Fusion");
  g.Touch(g.inputs()[0]);
  g = ApplyPasses(std::move(g), "CodeGen");
  int kernels = 0;
  for (NodePtr n : g.TopoOrder()) kernels += g.GetAttr<KernelMap>("kernel").find(n) != nullptr;
  CHECK(kernels == 1);
}

// An operator of another module that writes its input and does not give the new
// content as a result.
WEFT_REGISTER_OP_IN(runtime_test, Scribble)
    .set_num_inputs(1)
    .set_num_outputs(1)
    .set_attr<FMutateInputs>("FMutateInputs", [](const NodePtr&) { return std::vector<int>{0}; });

TEST_CASE("operators that write their inputs by themselves are refused, not ignored") {
  Graph g;
  NodeEntry step(g.AddParam("step", Floats1({0})));
  g.outputs = {NodeEntry(g.AddNode("runtime_test::Scribble", {step}))};
  for (const char* backend : {"cpu", "ref"}) {
    CompileOptions options;
    options.backend = backend;
    CHECK(CodeOf([&] { Compile(g, options); }) == ErrorCode::kUnsupported);
  }
}

TEST_CASE("a parameter that is written is state, with its value to begin with") {
  Graph g;
  NodeEntry step(g.AddParam("step", Floats1({0})));
  NodeEntry next = step + NodeEntry(g.AddConstant(Floats1({1})));
  g.outputs = {NodeEntry(g.AddNode(builtin::kAssign, {step, next}))};
  for (const char* backend : {"cpu", "ref"}) {
    CompileOptions options;
    options.backend = backend;
    const auto program = Compile(g, options);
    CHECK(program->inputs().empty());
    REQUIRE(program->variables().size() == 1);
    CHECK(program->variables()[0].name == "step");
    Session s(program);
    for (double i : {1, 2, 3})
      CHECK(Values(*s.Run(std::vector<TensorPtr>{})[0]) == std::vector<double>{i});
  }
}

TEST_CASE("a result may be written over an input; two results may not share memory") {
  const char* text =
      "weft 1\ngraph (%x: f32[3, 3], %k: f32[3, 3]) -> (%y, %z) {\n"
      "  %y = Transpose(%x) : ?\n  %z = Add(%x, %k) : ?\n}";
  for (const char* backend : {"cpu", "ref"}) {
    Session s = SessionOf(text, backend);
    const auto tensor = [](std::vector<double> v) {
      return std::const_pointer_cast<Tensor>(Tensor::FromDoubles(DType::kF32, {3, 3}, v));
    };
    const std::vector<double> across = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const TensorPtr k = tensor(std::vector<double>(9, 10));
    const auto x = tensor(across), other = tensor(across);
    const auto results = s.RunBound({x, k}, {x, other});
    CHECK(results[0].get() == x.get());
    CHECK(Values(*x) == std::vector<double>{1, 4, 7, 2, 5, 8, 3, 6, 9});
    CHECK(Values(*other) == std::vector<double>{11, 12, 13, 14, 15, 16, 17, 18, 19});
    // Another tensor over the same memory is the same input.
    const auto again = tensor(across);
    const auto view = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{3, 3},
                                               again->mutable_data(), again);
    s.RunBound({again, k}, {view, nullptr});
    CHECK(Values(*again) == std::vector<double>{1, 4, 7, 2, 5, 8, 3, 6, 9});
    CHECK(CodeOf([&] { s.RunBound({tensor(across), k}, {x, x}); }) == ErrorCode::kBadBinding);
    CHECK(CodeOf([&] {
            s.RunBound({tensor(across), k}, {again, view});
          }) == ErrorCode::kBadBinding);
  }
}

TEST_CASE("sums down to sizes of the run: broadcast, equal and empty ones") {
  const char* text =
      "weft 1\ngraph @m<a, b>(%x: f32[a, 2], %like: f32[b, 2]) -> (%y) {\n"
      "  %t = Tanh(%x) : ?\n  %y = weft::SumTo(%t, %like) : ?\n}";
  for (const char* backend : {"cpu", "cpu:no-fusion", "ref"}) {
    Session s = SessionOf(text, backend);
    for (const auto& sizes : {std::pair(3, 1), {3, 3}, {1, 1}, {0, 0}, {0, 1}}) {
      const int rows = sizes.first, to = sizes.second;
      CAPTURE(backend);
      CAPTURE(rows);
      CAPTURE(to);
      std::vector<double> x(size_t(2 * rows)), want(size_t(2 * to));
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = double(i) / 8;
        want[i % want.size()] += std::tanh(x[i]);
      }
      const TensorPtr like = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{to, 2});
      const TensorPtr y = s.Run({Tensor::FromDoubles(DType::kF32, {rows, 2}, x), like})[0];
      REQUIRE(y->dims() == std::vector<int64_t>{to, 2});
      for (size_t i = 0; i < want.size(); ++i) CHECK(std::abs(y->at(int64_t(i)) - want[i]) < 1e-6);
    }
  }
}

}  // namespace
