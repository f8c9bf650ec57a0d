/// write_model.cc: see write_model.h.
#include "write_model.h"

#include "weft/core/json/json.h"
#include "weft/core/text/text.h"
#include "weft/onnx/export.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft::tool {

void CheckWritable(const std::string& path) {
  const std::string name = ToLower(path);
  if (EndsWith(name, ".weft") || EndsWith(name, ".onnx") || EndsWith(name, ".json")) return;
  ThrowError(ErrorCode::kUsage, fmt::format("cannot write '{}'", path), "",
             "graphs are written as .weft, .onnx or .json");
}

void WriteModel(const Graph& graph, const std::string& path, const Limits& limits, bool elide) {
  CheckWritable(path);
  const std::string name = ToLower(path);
  if (EndsWith(name, ".onnx")) {
    ExportOptions options;
    options.limits = limits;
    return ExportOnnx(graph, path, options);
  }
  if (EndsWith(name, ".json")) return WriteFileAtomic(path, SaveJson(graph));
  PrintOptions print;
  print.inline_all = !elide;  // a file is complete, so that it can be read back
  WriteFileAtomic(path, PrintGraph(graph, print));
}

}  // namespace weft::tool
