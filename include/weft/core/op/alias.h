/// alias.h: the operator attribute FAlias: which of its tensors are stretches of each other.
#pragma once

#include <functional>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/shape.h"
#include "weft/core/tensor/sym_tensor.h"

namespace weft {

/// What FAlias sees of one node.
class AliasContext {
 public:
  virtual ~AliasContext() = default;
  virtual const NodePtr& node() const = 0;
  virtual const Shape& in(int i) const = 0;  ///< with a rank, where the operand is there
  virtual const Shape& out(int i) const = 0;
  virtual SymTensorPtr in_value(int i) const = 0;  ///< as in InferShapeContext
  virtual const Facts& facts() const = 0;
};

/// One tensor is a stretch of another, in row-major order: output `output` is what input `input`
/// has from element `at` on; where `into`, input `input` is what output `output` has from there on.
struct AliasPart {
  int input = 0, output = 0;
  SymInt at;
  SymInt rows;  ///< stretches that it is of: only where it is 1 does it lie together
  bool into = false;
};

/// Outputs that are a stretch of an input (Slice, Split), or inputs that are a stretch of an output
/// (Concat), element for element: they may share its block, and the node does nothing then. All of
/// its outputs are such, or all elements of its one output are those of such inputs; else it gives
/// no part.
using FAlias = std::function<std::vector<AliasPart>(const AliasContext&)>;

}  // namespace weft
