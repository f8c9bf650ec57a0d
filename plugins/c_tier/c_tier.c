/* c_tier.c: a plugin in plain C: two operators, a pass and a backend, through the table of
 * weft/plugin.h. It links nothing of Weft and outlives its releases: what it needs of the host it
 * asks for by WEFT_HAS. */
#define _POSIX_C_SOURCE 200112L /* posix_memalign */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/plugin.h"

static const WeftHost* weft;

/* ---- demo::Clip01: min(max(x, 0), 1); types and shapes by a formula ---- */

#define CLIP(Type)                                                             \
  do {                                                                         \
    const Type* x = (const Type*)call->inputs[0]->data;                        \
    Type* y = (Type*)call->outputs[0]->data;                                   \
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] < 0 ? 0 : x[i] > 1 ? 1 : x[i]; \
  } while (0)

static WeftStatus Clip01(void* user, const WeftCall* call) {
  const int64_t n = call->inputs[0]->num_elements;
  (void)user;
  switch (call->inputs[0]->dtype) {
    case WEFT_F32:
      CLIP(float);
      return WEFT_OK;
    case WEFT_F64:
      CLIP(double);
      return WEFT_OK;
    default:
      return weft->fail(WEFT_E_UNSUPPORTED, "demo::Clip01 takes f32 and f64");
  }
}

/* ---- demo::PairSum: f32[2 n, ...] -> f32[n, ...], sums of neighbours ---- */

enum { kMaxRank = 8 };

static WeftStatus InferPairSum(void* user, WeftInference* inference) {
  const int32_t rank = weft->infer_rank(inference, 0);
  WeftDim dims[kMaxRank];
  (void)user;
  if (rank < 0)
    return weft->infer_set(inference, 0, WEFT_F32, -1, NULL); /* asked again when more is known */
  if (rank == 0 || rank > kMaxRank)
    return weft->fail(WEFT_E_INVALID_MODEL, "demo::PairSum takes rank 1 to 8");
  for (int32_t d = 0; d < rank; ++d) dims[d] = weft->infer_dim(inference, 0, d);
  dims[0] = weft->dim_op('/', dims[0], weft->dim_int(2)); /* of "batch": "batch//2" */
  return weft->infer_set(inference, 0, WEFT_F32, rank, dims);
}

static WeftStatus PairSum(void* user, const WeftCall* call) {
  const WeftView* out = call->outputs[0];
  const int64_t pairs = out->dims[0], row = pairs > 0 ? out->num_elements / pairs : 0;
  const float* x = (const float*)call->inputs[0]->data;
  float* y = (float*)out->data;
  (void)user;
  if (call->inputs[0]->dtype != WEFT_F32)
    return weft->fail(WEFT_E_UNSUPPORTED, "demo::PairSum takes f32");
  for (int64_t p = 0; p < pairs; ++p)
    for (int64_t i = 0; i < row; ++i)
      y[p * row + i] = x[2 * p * row + i] + x[(2 * p + 1) * row + i];
  return WEFT_OK;
}

/* ---- MergeClips: Clip01(Clip01(x)) -> Clip01(x) ---- */

static int IsClip(const WeftNode* node) {
  return node && strcmp(weft->node_op(node), "demo::Clip01") == 0;
}

static WeftStatus MergeClips(void* user, WeftPassRun* run, WeftGraph* graph) {
  const size_t count = weft->graph_nodes(graph, NULL, 0);
  WeftNode** nodes = (WeftNode**)malloc(count * sizeof *nodes + 1);
  WeftStatus status = WEFT_OK;
  (void)user;
  if (!nodes) return WEFT_E_OUT_OF_MEMORY;
  weft->graph_nodes(graph, nodes, count);
  for (size_t i = 0; i < count && status == WEFT_OK; ++i) {
    WeftEntry inner;
    if (!IsClip(nodes[i])) continue;
    inner = weft->node_input(nodes[i], 0);
    if (!IsClip(inner.node)) continue;
    if (!weft->pass_fuel(run, "clip-of-clip", nodes[i])) break;
    status = weft->graph_replace(graph, nodes[i], &inner, 1);
    weft->pass_count(run, "merged", 1);
  }
  free(nodes);
  return status;
}

/* ---- the backend "watch": the host's kernels, watched ---- */

static long launches;

static WeftStatus Compile(void* user, const WeftKernel* kernel, void** compiled) {
  (void)user;
  return weft->kernel_open(kernel, (WeftHostKernel**)compiled);
}
static WeftStatus Launch(void* user, void* compiled, void* const* buffers, const int64_t* dims,
                         int64_t items) {
  (void)user;
  fprintf(stderr, "watch: launch %ld of %lld items\n", __sync_add_and_fetch(&launches, 1),
          (long long)items);
  return weft->kernel_launch((const WeftHostKernel*)compiled, buffers, dims);
}
static void Destroy(void* user, void* compiled) {
  (void)user;
  weft->kernel_close((WeftHostKernel*)compiled);
}

static WeftStatus Allocate(void* user, size_t bytes, void** data) {
  (void)user;
  fprintf(stderr, "watch: %zu bytes\n", bytes);
  return posix_memalign(data, 64, bytes) == 0 ? WEFT_OK : WEFT_E_OUT_OF_MEMORY;
}
static void Release(void* user, void* data) {
  (void)user;
  free(data);
}

/* ---- the entry ---- */

static const WeftOpDef clip = {
    .struct_size = sizeof(WeftOpDef),
    .name = "demo::Clip01",
    .doc = "min(max(x, 0), 1)",
    .min_inputs = 1,
    .max_inputs = 1,
    .num_outputs = 1,
    .signature = "T[...] -> T[...]",
    .compute = Clip01,
};
static const WeftOpDef pair_sum = {
    .struct_size = sizeof(WeftOpDef),
    .name = "demo::PairSum",
    .doc = "sums of neighbouring rows",
    .min_inputs = 1,
    .max_inputs = 1,
    .num_outputs = 1,
    .infer = InferPairSum,
    .compute = PairSum,
};
static const WeftPassDef merge_clips = {
    .struct_size = sizeof(WeftPassDef),
    .name = "MergeClips",
    .doc = "Clip01 of Clip01 becomes one",
    .run = MergeClips,
};
static const WeftBackendDef watch = {
    .struct_size = sizeof(WeftBackendDef),
    .name = "watch",
    .doc = "cpu, watched",
    .compile = Compile,
    .launch = Launch,
    .destroy = Destroy,
    .allocate = Allocate,
    .release = Release,
    .library = "cpu",
};

WEFT_PLUGIN_EXPORT WeftStatus weft_plugin_init_v1(const WeftHost* host, WeftPluginInfo* info) {
  WeftStatus status = WEFT_OK;
  weft = host;
  weft_plugin_describe(info, "c_tier", "1.0", "operators, a pass and a backend in C");
  if (!WEFT_HAS(host, WeftHost, kernel_close))
    return host->fail(WEFT_E_UNSUPPORTED, "this host is too old");
  if (status == WEFT_OK) status = host->register_op(&clip);
  if (status == WEFT_OK) status = host->register_op(&pair_sum);
  if (status == WEFT_OK) status = host->register_pass(&merge_clips);
  if (status == WEFT_OK) status = host->register_backend(&watch);
  return status;
}
