/// attr_types.h: graph attributes that inference, fusion, code generation and the runtime meet in.
///
///   "value"     EntryMap<SymTensorPtr>   derived  followed values of small integer tensors      InferShape
///   "unknown"   EntryMap<std::string>    derived  why a shape stays unknown                     InferShape
///   "facts"     Facts                    given    what is known about the symbols               InferShape adds to it
///   "subgraph"  NodeMap<GraphPtr>        derived  fused body of every weft::Fused node          Fusion
///   "kernel"    NodeMap<LoweredKernel>   derived  kernel of every weft::Fused node              CodeGen
///   "rtc"       NodeMap<CompiledKernels> derived  its machine code for the target               RTCGen
///   "order"     Order                    derived  execution order                               Schedule
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/codegen/lower.h"
#include "weft/core/graph_attr.h"

namespace weft {

using ValueMap = EntryMap<SymTensorPtr>;
using UnknownMap = EntryMap<std::string>;
using SubgraphMap = NodeMap<GraphPtr>;
using KernelMap = NodeMap<LoweredKernel>;

/// Machine code of one kernel for one target.
struct CompiledKernel {
  std::string target;  ///< KernelCompiler::target()
  std::string binary;  ///< object file, cubin; empty: did not compile, `error` says why
  std::string error;
  bool from_cache = false;
};
using CompiledKernelPtr = std::shared_ptr<const CompiledKernel>;
/// Of one node: one for each of LoweredKernel::Kernels().
using CompiledKernels = std::vector<CompiledKernelPtr>;
using RtcMap = NodeMap<CompiledKernels>;

/// Nodes in execution order, by id; every node once, producers first.
struct Order {
  std::vector<NodeId> nodes;
};

}  // namespace weft
