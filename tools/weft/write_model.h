/// write_model.h: graphs into files, by their extension.
#pragma once

#include <string>

#include "weft/core/graph/graph.h"
#include "weft/support/limits.h"

namespace weft::tool {

/// Throws kUsage where no format that graphs are written in has that extension.
void CheckWritable(const std::string& path);
/// Writes .weft, .onnx or .json. `elide`: a .weft file without its large tensors.
void WriteModel(const Graph& graph, const std::string& path, const Limits& limits, bool elide);

}  // namespace weft::tool
