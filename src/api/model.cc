/// model.cc: reads and writes models by their format.
#include "weft/api/model.h"

#include "weft/runtime/saved/saved_program.h"
#include "weft/support/check.h"
#include "weft/support/file.h"

namespace weft {

Graph LoadModelBytes(std::string_view bytes, const ModelFormat& format,
                     const ImportOptions& options) {
  ImportOptions named = options;
  if (named.source_name.empty()) named.source_name = "<bytes>";
  if (format.is_program())
    ThrowError(ErrorCode::kUnsupported,
               "a compiled program is to be run; the model that it was compiled from is not in it",
               named.source_name, "give the file of the model");
  return format.read(bytes, named);
}

Graph LoadModel(const std::string& path, const ImportOptions& options) {
  const ModelFormat& format = FormatOfPath(path);
  WEFT_CHECK(FileExists(path), kIo, "there is no file '{}'", path);
  if (format.read_file) return format.read_file(path, options);
  ImportOptions named = options;
  if (named.source_name.empty()) named.source_name = path;
  if (format.is_program()) return LoadModelBytes({}, format, named);
  return LoadModelBytes(ReadFile(path, options.limits.file_bytes), format, named);
}

void WriteModel(const Graph& graph, const std::string& path, const WriteOptions& options) {
  WritableFormat(path).write(graph, path, options);
}

std::shared_ptr<const Program> OpenProgram(const std::string& path, const CompileOptions& options,
                                           const ImportOptions& import) {
  if (!FormatOfPath(path).is_program()) return Compile(LoadModel(path, import), options);
  return LoadProgram(path, {options.backend, options.threads, import.limits, options.calls,
                            options.memory.budget});
}

}  // namespace weft
