// Operands and results that a model leaves out: in ONNX the empty name, or none at the end.
#include <onnx/defs/schema.h>

#include "importer.h"
#include "onnx/proto/onnx_test_util.h"
#include "weft/core/graph/operands.h"
#include "weft/core/op/op.h"
#include "weft/onnx/export.h"
#include "weft/support/strings.h"

namespace weft::onnx_import {
namespace {

std::vector<double> Values(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.num_elements(); ++i) out.push_back(t.at(i));
  return out;
}
std::vector<double> Run(const Graph& g, const std::vector<TensorPtr>& inputs) {
  return Values(*GetEvaluator()->Eval(g, inputs, {})[0]);
}
TensorPtr F32(std::vector<int64_t> dims, const std::vector<double>& v) {
  return Tensor::FromDoubles(DType::kF32, std::move(dims), v);
}

/// The model with the operands of its last node given anew.
pb::ModelProto WithOperands(pb::ModelProto model, const std::vector<std::string>& names) {
  auto* n = model.mutable_graph()->mutable_node(model.graph().node_size() - 1);
  n->clear_input();
  for (const std::string& name : names) n->add_input(name);
  return model;
}

// The schemas are ONNX's own, which the declarations of operators know nothing of.
TEST_CASE("declared operands may be absent where ONNX says so") {
  int compared = 0;
  for (const Op* op : Op::List()) {
    if (op->inputs.empty()) continue;
    const size_t colon = op->name.find("::");
    Record r;
    r.domain = colon == std::string::npos ? "" : op->name.substr(0, colon);
    r.op = colon == std::string::npos ? op->name : op->name.substr(colon + 2);
    r.version = r.domain.empty() ? NewestOpset() : 1'000'000;
    const pb::OpSchema* schema = FindSchema(r);
    if (!schema) continue;
    CAPTURE(op->name);
    ++compared;
    for (size_t i = 0; i < schema->inputs().size(); ++i) {
      CAPTURE(i);
      const auto option = schema->inputs()[i].GetOption();
      CHECK(MayBeAbsent(*op, i) == (option == pb::OpSchema::Optional));
    }
    CHECK((op->max_inputs < 0 || op->max_inputs == INT_MAX || op->name == "Einsum") ==
          (schema->max_input() == INT_MAX || op->name == "If"));
  }
  CHECK(compared > 150);
}

const char* const kScan = R"(g (float[2] s, float[3, 2] x) => (float[2] y) {
    y, all = Scan<num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] n, float[2] o) {
        n = Add(a, e)  o = Identity(n) }>(s, x) })";
const char* const kLoop = R"(g (int64 m, bool c, float[2] s) => (float[2] y) {
    y = Loop<body = b (int64 i, bool go, float[2] a) => (bool on, float[2] n) {
        on = Identity(go)  n = Add(a, a) }>(m, c, s) })";
const char* const kMomentum =
    R"(<ir_version: 9, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
    g (float r, int64 t, float[2] x, float[2] d, float[2] v) => (float[2] y, float[2] w) {
      y, w = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 1.0, norm_coefficient = 0.0,
          mode = "standard">(r, t, x, d, v) })";

