/// onnx_writer.h: graphs as ONNX models for who may not know the room that writes them: engines
/// that read nothing else.
#pragma once

#include <string>

#include "weft/core/graph/graph.h"

namespace weft {

/// What the room that writes gives. Both throw kUnsupported naming the nodes without an ONNX form.
struct OnnxWriter {
  /// A serialized ModelProto.
  std::string (*bytes)(const Graph& graph) = nullptr;
  /// The same as a file, with the bytes of large tensors in another one beside it.
  void (*file)(const Graph& graph, const std::string& path) = nullptr;
};
/// Always true, for the static initialiser of the room that writes.
WEFT_API bool SetOnnxWriter(OnnxWriter writer);
/// Its inputs and outputs named x0, x1 .., y0, y1 .. in their order. Throws what the writer throws;
/// kUnsupported where none is linked.
WEFT_API std::string WriteAsOnnx(const Graph& graph);
/// The same as a file; where the graph has large tensors, another one beside it holds them.
WEFT_API void WriteAsOnnxFile(const Graph& graph, const std::string& path);

}  // namespace weft
