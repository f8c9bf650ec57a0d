/// graph_attr_types.h: the graph attributes that inference, rewriting, fusion, planning and
/// the runtime meet in.
///
///   "value"     EntryMap<SymTensorPtr>  derived  followed values of small tensors  InferShape
///   "unknown"   EntryMap<std::string>   derived  why a shape stays unknown         InferShape
///   "facts"     Facts                   given    what is known about the symbols   InferShape adds
///   "subgraph"  NodeMap<GraphPtr>       derived  body of every weft::Fused node    Fusion
///   "order"     Order                   derived  execution order                   Schedule
///
/// "dtype", "shape" and what else the core itself knows: graph_attr.h. Kernels and
/// their machine code: codegen/compiler/kernel_attr_types.h.
#pragma once

#include <string>
#include <vector>

#include "weft/core/graph/graph_attr.h"
#include "weft/core/tensor/sym_tensor.h"

namespace weft {

using ValueMap = EntryMap<SymTensorPtr>;
using UnknownMap = EntryMap<std::string>;
using SubgraphMap = NodeMap<GraphPtr>;

/// Nodes in execution order, by id; every node once, producers first.
struct Order {
  std::vector<NodeId> nodes;
};

}  // namespace weft
