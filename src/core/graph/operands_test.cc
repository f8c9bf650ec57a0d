// Operands that are left out: which a declaration allows, the one form that nodes hold, and what
// says that one is missing.
#include "weft/core/graph/operands.h"

#include <doctest/doctest.h>

#include <climits>

#include "tests/support/code_of.h"
#include "weft/core/json/json.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"

namespace weft {
namespace {

WEFT_REGISTER_OP_IN(operandtest, Clamp)
    .input("x", "any")
    .optional_input("low", "any")
    .optional_input("high", "any")
    .set_num_inputs(1, 3);
WEFT_REGISTER_OP_IN(operandtest, Repeat)
    .optional_input("times", "any")
    .optional_input("going", "any")
    .variadic_input("states", "any")
    .set_num_inputs(2, INT_MAX);
WEFT_REGISTER_OP_IN(operandtest, Plain).set_num_inputs(1, kVarg);
WEFT_REGISTER_PASS(OperandTestNothing).describe("test").set_body([](Graph g) { return g; });

/// The whole line of what `f` throws.
template <class F>
std::string TextOf(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kArity);
    return e.what();
  }
  return "nothing was thrown";
}
bool Has(const std::string& s, const std::string& part) {
  return s.find(part) != std::string::npos;
}

TEST_CASE("an operand may be absent where the declaration says so") {
  const Op &clamp = *Op::Get("operandtest::Clamp"), &repeat = *Op::Get("operandtest::Repeat"),
           &plain = *Op::Get("operandtest::Plain");
  CHECK(!MayBeAbsent(clamp, 0));
  CHECK(MayBeAbsent(clamp, 1));
  CHECK(MayBeAbsent(repeat, 1));
  CHECK(!MayBeAbsent(repeat, 2));
  CHECK(!MayBeAbsent(repeat, 9));
  // Without a declaration, what the least number counts is there.
  CHECK(!MayBeAbsent(plain, 0));
  CHECK(MayBeAbsent(plain, 1));
}

TEST_CASE("leaving trailing operands out and naming them absent is one") {
  Graph g;
  const NodePtr x = g.AddInput("x", DType::kF32, Shape::OfInts({2}));
  CHECK(g.AddNode("operandtest::Clamp", {x, {}, {}})->num_inputs() == 1);
  CHECK(g.AddNode("operandtest::Clamp", {x, {}, x})->num_inputs() == 3);
  CHECK(g.AddNode("operandtest::Repeat", {})->num_inputs() == 2);
  CHECK(g.AddNode("operandtest::Repeat", {x})->num_inputs() == 2);
  CHECK(g.AddNode("operandtest::Repeat", {{}, {}, x})->num_inputs() == 3);
  CHECK(g.AddNode("operandtest::Plain", {x, {}})->num_inputs() == 2);  // their number may count
  const Graph text = ParseGraph(
      "weft 1\ngraph (%x: f32[2]) -> (%a) {\n  %a = operandtest::Clamp(%x, _, _) : ?\n}\n");
  CHECK(text.outputs[0].node->num_inputs() == 1);
}

TEST_CASE("a missing operand is named, with those that may be absent") {
  Graph g;
  const NodePtr x = g.AddInput("x", DType::kF32, Shape::OfInts({2}));
  const std::string clamp = TextOf([&] { g.AddNode("operandtest::Clamp", {{}, x}, {}, "c"); });
  CHECK(Has(clamp, "'c' (operandtest::Clamp): operand 0 ('x') is absent"));
  CHECK(Has(clamp, "only these operands may be absent: 'low', 'high'"));
  const std::string state = TextOf([&] { g.AddNode("operandtest::Repeat", {x, x, {}}); });
  CHECK(Has(state, "operand 2 ('states') is absent"));
  const std::string plain = TextOf([&] { g.AddNode("operandtest::Plain", {{}}); });
  CHECK(Has(plain, "operand 0 is absent"));
  CHECK(Has(plain, "no operand of operandtest::Plain may be absent"));
  CHECK(Has(TextOf([&] { g.AddNode("operandtest::Clamp", {}); }),
            "takes 1 to 3 inputs, 0 given: operand 0 ('x') is missing"));
  CHECK(g.num_nodes() == 1);  // nothing of them stays behind

  const std::string text = TextOf([] {
    ParseGraph("weft 1\ngraph (%x: f32[2]) -> (%a) {\n  %a = operandtest::Clamp(_, %x) : ?\n}\n",
               "t.weft");
  });
  CHECK(Has(text, "t.weft:3"));
  CHECK(Has(text, "operand 0 ('x') is absent"));
}

TEST_CASE("edits, JSON and graphs made by hand are held to the same") {
  Graph g;
  const NodePtr x = g.AddInput("x", DType::kF32, Shape::OfInts({2}));
  const NodePtr n = g.AddNode("operandtest::Clamp", {x, x}, {}, "c");
  g.outputs = {NodeEntry(n)};
  std::string json = SaveJson(g);
  g.SetInput(n, 1, {});
  CHECK(Has(TextOf([&] { g.SetInput(n, 0, {}); }), "operand 0 ('x') is absent"));
  CHECK_NOTHROW(VerifyGraph(g));

  const size_t at = json.find("\"inputs\": [[");
  REQUIRE_MESSAGE(at != std::string::npos, json);
  const size_t end = json.find(']', at);
  json.replace(at, end + 1 - at, "\"inputs\": [null");
  CHECK(Has(TextOf([&] { LoadJson(json); }), "operand 0 ('x') is absent"));

  Graph hand = g;
  hand.at(n)->inputs = std::vector<NodeEntry>{NodeEntry()};
  const std::string text = TextOf([&] { ApplyPass(hand, "OperandTestNothing"); });
  CHECK(Has(text, "operand 0 ('x') is absent"));
  Graph open = g;
  open.outputs = std::vector<NodeEntry>{NodeEntry()};
  CHECK(Has(TextOf([&] { ApplyPass(open, "OperandTestNothing"); }), "output 0 of the graph"));
}

}  // namespace
}  // namespace weft
