/// onnx.cc: models of the ONNX standard.
#include "weft/api/format.h"
#include "weft/onnx/export.h"
#include "weft/support/text_proto.h"

namespace weft {
namespace {

void WriteOnnx(const Graph& graph, const std::string& path, const WriteOptions& given) {
  ExportOptions options;
  if (given.as_read) options.value_info = ExportOptions::ValueInfo::kDeclared;
  options.limits = given.limits;
  ExportOnnx(graph, path, options);
}

Graph ReadText(std::string_view text, const ImportOptions& options) {
  return ImportOnnxBytes(BytesOfTextProto("ModelProto", text), options);
}

[[maybe_unused]] const bool registered[] = {
    RegisterModelFormat(
        {"onnx", "ONNX model, external data beside it", ImportOnnxBytes, ImportOnnx, WriteOnnx}),
    RegisterModelFormat({"pb", "the same", ImportOnnxBytes, ImportOnnx, WriteOnnx}),
    RegisterModelFormat(
        {"textproto", "the same in protobuf's text form", ReadText, ImportOnnx, WriteOnnx}),
    RegisterModelFormat({"pbtxt", "the same", ReadText, ImportOnnx, WriteOnnx}),
    RegisterModelFormat({"prototxt", "the same", ReadText, ImportOnnx, WriteOnnx}),
};

}  // namespace
}  // namespace weft
