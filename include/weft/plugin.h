/* plugin.h: the C interface between Weft and its plugins. Plain C99.
 *
 * A plugin is a shared library with one entry, found by its name:
 *
 *   WEFT_PLUGIN_EXPORT WeftStatus weft_plugin_init_v1(const WeftHost* host, WeftPluginInfo* info) {
 *     static const WeftOpDef op = {
 *         .struct_size = sizeof op, .name = "demo::Clip01", .min_inputs = 1, .max_inputs = 1,
 *         .num_outputs = 1, .signature = "T[...] -> T[...]", .compute = Clip01};
 *     weft_plugin_describe(info, "demo", "1.0", "an operator");
 *     return host->register_op(&op);
 *   }
 *
 * Rules of this interface, for both sides. Every struct but WeftEntry begins with its size as its
 * maker knows it and only grows at its end; a reader takes what both know (WEFT_HAS) and treats a
 * null pointer as absent. No C++ type and no exception crosses it. A function that can fail returns
 * a status: 0, or the number of an error code; `host->fail` says more. Strings and arrays that are
 * given are copied unless the text says otherwise; those received live until the callback returns.
 * What a plugin registers takes effect when its entry has returned WEFT_OK, all of it or nothing.
 * Callbacks are called by many threads at once. The library is never unloaded.
 *
 * A plugin in C++ may instead include the headers of Weft and use their
 * registration macros: see docs/write_a_plugin.md. */
#ifndef WEFT_PLUGIN_H_
#define WEFT_PLUGIN_H_

#include "weft/c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header. A host speaks a range of versions, a plugin accepts
 * one; they must meet. */
#define WEFT_PLUGIN_API 1u

#define WEFT_PLUGIN_EXPORT __attribute__((visibility("default")))

/* Does *object (a struct that begins with struct_size) have `member`, and is it set? For
 * members that are pointers. */
#define WEFT_HAS(object, Type, member)                                           \
  ((object)->struct_size >= offsetof(Type, member) + sizeof((object)->member) && \
   (object)->member != NULL)

/* ---- what a callback is given ---- */

/* A dense tensor in row-major order in host memory. */
typedef struct WeftView {
  size_t struct_size;
  void* data; /* null where there are no elements */
  WeftDType dtype;
  int32_t rank;
  const int64_t* dims;
  int64_t num_elements;
} WeftView;

typedef struct WeftNode WeftNode;           /* a node of a graph */
typedef struct WeftGraph WeftGraph;         /* the graph that a pass works on */
typedef struct WeftPassRun WeftPassRun;     /* one application of a pass */
typedef struct WeftInference WeftInference; /* shapes and types of one node being inferred */
/* A symbolic extent: a number or an expression. Null: unknown. Lives as long as the process. */
typedef const struct WeftDimension* WeftDim;
/* Output `index` of `node`; a null node is an absent input. Fixed for ever. */
typedef struct WeftEntry {
  WeftNode* node;
  uint32_t index;
} WeftEntry;

/* ---- operators ---- */

/* One execution of an operator. Absent inputs are null. */
typedef struct WeftCall {
  size_t struct_size;
  const WeftNode* node; /* for its attributes */
  int32_t num_inputs, num_outputs;
  const WeftView* const* inputs;
  const WeftView* const* outputs; /* to be written */
} WeftCall;
typedef WeftStatus (*WeftComputeFn)(void* user, const WeftCall* call);
/* Says types and shapes of the outputs as far as those of the inputs are known, through
 * host->infer_*. Called again whenever more is known. */
typedef WeftStatus (*WeftInferFn)(void* user, WeftInference* inference);

typedef struct WeftOpDef {
  size_t struct_size;
  const char* name; /* "domain::Name" */
  const char* doc;
  int32_t min_inputs, max_inputs; /* max_inputs -1: any number */
  int32_t num_outputs;
  /* Types and shapes as a formula, one term an input and one an output:
   *     "T[..., n, k], T[..., k, m] -> T[..., n, m]"
   *     "f32[n, 2*m + 1] ..."                         only behind the arrow
   * A term is a dtype or a capital letter (equal letters, equal dtypes) and extents: numbers, names
   * (equal names, equal extents), behind the arrow also + - * // % min() max() of them; a leading
   * ... stands for any extents, the same everywhere. Null: `infer` says it. */
  const char* signature;
  WeftInferFn infer; /* where a formula cannot say it */
  /* Runs it on any backend with host memory, and in the reference evaluator. */
  WeftComputeFn compute;
  void* user; /* handed to both */
} WeftOpDef;

