/// epilogue_test.cc: which chains of operators come to which stages of a library, and that a graph
/// and a request are read alike.
#include "epilogue.h"

#include <doctest/doctest.h>

#include "epilogue_test_util.h"

namespace weft {
namespace {

constexpr auto kRow = EpilogueKind::kBiasRow, kAddend = EpilogueKind::kAddend,
               kScale = EpilogueKind::kScale, kOffset = EpilogueKind::kOffset,
               kActivation = EpilogueKind::kActivation;
using Kinds = std::vector<EpilogueKind>;

// Orders of libraries that there are, and of one that scales last.

EpilogueTable ScaledSums(const EpilogueCall&) {
  return {{{kRow}, {kScale}, {kAddend}, {kActivation}, {kScale, true}, {kOffset, true}},
          [](const ActivationStep&) { return true; }};
}
EpilogueTable ScaleFirst(const EpilogueCall&) {
  return {{{kScale}, {kRow}, {kAddend}, {kActivation}},
          [](const ActivationStep& a) { return a.function == Activation::kRelu; }};
}
EpilogueTable OutputScale(const EpilogueCall&) {
  return {{{kActivation}, {kAddend}, {kScale}, {kOffset}},
          [](const ActivationStep& a) { return a.function == Activation::kClip && a.alpha == 0; }};
}
EpilogueTable OfTheAnchor(const EpilogueCall& call) {
  return call.inputs.size() > 2 ? EpilogueTable{} : EpilogueTable{{{kAddend}}};
}
const std::vector<EpilogueTableOf> kTables{ScaledSums, ScaleFirst, OutputScale, OfTheAnchor};

const SymInt kM = SymInt::Symbol("m"), kN = SymInt::Symbol("n");
const Shape kResult{kM, kN};

EpilogueChain Product() { return EpilogueChain("MatMul", {Shape{kM, 3}, Shape{3, kN}}, kResult); }

/// Stages of the request for 5 x 7; nothing where it is refused.
std::optional<Kinds> Read(const EpilogueChain& chain, EpilogueTableOf table) {
  const ComputeRequest q = chain.Request(chain.size(), {{"m", 5}, {"n", 7}});
  const auto read = ReadEpilogueSteps(q, table);
  if (!read) return std::nullopt;
  Kinds kinds;
  for (const LibraryStep& s : read->steps) kinds.push_back(s.stage.kind);
  return kinds;
}

TEST_CASE("epilogue: each operator goes to the first stage that can do it") {
  struct Row {
    EpilogueChain chain;
    EpilogueTableOf table;
    std::optional<Kinds> stages;
  };
  std::vector<Row> rows;
  const auto row = [&](EpilogueTableOf table, const auto& make, std::optional<Kinds> stages) {
    EpilogueChain chain = Product();
    make(chain);
    rows.push_back({std::move(chain), table, std::move(stages)});
  };
  row(
      ScaledSums, [](auto& c) { c.Tensor("Add", {kN}).Constant("Mul", 2).Unary("Relu"); },
      Kinds{kRow, kScale, kActivation});
  row(ScaleFirst, [](auto& c) { c.Tensor("Add", {kN}).Constant("Mul", 2).Unary("Relu"); }, {});
  row(
      ScaleFirst,
      [](auto& c) {
        c.Constant("Div", 2).Tensor("Add", {1, kN}, 1).Unary("Relu");
      },
      Kinds{kScale, kRow, kActivation});
  // A constant by the result is no scale, nor is one by which the inverse overflows.
  row(ScaleFirst, [](auto& c) { c.Constant("Div", 2, 1); }, {});
  row(ScaleFirst, [](auto& c) { c.Constant("Div", 0); }, {});
  row(ScaleFirst, [](auto& c) { c.Constant("Div", 1e-45); }, {});
  // Two rows, two tensors, a column, a difference, another type.
  row(ScaledSums, [](auto& c) { c.Tensor("Add", {kN}).Tensor("Add", {kN}); }, {});
  row(ScaledSums, [](auto& c) { c.Tensor("Add", kResult).Tensor("Add", kResult); }, {});
  row(ScaledSums, [](auto& c) { c.Tensor("Add", {kM, 1}); }, {});
  row(ScaledSums, [](auto& c) { c.Tensor("Sub", kResult); }, {});
  row(ScaledSums, [](auto& c) { c.Tensor("Add", kResult, 0, DType::kF16); }, {});
  // A row behind a tensor would change their order.
  row(
      ScaledSums, [](auto& c) { c.Tensor("Add", {kN}).Tensor("Add", kResult); },
      Kinds{kRow, kAddend});
  row(ScaledSums, [](auto& c) { c.Tensor("Add", kResult).Tensor("Add", {kN}); }, {});
  // A stage behind an activation needs one.
  row(ScaledSums, [](auto& c) { c.Constant("Mul", 2).Constant("Mul", 3); }, {});
  row(ScaledSums, [](auto& c) { c.Constant("Sub", 2); }, {});
  row(
      ScaledSums,
      [](auto& c) { c.Constant("Mul", 2).Unary("Tanh").Constant("Mul", 3).Constant("Sub", 1); },
      Kinds{kScale, kActivation, kScale, kOffset});
  row(ScaledSums, [](auto& c) { c.Unary("Tanh").Constant("Sub", 1).Constant("Mul", 3); }, {});
  row(
      OutputScale, [](auto& c) { c.Constant("Mul", 2).Constant("Add", 1, 1); },
      Kinds{kScale, kOffset});
  // Activations are the library's choice, by their parameters too.
  row(ScaleFirst, [](auto& c) { c.Unary("Tanh"); }, {});
  row(
      OutputScale, [](auto& c) { c.Clip(0, 6).Tensor("Add", kResult); },
      Kinds{kActivation, kAddend});
  row(OutputScale, [](auto& c) { c.Clip(1, 6); }, {});
  row(ScaledSums, [](auto& c) { c.Unary("Softplus"); }, {});
  row(ScaledSums, [](auto& c) { c.Unary("Relu").Unary("Relu"); }, {});
  row(OfTheAnchor, [](auto& c) { c.Unary("Relu"); }, {});
  for (const Row& r : rows) {
    CAPTURE(r.chain.Names());
    CHECK(Read(r.chain, r.table) == r.stages);
  }
}

TEST_CASE("epilogue: constants come with their sign and inverted, parameters with defaults") {
  EpilogueChain chain = Product();
  chain.Constant("Div", 4).Unary("HardSigmoid", {{"alpha", 0.5}}).Constant("Mul", 3, 1);
  chain.Constant("Sub", 2);
  const ComputeRequest q = chain.Request(chain.size(), {{"m", 5}, {"n", 7}});
  const auto read = ReadEpilogueSteps(q, ScaledSums);
  REQUIRE(read);
  REQUIRE(read->steps.size() == 4);
  CHECK(read->steps[0].value == 0.25f);
  CHECK(!read->steps[0].stage.behind_activation);
  CHECK(read->steps[1].activation.alpha == 0.5f);
  CHECK(read->steps[1].activation.beta == 0.5f);
  CHECK(read->steps[2].value == 3);
  CHECK(read->steps[2].stage.behind_activation);
  CHECK(read->steps[3].value == -2);
  CHECK(read->activation() == Activation::kHardSigmoid);
  CHECK(read->find(kScale) == &read->steps[0]);
  CHECK(read->find(kAddend) == nullptr);
  CHECK(read->operand(kAddend) == nullptr);
}

TEST_CASE("epilogue: an operand is that of the request") {
  EpilogueChain chain = Product();
  chain.Tensor("Add", {kN}).Tensor("Add", kResult, 1);
  const ComputeRequest q = chain.Request(chain.size(), {{"m", 5}, {"n", 7}});
  const auto read = ReadEpilogueSteps(q, ScaledSums);
  REQUIRE(read);
  CHECK(read->operand(kRow) == &q.epilogue[0]);
  CHECK(read->operand(kAddend) == &q.epilogue[1]);
}

TEST_CASE("epilogue: without a rank nothing is taken, extents that are not known are not equal") {
  EpilogueChain unknown("MatMul", {Shape(), Shape()}, Shape());
  unknown.Unary("Relu");
  CHECK(!unknown.TakenOnGraph(EpilogueTakenBy(ScaledSums), 0));
  EpilogueChain open("MatMul", {Shape{SymInt(), 3}, Shape{3, 4}}, Shape{SymInt(), 4});
  open.Tensor("Add", Shape{SymInt(), 4});
  CHECK(!open.TakenOnGraph(EpilogueTakenBy(ScaledSums), 0));
}

TEST_CASE("epilogue: a graph and a request are read alike, prefix by prefix") {
  std::mt19937 random(1);
  int taken = 0, refused = 0;
  for (int round = 0; round < 400; ++round) {
    EpilogueChain chain = Product();
    AddRandomSteps(&chain, kResult, &random);
    CAPTURE(chain.Names());
    for (const EpilogueTableOf table : kTables)
      for (size_t i = 0; i < chain.size(); ++i) {
        CAPTURE(i);
        const bool on_graph = chain.TakenOnGraph(EpilogueTakenBy(table), i);
        const auto on_request = [&](int64_t m, int64_t n) {
          return ReadEpilogueSteps(chain.Request(i + 1, {{"m", m}, {"n", n}}), table).has_value();
        };
        CHECK(on_request(5, 7) == on_graph);
        // More operands fit where extents are equal or 1.
        for (const auto& [m, n] :
             {std::pair(1, 7), std::pair(5, 1), std::pair(1, 1), std::pair(6, 6)})
          CHECK((on_request(m, n) || !on_graph));
        ++(on_graph ? taken : refused);
      }
  }
  CHECK(taken > 300);
  CHECK(refused > 300);
}

}  // namespace
}  // namespace weft
