/* openvino.c: gives parts of graphs to OpenVINO, in plain C on weft/plugin.h alone.
 *
 * OpenVINO's C library is opened when it is first asked for; nothing of it is needed to build.
 * README.md says where it is searched, and how a region runs. OpenVINO computes i64 in 32 bits and
 * f64 in f32, so what it computes otherwise than ONNX is refused, by the table at the end. NaN is
 * left to OpenVINO, whose Max, Relu, Clip and pooling lose it. */
#define _GNU_SOURCE /* dladdr, memfd_create */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "weft/plugin.h"

static const WeftHost* weft;

__attribute__((format(printf, 2, 3))) static WeftStatus Fail(WeftStatus status, const char* format,
                                                             ...) {
  char text[1200];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return weft->fail(status, text);
}
static WeftStatus NoMemory(void) { return weft->fail(WEFT_E_OUT_OF_MEMORY, "no memory"); }

/* ---- OpenVINO's C interface, as of 2026.0 ---- */

/* clang-format off */
typedef struct OvCore OvCore;
typedef struct OvModel OvModel;
typedef struct OvCompiled OvCompiled;
typedef struct OvRequest OvRequest;
typedef struct OvTensor OvTensor;
typedef struct OvPort OvPort;
typedef struct OvVersion { const char *build, *description; } OvVersion;
typedef struct OvShape { int64_t rank, *dims; } OvShape;
typedef struct OvExtent { int64_t min, max; } OvExtent; /* max -1: none */
typedef struct OvPartialShape { OvExtent rank, *dims; } OvPartialShape;
typedef struct OvRow {
  int32_t status; /* 2: executed */
  int64_t real_us, cpu_us;
  const char *name, *executed_as, *type;
} OvRow;
typedef struct OvRows { OvRow* rows; size_t size; } OvRows;

/* Result, name behind ov_, arguments. An int32_t is 0 or the code of an error. */
#define OPENVINO_FUNCTIONS(F)                                                                     \
  F(int32_t, get_openvino_version, (OvVersion*))                                                  \
  F(void, version_free, (OvVersion*))                                                             \
  F(const char*, get_last_err_msg, (void))                                                        \
  F(const char*, get_error_info, (int32_t))                                                       \
  F(void, free, (const char*))                                                                    \
  F(int32_t, core_create, (OvCore**))                                                             \
  F(int32_t, core_set_property, (const OvCore*, const char* device, ...))                         \
  F(int32_t, core_get_property, (const OvCore*, const char* device, const char* key, char**))     \
  F(int32_t, core_read_model,                                                                     \
    (const OvCore*, const char* path, const char* weights, OvModel**))                            \
  F(int32_t, core_read_model_from_memory_buffer,                                                  \
    (const OvCore*, const char* bytes, size_t size, const OvTensor* weights, OvModel**))          \
  F(int32_t, core_compile_model, (const OvCore*, const OvModel*, const char* device,              \
                                  size_t properties, OvCompiled**, ...))                          \
  F(int32_t, core_import_model,                                                                   \
    (const OvCore*, const char* bytes, size_t size, const char* device, OvCompiled**))            \
  F(void, core_free, (OvCore*))                                                                   \
  F(void, model_free, (OvModel*))                                                                 \
  F(int32_t, compiled_model_export_model, (const OvCompiled*, const char* path))                  \
  F(int32_t, compiled_model_inputs_size, (const OvCompiled*, size_t*))                            \
  F(int32_t, compiled_model_outputs_size, (const OvCompiled*, size_t*))                           \
  F(int32_t, compiled_model_input_by_index, (const OvCompiled*, size_t, OvPort**))                \
  F(int32_t, compiled_model_input_by_name, (const OvCompiled*, const char*, OvPort**))            \
  F(int32_t, compiled_model_output_by_index, (const OvCompiled*, size_t, OvPort**))               \
  F(int32_t, compiled_model_create_infer_request, (const OvCompiled*, OvRequest**))               \
  F(void, compiled_model_free, (OvCompiled*))                                                     \
  F(int32_t, port_get_element_type, (const OvPort*, int32_t*))                                    \
  F(int32_t, port_get_partial_shape, (const OvPort*, OvPartialShape*))                            \
  F(void, partial_shape_free, (OvPartialShape*))                                                  \
  F(void, output_const_port_free, (OvPort*))                                                      \
  F(int32_t, tensor_create_from_host_ptr, (int32_t type, OvShape, void*, OvTensor**))             \
  F(int32_t, tensor_get_byte_size, (const OvTensor*, size_t*))                                    \
  F(int32_t, tensor_get_shape, (const OvTensor*, OvShape*))                                       \
  F(int32_t, tensor_data, (const OvTensor*, void**))                                              \
  F(int32_t, shape_free, (OvShape*))                                                              \
  F(void, tensor_free, (OvTensor*))                                                               \
  F(int32_t, infer_request_set_tensor_by_const_port,                                              \
    (OvRequest*, const OvPort*, const OvTensor*))                                                 \
  F(int32_t, infer_request_get_tensor_by_const_port,                                              \
    (const OvRequest*, const OvPort*, OvTensor**))                                                \
  F(int32_t, infer_request_infer, (OvRequest*))                                                   \
  F(int32_t, infer_request_get_profiling_info, (const OvRequest*, OvRows*))                       \
  F(void, profiling_info_list_free, (OvRows*))                                                    \
  F(void, infer_request_free, (OvRequest*))

/* Element types as OpenVINO numbers them since 2026 (every operand's is compared); their bytes. */
static const struct { int32_t number, bytes; } ov_types[] = {
    [WEFT_BOOL] = {1, 1}, [WEFT_BF16] = {2, 2}, [WEFT_F16] = {3, 2}, [WEFT_F32] = {4, 4},
    [WEFT_F64] = {5, 8},  [WEFT_I8] = {7, 1},   [WEFT_I16] = {8, 2}, [WEFT_I32] = {9, 4},
    [WEFT_I64] = {10, 8}, [WEFT_U8] = {16, 1},  [WEFT_U16] = {17, 2}, [WEFT_U32] = {18, 4},
    [WEFT_U64] = {19, 8}};
