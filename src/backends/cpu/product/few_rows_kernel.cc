/// few_rows_kernel.cc: the inner loops of products of few rows, compiled for each instruction set.
#include "few_rows_kernel.h"

#include "backends/cpu/util/best_variant.h"

namespace weft::cpu {
namespace {

#define WEFT_ISA_NAME plain
#define WEFT_ISA_TEXT "plain"
#define WEFT_ISA
#define WEFT_LANES 4
#define WEFT_TILE_ROWS 4
#define WEFT_TILE_VECTORS 12
#include "few_rows_loops.h"
#undef WEFT_ISA_NAME
#undef WEFT_ISA_TEXT
#undef WEFT_ISA
#undef WEFT_LANES
#undef WEFT_TILE_ROWS
#undef WEFT_TILE_VECTORS

#if defined(__x86_64__)
#define WEFT_ISA_NAME avx2
#define WEFT_ISA_TEXT "avx2"
#define WEFT_ISA __attribute__((target("avx2,fma")))
#define WEFT_LANES 8
#define WEFT_TILE_ROWS 4
#define WEFT_TILE_VECTORS 12
#include "few_rows_loops.h"
#undef WEFT_ISA_NAME
#undef WEFT_ISA_TEXT
#undef WEFT_ISA
#undef WEFT_LANES
#undef WEFT_TILE_ROWS
#undef WEFT_TILE_VECTORS

#define WEFT_ISA_NAME avx512
#define WEFT_ISA_TEXT "avx512"
#define WEFT_ISA __attribute__((target("avx512f,avx2,fma")))
#define WEFT_LANES 16
#define WEFT_TILE_ROWS 8
#define WEFT_TILE_VECTORS 24
#include "few_rows_loops.h"
#endif

}  // namespace

const FewRowsKernel* FewRowsKernelNumber(int i) {
#if defined(__x86_64__)
  if (i == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return &avx2::kKernel;
  if (i == 2 && __builtin_cpu_supports("avx512f") && FewRowsKernelNumber(1))
    return &avx512::kKernel;
#endif
  return i == 0 ? &plain::kKernel : nullptr;
}

const FewRowsKernel& BestFewRowsKernel() {
  static const FewRowsKernel& best = BestVariant(FewRowsKernelNumber);
  return best;
}

}  // namespace weft::cpu
