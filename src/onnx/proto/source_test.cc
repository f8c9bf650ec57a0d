/// source_test.cc: what a graph remembers of its file survives the other formats.
#include "source.h"

#include "onnx_test_util.h"
#include "weft/core/json/json.h"
#include "weft/onnx/export.h"
#include "weft/support/strings.h"

namespace weft::onnx_import {
namespace {

Graph Imported() {
  return ImportOnnxBytes(BytesOf(ModelOf(R"(
      <ir_version: 7, opset_import: ["" : 13]>
      g (float["batch size", 2] x) => (float["batch size", "a, \"b\""] y, float[n] z)
        <float["batch size", 2] h> { [first] h = Relu(x)  y = Neg(h)  z = ReduceSum<keepdims = 0>(h) })")));
}

TEST_CASE("text and JSON keep what export restores") {
  const Graph g = Imported();
  const std::string bytes = ExportOnnxBytes(g);
  PrintOptions all;
  all.hidden_attributes = true;
  const std::string text = PrintGraph(g, all);
  CHECK(ExportOnnxBytes(ParseGraph(text)) == bytes);
  CHECK(ExportOnnxBytes(LoadJson(SaveJson(g))) == bytes);
  const ModelSource& source = g.GetAttr<ModelSource>(ModelSource::kAttr);
  CHECK(ParseGraph(text).GetAttr<ModelSource>(ModelSource::kAttr) == source);
  CHECK(source.opset == 13);
  CHECK(source.dims.at("batch_size") == "batch size");
  CHECK(source.value_infos == std::set<std::string>{"h"});
}

TEST_CASE("a list that ends too early is refused") {
  for (const char* outputs : {R"(["y"])", R"(["y", "2", "a"])", R"(["y", "many"])"}) {
    CAPTURE(outputs);
    const std::string text =
        "weft 1\ngraph (%x: f32[2]) -> (%x) {\n}\n#onnx_source = " +
        Quote(std::string("opset = 13, ir_version = 7, outputs = ") + outputs) + "\n";
    bool threw = false;
    try {
      ParseGraph(text);
    } catch (const Error& e) {
      threw = e.code() == ErrorCode::kSyntax;
    }
    CHECK(threw);
  }
}

}  // namespace
}  // namespace weft::onnx_import
