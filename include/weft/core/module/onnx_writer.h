/// onnx_writer.h: graphs as ONNX models for who may not know the room that writes them: engines
/// that read nothing else.
#pragma once

#include <string>

#include "weft/core/graph/graph.h"

namespace weft {

/// A serialized ModelProto. Throws kUnsupported naming the nodes that have no ONNX form.
using OnnxWriter = std::string (*)(const Graph& graph);
/// Always true, for the static initialiser of the room that writes.
WEFT_API bool SetOnnxWriter(OnnxWriter writer);
/// Its inputs and outputs named x0, x1 .., y0, y1 .. in their order. Throws what the writer throws;
/// kUnsupported where none is linked.
WEFT_API std::string WriteAsOnnx(const Graph& graph);

}  // namespace weft
