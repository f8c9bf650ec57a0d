/// numbers_test.cc: symbols that are fed and returned as numbers, and facts about them, in every
/// engine, in regions, in bodies and in files.
#include "weft/core/op/numbers.h"

#include <doctest/doctest.h>

#include "tests/support/e2e_util.h"
#include "tests/support/temp_folder.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/runtime/saved/saved_program.h"

namespace {

using namespace weft;
using namespace weft::e2e;

const SymInt kN = SymInt::Symbol("n");

TensorPtr Number(int64_t v) { return Tensor::Scalar(DType::kI64, double(v)); }
TensorPtr Ramp(std::vector<int64_t> dims) {
  auto t = std::make_shared<Tensor>(DType::kF32, std::move(dims));
  for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, 0.5 + double(i % 7));
  return t;
}
Session SessionFor(const Graph& g, const EngineName& engine) {
  return Session(CompileWith(g, engine));
}

/// x[n, 4] of which the sum is divided by n, which comes as a number before it; 2 n + 1 beside it.
Graph Mean() {
  Graph g;
  const NodeEntry n = AddNumberInput(g, "n", kN);
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({kN, SymInt(4)})));
  const NodeEntry sum = ApplyOp("ReduceSum", {x, IntsLike(x, {0})}, {{"keepdims", 0}});
  g.outputs = std::vector<NodeEntry>{sum / ApplyOp("Cast", {n}, {{"to", DType::kF32}}),
                                     NumberOf(g, kN * 2 + 1), n};
  return g;
}

}  // namespace

TEST_CASE("numbers: a symbol is fed and returned as a scalar i64") {
  for (const EngineName& engine : Engines()) {
    CAPTURE(engine.text());
    Session session = SessionFor(Mean(), engine);
    const std::vector<IoSpec>& in = session.program().inputs();
    REQUIRE(in.size() == 2);
    CHECK(in[0].name == "n");
    CHECK(in[0].dtype == DType::kI64);
    CHECK(in[0].shape.ToString() == "[]");
    CHECK(in[0].number == kN);
    CHECK_FALSE(in[1].number.known());
    for (const int64_t n : {3, 8, 1}) {
      const auto y = session.Run({Number(n), Ramp({n, 4})});
      REQUIRE(y.size() == 3);
      CHECK(y[0]->dims() == std::vector<int64_t>{4});
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += 0.5 + double(i * 4 % 7);
      CHECK(y[0]->at(0) == doctest::Approx(sum / double(n)));
      for (const size_t k : {1, 2}) {
        CHECK(y[k]->dtype() == DType::kI64);
        CHECK(y[k]->dims().empty());
        CHECK(y[k]->at_int(0) == (k == 1 ? 2 * n + 1 : n));
      }
    }
    const auto by_name = session.Run({{"x", Ramp({2, 4})}, {"n", Number(2)}});
    CHECK(by_name[2]->at_int(0) == 2);
    const auto random = RandomProgramInputs(session.program(), 3, {{"n", 6}});
    CHECK(random[0]->at_int(0) == 6);
    CHECK(session.Run(random)[1]->at_int(0) == 13);
  }
}

TEST_CASE("numbers: they agree with the dimensions of other inputs, or both are named") {
  for (const EngineName& engine : Engines()) {
    CAPTURE(engine.text());
    Session session = SessionFor(Mean(), engine);
    const auto bad = [&](const std::vector<TensorPtr>& inputs) {
      const auto caught = Catch([&] { session.Run(inputs); });
      REQUIRE(caught);
      CAPTURE(caught->text);
      CHECK(caught->code == ErrorCode::kBadInput);
      return caught->text;
    };
    const std::string text = bad({Number(3), Ramp({5, 4})});
    CHECK(text.find("'n' is 3 in input 'n' and 5 in input 'x'") != std::string::npos);
    CHECK(bad({Number(-1), Ramp({5, 4})}).find("input 'n': -1 is negative") != std::string::npos);
    CHECK(bad({Ramp({1}), Ramp({5, 4})}).find("input 'n': expected dtype i64") !=
          std::string::npos);
    CHECK(bad({Tensor::Ints({3}), Ramp({3, 4})}).find("input 'n'") != std::string::npos);
    CHECK(bad({nullptr, Ramp({3, 4})}).find("input 'n' is missing") != std::string::npos);
    CHECK(session.Run({Number(5), Ramp({5, 4})})[2]->at_int(0) == 5);
  }
}

