/// elementwise_test.cc: conformance of the element-wise operators: inference against execution,
/// values against the C++ library, the defined corner cases, and what must be refused.
#include <cmath>
#include <limits>
#include <map>

#include "ops/util/op_test_util.h"
#include "weft/core/graph/graph_attr.h"

namespace weft::ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Outputs equal, signs of zeros aside.
void CheckValues(const std::string& op, const Tensors& in, const AttrDict& attrs,
                 const std::vector<double>& want) {
  CAPTURE(op);
  const TensorPtr y = RunOp(op, in, attrs)[0];
  REQUIRE(y->num_elements() == int64_t(want.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CAPTURE(y->at(int64_t(i)));
    CAPTURE(want[i]);
    CHECK(Same(y->at(int64_t(i)), want[i]));
  }
}
TensorPtr I32(const std::vector<double>& v) { return T(DType::kI32, {int64_t(v.size())}, v); }
TensorPtr Bools(const std::vector<double>& v) { return T(DType::kBool, {int64_t(v.size())}, v); }

}  // namespace

TEST_CASE("elementwise: every op is complete") {
  for (const std::string& name : ElementwiseOps()) {
    CAPTURE(name);
    const Op* op = Op::Get(name);
    CHECK(op->has("FInferType"));
    CHECK(op->has("FInferShape"));
    CHECK(op->has("FCodeGen"));
    CHECK(op->has("FGradient"));
    CHECK(op->examples.size() >= 2);
    CHECK(op->description.find("Source: ONNX ") != std::string::npos);
    CHECK(!op->inputs.empty());
    CHECK(!op->outputs.empty());
    CHECK(op->param_schema != nullptr);
  }
}

TEST_CASE("elementwise: inference agrees with execution on every example") {
  for (const std::string& name : ElementwiseOps()) {
    const Op* op = Op::Get(name);
    for (const OpExample& row : op->examples) {
      std::string text = name;
      for (const std::string& in : row.inputs) text += " " + in;
      text += " {" + row.attrs + "}";
      CAPTURE(text);
      const Graph g = Inferred(GraphOfRow(*op, row.inputs, row.attrs));
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        const RandomInputs random = MakeRandomInputs(g, seed, {}, seed == 3);
        const Tensors out = Reference().Eval(g, random.tensors);
        REQUIRE(out.size() == g.outputs.size());
        for (size_t k = 0; k < out.size(); ++k) {
          CHECK(g.GetAttr<TypeMap>("dtype")[g.outputs[k]] == Type(out[k]->dtype()));
          const Shape& shape = g.GetAttr<ShapeMap>("shape")[g.outputs[k]];
          REQUIRE(shape.fully_known());
          REQUIRE(shape.rank() == out[k]->rank());
          for (int i = 0; i < shape.rank(); ++i)
            CHECK(Evaluate(shape[i], random.bindings) == out[k]->dims()[size_t(i)]);
        }
      }
    }
  }
}

