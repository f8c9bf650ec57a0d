/* torch_abi.c: opens libtorch_cpu.so and resolves what torch_abi.h lists. */
#define _POSIX_C_SOURCE 200112L /* pthread_once */
#include "torch_abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

Torch torch;
const WeftHost* weft;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static WeftStatus opened;
static char fault[1024]; /* why not, where `opened` is not WEFT_OK */

static const char kHint[] =
    "install torch 2.10 or later, as by `pip install torch`, and let WEFT_LIBTORCH name "
    "libtorch_cpu.so or its folder";

WeftStatus Fail(WeftStatus status, const char* format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return weft->fail(status, text);
}

const char* TorchSaid(void) {
  const char* text = torch.torch_exception_get_what_without_backtrace
                         ? torch.torch_exception_get_what_without_backtrace()
                         : NULL;
  return text && *text ? text : "torch before 2.13 tells the reason on stderr only";
}

/* The library that the process has already, since two of them cannot live in one; else the one that
 * WEFT_LIBTORCH names; else the loader's. */
static void* Library(void) {
  const char* place = getenv("WEFT_LIBTORCH");
  char path[4096];
  struct stat info;
  void* library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library) return library;
  if (!place || !*place) return dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_LOCAL);
  if (stat(place, &info) == 0 && S_ISDIR(info.st_mode)) {
    if (snprintf(path, sizeof path, "%s/libtorch_cpu.so", place) >= (int)sizeof path) return NULL;
    place = path;
  }
  return dlopen(place, RTLD_NOW | RTLD_LOCAL);
}

static void Open(void) {
  void* library = Library();
  const char* missing = NULL;
  unsigned major, minor;
  opened = WEFT_E_UNSUPPORTED;
  if (!library) {
    const char* reason = dlerror();
    snprintf(fault, sizeof fault, "libtorch_cpu.so cannot be opened (%.600s): %s",
             reason ? reason : "the path is too long", kHint);
    return;
  }
  /* An object pointer becomes a function pointer as POSIX has it: through memory. */
#define TORCH_FIND(result, name, parameters)     \
  do {                                           \
    void* symbol = dlsym(library, #name);        \
    memcpy(&torch.name, &symbol, sizeof symbol); \
    if (!symbol && !missing) missing = #name;    \
  } while (0);
  TORCH_REQUIRED(TORCH_FIND)
  if (!missing) {
    const uint64_t version = torch.aoti_torch_abi_version();
    major = (unsigned)(version >> 56), minor = (unsigned)(version >> 48 & 0xFF);
  } else if (!torch.torch_call_dispatcher) {
    snprintf(fault, sizeof fault, "this libtorch_cpu.so is too old: it lacks %s; %s", missing,
             kHint);
    return;
  } else {
    snprintf(fault, sizeof fault, "libtorch_cpu.so lacks %s; %s", missing, kHint);
    return;
  }
  TORCH_OPTIONAL(TORCH_FIND)
#undef TORCH_FIND
  {
    void* symbol = dlsym(library, "_Znwm");
    memcpy(&torch.new_bytes, &symbol, sizeof symbol);
    symbol = dlsym(library, "_ZN2at15set_num_threadsEi");
    memcpy(&torch.set_num_threads, &symbol, sizeof symbol);
  }
  if (!torch.torch_new_stable_ivalue && !torch.new_bytes) {
    snprintf(fault, sizeof fault, "libtorch_cpu.so lacks torch_new_stable_ivalue; %s", kHint);
    return;
  }
  if (!torch.set_num_threads)
    weft->warn(
        "libtorch: at::set_num_threads is not there: torch takes as many threads as it likes");
  torch.device_type = torch.aoti_torch_device_type_cpu();
  torch.device_index = 0;
  snprintf(torch.version, sizeof torch.version, "torch %u.%u", major, minor);
  opened = WEFT_OK;
}

WeftStatus OpenTorch(void) {
  pthread_once(&once, Open);
  return opened == WEFT_OK ? WEFT_OK : weft->fail(opened, fault);
}

int32_t TorchType(WeftDType dtype) {
  switch (dtype) {
    case WEFT_BOOL:
      return torch.aoti_torch_dtype_bool();
    case WEFT_I8:
      return torch.aoti_torch_dtype_int8();
    case WEFT_U8:
    case WEFT_F8E4M3FN:
    case WEFT_F8E4M3FNUZ:
    case WEFT_F8E5M2:
    case WEFT_F8E5M2FNUZ:
    case WEFT_F8E8M0:
      return torch.aoti_torch_dtype_uint8();
    case WEFT_I16:
    case WEFT_U16:
      return torch.aoti_torch_dtype_int16();
    case WEFT_I32:
    case WEFT_U32:
      return torch.aoti_torch_dtype_int32();
    case WEFT_I64:
    case WEFT_U64:
      return torch.aoti_torch_dtype_int64();
    case WEFT_F16:
      return torch.aoti_torch_dtype_float16();
    case WEFT_BF16:
      return torch.aoti_torch_dtype_bfloat16();
    case WEFT_F32:
      return torch.aoti_torch_dtype_float32();
    case WEFT_F64:
      return torch.aoti_torch_dtype_float64();
    default:
      return -1;
  }
}