/* Another way to run an operator that exists, on one backend. */
typedef struct WeftComputeDef {
  size_t struct_size;
  const char* op;
  const char* backend; /* "cpu"; null: every backend with host memory that has no way of its own */
  WeftComputeFn compute;
  void* user;
  int32_t priority; /* over others for the same operator and backend; those of Weft have 10 */
} WeftComputeDef;

/* ---- passes ---- */

typedef WeftStatus (*WeftPassFn)(void* user, WeftPassRun* run, WeftGraph* graph);
typedef struct WeftPassDef {
  size_t struct_size;
  const char* name;
  const char* doc;
  WeftPassFn run;
  void* user;
  const char* needs; /* graph attributes, "shape,dtype"; may be null */
} WeftPassDef;

/* ---- backends ---- */

/* A generated kernel. */
typedef struct WeftKernel {
  size_t struct_size;
  const char* name;
  /* A complete file of C99 with one function, for work items [begin, end):
   *     void name(void* const* buffers, const int64_t* dims, int64_t begin, int64_t end,
   *               void* scratch)
   * Build it with -ffp-contract=off. */
  const char* c_source;
  int32_t num_inputs, num_outputs, num_dims;
  const void* host_code; /* for host->kernel_open */
} WeftKernel;
typedef struct WeftHostKernel WeftHostKernel; /* the host's own machine code of a kernel */

typedef struct WeftBackendDef {
  size_t struct_size;
  const char* name;
  const char* doc;
  /* Makes something that `launch` can run. */
  WeftStatus (*compile)(void* user, const WeftKernel* kernel, void** compiled);
  /* Runs work items [0, items). `buffers`: inputs, then outputs. */
  WeftStatus (*launch)(void* user, void* compiled, void* const* buffers, const int64_t* dims,
                       int64_t items);
  void (*destroy)(void* user, void* compiled);
  /* Memory that sessions work in, 64-byte aligned; both or neither. */
  WeftStatus (*allocate)(void* user, size_t bytes, void** data);
  void (*release)(void* user, void* data);
  void* user;
  /* Whose library calls it takes, as in "cpu"; null: only those registered for its own name. */
  const char* library;
} WeftBackendDef;

/* ---- delegates: engines that run parts of a graph ---- */

typedef struct WeftDelegateOptions
    WeftDelegateOptions;            /* what the user has set, and defaults: host->option_* */
typedef struct WeftBytes WeftBytes; /* what an engine writes: host->bytes_write */
typedef struct WeftRows WeftRows;   /* of a profile: host->rows_add */

/* An option of a delegate, as in --delegate openvino:streams=2. One of the name `profile`, a bool,
 * is set where `profile` below is going to be asked. */
typedef struct WeftOptionDef {
  const char* name;
  char type;                 /* b, i, f or s: bool, int64, double, text */
  const char* default_value; /* as the user would write it */
  const char* doc;
} WeftOptionDef;

/* What of the extents of a region is known when it is compiled. */
enum {
  WEFT_EXTENTS_FIXED = 0, /* every one is a number */
  WEFT_EXTENTS_ANY = 1    /* some are expressions of symbols, which the operands of each run tell */
};

/* A part of a graph that is to be compiled. Its graph has inputs and outputs in order, constants
 * inside, and the types of every entry (graph_type). */
typedef struct WeftRegion {
  size_t struct_size;
  const WeftGraph* graph;
  const WeftDelegateOptions* options;
  int32_t threads; /* of the program; the engine takes no more */
  int32_t extents; /* WEFT_EXTENTS_* */
} WeftRegion;

/* One run of a region. Operands are dense and row-major, in memory of the delegate's kind; what is
 * written shares memory with nothing else of the call. */