TEST_CASE("elementwise: unary functions equal the C++ library") {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const std::map<std::string, std::function<double(double)>> functions = {
      {"Abs", [](double x) { return std::fabs(x); }},
      {"Neg", [](double x) { return -x; }},
      {"Floor", [](double x) { return std::floor(x); }},
      {"Ceil", [](double x) { return std::ceil(x); }},
      {"Round", [](double x) { return std::nearbyint(x); }},
      {"Sqrt", [](double x) { return std::sqrt(x); }},
      {"Exp", [](double x) { return std::exp(x); }},
      {"Log", [](double x) { return std::log(x); }},
      {"Sin", [](double x) { return std::sin(x); }},
      {"Cos", [](double x) { return std::cos(x); }},
      {"Tan", [](double x) { return std::tan(x); }},
      {"Asin", [](double x) { return std::asin(x); }},
      {"Acos", [](double x) { return std::acos(x); }},
      {"Atan", [](double x) { return std::atan(x); }},
      {"Sinh", [](double x) { return std::sinh(x); }},
      {"Cosh", [](double x) { return std::cosh(x); }},
      {"Tanh", [](double x) { return std::tanh(x); }},
      {"Asinh", [](double x) { return std::asinh(x); }},
      {"Acosh", [](double x) { return std::acosh(x); }},
      {"Atanh", [](double x) { return std::atanh(x); }},
      {"Erf", [](double x) { return std::erf(x); }},
      {"Reciprocal", [](double x) { return 1 / x; }},
      {"Relu", [](double x) { return x > 0           ? x
                                     : std::isnan(x) ? x
                                                     : 0; }},
      {"LeakyRelu", [](double x) { return x >= 0 ? x : double(0.01f) * x; }},
      {"ThresholdedRelu", [](double x) { return x > 1 ? x : 0; }},
      {"Elu", [](double x) { return x >= 0 ? x : std::expm1(x); }},
      {"Celu", [](double x) { return std::max(0.0, x) + std::min(0.0, std::expm1(x)); }},
      {"Selu",
       [](double x) {
         return x > 0 ? double(1.05070102f) * x
                      : double(1.05070102f) * double(1.67326319f) * std::expm1(x);
       }},
      {"Sigmoid", sigmoid},
      {"HardSigmoid",
       [](double x) { return std::max(0.0, std::min(1.0, double(0.2f) * x + 0.5)); }},
      {"HardSwish", [](double x) { return x * std::max(0.0, std::min(1.0, x / 6 + 0.5)); }},
      {"Softplus", [](double x) { return x > 30 ? x : std::log1p(std::exp(x)); }},
      {"Softsign", [](double x) { return x / (1 + std::fabs(x)); }},
      {"Gelu", [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }},
      {"Swish", [&](double x) { return x * sigmoid(x); }},
      {"Mish", [](double x) { return x * std::tanh(x > 30 ? x : std::log1p(std::exp(x))); }},
      {"Shrink", [](double x) { return x < -0.5 || x > 0.5 ? x : 0; }},
  };
  std::vector<double> points = {-20,  -6,  -3,  -2.5, -1.5, -1,  -0.75, -0.5, -0.3, -1e-3,
                                1e-3, 0.3, 0.5, 0.75, 1,    1.5, 2.5,   3,    6,    20};
  for (const auto& entry : functions) {
    const std::string& name = entry.first;
    const auto& f = entry.second;
    CAPTURE(name);
    const Tensors in = {F64(points)};
    const TensorPtr y = RunOp(name, in, {}, false)[0];
    for (size_t i = 0; i < points.size(); ++i) {
      CAPTURE(points[i]);
      const double want = f(points[i]);
      if (!std::isfinite(want))
        CHECK(Same(y->at(int64_t(i)), want));
      else
        CHECK(y->at(int64_t(i)) == doctest::Approx(want).epsilon(1e-12));
    }
    // f16: computed in f32 and rounded once, so within one unit of the f16 result.
    const TensorPtr half = RunOp(name, {T(DType::kF16, {int64_t(points.size())}, points)})[0];
    REQUIRE(half->dtype() == DType::kF16);
    for (size_t i = 0; i < points.size(); ++i) {
      const double want = f(HalfToFloat(FloatToHalf(float(points[i]))));
      CAPTURE(points[i]);
      if (std::isnan(want))
        CHECK(std::isnan(half->at(int64_t(i))));
      else if (std::fabs(want) < 65504)
        CHECK(half->at(int64_t(i)) == doctest::Approx(want).epsilon(1.0 / 1024));
    }
  }
}

