/* stub_driver.c: libraries in the place of libcuda.so.1, to open and no more
 * (cuda_backend_test.cc): the version that STUB_VERSION says; with STUB_OLD, of before
 * cuGetProcAddress. STUB_LACKS names an entry that is not there, STUB_INIT what cuInit gives. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE __attribute__((visibility("default")))

static int Number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text ? atoi(text) : otherwise;
}

VISIBLE int cuDriverGetVersion(int* version) {
  *version = Number("STUB_VERSION", 12040);
  return 0;
}

#ifndef STUB_OLD
static int Init(unsigned flags) {
  (void)flags;
  return Number("STUB_INIT", 0);
}
static int GetErrorString(int result, const char** text) {
  *text = result == 100 ? "no CUDA-capable device is detected" : "an error";
  return 0;
}
static int Nothing(void) { return 0; }

VISIBLE int cuGetProcAddress_v2(const char* symbol, void** entry, int version, uint64_t flags,
                                int* status) {
  const char* lacks = getenv("STUB_LACKS");
  (void)version, (void)flags;
  *status = 0;
  *entry = NULL;
  if (lacks && strcmp(lacks, symbol) == 0) return 500;
  if (strcmp(symbol, "cuInit") == 0)
    *entry = (void*)(intptr_t)&Init;
  else if (strcmp(symbol, "cuGetErrorString") == 0)
    *entry = (void*)(intptr_t)&GetErrorString;
  else if (strcmp(symbol, "cuDriverGetVersion") == 0)
    *entry = (void*)(intptr_t)&cuDriverGetVersion;
  else
    *entry = (void*)(intptr_t)&Nothing;
  return 0;
}
#endif