typedef struct WeftRegionCall {
  size_t struct_size;
  int32_t num_inputs, num_outputs;
  const WeftView* const* inputs;
  const WeftView* const* outputs; /* to be written */
  void* stream;         /* of the device, where work is to be given to it; null: the host */
  int64_t copied_bytes; /* set by `run`: of operands that it could not use where they lie */
} WeftRegionCall;

enum {
  WEFT_DELEGATE_CONCURRENT = 1u,    /* several instances of one engine may run at a time */
  WEFT_DELEGATE_DETERMINISTIC = 2u, /* equal operands give equal bits */
  /* Is asked to compile a region with WEFT_EXTENTS_ANY where it has such extents, one engine for
   * all runs; where it answers WEFT_E_UNSUPPORTED it gets WEFT_EXTENTS_FIXED, once for each set. */
  WEFT_DELEGATE_ANY_EXTENTS = 4u,
  /* `run` gives its work to call->stream, and the next run of the instance may be given to another
   * one before that is done; without it the work is done when `run` returns. */
  WEFT_DELEGATE_STREAMS = 8u,
  /* `run` works on threads of the engine's own, which are none of OpenMP's in this process: the
   * host's threads sleep until it returns, and loops of OpenMP inside it have one thread. */
  WEFT_DELEGATE_OWN_THREADS = 16u
};

typedef struct WeftDelegateDef {
  size_t struct_size;
  const char* name;
  const char* doc;
  uint32_t flags; /* WEFT_DELEGATE_* */
  int32_t device; /* where operands lie, a DLDeviceType of DLPack; 1: host */
  const WeftOptionDef* options;
  size_t num_options;
  /* Opens the engine where it is not open yet and tells its version, a part of the key of what is
   * kept on disk. Fails with what this machine lacks, what to install and which variable says
   * where. */
  WeftStatus (*version)(void* user, const char** text);
  /* May the node be part of a region? WEFT_E_UNSUPPORTED: no, with the reason by host->fail. The
   * engine is open. */
  WeftStatus (*supports)(void* user, const WeftDelegateOptions* options, const WeftGraph* graph,
                         const WeftNode* node);
  /* Makes what `prepare` makes instances of. WEFT_E_UNSUPPORTED: the region's nodes run elsewhere.
   * Null `engine` is not allowed on success. */
  WeftStatus (*compile)(void* user, const WeftRegion* region, void** engine);
  void (*destroy)(void* user, void* engine);
  /* An instance serves one run at a time, on any thread. Both or neither; without them `run` gets
   * the engine. */
  WeftStatus (*prepare)(void* user, void* engine, void** instance);
  void (*release)(void* user, void* instance);
  WeftStatus (*run)(void* user, void* instance, WeftRegionCall* call);
  /* Optional. An engine as bytes, by host->bytes_write, and back. An import that does not fit the
   * region, this version or this machine fails, and the region is compiled. */
  WeftStatus (*export_engine)(void* user, void* engine, WeftBytes* bytes);
  WeftStatus (*import_engine)(void* user, const WeftRegion* region, const void* bytes, size_t size,
                              void** engine);
  /* Optional. Microseconds of one run, without what lies around it. */
  WeftStatus (*estimate)(void* user, const WeftRegion* region, double* us);
  /* Optional. Where the time of the latest run of an instance went, by host->rows_add. */
  WeftStatus (*profile)(void* user, void* instance, WeftRows* rows);
  void* user;
} WeftDelegateDef;

/* ---- the host ---- */

