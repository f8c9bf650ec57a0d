/// rtc_gen.cc: RTCGen. Compiles every distinct kernel for the target, in parallel, through the cache.
///   needs      kernel
///   provides   rtc
///   preserves  everything: it only adds an attribute, whatever happens
///   never      edits the graph: where a kernel fails to compile the program runs the fused body's ops, with a warning
///   source     NNVM-Fusion RTCGen (2016)
#include <map>

#include "weft/codegen/kernel_compilers.h"
#include "weft/core/pass.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

/// Bound on the memory of a compilation for each byte of kernels' texts. Measured with LLVM: 8 MiB, and
/// 28 to 111 bytes a byte for 10 to 30 kernels of 130 to 550 KB together.
constexpr int64_t kCompilerBytesPerSourceByte = 200;

void CheckCompileBytes(const std::vector<KernelPtr>& kernels, const Limits& limits) {
  int64_t source = 0;
  for (const KernelPtr& k : kernels) source += int64_t(k->CanonicalText().size());
  Limits::Check("compile_bytes", CheckedMul(source, kCompilerBytesPerSourceByte),
                limits.compile_bytes);
}

Graph RTCGen(Graph g, PassContext& ctx) {
  const KernelMap& kernels = g.GetAttr<KernelMap>("kernel");
  RtcMap rtc;
  std::string why;
  std::shared_ptr<KernelCompiler> compiler = FindKernelCompiler(ctx.target(), &why);
  if (!compiler) {
    ctx.Warn(fmt::format("no kernels for target '{}': {}; fused operators run in the interpreter",
                         ctx.target(), why));
    g.SetAttr("rtc", std::move(rtc));
    return g;
  }
  const std::string target = compiler->target();
  std::map<Hash128, CompiledKernelPtr> compiled;
  std::vector<KernelPtr> missing;
  for (NodeId id = 0; id < kernels.id_bound(); ++id) {
    const LoweredKernel* k = kernels.find(id);
    if (!k) continue;
    for (const KernelPtr& kernel : k->Kernels()) {
      if (compiled.count(kernel->Key())) continue;
      CompiledKernelPtr found = KernelCache::Process().Find(*kernel, target);
      compiled.emplace(kernel->Key(), found);
      if (!found) missing.push_back(kernel);
    }
  }
  ctx.Count("distinct", int64_t(compiled.size()));
  ctx.Count("compiled", int64_t(missing.size()));
  CheckCompileBytes(missing, ctx.limits());
  std::vector<std::string> errors;
  std::vector<std::string> binaries = compiler->Compile(missing, &errors);
  for (size_t i = 0; i < missing.size(); ++i) {
    auto c = std::make_shared<CompiledKernel>();
    c->target = target;
    c->binary = std::move(binaries[i]);
    if (c->binary.empty()) {
      c->error = i < errors.size() ? errors[i] : "";
      ctx.Warn(fmt::format("kernel {} does not compile for {} and runs in the interpreter: {}",
                           missing[i]->Name(), target, c->error));
      ctx.Count("failed");
    }
    compiled[missing[i]->Key()] = c;
    KernelCache::Process().Store(*missing[i], c);
  }
  for (NodeId id = 0; id < kernels.id_bound(); ++id)
    if (const LoweredKernel* k = kernels.find(id)) {
      CompiledKernels own;
      for (const KernelPtr& kernel : k->Kernels()) own.push_back(compiled.at(kernel->Key()));
      rtc.set(id, std::move(own));
    }
  g.SetAttr("rtc", std::move(rtc));
  return g;
}

WEFT_REGISTER_PASS(RTCGen)
    .describe("compiles every distinct kernel for the target, through the cache")
    .set_body(RTCGen)
    .set_change_graph(false)
    .depend_graph_attr("kernel")
    .provide_graph_attr("rtc")
    .preserve_all()
    .statistic("distinct", "distinct kernels")
    .statistic("compiled", "of them not found in the cache")
    .statistic("failed", "of them that did not compile");

}  // namespace
}  // namespace weft
