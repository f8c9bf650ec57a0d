/// derivative_test.cc: the gradient of every element-wise operator by its expression against its
/// own FGradient and against central differences, in double precision, first and second order.
///
/// An operator without its FGradient is a twin of it under another name.
#include <regex>

#include "ops/util/op_test_util.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/op/staging.h"

namespace weft::ops {
namespace {

/// `name` without FGradient.
std::string TwinOf(const std::string& name) {
  const std::string twin = "derivativetest::" + name;
  if (Op::Find(twin)) return twin;
  const Op* op = Op::Get(name);
  OpBuilder builder(twin, WEFT_OWNER_, false);
  for (const ArgDoc& a : op->inputs)
    a.variadic   ? builder.variadic_input(a.name, a.type)
    : a.optional ? builder.optional_input(a.name, a.type)
                 : builder.input(a.name, a.type);
  for (const ArgDoc& a : op->outputs)
    a.optional ? builder.optional_output(a.name, a.type) : builder.output(a.name, a.type);
  if (op->param_schema) builder.set_schema(op->param_schema);
  builder.set_attr("FInferType", Op::GetAttr<FInferType>("FInferType")[op]);
  builder.set_attr("FInferShape", Op::GetAttr<FInferShape>("FInferShape")[op]);
  builder.set_attr("FCodeGen", Op::GetAttr<FCodeGen>("FCodeGen")[op]);
  if (const auto* domains = Op::GetAttr<FInputDomains>("FInputDomains").find(op))
    builder.set_attr("FInputDomains", *domains);
  builder.Commit();
  return twin;
}

std::string InF64(const std::string& type) {
  return std::regex_replace(type, std::regex("^(f16|bf16|f32)"), "f64");
}

/// y, then first gradients of <dy, y>, then those of <sin(dy), first gradients>, by every float
/// input and dy. Empty where nothing has a gradient.
Graph WithGradients(const Op& op, const std::vector<std::string>& inputs,
                    const std::string& attrs) {
  Graph g = GraphOfRow(op, inputs, attrs);
  const NodeEntry y = g.outputs[0];
  const Graph typed = ApplyPass(g, "InferType");
  const auto is_float = [&](const NodeEntry& e) {
    return IsFloat(typed.GetAttr<TypeMap>("dtype")[e].dtype);
  };
  std::vector<NodeEntry> xs;
  for (const NodePtr& input : g.inputs())
    if (is_float(NodeEntry(input))) xs.emplace_back(input);
  if (xs.empty() || !is_float(y)) return Graph();
  const NodeEntry dy(g.AddInput("dy", typed.GetAttr<TypeMap>("dtype")[y], Shape::Scalar()));
  const NodeEntry seed = ApplyOp("Expand", {dy, ApplyOp("Shape", {y})});
  const std::vector<NodeEntry> first = Gradients(g, {y}, xs, {seed});
  std::vector<NodeEntry> weights, outputs = {y};
  for (const NodeEntry& d : first)
    weights.push_back(ApplyOp("Expand", {ApplyOp("Sin", {dy}), ApplyOp("Shape", {d})}));
  xs.push_back(dy);
  const std::vector<NodeEntry> second = Gradients(g, first, xs, weights);
  outputs.insert(outputs.end(), first.begin(), first.end());
  outputs.insert(outputs.end(), second.begin(), second.end());
  g.outputs = outputs;
  return g;
}

Tensors InDouble(const Graph& g, const Tensors& inputs) {
  EvalOptions options;
  options.typed = false;
  return Reference().Eval(g, inputs, options);
}

int Derivatives(const Graph& g) {
  int count = 0;
  for (const NodePtr& n : g.TopoOrder()) count += IsOp(n, builtin::kDerivative);
  return count;
}

TEST_CASE("derivative: every element-wise operator by its expression as by its own FGradient") {
  int rows = 0, with_derivative = 0;
  for (const std::string& name : ElementwiseOps()) {
    if (name == "BitCast") continue;  // reads bits
    const Op* op = Op::Get(name);
    if (!Op::GetAttr<FCodeGen>("FCodeGen")[op].elementwise) continue;  // CastLike
    const Op* twin = Op::Get(TwinOf(name));
    for (const OpExample& row : op->examples) {
      std::vector<std::string> inputs;
      for (const std::string& in : row.inputs) inputs.push_back(InF64(in));
      CAPTURE(name);
      CAPTURE(row.attrs);
      const Graph own = WithGradients(*op, inputs, row.attrs);
      if (own.outputs.size() == 0) continue;
      const Graph derived = WithGradients(*twin, inputs, row.attrs);
      REQUIRE(derived.outputs.size() == own.outputs.size());
      ++rows;
      with_derivative += Derivatives(derived) > 0;
      for (uint64_t s = 1; s <= 3; ++s) {
        const RandomInputs random = MakeRandomInputs(own, s);
        const Tensors want = InDouble(own, random.tensors), got = InDouble(derived, random.tensors);
        for (size_t k = 0; k < want.size(); ++k) {
          CAPTURE(k);
          REQUIRE(got[k]->dims() == want[k]->dims());
          for (int64_t i = 0; i < want[k]->num_elements(); ++i) {
            const double w = want[k]->at(i), v = got[k]->at(i);
            CAPTURE(w);
            CAPTURE(v);
            // Outside of its domain it is NaN by both.
            CHECK((std::fabs(v - w) <= 1e-9 * std::max(1.0, std::fabs(w)) || v == w ||
                   (std::isnan(v) && std::isnan(w))));
          }
        }
      }
    }
  }
  CHECK(rows > 80);
  CHECK(with_derivative > 60);
}

TEST_CASE("derivative: of unary operators against central differences") {
  struct Case {
    const char* op;
    std::vector<double> at;
    AttrDict attrs = {};
  };
  const std::vector<double> wide = {-4.2, -1.3, -0.8, -0.21, 0.17, 0.64, 2.3}, unit = {-0.7, 0.4},
                            positive = {0.3, 1, 2.5};
  std::vector<Case> cases;
  for (const char* op : {"Abs",         "Neg",       "Exp",       "Erf",
                         "Sin",         "Cos",       "Tan",       "Atan",
                         "Sinh",        "Cosh",      "Tanh",      "Asinh",
                         "Reciprocal",  "Relu",      "LeakyRelu", "ThresholdedRelu",
                         "Elu",         "Celu",      "Selu",      "Sigmoid",
                         "HardSigmoid", "HardSwish", "Softplus",  "Softsign",
                         "Gelu",        "Swish",     "Mish",      "Shrink"})
    cases.push_back({op, wide});
  for (const char* op : {"Asin", "Acos", "Atanh"}) cases.push_back({op, unit});
  for (const char* op : {"Sqrt", "Log"}) cases.push_back({op, positive});
  cases.push_back({"Acosh", {1.2, 2, 5}});
  cases.push_back({"Gelu", wide, {{"approximate", "tanh"}}});
  for (const Case& c : cases) {
    CAPTURE(c.op);
    Graph g;
    const NodeEntry x(g.AddInput("x", DType::kF64, {int64_t(c.at.size())}));
    const NodeEntry y(g.AddNode(TwinOf(c.op), {x}, c.attrs));
    const NodeEntry first = Gradients(g, {y}, {x})[0];
    const NodeEntry second = Gradients(g, {first}, {x})[0];
    g.outputs = std::vector<NodeEntry>{y, first, second};
    const double h = 1e-6;
    const auto run = [&](double shift) {
      std::vector<double> v = c.at;
      for (double& e : v) e += shift;
      return InDouble(g, {F64(v)});
    };
    const Tensors lower = run(-h), here = run(0), upper = run(h);
    for (int64_t i = 0; i < here[0]->num_elements(); ++i)
      for (size_t k : {0, 1}) {
        CAPTURE(c.at[size_t(i)]);
        const double want = (upper[k]->at(i) - lower[k]->at(i)) / (2 * h);
        CHECK(here[k + 1]->at(i) == doctest::Approx(want).epsilon(1e-6).scale(1e-2));
      }
  }
}

TEST_CASE("derivative: broadcast operands, absent ones, an operand given twice") {
  const Graph text = ParseGraph(R"(weft 1
graph @g(%x: f64[2, 3], %row: f64[3], %hi: f64[]) -> (%a, %b, %c) {
  %a = derivativetest::Mul(%x, %row) : ?
  %b = derivativetest::Clip(%a, _, %hi) : ?
  %c = derivativetest::Mul(%b, %b) : ?
})" + std::string(TwinOf("Mul").empty() || TwinOf("Clip").empty() ? "" : "\n"));
  Graph g = text;
  const std::vector<NodePtr> in = g.inputs();
  const std::vector<NodeEntry> d =
      Gradients(g, {g.outputs[2]}, {NodeEntry(in[0]), NodeEntry(in[1]), NodeEntry(in[2])});
  g.outputs = d;
  const TensorPtr x = T(DType::kF64, {2, 3}, {1, 2, 3, 4, 5, 6}), row = F64({1, -1, 2});
  const Tensors out = InDouble(g, {x, row, Scalar64(5)});
  // a = 1 -2 6 / 4 -5 12; b = 1 -2 5 / 4 -5 5; db = 2 b
  CHECK(Values(*out[0]) == std::vector<double>{2, 4, 0, 8, 10, 0});
  CHECK(Values(*out[1]) == std::vector<double>{2 * 1 + 8 * 4, -4 * 2 + -10 * 5, 0});
  CHECK(Values(*out[2]) == std::vector<double>{20});
  // The text form holds the whole meaning.
  const Graph again = ParseGraph(PrintGraph(g));
  CHECK(PrintGraph(again) == PrintGraph(g));
  CHECK(Values(*InDouble(again, {x, row, Scalar64(5)})[0]) == Values(*out[0]));
}

TEST_CASE("derivative: bodies that it does not take") {
  const auto code = [](const std::string& attrs, const std::string& body) {
    return CodeOf([&] {
      Inferred(
          ParseGraph("weft 1\ngraph @g(%x: f32[2], %dy: f32[2]) -> (%d) {\n"
                     "  %d = weft::Derivative(%x, %dy) {body = graph " +
                     body + ", " + attrs + "} : ?\n}\n"));
    });
  };
  const std::string one = "(%x0: f32[2]) -> (%y) {\n    %y = Exp(%x0) : ?\n  }";
  CHECK(code("wrt = 0", one) == ErrorCode(0));
  CHECK(code("wrt = 1", one) == ErrorCode::kBadAttribute);
  CHECK(code("wrt = 0, ys = [1]", one) == ErrorCode::kBadAttribute);
  CHECK(code("wrt = 0, ys = [0, 0]", one) == ErrorCode::kArity);
  CHECK(code("wrt = 0",
             "(%x0: f32[2]) -> (%y) {\n    %t = Exp(%x0) : ?\n    %y = Exp(%t) : ?\n  }") ==
        ErrorCode::kBadAttribute);
  CHECK(code("wrt = 0", "(%x0: f32[2]) -> (%y) {\n    %y = Mul(%x0, %x0) : ?\n  }") ==
        ErrorCode::kBadAttribute);
  CHECK(code("wrt = 0", "(%x0: f32[2]) -> (%y) {\n    %y = Transpose(%x0) : ?\n  }") ==
        ErrorCode::kBadAttribute);
}

}  // namespace
}  // namespace weft::ops
