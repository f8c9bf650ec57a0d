/// elementwise_simplify_test.cc: one-op identities of the element-wise operators (a hit and a near
/// miss each), and values of shape arithmetic.
#include "ops/util/op_test_util.h"
#include "weft/core/graph/graph_attr.h"

namespace weft::ops {
namespace {

/// The body of a graph over inputs; `%y` is what is simplified. Returns the text name of what
/// replaces it: "" for no change.
std::string Simplified(const std::string& inputs, const std::string& body) {
  Graph g = Inferred(ParseGraph("weft 1\ngraph @t(" + inputs + ") -> (%y) {\n" + body + "\n}\n"));
  const NodePtr n = g.outputs[0].node;
  const auto& rules = Op::GetAttr<FSimplify>("FSimplify");
  REQUIRE(rules.find(n->op()) != nullptr);
  TestRewriteContext ctx(g);
  const std::vector<NodeEntry> r = rules[n->op()](ctx, n);
  if (r.empty()) return "";
  if (!r[0].node->attrs.name.empty() && r[0].node != n && r[0].node->attrs.name != "y")
    return r[0].node->attrs.name;
  std::string text = r[0].node->op()->name + "(";
  for (size_t i = 0; i < r[0].node->inputs.size(); ++i)
    text += (i ? ", " : "") + r[0].node->inputs[i].node->attrs.name;
  return text + ")";
}
std::string Const(const std::string& name, const std::string& value) {
  return "  %" + name + " = Constant() {value = tensor " + value + "} : ?\n";
}

SymTensorPtr ValueOfY(const std::string& inputs, const std::string& body) {
  const Graph g =
      Inferred(ParseGraph("weft 1\ngraph @t(" + inputs + ") -> (%y) {\n" + body + "\n}\n"));
  return g.GetAttr<EntryMap<SymTensorPtr>>("value")[g.outputs[0]];
}
std::string ValueText(const std::string& inputs, const std::string& body) {
  const SymTensorPtr v = ValueOfY(inputs, body);
  if (!v) return "none";
  std::string text;
  for (const SymInt& e : v->elements) text += (text.empty() ? "" : ", ") + e.ToString();
  return text;
}

}  // namespace

TEST_CASE("simplify: neutral elements") {
  const std::string x = "%x: f32[2, n]", i = "%x: i32[2, n]";
  CHECK(Simplified(x, Const("c", "f32[] [-0.0]") + "%y = Add(%x, %c) : ?") == "x");
  CHECK(Simplified(x, Const("c", "f32[] [0.0]") + "%y = Add(%x, %c) : ?") == "");  // -0 + 0 is +0
  CHECK(Simplified(i, Const("c", "i32[1] [0]") + "%y = Add(%c, %x) : ?") == "x");
  CHECK(Simplified(i, Const("c", "i32[1, 1, 1] [0]") + "%y = Add(%c, %x) : ?") ==
        "");  // the rank grows
  CHECK(Simplified(x, Const("c", "f32[] [0.0]") + "%y = Sub(%x, %c) : ?") == "x");
  CHECK(Simplified(x, Const("c", "f32[] [-0.0]") + "%y = Sub(%x, %c) : ?") == "");
  CHECK(Simplified(x, Const("c", "f32[] [0.0]") + "%y = Sub(%c, %x) : ?") == "");
  CHECK(Simplified(x, Const("c", "f32[2, 1] [1.0, 1.0]") + "%y = Mul(%c, %x) : ?") == "x");
  CHECK(Simplified(x, Const("c", "f32[2, 1] [1.0, 2.0]") + "%y = Mul(%c, %x) : ?") == "");
  CHECK(Simplified("%x: f32[1, n]", Const("c", "f32[2, 1] [1.0, 1.0]") + "%y = Mul(%c, %x) : ?") ==
        "");  // broadcast
  CHECK(Simplified(x, Const("c", "f32[] [1.0]") + "%y = Div(%x, %c) : ?") == "x");
  CHECK(Simplified(x, Const("c", "f32[] [1.0]") + "%y = Div(%c, %x) : ?") == "");
  CHECK(Simplified(x, Const("c", "f32[] [1.0]") + "%y = Pow(%x, %c) : ?") == "x");
  CHECK(Simplified(x, Const("c", "i64[] [1]") + "%y = Pow(%x, %c) : ?") == "x");
  CHECK(Simplified(x, Const("c", "f32[] [2.0]") + "%y = Pow(%x, %c) : ?") == "");
}

TEST_CASE("simplify: involutions and idempotents") {
  CHECK(Simplified("%x: f32[n]", "%a = Neg(%x) : ?\n%y = Neg(%a) : ?") == "x");
  CHECK(Simplified("%x: f32[n]", "%a = Abs(%x) : ?\n%y = Neg(%a) : ?") == "");
  CHECK(Simplified("%x: bool[n]", "%a = Not(%x) : ?\n%y = Not(%a) : ?") == "x");
  CHECK(Simplified("%x: i32[n]", "%a = BitwiseNot(%x) : ?\n%y = BitwiseNot(%a) : ?") == "x");
  CHECK(Simplified("%x: f32[n]", "%a = Relu(%x) : ?\n%y = Relu(%a) : ?") == "a");
  CHECK(Simplified("%x: f32[n]", "%a = Floor(%x) : ?\n%y = Floor(%a) : ?") == "a");
  CHECK(Simplified("%x: f32[n]", "%a = Floor(%x) : ?\n%y = Ceil(%a) : ?") == "");
  CHECK(Simplified("%x: f32[n]", "%y = Identity(%x) : ?") == "x");
  CHECK(Simplified("%x: f32[n]", "%y = Max(%x) : ?") == "x");
  CHECK(Simplified("%x: f32[n]", "%y = Sum(%x) : ?") == "x");
  CHECK(Simplified("%x: f32[n]", "%y = Sum(%x, %x) : ?") == "");
  CHECK(Simplified("%x: f32[n]", "%y = Max(%x, %x) : ?") == "x");
  CHECK(Simplified("%x: f32[n], %z: f32[n]", "%y = Min(%x, %z, %x) : ?") == "Min(x, z)");
  CHECK(Simplified("%x: f32[n], %z: f32[n]", "%y = Min(%x, %z) : ?") == "");
  CHECK(Simplified("%x: f32[n]", "%y = Clip(%x) : ?") == "x");
  CHECK(Simplified("%x: f32[n], %z: f32[]", "%y = Clip(%x, %z) : ?") == "");
}

TEST_CASE("simplify: casts") {
  CHECK(Simplified("%x: f32[n]", "%y = Cast(%x) {to = f32} : ?") == "x");
  CHECK(Simplified("%x: f32[n]", "%y = Cast(%x) {to = f64} : ?") == "");
  CHECK(Simplified("%x: f32[n]", "%a = Cast(%x) {to = f64} : ?\n%y = Cast(%a) {to = f32} : ?") ==
        "x");
  CHECK(Simplified("%x: f32[n]", "%a = Cast(%x) {to = f16} : ?\n%y = Cast(%a) {to = f32} : ?") ==
        "");
  CHECK(Simplified("%x: f16[n]", "%a = Cast(%x) {to = f32} : ?\n%y = Cast(%a) {to = f64} : ?") ==
        "Cast(x)");
  CHECK(Simplified("%x: i16[n]", "%a = Cast(%x) {to = f32} : ?\n%y = Cast(%a) {to = i8} : ?") ==
        "");  // saturates, not wraps
  CHECK(Simplified("%x: f32[n], %z: f32[]", "%y = CastLike(%x, %z) : ?") == "x");
  CHECK(Simplified("%x: f32[n], %z: f16[]", "%y = CastLike(%x, %z) : ?") == "Cast(x)");
}

TEST_CASE("simplify: choices") {
  const std::string in = "%c: bool[n], %x: f32[n], %z: f32[n]";
  CHECK(Simplified(in, Const("t", "bool[] [true]") + "%y = Where(%t, %x, %z) : ?") == "x");
  CHECK(Simplified(in, Const("t", "bool[] [false]") + "%y = Where(%t, %x, %z) : ?") == "z");
  CHECK(Simplified("%x: f32[1], %z: f32[n]",
                   Const("t", "bool[] [true]") + "%y = Where(%t, %x, %z) : ?") == "");  // broadcast
  CHECK(Simplified(in, "%y = Where(%c, %x, %x) : ?") == "x");
  CHECK(Simplified(in, "%y = Where(%c, %x, %z) : ?") == "");
  CHECK(Simplified(in, "%a = Not(%c) : ?\n%y = Where(%a, %x, %z) : ?") == "Where(c, z, x)");
  CHECK(Simplified(in, Const("t", "bool[] [true]") + "%y = And(%c, %t) : ?") == "c");
  CHECK(Simplified(in, Const("t", "bool[] [false]") + "%y = Or(%c, %t) : ?") == "c");
  CHECK(Simplified(in, Const("t", "bool[] [false]") + "%y = And(%c, %t) : ?") ==
        "");  // a scalar is no [n]
  CHECK(Simplified("%c: bool[]", Const("t", "bool[] [false]") + "%y = And(%c, %t) : ?") == "t");
  CHECK(Simplified(in, "%y = Or(%c, %c) : ?") == "c");
  CHECK(Simplified(in, Const("t", "bool[] [false]") + "%y = Xor(%c, %t) : ?") == "c");
  CHECK(Simplified("%x: f32[n]", "%y, %m = Dropout(%x) : ?, ?") == "x");
}

TEST_CASE("values of shape arithmetic") {
  // `%s` is the shape of x: f32[n, 4, m].
  const std::string in = "%x: f32[n, 4, m]", shape = "%s = Shape(%x) : ?\n";
  CHECK(ValueText(in, shape + Const("c", "i64[] [2]") + "%y = Add(%s, %c) : ?") ==
        "n + 2, 6, m + 2");
  CHECK(ValueText(in, shape + Const("c", "i64[3] [2, 3, 1]") + "%y = Mul(%s, %c) : ?") ==
        "2*n, 12, m");
  CHECK(ValueText(in, shape + "%y = Sub(%s, %s) : ?") == "0, 0, 0");
  CHECK(ValueText(in, shape + Const("c", "i64[] [2]") + "%y = Div(%s, %c) : ?") == "n//2, 2, m//2");
  CHECK(ValueText(in, shape + Const("c", "i64[] [3]") + "%y = Mod(%s, %c) : ?") == "n%3, 1, m%3");
  CHECK(ValueText(in, shape + "%y = Neg(%s) : ?") == "-n, -4, -m");
  CHECK(ValueText(in, shape + Const("c", "i64[] [3]") + "%y = Min(%s, %c) : ?") ==
        "min(3, n), 3, min(3, m)");
  CHECK(ValueText(in, shape + "%y = Equal(%s, %s) : ?") == "1, 1, 1");
  CHECK(ValueText(in, shape + Const("c", "i64[] [-1]") + "%y = Equal(%s, %c) : ?") == "0, 0, 0");
  // What sizes decide is a number of theirs, 0 or 1; that of a mask is not followed.
  struct Comparison {
    const char* op;
    bool (*holds)(int64_t a, int64_t b);
  };
  for (const Comparison& c : {Comparison{"Equal", [](int64_t a, int64_t b) { return a == b; }},
                              {"Less", [](int64_t a, int64_t b) { return a < b; }},
                              {"LessOrEqual", [](int64_t a, int64_t b) { return a <= b; }},
                              {"Greater", [](int64_t a, int64_t b) { return a > b; }},
                              {"GreaterOrEqual", [](int64_t a, int64_t b) { return a >= b; }}}) {
    CAPTURE(c.op);
    const auto value = [&](const std::string& constant) {
      return ValueText("%x: f32[n]", "%s = Shape(%x) : ?\n" + Const("c", constant) +
                                         "%y = " + std::string(c.op) + "(%s, %c) : ?");
    };
    const SymInt number = SymInt::Parse(value("i64[1] [4]"));
    for (int64_t n : {0, 1, 3, 4, 5, 9, 1000})
      CHECK(Evaluate(number, {{"n", n}}) == int64_t(c.holds(n, 4)));
    CHECK(value("i64[9] [1, 2, 3, 4, 5, 6, 7, 8, 9]") == "none");
  }
  CHECK(ValueText(in, shape + Const("c", "i64[] [-1]") +
                          "%e = Equal(%s, %c) : ?\n%y = Where(%e, %c, %s) : ?") == "n, 4, m");
  CHECK(ValueText(in, shape + "%y = Cast(%s) {to = i32} : ?") == "n, 4, m");
  CHECK(ValueText(in, shape + "%y = Cast(%s) {to = f32} : ?") ==
        "?, 4, ?");  // f32 holds integers to 2^24 only
  CHECK(ValueText(
            in,
            shape +
                "%a = Cast(%s) {to = f64} : ?\n%b = Floor(%a) : ?\n%y = Cast(%b) {to = i64} : ?") ==
        "n, 4, m");
  CHECK(ValueText("", Const("a", "i64[2] [7, -7]") + Const("b", "i64[] [2]") +
                          "%y = Div(%a, %b) : ?") == "3, -3");
  CHECK(ValueText("", Const("a", "i64[1] [9223372036854775807]") + Const("b", "i64[1] [1]") +
                          "%y = Add(%a, %b) : ?") == "none");
  CHECK(ValueText("", Const("a", "i8[1] [100]") + Const("b", "i8[1] [100]") +
                          "%y = Add(%a, %b) : ?") == "none");  // wraps
}

}  // namespace weft::ops
