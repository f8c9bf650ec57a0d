// Export: what goes out comes back, ONNX's checker accepts it, results stay equal.
#include "weft/onnx/export.h"

#include <onnx/checker.h>
#include <onnx/defs/printer.h>

#include <cstdlib>
#include <filesystem>

#include "onnx/proto/onnx_test_util.h"
#include "onnx/proto/source.h"
#include "onnx/validate/validate.h"
#include "tests/support/temp_folder.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/metadata.h"
#include "weft/core/module/onnx_writer.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/support/file.h"

namespace weft::onnx_import {
namespace {

pb::ModelProto Parsed(const std::string& bytes) {
  pb::ModelProto model;
  REQUIRE(model.ParseFromString(bytes));
  return model;
}

/// Exports, and has our validator and ONNX's checker look at it.
pb::ModelProto Exported(const Graph& g, const ExportOptions& options = {}) {
  pb::ModelProto model = Parsed(ExportOnnxBytes(g, options));
  const pb::ModelProto copy = model;
  Diagnostics diag(true);
  ValidateModel(&model, Limits(), &diag);
  CHECK_NOTHROW(diag.ThrowIfAny("export"));
  CHECK_NOTHROW(pb::checker::check_model(copy));
  return copy;
}

std::string TextOf(const pb::ModelProto& model) { return pb::ProtoToString(model); }

/// Equal results of both graphs on random inputs.
void CheckEqual(const Graph& a, const Graph& b, const SymBindings& bind = {}) {
  const RandomInputs in = MakeRandomInputs(a, 7, bind);
  const auto x = GetEvaluator()->Eval(a, in.tensors), y = GetEvaluator()->Eval(b, in.tensors);
  REQUIRE(x.size() == y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(x[i]->dtype() == y[i]->dtype());
    CHECK(x[i]->dims() == y[i]->dims());
    CHECK(CompareTensors(*y[i], *x[i]) <= 1);
  }
}

Error ErrorOfExport(const Graph& g, const ExportOptions& options = {}) {
  try {
    ExportOnnxBytes(g, options);
  } catch (const Error& e) {
    return e;
  }
  FAIL("the export succeeded");
  return Error(ErrorCode::kInternal, "");
}

TEST_CASE("an imported graph comes back as it was") {
  const char* models[] = {
      R"(g (float[N, 3] x, float[3, K] w) => (float[N, K] y) { [mul] h = MatMul(x, w) [act] y = Relu(h) })",
      R"(g (float[N, 3] x) => (float[N, 3] y, float[N, 3] z) <float[3] b = {1, 2, 3}, float hi = {0.5}>
         { [a] y = Add(x, b) [s] t = Softmax<axis = 0>(y) [c] z = Clip(t, , hi) })",
      R"(g (float[2, N] x) => (float[1, N] p, float[1, N] q, int64[2] s)
         { [n] k = Constant<value = int64[2] {1, 1}>() [sp] p, q = Split<axis = 0>(x, k) [sh] s = Shape(x) })",
      R"(g (float[N] x) => (int32[N] y, bool[N] z) { [c] y = Cast<to = 6>(x) [d] z = Cast<to = 9>(x) })",
  };
  for (const char* text : models) {
    CAPTURE(text);
    const Graph g = ImportText(text);
    const pb::ModelProto model = Exported(g);
    const Graph back = ImportOnnxBytes(BytesOf(model));
    VerifyGraph(back);
    CHECK(PrintGraph(back) == PrintGraph(g));
    CHECK(ExportOnnxBytes(back) == ExportOnnxBytes(g));
  }
}

/// What ONNX needs a function for: the model after fusion, with symbolic extents in the body.
TEST_CASE("a model that no pass has touched is written as it was") {
  const pb::ModelProto source = ModelOf(R"(
      <ir_version: 7, opset_import: ["" : 13]>
      main (float[batch, 4] x, float[4, 4] w) => (float[batch, half] p, float[batch, half] q,
                                                  float[n, 4] "sum of all")
           <float[batch, 4] "/layer/h"> {
        ["/layer/MatMul"] "/layer/h" = MatMul(x, w)
        "/layer/r" = Relu("/layer/h")
        [parts] p, q = Split<axis = 1>("/layer/r")
        [last] "sum of all" = Add(x, "/layer/r")
      })");
  ExportOptions options;
  options.value_info = ExportOptions::ValueInfo::kDeclared;
  const pb::ModelProto out = Exported(ImportOnnxBytes(BytesOf(source)), options);
  CHECK(out.ir_version() == 7);
  CHECK(out.opset_import(0).version() == 13);
  CHECK(out.graph().node_size() == source.graph().node_size());
  for (const auto& n : source.graph().node()) {
    CAPTURE(n.output(0));
    bool found = false;
    for (const auto& m : out.graph().node())
      found = found || pb::ProtoToString(m) == pb::ProtoToString(n);
    CHECK(found);
  }
  REQUIRE(out.graph().value_info_size() == 1);  // the declared one, no other
  CHECK(out.graph().value_info(0).name() == "/layer/h");
  const auto dim = [&](int output, int k) {
    return out.graph().output(output).type().tensor_type().shape().dim(k).dim_param();
  };
  CHECK(dim(0, 0) == "batch");
  CHECK(dim(2, 0) == "n");  // its own word for what inference calls batch
}

