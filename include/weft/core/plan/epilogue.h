/// epilogue.h: library calls with what follows them: a weft::Fused whose body is one operator that
/// a library runs (the anchor) and a chain of element-wise operators that the library applies to
/// each value before it stores it.
///
///   %y = weft::Fused(%x, %w, %b, %r) {anchor = 1} body (%0, %1, %2, %3) -> (%6) {
///     %4 = Conv(%0, %1, %2)   %5 = Add(%4, %3)   %6 = Relu(%5) }
///
/// The pass Epilogue makes them, the runtime prepares them by the anchor's FCompute. Everything
/// else sees a fused node.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op_attr_types.h"

namespace weft {

namespace builtin {
/// Attribute of weft::Fused; 1: the body is an anchor and its epilogue.
inline constexpr const char* kAnchor = "anchor";
}  // namespace builtin

/// One element-wise operator behind an anchor.
struct EpilogueStep {
  NodePtr node;
  int slot = 0;  ///< which of its inputs is what has been computed so far
  /// its other tensor; -1: none. All further inputs are constants of one element, or absent.
  int operand = -1;
};

struct AnchoredCall {
  NodePtr anchor;                   ///< its inputs are the first inputs of the body, in order
  std::vector<EpilogueStep> steps;  ///< `operand`: which input of the fused node
};

/// What a weft::Fused with the attribute `anchor` holds. Nothing for every other node, and where
/// the body is not of that form (it may come from a file).
WEFT_API std::optional<AnchoredCall> AnchoredCallOf(const NodePtr& node);

/// What FEpilogue is asked: `steps` have been accepted, is `next`? Its result has the shape
/// and dtype of the anchor's. The `operand` of a step is the slot of its node here: the
/// tensor `step.node->inputs[step.operand]`, or -1.
struct EpilogueRequest {
  NodePtr anchor;
  const std::vector<EpilogueStep>& steps;
  EpilogueStep next;
  const ShapeMap& shapes;
  const TypeMap& types;
};
/// Operator attribute "FEpilogue.<library>", beside "FCompute.<library>": does the call take that
/// step? A call that says yes must take it for all extents that the shapes allow.
using FEpilogue = std::function<bool(const EpilogueRequest&)>;

}  // namespace weft
