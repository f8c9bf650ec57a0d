/// nvrtc_api.h: the entry points of NVRTC, opened at run time; private to src/codegen/cuda.
///
/// NVRTC turns CUDA C++ into machine code and needs no GPU and no driver. Weft links nothing of it:
/// the library is looked for when the first kernel is compiled, and the few prototypes are declared
/// here.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft::cuda {

struct NvrtcProgram;  ///< opaque

struct NvrtcApi {
  int (*version)(int* major, int* minor) = nullptr;
  int (*num_archs)(int* count) = nullptr;
  int (*archs)(int* list) = nullptr;
  const char* (*error_string)(int result) = nullptr;
  int (*create)(NvrtcProgram** program, const char* source, const char* name, int num_headers,
                const char* const* headers, const char* const* include_names) = nullptr;
  int (*destroy)(NvrtcProgram** program) = nullptr;
  int (*compile)(NvrtcProgram* program, int num_options, const char* const* options) = nullptr;
  int (*log_size)(NvrtcProgram* program, size_t* size) = nullptr;
  int (*log)(NvrtcProgram* program, char* text) = nullptr;
  int (*cubin_size)(NvrtcProgram* program, size_t* size) = nullptr;
  int (*cubin)(NvrtcProgram* program, char* binary) = nullptr;
  int (*ptx_size)(NvrtcProgram* program, size_t* size) = nullptr;
  int (*ptx)(NvrtcProgram* program, char* text) = nullptr;

  int major = 0, minor = 0;
  std::vector<int> supported;  ///< 75, 80, 90 ...
  std::string error;           ///< why there is no NVRTC; empty: all of the above may be called

  bool ok() const { return error.empty(); }
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
