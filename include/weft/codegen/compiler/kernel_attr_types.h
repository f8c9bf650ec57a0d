/// kernel_attr_types.h: the graph attributes that code generation and the runtime meet in.
///
///   "kernel"  NodeMap<LoweredKernel>    derived  kernel of every weft::Fused node  CodeGen
///   "rtc"     NodeMap<CompiledKernels>  derived  its machine code for the target   RTCGen
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/codegen/lower/lower.h"
#include "weft/core/graph/graph_attr_types.h"

namespace weft {

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

}  // namespace weft
