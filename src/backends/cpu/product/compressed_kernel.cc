/// compressed_kernel.cc: the inner loops of products with compressed matrices, compiled for each
/// instruction set.
#include "compressed_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/cpu/util/best_variant.h"

namespace weft::cpu {
namespace {

#define WEFT_ISA_NAME plain
#define WEFT_ISA_TEXT "plain"
#define WEFT_ISA
#define WEFT_LANES 4
#define WEFT_TILE_ROWS 2
#define WEFT_TILE_STRIPS 1
#define WEFT_MOST_ROWS 8
#include "compressed_loops.h"
#undef WEFT_ISA_NAME
#undef WEFT_ISA_TEXT
#undef WEFT_ISA
#undef WEFT_LANES
#undef WEFT_TILE_ROWS
#undef WEFT_TILE_STRIPS
#undef WEFT_MOST_ROWS

#if defined(__x86_64__)
#define WEFT_ISA_NAME avx2
#define WEFT_ISA_TEXT "avx2"
#define WEFT_ISA __attribute__((target("avx2,fma,f16c")))
#define WEFT_LANES 8
#define WEFT_TILE_ROWS 4
#define WEFT_TILE_STRIPS 2
#define WEFT_MOST_ROWS 8
#include "compressed_loops.h"
#undef WEFT_ISA_NAME
#undef WEFT_ISA_TEXT
#undef WEFT_ISA
#undef WEFT_LANES
#undef WEFT_TILE_ROWS
#undef WEFT_TILE_STRIPS
#undef WEFT_MOST_ROWS

#define WEFT_ISA_NAME avx512
#define WEFT_ISA_TEXT "avx512"
#define WEFT_ISA __attribute__((target("avx512f,avx2,fma,f16c")))
#define WEFT_LANES 16
#define WEFT_TILE_ROWS 8
#define WEFT_TILE_STRIPS 4
#define WEFT_MOST_ROWS 96
#include "compressed_loops.h"
#endif

}  // namespace

const CompressedKernel* CompressedKernelNumber(int i) {
#if defined(__x86_64__)
  // Every processor with AVX2 has F16C; clang has no name for it here.
  if (i == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return &avx2::kKernel;
  if (i == 2 && __builtin_cpu_supports("avx512f") && CompressedKernelNumber(1))
    return &avx512::kKernel;
#endif
  return i == 0 ? &plain::kKernel : nullptr;
}

const CompressedKernel& BestCompressedKernel() {
  static const CompressedKernel& best = BestVariant(CompressedKernelNumber);
  return best;
}

}  // namespace weft::cpu
