/// onnx_writer.cc: see onnx_writer.h.
#include "weft/core/module/onnx_writer.h"

#include "weft/support/check.h"

namespace weft {
namespace {

OnnxWriter& Writer() {
  static OnnxWriter writer;
  return writer;
}

Graph Named(const Graph& graph) {
  WEFT_CHECK(Writer().bytes, kUnsupported, "this build writes no ONNX");
  Graph named = graph;
  for (size_t i = 0; i < named.inputs().size(); ++i)
    named.inputs()[i]->attrs.name = "x" + std::to_string(i);
  for (size_t i = 0; i < named.outputs.size(); ++i) named.SetOutputName(i, "y" + std::to_string(i));
  return named;
}

}  // namespace

bool SetOnnxWriter(OnnxWriter writer) {
  Writer() = writer;
  return true;
}

std::string WriteAsOnnx(const Graph& graph) { return Writer().bytes(Named(graph)); }

void WriteAsOnnxFile(const Graph& graph, const std::string& path) {
  Writer().file(Named(graph), path);
}

}  // namespace weft
