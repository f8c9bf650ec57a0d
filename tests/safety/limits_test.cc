/// limits_test.cc: bounds hold where sizes are known only at run time, deadlines pass inside passes
/// and runs, and memory that is not there is a status. Nothing here takes long or much.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "tests/support/e2e_util.h"
#include "weft/support/request.h"

namespace weft {
namespace {

using e2e::Catch;
using e2e::Caught;

std::vector<std::string> Backends() {
  std::vector<std::string> names = {"ref"};
  if (e2e::HasCpu()) names.push_back("cpu");
  return names;
}

CompileOptions OptionsFor(const std::string& backend, const Limits& limits = {}) {
  CompileOptions options;
  options.backend = backend;
  options.threads = 1;
  options.passes.limits = limits;
  return options;
}

TensorPtr I64(std::vector<int64_t> values) {
  auto t = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{int64_t(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t->set_int(int64_t(i), values[i]);
  return t;
}

TEST_CASE("tensor_bytes holds for symbolic extents, at every binding, and names the node") {
  const Graph g = e2e::FromText(
      "graph (%x: f32[n], %r: i64[1] param = [1000]) -> (%y) {\n  %y = Tile(%x, %r)\n}\n");
  Limits limits;
  limits.tensor_bytes = 1 << 20;
  for (const std::string& backend : Backends()) {
    CAPTURE(backend);
    const auto program = Compile(g, OptionsFor(backend, limits));
    Session session(program);
    CHECK(session.Run(RandomProgramInputs(*program, 1, {{"n", 100}})).at(0)->num_elements() ==
          100'000);
    const auto caught = Catch([&] {
      session.Run(RandomProgramInputs(*program, 1, {{"n", 1000}}));
    });
    REQUIRE(caught);
    CHECK(caught->code == ErrorCode::kLimit);
    CHECK(caught->says("'y'"));
    CHECK(session.Run(RandomProgramInputs(*program, 1, {{"n", 5}})).size() == 1);
  }
}

TEST_CASE("tensor_bytes holds for extents that are values of the run") {
  const Graph g = e2e::FromText("graph (%s: i64[2]) -> (%y) {\n  %y = ConstantOfShape(%s)\n}\n");
  Limits limits;
  limits.tensor_bytes = 1 << 20;
  for (const std::string& backend : Backends()) {
    CAPTURE(backend);
    Session session(Compile(g, OptionsFor(backend, limits)));
    CHECK(session.Run({I64({10, 20})}).at(0)->num_elements() == 200);
    const auto large = Catch([&] { session.Run({I64({1 << 20, 1 << 20})}); });
    REQUIRE(large);
    CHECK(large->code == ErrorCode::kLimit);
    CHECK(large->says("'y'"));
    const auto overflow = Catch([&] { session.Run({I64({INT64_MAX, INT64_MAX})}); });
    REQUIRE(overflow);
    CHECK((overflow->code == ErrorCode::kOverflow || overflow->code == ErrorCode::kLimit));
    CHECK(Catch([&] { session.Run({I64({-1, 3})}); }));
  }
}

TEST_CASE("more memory than the machine has is refused before it is touched") {
  const Graph g = e2e::FromText("graph (%s: i64[1]) -> (%y) {\n  %y = ConstantOfShape(%s)\n}\n");
  Limits limits;
  limits.tensor_bytes = INT64_MAX;
  for (const std::string& backend : Backends()) {
    CAPTURE(backend);
    Session session(Compile(g, OptionsFor(backend, limits)));
    const auto caught = Catch([&] { session.Run({I64({int64_t{1} << 44})}); });  // 64 TiB
    REQUIRE(caught);
    CHECK(caught->code == ErrorCode::kOutOfMemory);
    CHECK(session.Run({I64({4})}).at(0)->num_elements() == 4);
  }
  CHECK(Catch([] { Tensor(DType::kF32, {int64_t{1} << 44}); })->code == ErrorCode::kOutOfMemory);
  CHECK(Catch([] { Tensor(DType::kString, {int64_t{1} << 44}); })->code == ErrorCode::kOutOfMemory);
}

TEST_CASE("an index outside its axis ends the run, names the node, and the session stays good") {
  const char* const graphs[] = {
      "graph (%x: f32[4], %i: i64[n]) -> (%y) {\n  %y = Gather(%x, %i)\n}\n",
      "graph (%x: f32[4], %i: i64[n]) -> (%y) {\n  %y = GatherElements(%x, %i)\n}\n",
      ("graph (%x: f32[4], %s: i64[2] param = [-1, 1], %i: i64[n]) -> (%y) {\n"
       "  %j = Reshape(%i, %s)\n  %y = GatherND(%x, %j)\n}\n"),
  };
  for (const std::string& backend : Backends()) {
    CAPTURE(backend);
    for (size_t k = 0; k < std::size(graphs); ++k) {
      CAPTURE(k);
      const auto program = Compile(e2e::FromText(graphs[k]), OptionsFor(backend));
      auto inputs = RandomProgramInputs(*program, 1, {{"n", 4}});
      const size_t at = program->inputs()[0].name == "i" ? 0 : 1;
      const TensorPtr x = inputs[1 - at];
      inputs[at] = I64({3, -4, 0, -1});
      CHECK(Session(program).Run(inputs).at(0)->at(1) == x->at(0));
      for (int64_t wild : {int64_t{4}, int64_t{-5}, INT64_MAX, INT64_MIN, int64_t{1} << 40}) {
        CAPTURE(wild);
        inputs[at] = I64({0, wild, 1, wild});
        const auto caught = Catch([&] { Session(program).Run(inputs); });
        REQUIRE(caught.has_value());
        CHECK(caught->code == ErrorCode::kIndexRange);
        CHECK(caught->says("'y'"));
        inputs[at] = I64({1, 2, -2, 0});
        CHECK(Session(program).Run(inputs).at(0)->at(2) == x->at(2));
      }
    }
  }
}

std::string Sigmoids(int n) {
  std::string text = "graph (%x: f32[n]) -> (%y" + std::to_string(n - 1) + ") {\n";
  for (int i = 0; i < n; ++i)
    text += "  %y" + std::to_string(i) + " = Sigmoid(%" +
            (i ? "y" + std::to_string(i - 1) : std::string("x")) + ")\n";
  return text + "}\n";
}

TEST_CASE("generated source and the memory of a compilation are bounded") {
  if (!e2e::HasCpu()) return;
  // Never compiled: what a cache holds needs no compilation.
  const Graph g = e2e::FromText(Sigmoids(23));
  Limits limits;
  limits.source_bytes = 200;
  auto caught = Catch([&] { Compile(g, OptionsFor("cpu", limits)); });
  REQUIRE(caught.has_value());
  CHECK(caught->code == ErrorCode::kLimit);
  CHECK(caught->says("source_bytes"));
  CHECK(caught->says("'y22'"));
  limits = Limits();
  limits.compile_bytes = 20000;
  caught = Catch([&] { Compile(g, OptionsFor("cpu", limits)); });
  REQUIRE(caught.has_value());
  CHECK(caught->code == ErrorCode::kLimit);
  CHECK(caught->says("compile_bytes"));
  Compile(e2e::FromText(Sigmoids(22)), OptionsFor("cpu"));
}

TEST_CASE("a window that does not fit is an error that names the node, at the run that has it") {
  const char* const graphs[] = {
      "graph (%x: f32[1, 1, h, 5], %w: f32[1, 1, 3, 3]) -> (%z) {\n"
      "  %y = Conv(%x, %w)\n  %z = Relu(%y)\n}\n",
      "graph (%x: f32[1, 1, h, 5]) -> (%z) {\n"
      "  %y, %i = MaxPool(%x) {kernel_shape = [3, 3]}\n  %z = Relu(%y)\n}\n",
      "graph (%x: f32[1, 1, h, 5]) -> (%z) {\n"
      "  %y = AveragePool(%x) {kernel_shape = [3, 3], strides = [2, 2]}\n  %z = Relu(%y)\n}\n",
  };
  for (const std::string& backend : Backends())
    for (const char* text : graphs) {
      CAPTURE(backend);
      CAPTURE(text);
      const auto program = Compile(e2e::FromText(text), OptionsFor(backend));
      Session session(program);
      for (const int64_t h : {2, 1}) {
        const auto inputs = RandomProgramInputs(*program, 1, {{"h", h}});
        const auto caught = Catch([&] { session.Run(inputs); });
        REQUIRE(caught.has_value());
        CHECK(caught->code == ErrorCode::kShapeMismatch);
        CHECK(caught->says("'y'"));
      }
      const auto inputs = RandomProgramInputs(*program, 1, {{"h", 3}});
      CHECK(session.Run(inputs).at(0)->dims()[2] == 1);
    }
}

TEST_CASE("a long kernel is cancelled, on cpu") {
  if (!e2e::HasCpu()) return;
  // Some 1e11 operations: every element asks all of the axis, or all of them go into one sum that
  // is cut into chunks.
  const std::string products =
      "graph (%x: f32[n], %e: f32[n]) -> (%z) {\n"
      "  %i = Constant() {value = tensor i64[1] [0]}\n  %j = Constant() {value = tensor i64[1] "
      "[1]}\n"
      "  %a = Unsqueeze(%x, %j)\n  %b = Unsqueeze(%e, %i)\n  %c = Mul(%a, %b)\n"
      "  %d = Tanh(%c)\n";
  for (const char* sum : {"  %z = ReduceSum(%d, %j) {keepdims = 0}\n}\n",
                          "  %z = ReduceSum(%d) {keepdims = 0}\n}\n"}) {
    CAPTURE(sum);
    const Graph g = e2e::FromText(products + sum);
    for (const int threads : {1, 2}) {
      CompileOptions options = OptionsFor("cpu");
      options.threads = threads;
      options.passes.limits.deadline_s = 0;
      const auto program = Compile(g, options);
      const auto inputs = RandomProgramInputs(*program, 1, {{"n", 300000}});
      Session session(program);
      CancelToken token;
      session.set_cancel(token);
      std::thread other([token]() mutable {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        token.Cancel();
      });
      const auto start = std::chrono::steady_clock::now();
      const auto caught = Catch([&] { session.Run(inputs); });
      other.join();
      REQUIRE(caught.has_value());
      CHECK(caught->code == ErrorCode::kCancelled);
      CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
    }
  }
}

TEST_CASE("a deadline passes inside one long step of the interpreter") {
  const Graph g = e2e::FromText(
      "graph (%x: f32[1200, 1200]) -> (%y) {\n  %a = MatMul(%x, %x)\n  %b = MatMul(%a, %x)\n"
      "  %y = MatMul(%b, %x)\n}\n");
  Limits limits;
  const auto program = Compile(g, OptionsFor("ref"));
  limits.deadline_s = 0.05;
  const auto bounded = Compile(g, OptionsFor("ref", limits));
  const auto inputs = RandomProgramInputs(*bounded, 1, {});
  const auto start = std::chrono::steady_clock::now();
  const auto caught = Catch([&] { Session(bounded).Run(inputs); });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kLimit);
  CHECK(caught->says("deadline"));
  CHECK(seconds < 5);
}

TEST_CASE("a deadline passes between passes and inside them") {
  std::string text = "graph (%x: f32[4]) -> (%y) {\n  %n0 = Relu(%x)\n";
  for (int i = 1; i < 20'000; ++i)
    text += "  %n" + std::to_string(i) + " = Relu(%n" + std::to_string(i - 1) + ")\n";
  const Graph g = e2e::FromText(text + "  %y = Neg(%n19999)\n}\n");
  PassOptions options;
  options.limits.deadline_s = 1e-6;
  const auto caught = Catch([&] { ApplyPasses(g, "InferShape,Simplify,Fusion", options); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kLimit);
  CHECK(Catch([&] { Compile(g, OptionsFor("ref", options.limits)); })->code == ErrorCode::kLimit);
}

TEST_CASE("cancelled before and while passes run") {
  const Graph g = e2e::FromText("graph (%x: f32[4]) -> (%y) {\n  %y = Relu(%x)\n}\n");
  PassOptions options;
  options.cancel.Cancel();
  CHECK(Catch([&] { ApplyPasses(g, "InferShape", options); })->code == ErrorCode::kCancelled);
  CompileOptions compile = OptionsFor("ref");
  compile.passes.cancel.Cancel();
  CHECK(Catch([&] { Compile(g, compile); })->code == ErrorCode::kCancelled);
}

TEST_CASE("scopes nest, and other threads borrow them") {
  Limits wide, narrow;
  narrow.tensor_bytes = 100;
  CHECK(RequestScope::Current() == nullptr);
  RequestScope outer(narrow);
  {
    RequestScope inner(wide);
    CHECK(Catch([] { RequestScope::CheckTensor(101); })->code == ErrorCode::kLimit);
    RequestScope::CheckTensor(100);
  }
  const RequestScope* current = RequestScope::Current();
  REQUIRE(current == &outer);
  RequestScope::Borrow none(nullptr);
  RequestScope::CheckTensor(101);
  RequestScope::Borrow again(current);
  CHECK(Catch([] { RequestScope::CheckTensor(101); })->code == ErrorCode::kLimit);
}

}  // namespace
}  // namespace weft
