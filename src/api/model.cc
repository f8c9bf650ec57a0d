/// model.cc: picks the reader of a format.
#include "weft/api/model.h"

#include <algorithm>
#include <climits>

#include "reinfer.h"
#include "weft/core/json/json.h"
#include "weft/core/text/text.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft {
ModelFormat FormatOfPath(const std::string& path) {
  const std::string name = ToLower(path);
  if (EndsWith(name, ".onnx")) return ModelFormat::kOnnx;
  if (EndsWith(name, ".weft")) return ModelFormat::kText;
  if (EndsWith(name, ".json")) return ModelFormat::kJson;
  if (EndsWith(name, ".weftx")) return ModelFormat::kProgram;
  ThrowError(ErrorCode::kUsage,
             fmt::format("'{}' has no extension that names a model format", path), "",
             "expected .onnx, .weft, .json or .weftx");
}

Graph LoadModelBytes(std::string_view bytes, ModelFormat format, const ImportOptions& options) {
  const std::string source = options.source_name.empty() ? "<bytes>" : options.source_name;
  switch (format) {
    case ModelFormat::kOnnx:
      return ImportOnnxBytes(bytes, options);
    case ModelFormat::kText: {
      ParseOptions parse;
      parse.source_name = source;
      parse.max_depth = int(std::min<int64_t>(options.limits.depth, INT_MAX));
      return Reinferred(ParseGraph(bytes, parse));
    }
    case ModelFormat::kJson: {
      JsonOptions load;
      load.source_name = source;
      load.limits = options.limits;
      return Reinferred(LoadJson(bytes, load));
    }
    case ModelFormat::kProgram:
      break;
  }
  ThrowError(ErrorCode::kUnsupported,
             "a compiled program is to be run; the model that it was compiled from is not in it",
             source, "give the model's .onnx, .weft or .json file");
}

Graph LoadModel(const std::string& path, const ImportOptions& options) {
  const ModelFormat format = FormatOfPath(path);
  WEFT_CHECK(FileExists(path), kIo, "there is no file '{}'", path);
  if (format == ModelFormat::kOnnx) return ImportOnnx(path, options);
  ImportOptions named = options;
  if (named.source_name.empty()) named.source_name = path;
  if (format == ModelFormat::kProgram) return LoadModelBytes({}, format, named);
  return LoadModelBytes(ReadFile(path, options.limits.file_bytes), format, named);
}

std::shared_ptr<const Program> OpenProgram(const std::string& path, const CompileOptions& options,
                                           const ImportOptions& import) {
  if (FormatOfPath(path) != ModelFormat::kProgram) return Compile(LoadModel(path, import), options);
  return LoadProgram(path, {options.backend, options.threads, import.limits, options.calls});
}

}  // namespace weft