TEST_CASE("a BatchNormalization that applies its statistics is as old as the model") {
  const pb::ModelProto source = ModelOf(R"(
      <ir_version: 7, opset_import: ["" : 11]>
      g (float[N, 2, 4] x, float[2] s) => (float[N, 2, 4] y) { y = BatchNormalization(x, s, s, s, s) })");
  CHECK(Exported(ImportOnnxBytes(BytesOf(source))).opset_import(0).version() == 11);
}

TEST_CASE("what older operator sets say by attributes is written so for them") {
  const pb::ModelProto source = ModelOf(R"(
      <ir_version: 7, opset_import: ["" : 12]>
      g (float[2, 3, 1] x) => (float[a, b] y, float[c, d, e] p, float[c, f, e] q) {
        m = ReduceMean<axes = [0], keepdims = 1>(x)
        s = ReduceSum<axes = [-1], keepdims = 0>(m)
        u = Unsqueeze<axes = [0]>(s)
        y = Squeeze<axes = [0]>(u)
        p, q = Split<axis = 1, split = [1, 2]>(x) })");
  const pb::ModelProto out = Exported(ImportOnnxBytes(BytesOf(source)));
  CHECK(out.opset_import(0).version() == 12);
  CHECK(out.graph().initializer_size() == 0);
  REQUIRE(out.graph().node_size() == source.graph().node_size());
  // One use that only a newer operator set has takes the others along.
  Graph g = ImportOnnxBytes(BytesOf(source));
  std::vector<NodeEntry> outputs = g.outputs;
  outputs.push_back(NodeEntry(g.AddNode("HardSwish", {outputs[0]}, {}, "h")));
  g.outputs = outputs;
  const pb::ModelProto newer = Exported(g);
  CHECK(newer.opset_import(0).version() == 14);
  for (const auto& n : newer.graph().node()) {
    if (n.op_type() == "Squeeze" || n.op_type() == "ReduceSum") CHECK(n.input_size() == 2);
    if (n.op_type() == "ReduceMean") CHECK(n.input_size() == 1);
  }
  CheckEqual(g, ImportOnnxBytes(BytesOf(newer)));
}

TEST_CASE("dims that are no symbols keep their names") {
  const pb::ModelProto out =
      Exported(ImportText(R"(g (float["batch size", "2*h"] x) => (float["batch size", "2*h"] y) {
                               y = Relu(x) })"));
  for (const auto* info : {&out.graph().input(0), &out.graph().output(0)}) {
    CHECK(info->type().tensor_type().shape().dim(0).dim_param() == "batch size");
    CHECK(info->type().tensor_type().shape().dim(1).dim_param() == "2*h");
  }
}

TEST_CASE("fused nodes become functions, equal bodies share one") {
  const Graph g =
      ImportText(R"(g (float[N, 3] x, float[N, 3] z) => (float[N, 3] y, float[M] v, int64[2] s) {
      [a] h = Exp(x) [b] k = Neg(h) [t] y = Tanh(k)
      [a2] h2 = Exp(z) [b2] k2 = Neg(h2) [t2] y2 = Tanh(k2)
      flat = Constant<value = int64[1] {-1}>()
      w = Transpose(y2)
      [r] v = Reshape(w, flat)
      [sh] s = Shape(x) })");
  const Graph fused = ApplyPasses(g, {"Simplify", "Fusion"});
  const pb::ModelProto model = Exported(fused);
  CHECK(model.functions_size() >= 1);
  const Graph back = ImportOnnxBytes(BytesOf(model));
  CheckEqual(g, back, {{"N", 5}});
  CHECK(ExportOnnxBytes(fused) == ExportOnnxBytes(fused));
}

TEST_CASE("the text of a small export") {
  const Graph g = ImportText(R"(g (float[N, 4] x) => (float[N, 4] y, int64[2] s) {
      [a] h = Exp(x) [b] k = Neg(h) [t] y = Tanh(k) [sh] s = Shape(y) })");
  CHECK(TextOf(Exported(ApplyPasses(g, {"Simplify", "Fusion"}))) == R"z(<
   ir_version: 10,
   opset_import: ["" : 21, "weft" : 1],
   producer_name: "weft"
>
g (float[N,4] x) => (float[N,4] y, int64[2] s) {
   [y] y = weft.Exp_Neg_Tanh (x)
   "extent.values" = Shape <start: int = 0, end: int = 2> (x)
   [s] s = Concat <axis: int = 0> ("extent.values")
}
<
  domain: "weft",
  opset_import: ["" : 21]
>
Exp_Neg_Tanh (i0) => (o0)
{
   v2 = Exp (i0)
   v3 = Neg (v2)
   o0 = Tanh (v3)
})z");
}

