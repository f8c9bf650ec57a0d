/// model.h: models and programs from files of every format: the one place that knows extensions.
///
///   .onnx   ONNX model                          LoadModel, OpenProgram
///   .weft   text form                           LoadModel, OpenProgram
///   .json   SaveJSON's form                     LoadModel, OpenProgram
///   .weftx  compiled program (saved_program.h)  OpenProgram
#pragma once

#include <string>
#include <string_view>

#include "weft/onnx/import.h"
#include "weft/runtime/program/program.h"

namespace weft {

enum class ModelFormat { kOnnx, kText, kJson, kProgram };

/// By the path's extension, in any case. Throws kUsage, naming the known ones.
WEFT_API ModelFormat FormatOfPath(const std::string& path);

/// Types and shapes of results are inferred, never taken from the file: they would be claims of an
/// unknown author. Throws kIo, kLimit, kUnsupported for a compiled program, and what the format's
/// reader throws. `options` beyond the limits concerns ONNX models.
WEFT_API Graph LoadModel(const std::string& path, const ImportOptions& options = {});
/// From bytes; external data is refused unless `options.external_data_dir` names its folder.
WEFT_API Graph LoadModelBytes(std::string_view bytes, ModelFormat format,
                              const ImportOptions& options = {});

/// Loads a compiled program, or loads and compiles a model. For a compiled program of `options` the
/// backend (empty: the program's own) and threads count; `import` gives the limits of both.
WEFT_API std::shared_ptr<const Program> OpenProgram(const std::string& path,
                                                    const CompileOptions& options = {},
                                                    const ImportOptions& import = {});

}  // namespace weft
