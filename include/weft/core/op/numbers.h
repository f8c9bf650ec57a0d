/// numbers.h: symbols that are fed and returned as numbers, and what a caller knows about them.
///
///   const SymInt n = SymInt::Symbol("n");
///   const NodeEntry count = AddNumberInput(g, "n", n);        // fed as a scalar i64
///   const NodeEntry x(g.AddInput("x", DType::kF32, {n, 8}));  // n once more: they have to agree
///   AddFact(g, "n in [2, 4096]");
///   AddFact(g, "n % 8 == 0");
///   g.outputs = {y, NumberOf(g, n * 2 + 1)};                   // a scalar i64
///
/// In the graph a number that is fed is the extent of an empty tensor, bool [0, n], so that
/// whatever asks the extents of inputs for sizes is told this one too. Programs show it as a scalar
/// i64, and sessions take it as one. A number is a size: feeding one below 0 is kBadInput.
#pragma once

#include <string>
#include <string_view>

#include "weft/core/graph/graph.h"

namespace weft {

/// A declared input that gives `symbol` its value; the number itself as an entry, scalar i64.
/// kApiMisuse for what is no symbol.
WEFT_API NodeEntry AddNumberInput(Graph& g, std::string name, SymInt symbol);
/// An expression over the symbols of the graph as an entry, scalar i64.
WEFT_API NodeEntry NumberOf(Graph& g, SymInt e);
/// Was this variable made by AddNumberInput?
WEFT_API bool IsNumberInput(const NodePtr& variable);

/// Adds to what is known of the graph's symbols: "n in [2, 4096]", "n % 8 == 0", "n == 2*m" (as
/// Facts::Parse). Inference and simplification go by it, and a run at which it does not hold is
/// refused (kShapeMismatch) before anything is computed. kShapeMismatch for a contradiction.
WEFT_API void AddFact(Graph& g, std::string_view fact);

}  // namespace weft