TEST_CASE("names: outputs that are inputs, one value twice, names that are taken or missing") {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape{SymInt(2)}));
  const NodeEntry p(g.AddParam("x", Tensor::FromDoubles(DType::kF32, {2}, {1, 2})));
  const NodeEntry a = MakeNode("Add", "", {x, p}), b = MakeNode("Neg", "x", {a});
  const NodeEntry c = MakeNode("Relu", "taken", {b});
  g.outputs = {x, c, c, p, a};
  for (size_t i = 1; i < 5; ++i) g.SetOutputName(i, i == 1 ? "taken" : "out" + std::to_string(i));
  const pb::ModelProto model = Exported(g);
  REQUIRE(model.graph().output_size() == 5);
  CHECK(model.graph().output(0).name() == "x");
  CHECK(model.graph().output(1).name() == "taken");
  CHECK(model.graph().output(2).name() == "out2");
  const Graph back = ImportOnnxBytes(BytesOf(model));
  for (size_t i = 0; i < 5; ++i) CHECK(back.OutputName(i) == g.OutputName(i));
  CheckEqual(g, back);
}

TEST_CASE("types: dtype attributes, absent operands, outputs nobody reads, string constants") {
  const Graph g =
      ImportText(R"(g (float[1, 2, 4, 4] x, float s) => (float[1, 2, 2, 2] y, int64[M] n) {
      [pool] y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
      [clip] c = Clip(x, , s)
      [cast] d = Cast<to = 7>(c)
      flat = Constant<value = int64[1] {-1}>()
      [r] n = Reshape(d, flat) })");
  const pb::ModelProto model = Exported(g);
  const auto node = [&](const std::string& name) -> const pb::NodeProto& {
    for (const auto& n : model.graph().node()) {
      if (n.name() == name) return n;
    }
    FAIL("no node " << name);
    return model.graph().node(0);
  };
  CHECK(node("pool").output_size() == 2);  // the source has a name for it
  REQUIRE(node("clip").input_size() == 3);
  CHECK(node("clip").input(1).empty());
  CHECK(node("cast").attribute(0).i() == 7);
  CHECK(PrintGraph(ImportOnnxBytes(BytesOf(model))) == PrintGraph(g));
}

TEST_CASE("outputs that nobody reads but ONNX asks for: statistics of a batch") {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({2, 3, 4})));
  const NodeEntry c = ConstantLike(x, Tensor::FromDoubles(DType::kF32, {3}, {1, 0.5, 2}));
  const NodePtr training = g.AddNode("BatchNormalization", {x, c, c, c, c}, {{"training_mode", 1}});
  const NodePtr inference = g.AddNode("BatchNormalization", {x, c, c, c, c});
  g.outputs = std::vector<NodeEntry>{NodeEntry(training), NodeEntry(inference)};
  const pb::ModelProto model = Exported(g);
  int seen = 0;
  for (const pb::NodeProto& n : model.graph().node()) {
    if (n.op_type() != "BatchNormalization") continue;
    ++seen;
    CHECK(n.output_size() == (n.output(0) == model.graph().output(0).name() ? 3 : 1));
    for (const std::string& name : n.output()) CHECK(!name.empty());
  }
  CHECK(seen == 2);
  CheckEqual(g, ImportOnnxBytes(model.SerializeAsString()));
}

TEST_CASE("targets that ONNX says without a symbol are constants") {
  const auto text_of = [](std::string shape, std::string target, std::string op) {
    const Graph g = ParseGraph("weft 1\ngraph (%x: f32" + shape +
                               ") -> (%y) {\n  %s = weft::ShapeTensor() {dims = shape" + target +
                               "}\n  %y = " + op + "\n}\n");
    return TextOf(Exported(ApplyPasses(g, {"InferType", "InferShape"})));
  };
  const char* reshape = "Reshape(%x, %s) {allowzero = 1}";
  const auto has = [](const std::string& text, const char* what) {
    return text.find(what) != std::string::npos;
  };
  CHECK(has(text_of("[n, s, 768]", "[n, s, 12, 64]", reshape), "int64[4] {0,0,12,64}"));
  CHECK(has(text_of("[n, 3, 4]", "[12*n]", reshape), "int64[1] {-1}"));
  CHECK(has(text_of("[n, 1]", "[n, 4]", "Expand(%x, %s)"), "int64[2] {1,4}"));
  // Near misses: beside n, which may be 0, nothing is inferred; two dimensions have new places; one
  // grows to a size that only a symbol tells; 0 copies.
  CHECK(has(text_of("[n, h, w]", "[n, h*w]", reshape), "Concat"));
  CHECK(has(text_of("[n, s, 768]", "[s, n, 768]", reshape), "Concat"));
  CHECK(has(text_of("[n, 1]", "[n, n]", "Expand(%x, %s)"), "Concat"));
  CHECK(has(text_of("[n, 0]", "[0, n]", reshape), "Concat"));
}