TEST_CASE("elementwise: binary functions, broadcasting") {
  const std::map<std::string, std::function<double(double, double)>> functions = {
      {"Add", [](double a, double b) { return a + b; }},
      {"Sub", [](double a, double b) { return a - b; }},
      {"Mul", [](double a, double b) { return a * b; }},
      {"Div", [](double a, double b) { return a / b; }},
      {"Pow", [](double a, double b) { return std::pow(a, b); }},
      {"Max", [](double a, double b) { return a > b ? a : b; }},
      {"Min", [](double a, double b) { return a < b ? a : b; }},
      {"Sum", [](double a, double b) { return a + b; }},
      {"Mean", [](double a, double b) { return (a + b) / 2; }},
      {"PRelu", [](double a, double b) { return a < 0 ? a * b : a; }},
      {"Less", [](double a, double b) { return double(a < b); }},
      {"LessOrEqual", [](double a, double b) { return double(a <= b); }},
      {"Greater", [](double a, double b) { return double(a > b); }},
      {"Equal", [](double a, double b) { return double(a == b); }},
      {"GreaterOrEqual", [](double a, double b) { return double(a >= b); }},
  };
  const std::vector<double> a = {-2, -0.5, 0, 1, 2.5, 3}, b = {-0.5, 2, 3};
  for (const auto& entry : functions) {
    const std::string& name = entry.first;
    const auto& f = entry.second;
    CAPTURE(name);
    const TensorPtr y =
        RunOp(name, {T(DType::kF64, {2, 3}, a), T(DType::kF64, {3}, b)}, {}, false)[0];
    REQUIRE(y->dims() == std::vector<int64_t>{2, 3});
    for (int i = 0; i < 6; ++i) CHECK(Same(y->at(i), f(a[size_t(i)], b[size_t(i % 3)])));
  }
  // Three operands of three ranks.
  const TensorPtr m =
      RunOp("Max", {T(DType::kF64, {2, 1}, {1, 5}), T(DType::kF64, {3}, {0, 2, 9}), Scalar64(1.5)},
            {}, false)[0];
  CHECK(Values(*m) == std::vector<double>{1.5, 2, 9, 5, 5, 9});
}

TEST_CASE("elementwise: integers") {
  CheckValues("Div", {I32({7, -7, 7, -7, 5, INT32_MIN}), I32({2, 2, -2, -2, 0, -1})}, {},
              {3, -3, -3, 3, 0, INT32_MIN});
  CheckValues("Mod", {I32({7, -7, 7, -7, 5}), I32({3, 3, -3, -3, 0})}, {}, {1, 2, -2, -1, 0});
  CheckValues("Mod", {I32({7, -7, 7, -7}), I32({3, 3, -3, -3})}, {{"fmod", 1}}, {1, -1, 1, -1});
  CheckValues("Mod", {F32({7.5, -7.5, 7.5}), F32({2, 2, -2})}, {{"fmod", 1}}, {1.5, -1.5, 1.5});
  CheckValues("Pow", {I32({2, -3, 0, 7, 1, -1, 2}), I32({10, 3, 0, 0, -5, -3, -1})}, {},
              {1024, -27, 1, 1, 1, -1, 0});
  CheckValues("Pow", {T(DType::kI64, {2}, {3, 3}), T(DType::kI64, {2}, {39, 5})}, {},
              {4052555153018976267.0, 243});
  CheckValues("Pow", {I32({2, 9, -8}), F32({0.5, 0.5, 3})}, {}, {1, 3, -512});
  CheckValues("Pow", {F32({2, -1, -1, 4}), T(DType::kI64, {4}, {-2, 16777217, 16777216, 3})}, {},
              {0.25, -1, 1, 64});
  CheckValues("BitShift", {T(DType::kU8, {3}, {16, 129, 3}), T(DType::kU8, {3}, {1, 1, 9})},
              {{"direction", "LEFT"}}, {32, 2, 0});
  CheckValues("BitShift", {T(DType::kU8, {3}, {16, 129, 3}), T(DType::kU8, {3}, {1, 1, 9})},
              {{"direction", "RIGHT"}}, {8, 64, 0});
  CheckValues("BitwiseAnd", {I32({12, -1}), I32({10, 255})}, {}, {8, 255});
  CheckValues("BitwiseOr", {I32({12, -2}), I32({10, 1})}, {}, {14, -1});
  CheckValues("BitwiseXor", {I32({12, -1}), I32({10, -1})}, {}, {6, 0});
  CheckValues("BitwiseNot", {I32({0, 5})}, {}, {-1, -6});
  CheckValues("Abs", {I32({-5, 5, INT32_MIN})}, {}, {5, 5, INT32_MIN});
  CheckValues("Sign", {I32({-5, 0, 7})}, {}, {-1, 0, 1});
  CheckValues("Sign", {T(DType::kU8, {2}, {0, 200})}, {}, {0, 1});
  CheckValues("Relu", {I32({-5, 0, 7})}, {}, {0, 0, 7});
  CheckValues("Shrink", {I32({-3, -1, 0, 1, 3})}, {{"lambd", 1.5}, {"bias", 1.5}},
              {-1, 0, 0, 0, 1});
  CheckValues("Clip", {I32({-5, 3, 9}), T(DType::kI32, {}, {0}), T(DType::kI32, {}, {4})}, {},
              {0, 3, 4});
  CheckValues("And", {Bools({0, 0, 1, 1}), Bools({0, 1, 0, 1})}, {}, {0, 0, 0, 1});
  CheckValues("Or", {Bools({0, 0, 1, 1}), Bools({0, 1, 0, 1})}, {}, {0, 1, 1, 1});
  CheckValues("Xor", {Bools({0, 0, 1, 1}), Bools({0, 1, 0, 1})}, {}, {0, 1, 1, 0});
  CheckValues("Not", {Bools({0, 1})}, {}, {1, 0});
}

