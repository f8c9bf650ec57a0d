// Well-formed models: names, types, parameters, optional arguments, functions, sub-graphs,
// findings.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "onnx/proto/onnx_test_util.h"
#include "onnx/proto/source.h"
#include "tests/support/temp_folder.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_param.h"
#include "weft/support/file.h"

namespace weft::onnx_import {
namespace {

// An operator with two bodies, as If has; its own domain keeps it apart from the real one.
WEFT_REGISTER_OP_IN(onnxtest, Branch).describe("test").set_num_inputs(1, kVarg).set_num_outputs(1);

TEST_CASE("inputs, parameters, names and symbols") {
  auto model =
      GraphOf(R"(net (float[N, 3] x, float["batch size", K] y) => (float[N, 3] z, float[] s)
    <float[3] w = {1, 2, 3}> { t = Add(x, w)  z = Relu(t)  s = ReduceLike(y) })");
  model.mutable_graph()->mutable_node(2)->set_op_type("Identity");
  model.mutable_graph()->mutable_node(1)->set_name("act");
  const Graph g = ImportOnnxBytes(BytesOf(model));
  VerifyGraph(g);
  CHECK(g.name() == "net");
  REQUIRE(g.inputs().size() == 2);
  CHECK(g.inputs()[0]->attrs.name == "x");
  CHECK(g.inputs()[0]->attr<DType>("dtype") == DType::kF32);
  CHECK(g.inputs()[0]->attr<Shape>("shape").ToString() == "[N, 3]");
  CHECK(g.inputs()[1]->attr<Shape>("shape").ToString() == "[batch_size, K]");
  REQUIRE(g.outputs.size() == 2);
  CHECK(g.OutputName(0) == "z");
  // Nodes are called as their results; what the file calls them, export knows.
  CHECK(g.outputs[0].node->attrs.name == "z");
  CHECK(g.outputs[0].node->inputs[0].node->attrs.name == "t");
  CHECK(*g.GetAttr<NodeNames>(kNodeNames).find(g.outputs[0].node) == "act");
  const TensorPtr w = Graph::ConstantOf(g.outputs[0].node->inputs[0].node->inputs[1]);
  REQUIRE(w);
  CHECK(w->at(2) == 3);
  const std::string text = PrintGraph(g);
  CHECK(PrintGraph(ParseGraph(text)) == text);
}

TEST_CASE("dims without a name get symbols of their own, and names never meet") {
  auto model = GraphOf("g (float[N] a, float[M] b, float[K, L] c) => (float[N] y) { y = Relu(a) }");
  const auto dim = [&](int input, int i) {
    return model.mutable_graph()
        ->mutable_input(input)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(i);
  };
  dim(0, 0)->set_dim_param("a-b");
  dim(1, 0)->set_dim_param("a_b");
  dim(2, 0)->clear_value();
  dim(2, 1)->set_dim_param("u0");
  const Graph g = ImportOnnxBytes(BytesOf(model));
  CHECK(g.inputs()[0]->attr<Shape>("shape").ToString() == "[a_b_2]");
  CHECK(g.inputs()[1]->attr<Shape>("shape").ToString() == "[a_b]");
  CHECK(g.inputs()[2]->attr<Shape>("shape").ToString() == "[c_d0, u0_]");
}

TEST_CASE("a dim is never called what the algebra calls a large expression") {
  auto model = GraphOf("g (float[N] a, float[M] b) => (float[N] y) { y = Relu(a) }");
  const auto name = [&](int input, const char* text) {
    model.mutable_graph()
        ->mutable_input(input)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_param(text);
  };
  name(0, "x$0123456789abcdef");
  name(1, "xn0123456789abcdef");
  const Graph g = ImportOnnxBytes(BytesOf(model));
  CHECK(g.inputs()[0]->attr<Shape>("shape").ToString() == "[x_0123456789abcdef]");
  CHECK(g.inputs()[1]->attr<Shape>("shape").ToString() == "[xn0123456789abcdef]");
}

TEST_CASE("an initializer that is also an input") {
  auto model =
      GraphOf("g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }");
  if (model.graph().input_size() == 1) {
    *model.mutable_graph()->add_input() = model.graph().input(0);
    model.mutable_graph()->mutable_input(1)->set_name("w");
  }
  CHECK(ImportOnnxBytes(BytesOf(model)).inputs().size() == 1);
  ImportOptions options;
  options.overridable = {"w"};
  CHECK(ImportOnnxBytes(BytesOf(model), options).inputs().size() == 2);
  options.overridable = {"v"};
  CHECK(ErrorOf(model, options).code() == ErrorCode::kBadBinding);
}

TEST_CASE("dtype codes become dtypes, absent operands null entries, forms of Constant one") {
  const Graph g = ImportText(R"(g (float[3] x) => (int32[3] y, int64[2] c) {
      hi = Constant<value_float = 2.0>()
      t = Clip(x, , hi)
      y = Cast<to = 6>(t)
      c = Constant<value_ints = [7, 8]>() })");
  const NodePtr cast = g.outputs[0].node;
  CHECK(cast->attr<DType>("to") == DType::kI32);
  const NodePtr clip = cast->inputs[0].node;
  REQUIRE(clip->inputs.size() == 3);
  CHECK(!clip->inputs[1]);
  const TensorPtr c = Graph::ConstantOf(g.outputs[1]);
  REQUIRE(c);
  CHECK(c->dtype() == DType::kI64);
  CHECK(c->at_int(1) == 8);
}

TEST_CASE("model-local functions are inlined, with attributes, defaults and nesting") {
  const auto model = ModelOf(R"(
    <ir_version: 9, opset_import: ["" : 20, "d" : 1]>
    g (float[2] x) => (float[2] y) { t = d.Twice<k = 2.0>(x)  y = d.Twice(t) }
    <domain: "d", opset_import: ["" : 18, "d" : 1]>
    Twice <k: float = 0.5> (a) => (b) { u = d.Leaky<alpha: float = @k>(a)  b = d.Leaky<alpha: float = @k>(u) }
    <domain: "d", opset_import: ["" : 18]>
    Leaky <alpha> (p) => (q) { q = LeakyRelu<alpha: float = @alpha>(p) })");
  const Graph g = ImportOnnxBytes(BytesOf(model));
  VerifyGraph(g);
  CHECK(OpsOf(g) == std::vector<std::string>(4, "LeakyRelu"));
  CHECK(g.outputs[0].node->attr<double>("alpha") == 0.5);
  CHECK(g.outputs[0].node->inputs[0].node->inputs[0].node->attr<double>("alpha") == 2.0);
  CHECK(g.outputs[0].node->attrs.name == "y");  // as the caller calls it
  CHECK(g.outputs[0].node->inputs[0].node->attrs.name == "y/u");
  REQUIRE(g.outputs[0].node->origin());
  CHECK(g.outputs[0].node->origin()->front() == "y");
}

TEST_CASE("operators without code here are taken from ONNX's function bodies") {
  // MeanVarianceNormalization has a plain body; DynamicQuantizeLinear and others have it by
  // version.
  const std::string text =
      "g (float[N, 3, 4, 4] x) => (float[N, 3, 4, 4] y) { y = MeanVarianceNormalization(x) }";
  if (Op::Find("MeanVarianceNormalization")) return;
  ImportOptions options;
  options.allow_unsupported = true;
  std::vector<Finding> findings;
  options.findings = &findings;
  const Graph g = ImportText(text, 13, options);
  const std::vector<std::string> ops = OpsOf(g);
  CHECK(std::count(ops.begin(), ops.end(), "Sqrt") == 1);
  for (const Finding& f : findings) CHECK(f.op != "MeanVarianceNormalization");
}

TEST_CASE("bodies that depend on types know them") {
  if (Op::Find("SoftmaxCrossEntropyLoss")) return;
  ImportOptions options;
  options.allow_unsupported = true;
  std::vector<Finding> findings;
  options.findings = &findings;
  const Graph g = ImportText(
      "g (float[N, 5] x, int64[N] t) => (float[] l) { l = SoftmaxCrossEntropyLoss<reduction = "
      "\"mean\">(x, t) }",
      13, options);
  for (const Finding& f : findings) CHECK(f.op != "SoftmaxCrossEntropyLoss");
  CHECK(OpsOf(g).size() > 2);
}

TEST_CASE("a graph given to a function body is part of it") {
  // FlexAttention calls score_mod on the scores; a builder that does not see it would leave it out
  // in silence.
  const auto ops = [](const std::string& mod) {
    auto model = ModelOf(R"(<ir_version: 13, opset_import: ["" : 25, "ai.onnx.preview" : 1]>
      g (float[1, 2, 4, 8] q, float[1, 2, 4, 8] k, float[1, 2, 4, 8] v, float[] o) => (float[1, 2, 4, 8] y) {
        y = ai.onnx.preview.FlexAttention(q, k, v) )" +
                         mod + " }");
    ImportOptions options;
    options.allow_unsupported = true;
    std::vector<Finding> findings;
    options.findings = &findings;
    const Graph g = ImportOnnxBytes(BytesOf(model), options);
    for (const Finding& f : findings) {
      if (f.op == "ai.onnx.preview::FlexAttention") return std::vector<std::string>{f.message};
    }
    return OpsOf(g);
  };
  const auto plain = ops("");
  const auto tanh = ops(
      "<score_mod = m (float[b, h, s, t] scores) => (float[b, h, s, t] r) { r = Tanh(scores) }>");
  CHECK(std::count(plain.begin(), plain.end(), "Tanh") == 0);
  CHECK(std::count(tanh.begin(), tanh.end(), "Tanh") == 1);
  const auto outer = ops(
      "<score_mod = m (float[b, h, s, t] scores) => (float[b, h, s, t] r) { r = Add(scores, o) }>");
  CHECK(std::count(outer.begin(), outer.end(), "Add") ==
        std::count(plain.begin(), plain.end(), "Add") + 1);
}

TEST_CASE("a body of SequenceMap takes values from outside") {
  // As is told what is called like an input of the function that stands for the operator.
  const Graph g = ImportText(R"(g (float[2] x, float[2] input_sequence) => (float[2] y) {
      s = SequenceConstruct(x, x)
      t = SequenceMap(s) <body = m (float[2] e) => (float[2] f) { f = Mul(e, input_sequence) }>
      zero = Constant<value_int = 0>()
      y = SequenceAt(t, zero) })");
  const auto f32 = [](double a, double b) { return Tensor::FromDoubles(DType::kF32, {2}, {a, b}); };
  CHECK(GetEvaluator()->Eval(g, {f32(1, 2), f32(3, 5)}, {})[0]->Equals(*f32(3, 10)));
}