typedef struct WeftHost {
  size_t struct_size;
  uint32_t api_min, api_max; /* versions of this interface that the host speaks */
  const char* version;       /* of Weft: "0.2.0" */
  const char* abi_id;        /* of its C++ headers */

  /* Keeps a message for the status that the callback is about to return,
   * and returns that status. */
  WeftStatus (*fail)(WeftStatus status, const char* message);
  /* Of the last call of this table that failed on this thread; never null. */
  const char* (*last_error)(void);
  void (*warn)(const char* message);

  /* Registration: inside weft_plugin_init_v1 only. */
  WeftStatus (*register_op)(const WeftOpDef* def);
  WeftStatus (*register_compute)(const WeftComputeDef* def);
  WeftStatus (*register_pass)(const WeftPassDef* def);
  WeftStatus (*register_backend)(const WeftBackendDef* def);

  /* Nodes; a null one has no operator, name, inputs or outputs. Texts live until the next call on
   * this thread. An attribute that is not set gives the default of the operator, or
   * WEFT_E_BAD_ATTRIBUTE. */
  const char* (*node_op)(const WeftNode* node); /* "" for a variable */
  const char* (*node_name)(const WeftNode* node);
  int32_t (*node_num_inputs)(const WeftNode* node);
  int32_t (*node_num_outputs)(const WeftNode* node);
  WeftEntry (*node_input)(const WeftNode* node, int32_t index);
  WeftStatus (*node_attr_int)(const WeftNode* node, const char* name, int64_t* value);
  WeftStatus (*node_attr_float)(const WeftNode* node, const char* name, double* value);
  WeftStatus (*node_attr_string)(const WeftNode* node, const char* name, const char** value);
  WeftStatus (*node_attr_ints)(const WeftNode* node, const char* name, const int64_t** values,
                               size_t* count);

  /* Extents. `op` is one of + - * / (floor) % m (min) M (max). */
  WeftDim (*dim_int)(int64_t value);
  WeftDim (*dim_op)(char op, WeftDim a,
                    WeftDim b); /* null where an operand is unknown or the result overflows */
  int32_t (*dim_value)(WeftDim dim, int64_t* value); /* 1 where it is a number */
  const char* (*dim_text)(WeftDim dim);

  /* Inference. */
  const WeftNode* (*infer_node)(const WeftInference* inference);
  WeftDType (*infer_dtype)(const WeftInference* inference, int32_t input);
  int32_t (*infer_rank)(const WeftInference* inference, int32_t input); /* -1: unknown, or absent */
  WeftDim (*infer_dim)(const WeftInference* inference, int32_t input, int32_t axis);
  /* rank -1: unknown. */
  WeftStatus (*infer_set)(WeftInference* inference, int32_t output, WeftDType dtype, int32_t rank,
                          const WeftDim* dims);

  /* The graph of a pass. */
  /* Nodes in topological order; writes up to `capacity` of them and returns how many there are. */
  size_t (*graph_nodes)(const WeftGraph* graph, WeftNode** nodes, size_t capacity);
  /* By nodes and as output. */
  size_t (*graph_num_uses)(const WeftGraph* graph, const WeftNode* node);
  /* Needs the graph attributes dtype and shape. Writes up to `capacity`
   * extents; rank -1: unknown. */
  WeftStatus (*graph_type)(const WeftGraph* graph, WeftEntry entry, WeftDType* dtype, int32_t* rank,
                           WeftDim* dims, size_t capacity);
  /* The constant behind an entry, null where it is none; until the next call on this thread. */
  const WeftView* (*graph_constant)(const WeftGraph* graph, WeftEntry entry);
  /* `attrs` as in text form, "axis = -1, perm = [1, 0]"; may be null. */
  WeftStatus (*graph_add_node)(WeftGraph* graph, const char* op, const WeftEntry* inputs,
                               size_t count, const char* attrs, const char* name, WeftNode** node);
  WeftStatus (*graph_add_constant)(WeftGraph* graph, const WeftView* value, WeftEntry* entry);
  /* Every use of output i of `node` becomes entries[i]. Nodes that nothing needs any more go
   * when the pass ends. */
  WeftStatus (*graph_replace)(WeftGraph* graph, WeftNode* node, const WeftEntry* entries,
                              size_t count);
  /* Asked before each rewrite: 0, and it must not happen (somebody bisects). */
  int32_t (*pass_fuel)(WeftPassRun* run, const char* rewrite, const WeftNode* node);
  void (*pass_count)(WeftPassRun* run, const char* statistic, int64_t n);

  /* The host's machine code of a kernel, for backends that only look on. */
  WeftStatus (*kernel_open)(const WeftKernel* kernel, WeftHostKernel** code);
  WeftStatus (*kernel_launch)(const WeftHostKernel* code, void* const* buffers,
                              const int64_t* dims);
  void (*kernel_close)(WeftHostKernel* code);

  /* Delegates. */
  WeftStatus (*register_delegate)(const WeftDelegateDef* def);
  WeftStatus (*option_int)(const WeftDelegateOptions* options, const char* name,
                           int64_t* value); /* b too */
  WeftStatus (*option_float)(const WeftDelegateOptions* options, const char* name, double* value);
  WeftStatus (*option_string)(const WeftDelegateOptions* options, const char* name,
                              const char** value);
  WeftStatus (*bytes_write)(WeftBytes* bytes, const void* data, size_t size);
  /* `name`: what the user's graph calls it, or a step of the engine's own. */
  WeftStatus (*rows_add)(WeftRows* rows, const char* name, const char* kind, double us);

  /* Inputs (variables that are fed) and outputs of a graph, in order. */
  size_t (*graph_num_inputs)(const WeftGraph* graph);
  size_t (*graph_num_outputs)(const WeftGraph* graph);
  WeftEntry (*graph_input)(const WeftGraph* graph, size_t index); /* its node_name is its name */
  WeftEntry (*graph_output)(const WeftGraph* graph, size_t index);
  /* A serialized ONNX model of the graph, whose inputs and outputs are named x0, x1 .., y0, y1 ..
   * in their order. Lives until the callback returns. */
  WeftStatus (*graph_onnx)(const WeftGraph* graph, const void** bytes, size_t* size);
  /* As graph_num_uses, of one output. */
  size_t (*graph_entry_uses)(const WeftGraph* graph, WeftEntry entry);
  /* 1 where the attribute is set, not only declared with a default. */
  int32_t (*node_has_attr)(const WeftNode* node, const char* name);
  /* As node_attr_ints. */
  WeftStatus (*node_attr_floats)(const WeftNode* node, const char* name, const double** values,
                                 size_t* count);
  WeftStatus (*node_attr_strings)(const WeftNode* node, const char* name,
                                  const char* const** values, size_t* count);
  WeftStatus (*node_attr_tensor)(const WeftNode* node, const char* name, const WeftView** value);
  /* The graph that an attribute holds (a branch, a loop's body); until the callback returns. */
  WeftStatus (*node_attr_graph)(const WeftNode* node, const char* name, const WeftGraph** graph);
  /* The model of graph_onnx as a file in a folder of its own, with large tensors in a second file
   * beside it, each at the beginning of a page: for engines that map files. The folder goes when
   * the callback returns; what is mapped by then stays. */
  WeftStatus (*graph_onnx_file)(const WeftGraph* graph, const char** path);
} WeftHost;