TEST_CASE("elementwise: corner cases of floats") {
  CheckValues("Max", {F32({kNan, 1, 1}), F32({1, kNan, 2})}, {}, {kNan, kNan, 2});
  CheckValues("Min", {F32({kNan, 1, 1}), F32({1, kNan, 2})}, {}, {kNan, kNan, 1});
  CheckValues("Round", {F32({0.5, 1.5, 2.5, -0.5, -1.5, 2.4})}, {}, {0, 2, 2, 0, -2, 2});
  CheckValues("Sign", {F32({-2, 0, 3, kNan, -kInf})}, {}, {-1, 0, 1, kNan, -1});
  CheckValues("Relu", {F32({kNan, -kInf, kInf})}, {}, {kNan, 0, kInf});
  CheckValues("IsNaN", {F32({kNan, 1, kInf})}, {}, {1, 0, 0});
  CheckValues("IsInf", {F32({kNan, -kInf, kInf, 1})}, {}, {0, 1, 1, 0});
  CheckValues("IsInf", {F32({kNan, -kInf, kInf, 1})}, {{"detect_negative", 0}}, {0, 0, 1, 0});
  CheckValues("IsInf", {F32({kNan, -kInf, kInf, 1})}, {{"detect_positive", 0}}, {0, 1, 0, 0});
  CheckValues("IsInf", {F32({kInf})}, {{"detect_positive", 0}, {"detect_negative", 0}}, {0});
  CheckValues("Pow", {F32({0, 0, -8, kNan}), F32({0, -1, 2, 0})}, {}, {1, kInf, 64, 1});
  CheckValues("Equal", {F32({kNan, 0}), F32({kNan, -0.0})}, {}, {0, 1});
  CheckValues("Clip", {F32({-1, 0.25, 2}), T(DType::kF32, {}, {1}), T(DType::kF32, {}, {0.5})}, {},
              {0.5, 0.5, 0.5});
  CheckValues("Clip", {F32({-1, 2}), nullptr, T(DType::kF32, {}, {0.5})}, {}, {-1, 0.5});
  CheckValues("Clip", {F32({-1, 2, kNan})}, {}, {-1, 2, kNan});
  CheckValues("Where", {Bools({1, 0}), F32({kNan, kNan}), F32({1, 2})}, {}, {kNan, 2});
  CheckValues("Softplus", {F32({-200, 200})}, {}, {0, 200});
  CheckValues("Mish", {F32({-200, 200})}, {}, {0, 200});
  CheckValues("Sigmoid", {F32({-200, 200})}, {}, {0, 1});
  CheckValues("Dropout", {F32({1, 2})}, {}, {1, 2});
  CheckValues("Identity", {F32({kNan, 2})}, {}, {kNan, 2});
  const TensorPtr gelu = RunOp("Gelu", {F64({1.5})}, {{"approximate", "tanh"}}, false)[0];
  CHECK(gelu->at(0) ==
        doctest::Approx(0.75 * (1 + std::tanh(std::sqrt(2 / M_PI) * (1.5 + 0.044715 * 3.375))))
            .epsilon(1e-12));
}

