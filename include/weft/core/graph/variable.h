/// variable.h: what a variable says about itself: the type and the shape
/// that its attributes declare.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// The dtype of the variable's value, else its `dtype` attribute (a dtype or the name of one);
/// unknown where there is neither. Throws kBadAttribute for a name that is no dtype.
WEFT_API Type DeclaredType(const NodePtr& variable);
/// The shape of the variable's value, else its `shape` attribute (a shape or the text of one);
/// none where there is neither. A declared shape may be of unknown rank. Throws kSyntax for a text
/// that is no shape.
WEFT_API std::optional<Shape> DeclaredShape(const NodePtr& variable);

/// An input that rarely changes: runs keep what library calls make of it
/// (CompileOptions::steady, weft/runtime/program/program.h).
WEFT_API bool IsSteady(const NodePtr& variable);
/// Declares inputs steady, by name. Throws kBadBinding, with near names, where there is none.
WEFT_API void MarkSteady(Graph& graph, const std::vector<std::string>& names);

}  // namespace weft
