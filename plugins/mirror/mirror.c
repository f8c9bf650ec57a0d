/* mirror.c: Weft as an engine of Weft: the delegates `mirror`, `mirror_any` and `mirror_serial`,
 * for tests. A region comes as an ONNX model, becomes a program of the backend cpu (program.c), and
 * runs in the caller's memory on both sides. Options make it err on command. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "program.h"
#include "weft/plugin.h"

static const WeftHost* weft;
enum { kText = 256, kMaxIo = 256, kMaxDims = 16 };

static const WeftOptionDef kOptions[] = {
    {"only", 's', "", "operators that it takes, Conv|MatMul; empty: all that have no graph inside"},
    {"fail", 's', "", "in version, supports, compile, prepare, run, import or export"},
    {"code", 's', "internal", "of the failure: internal, unsupported or oom"},
    {"at", 'i', "0", "which call of that place fails; 0: every one"},
    {"extents", 'i', "-1", "elements of an input above which a region is refused"},
    {"sleep_ms", 'i', "0", "that a run takes longer"},
    {"off", 'f', "0", "added to the first element of every f32 result"},
    {"wrong", 's', "", "regions that hold this operator only are `off`; empty: all"},
    {"copy", 'b', "false", "operands are copied first, and counted"},
    {"unwritten", 'b', "false", "results are not written"},
    {"lie", 'b', "false", "exported engines tell the key of another version"},
    {"damage", 'b', "false", "exported engines have a byte that is not what was written"},
};

/* ---- options ---- */

static int64_t Int(const WeftDelegateOptions* options, const char* name) {
  int64_t value = 0;
  weft->option_int(options, name, &value);
  return value;
}
static const char* Text(const WeftDelegateOptions* options, const char* name) {
  const char* value = "";
  weft->option_string(options, name, &value);
  return value;
}
/* Is `word` one of `list`, "Conv|MatMul"? */
static int Holds(const char* list, const char* word) {
  const size_t length = strlen(word);
  for (const char* at = strstr(list, word); at; at = strstr(at + 1, word))
    if ((at == list || at[-1] == '|') && (at[length] == 0 || at[length] == '|')) return 1;
  return 0;
}

/* Where and how it fails, once compiled. */
typedef struct Fault {
  char place[16];
  WeftStatus code;
  int64_t at;
} Fault;

static Fault FaultOf(const WeftDelegateOptions* options) {
  Fault f;
  const char* code = Text(options, "code");
  snprintf(f.place, sizeof f.place, "%s", Text(options, "fail"));
  f.at = Int(options, "at");
  f.code = strcmp(code, "oom") == 0           ? WEFT_E_OUT_OF_MEMORY
           : strcmp(code, "unsupported") == 0 ? WEFT_E_UNSUPPORTED
                                              : WEFT_E_PLUGIN;
  return f;
}
static WeftStatus MayFail(const Fault* fault, const char* place, int64_t* calls) {
  const int64_t call = __atomic_add_fetch(calls, 1, __ATOMIC_RELAXED);
  char text[kText];
  if (strcmp(fault->place, place) != 0 || (fault->at > 0 && fault->at != call)) return WEFT_OK;
  snprintf(text, sizeof text, "mirror fails in %s, as the option 'fail' asks", place);
  return weft->fail(fault->code, text);
}
static int64_t supports_calls, compile_calls, import_calls, export_calls;

/* ---- engines ---- */

typedef struct Engine {
  Program* program;
  Fault fault;
  int64_t sleep_ms;
  double off;
  int copy, unwritten, lie, damage, serial;
  char* model; /* ONNX */
  size_t model_size;
  int64_t prepare_calls, run_calls;
  int running; /* now */
} Engine;

typedef struct Instance {
  Engine* engine;
  Session* session;
  void* copies[kMaxIo]; /* of inputs, where they are asked for */
} Instance;

/* The failure of the other interface, passed on. */
static WeftStatus FailAsWeft(WeftStatus status) { return weft->fail(status, ProgramError()); }

static WeftStatus Version(void* user, const char** text) {
  const char* missing = getenv("WEFT_MIRROR_MISSING");
  (void)user;
  if (missing && *missing)
    return weft->fail(WEFT_E_UNSUPPORTED,
                      "the mirror is covered: unset WEFT_MIRROR_MISSING to see yourself");
  *text = ProgramVersion();
  return WEFT_OK;
}