TEST_CASE("elementwise: Cast") {
  CheckValues("Cast", {F32({1.9, -1.9, 300, -300, kNan, kInf})}, {{"to", DType::kI8}},
              {1, -1, 127, -128, 0, 127});
  CheckValues("Cast", {F32({0, -0.0, 0.1, kNan})}, {{"to", DType::kBool}}, {0, 0, 1, 1});
  CheckValues("Cast", {I32({300, -1, 128})}, {{"to", DType::kU8}}, {44, 255, 128});
  CheckValues("Cast", {I32({300, -129})}, {{"to", DType::kI8}}, {44, 127});
  CheckValues("Cast", {Bools({1, 0})}, {{"to", DType::kF32}}, {1, 0});
  CheckValues("Cast", {F32({65520, 1 + 1.0 / 2048, 1 + 3.0 / 2048})}, {{"to", DType::kF16}},
              {kInf, 1, 1 + 2.0 / 1024});
  CheckValues("CastLike", {F32({1.5, -2.5}), T(DType::kI64, {3}, {0, 0, 0})}, {}, {1, -2});
  CheckValues("BitCast", {F32({1, -2})}, {{"to", DType::kI32}}, {1065353216, -1073741824});
  CheckValues("BitCast", {T(DType::kU8, {2}, {255, 1})}, {{"to", DType::kI8}}, {-1, 1});
  CheckValues("BitCast", {Bools({1, 0})}, {{"to", DType::kU8}}, {1, 0});
}