TEST_CASE("sub-graphs keep captured values as operands") {
  auto model = ModelOf(R"(
    <ir_version: 9, opset_import: ["" : 20, "onnxtest" : 1]>
    g (bool[] c, float[2] x, float[2] z) => (float[2] y) {
      t = Relu(x)
      y = onnxtest.Branch(c) <
        then_branch = a () => (float[2] p) { p = Neg(t) },
        else_branch = b () => (float[2] q) { q = Add(z, t) }> })");
  const Graph g = ImportOnnxBytes(BytesOf(model));
  VerifyGraph(g);
  const NodePtr n = g.outputs[0].node;
  REQUIRE(n->inputs.size() == 3);
  CHECK(n->inputs[1].node->attrs.name == "t");
  CHECK(n->inputs[2].node->attrs.name == "z");
  CHECK(n->attr<int64_t>("num_captures") == 2);
  for (const char* body : {"then_branch", "else_branch"}) {
    const GraphPtr b = n->attr<GraphPtr>(body);
    VerifyGraph(*b);
    REQUIRE(b->inputs().size() == 2);
    CHECK(b->inputs()[0]->attrs.name == "t");
    CHECK(b->inputs()[0]->attr<DType>("dtype") == DType::kF32);
  }
  CHECK(OpsOf(*n->attr<GraphPtr>("else_branch")) == std::vector<std::string>{"Add"});
}

