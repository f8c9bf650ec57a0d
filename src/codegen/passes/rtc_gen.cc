/// rtc_gen.cc: RTCGen. Compiles every distinct kernel for the target, in
/// parallel, through the cache.
///   needs      kernel
///   provides   rtc
///   preserves  everything: it only adds an attribute, whatever happens
///   never      edits the graph, nor hides a kernel that does not compile: that is a fault
///              (PassContext::Fault) that names its operators, which then run one by one
///   source     NNVM-Fusion RTCGen (2016)
#include <algorithm>
#include <map>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// Bound on the memory of a compilation for each byte of kernels' texts. Measured with LLVM: 8 MiB,
/// and 28 to 111 bytes a byte for 10 to 30 kernels of 130 to 550 KB together.
constexpr int64_t kCompilerBytesPerSourceByte = 200;

void CheckCompileBytes(const std::vector<KernelPtr>& kernels, const Limits& limits) {
  int64_t source = 0;
  for (const KernelPtr& k : kernels) source += int64_t(k->CanonicalText().size());
  Limits::Check("compile_bytes", CheckedMul(source, kCompilerBytesPerSourceByte),
                limits.compile_bytes);
}

/// What a kernel is for, in words of the user, a few of them.
class Work {
 public:
  void Add(const NodePtr& n) {
    if (n->is_variable() || IsOp(n, builtin::kConstant)) return;
    Note(&ops_, n->op()->name);
    if (!n->origin()) Note(&names_, n->attrs.name);
    if (n->origin())
      for (const std::string& s : *n->origin()) Note(&names_, s);
  }
  /// "Add, Relu of 'conv1', 'res2a'"
  std::string Text() const {
    return Join(ops_, ", ") + (names_.empty() ? "" : " of '" + Join(names_, "', '") + "'");
  }

 private:
  static void Note(std::vector<std::string>* to, const std::string& s) {
    constexpr size_t kMost = 8;
    if (!s.empty() && to->size() < kMost && std::find(to->begin(), to->end(), s) == to->end())
      to->push_back(s);
  }
  std::vector<std::string> ops_, names_;
};

/// The operators of all nodes that a kernel computes, or of the parts of their bodies that it does.
std::string WorkOf(const Graph& g, const KernelMap& kernels, const Kernel& kernel) {
  Work work;
  for (NodeId id = 0; id < kernels.id_bound(); ++id) {
    const LoweredKernel* k = kernels.find(id);
    if (!k) continue;
    const NodePtr n = g.node(id);
    if (!IsOp(n, builtin::kFused)) {
      if (k->kernel->Key() == kernel.Key()) work.Add(n);
      continue;
    }
    const GraphPtr body = FusedBody(n);
    const AttrValue* counts = n->attrs.dict.find("parts");
    std::vector<NodeEntry> results;
    auto next = body->outputs.begin();
    for (size_t p = 0; counts && p < k->parts.size(); ++p) {
      const auto begin = next;
      next += std::ptrdiff_t(counts->get<Ints>()[p]);
      if (k->parts[p].kernel->Key() == kernel.Key()) results.insert(results.end(), begin, next);
    }
    const std::vector<KernelPtr> own = k->Kernels();
    const bool mine = std::any_of(own.begin(), own.end(),
                                  [&](const KernelPtr& o) { return o->Key() == kernel.Key(); });
    if (results.empty() && mine) results.assign(body->outputs.begin(), body->outputs.end());
    DFSVisit(results, [&](const NodePtr& m) { work.Add(m); });
  }
  return work.Text();
}

Graph RTCGen(Graph g, PassContext& ctx) {
  const KernelMap& kernels = g.GetAttr<KernelMap>("kernel");
  RtcMap rtc;
  std::string why;
  std::shared_ptr<KernelCompiler> compiler = FindKernelCompiler(ctx.target(), &why);
  if (!compiler) {
    ctx.Warn(fmt::format("no kernels for target '{}': {}; fused operators run in the interpreter",
                         ctx.target().name(), why));
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
      ctx.cancel().Check();
      CompiledKernelPtr found = KernelCache::Process().Find(*kernel, target);
      compiled.emplace(kernel->Key(), found);
      if (!found) missing.push_back(kernel);
    }
  }
  ctx.Count("distinct", int64_t(compiled.size()));
  ctx.Count("compiled", int64_t(missing.size()));
  CheckCompileBytes(missing, ctx.limits());
  std::vector<std::string> errors;
  std::vector<std::string> binaries;
  if (!missing.empty()) binaries = compiler->Compile(missing, &errors);
  const std::string unavailable = compiler->WhyUnavailable();
  std::vector<std::string> faults;
  CompiledKernels made;
  for (size_t i = 0; i < missing.size(); ++i) {
    auto c = std::make_shared<CompiledKernel>();
    c->target = target;
    c->binary = std::move(binaries[i]);
    const std::string said = i < errors.size() ? errors[i] : "";
    if (c->binary.empty()) {
      c->error = said;
      if (unavailable.empty())
        faults.push_back(fmt::format(
            "kernel {} ({}) does not compile for {}; its operators run in the interpreter: {}",
            missing[i]->Name(), WorkOf(g, kernels, *missing[i]), target, said));
      ctx.Count("failed");
    } else if (!said.empty()) {
      ctx.Warn(fmt::format("kernel {} ({}) for {}: {}", missing[i]->Name(),
                           WorkOf(g, kernels, *missing[i]), target, said));
    }
    compiled[missing[i]->Key()] = c;
    made.push_back(std::move(c));
  }
  KernelCache::Process().Store(missing, made);
  if (!unavailable.empty() && !missing.empty())
    ctx.Warn(fmt::format(
        "no new kernels for target '{}': {}; operators without one run in the interpreter",
        ctx.target().name(), unavailable));
  for (std::string& fault : faults) ctx.Fault(std::move(fault));
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
    .enters_bodies()
    .set_change_graph(false)
    .depend_graph_attr("kernel")
    .provide_graph_attr("rtc")
    .preserve_all()
    .statistic("distinct", "distinct kernels")
    .statistic("compiled", "of them not found in the cache")
    .statistic("failed", "of them that did not compile");

}  // namespace
}  // namespace weft