/* ---- the plugin ---- */

/* Filled by weft_plugin_init_v1. The host has set struct_size to what it knows; the plugin sets it
 * to what it filled. */
typedef struct WeftPluginInfo {
  size_t struct_size;
  const char* name; /* [A-Za-z0-9_.-]+; strings are static */
  const char* version;
  const char* doc;
  uint32_t api_min;   /* the oldest version of this interface that it can work with */
  uint32_t api_built; /* the one it was built for */
  const char* abi_id; /* of the C++ headers it was built with; null: it uses none */
} WeftPluginInfo;

typedef WeftStatus (*WeftPluginInit)(const WeftHost* host, WeftPluginInfo* info);

/* Fills what the host has room for. */
static inline void weft_plugin_describe(WeftPluginInfo* info, const char* name, const char* version,
                                        const char* doc) {
  if (info->struct_size >= offsetof(WeftPluginInfo, abi_id)) {
    info->name = name;
    info->version = version;
    info->doc = doc;
    info->api_min = 1u;
    info->api_built = WEFT_PLUGIN_API;
  }
  if (info->struct_size > sizeof(WeftPluginInfo)) info->struct_size = sizeof(WeftPluginInfo);
}

#ifdef __cplusplus
}
#endif

#endif /* WEFT_PLUGIN_H_ */
