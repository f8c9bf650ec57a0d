/// onnx_writer.cc: see onnx_writer.h.
#include "weft/core/module/onnx_writer.h"

#include "weft/support/check.h"

namespace weft {
namespace {

OnnxWriter& Writer() {
  static OnnxWriter writer = nullptr;
  return writer;
}

}  // namespace

bool SetOnnxWriter(OnnxWriter writer) {
  Writer() = writer;
  return true;
}

std::string WriteAsOnnx(const Graph& graph) {
  WEFT_CHECK(Writer(), kUnsupported, "this build writes no ONNX");
  Graph named = graph;
  for (size_t i = 0; i < named.inputs().size(); ++i)
    named.inputs()[i]->attrs.name = "x" + std::to_string(i);
  for (size_t i = 0; i < named.outputs.size(); ++i) named.SetOutputName(i, "y" + std::to_string(i));
  return Writer()(named);
}

}  // namespace weft
