/// model.h: models and programs from files of every format (weft/api/format.h), and graphs into
/// them.
#pragma once

#include <string>
#include <string_view>

#include "weft/api/format.h"
#include "weft/onnx/import.h"
#include "weft/runtime/program/program.h"

namespace weft {

/// Types and shapes of results are inferred, never taken from the file: they would be claims of an
/// unknown author. Throws kIo, kLimit, kUnsupported for a compiled program, and what the format's
/// reader throws. `options` beyond the limits concerns ONNX models.
WEFT_API Graph LoadModel(const std::string& path, const ImportOptions& options = {});
/// From bytes; external data is refused unless `options.external_data_dir` names its folder.
WEFT_API Graph LoadModelBytes(std::string_view bytes, const ModelFormat& format,
                              const ImportOptions& options = {});
/// Into a file of the format that its extension names. Throws kUsage where graphs are not written
/// in it, kIo, and what the format's writer throws.
WEFT_API void WriteModel(const Graph& graph, const std::string& path,
                         const WriteOptions& options = {});

/// Loads a compiled program, or loads and compiles a model. For a compiled program of `options` the
/// backend (empty: the program's own) and threads count; `import` gives the limits of both.
WEFT_API std::shared_ptr<const Program> OpenProgram(const std::string& path,
                                                    const CompileOptions& options = {},
                                                    const ImportOptions& import = {});

}  // namespace weft