static WeftStatus Supports(void* user, const WeftDelegateOptions* options, const WeftGraph* graph,
                           const WeftNode* node) {
  const Fault fault = FaultOf(options);
  const char *op = weft->node_op(node), *only = Text(options, "only");
  const WeftStatus status = MayFail(&fault, "supports", &supports_calls);
  (void)user, (void)graph;
  if (status) return status;
  if (*only && !Holds(only, op))
    return weft->fail(WEFT_E_UNSUPPORTED, "it is not in the option 'only'");
  if (strncmp(op, "weft::", 6) == 0)
    return weft->fail(WEFT_E_UNSUPPORTED, "it is not an operator of ONNX");
  if (strcmp(op, "If") == 0 || strcmp(op, "Loop") == 0 || strcmp(op, "Scan") == 0 ||
      strcmp(op, "SequenceMap") == 0)
    return weft->fail(WEFT_E_UNSUPPORTED, "it holds a graph");
  return WEFT_OK;
}

static void Destroy(void* user, void* engine) {
  Engine* e = (Engine*)engine;
  (void)user;
  ProgramRelease(e->program);
  free(e->model);
  free(e);
}

static int HoldsOp(const WeftGraph* graph, const char* op) {
  const size_t count = weft->graph_nodes(graph, NULL, 0);
  WeftNode** nodes = (WeftNode**)malloc((count + 1) * sizeof *nodes);
  int found = 0;
  if (!nodes) return 0;
  weft->graph_nodes(graph, nodes, count);
  for (size_t i = 0; i < count; ++i) found |= strcmp(weft->node_op(nodes[i]), op) == 0;
  free(nodes);
  return found;
}

/* Has an input of more elements than the option 'extents' allows? */
static WeftStatus CheckExtents(const WeftRegion* region) {
  const int64_t most = Int(region->options, "extents");
  for (size_t i = 0; most >= 0 && i < weft->graph_num_inputs(region->graph); ++i) {
    WeftDim dims[kMaxDims];
    WeftDType dtype;
    int32_t rank = -1;
    int64_t elements = 1, extent;
    const WeftStatus status = weft->graph_type(region->graph, weft->graph_input(region->graph, i),
                                               &dtype, &rank, dims, kMaxDims);
    if (status) return status;
    for (int32_t d = 0; d < rank && d < kMaxDims; ++d)
      elements *= weft->dim_value(dims[d], &extent) ? extent : 1;
    if (elements > most)
      return weft->fail(WEFT_E_UNSUPPORTED, "an input is larger than the option 'extents' allows");
  }
  return WEFT_OK;
}

static WeftStatus Make(const WeftRegion* region, int serial, const void* model, size_t size,
                       void** engine) {
  const char* wrong = Text(region->options, "wrong");
  Engine* e = (Engine*)calloc(1, sizeof *e);
  WeftStatus status;
  if (!e || !(e->model = (char*)malloc(size + 1))) {
    free(e);
    return WEFT_E_OUT_OF_MEMORY;
  }
  memcpy(e->model, model, size);
  e->model_size = size;
  status = ProgramLoad(e->model, size, region->threads, &e->program);
  if (status) {
    free(e->model);
    free(e);
    return FailAsWeft(status);
  }
  e->serial = serial;
  e->fault = FaultOf(region->options);
  e->sleep_ms = Int(region->options, "sleep_ms");
  weft->option_float(region->options, "off", &e->off);
  if (*wrong && !HoldsOp(region->graph, wrong)) e->off = 0;
  e->copy = Int(region->options, "copy") != 0;
  e->unwritten = Int(region->options, "unwritten") != 0;
  e->lie = Int(region->options, "lie") != 0;
  e->damage = Int(region->options, "damage") != 0;
  *engine = e;
  return WEFT_OK;
}

static WeftStatus Compile(void* user, const WeftRegion* region, void** engine) {
  const Fault fault = FaultOf(region->options);
  const void* model;
  size_t size;
  WeftStatus status = MayFail(&fault, "compile", &compile_calls);
  if (!status) status = CheckExtents(region);
  if (!status) status = weft->graph_onnx(region->graph, &model, &size);
  return status ? status : Make(region, user != NULL, model, size, engine);
}

