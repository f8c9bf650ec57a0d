/// operands.h: which operands a node must have, as the registry declares them: how many, and which
/// of them may be absent (a null entry, `_` in text, the empty name in ONNX).
///
///   .input("X", ..)            is there
///   .optional_input("B", ..)   may be absent; leaving a trailing one out is the same
///   .variadic_input("x", ..)   each of them is there
///
/// A position that an operator does not declare may be absent behind its least number of inputs.
#pragma once

#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/support/error.h"

namespace weft {

class Op;

/// Least and most inputs of a node with these attributes; most is -1 where there is no bound.
struct OperandRange {
  int min = 0, max = 0;
};
WEFT_API OperandRange OperandRangeOf(const Op& op, const NodeAttrs& attrs);

WEFT_API bool MayBeAbsent(const Op& op, size_t i);
/// Throws kArity where operand `i` of the node may not be absent.
WEFT_API void CheckMayBeAbsent(const Node& node, size_t i);

/// The one form of absent operands that nodes hold: none at the end that the declaration
/// allows to leave out, and a null entry for each that the least number counts. Captured
/// values stay where they are.
WEFT_API void TrimOperands(const Op& op, std::vector<NodeEntry>* inputs);

/// What is wrong with the operands of a node: `text` is empty where nothing is.
struct OperandFault {
  std::string text, hint;
};
WEFT_API OperandFault FindOperandFault(const Node& node);
/// Throws kArity, naming the node, the operand, and the ones that may be absent.
WEFT_API void CheckOperands(const Node& node);
/// Every node of the graph; also throws kArity for an output that is absent.
WEFT_API void CheckOperands(const Graph& graph);

/// The parts of that message, for formats with a declaration of their own: operand `i`
/// of what `node` describes.
WEFT_API OperandFault AbsentOperand(const std::string& node, const std::string& op, size_t i,
                                    const std::string& name,
                                    const std::vector<std::string>& optional);

}  // namespace weft
