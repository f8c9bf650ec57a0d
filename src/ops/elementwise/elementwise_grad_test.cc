/// elementwise_grad_test.cc: gradients of the element-wise operators: against finite differences in
/// double precision, and at the points where a choice had to be made.
#include <cmath>
#include <limits>

#include "ops/util/op_test_util.h"

namespace weft::ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

/// Gradient of sum(y) with respect to input i.
std::vector<double> GradAt(const std::string& op, const Tensors& in, size_t i,
                           const AttrDict& attrs = {}) {
  const TensorPtr y = RunOp(op, in, attrs, false)[0];
  const TensorPtr ones = Tensor::FromDoubles(y->dtype(), y->dims(),
                                             std::vector<double>(size_t(y->num_elements()), 1.0));
  const TensorPtr g = GradientOf(op, in, attrs, ones)[i];
  REQUIRE(g.get() != nullptr);
  return Values(*g);
}
void CheckGradAt(const std::string& op, const Tensors& in, size_t i,
                 const std::vector<double>& want, const AttrDict& attrs = {}) {
  CAPTURE(op);
  CAPTURE(i);
  const std::vector<double> got = GradAt(op, in, i, attrs);
  REQUIRE(got.size() == want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    CAPTURE(k);
    CAPTURE(got[k]);
    CAPTURE(want[k]);
    CHECK((got[k] == want[k] || (std::isnan(got[k]) && std::isnan(want[k])) ||
           std::fabs(got[k] - want[k]) < 1e-12));
  }
}

TensorPtr Mat(const std::vector<double>& v, int64_t rows) {
  return T(DType::kF64, {rows, int64_t(v.size()) / rows}, v);
}

}  // namespace

TEST_CASE("gradient of unary ops equals finite differences") {
  const Tensors wide = {F64({-4.2, -2.7, -1.3, -0.8, -0.21, 0.17, 0.64, 1.1, 2.3, 4.4})};
  for (const char* op : {"Abs",         "Neg",       "Exp",       "Erf",
                         "Sin",         "Cos",       "Tan",       "Atan",
                         "Sinh",        "Cosh",      "Tanh",      "Asinh",
                         "Reciprocal",  "Relu",      "LeakyRelu", "ThresholdedRelu",
                         "Elu",         "Celu",      "Selu",      "Sigmoid",
                         "HardSigmoid", "HardSwish", "Softplus",  "Softsign",
                         "Gelu",        "Swish",     "Mish",      "Shrink",
                         "Identity",    "Clip",      "Dropout",   "Max",
                         "Min",         "Sum",       "Mean"})
    CheckGradient(op, wide);
  for (const char* op : {"Sqrt", "Log"}) CheckGradient(op, {F64({0.3, 1.0, 2.5, 7})});
  for (const char* op : {"Asin", "Acos", "Atanh"})
    CheckGradient(op, {F64({-0.9, -0.4, 0.1, 0.75})});
  CheckGradient("Acosh", {F64({1.2, 2, 5})});
  CheckGradient("Gelu", wide, {{"approximate", "tanh"}});
  CheckGradient("Elu", wide, {{"alpha", 0.5}});
  CheckGradient("Celu", wide, {{"alpha", 2.0}});
  CheckGradient("Swish", wide, {{"alpha", 1.75}});
  CheckGradient("LeakyRelu", wide, {{"alpha", 0.25}});
  CheckGradient("Shrink", wide, {{"lambd", 1.0}, {"bias", 0.25}});
  CheckGradient("HardSigmoid", wide, {{"alpha", 0.5}, {"beta", 0.25}});
  CheckGradient("Cast", wide, {{"to", DType::kF64}});
}

