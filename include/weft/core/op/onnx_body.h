/// onnx_body.h: how an operator that ONNX lacks, or has for fewer types, is said in
/// ONNX's own operators. Export writes the text as a local function, so that any ONNX
/// runtime can run the model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/dtype.h"
#include "weft/core/tensor/shape.h"

namespace weft {

/// What is known of the node whose body is asked for. Extents are not promised to be known.
struct OnnxBodyRequest {
  NodePtr node;
  std::vector<Type> input_types;    ///< unknown for an absent input
  std::vector<Shape> input_shapes;  ///< unknown rank for an absent input
  std::vector<Shape> output_shapes;
};

/// Operator attribute "FOnnxBody": the nodes in ONNX's textual syntax, one assignment a line,
/// without braces. The operands are called i0, i1 ..., the results o0, o1 ...; an absent operand
/// must not be read. Operators mean what ONNX's newest operator set says. Throws kUnsupported with
/// the reason where there is no such form. Empty: the node is ONNX's operator of that name.
using FOnnxBody = std::function<std::string(const OnnxBodyRequest&)>;

}  // namespace weft
