/// model_test.cc: formats by extension, and what each refuses.
#include "weft/api/model.h"

#include <doctest/doctest.h>

#include <cstdio>

#include "tests/support/code_of.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/json/json.h"
#include "weft/core/text/text.h"
#include "weft/support/file.h"

namespace weft {
namespace {

TEST_CASE("the extension names the format, in any case") {
  CHECK(FormatOfPath("a/b.onnx").name == "onnx");
  CHECK(FormatOfPath("B.ONNX").name == "onnx");
  CHECK(FormatOfPath("a.weft").name == "weft");
  CHECK(FormatOfPath("a.json").name == "json");
  CHECK(FormatOfPath("a.weftx").name == "weftx");
  CHECK(CodeOf([] { FormatOfPath("a.pt"); }) == ErrorCode::kUsage);
  CHECK(CodeOf([] { FormatOfPath("onnx"); }) == ErrorCode::kUsage);
  CHECK(FormatOfPath("A.PbTxt").name == "pbtxt");
  CHECK(CodeOf([] { FormatOfPath("textproto"); }) == ErrorCode::kUsage);
  CHECK(CodeOf([] { FormatOfPath("a.textproto.bak"); }) == ErrorCode::kUsage);
}

TEST_CASE("a missing file and a compiled program are no models") {
  CHECK(CodeOf([] { LoadModel("/nonexistent/a.onnx"); }) == ErrorCode::kIo);
  CHECK(CodeOf([] { LoadModelBytes("WEFTX", GetModelFormat("weftx")); }) ==
        ErrorCode::kUnsupported);
}

TEST_CASE("text and JSON from bytes are the same graph; a wrong format says where") {
  const char* text = "weft 1\ngraph (%x: f32[n]) -> (%y) {\n  %y = Relu(%x) : ?\n}\n";
  const Graph g = LoadModelBytes(text, GetModelFormat("weft"));
  const Graph again = LoadModelBytes(SaveJson(g), GetModelFormat("json"));
  CHECK(PrintGraph(g) == PrintGraph(again));
  try {
    LoadModelBytes("{", GetModelFormat("json"));
    FAIL("not refused");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kSyntax);
    CHECK(std::string(e.what()).find("<bytes>") != std::string::npos);
  }
}

TEST_CASE("what a file says of its results is not believed, in fused bodies neither") {
  const char* text =
      "weft 1\ngraph (%x: f32[4]) -> (%y) {\n"
      "  %y = weft::Fused(%x) body (%0: f32[4]) -> (%e) {\n"
      "    %e = Exp(%0) : f32[4000000]\n  } : f32[4000000]\n}\n";
  for (const bool json : {false, true}) {
    Graph g = json ? LoadModelBytes(SaveJson(ParseGraph(text)), GetModelFormat("json"))
                   : LoadModelBytes(text, GetModelFormat("weft"));
    CompileOptions options;
    options.backend = "ref";
    const TensorPtr x = Tensor::FromDoubles(DType::kF32, {4}, {0, 1, 2, 3});
    CHECK(Session(Compile(std::move(g), options)).Run({x})[0]->num_elements() == 4);
  }
}

TEST_CASE("sizes that a pass wrote down follow the numbers that they get when a file is read") {
  // The size of the file's u0 is u2 in the graph: u1 is an input's.
  const char* text =
      "weft 1\ngraph (%x: f32[u1], %y: f32[n]) -> (%z, %i, %j) {\n"
      "  %i = NonZero(%x) : i64[1, u0]\n  %j = NonZero(%y) : i64[1, u2]\n"
      "  %s = weft::ShapeTensor() {dims = shape[u0, 2 * u2]} : i64[2]\n"
      "  %z = weft::Zeros(%s) {dtype = f32} : f32[u0, 2*u2]\n}\n"
      "#facts = \"u3 == 7; u2 in [0, 1]\"\n";
  for (const bool json : {false, true}) {
    CAPTURE(json);
    Graph g = json ? LoadModelBytes(SaveJson(ParseGraph(text)), GetModelFormat("json"))
                   : LoadModelBytes(text, GetModelFormat("weft"));
    CompileOptions options;
    options.backend = "ref";
    const TensorPtr x = Tensor::FromDoubles(DType::kF32, {4}, {1, 2, 0, 4}),
                    y = Tensor::FromDoubles(DType::kF32, {2}, {1, 1});
    CHECK(Session(Compile(std::move(g), options)).Run({x, y})[0]->dims() ==
          std::vector<int64_t>{3, 4});
  }
}

TEST_CASE("sizes that operands of a fused body tell are known in it when a file is read") {
  const Graph g = LoadModelBytes(
      "weft 1\ngraph (%x: f32[2, 6]) -> (%y) {\n"
      "  %p = Constant() {value = tensor i64[4] [0, 24, 0, 0]} : i64[4]\n"
      "  %a = weft::Fused(%x, %p) body (%0: f32[2, 6], %1: i64[4]) -> (%e) {\n"
      "    %s = Pad(%0, %1) : f32[2, 30]\n    %e = Sin(%s) : f32[2, 30]\n  } : f32[2, 30]\n"
      "  %q = Constant() {value = tensor i64[4] [0, 1, 0, 0]} : i64[4]\n"
      "  %y = weft::Fused(%a, %q) body (%0: f32[2, 30], %1: i64[4]) -> (%e) {\n"
      "    %s = Pad(%0, %1) : f32[2, 31]\n    %e = Tanh(%s) : f32[2, 31]\n  } : f32[2, 31]\n}\n",
      GetModelFormat("weft"));
  // Behind another one, whose result hangs on what its own operands tell.
  const NodePtr last = g.outputs[0].node;
  for (const auto& [n, shape] :
       {std::pair{last->inputs[0].node, "[2, 30]"}, std::pair{last, "[2, 31]"}}) {
    const Graph& body = *n->attr<GraphPtr>("body");
    CHECK(body.GetAttr<ShapeMap>("shape")[body.outputs[0]].ToString() == shape);
  }
}

TEST_CASE("nested bodies end at a depth that the stack holds, whatever the limit says") {
  std::string text = "weft 1\ngraph ";
  for (int i = 0; i < 100000; ++i) text += "(%x: f32[4]) -> (%y) {\n%y = weft::Fused(%x) body ";
  ImportOptions options;
  for (const int64_t depth : {int64_t{1} << 20, int64_t{1} << 40}) {
    options.limits.depth = depth;
    CHECK(CodeOf([&] { LoadModelBytes(text, GetModelFormat("weft"), options); }) ==
          ErrorCode::kLimit);
  }
}

TEST_CASE("a program is opened from any format") {
  const std::string path = "/tmp/weft_model_test.weft";
  WriteFileAtomic(path, "weft 1\ngraph (%x: f32[n]) -> (%y) {\n  %y = Relu(%x) : ?\n}\n");
  CompileOptions options;
  options.backend = "ref";
  const auto program = OpenProgram(path, options);
  const TensorPtr x = Tensor::FromDoubles(DType::kF32, {3}, {-1, 0, 2});
  CHECK(Session(program).Run({x})[0]->at(2) == 2);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace weft