TEST_CASE("elementwise: near misses are refused with their code") {
  struct Miss {
    const char* op;
    std::vector<std::string> inputs;
    const char* attrs;
    ErrorCode code;
  };
  const std::vector<Miss> misses = {
      {"Add", {"f32[2]", "f64[2]"}, "", ErrorCode::kTypeMismatch},
      {"Add", {"bool[2]", "bool[2]"}, "", ErrorCode::kTypeMismatch},
      {"Add", {"f32[2]", "f32[3]"}, "", ErrorCode::kShapeMismatch},
      {"Add", {"f32[2]"}, "", ErrorCode::kArity},
      {"Add", {"f32[2]", "f32[2]"}, "axis = 1", ErrorCode::kBadAttribute},
      {"Sqrt", {"i32[2]"}, "", ErrorCode::kTypeMismatch},
      {"Neg", {"u8[2]"}, "", ErrorCode::kTypeMismatch},
      {"Not", {"i32[2]"}, "", ErrorCode::kTypeMismatch},
      {"And", {"i32[2]", "i32[2]"}, "", ErrorCode::kTypeMismatch},
      {"BitwiseAnd", {"bool[2]", "bool[2]"}, "", ErrorCode::kTypeMismatch},
      {"BitShift", {"u8[2]", "u8[2]"}, "direction = \"UP\"", ErrorCode::kBadAttribute},
      {"BitShift", {"u8[2]", "u8[2]"}, "", ErrorCode::kBadAttribute},
      {"BitShift", {"i8[2]", "i8[2]"}, "direction = \"LEFT\"", ErrorCode::kTypeMismatch},
      {"Mod", {"f32[2]", "f32[2]"}, "", ErrorCode::kBadAttribute},
      {"Mod", {"i32[2]", "i32[2]"}, "fmod = 2", ErrorCode::kBadAttribute},
      {"Gelu", {"f32[2]"}, "approximate = \"sigmoid\"", ErrorCode::kBadAttribute},
      {"LeakyRelu", {"f32[2]"}, "alpha = \"x\"", ErrorCode::kBadAttribute},
      {"Celu", {"f32[2]"}, "alpha = 0.0", ErrorCode::kBadAttribute},
      {"IsInf", {"f32[2]"}, "detect_positive = 7", ErrorCode::kBadAttribute},
      {"Cast", {"f32[2]"}, "", ErrorCode::kBadAttribute},
      {"Cast", {"f32[2]"}, "to = c64", ErrorCode::kBadAttribute},
      {"BitCast", {"f32[2]"}, "to = i64", ErrorCode::kTypeMismatch},
      {"Where", {"f32[2]", "f32[2]", "f32[2]"}, "", ErrorCode::kTypeMismatch},
      {"Where", {"bool[2]", "f32[2]", "f64[2]"}, "", ErrorCode::kTypeMismatch},
      {"Clip", {"f32[2]", "f32[2]"}, "", ErrorCode::kShapeMismatch},
      {"Clip", {"f32[2]", "f64[]"}, "", ErrorCode::kTypeMismatch},
      {"PRelu", {"f32[3]", "f32[2, 3]"}, "", ErrorCode::kShapeMismatch},
      {"PRelu", {"f32[1]", "f32[3]"}, "", ErrorCode::kShapeMismatch},
      {"Pow", {"u8[2]", "u8[2]"}, "", ErrorCode::kTypeMismatch},
      {"Sum", {"i32[2]", "i32[2]"}, "", ErrorCode::kTypeMismatch},
      {"Max", {}, "", ErrorCode::kArity},
  };
  for (const Miss& m : misses) {
    std::string text = m.op;
    for (const std::string& in : m.inputs) text += " " + in;
    CAPTURE(text);
    CHECK(CodeOf([&] { Inferred(GraphOfRow(*Op::Get(m.op), m.inputs, m.attrs)); }) == m.code);
  }
}

TEST_CASE("builders put nodes into the graph of their operands") {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF16, {2})),
      w(g.AddParam("w", Tensor::Scalar(DType::kF64, 3)));
  const NodeEntry sum = x + x * x / (x - -x);
  CHECK(g.owns(sum.node));
  CHECK(IsOp(sum.node, "Add"));
  CHECK(!IsOp(x.node, "Add"));
  // A scalar takes the dtype of its neighbour: at once where that is known, by CastLike otherwise.
  CHECK(IsOp(ScalarOf(w, 0.1).node, "Constant"));
  CHECK(Graph::ConstantOf(ScalarOf(w, 0.1))->dtype() == DType::kF64);
  const NodeEntry half = ScalarOf(x, 0.5), tenth = ScalarOf(x, 0.1);
  CHECK(IsOp(half.node, "CastLike"));
  CHECK(Graph::ConstantOf(half.node->inputs[0])->dtype() == DType::kF32);
  CHECK(Graph::ConstantOf(tenth.node->inputs[0])->dtype() == DType::kF64);
  CHECK(Graph::ConstantOf(IntsLike(x, {1, 2}))->at_int(1) == 2);
  CHECK(CodeOf([&] { ApplyOp("Relu", {x, x}); }) == ErrorCode::kArity);
  CHECK(CodeOf([&] { ApplyOp("Relu", {x}, {{"slope", 1}}); }) == ErrorCode::kBadAttribute);
  Graph other;
  const NodeEntry foreign(other.AddInput("z"));
  CHECK(CodeOf([&] { x + foreign; }) == ErrorCode::kApiMisuse);
}

TEST_CASE("elementwise: errors name inputs and dtypes") {
  try {
    Inferred(GraphOfRow(*Op::Get("Add"), {"f32[2]", "f64[2]"}, ""));
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.message().find("input 0 is f32") != std::string::npos);
    CHECK(e.message().find("input 1 is f64") != std::string::npos);
  }
}

}  // namespace weft::ops
