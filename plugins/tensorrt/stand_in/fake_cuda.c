/* fake_cuda.c: a library in the place of the CUDA driver for tests: one device, whose memory is the
 * host's. FAKE_CUDA=init: it does not start; FAKE_CUDA=memory: it has no memory. */
#define _POSIX_C_SOURCE 200112L /* posix_memalign */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE __attribute__((visibility("default")))

static int Told(const char* what) {
  const char* text = getenv("FAKE_CUDA");
  return text && strcmp(text, what) == 0;
}

static int primary;
static __thread void* stack[8];
static __thread int depth;
static int waits;

/* Streams that were made to wait for another's work. */
VISIBLE int fake_cuda_waits(void) { return waits; }
/* Contexts that this thread has pushed. */
VISIBLE int fake_cuda_depth(void) { return depth; }

VISIBLE int cuInit(unsigned flags) { return flags || Told("init") ? 100 : 0; }
VISIBLE int cuGetErrorString(int result, const char** text) {
  *text = result == 100 ? "no CUDA-capable device is detected"
          : result == 2 ? "out of memory"
                        : "invalid value";
  return 0;
}
VISIBLE int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? 0 : 101;
}
VISIBLE int cuDeviceGetName(char* name, int size, int device) {
  strncpy(name, "a fake GPU", (size_t)size);
  return device == 0 ? 0 : 101;
}
VISIBLE int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? 9 : 0;
  return device == 0 ? 0 : 101;
}
VISIBLE int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &primary;
  return device == 0 ? 0 : 101;
}
VISIBLE int cuCtxGetCurrent(void** context) {
  *context = depth > 0 ? stack[depth - 1] : NULL;
  return 0;
}
VISIBLE int cuCtxGetDevice(int* device) {
  *device = 0;
  return depth > 0 ? 0 : 201;
}
VISIBLE int cuCtxPushCurrent_v2(void* context) {
  if (depth == 8) return 1;
  stack[depth++] = context;
  return 0;
}
VISIBLE int cuCtxPopCurrent_v2(void** context) {
  if (depth == 0) return 1;
  *context = stack[--depth];
  return 0;
}
VISIBLE int cuMemAlloc_v2(uint64_t* data, size_t bytes) {
  void* p = NULL;
  if (Told("memory") || posix_memalign(&p, 512, bytes ? bytes : 1)) return 2;
  *data = (uint64_t)(uintptr_t)p;
  return 0;
}
VISIBLE int cuMemFree_v2(uint64_t data) {
  free((void*)(uintptr_t)data);
  return 0;
}
typedef struct Copy {
  void* to;
  const void* from;
  size_t bytes;
} Copy;
static void CopyLater(void* argument) {
  Copy* copy = (Copy*)argument;
  memcpy(copy->to, copy->from, copy->bytes);
  free(copy);
}
static void (*give)(void* stream, void (*work)(void*), void* argument);
/* From now on copies go to streams by that function. */
VISIBLE void weft_fake_cuda_give(void (*function)(void*, void (*)(void*), void*)) {
  give = function;
}
VISIBLE int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  Copy* copy = (Copy*)malloc(sizeof *copy);
  if (!copy) return 2;
  copy->to = (void*)(uintptr_t)to;
  copy->from = (const void*)(uintptr_t)from;
  copy->bytes = bytes;
  if (stream && give)
    give(stream, CopyLater, copy);
  else
    CopyLater(copy);
  return 0;
}
VISIBLE int cuStreamSynchronize(void* stream) {
  (void)stream;
  return 0;
}
/* An event: the stream that it was recorded in. */
VISIBLE int cuEventCreate(void** event, unsigned flags) {
  *event = calloc(1, sizeof(void*));
  return *event && flags == 2 ? 0 : 2;
}
VISIBLE int cuEventDestroy_v2(void* event) {
  free(event);
  return 0;
}
VISIBLE int cuEventRecord(void* event, void* stream) {
  *(void**)event = stream;
  return 0;
}
VISIBLE int cuEventSynchronize(void* event) { return event ? 0 : 1; }
VISIBLE int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  waits += stream != *(void**)event;
  return (int)flags;
}
