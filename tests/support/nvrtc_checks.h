/// nvrtc_checks.h: what NVRTC makes of kernels.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/pass/pass.h"

namespace weft::e2e {

/// NVRTC for sm_`sm`. Null where there is none or it does not know the architecture; then the test
/// says why it is skipped.
inline std::shared_ptr<KernelCompiler> FindNvrtc(int sm = 90) {
  std::string why;
  auto compiler = FindKernelCompiler("cuda:sm_" + std::to_string(sm), &why);
  if (!compiler) MESSAGE("skipped: " << why);
  return compiler;
}

/// PTX and no cubin: what NVRTC gives for an architecture that is newer than those it knows.
inline bool IsPtx(const std::string& binary) {
  return !binary.empty() && binary.compare(0, 4, "\177ELF") != 0;
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

/// Each kernel compiles for sm_`sm`, and nothing is kept in memory that registers should hold.
/// `names` say in failures what kernel i is of. Skipped where this NVRTC does not know the
/// architecture.
inline void CheckRegisters(int sm, const std::vector<KernelPtr>& kernels,
                           const std::vector<std::string>& names) {
  const auto compiler = FindNvrtc(sm);
  if (!compiler) return;
  std::vector<std::string> errors;
  const std::vector<std::string> binaries = compiler->Compile(kernels, &errors);
  if (!binaries.empty() && IsPtx(binaries[0])) {
    MESSAGE("skipped: this NVRTC does not know sm_" << sm);
    return;
  }
  int most = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    CAPTURE(sm);
    CAPTURE(names[i]);
    CHECK(errors[i] == "");
    const KernelStats stats = compiler->Stats(*kernels[i], binaries[i]);
    CHECK(stats.registers > 0);
    CHECK(stats.registers <= 128);
    CHECK(stats.spill_bytes == 0);
    most = std::max(most, stats.registers);
  }
  MESSAGE("sm_" << sm << ": " << kernels.size() << " kernels, at most " << most << " registers");
}

}  // namespace weft::e2e