TEST_CASE("a missing operand of operators with bodies and of variadic ones is refused by name") {
  const auto refused = [](const pb::ModelProto& model, const std::string& says) {
    const Error e = ErrorOf(model);
    CHECK(e.code() == ErrorCode::kArity);
    CHECK_MESSAGE(Says(e, says), e.what());
    CHECK(Says(e, "main/node["));
  };
  refused(WithOperands(GraphOf(kScan), {"", "x"}), "Scan of version 21: operand 0");
  refused(WithOperands(GraphOf(kScan), {"s", ""}), "Scan of version 21: operand 1");
  refused(WithOperands(GraphOf(kLoop), {"m", "c", ""}), "Loop of version 21: operand 2");
  refused(WithOperands(ModelOf(kMomentum), {"r", "t", "x", "d", ""}), "operand 4 ('inputs')");
  refused(WithOperands(ModelOf(kMomentum), {"r", "t", "x", "", "v"}), "operand 3 ('inputs')");
  for (const char* op : {"Max", "Min", "Sum", "Mean", "Concat<axis = 0>"}) {
    CAPTURE(op);
    const auto model =
        GraphOf(std::string("g (float[2] x) => (float[N] y) { y = ") + op + "(x, x) }");
    refused(WithOperands(model, {"x", ""}), ": operand 1");
    refused(WithOperands(model, {"", "x"}), ": operand 0");
    refused(WithOperands(model, {}), "takes at least 1 inputs, 0 given: operand 0");
  }
  const auto clip = GraphOf("g (float[2] x, float l) => (float[2] y) { y = Clip(x, l) }");
  refused(WithOperands(clip, {"", "l"}), "of Clip only these operands may be absent: 'min', 'max'");
  const auto add = GraphOf("g (float[2] x) => (float[2] y) { y = Add(x, x) }");
  refused(WithOperands(add, {"x"}), "takes 2 inputs, 1 given: operand 1 ('B') is missing");
  refused(WithOperands(add, {"x", ""}), "operand 1 ('B') is absent");
}

TEST_CASE(
    "in the body of a function, what the caller left out is missing or optional as elsewhere") {
  const std::string functions = R"(
    <domain: "d", opset_import: ["" : 21]> Bound (a, low) => (b) { b = Clip(a, low) }
    <domain: "d", opset_import: ["" : 21]> Plus (a, c) => (b) { b = Add(a, c) })";
  const std::string header = R"(<ir_version: 9, opset_import: ["" : 21, "d" : 1]>)";
  const auto model = [&](const std::string& node) {
    return ModelOf(header + " g (float[2] x) => (float[2] y) { " + node + " }" + functions);
  };
  const TensorPtr x = F32({2}, {-1, 2});
  CHECK(Run(ImportOnnxBytes(BytesOf(model("y = d.Bound(x)"))), {x}) == std::vector<double>{-1, 2});
  const Error e = ErrorOf(model("y = d.Plus(x)"));
  CHECK(e.code() == ErrorCode::kArity);
  CHECK(Says(e, "operand 1 ('B') is absent"));
}

TEST_CASE("bodies know of a captured argument that it was left out") {
  const auto model = [](const std::string& call, const std::string& uses) {
    return ModelOf(R"(<ir_version: 9, opset_import: ["" : 21, "d" : 1]>
      g (bool c, float[2] x, float l) => (float[2] y) { y = d.Pick(c, x)" +
                   call + R"() }
      <domain: "d", opset_import: ["" : 21]> Pick (c, a, low) => (b) {
        b = If<then_branch = t () => (p) { p = )" +
                   uses + R"( },
               else_branch = e () => (q) { q = If<
                   then_branch = t2 () => (r) { r = Clip(a, low) },
                   else_branch = e2 () => (s) { s = Neg(a) }>(c) }>(c) })");
  };
  const TensorPtr yes = Tensor::Scalar(DType::kBool, 1), x = F32({2}, {-1, 2}),
                  low = Tensor::Scalar(DType::kF32, 0);
  CHECK(Run(ImportOnnxBytes(BytesOf(model("", "Clip(a, low)"))), {yes, x, low}) ==
        std::vector<double>{-1, 2});
  CHECK(Run(ImportOnnxBytes(BytesOf(model(", l", "Clip(a, low)"))), {yes, x, low}) ==
        std::vector<double>{0, 2});
  const Error e = ErrorOf(model("", "Add(a, low)"));
  CHECK(e.code() == ErrorCode::kArity);
  CHECK(Says(e, "operand 1 ('B') is absent"));
}

TEST_CASE("Loop without bound, condition or states, each named absent or left out") {
  // Doubles a captured value until it passes 10, at most m times.
  const auto model = GraphOf(R"(g (int64 m, float[1] x) => (float[N, 1] y) {
      y = Loop<body = b (int64 i, bool go) => (bool on, float[1] o) {
          one = Constant<value_int = 1>()  k = Add(i, one)  f = Cast<to = 1>(k)  o = Mul(x, f)
          ten = Constant<value_float = 10.0>()  less = Less(o, ten)  axes = Constant<value_ints = [0]>()
          on = Squeeze(less, axes) }>(m, "") })");
  const TensorPtr m = Tensor::Scalar(DType::kI64, 2), x = F32({1}, {4});
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{{"m", ""}, {"m"}}) {
    const Graph g = ImportOnnxBytes(BytesOf(WithOperands(model, names)));
    CHECK(g.outputs[0].node->num_inputs() == 3);
    CHECK(Run(g, {m, x}) == std::vector<double>{4, 8});
  }
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{{"", ""}, {""}, {}})
    CHECK(Run(ImportOnnxBytes(BytesOf(WithOperands(model, names))), {m, x}) ==
          std::vector<double>{4, 8, 12});
}

