/// nvrtc_api.h: the entry points of NVRTC, opened at run time; private to src/codegen/cuda.
///
/// NVRTC turns CUDA C++ into machine code and needs no GPU and no driver. It is looked for when the
/// first kernel is compiled.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "library_table.h"

namespace weft::cuda {

struct NvrtcProgram;  ///< opaque

/// name, symbol, result, arguments
#define WEFT_NVRTC_ENTRIES(X)                                                         \
  X(version, "nvrtcVersion", int, (int* major, int* minor))                           \
  X(num_archs, "nvrtcGetNumSupportedArchs", int, (int* count))                        \
  X(archs, "nvrtcGetSupportedArchs", int, (int* list))                                \
  X(error_string, "nvrtcGetErrorString", const char*, (int result))                   \
  X(create, "nvrtcCreateProgram", int,                                                \
    (NvrtcProgram * *program, const char* source, const char* name, int num_headers,  \
     const char* const* headers, const char* const* include_names))                   \
  X(destroy, "nvrtcDestroyProgram", int, (NvrtcProgram * *program))                   \
  X(compile, "nvrtcCompileProgram", int,                                              \
    (NvrtcProgram * program, int num_options, const char* const* options))            \
  X(log_size, "nvrtcGetProgramLogSize", int, (NvrtcProgram * program, size_t * size)) \
  X(log, "nvrtcGetProgramLog", int, (NvrtcProgram * program, char* text))             \
  X(cubin_size, "nvrtcGetCUBINSize", int, (NvrtcProgram * program, size_t * size))    \
  X(cubin, "nvrtcGetCUBIN", int, (NvrtcProgram * program, char* binary))              \
  X(ptx_size, "nvrtcGetPTXSize", int, (NvrtcProgram * program, size_t * size))        \
  X(ptx, "nvrtcGetPTX", int, (NvrtcProgram * program, char* text))

struct NvrtcApi : LibraryTable {
  WEFT_LIBRARY_ENTRIES(WEFT_NVRTC_ENTRIES)
  int major = 0, minor = 0;
  std::vector<int> supported;  ///< 75, 80, 90 ...

  /// Asks the library for all that stands above.
  std::string Flaw();
  bool AtLeast(int a, int b) const { return major > a || (major == a && minor >= b); }
};

/// What for an NVRTC is looked for.
struct NvrtcWish {
  int driver = 0;  ///< that loads what it makes; 0: not known
  int sm = 0;      ///< 90: sm_90; 0: any
  std::string library = "libnvrtc.so";
};
/// The NVRTC of this machine that serves best: a driver takes what it makes rather than not, it
/// knows the architecture, or one before that it can make PTX for. `WEFT_NVRTC` names a file to use
/// instead of the usual places.
NvrtcApi OpenNvrtc(const NvrtcWish& wish);

/// That for this machine's driver, opened on first use. Thread-safe.
const NvrtcApi& Nvrtc(int sm = 0);

}  // namespace weft::cuda
