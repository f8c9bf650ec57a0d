/// onnxruntime.h: ONNX Runtime as an engine to compare with, where a Python has that package. It
/// runs in a process of its own; nothing of it is linked.
#pragma once

#include <string>
#include <vector>

#include "tensor_files.h"
#include "weft/core/graph/graph.h"

namespace weft::tool {

inline constexpr const char* kOnnxRuntime = "onnxruntime";

/// Outputs of the graph. `path`: the ONNX file that it was read from; empty: it is exported. The
/// interpreter is $WEFT_PYTHON, else python3. Throws kUnsupported where it lacks the package or
/// ONNX Runtime refuses the model.
std::vector<TensorPtr> RunOnnxRuntime(const Graph& graph, const std::string& path,
                                      const NamedTensors& inputs, const Limits& limits);

}  // namespace weft::tool