TEST_CASE("unsupported operators are reported all at once") {
  const std::string text = R"(g (float[2] x) => (float[2] y) {
      a = d.Frobnicate(x)  b = d.Frobnicate(a)  c = Relu(b)  e = d.Other(c)  y = Relu(e) })";
  const Error error = ErrorOf(BytesOf(GraphOf(text)));
  CHECK(error.code() == ErrorCode::kUnknownOp);
  CHECK(ExitCode(error.code()) == 3);
  CHECK(Says(error, "2 operators are not supported"));
  CHECK(Says(error, "'d::Frobnicate'"));
  CHECK(Says(error, "2 nodes: main/node[0] (d::Frobnicate), main/node[1] (d::Frobnicate)"));

  ImportOptions options;
  options.allow_unsupported = true;
  std::vector<Finding> findings;
  options.findings = &findings;
  const Graph g = ImportText(text, 21, options);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].op == "d::Frobnicate");
  CHECK(findings[0].count == 2);
  CHECK(OpsOf(g) == std::vector<std::string>{"Relu"});
  CHECK(g.inputs().size() == 1);
  CHECK(g.AllInputs().size() == 2);  // the output of Other stands in as a variable
}

TEST_CASE("near names, and operator sets of domains that nothing uses") {
  const Error error = ErrorOf(BytesOf(GraphOf("g (float[2] x) => (float[2] y) { y = Reluu(x) }")));
  CHECK(error.code() == ErrorCode::kUnknownOp);
  CHECK(Says(error, "did you mean 'Relu'"));
  auto model = GraphOf("g (float[2] x) => (float[2] y) { y = Relu(x) }");
  auto* import = model.add_opset_import();
  import->set_domain("ai.onnx.ml");
  import->set_version(3);
  VerifyGraph(ImportOnnxBytes(BytesOf(model)));
}

