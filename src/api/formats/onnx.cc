/// onnx.cc: models of the ONNX standard.
#include "weft/api/format.h"
#include "weft/onnx/export.h"

namespace weft {
namespace {

void WriteOnnx(const Graph& graph, const std::string& path, const WriteOptions& given) {
  ExportOptions options;
  if (given.as_read) options.value_info = ExportOptions::ValueInfo::kDeclared;
  options.limits = given.limits;
  ExportOnnx(graph, path, options);
}

[[maybe_unused]] const bool registered[] = {
    RegisterModelFormat(
        {"onnx", "ONNX model, external data beside it", ImportOnnxBytes, ImportOnnx, WriteOnnx}),
    RegisterModelFormat({"pb", "the same", ImportOnnxBytes, ImportOnnx, WriteOnnx}),
};

}  // namespace
}  // namespace weft