TEST_CASE("numbers: what is only a number tells sizes: shapes, other dimensions, regions, bodies") {
  Graph g;
  const NodeEntry n = AddNumberInput(g, "n", kN);
  const NodeEntry flat(g.AddInput("flat", DType::kF32, Shape({kN * 3})));
  const NodeEntry shape = ApplyOp(
      "Concat", {ApplyOp("Unsqueeze", {n, IntsLike(n, {0})}), IntsLike(n, {-1})}, {{"axis", 0}});
  const NodeEntry rows = ApplyOp("Reshape", {flat, shape});
  // What is not zero is known in the run only.
  const NodeEntry places = ApplyOp("NonZero", {rows});
  const NodeEntry ones = ApplyOp(
      "Expand", {ScalarLike(n, DType::kF32, 1), ApplyOp("Unsqueeze", {n, IntsLike(n, {0})})});
  g.outputs = std::vector<NodeEntry>{rows, places, ones};
  for (const EngineName& engine : Engines()) {
    CAPTURE(engine.text());
    Session session = SessionFor(g, engine);
    for (const int64_t k : {2, 4}) {
      const auto y = session.Run({Number(k), Ramp({3 * k})});
      CHECK(y[0]->dims() == std::vector<int64_t>{k, 3});
      CHECK(y[1]->dims() == std::vector<int64_t>{2, 3 * k});
      CHECK(y[2]->dims() == std::vector<int64_t>{k});
    }
  }
  if (!HasCpu()) return;
  const auto wrong = Catch([&] { SessionFor(g, {"cpu", true}).Run({Number(2), Ramp({7})}); });
  REQUIRE(wrong);
  CAPTURE(wrong->text);
  CHECK(wrong->says("input 'flat"));
}

TEST_CASE("numbers: text and compiled files keep them") {
  const Graph g = Mean();
  const std::string text = PrintGraph(g);
  CHECK(PrintGraph(ParseGraph(text)) == text);
  const TempFolder dir;
  for (const EngineName& engine : Engines()) {
    CAPTURE(engine.text());
    SaveProgram(*CompileWith(ParseGraph(text), engine), dir / "a.weftx");
    Session session(LoadProgram(dir / "a.weftx"));
    CHECK(session.program().inputs()[0].number == kN);
    CHECK(session.Run({Number(3), Ramp({3, 4})})[1]->at_int(0) == 7);
  }
}

TEST_CASE("facts of the caller: checked when dimensions come, used before") {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({kN, SymInt(2)})));
  const NodeEntry y(g.AddInput("y", DType::kF32, Shape({SymInt::Symbol("m")})));
  // n in halves of 4: 8 divides n, so no remainder and no zero extent.
  const NodeEntry blocks = ApplyOp("Reshape", {x, IntsLike(x, {-1, 8, 2})});
  g.outputs = std::vector<NodeEntry>{ApplyOp("Relu", {blocks}), ApplyOp("Neg", {y})};
  AddFact(g, "n in [2, 4096]");
  AddFact(g, "n % 8 == 0");
  AddFact(g, "m == n // 2");
  const Graph inferred = ApplyPasses(g, "InferType,InferShape");
  const Facts& facts = inferred.GetAttr<Facts>("facts");
  CHECK(facts.RangeOf(kN).hi == 4096);
  CHECK(facts.Divides(8, kN) == Proof::kYes);
  CHECK(facts.ProvedNot1(kN));
  const std::string text = PrintGraph(g);
  CHECK(PrintGraph(ParseGraph(text)) == text);
  for (const EngineName& engine : Engines()) {
    CAPTURE(engine.text());
    Session session = SessionFor(g, engine);
    CHECK(session.Run({Ramp({16, 2}), Ramp({8})})[0]->dims() == std::vector<int64_t>{2, 8, 2});
    const auto bad = [&](int64_t n, int64_t m) {
      const auto caught = Catch([&] { session.Run({Ramp({n, 2}), Ramp({m})}); });
      REQUIRE(caught);
      CAPTURE(caught->text);
      CHECK(caught->code == ErrorCode::kShapeMismatch);
      return caught->text;
    };
    CHECK(bad(12, 6).find("n must be a multiple of 8, it is 12") != std::string::npos);
    CHECK(bad(8192, 4096).find("n must be in [2, 4096], it is 8192") != std::string::npos);
    CHECK_FALSE(bad(16, 7).empty());
    CHECK(session.Run({Ramp({8, 2}), Ramp({4})})[1]->num_elements() == 4);
  }
  const auto contradiction = Catch([&] { AddFact(g, "n in [5000, 6000]"); });
  REQUIRE(contradiction);
  CHECK(contradiction->code == ErrorCode::kShapeMismatch);
  CHECK(Catch([&] { AddFact(g, "n is large"); }));
  CHECK(Catch([&] { AddNumberInput(g, "k", kN * 2); }));
}

TEST_CASE("facts simplify: a broadcast of what cannot be 1 is no question any more") {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({kN}))),
      y(g.AddInput("y", DType::kF32, Shape({SymInt::Symbol("m")})));
  const NodeEntry sum = x + y;
  g.outputs = std::vector<NodeEntry>{sum};
  const auto shape_of = [](const Graph& graph) {
    const Graph inferred = ApplyPasses(graph, "InferType,InferShape");
    return inferred.GetAttr<ShapeMap>("shape")[inferred.outputs[0]].ToString();
  };
  CHECK(shape_of(g) == "[bcast(m, n)]");
  AddFact(g, "n in [2, 64]");
  AddFact(g, "m in [2, 64]");
  CHECK(shape_of(g) != "[bcast(m, n)]");
}