TEST_CASE("sizes that take several steps are read off shapes, alike ones are one vector") {
  const auto ops_of = [](const std::string& target) {
    const Graph g = ApplyPasses(
        ParseGraph("weft 1\ngraph (%x: f32[n, 3, h, w], %k: f32[5, 3, 4, 4]) -> (%c, %s) {\n"
                   "  %c = Conv(%x, %k) {strides = [4, 4]}\n"
                   "  %q = weft::ShapeTensor() {dims = shape" +
                   target +
                   "}\n"
                   "  %s = Neg(%q)\n}"),
        "InferShape");
    const pb::ModelProto model = Exported(g);
    for (const auto [n, h, w] : {std::array{1, 8, 15}, std::array{2, 30, 4}})
      CheckEqual(g, ImportOnnxBytes(BytesOf(model)), {{"n", n}, {"h", h}, {"w", w}});
    std::string ops;
    for (const auto& node : model.graph().node())
      if (node.op_type() != "Constant" && node.op_type() != "Conv")
        ops += (ops.empty() ? "" : " ") + node.op_type();
    return ops;
  };
  CHECK(ops_of("[n, 3, h, w]") == "Shape Neg");
  CHECK(ops_of("[n, h // 4, w // 4]") == "Shape Shape Concat Neg");
  CHECK(ops_of("[0, 6*(h // 4) % 7, 6*(w // 4) % 7, 0]") == "Shape Mul Mod Concat Neg");
  CHECK(ops_of("[h // 4 + 1, h // 4 + 1]") == "Shape Add Concat Neg");
  // One step is no reason to keep a tensor, and neighbours that are made otherwise stay apart.
  CHECK(ops_of("[h, 1, h // 4]") == "Shape Div Concat Neg");
  CHECK(ops_of("[h // 5, w % 5]") == "Shape Div Shape Mod Concat Neg");
}