/* clang-format on */

static int HasOvType(WeftDType dtype) { return dtype > 0 && dtype <= WEFT_F64; }
static struct {
#define DECLARE(Result, name, arguments) Result(*name) arguments;
  OPENVINO_FUNCTIONS(DECLARE)
#undef DECLARE
  char version[96]; /* empty: not open yet */
} ov;

/* Fails with OpenVINO's own text, in one line. */
static WeftStatus OvFail(WeftStatus status, int32_t code, const char* doing) {
  char text[900];
  const char* said = ov.get_last_err_msg();
  snprintf(text, sizeof text, "%s", said && *said ? said : ov.get_error_info(code));
  for (char* p = text; *p; ++p)
    if (*p == '\n') *p = ' ';
  ov.free(said);
  if (strstr(text, "bad_alloc") || strstr(text, "llocation failed")) status = WEFT_E_OUT_OF_MEMORY;
  return Fail(status, "OpenVINO failed %s (code %d): %s", doing, (int)code, text);
}

/* ---- who is inside ---- */

/* A process may end while others still call, and what OpenVINO has destroyed by then must not be
 * used. So those inside are counted, the end awaits them, and later calls fail. */
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t empty;
  int64_t inside;
  int closing;
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
enum { kSecondsToEnd = 30 };
static int Enter(void) {
  pthread_mutex_lock(&gate.mutex);
  const int open = !gate.closing;
  gate.inside += open;
  pthread_mutex_unlock(&gate.mutex);
  return open;
}

static WeftStatus Leave(WeftStatus status) {
  pthread_mutex_lock(&gate.mutex);
  if (--gate.inside == 0 && gate.closing) pthread_cond_broadcast(&gate.empty);
  pthread_mutex_unlock(&gate.mutex);
  return status;
}

/* A callback that counts itself in. */
#define CALLBACK(Name, parameters, call)                                                  \
  static WeftStatus Name parameters {                                                     \
    (void)user;                                                                           \
    return Enter() ? Leave(call) : weft->fail(WEFT_E_CANCELLED, "the process is ending"); \
  }

/* Before OpenVINO's own end: registered again after whatever may have made it register more. */
static void AtExit(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kSecondsToEnd;
  pthread_mutex_lock(&gate.mutex);
  const int first = !gate.closing;
  gate.closing = 1;
  while (first && gate.inside > 0)
    if (pthread_cond_timedwait(&gate.empty, &gate.mutex, &until) != 0) break;
  pthread_mutex_unlock(&gate.mutex);
}

/* ---- opening ---- */

/* Libraries are named by year, minor and patch: libopenvino_c.so.2641. */
enum { kOldestName = 2600, kNewestName = 2999 };
#define INSTALL \
  "; install OpenVINO 2026.0 or newer (pip install openvino) and set WEFT_OPENVINO to its folder"
static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;

static char why_not[1000]; /* the library was not opened; under open_mutex, as what follows */
/* What is opened outlives the process's end: a thread may be inside. */
static void* Open(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) snprintf(why_not, sizeof why_not, "%s", dlerror());
  return library;
}

/* In a folder, or below it where wheels and archives have the library. */
static void* OpenIn(const char* folder, const char* below) {
  static const char* const places[] = {".", "libs", "openvino/libs", "runtime/lib/intel64"};
  void* library = NULL;
  for (size_t i = 0; folder && *folder && !library && i < sizeof places / sizeof *places; ++i) {
    char path[4096];
    struct dirent* file;
    snprintf(path, sizeof path, "%s/%s/%s", folder, below, places[i]);
    DIR* listing = opendir(path);
    while (listing && !library && (file = readdir(listing))) {
      if (strncmp(file->d_name, "libopenvino_c.so", 16) != 0) continue;
      snprintf(path, sizeof path, "%s/%s/%s/%s", folder, below, places[i], file->d_name);
      library = Open(path);
    }
    if (listing) closedir(listing);
  }
  return library;
}

static void* Find(void) {
  const char* told = getenv("WEFT_OPENVINO");
  char name[4096] = "";
  struct stat status;
  Dl_info self;
  void* library;
  if (told && *told) { /* and no other */
    snprintf(why_not, sizeof why_not, "no libopenvino_c.so in WEFT_OPENVINO, %s", told);
    return stat(told, &status) == 0 && !S_ISDIR(status.st_mode) ? Open(told) : OpenIn(told, ".");
  }
  if (dladdr((void*)&weft, &self) && self.dli_fname && strchr(self.dli_fname, '/')) {
    snprintf(name, sizeof name, "%s", self.dli_fname);
    *strrchr(name, '/') = 0;
  }
  if ((library = OpenIn(name, ".")) || (library = OpenIn(getenv("WEFT_DATA_DIR"), "openvino")) ||
      (library = OpenIn(getenv("WEFT_DEPS_DIR"), "data/openvino")))
    return library;
  for (int release = kNewestName; !library && release >= kOldestName; --release) {
    snprintf(name, sizeof name, "libopenvino_c.so.%d", release);
    library = Open(name);
  }
  return library ? library : Open("libopenvino_c.so");
}

