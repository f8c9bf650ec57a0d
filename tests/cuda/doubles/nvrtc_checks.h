/// nvrtc_checks.h: what NVRTC makes of kernels.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/core/pass/pass.h"

namespace weft::e2e {

/// False where there is no NVRTC; then the test says why it is skipped.
inline bool HaveNvrtc() {
  std::string why;
  if (NvrtcAvailable(&why)) return true;
  MESSAGE("skipped: " << why);
  return false;
}

/// The graph as `pipeline` makes it for sm_90, code generation included.
inline Graph LowerForNvrtc(const Graph& g, const Pipeline& pipeline) {
  PassOptions passes;
  passes.target = "cuda:sm_90";
  return ApplyPasses(g, pipeline, passes);
}

/// Its kernels, in the order of its nodes.
inline std::vector<KernelPtr> KernelsIn(const Graph& lowered) {
  std::vector<KernelPtr> kernels;
  const KernelMap& map = lowered.GetAttr<KernelMap>("kernel");
  for (NodeId id = 0; id < map.id_bound(); ++id)
    if (const LoweredKernel* l = map.find(id))
      for (const KernelPtr& k : l->Kernels()) kernels.push_back(k);
  return kernels;
}

/// Each kernel compiles for sm_`sm`, and nothing is kept in memory that registers
/// should hold. `names` say in failures what kernel i is of. Skipped where this NVRTC
/// does not know the architecture.
inline void CheckRegisters(int sm, const std::vector<KernelPtr>& kernels,
                           const std::vector<std::string>& names) {
  const std::vector<int> known = NvrtcArchitectures();
  if (std::find(known.begin(), known.end(), sm) == known.end()) {
    MESSAGE("skipped: this NVRTC does not know sm_" << sm);
    return;
  }
  NvrtcCompiler compiler(sm, 2);
  std::vector<std::string> errors;
  const std::vector<std::string> binaries = compiler.Compile(kernels, &errors);
  int most = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    CAPTURE(sm);
    CAPTURE(names[i]);
    CHECK(errors[i] == "");
    const KernelStats stats = compiler.Stats(*kernels[i], binaries[i]);
    CHECK(stats.registers > 0);
    CHECK(stats.registers <= 128);
    CHECK(stats.spill_bytes == 0);
    most = std::max(most, stats.registers);
  }
  MESSAGE("sm_" << sm << ": " << kernels.size() << " kernels, at most " << most << " registers");
}

}  // namespace weft::e2e