TEST_CASE("symbolic extents: names, expressions, and extents that only a node tells") {
  const Graph g = ParseGraph(R"(weft 1
graph (%x: f32[2*n, m], %z: f32[n // 2 + 1]) -> (%s, %c) {
  %s = weft::ShapeTensor() {dims = shape[3*n // 2, min(m, 4), n % 3, max(n, m), bcast(n, m), 7]}
  %c = weft::ShapeTensor() {dims = shape[2, 3]}
})");
  const Graph back = ImportOnnxBytes(BytesOf(Exported(g)));
  for (const int64_t n : {0, 1, 2, 5, 8}) {
    const SymBindings bind{{"n", n}, {"m", n == 5 ? 1 : n}};
    const auto zeros = [](std::vector<int64_t> dims) {
      return std::make_shared<const Tensor>(DType::kF32, std::move(dims));
    };
    const auto y = GetEvaluator()->Eval(back, {zeros({2 * n, bind.at("m")}), zeros({n / 2 + 1})});
    std::vector<int64_t> want;
    const Shape dims = g.outputs[0].node->attrs.dict.at("dims").get<Shape>();
    for (const SymInt d : dims.dims()) want.push_back(Evaluate(d, bind));
    for (size_t i = 0; i < want.size(); ++i) CHECK(y[0]->at_int(int64_t(i)) == want[i]);
    CHECK(y[1]->Equals(*Tensor::Ints({2, 3})));
  }
  // A symbol that stands for an element of an input.
  Graph element = ApplyPasses(ParseGraph(R"(weft 1
graph (%k: i32[2]) -> (%s) {
  %s = weft::ShapeTensor() {dims = shape[u1 + 1, u0]}
})"),
                              {"InferType", "InferShape"});
  auto& followed = element.MutableAttr<EntryMap<SymTensorPtr>>("value");
  followed.set(element.inputs()[0], std::make_shared<SymTensor>(SymTensor{
                                        {2}, {SymInt::Unbacked(0), SymInt::Unbacked(1)}}));
  const Graph told = ImportOnnxBytes(BytesOf(Exported(element)));
  const auto k = std::make_shared<Tensor>(DType::kI32, std::vector<int64_t>{2});
  k->set_int(0, 4), k->set_int(1, 2);
  CHECK(GetEvaluator()->Eval(told, {k})[0]->Equals(*Tensor::Ints({3, 4})));
  // What only the reader of an extent determines is not known before.
  const Graph late = ParseGraph(R"(weft 1
graph (%x: f32[6]) -> (%y) {
  %s = weft::ShapeTensor() {dims = shape[u0]} : i64[1]
  %y = Expand(%x, %s) : f32[u0]
})");
  CHECK(ErrorOfExport(late).code() == ErrorCode::kUnsupported);
  // No extent tells k.
  const Graph no = ParseGraph(R"(weft 1
graph (%x: f32[n]) -> (%s) {
  %s = weft::ShapeTensor() {dims = shape[k]}
})");
  const Error e = ErrorOfExport(no);
  CHECK(e.code() == ErrorCode::kUnsupported);
  CHECK(Says(e, "'k'"));
}

TEST_CASE("a size that a node inside of a kernel determines is read there") {
  const Graph g = ParseGraph(R"(weft 1
graph (%x: f32[n, 4], %p: i64[4]) -> (%z) {
  %z = weft::Fused(%x, %p) body (%a: f32[n, 4], %q: i64[4]) -> (%y) {
    %b = Pad(%a, %q) : f32[u0, u1]
    %c = weft::ShapeTensor() {dims = shape[1, u0, u1]} : i64[3]
    %e = Reshape(%b, %c) {allowzero = 1} : f32[1, u0, u1]
    %y = Reshape(%e, %c) {allowzero = 1} : f32[1, u0, u1]
  } : f32[1, u0, u1]
})");
  const pb::ModelProto model = Exported(g);
  REQUIRE(model.functions_size() == 1);
  CHECK(model.functions(0).input_size() == 2);  // no operand for u0 and u1
  int shapes = 0;
  for (const auto& n : model.functions(0).node()) shapes += n.op_type() == "Shape";
  CHECK(shapes == 2);
}

TEST_CASE("Weft's own operators become functions of ONNX's") {
  const char* graphs[] = {
      "graph (%x: f32[2, 3, n], %l: f32[3, 1]) -> (%y) {\n  %y = weft::SumTo(%x, %l)\n}",
      "graph (%x: f32[2, 3, n], %l: f32[]) -> (%y) {\n  %y = weft::SumTo(%x, %l)\n}",
      "graph (%x: f32[n, 3, 4]) -> (%y) {\n  %y = weft::ChannelSum(%x)\n}",
      "graph (%d: f32[2, 4], %b: f32[3, 4], %s: i64[2] param = [2, 3]) -> (%y) {\n"
      "  %y = weft::MatMulGrad(%d, %b, %s) {of = 0}\n}",
      "graph (%d: f32[5], %a: f32[5, 3], %s: i64[1] param = [3]) -> (%y) {\n"
      "  %y = weft::MatMulGrad(%d, %a, %s) {of = 1}\n}",
      "graph (%d: f32[2, 4, 3], %x: f32[2, 4, 7], %s: i64[3] param = [4, 2, 3]) -> (%y) {\n"
      "  %y = weft::ConvGradWeight(%d, %x, %s) {group = 2, strides = [2]}\n}",
      "graph (%x: f32[n, 3, 4], %a: i64[2] param = [0, 2]) -> (%m, %v, %e) {\n"
      "  %m, %v, %e = weft::Moments(%x, %a)\n}",
      "graph (%x: f16[n, 6], %a: i64[1] param = [-1]) -> (%m, %v, %e) {\n"
      "  %m, %v, %e = weft::Moments(%x, %a)\n}",
      "graph (%x: f32[n, 3], %m: f32[n, 1], %v: f32[n, 1], %s: f32[3], %b: f32[1]) -> (%y) {\n"
      "  %y = weft::Normalize(%x, %m, %v, %s, %b) {epsilon = 0.125}\n}",
      "graph (%x: f32[n, 3], %m: f32[n, 1], %v: f32[n, 1], %s: f32[3], %b: f32[1], %e: f32[n, 1]) "
      "-> (%y) {\n"
      "  %y = weft::Normalize(%x, %m, %v, %s, %b, %e) {epsilon = 0.125}\n}",
      "graph (%x: f16[n, 3], %k: i64[] param = [7]) -> (%y) {\n  %y = weft::DivideCount(%x, %k)\n}",
      "graph (%t: i32[n, 2], %k: i64[] param = [4]) -> (%y) {\n"
      "  %y = weft::ClassMask(%t, %k) {ignore_index = 2}\n}",
      "graph (%t: i64[n], %k: i64[] param = [3]) -> (%y) {\n  %y = weft::ClassMask(%t, %k) {axis = "
      "0}\n}",
      "graph (%t: i64[n, 2], %w: f32[4]) -> (%y) {\n"
      "  %y = weft::ClassWeight(%t, %w) {ignore_index = 1}\n}",
      "graph (%t: i32[n], %w: f32[4]) -> (%y) {\n  %y = weft::ClassWeight(%t, %w)\n}",
      "graph (%q: f32[n, 3], %k: f32[4, 3], %v: f32[4, 2]) -> (%y) {\n"
      "  %y = weft::Attention(%q, %k, %v)\n}",
      "graph (%q: f32[n, 2, 3], %k: f32[4, 2, 3], %v: f32[2, 4, 5], %m: f32[4]) -> (%y) {\n"
      "  %y = weft::Attention(%q, %k, %v, %m) {scale = 0.5, q_perm = [1, 0, 2], k_perm = [1, 0, "
      "2], y_perm = [1, 0, 2]}\n}",
      "graph (%q: f32[n, 3], %k: f32[4, 3], %v: f32[4, 2], %m: f32[n, 4]) -> (%y) {\n"
      "  %y = weft::Attention(%q, %k, %v, %m) {safe = 1}\n}",
      "graph (%a: f32[n, 2, 3], %b: f32[4, 3]) -> (%y) {\n"
      "  %y = weft::TransposedMatMul(%a, %b) {a_perm = [1, 0, 2], b_perm = [1, 0]}\n}",
      "graph (%a: f32[3, n], %b: f32[3]) -> (%y) {\n"
      "  %y = weft::TransposedMatMul(%a, %b) {a_perm = [1, 0]}\n}",
  };
  for (const char* text : graphs) {
    CAPTURE(text);
    const Graph g = ParseGraph(std::string("weft 1\n") + text);
    const pb::ModelProto model = Exported(g);
    CHECK(model.functions_size() == 1);
    CheckEqual(g, ImportOnnxBytes(BytesOf(model)), {{"n", 5}});
  }
}

TEST_CASE("gradients of what is taken at known places are Pads, others scatters") {
  struct Form {
    const char* text;
    bool is_pad;
  };
  const Form forms[] = {
      {"graph (%d: f32[2, 3], %s: i64[2] param = [5, 3], %b: i64[1] param = [1], %e: i64[1] param "
       "= [3]) -> (%y) {\n  %y = weft::SliceGrad(%d, %s, %b, %e)\n}",
       true},
      {"graph (%d: f32[3, 2], %s: i64[2] param = [3, 5], %b: i32[1] param = [-3], %e: i32[1] param "
       "= [-1], %a: i32[1] param = [-1]) -> (%y) {\n  %y = weft::SliceGrad(%d, %s, %b, %e, %a)\n}",
       true},
      {"graph (%d: f64[4], %x: f64[n], %b: i64[1] param = [-4], %e: i64[1] param = "
       "[9223372036854775807]) -> (%y) {\n  %s = Shape(%x)\n"
       "  %y = weft::SliceGrad(%d, %s, %b, %e)\n}",
       true},
      {"graph (%d: f32[2, n], %x: f32[6, n], %b: i64[1] param = [3], %e: i64[1] param = [5]) -> "
       "(%y) {\n  %s = Shape(%x)\n  %y = weft::SliceGrad(%d, %s, %b, %e)\n}",
       true},
      {"graph (%d: f32[n], %x: f32[n, 7], %i: i64[] param = [-2]) -> (%y) {\n  %s = Shape(%x)\n"
       "  %y = weft::GatherGrad(%d, %s, %i) {axis = 1}\n}",
       true},
      {"graph (%d: f32[1, n], %x: f32[7, n], %i: i64[1] param = [4]) -> (%y) {\n  %s = Shape(%x)\n"
       "  %y = weft::GatherGrad(%d, %s, %i) {axis = -2}\n}",
       true},
      {"graph (%d: f32[2], %s: i64[1] param = [5], %b: i64[1] param = [0], %e: i64[1] param = [4], "
       "%a: i64[1] param = [0], %t: i64[1] param = [2]) -> (%y) {\n"
       "  %y = weft::SliceGrad(%d, %s, %b, %e, %a, %t)\n}",
       false},
      {"graph (%d: f32[2], %s: i64[1] param = [5], %i: i64[2] param = [3, 3]) -> (%y) {\n"
       "  %y = weft::GatherGrad(%d, %s, %i)\n}",
       false},
  };
  for (const Form& f : forms) {
    CAPTURE(f.text);
    const Graph g = ParseGraph(std::string("weft 1\n") + f.text);
    const pb::ModelProto model = Exported(g);
    const std::string text = TextOf(model);
    CHECK((text.find("ScatterElements") == std::string::npos) == f.is_pad);
    for (const int64_t n : {4, 9}) CheckEqual(g, ImportOnnxBytes(BytesOf(model)), {{"n", n}});
  }
}

TEST_CASE("normalisations of every dtype: ONNX infers their types, results stay equal") {
  const char* bodies[] = {
      "%x: T[n, 6, 5, 2], %s: T[6], %b: T[6]) -> (%y) {\n"
      "  %y = GroupNormalization(%x, %s, %b) {num_groups = 3, epsilon = 0.25}",
      "%x: T[n, 6, 5], %s: T[6], %b: T[6]) -> (%y) {\n"
      "  %y = GroupNormalization(%x, %s, %b) {num_groups = 2, stash_type = 11}",
      "%x: T[n, 6], %s: f32[6], %b: f32[6]) -> (%y) {\n"
      "  %y = GroupNormalization(%x, %s, %b) {num_groups = 2}",
      "%x: f32[n, 6, 5], %s: T[6], %b: T[6]) -> (%y) {\n"
      "  %y = GroupNormalization(%x, %s, %b) {num_groups = 6}",
      "%x: T[n, 6, 5, 2]) -> (%y) {\n  %y = MeanVarianceNormalization(%x)",
      "%x: T[n, 6, 5]) -> (%y) {\n  %y = MeanVarianceNormalization(%x) {axes = [-1, 0]}",
      "%x: T[n, 6]) -> (%y) {\n  %y = MeanVarianceNormalization(%x) {axes = []}",
      "%x: T[n, 6, 5], %s: T[6], %b: T[6]) -> (%y) {\n"
      "  %y = InstanceNormalization(%x, %s, %b)",
      "%x: T[n, 6], %s: T[6]) -> (%y) {\n  %y, %m, %i = LayerNormalization(%x, %s)",
      "%x: T[n, 6], %s: T[6]) -> (%y) {\n  %y = RMSNormalization(%x, %s)",
  };
  for (const char* body : bodies)
    for (const char* type : {"f32", "f16", "bf16", "f64"}) {
      std::string text = std::string("weft 1\ngraph (") + body + "\n}";
      for (size_t at; (at = text.find("T[")) != std::string::npos;) text.replace(at, 1, type);
      CAPTURE(text);
      const Graph g = ParseGraph(text);
      // As it is, as Weft's own operators, and inside of a kernel.
      for (const char* passes : {"InferShape", "Simplify", "Fusion"}) {
        CAPTURE(std::string(passes));
        const pb::ModelProto model = Exported(ApplyPasses(g, passes));
        CHECK_NOTHROW(pb::checker::check_model(model, true));
        CheckEqual(g, ImportOnnxBytes(BytesOf(model)), {{"n", 3}});
      }
    }
}

TEST_CASE("operands of two types where ONNX has one are no model of ONNX's") {
  const Error e =
      ErrorOfExport(ParseGraph("weft 1\ngraph (%x: f32[n, 3], %s: i64[2], %e: i32[2]) -> (%y) {\n"
                               "  %y = Slice(%x, %s, %e)\n}"));
  CHECK(e.code() == ErrorCode::kUnsupported);
  CHECK(Says(e, "does not take"));
}

TEST_CASE("operator sets: the oldest that says the same, but not older than the source") {
  const auto version = [](const char* text, bool keeps_source = false) {
    Graph g = ImportText(text);
    if (!keeps_source) g.DropAttr(ModelSource::kAttr);
    return Exported(g).opset_import(0).version();
  };
  CHECK(version("g (float[N] x) => (float[N] y) { y = Relu(x) }", true) == 21);
  CHECK(version("g (float[1, 1, 5] x) => (float[1, 1, 3] y) { y = MaxPool<kernel_shape = [2], "
                "strides = [2],"
                " ceil_mode = 1>(x) }",
                true) == 22);
  CHECK(version("g (float[N] x) => (float[N] y) { y = Relu(x) }") == 17);
  CHECK(version("g (float[N, 4] x) => (float[N] y) { a = Constant<value = int64[1] {1}>()"
                "  y = ReduceMean<keepdims = 0>(x, a) }") == 17);  // the axes are an attribute
  CHECK(version("g (float[N, 4] x) => (float[a, b] y) { y = ReduceMax(x) }") == 17);
  CHECK(version("g (float[N, 4] x, int64[1] a) => (float[N] y) {"
                "  y = ReduceMean<keepdims = 0>(x, a) }") == 18);
  CHECK(version("g (float[1, 1, 5] x) => (float[1, 1, 3] y) { y = MaxPool<kernel_shape = [2], "
                "strides = [2],"
                " ceil_mode = 1>(x) }") == 22);
  CHECK(version("g (float[N] x) => (bfloat16[N] y) { t = Cast<to = 16>(x) y = Relu(t) }") == 17);
}

TEST_CASE("sequences and optionals keep their type") {
  Graph g;
  const NodeEntry x(g.AddInput("x", Type(TypeKind::kSequence, DType::kF32)));
  g.outputs = {MakeNode("Identity", "y", {x})};
  TypeMap types;
  types.set(x, Type(TypeKind::kSequence, DType::kF32));
  types.set(g.outputs[0], Type(TypeKind::kSequence, DType::kF32));
  g.SetAttr("dtype", types);
  g.SetAttr("shape", ShapeMap());
  const pb::ModelProto model = Exported(g);
  CHECK(model.graph().input(0).type().sequence_type().elem_type().tensor_type().elem_type() == 1);
  CHECK(PrintGraph(ImportOnnxBytes(BytesOf(model))).find("seq(f32)") != std::string::npos);
}

TEST_CASE("metadata and the graph's name are kept, derived attributes left out") {
  Graph g = ImportText("net (float[2] x) => (float[2] y) { y = Relu(x) }");
  SetMetadata(&g, {{"character", "a\nb"}, {"z", ""}});
  const pb::ModelProto model = Exported(ApplyPasses(g, {"Schedule"}));
  REQUIRE(model.metadata_props_size() == 2);
  const Graph back = ImportOnnxBytes(BytesOf(model));
  CHECK(Metadata(back) == Metadata(g));
  CHECK(back.name() == "net");
  CHECK(PrintGraph(ParseGraph(PrintGraph(back))) == PrintGraph(back));
}

TEST_CASE("graphs inside of nodes read the values around them by name") {
  const auto model = ModelOf(R"(<ir_version: 9, opset_import: ["" : 20, "onnxtest" : 1]>
    g (bool c, float[2] z) => (float[2] y) {
      t = Exp(z)
      [branch] y = onnxtest.Branch(c) <
        else_branch = b () => (float[2] q) { q = Add(z, t) },
        then_branch = a () => (float[2] p) { p = Neg(t) }> })");
  const Graph g = ImportOnnxBytes(BytesOf(model));
  CHECK(ErrorOfExport(g).code() == ErrorCode::kUnsupported);
  ExportOptions options;
  options.allow_custom_ops = true;
  // The dtype of what this operator gives is not known to anybody.
  Graph typed = ApplyPasses(g, {"InferType", "InferShape"});
  TypeMap types = typed.GetAttr<TypeMap>("dtype");
  types.set(typed.outputs[0], DType::kF32);
  typed.SetAttr("dtype", types);
  const pb::ModelProto out = Parsed(ExportOnnxBytes(typed, options));
  CHECK(PrintGraph(ImportOnnxBytes(BytesOf(out))) == PrintGraph(g));
}

TEST_CASE("large tensors go to a file beside the model") {
  const e2e::TempFolder folder;
  const std::string dir = folder.path();
  Graph h;
  h.set_name("h");
  const NodeEntry x(h.AddInput("x", DType::kF32, Shape{SymInt::Symbol("N"), SymInt(40)}));
  const auto w = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{40, 30});
  for (int64_t i = 0; i < 1200; ++i) w->set(i, double(i));
  const NodeEntry a = MakeNode("MatMul", "a", {x, NodeEntry(h.AddParam("w", w))});
  const NodeEntry b = MakeNode("MatMul", "b", {x, NodeEntry(h.AddParam("v", w))});
  h.outputs = {MakeNode("Add", "y", {a, b})};
  const std::string path = dir + "/m.onnx";
  ExportOptions options;
  options.external = ExportOptions::External::kAlways;
  ExportOnnx(h, path, options);
  CHECK(std::filesystem::file_size(path + ".data") == 8192 + 4800);
  CHECK(PrintGraph(ImportOnnx(path)) == PrintGraph(h));
  ExportOnnx(h, path, options);  // over the old pair
  CheckEqual(h, ImportOnnx(path), {{"N", 2}});
  size_t files = 0;
  for (const auto& f : std::filesystem::directory_iterator(dir)) files += f.exists();
  CHECK(files == 2);  // no temporary is left
  options.external = ExportOptions::External::kAuto;
  ExportOnnx(h, dir + "/one.onnx", options);
  CHECK(!FileExists(dir + "/one.onnx.data"));
  CHECK(ReadFile(dir + "/one.onnx") == ExportOnnxBytes(h));
  CHECK(PrintGraph(ImportOnnx(dir + "/one.onnx")) == PrintGraph(h));
  // As engines read it.
  WriteAsOnnxFile(h, dir + "/engine.onnx");
  const Graph read = ImportOnnx(dir + "/engine.onnx");
  CHECK(std::filesystem::file_size(dir + "/engine.onnx.data") == 8192 + 4800);
  CHECK(read.inputs().at(0)->attrs.name == "x0");
  CHECK(read.OutputName(0) == "y0");
  CheckEqual(h, read, {{"N", 2}});
  CHECK_THROWS_AS(ExportOnnx(h, dir + "/none/m.onnx", options), UserError);
}

TEST_CASE("a file has the bytes that ExportOnnxBytes gives, whatever is streamed into it") {
  const e2e::TempFolder folder;
  const std::string path = folder.path() + "/m.onnx";
  Graph g;
  g.set_name("streamed");
  SetMetadata(&g, {{"author", "nobody"}, {"long", std::string(300, 'x')}});
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape{SymInt::Symbol("N"), SymInt(70)}));
  NodeEntry y = x;
  for (int64_t rows : {70, 1, 70}) {  // 19,600 bytes, 280, 19,600: large and small in turn
    const auto w = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{rows, 70});
    for (int64_t i = 0; i < w->num_elements(); ++i) w->set(i, double(i % 7));
    const NodeEntry p(g.AddParam("w" + std::to_string(g.id_bound()), w));
    y = MakeNode(rows == 1 ? "Mul" : "MatMul", "", {y, p});
  }
  g.outputs = {MakeNode("Exp", "", {MakeNode("Neg", "", {y})})};
  const Graph fused = ApplyPasses(g, {"InferType", "InferShape", "Fusion"});
  for (const Graph* graph : std::initializer_list<const Graph*>{&g, &fused}) {
    for (const int64_t bytes : {int64_t{0}, int64_t{4096}, int64_t{1} << 30}) {
      ExportOptions options;
      options.external_bytes = bytes;
      ExportOnnx(*graph, path, options);
      CHECK(ReadFile(path) == ExportOnnxBytes(*graph, options));
      CHECK(Parsed(ReadFile(path)).graph().initializer_size() == 3);
    }
  }
}

TEST_CASE("what has no form is listed") {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape{SymInt(2)}));
  const NodeEntry a = MakeNode("weft::Assign", "first", {x, x});
  const NodeEntry b = MakeNode("weft::Assign", "second", {x, a});
  g.outputs = {b};
  const Error e = ErrorOfExport(g);
  CHECK(e.code() == ErrorCode::kUnsupported);
  CHECK(Says(e, "first"));
  CHECK(Says(e, "second"));
}

}  // namespace
}  // namespace weft::onnx_import