TEST_CASE("gradient of binary ops is summed to each operand's shape") {
  const TensorPtr a = Mat({-2.1, -0.5, 0.3, 1.2, 2.4, 3.1}, 2),
                  positive = Mat({0.4, 1.7, 0.3, 1.2, 2.4, 3.1}, 2);
  const TensorPtr row = F64({-0.7, 2.2, 3.3}), column = T(DType::kF64, {2, 1}, {1.3, -0.6}),
                  one = Scalar64(1.9);
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean"}) {
    CheckGradient(op, {a, positive});
    CheckGradient(op, {a, row});
    CheckGradient(op, {row, column});
    CheckGradient(op, {one, a});
    CheckGradient(op, {column, one});
  }
  CheckGradient("Max", {a, row, column});
  CheckGradient("Mean", {a, row, column, one});
  CheckGradient("Mod", {a, F64({-0.8, 2.2, 3.3})}, {{"fmod", 1}});
  CheckGradient("Pow", {positive, row});
  CheckGradient("Pow", {F64({0.5, 2, 3}), column});
  CheckGradient("Pow", {a, T(DType::kI64, {3}, {2, 0, 3})});
  CheckGradient("PRelu", {a, row});
  CheckGradient("PRelu", {a, one});
  CheckGradient("Where", {T(DType::kBool, {3}, {1, 0, 1}), a, column});
  CheckGradient("Clip", {a, Scalar64(-0.9), Scalar64(1.5)});
  CheckGradient("Clip", {a, nullptr, Scalar64(1.5)});
  CheckGradient("Clip", {a, Scalar64(1.5), Scalar64(-0.9)});
  CheckGradient("CastLike", {a, one});
}

TEST_CASE("gradient of Pow with a constant exponent") {
  for (double c : {0.5, 1.0, 2.0, 3.0, -1.5}) {
    CAPTURE(c);
    Graph g;
    const NodeEntry x(g.AddInput("x", DType::kF64, {3}));
    const NodePtr n = g.AddNode("Pow", {x, g.AddConstant(Tensor::Scalar(DType::kF64, c))});
    const NodeEntry dy(g.AddInput("dy", DType::kF64, {3}));
    const std::vector<NodeEntry> grads = Op::GetAttr<FGradient>("FGradient")[n->op()](n, {dy});
    CHECK(!grads[1]);
    g.outputs = std::vector<NodeEntry>{grads[0]};
    EvalOptions options;
    options.typed = false;
    const Tensors out = Reference().Eval(g, {F64({0.5, 1.5, 4}), F64({1, 2, -1})}, options);
    const double xs[] = {0.5, 1.5, 4}, dys[] = {1, 2, -1};
    for (int i = 0; i < 3; ++i)
      CHECK(out[0]->at(i) == doctest::Approx(dys[i] * c * std::pow(xs[i], c - 1)));
  }
}