TEST_CASE("tensor files") {
  pb::TensorProto t;
  t.set_data_type(pb::TensorProto::FLOAT16);
  t.add_dims(2);
  t.add_int32_data(0x3c00);
  t.add_int32_data(0xc000);
  const TensorPtr read = ReadTensorProtoBytes(t.SerializeAsString());
  CHECK(read->dtype() == DType::kF16);
  CHECK(read->at(0) == 1);
  CHECK(read->at(1) == -2);
  t.set_data_type(pb::TensorProto::INT8);
  CHECK_THROWS_AS(ReadTensorProtoBytes(t.SerializeAsString()), UserError);  // 0x3c00 is no i8
  t.Clear();
  t.set_data_type(pb::TensorProto::INT4);
  t.add_dims(3);
  t.set_raw_data(std::string("\x21\x03", 2));
  CHECK(ReadTensorProtoBytes(t.SerializeAsString())->num_bytes() == 2);
  try {
    ReadTensorProtoBytes("garbage that is no tensor");
    FAIL("read");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kBadTensorFile);
  }
}

TEST_CASE("sparse constants become dense") {
  auto model = GraphOf("g (float[2, 3] x) => (float[2, 3] y) { y = Add(x, w) }");
  auto* sparse = model.mutable_graph()->add_sparse_initializer();
  sparse->add_dims(2);
  sparse->add_dims(3);
  auto* values = sparse->mutable_values();
  values->set_name("w");
  values->set_data_type(pb::TensorProto::FLOAT);
  values->add_dims(2);
  values->add_float_data(5);
  values->add_float_data(6);
  auto* indices = sparse->mutable_indices();
  indices->set_data_type(pb::TensorProto::INT64);
  indices->add_dims(2);
  indices->add_int64_data(1);
  indices->add_int64_data(5);
  const Graph g = ImportOnnxBytes(BytesOf(model));
  const TensorPtr w = Graph::ConstantOf(g.outputs[0].node->inputs[1]);
  CHECK(w->at(1) == 5);
  CHECK(w->at(5) == 6);
  CHECK(w->at(0) == 0);
  indices->set_int64_data(1, 6);
  CHECK(ErrorOf(model).code() == ErrorCode::kInvalidModel);
}

TEST_CASE(
    "a file is imported as its bytes are, also where weights are longer than what is read at "
    "once") {
  auto model = GraphOf("g (float[N, 7] x) => (float[N, 100001] y) { y = MatMul(x, w) }");
  auto* w = model.mutable_graph()->add_initializer();
  w->set_name("w");
  w->set_data_type(pb::TensorProto::FLOAT);
  w->add_dims(7);
  w->add_dims(100001);
  std::vector<float> values(700007);
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i);
  w->set_raw_data(values.data(), values.size() * sizeof(float));
  const std::string bytes = BytesOf(model);
  const e2e::TempFolder folder;
  const std::string path = folder / "m.onnx";
  const auto code_of = [&](const std::string& content) {
    WriteFileAtomic(path, content);
    try {
      ImportOnnx(path);
    } catch (const Error& e) {
      CHECK(e.place() == path);
      CHECK(Says(e, "(" + std::to_string(content.size()) + " bytes)"));
      return e.code();
    }
    return ErrorCode::kInternal;
  };
  WriteFileAtomic(path, bytes);
  const Graph from_file = ImportOnnx(path), from_bytes = ImportOnnxBytes(bytes);
  const auto weights = [](const Graph& g) {
    return Graph::ConstantOf(g.outputs[0].node->inputs[1]);
  };
  CHECK(PrintGraph(from_file) == PrintGraph(from_bytes));  // large constants as hashes
  CHECK(std::memcmp(weights(from_file)->data(), values.data(), values.size() * sizeof(float)) == 0);
  CHECK(code_of(bytes.substr(0, bytes.size() - 1)) == ErrorCode::kInvalidModel);
  CHECK(code_of(bytes.substr(0, bytes.size() / 2)) == ErrorCode::kInvalidModel);
  CHECK(code_of(bytes + '\xff') == ErrorCode::kInvalidModel);
  ImportOptions small;
  small.limits.file_bytes = int64_t(bytes.size());
  CHECK_THROWS_WITH_AS(ImportOnnx(path, small), doctest::Contains("limit"), Error);
}

TEST_CASE("the Magika file classifier") {
  const char* data = std::getenv("WEFT_DATA_DIR");
  const std::string path = std::string(data ? data : "build/data") + "/magika/model.onnx";
  const Graph g = ImportOnnx(path);
  VerifyGraph(g);
  CHECK(g.inputs().size() == 1);
  CHECK(g.outputs.size() >= 1);
  CHECK(OpsOf(g).size() > 20);
  const std::string text = PrintGraph(g);
  ParseOptions options;
  options.allow_missing_data = true;
  CHECK(PrintGraph(ParseGraph(text, options)).size() == text.size());
}

}  // namespace
}  // namespace weft::onnx_import
