/// kind.h: what Fusion must know of one node, read off its FCodeGen.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/pass/pass.h"

namespace weft {

enum class NodeKind : uint8_t {
  kOpaque,       ///< stays as it is: a library call, an effect, an unknown shape
  kElementwise,  ///< output (i) from inputs (i), broadcasting
  kInjective,    ///< reads its inputs at other positions: transpose, slice, concat ...
  kReduction,    ///< row reductions of one input over `axes`
  /// reductions inside a point (window, contraction): takes an epilogue; a prologue
  /// where it reads once
  kLocal,
  kShapeOnly,  ///< its value is followed at compile time; whoever reads it gets a copy
};

struct NodeClass {
  NodeKind kind = NodeKind::kOpaque;
  std::vector<int> axes;  ///< kReduction: axes of input `full_input`
  int full_input = 0;     ///< kReduction: the input that spans the whole space
  /// kLocal: no element of an input is read twice: windows that do not overlap
  bool reads_once = false;
  bool keeps_space = false;  ///< kReduction: output 0 spans the whole space (softmax), not the rows
  /// kInjective: output dim k reads input dim perm[k]; empty: no permutation
  std::vector<int> perm;
  /// Inputs of a few elements that are read at fixed places only (the scales of Resize): where one
  /// is a constant, its elements had better be numbers in the code.
  std::vector<int> parameters = {};
};

/// Attributes of the graph that classification reads.
struct FusionFacts {
  const ShapeMap& shapes;
  const TypeMap& types;
  const ValueMap& values;
};

/// Class of a node whose op has FCodeGen in the general form: its expression is built
/// once and looked at.
NodeClass ClassifyGeneral(const NodePtr& node, const FusionFacts& facts);

}  // namespace weft