TEST_CASE("trailing optional operands: naming them absent is leaving them out") {
  struct Case {
    const char* graph;
    std::vector<std::string> names;  ///< without absent ones at the end
    size_t most;
  };
  const std::vector<Case> cases = {
      {"g (float[3] x, float h) => (float[3] y) { y = Clip(x, , h) }", {"x", "", "h"}, 3},
      {"g (float[3] x) => (float[3] y) { y = Clip(x) }", {"x"}, 3},
      {"g (float[3] x) => (float[N] y) <int64[2] p = {1, 1}> { y = Pad(x, p) }", {"x", "p"}, 4},
      {"g (float[3] x) => (float[N] y) <int64[1] b = {1}, int64[1] e = {3}> { y = Slice(x, b, e) }",
       {"x", "b", "e"},
       5},
      {"g (float[1, 1, 4] x) => (float[1, 1, N] y) <float[3] s = {1, 1, 2}> { y = Resize(x, , s) }",
       {"x", "", "s"},
       4},
      {R"(g (float[2, 1, 3] x, float[1, 8, 3] w, float[1, 8, 2] r) => (float[2, 1, 1, 2] y) {
          y = LSTM<hidden_size = 2>(x, w, r) })",
       {"x", "w", "r"},
       8},
      {"g (float[2, 3] x) => (float[M, N] y) { y = ReduceSum(x) }", {"x"}, 2},
      {"g (float[2, 3] x, float[3, 2] b) => (float[2, 2] y) { y = Gemm(x, b) }", {"x", "b"}, 3},
      {"g (float[3] x) => (float[3] y) { y = Dropout(x) }", {"x"}, 3},
      {"g (float[1, 1, 4] x, float[1, 1, 2] w) => (float[1, 1, 3] y) { y = Conv(x, w) }",
       {"x", "w"},
       3},
  };
  for (const Case& c : cases) {
    CAPTURE(c.graph);
    const auto model = GraphOf(c.graph);
    std::vector<std::string> names = c.names;
    std::string first;
    for (; names.size() <= c.most; names.emplace_back()) {
      const Graph g = ImportOnnxBytes(BytesOf(WithOperands(model, names)));
      VerifyGraph(g);
      if (first.empty()) first = PrintGraph(g);
      CHECK(PrintGraph(g) == first);
      CHECK_NOTHROW(ApplyPasses(g, "InferType,InferShape"));
    }
    names.emplace_back();
    CHECK(ErrorOf(WithOperands(model, names)).code() == ErrorCode::kArity);
  }
}

