/* c_entry.c: entries of the C tier, one a macro: built for other versions of
 * the interface, or wrong. */
#include <string.h>

#include "weft/plugin.h"

#if defined(REGISTERS_LATE) || defined(UNKNOWN_OP) || defined(C_DUPLICATE) || defined(BAD_DEF) || \
    defined(BAD_SIGNATURE) || defined(NULL_OP) || defined(NEWER) || defined(OLDER)
static const WeftHost* weft;
static WeftStatus Copy(void* user, const WeftCall* call) {
  (void)user;
#if defined(REGISTERS_LATE)
  {
    WeftOpDef late = {0};
    late.struct_size = sizeof late;
    return weft->register_op(&late);
  }
#else
  memcpy(call->outputs[0]->data, call->inputs[0]->data, (size_t)call->inputs[0]->num_elements * 4);
  return weft ? WEFT_OK : WEFT_E_INTERNAL;
#endif
}
#endif

WEFT_PLUGIN_EXPORT WeftStatus weft_plugin_init_v1(const WeftHost* host, WeftPluginInfo* info) {
#if defined(NEEDS_HOST)
  weft_plugin_describe(info, "needs_host", "1.0", "");
  if (!WEFT_HAS(host, WeftHost, kernel_close))
    return host->fail(WEFT_E_UNSUPPORTED, "this host is too old");
  return WEFT_OK;
#elif defined(OLDER)
  /* Made before abi_id and before every member of the table behind register_op. */
  struct OldInfo {
    size_t struct_size;
    const char *name, *version, *doc;
    uint32_t api_min, api_built;
  } old = {sizeof old, "older", "0.9", "an older struct", 1, 1};
  struct OldOp {
    size_t struct_size;
    const char *name, *doc;
    int32_t min_inputs, max_inputs, num_outputs;
    const char* signature;
    WeftInferFn infer;
    WeftComputeFn compute;
    void* user;
  } op = {sizeof op, "older::Copy", "a copy", 1, 1, 1, "f32[...] -> f32[...]", NULL, Copy, NULL};
  weft = host;
  memcpy(info, &old, sizeof old);
  return host->register_op((const WeftOpDef*)&op);
#elif defined(NEWER)
  /* Made after members that this host does not know: it fills what the host has room for,
   * and gives longer structs. */
  struct NewOp {
    WeftOpDef known;
    void* more[16];
  } op;
  memset(&op, 0xff, sizeof op);
  memset(&op.known, 0, sizeof op.known);
  op.known.struct_size = sizeof op;
  op.known.name = "newer::Copy";
  op.known.min_inputs = op.known.max_inputs = op.known.num_outputs = 1;
  op.known.signature = "f32[...] -> f32[...]";
  op.known.compute = Copy;
  weft = host;
  weft_plugin_describe(info, "newer", "9.0", "a newer struct");
  memset((char*)info + sizeof *info, 0xff, 64); /* and is careless */
  info->struct_size = sizeof *info + 64;
  info->api_built = 3;
  return host->register_op(&op.known);
#elif defined(TOO_SMALL)
  weft_plugin_describe(info, "too_small", "1.0", "");
  info->struct_size = 16;
  (void)host;
  return WEFT_OK;
#elif defined(TOO_NEW)
  weft_plugin_describe(info, "too_new", "1.0", "");
  info->api_min = 7;
  info->api_built = 9;
  (void)host;
  return WEFT_OK;
#elif defined(TOO_OLD)
  weft_plugin_describe(info, "too_old", "1.0", "");
  info->api_min = info->api_built = 0;
  (void)host;
  return WEFT_OK;
#elif defined(REFUSES)
  (void)info;
  return host->fail(WEFT_E_UNSUPPORTED, "this machine has no abacus");
#elif defined(NO_NAME)
  weft_plugin_describe(info, "no name!", "1.0", "");
  (void)host;
  return WEFT_OK;
#else
  WeftOpDef op = {0};
  weft = host;
  weft_plugin_describe(info, "wrong", "1.0", "");
  op.struct_size = sizeof op;
  op.name = "wrong::Copy";
  op.min_inputs = op.max_inputs = op.num_outputs = 1;
  op.signature = "f32[...] -> f32[...]";
  op.compute = Copy;
#if defined(BAD_DEF)
  op.compute = NULL;
#elif defined(BAD_SIGNATURE)
  op.signature = "f32[n] -> f32[m]";
#elif defined(C_DUPLICATE)
  if (host->register_op(&op) != WEFT_OK) return WEFT_E_INTERNAL;
  op.name = "Relu";
#elif defined(NULL_OP)
  return host->register_op(NULL);
#elif defined(UNKNOWN_OP)
  {
    WeftComputeDef way = {0};
    way.struct_size = sizeof way;
    way.op = "wrong::Nobody";
    way.compute = Copy;
    if (host->register_op(&op) != WEFT_OK) return WEFT_E_INTERNAL;
    return host->register_compute(&way);
  }
#endif
  return host->register_op(&op);
#endif
}