static WeftStatus Unlock(WeftStatus status) {
  pthread_mutex_unlock(&open_mutex);
  return status;
}
static WeftStatus LockAndOpen(const char** text) {
  const char* missing = NULL;
  OvVersion version = {NULL, NULL};
  char build[96] = "of unknown version";
  pthread_mutex_lock(&open_mutex);
  *text = ov.version;
  if (*ov.version) return WEFT_OK;
  void* library = Find();
  if (!library) return Fail(WEFT_E_UNSUPPORTED, "OpenVINO is not available (%s)" INSTALL, why_not);
#define RESOLVE(Result, name, arguments)           \
  *(void**)&ov.name = dlsym(library, "ov_" #name); \
  if (!ov.name && !missing) missing = "ov_" #name;
  OPENVINO_FUNCTIONS(RESOLVE)
#undef RESOLVE
  if (ov.get_openvino_version && ov.version_free && ov.get_openvino_version(&version) == 0) {
    snprintf(build, sizeof build, "%s", version.build);
    ov.version_free(&version);
  }
  const int year = atoi(build);
  if (year > 0 && year < 2026) missing = "recent enough functions";
  if (missing) return Fail(WEFT_E_UNSUPPORTED, "OpenVINO %s has no %s" INSTALL, build, missing);
  memcpy(ov.version, build, sizeof build);
  atexit(AtExit);
  return WEFT_OK;
}

CALLBACK(Version, (void* user, const char** text), Unlock(LockAndOpen(text)))

/* ---- options ---- */

static const WeftOptionDef options[] = {
    {"precision", 's', "f32", "of what the graph computes in f32: f32, bf16 or f16"},
    {"int32", 'b', "0", "take arithmetic on i64, which OpenVINO does in 32 bits"},
    {"streams", 'i', "1", "runs at a time that the threads are divided among"},
    {"pinning", 'b', "0", "bind threads to cores"},
    {"dynamic", 'b', "0", "compile once for all extents, not once for each"},
    {"profile", 'b', "0", "measure every step, for the rows of a profile"}};

/* OpenVINO's core with the properties of one set of options: an import takes them from nowhere
 * else. There are few, and they stay. */
typedef struct Core {
  struct Core* next;
  OvCore* core;
  char properties[400]; /* NAME=value, a line each */
  char key[800];        /* with version and processor: what an exported engine is good for */
} Core;
static Core* cores; /* under open_mutex */

static WeftStatus ReadOptions(const WeftRegion* region, char* to, size_t size) {
  const char* precision = NULL;
  int64_t streams = 1, pinning = 0, profile = 0, dynamic = 0;
  WeftStatus status = weft->option_string(region->options, "precision", &precision);
  if (status == WEFT_OK) status = weft->option_int(region->options, "streams", &streams);
  if (status == WEFT_OK) status = weft->option_int(region->options, "pinning", &pinning);
  if (status == WEFT_OK) status = weft->option_int(region->options, "profile", &profile);
  if (status == WEFT_OK) status = weft->option_int(region->options, "dynamic", &dynamic);
  if (status != WEFT_OK) return status;
  const int exact = strcmp(precision, "f32") == 0;
  if (!exact && strcmp(precision, "bf16") != 0 && strcmp(precision, "f16") != 0)
    return Fail(WEFT_E_UNKNOWN_OPTION, "precision is '%.40s', not f32, bf16 or f16", precision);
  if (streams < 1 || streams > 1024)
    return Fail(WEFT_E_UNKNOWN_OPTION, "streams is %lld, not 1 to 1024", (long long)streams);
  if (region->extents == WEFT_EXTENTS_ANY && !dynamic)
    return weft->fail(WEFT_E_UNSUPPORTED, "it is compiled for each set (option dynamic)");
  /* In mode ACCURACY nothing is quantized on the way. */
  snprintf(to, size,
           "INFERENCE_PRECISION_HINT=%s\nPERFORMANCE_HINT=LATENCY\nEXECUTION_MODE_HINT=%s\n"
           "INFERENCE_NUM_THREADS=%d\nNUM_STREAMS=%d\nENABLE_CPU_PINNING=%s\nPERF_COUNT=%s\n",
           precision, exact ? "ACCURACY" : "PERFORMANCE",
           (int)(region->threads > 0 ? region->threads : 1), (int)streams, pinning ? "YES" : "NO",
           profile ? "YES" : "NO");
  return WEFT_OK;
}

/* Makes the core, sets its properties and tells its key. */
static WeftStatus SetUp(Core* c) {
  char *name = NULL, *instructions = NULL, key[80], value[80], doing[200];
  int32_t code = ov.core_create(&c->core);
  if (code != 0) return OvFail(WEFT_E_UNSUPPORTED, code, "starting");
  for (const char* line = c->properties; sscanf(line, "%79[^=]=%79[^\n]", key, value) == 2;
       line = strchr(line, '\n') + 1) {
    if ((code = ov.core_set_property(c->core, "CPU", key, value)) == 0) continue;
    snprintf(doing, sizeof doing, "setting %s to %s", key, value);
    return OvFail(WEFT_E_UNSUPPORTED, code, doing);
  }
  ov.core_get_property(c->core, "CPU", "FULL_DEVICE_NAME", &name);
  ov.core_get_property(c->core, "CPU", "OPTIMIZATION_CAPABILITIES", &instructions);
  snprintf(c->key, sizeof c->key, "OpenVINO %s\n%.100s\n%.100s\n%s", ov.version, name ? name : "",
           instructions ? instructions : "", c->properties);
  ov.free(name);
  ov.free(instructions);
  return WEFT_OK;
}

static WeftStatus CoreFor(const WeftRegion* region, const Core** found) {
  Core *made = calloc(1, sizeof *made), *c;
  if (!made) return NoMemory();
  WeftStatus status = ReadOptions(region, made->properties, sizeof made->properties);
  pthread_mutex_lock(&open_mutex);
  for (c = cores; c && strcmp(c->properties, made->properties) != 0;) c = c->next;
  if (status == WEFT_OK && !c && (status = SetUp(made)) == WEFT_OK) {
    c = made;
    c->next = cores;
    cores = c;
  }
  pthread_mutex_unlock(&open_mutex);
  if (c != made) {
    if (made->core) ov.core_free(made->core);
    free(made);
  }
  *found = c;
  return status;
}

/* ---- engines ---- */

enum { kMaxRank = 8 }; /* of OpenVINO's kernels */
typedef struct Engine {
  OvCompiled* compiled;
  const Core* core;
  int32_t num_inputs, num_outputs;
  int fixed;       /* OpenVINO knows every extent */
  OvPort* ports[]; /* inputs, then outputs; null: an input that nothing reads */
} Engine;

static void FreeEngine(Engine* e) {
  for (int32_t k = 0; k < e->num_inputs + e->num_outputs; ++k)
    if (e->ports[k]) ov.output_const_port_free(e->ports[k]);
  ov.compiled_model_free(e->compiled);
  free(e);
}

/* Is what OpenVINO made of one operand what the region says? */
static WeftStatus CheckPort(const WeftRegion* region, Engine* e, int32_t k) {
  const int is_input = k < e->num_inputs;
  const size_t index = (size_t)(is_input ? k : k - e->num_inputs);
  WeftDType dtype = WEFT_DTYPE_UNKNOWN;
  WeftDim dims[kMaxRank];
  int32_t rank = -1, number = 0, code;
  OvPartialShape shape = {{0, 0}, NULL};
  const WeftStatus status = weft->graph_type(
      region->graph,
      is_input ? weft->graph_input(region->graph, index) : weft->graph_output(region->graph, index),
      &dtype, &rank, dims, kMaxRank);
  if (status != WEFT_OK) return status;
  if ((code = ov.port_get_element_type(e->ports[k], &number)) != 0 ||
      (code = ov.port_get_partial_shape(e->ports[k], &shape)) != 0)
    return OvFail(WEFT_E_UNSUPPORTED, code, "telling its operands");
  const int ranked = shape.rank.min == shape.rank.max;
  int same = rank <= kMaxRank && HasOvType(dtype) && number == ov_types[dtype].number &&
             (!ranked || rank < 0 || shape.rank.min == rank);
  if (!ranked) e->fixed = 0;
  for (int32_t d = 0; same && ranked && d < rank; ++d) {
    const OvExtent extent = shape.dims[d];
    int64_t value = -1;
    if (extent.min != extent.max) e->fixed = 0;
    if (dims[d] && weft->dim_value(dims[d], &value))
      same = extent.min <= value && (extent.max < 0 || value <= extent.max);
  }
  ov.partial_shape_free(&shape);
  return same ? WEFT_OK
              : Fail(WEFT_E_UNSUPPORTED, "OpenVINO gives %s %zu another type or shape",
                     is_input ? "input" : "output", index);
}

/* Finds the ports of a region's operands. OpenVINO drops inputs that nothing reads, and takes an
 * output that is an input for that input. */
static WeftStatus FindPorts(const WeftRegion* region, Engine* e) {
  const OvCompiled* c = e->compiled;
  size_t inputs = 0, outputs = 0, found = 0;
  WeftStatus status = WEFT_OK;
  if (ov.compiled_model_inputs_size(c, &inputs) != 0 ||
      ov.compiled_model_outputs_size(c, &outputs) != 0 || outputs != (size_t)e->num_outputs)
    return weft->fail(WEFT_E_UNSUPPORTED, "OpenVINO gives the region other outputs");
  const int dropped = inputs != (size_t)e->num_inputs;
  for (int32_t k = 0; status == WEFT_OK && k < e->num_inputs + e->num_outputs; ++k) {
    const int is_input = k < e->num_inputs;
    const size_t index = (size_t)(is_input ? k : k - e->num_inputs);
    OvPort *port = NULL, *same = NULL;
    char name[24];
    snprintf(name, sizeof name, "%c%zu", is_input ? 'x' : 'y', index);
    const int32_t code = !is_input ? ov.compiled_model_output_by_index(c, index, &port)
                         : dropped ? ov.compiled_model_input_by_name(c, name, &port)
                                   : ov.compiled_model_input_by_index(c, index, &port);
    if (code != 0 && is_input && dropped) continue;
    if (code != 0) return OvFail(WEFT_E_UNSUPPORTED, code, "telling its operands");
    e->ports[k] = port;
    found += (size_t)is_input;
    status = CheckPort(region, e, k);
    if (is_input || ov.compiled_model_input_by_name(c, name, &same) != 0) continue;
    ov.output_const_port_free(same);
    return Fail(WEFT_E_UNSUPPORTED, "output %zu of the region is an input", index);
  }
  if (status == WEFT_OK && found != inputs)
    return weft->fail(WEFT_E_UNSUPPORTED, "OpenVINO gives the region other inputs");
  return status;
}

/* Takes `compiled` over. */
static WeftStatus MakeEngine(const WeftRegion* region, const Core* core, OvCompiled* compiled,
                             void** engine) {
  const size_t inputs = weft->graph_num_inputs(region->graph),
               outputs = weft->graph_num_outputs(region->graph);
  Engine* e = calloc(1, sizeof *e + (inputs + outputs) * sizeof *e->ports);
  if (!e) {
    ov.compiled_model_free(compiled);
    return NoMemory();
  }
  *e = (Engine){compiled, core, (int32_t)inputs, (int32_t)outputs, 1};
  const WeftStatus status = FindPorts(region, e);
  atexit(AtExit); /* OpenVINO may have registered more to be run at the end */
  if (status == WEFT_OK)
    *engine = e;
  else
    FreeEngine(e);
  return status;
}

static WeftStatus CompileInside(const WeftRegion* region, void** engine) {
  const Core* core = NULL;
  const char* path = NULL;
  const void* bytes = NULL;
  size_t size = 0;
  int32_t code = 0;
  OvModel* model = NULL;
  OvCompiled* compiled = NULL;
  WeftStatus status = CoreFor(region, &core);
  if (status == WEFT_OK && weft->graph_onnx_file(region->graph, &path) == WEFT_OK)
    code = ov.core_read_model(core->core, path, NULL, &model); /* maps its weights */
  else if (status == WEFT_OK && !(status = weft->graph_onnx(region->graph, &bytes, &size)))
    code = ov.core_read_model_from_memory_buffer(core->core, bytes, size, NULL, &model);
  if (status != WEFT_OK) return status;
  if (code != 0) return OvFail(WEFT_E_UNSUPPORTED, code, "reading the region");
  code = ov.core_compile_model(core->core, model, "CPU", 0, &compiled);
  if (code != 0) status = OvFail(WEFT_E_UNSUPPORTED, code, "compiling the region");
  ov.model_free(model);
  return status == WEFT_OK ? MakeEngine(region, core, compiled, engine) : status;
}
CALLBACK(Compile, (void* user, const WeftRegion* region, void** engine),
         CompileInside(region, engine))

static void Destroy(void* user, void* engine) {
  (void)user;
  if (!Enter()) return; /* the process's end takes it */
  FreeEngine(engine);
  Leave(WEFT_OK);
}

/* ---- engines as bytes ---- */

/* What stands before an exported engine; then the key, then OpenVINO's bytes. */
typedef struct Header {
  char magic[8];
  uint64_t key_size, size, sum; /* sum: of key and bytes */
} Header;
static const char kMagic[8] = "weft-ov1";

/* Every step is a bijection, so a damaged word changes its lane for good. */
static uint64_t Sum(const char* bytes, size_t size, uint64_t seed) {
  const uint64_t odd = 0x9E3779B97F4A7C15u;
  uint64_t lanes[4] = {seed, seed + 1, seed + 2, seed + 3}, word;
  for (; size >= 32; bytes += 32, size -= 32)
    for (int i = 0; i < 4; ++i) {
      memcpy(&word, bytes + 8 * i, 8);
      lanes[i] = (lanes[i] ^ word) * odd;
      lanes[i] ^= lanes[i] >> 29;
    }
  for (; size > 0; ++bytes, --size) lanes[0] = (lanes[0] ^ (unsigned char)*bytes) * odd;
  for (int i = 1; i < 4; ++i) lanes[0] = (lanes[0] ^ (lanes[0] >> 31)) * odd + lanes[i];
  return lanes[0];
}

/* OpenVINO writes a file: one in memory. */
static WeftStatus ExportInside(const Engine* e, WeftBytes* to) {
  const char* key = e->core->key;
  Header header = {{0}, strlen(key), 0, 0};
  char path[64];
  struct stat state;
  void* bytes = MAP_FAILED;
  const int file = memfd_create("weft-openvino", MFD_CLOEXEC);
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const int32_t code = file < 0 ? 0 : ov.compiled_model_export_model(e->compiled, path);
  WeftStatus status = code == 0 ? WEFT_OK : OvFail(WEFT_E_DEVICE, code, "exporting an engine");
  if (file >= 0 && fstat(file, &state) == 0 && (header.size = (uint64_t)state.st_size) > 0)
    bytes = mmap(NULL, header.size, PROT_READ, MAP_SHARED, file, 0);
  if (status == WEFT_OK && bytes == MAP_FAILED)
    status = Fail(WEFT_E_IO, "no exported engine in memory: %s", strerror(errno));
  if (status == WEFT_OK) {
    memcpy(header.magic, kMagic, sizeof kMagic);
    header.sum = Sum(bytes, header.size, Sum(key, header.key_size, header.key_size));
    status = weft->bytes_write(to, &header, sizeof header);
  }
  if (status == WEFT_OK) status = weft->bytes_write(to, key, header.key_size);
  if (status == WEFT_OK) status = weft->bytes_write(to, bytes, header.size);
  if (bytes != MAP_FAILED) munmap(bytes, header.size);
  if (file >= 0) close(file);
  return status;
}
CALLBACK(Export, (void* user, void* engine, WeftBytes* bytes), ExportInside(engine, bytes))

static WeftStatus ImportInside(const WeftRegion* region, const char* bytes, size_t size,
                               void** engine) {
  const Core* core = NULL;
  Header header = {{0}, 0, 0, 0};
  OvCompiled* compiled = NULL;
  const WeftStatus status = CoreFor(region, &core);
  if (status != WEFT_OK) return status;
  if (size >= sizeof header) memcpy(&header, bytes, sizeof header);
  bytes += sizeof header;
  size -= sizeof header; /* if it wraps around, the magic is missing */
  if (memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key_size > size ||
      header.size != size - header.key_size)
    return weft->fail(WEFT_E_SYNTAX, "the bytes are not a whole exported engine of OpenVINO");
  const char* blob = bytes + header.key_size;
  if (Sum(blob, header.size, Sum(bytes, header.key_size, header.key_size)) != header.sum)
    return weft->fail(WEFT_E_SYNTAX, "an exported engine is damaged: its checksum differs");
  if (header.key_size != strlen(core->key) || memcmp(bytes, core->key, header.key_size) != 0)
    return Fail(WEFT_E_UNSUPPORTED, "an engine was exported for\n%.*s\nand this is\n%.500s",
                header.key_size < 500 ? (int)header.key_size : 500, bytes, core->key);
  const int32_t code = ov.core_import_model(core->core, blob, header.size, "CPU", &compiled);
  if (code != 0) return OvFail(WEFT_E_UNSUPPORTED, code, "importing an engine");
  return MakeEngine(region, core, compiled, engine);
}
CALLBACK(Import,
         (void* user, const WeftRegion* region, const void* bytes, size_t size, void** engine),
         ImportInside(region, bytes, size, engine))

/* ---- runs ---- */

/* An operand as a request last got it. */
typedef struct Slot {
  const void* data;
  WeftDType dtype; /* unknown: not set */
  int32_t rank;
  int64_t dims[kMaxRank];
} Slot;

typedef struct Instance {
  const Engine* engine;
  OvRequest* request;
  int ran, checked;
  Slot slots[]; /* inputs, then outputs */
} Instance;

static WeftStatus PrepareInside(const Engine* e, void** instance) {
  const size_t count = (size_t)e->num_inputs + (size_t)e->num_outputs;
  Instance* i = calloc(1, sizeof *i + count * sizeof *i->slots);
  if (!i) return NoMemory();
  const int32_t code = ov.compiled_model_create_infer_request(e->compiled, &i->request);
  if (code != 0) {
    free(i);
    return OvFail(WEFT_E_DEVICE, code, "making an infer request");
  }
  i->engine = e;
  *instance = i;
  return WEFT_OK;
}
CALLBACK(Prepare, (void* user, void* engine, void** instance), PrepareInside(engine, instance))

static void Release(void* user, void* instance) {
  Instance* i = instance;
  (void)user;
  if (!Enter()) return;
  ov.infer_request_free(i->request);
  free(i);
  Leave(WEFT_OK);
}

static int IsSet(const Slot* slot, const WeftView* view) {
  if (slot->data != view->data || slot->rank != view->rank || slot->dtype != view->dtype) return 0;
  for (int32_t d = 0; d < view->rank; ++d)
    if (slot->dims[d] != view->dims[d]) return 0;
  return 1;
}

/* Lets the request use the memory of `view`. */
static WeftStatus Set(Instance* i, int32_t k, const WeftView* view) {
  static char nothing[64]; /* where there are no elements */
  Slot* slot = &i->slots[k];
  OvShape shape = {view->rank, slot->dims};
  OvTensor* tensor = NULL;
  if (view->rank > kMaxRank || !HasOvType(view->dtype))
    return weft->fail(WEFT_E_TYPE_MISMATCH, "OpenVINO has no such operands");
  slot->dtype = WEFT_DTYPE_UNKNOWN;
  for (int32_t d = 0; d < view->rank; ++d) slot->dims[d] = view->dims[d];
  int32_t code = ov.tensor_create_from_host_ptr(ov_types[view->dtype].number, shape,
                                                view->data ? view->data : nothing, &tensor);
  if (code == 0) {
    code = ov.infer_request_set_tensor_by_const_port(i->request, i->engine->ports[k], tensor);
    ov.tensor_free(tensor);
  }
  if (code != 0) return OvFail(WEFT_E_SHAPE_MISMATCH, code, "taking an operand");
  slot->data = view->data;
  slot->dtype = view->dtype;
  slot->rank = view->rank;
  i->checked = 0;
  return WEFT_OK;
}

/* Is the result where it should be, and as large? Copies it where it is not. */
static WeftStatus CheckResult(const Instance* i, int32_t k, const WeftView* view, int64_t* copied) {
  const int64_t bytes = view->num_elements * ov_types[view->dtype].bytes;
  OvTensor* tensor = NULL;
  OvShape shape = {0, NULL};
  size_t size = 0;
  void* data = NULL;
  int32_t code =
      ov.infer_request_get_tensor_by_const_port(i->request, i->engine->ports[k], &tensor);
  if (code != 0) return OvFail(WEFT_E_DEVICE, code, "telling a result");
  int same = (code = ov.tensor_get_byte_size(tensor, &size)) == 0 && (int64_t)size == bytes;
  if (code == 0 && view->rank > 0 && (code = ov.tensor_get_shape(tensor, &shape)) == 0) {
    same = same && shape.rank == view->rank; /* scalars have no shape to tell */
    for (int32_t d = 0; same && d < view->rank; ++d) same = shape.dims[d] == view->dims[d];
    ov.shape_free(&shape);
  }
  if (same && bytes > 0 && (code = ov.tensor_data(tensor, &data)) == 0 && data != view->data) {
    memcpy(view->data, data, (size_t)bytes);
    *copied += bytes;
  }
  ov.tensor_free(tensor);
  if (code != 0) return OvFail(WEFT_E_DEVICE, code, "telling a result");
  return same ? WEFT_OK : weft->fail(WEFT_E_SHAPE_MISMATCH, "OpenVINO's result has another shape");
}

static WeftStatus RunInside(Instance* i, WeftRegionCall* call) {
  const Engine* e = i->engine;
  const int32_t count = e->num_inputs + e->num_outputs;
  WeftStatus status = WEFT_OK;
  call->copied_bytes = 0;
  if (call->num_inputs != e->num_inputs || call->num_outputs != e->num_outputs)
    return weft->fail(WEFT_E_API_MISUSE, "openvino: a region is run with other operands");
  for (int32_t k = 0; k < count; ++k) {
    const WeftView* view = k < e->num_inputs ? call->inputs[k] : call->outputs[k - e->num_inputs];
    if (e->ports[k] && !IsSet(&i->slots[k], view) && (status = Set(i, k, view)) != WEFT_OK)
      return status;
  }
  const int32_t code = ov.infer_request_infer(i->request);
  if (code != 0) return OvFail(WEFT_E_DEVICE, code, "running");
  if (i->checked) return WEFT_OK;
  if (!i->ran) atexit(AtExit);
  i->ran = 1;
  for (int32_t k = e->num_inputs; status == WEFT_OK && k < count; ++k)
    status = CheckResult(i, k, call->outputs[k - e->num_inputs], &call->copied_bytes);
  i->checked = status == WEFT_OK && e->fixed && call->copied_bytes == 0;
  return status;
}
CALLBACK(Run, (void* user, void* instance, WeftRegionCall* call), RunInside(instance, call))

static WeftStatus ProfileInside(const Instance* i, WeftRows* to) {
  OvRows list = {NULL, 0};
  WeftStatus status = WEFT_OK;
  const int32_t code = ov.infer_request_get_profiling_info(i->request, &list);
  if (code != 0) return OvFail(WEFT_E_UNSUPPORTED, code, "telling its steps (option profile)");
  for (size_t r = 0; status == WEFT_OK && r < list.size; ++r) {
    const OvRow* row = &list.rows[r];
    char kind[160];
    if (row->status != 2) continue;
    snprintf(kind, sizeof kind, "%.70s %.80s", row->type, row->executed_as);
    status = weft->rows_add(to, row->name, kind, (double)row->real_us);
  }
  ov.profiling_info_list_free(&list);
  return status;
}
CALLBACK(Profile, (void* user, void* instance, WeftRows* rows), ProfileInside(instance, rows))

/* ---- which nodes it takes ---- */

#define BIT(dtype) (1u << (dtype))
enum {
  kF32 = BIT(WEFT_F32),
  kFloat = BIT(WEFT_F32) | BIT(WEFT_F16),
  kBool = BIT(WEFT_BOOL),
  kByte = BIT(WEFT_I8) | BIT(WEFT_U8),
  kI32 = BIT(WEFT_I32),
  kInt = kByte | BIT(WEFT_I16) | BIT(WEFT_U16) | kI32,
  kAny = kFloat | kBool | kInt,
  kIndex = BIT(WEFT_I32) | BIT(WEFT_I64)
};

/* clang-format off */
/* What of an operator OpenVINO computes as ONNX says. Bit k of `index`: input k holds indexes or
 * extents, i32 or i64; of `fixed`: it must be a constant. `types`: of all other operands, and of
 * results where `results` is 0. `unless`: attributes that are set, or have that value, numbers of
 * inputs, ranks of the first, with which it is refused. */
typedef struct Rule {
  const char *ops, *unless;
  uint32_t types, results, index, fixed;
} Rule;
static const Rule rules[] = {
    {"Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish "
     "LeakyRelu Log LogSoftmax Mean Mish PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sin "
     "Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu Hardmax Conv "
     "ConvTranspose MatMul Gemm GlobalAveragePool GlobalMaxPool InstanceNormalization "
     "GroupNormalization MeanVarianceNormalization RMSNormalization", "", kFloat, 0, 0, 0},
    {"Celu LayerNormalization", "", kF32, 0, 0, 0},
    {"Abs Add Div Mul Neg Sign Sub", "", kFloat | kI32, 0, 0, 0},
    {"Sum", "inputs=1", kFloat | kI32, 0, 0, 0},
    {"Max Min", "inputs=1", kFloat | kInt, 0, 0, 0},
    {"Mod", "fmod=0", kFloat, 0, 0, 0},
    {"Clip", "", kFloat | kInt, 0, 0, 0},
    {"Equal Less LessOrEqual Greater GreaterOrEqual", "", kAny, kBool, 0, 0},
    {"IsInf IsNaN", "", kFloat, kBool, 0, 0},
    {"And Or Xor Not", "", kBool, 0, 0, 0},
    {"BitwiseAnd BitwiseOr BitwiseXor BitwiseNot", "", kInt, 0, 0, 0},
    {"Cast CastLike Identity Transpose Concat Flatten Where DepthToSpace SpaceToDepth", "", kAny, 0,
     0, 0},
    {"Reshape Expand Squeeze Split Gather", "", kAny, 0, 2, 0},
    {"Unsqueeze Tile Trilu GatherElements GatherND ScatterND", "", kAny, 0, 2, 2},
    {"Slice", "", kAny, 0, 30, 0},
    {"Pad", "mode=wrap", kFloat | kByte | kBool, 0, 10, 10},
    {"Constant", "", kAny | kIndex, 0, 0, 0},
    {"ConstantOfShape", "", kAny, 0, 1, 1},
    {"Shape Size", "", kAny, kIndex, 0, 0},
    {"OneHot", "", kFloat, 0, 3, 2},
    {"Einsum", "equation=->", kFloat, 0, 0, 0},
    {"AveragePool LpPool", "ceil_mode=1 auto_pad=SAME_UPPER auto_pad=SAME_LOWER", kFloat, 0, 0, 0},
    {"MaxPool", "ceil_mode=1 auto_pad=SAME_UPPER auto_pad=SAME_LOWER", kFloat, kFloat | kIndex, 0,
     0},
    {"LRN GridSample", "rank=2 rank=3 rank=5", kFloat, 0, 0, 0},
    {"BatchNormalization", "training_mode=1", kFloat, 0, 0, 0},
    {"ReduceMean ReduceSum ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
     "ReduceSumSquare", "noop_with_empty_axes=1", kFloat, 0, 2, 2},
    {"ReduceMax ReduceMin", "noop_with_empty_axes=1", kFloat | kByte, 0, 2, 2},
    {"ArgMax ArgMin", "", kFloat | kInt, kIndex, 0, 0},
    {"CumSum", "", kFloat | kI32, 0, 2, 2},
    {"LSTM GRU RNN", "layout=1 input_forget=1 activations clip inputs=8", kF32, 0, 0, 0},
    {"Attention", "inputs=5 inputs=6 inputs=7", kFloat | kBool, 0, 0, 0},
    {"RotaryEmbedding", "", kFloat, 0, 8, 0},
    {"Resize", "antialias=1 exclude_outside=1 keep_aspect_ratio_policy=not_larger "
     "keep_aspect_ratio_policy=not_smaller coordinate_transformation_mode=align_corners "
     "coordinate_transformation_mode=half_pixel_symmetric "
     "coordinate_transformation_mode=tf_crop_and_resize", kFloat, 0, 8, 14},
    {"RoiAlign", "mode=max", kFloat, 0, 4, 0},
    {"NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", "", kFloat, 0, 2, 0}};
/* clang-format on */

/* Is the node what one word of `unless` says? */
static int IsSo(const WeftGraph* graph, const WeftNode* node, const char* word) {
  const char *value = strchr(word, '='), *text = NULL;
  char name[64];
  WeftDType dtype;
  int32_t rank = -1;
  int64_t number = 0;
  if (!value) return weft->node_has_attr(node, word);
  snprintf(name, sizeof name, "%.*s", (int)(value++ - word), word);
  if (strcmp(name, "inputs") == 0) return weft->node_num_inputs(node) == atoi(value);
  if (strcmp(name, "rank") == 0) {
    weft->graph_type(graph, weft->node_input(node, 0), &dtype, &rank, NULL, 0);
    return rank == atoi(value);
  }
  if (weft->node_attr_int(node, name, &number) == WEFT_OK) return number == atoi(value);
  return weft->node_attr_string(node, name, &text) == WEFT_OK && strcmp(text, value) == 0;
}

/* Every name with its rule, sorted. */
typedef struct Name {
  char text[28];
  const Rule* rule;
} Name;
static Name names[200];
static size_t num_names;

static int Compare(const void* a, const void* b) {
  return strcmp(((const Name*)a)->text, ((const Name*)b)->text);
}

static void SortNames(void) {
  for (const Rule* rule = rules; rule < rules + sizeof rules / sizeof *rules; ++rule)
    for (const char* at = rule->ops; *at; at += strspn(at, " ")) {
      const size_t size = strcspn(at, " ");
      memcpy(names[num_names].text, at, size);
      names[num_names++].rule = rule;
      at += size;
    }
  qsort(names, num_names, sizeof *names, Compare);
}

static const char kEmpty[] = "without elements";
/* Null, or what keeps an operand with that role from OpenVINO. */
static const char* RefusesOperand(const WeftGraph* graph, WeftEntry entry, uint32_t types) {
  WeftDType dtype = WEFT_DTYPE_UNKNOWN;
  WeftDim dims[kMaxRank];
  int32_t rank = -1;
  if (weft->graph_type(graph, entry, &dtype, &rank, dims, kMaxRank) != WEFT_OK ||
      dtype > WEFT_F64 || !(types & BIT(dtype)))
    return dtype == WEFT_I64   ? "on i64, which OpenVINO computes in 32 bits (option int32)"
           : dtype == WEFT_F64 ? "on f64, which OpenVINO computes in f32"
                               : "on a type that is not among those taken";
  if (rank > kMaxRank) return "of more than 8 dimensions";
  for (int32_t d = 0; d < rank; ++d) {
    int64_t extent = 1;
    if (dims[d] && weft->dim_value(dims[d], &extent) && extent == 0) return kEmpty;
  }
  return NULL;
}

static WeftStatus Supports(void* user, const WeftDelegateOptions* given, const WeftGraph* graph,
                           const WeftNode* node) {
  const char *why = NULL, *op = weft->node_op(node);
  char word[64];
  int64_t int32 = 0;
  Name wanted = {{0}, NULL};
  (void)user;
  snprintf(wanted.text, sizeof wanted.text, "%s", op);
  const Name* name = bsearch(&wanted, names, num_names, sizeof *names, Compare);
  if (strlen(op) >= sizeof wanted.text || !name)
    return weft->fail(WEFT_E_UNSUPPORTED,
                      "not among the operators that OpenVINO computes as ONNX says");
  const Rule* rule = name->rule;
  for (const char* at = rule->unless; sscanf(at, "%63s", word) == 1; at += strspn(at, " ")) {
    if (IsSo(graph, node, word)) return Fail(WEFT_E_UNSUPPORTED, "%s with %s", wanted.text, word);
    at += strcspn(at, " ");
  }
  const WeftStatus status = weft->option_int(given, "int32", &int32);
  if (status != WEFT_OK) return status;
  const uint32_t types = rule->types | (int32 && (rule->types & kI32) ? BIT(WEFT_I64) : 0);
  for (int32_t k = 0; k < weft->node_num_inputs(node); ++k) {
    const WeftEntry entry = weft->node_input(node, k);
    const uint32_t bit = k < 32 ? 1u << k : 0;
    if (!entry.node) continue;
    if ((why = RefusesOperand(graph, entry, rule->index & bit ? kIndex : types)) &&
        /* an empty tensor stands for an absent operand */
        !(why == kEmpty && (rule->index | rule->fixed) & bit))
      return Fail(WEFT_E_UNSUPPORTED, "%s %s", wanted.text, why);
    if (rule->fixed & bit && !weft->graph_constant(graph, entry))
      return Fail(WEFT_E_UNSUPPORTED, "%s where input %d is not a constant", wanted.text, (int)k);
  }
  for (int32_t k = 0; k < weft->node_num_outputs(node); ++k) {
    const WeftEntry entry = {(WeftNode*)node, (uint32_t)k};
    if ((why = RefusesOperand(graph, entry, rule->results ? rule->results : types)))
      return Fail(WEFT_E_UNSUPPORTED, "%s %s", wanted.text, why);
  }
  return WEFT_OK;
}

WEFT_PLUGIN_EXPORT WeftStatus weft_plugin_init_v1(const WeftHost* host, WeftPluginInfo* info) {
  static const WeftDelegateDef delegate = {
      .struct_size = sizeof delegate,
      .name = "openvino",
      .doc = "Intel's OpenVINO on the processor",
      .flags = WEFT_DELEGATE_CONCURRENT | WEFT_DELEGATE_DETERMINISTIC | WEFT_DELEGATE_ANY_EXTENTS |
               WEFT_DELEGATE_OWN_THREADS,
      .device = 1,
      .options = options,
      .num_options = sizeof options / sizeof *options,
      .version = Version,
      .supports = Supports,
      .compile = Compile,
      .destroy = Destroy,
      .prepare = Prepare,
      .release = Release,
      .run = Run,
      .export_engine = Export,
      .import_engine = Import,
      .profile = Profile};
  weft = host;
  if (num_names == 0) SortNames();
  weft_plugin_describe(info, "openvino", "1.0", "gives parts of graphs to OpenVINO");
  if (!WEFT_HAS(host, WeftHost, graph_onnx_file))
    return host->fail(WEFT_E_PLUGIN,
                      "this Weft has no graph_onnx_file: openvino needs a newer one");
  return host->register_delegate(&delegate);
}
