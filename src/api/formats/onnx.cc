/// onnx.cc: models of the ONNX standard.
#include "weft/api/format.h"
#include "weft/onnx/export.h"

namespace weft {
namespace {

[[maybe_unused]] const bool registered = RegisterModelFormat(
    {"onnx", "ONNX model, external data beside it", ImportOnnxBytes, ImportOnnx,
     [](const Graph& graph, const std::string& path, const WriteOptions& given) {
       ExportOptions options;
       options.limits = given.limits;
       ExportOnnx(graph, path, options);
     }});

}  // namespace
}  // namespace weft
