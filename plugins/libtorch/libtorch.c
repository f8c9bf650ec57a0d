/* libtorch.c: the delegate `libtorch`: regions of a graph, forward and gradient operators alike, by
 * torch's own kernels. Plain C99 on weft/plugin.h; torch is opened at run time through its stable C
 * interface (torch_abi.h), so one build serves every torch from 2.10 on.
 *
 *   torch_abi   the symbols of libtorch_cpu.so, and how they are found
 *   plan, run   a region as a list of calls of aten operators; running it
 *   ops_*       which calls an operator of Weft becomes, and what is refused and why */
#include <stdlib.h>

#include "ops.h"

static WeftStatus Version(void* user, const char** text) {
  const WeftStatus status = OpenTorch();
  (void)user;
  if (status == WEFT_OK) *text = torch.version;
  return status;
}

static WeftStatus BuildNode(Build* b, const WeftNode* node) {
  const OpRow* row = FindOp(weft->node_op(node));
  b->node = node;
  return row ? row->build(b, row->how)
             : Fail(WEFT_E_UNSUPPORTED, "%.200s: libtorch has no form of it", weft->node_op(node));
}

static WeftStatus Supports(void* user, const WeftDelegateOptions* options, const WeftGraph* graph,
                           const WeftNode* node) {
  Build b = {.graph = graph, .dry = true};
  (void)user, (void)options;
  return BuildNode(&b, node);
}

static WeftStatus BuildNodes(Build* b) {
  const size_t count = weft->graph_nodes(b->graph, NULL, 0);
  WeftNode** nodes = (WeftNode**)malloc((count + 1) * sizeof *nodes);
  WeftStatus status = WEFT_OK;
  if (!nodes) return weft->fail(WEFT_E_OUT_OF_MEMORY, "libtorch: no memory for a plan");
  weft->graph_nodes(b->graph, nodes, count);
  for (size_t i = 0; status == WEFT_OK && i < count; ++i) {
    const WeftEntry first = {nodes[i], 0};
    if (!*weft->node_op(nodes[i]) || weft->graph_constant(b->graph, first)) continue;
    status = BeginNode(b, nodes[i]);
    if (status == WEFT_OK) status = BuildNode(b, nodes[i]);
    /* What only gives a size that is known already may be left out: whoever reads it fails. */
    if (status == WEFT_E_UNSUPPORTED && b->status == WEFT_OK) {
      status = LeaveOut(b) ? b->status : weft->fail(status, b->refusal);
      continue;
    }
    if (status == WEFT_OK) status = EndNode(b);
  }
  free(nodes);
  return status;
}

static WeftStatus Compile(void* user, const WeftRegion* region, void** engine) {
  Build b = {.plan = NewPlan()};
  (void)user;
  if (!b.plan) return weft->fail(WEFT_E_OUT_OF_MEMORY, "libtorch: no memory for a plan");
  WeftStatus status = OpenTorch();
  if (status == WEFT_OK && region->extents != WEFT_EXTENTS_FIXED)
    status = weft->fail(WEFT_E_UNSUPPORTED, "libtorch compiles fixed extents only");
  if (status == WEFT_OK) status = BeginPlan(&b, region);
  if (status == WEFT_OK) status = BuildNodes(&b);
  if (status == WEFT_OK) status = FinishPlan(&b);
  FreeBuild(&b);
  if (status != WEFT_OK) {
    FreePlan(b.plan);
    return status;
  }
  *engine = b.plan;
  return WEFT_OK;
}

static void Destroy(void* user, void* engine) {
  (void)user;
  FreePlan((Plan*)engine);
}

static WeftStatus Prepare(void* user, void* engine, void** instance) {
  (void)user;
  return NewInstance((const Plan*)engine, (Instance**)instance);
}

static void Release(void* user, void* instance) {
  (void)user;
  FreeInstance((Instance*)instance);
}

static WeftStatus Run(void* user, void* instance, WeftRegionCall* call) {
  (void)user;
  return RunInstance((Instance*)instance, call);
}

enum { kHostMemory = 1 }; /* DLPack's kDLCPU; torch_abi.c says where tensors are made */

static const WeftDelegateDef kDelegate = {
    .struct_size = sizeof(WeftDelegateDef),
    .name = "libtorch",
    .doc = "torch's own kernels, forward and gradient, through its stable C interface",
    .flags = WEFT_DELEGATE_CONCURRENT | WEFT_DELEGATE_DETERMINISTIC,
    .device = kHostMemory,
    .version = Version,
    .supports = Supports,
    .compile = Compile,
    .destroy = Destroy,
    .prepare = Prepare,
    .release = Release,
    .run = Run,
};

WEFT_PLUGIN_EXPORT WeftStatus weft_plugin_init_v1(const WeftHost* host, WeftPluginInfo* info) {
  weft = host;
  weft_plugin_describe(info, "libtorch", "1.0", "parts of a graph on torch's kernels");
  if (!WEFT_HAS(host, WeftHost, node_has_attr))
    return host->fail(WEFT_E_UNSUPPORTED, "this Weft is too old: it knows no delegates");
  return host->register_delegate(&kDelegate);
}