TEST_CASE("gradient at kinks, ties and edges") {
  // Extrema share.
  CheckGradAt("Max", {F64({1, 2, 3}), F64({1, 5, 0})}, 0, {0.5, 0, 1});
  CheckGradAt("Max", {F64({1, 2, 3}), F64({1, 5, 0})}, 1, {0.5, 1, 0});
  CheckGradAt("Max", {F64({4}), F64({4}), F64({4}), F64({1})}, 2, {1.0 / 3});
  CheckGradAt("Min", {F64({1}), F64({1})}, 0, {0.5});
  CheckGradAt("Max", {F64({kNan}), F64({1})}, 1, {0});
  // Kinks.
  CheckGradAt("Relu", {F64({-1, 0, 1})}, 0, {0, 0, 1});
  CheckGradAt("Abs", {F64({-1, 0, 1})}, 0, {-1, 0, 1});
  CheckGradAt("LeakyRelu", {F64({0})}, 0, {0.25}, {{"alpha", 0.25}});
  CheckGradAt("ThresholdedRelu", {F64({1})}, 0, {0});
  CheckGradAt("HardSigmoid", {F64({-2.5, 2.5})}, 0, {0, 0}, {{"alpha", 0.2}, {"beta", 0.5}});
  CheckGradAt("HardSwish", {F64({-3, 3, -4, 4})}, 0, {0, 1, 0, 1});
  CheckGradAt("Clip", {F64({0, 1, 2, 3}), Scalar64(1), Scalar64(2)}, 0, {0, 1, 1, 0});
  CheckGradAt("Clip", {F64({0, 1, 2, 3}), Scalar64(1), Scalar64(2)}, 1, {1});
  CheckGradAt("Clip", {F64({0, 1, 2, 3}), Scalar64(1), Scalar64(2)}, 2, {1});
  // Edges of domains.
  CheckGradAt("Sqrt", {F64({0})}, 0, {kInf});
  CheckGradAt("Asin", {F64({1})}, 0, {kInf});
  CheckGradAt("Pow", {F64({0, 0, 2}), F64({0, 2, 0})}, 0, {0, 0, 0});
  CheckGradAt("Pow", {F64({0, 0, 1, -2}), F64({2, 0, 3, 2})}, 1, {0, 0, 0, kNan});
  CheckGradAt("Pow", {F64({-2, -2}), F64({2, 3})}, 0, {-4, 12});
  // The unused branch of Where does not leak.
  CheckGradAt("Where", {T(DType::kBool, {2}, {1, 0}), F64({1, 2}), F64({3, 4})}, 1, {1, 0});
  // Exponentials that would overflow in a dead branch.
  CheckGradAt("Elu", {F64({1000})}, 0, {1});
  CheckGradAt("Celu", {F64({1000})}, 0, {1});
  CheckGradAt("Selu", {F64({1000})}, 0, {1.05070102214813232421875});
  CheckGradAt("Softplus", {F64({1000, -1000})}, 0, {1, 0});
  CheckGradAt("Mish", {F64({1000})}, 0, {1});
}

TEST_CASE("gradient: structurally none") {
  const Tensors floats = {F64({0.5, 1.5})}, two = {F64({0.5, 1.5}), F64({1, 1})};
  for (const char* op : {"Sign", "Floor", "Ceil", "Round", "IsNaN", "IsInf"}) {
    CAPTURE(op);
    CHECK(GradientOf(op, floats, {}, F64({1, 1}))[0].get() == nullptr);
  }
  for (const char* op : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
    CAPTURE(op);
    const Tensors g = GradientOf(op, two, {}, F64({1, 1}));
    CHECK(g[0].get() == nullptr);
    CHECK(g[1].get() == nullptr);
  }
  CHECK(GradientOf("Cast", floats, {{"to", DType::kI32}}, F64({1, 1}))[0].get() == nullptr);
  CHECK(GradientOf("CastLike", two, {}, F64({1, 1}))[1].get() == nullptr);
  // A null output gradient means zero: no node is built.
  Graph g = GraphOfOp("Mul", two);
  const size_t before = g.num_nodes();
  const NodePtr n = g.outputs[0].node;
  const auto grads = Op::GetAttr<FGradient>("FGradient")[n->op()](n, {NodeEntry()});
  CHECK(!grads[0]);
  CHECK(!grads[1]);
  CHECK(g.num_nodes() == before);
}

TEST_CASE("gradient: every op of every gradient is differentiable itself") {
  const auto& gradients = Op::GetAttr<FGradient>("FGradient");
  for (const std::string& name : ElementwiseOps()) {
    const Op* op = Op::Get(name);
    for (const OpExample& row : op->examples) {
      CAPTURE(op->name);
      Graph g = GraphOfRow(*op, row.inputs, row.attrs);
      const NodePtr n = g.outputs[0].node;
      std::vector<NodeEntry> seeds(n->num_outputs());
      seeds[0] = NodeEntry(g.AddInput("dy"));
      std::vector<NodeEntry> asked;
      for (const NodeEntry& e : gradients[op](n, seeds))
        if (e) asked.push_back(e);
      g.outputs = asked;
      for (const NodePtr& m : g.TopoOrder()) {
        if (m->is_variable()) continue;
        CAPTURE(m->op()->name);
        CHECK(gradients.find(m->op()) != nullptr);
      }
    }
  }
}

}  // namespace weft::ops