static WeftStatus Prepare(void* user, void* engine, void** instance) {
  Engine* e = (Engine*)engine;
  Instance* made;
  WeftStatus status = MayFail(&e->fault, "prepare", &e->prepare_calls);
  (void)user;
  if (status) return status;
  made = (Instance*)calloc(1, sizeof *made);
  if (!made) return WEFT_E_OUT_OF_MEMORY;
  made->engine = e;
  status = SessionCreate(e->program, &made->session);
  if (status) {
    free(made);
    return FailAsWeft(status);
  }
  *instance = made;
  return WEFT_OK;
}

static void Release(void* user, void* instance) {
  Instance* i = (Instance*)instance;
  (void)user;
  SessionRelease(i->session);
  for (size_t k = 0; k < kMaxIo; ++k) free(i->copies[k]);
  free(i);
}

/* ---- runs ---- */

/* Of an element; 0 where several lie in a byte: such operands are not copied. */
static int64_t BytesOf(WeftDType dtype) {
  switch (dtype) {
    case WEFT_BOOL:
    case WEFT_I8:
    case WEFT_U8:
      return 1;
    case WEFT_I16:
    case WEFT_U16:
    case WEFT_F16:
    case WEFT_BF16:
      return 2;
    case WEFT_I32:
    case WEFT_U32:
    case WEFT_F32:
      return 4;
    case WEFT_I64:
    case WEFT_U64:
    case WEFT_F64:
    case WEFT_C64:
      return 8;
    default:
      return 0;
  }
}

/* An operand of a run where it lies, or, where the options ask, a copy of it. */
static WeftStatus BindInput(Instance* i, const WeftView* view, int32_t index, int64_t* copied) {
  void* data = view->data;
  if (i->engine->copy && view->num_elements * BytesOf(view->dtype) > 0) {
    const int64_t bytes = view->num_elements * BytesOf(view->dtype);
    void* copy = realloc(i->copies[index], (size_t)bytes);
    if (!copy) return WEFT_E_OUT_OF_MEMORY;
    memcpy(copy, data, (size_t)bytes);
    i->copies[index] = data = copy;
    *copied += bytes;
  }
  return SessionBind(i->session, 1, index, view->dtype, view->rank, view->dims, data);
}

static WeftStatus RunNow(Instance* i, WeftRegionCall* call) {
  Engine* e = i->engine;
  struct timespec nap = {0};
  WeftStatus status = MayFail(&e->fault, "run", &e->run_calls);
  if (status) return status;
  if (call->num_inputs > kMaxIo) return weft->fail(WEFT_E_UNSUPPORTED, "too many inputs");
  nap.tv_sec = (time_t)(e->sleep_ms / 1000);
  nap.tv_nsec = (long)(e->sleep_ms % 1000) * 1000000L;
  if (e->sleep_ms > 0) nanosleep(&nap, NULL);
  for (int32_t k = 0; k < call->num_inputs && !status; ++k)
    status = BindInput(i, call->inputs[k], k, &call->copied_bytes);
  /* What is not bound the session writes elsewhere. */
  for (int32_t k = 0; k < call->num_outputs && !status && !e->unwritten; ++k) {
    const WeftView* to = call->outputs[k];
    status = SessionBind(i->session, 0, k, to->dtype, to->rank, to->dims, to->data);
  }
  if (!status) status = SessionRun(i->session);
  if (status) return FailAsWeft(status);
  for (int32_t k = 0; k < call->num_outputs && e->off != 0; ++k)
    if (call->outputs[k]->num_elements > 0 && call->outputs[k]->dtype == WEFT_F32)
      ((float*)call->outputs[k]->data)[0] += (float)e->off;
  return WEFT_OK;
}

static WeftStatus Run(void* user, void* instance, WeftRegionCall* call) {
  Instance* i = (Instance*)instance;
  const int others = __atomic_fetch_add(&i->engine->running, 1, __ATOMIC_ACQ_REL);
  WeftStatus status;
  (void)user;
  if (i->engine->serial && others > 0)
    status = weft->fail(WEFT_E_PLUGIN, "two runs of one engine at a time, which it does not allow");
  else
    status = RunNow(i, call);
  __atomic_fetch_sub(&i->engine->running, 1, __ATOMIC_ACQ_REL);
  return status;
}

/* ---- engines as bytes: a key, a checksum, the model ---- */

