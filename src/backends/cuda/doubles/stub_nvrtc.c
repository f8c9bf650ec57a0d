/* stub_nvrtc.c: libraries in the place of libnvrtc.so (cuda_versions_test.cc, gpu_check/run): of
 * version STUB_MAJOR (a definition) and minor STUB_NVRTC_MINOR (of the environment), with the
 * architectures and options of that version. What they "compile" is the options and the source.
 * STUB_NVRTC_BROKEN: nothing compiles; STUB_NVRTC_REFUSES names another option that is refused;
 * STUB_NVRTC_MAJOR is the version that it claims instead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE __attribute__((visibility("default")))

struct Program {
  char *source, *made, *log;
};

static int Minor(void) {
  const char* text = getenv("STUB_NVRTC_MINOR");
  return text ? atoi(text) : 0;
}
static int AtLeast(int major, int minor) {
  return STUB_MAJOR > major || (STUB_MAJOR == major && Minor() >= minor);
}

#if STUB_MAJOR >= 13
static const int kArchitectures[] = {75, 80, 86, 89, 90, 100, 120};
#else
static const int kArchitectures[] = {60, 70, 75, 80, 86, 89, 90};
#endif

VISIBLE int nvrtcVersion(int* major, int* minor) {
  const char* claimed = getenv("STUB_NVRTC_MAJOR");
  *major = claimed ? atoi(claimed) : STUB_MAJOR;
  *minor = Minor();
  return 0;
}
VISIBLE int nvrtcGetNumSupportedArchs(int* count) {
  *count = (int)(sizeof kArchitectures / sizeof kArchitectures[0]);
  return 0;
}
VISIBLE int nvrtcGetSupportedArchs(int* list) {
  memcpy(list, kArchitectures, sizeof kArchitectures);
  return 0;
}
VISIBLE const char* nvrtcGetErrorString(int result) {
  return result == 5   ? "NVRTC_ERROR_INVALID_OPTION"
         : result == 6 ? "NVRTC_ERROR_COMPILATION"
                       : "an error";
}
VISIBLE int nvrtcCreateProgram(struct Program** program, const char* source, const char* name,
                               int headers, const char* const* a, const char* const* b) {
  (void)name, (void)headers, (void)a, (void)b;
  *program = calloc(1, sizeof **program);
  (*program)->source = strdup(source);
  return 0;
}
VISIBLE int nvrtcDestroyProgram(struct Program** program) {
  free((*program)->source), free((*program)->made), free((*program)->log);
  free(*program);
  *program = NULL;
  return 0;
}

static int IsKnown(const char* option) {
  const char* refused = getenv("STUB_NVRTC_REFUSES");
  if (refused && strcmp(option, refused) == 0) return 0;
  if (strncmp(option, "--gpu-architecture=", 19) == 0 || strcmp(option, "--std=c++17") == 0 ||
      strcmp(option, "--fmad=false") == 0 || strcmp(option, "--modify-stack-limit=false") == 0)
    return 1;
  if (strcmp(option, "--minimal") == 0) return AtLeast(12, 4);
  if (strncmp(option, "--frandom-seed=", 15) == 0) return AtLeast(12, 9);
  return 0;
}

VISIBLE int nvrtcCompileProgram(struct Program* p, int count, const char* const* options) {
  size_t size = strlen(p->source) + 16;
  for (int i = 0; i < count; ++i) {
    size += strlen(options[i]) + 1;
    if (IsKnown(options[i])) continue;
    p->log = malloc(100 + strlen(options[i]));
    sprintf(p->log, "nvrtc: error: unrecognized option %s found", options[i]);
    return 5;
  }
  if (getenv("STUB_NVRTC_BROKEN") || (!AtLeast(12, 1) && strstr(p->source, "_m32k("))) {
    p->log = strdup(getenv("STUB_NVRTC_BROKEN")
                        ? "error: nothing compiles"
                        : "weft.cu(1): Error: Formal parameter space overflowed");
    return 6;
  }
  p->made = malloc(size);
  strcpy(p->made, "\177ELF");
  for (int i = 0; i < count; ++i) strcat(strcat(p->made, options[i]), " ");
  strcat(p->made, p->source);
  return 0;
}
VISIBLE int nvrtcGetProgramLogSize(struct Program* p, size_t* size) {
  *size = p->log ? strlen(p->log) + 1 : 1;
  return 0;
}
VISIBLE int nvrtcGetProgramLog(struct Program* p, char* text) {
  strcpy(text, p->log ? p->log : "");
  return 0;
}
VISIBLE int nvrtcGetCUBINSize(struct Program* p, size_t* size) {
  *size = p->made ? strlen(p->made) : 0;
  return p->made ? 0 : 7;
}
VISIBLE int nvrtcGetCUBIN(struct Program* p, char* binary) {
  memcpy(binary, p->made, strlen(p->made));
  return 0;
}
VISIBLE int nvrtcGetPTXSize(struct Program* p, size_t* size) { return nvrtcGetCUBINSize(p, size); }
VISIBLE int nvrtcGetPTX(struct Program* p, char* text) { return nvrtcGetCUBIN(p, text); }