TEST_CASE("results that nobody wants may be without a name") {
  const TensorPtr x = F32({2}, {1, 2}), one = Tensor::Scalar(DType::kF32, 1),
                  steps = Tensor::Scalar(DType::kI64, 1);
  // Their number still says how many parameters there are.
  auto momentum = ModelOf(kMomentum);
  momentum.mutable_graph()->mutable_node(0)->set_output(1, "");
  momentum.mutable_graph()->mutable_output()->RemoveLast();
  const auto moved = Run(ImportOnnxBytes(BytesOf(momentum)), {one, steps, x, x, x});
  CHECK(moved[1] == doctest::Approx(2 - 3.8));
  momentum.mutable_graph()->mutable_node(0)->set_output(0, "");
  momentum.mutable_graph()->mutable_node(0)->set_output(1, "y");
  const auto velocity = Run(ImportOnnxBytes(BytesOf(momentum)), {one, steps, x, x, x});
  CHECK(velocity[1] == doctest::Approx(3.8));
  for (int split = 0; split < 3; ++split) {
    auto model =
        GraphOf("g (float[3] x) => (float[1] y) { y, b, c = Split<axis = 0, num_outputs = 3>(x) }");
    auto* n = model.mutable_graph()->mutable_node(0);
    for (int k = 0; k < 3; ++k) n->set_output(k, k == split ? "y" : "");
    CHECK(Run(ImportOnnxBytes(BytesOf(model)), {F32({3}, {5, 6, 7})}) ==
          std::vector<double>{5.0 + split});
  }
  for (const char* name : {"y", "i"}) {
    auto topk = GraphOf(std::string("g (float[3] x) => (") + (*name == 'y' ? "float" : "int64") +
                        "[1] " + name + ") <int64[1] k = {1}> { y, i = TopK(x, k) }");
    topk.mutable_graph()->mutable_node(0)->set_output(*name == 'y' ? 1 : 0, "");
    CHECK(Run(ImportOnnxBytes(BytesOf(topk)), {F32({3}, {5, 7, 6})}) ==
          std::vector<double>{*name == 'y' ? 7.0 : 1.0});
  }
  auto lstm =
      GraphOf(R"(g (float[2, 1, 3] x, float[1, 8, 3] w, float[1, 8, 2] r) => (float[1, 1, 2] y) {
      a, b, y = LSTM<hidden_size = 2>(x, w, r) })");
  lstm.mutable_graph()->mutable_node(0)->set_output(0, "");
  lstm.mutable_graph()->mutable_node(0)->set_output(1, "");
  CHECK(ImportOnnxBytes(BytesOf(lstm)).outputs[0].index == 2);
}

TEST_CASE("a value may be given out twice under its name, and an output must have one") {
  auto model = GraphOf("g (float[2] x) => (float[2] y) { y = Relu(x) }");
  *model.mutable_graph()->add_output() = model.graph().output(0);
  const Graph g = ImportOnnxBytes(BytesOf(model));
  REQUIRE(g.outputs.size() == 2);
  CHECK(g.OutputName(0) == "y");
  CHECK(g.OutputName(1) == "y");
  const auto results = GetEvaluator()->Eval(g, {F32({2}, {-1, 2})}, {});
  CHECK(Values(*results[0]) == Values(*results[1]));
  const Graph back = ImportOnnxBytes(ExportOnnxBytes(g));
  CHECK(back.OutputName(0) == "y");
  CHECK(back.OutputName(1) == "y");
  CHECK(back.outputs[0] == back.outputs[1]);
  // An input given out twice, under a name that is not its own.
  Graph twice;
  const NodePtr v = twice.AddInput("v", DType::kF32, Shape::OfInts({2}));
  twice.outputs = std::vector<NodeEntry>{NodeEntry(v), NodeEntry(v), NodeEntry(v)};
  for (size_t i : {0, 1}) twice.SetOutputName(i, "w");
  const Graph same = ImportOnnxBytes(ExportOnnxBytes(twice));
  CHECK(same.OutputName(1) == "w");
  CHECK(same.OutputName(2) == "v");
  model.mutable_graph()->mutable_output(1)->set_name("");
  const Error e = ErrorOf(model);
  CHECK(e.code() == ErrorCode::kInvalidModel);
  CHECK(Says(e, "an output without a name"));
}

}  // namespace
}  // namespace weft::onnx_import