typedef struct Head {
  char key[64];
  uint64_t checksum, size;
} Head;

static void WriteKey(char* key, int lie) {
  memset(key, 0, 64);
  snprintf(key, 64, "mirror %s", lie ? "of another version" : ProgramVersion());
}
static uint64_t Checksum(const char* bytes, size_t size) {
  uint64_t h = 14695981039346656037u; /* FNV-1a */
  for (size_t i = 0; i < size; ++i) h = (h ^ (unsigned char)bytes[i]) * 1099511628211u;
  return h;
}

static WeftStatus Export(void* user, void* engine, WeftBytes* bytes) {
  Engine* e = (Engine*)engine;
  const char last = (char)(e->model[e->model_size - 1] ^ e->damage);
  Head head;
  WeftStatus status = MayFail(&e->fault, "export", &export_calls);
  (void)user;
  if (status) return status;
  memset(&head, 0, sizeof head);
  WriteKey(head.key, e->lie);
  head.checksum = Checksum(e->model, e->model_size);
  head.size = e->model_size;
  status = weft->bytes_write(bytes, &head, sizeof head);
  if (!status) status = weft->bytes_write(bytes, e->model, e->model_size - 1);
  return status ? status : weft->bytes_write(bytes, &last, 1);
}

static WeftStatus Import(void* user, const WeftRegion* region, const void* bytes, size_t size,
                         void** engine) {
  const Fault fault = FaultOf(region->options);
  const char* model = (const char*)bytes + sizeof(Head);
  char key[64];
  Head head;
  WeftStatus status = MayFail(&fault, "import", &import_calls);
  if (status) return status;
  if (size < sizeof head) return weft->fail(WEFT_E_BAD_INPUT, "these bytes are not an engine");
  memcpy(&head, bytes, sizeof head);
  WriteKey(key, 0);
  if (memcmp(key, head.key, sizeof key) != 0)
    return weft->fail(WEFT_E_BAD_INPUT, "the engine was made by another version");
  if (head.size != size - sizeof head || head.checksum != Checksum(model, size - sizeof head))
    return weft->fail(WEFT_E_BAD_INPUT, "the engine is damaged");
  return Make(region, user != NULL, model, size - sizeof head, engine);
}

/* ---- the rest ---- */

static WeftStatus Estimate(void* user, const WeftRegion* region, double* us) {
  (void)user;
  *us = 10 * (double)weft->graph_nodes(region->graph, NULL, 0);
  return WEFT_OK;
}
static WeftStatus Profile(void* user, void* instance, WeftRows* rows) {
  (void)user, (void)instance;
  return weft->rows_add(rows, "session", "mirror", 1);
}

WEFT_PLUGIN_EXPORT WeftStatus weft_plugin_init_v1(const WeftHost* host, WeftPluginInfo* info) {
  static int serial;
  WeftDelegateDef def;
  WeftStatus status;
  weft = host;
  weft_plugin_describe(info, "mirror", "1.0", "Weft as its own engine, which errs on command");
  if (!WEFT_HAS(host, WeftHost, node_attr_graph))
    return host->fail(WEFT_E_UNSUPPORTED, "this Weft knows no delegates");
  memset(&def, 0, sizeof def);
  def.struct_size = sizeof def;
  def.name = "mirror";
  def.doc = "Weft as its own engine";
  def.flags = WEFT_DELEGATE_CONCURRENT | WEFT_DELEGATE_DETERMINISTIC;
  def.options = kOptions;
  def.num_options = sizeof kOptions / sizeof *kOptions;
  def.version = Version;
  def.supports = Supports;
  def.compile = Compile;
  def.destroy = Destroy;
  def.prepare = Prepare;
  def.release = Release;
  def.run = Run;
  def.export_engine = Export;
  def.import_engine = Import;
  def.estimate = Estimate;
  def.profile = Profile;
  status = host->register_delegate(&def);
  if (status) return status;
  def.name = "mirror_any";
  def.doc = "the same, with one engine for all extents";
  def.flags |= WEFT_DELEGATE_ANY_EXTENTS;
  status = host->register_delegate(&def);
  if (status) return status;
  def.name = "mirror_serial";
  def.doc = "the same, whose engines allow one run at a time";
  def.flags = WEFT_DELEGATE_DETERMINISTIC;
  def.user = &serial;
  return host->register_delegate(&def);
}
