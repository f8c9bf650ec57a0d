/* stub_cublaslt.c: libraries in the place of libcublasLt.so, to open and no more
 * (cuda_versions_test.cc): of version STUB_MAJOR (a definition). Where the environment has
 * STUB_LT_DRIVER they take a driver of that major version or a later one. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define VISIBLE __attribute__((visibility("default")))

VISIBLE size_t cublasLtGetVersion(void) { return STUB_MAJOR * 10000; }
VISIBLE const char* cublasLtGetStatusString(int status) {
  return status == 1 ? "CUBLAS_STATUS_NOT_INITIALIZED" : "a status";
}
VISIBLE int cublasLtCreate(void** handle) {
  static int object;
  const char* driver = getenv("STUB_LT_DRIVER");
  *handle = &object;
  return driver && atoi(driver) < STUB_MAJOR ? 1 : 0;
}
#define NOTHING(name) \
  VISIBLE int name(void) { return 15; }
VISIBLE int cublasLtDestroy(void* handle) { return handle ? 0 : 1; }
NOTHING(cublasLtMatmulDescCreate)
NOTHING(cublasLtMatmulDescDestroy)
NOTHING(cublasLtMatmulDescSetAttribute)
NOTHING(cublasLtMatrixLayoutCreate)
NOTHING(cublasLtMatrixLayoutDestroy)
NOTHING(cublasLtMatrixLayoutSetAttribute)
NOTHING(cublasLtMatmulPreferenceCreate)
NOTHING(cublasLtMatmulPreferenceDestroy)
NOTHING(cublasLtMatmulPreferenceSetAttribute)
NOTHING(cublasLtMatmulAlgoGetHeuristic)
NOTHING(cublasLtMatmulAlgoCheck)
NOTHING(cublasLtMatmul)
