/// body_types.h: the bodies of If, Loop, Scan and fused nodes, with what is known of the operands
/// that they get.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/support/error.h"

namespace weft {

/// What is known of the operands that a body gets, in the order of its inputs. Each list may be
/// shorter than that.
struct BodyOperands {
  std::vector<Type> types;
  std::vector<Shape> shapes;
  std::vector<SymTensorPtr> values;  ///< null where none is followed
  /// Of the graph around, or null: ranges and divisors of the dimensions hold inside as well.
  const Facts* facts = nullptr;
};
/// The body with "dtype", "shape" and "value". Throws what inference throws.
WEFT_API Graph InferBody(Graph body, const BodyOperands& operands);
/// The same with "dtype" only.
WEFT_API Graph InferBodyTypes(Graph body, const std::vector<Type>& types);

/// Names of the attributes that hold bodies, sorted.
WEFT_API std::vector<std::string> BodyNames(const NodePtr& node);
/// How many operands stand before those that are the inputs of a body, in their order; nothing
/// where operands and inputs have no such order.
WEFT_API std::optional<uint32_t> OperandsBeforeBody(const NodePtr& node);
/// The body with "dtype" and "shape", given those of the graph that `node` is in, and the values of
/// small integer tensors and what is known of sizes where they are given. What changes from one
/// iteration to the next is not known, but for the shape of a state that its last one has too.
/// Throws what inference throws.
WEFT_API Graph TypedBody(const NodePtr& node, const std::string& name, const ShapeMap& shapes,
                         const TypeMap& types, const ValueMap* values = nullptr,
                         const Facts* facts = nullptr);
/// What inference has thrown says that the operands do not fit the body. Exporters write an If for
/// every squeeze of an extent that they do not know: only one of its branches fits what comes.
WEFT_API bool IsMisfit(const UserError& error);
/// The same; nothing where it is a branch of an If that operands of these shapes do not fit.
WEFT_API std::optional<Graph> FittingBody(const NodePtr& node, const std::string& name,
                                          const ShapeMap& shapes, const TypeMap& types,
                                          const ValueMap* values = nullptr,
                                          const Facts* facts = nullptr);
/// Every shape in it is known, in symbols that are dimensions of its inputs: so whoever runs it
/// knows their values. Passes enter no other body: what they would write down of sizes could not be
/// told in a run.
WEFT_API bool TellsItsSizes(const Graph& body);
/// If, Loop, Scan and weft::Concurrent: their bodies are graphs of their own, which passes enter.
WEFT_API bool HasControlBodies(const NodePtr& node);
/// Puts a body in the place of one that computes the same: what is known of the graph still holds.
WEFT_API void ReplaceBody(Graph& graph, const NodePtr& node, const std::string& name, Graph body);

}  // namespace weft
