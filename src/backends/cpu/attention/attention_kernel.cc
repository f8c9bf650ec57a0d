/// attention_kernel.cc: the inner loops of attention, compiled for each instruction set.
#include "attention_kernel.h"

#include "backends/cpu/util/best_variant.h"

namespace weft::cpu {
namespace {

#define WEFT_ISA_NAME plain
#define WEFT_ISA_TEXT "plain"
#define WEFT_ISA
#define WEFT_LANES 4
#define WEFT_COLUMNS 2
#include "attention_loops.h"
#undef WEFT_ISA_NAME
#undef WEFT_ISA_TEXT
#undef WEFT_ISA
#undef WEFT_LANES
#undef WEFT_COLUMNS

#if defined(__x86_64__)
#define WEFT_ISA_NAME avx2
#define WEFT_ISA_TEXT "avx2"
#define WEFT_ISA __attribute__((target("avx2,fma")))
#define WEFT_LANES 8
#define WEFT_COLUMNS 2
#include "attention_loops.h"
#undef WEFT_ISA_NAME
#undef WEFT_ISA_TEXT
#undef WEFT_ISA
#undef WEFT_LANES
#undef WEFT_COLUMNS

#define WEFT_ISA_NAME avx512
#define WEFT_ISA_TEXT "avx512"
#define WEFT_ISA __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define WEFT_LANES 16
#define WEFT_COLUMNS 4
#include "attention_loops.h"
#endif

}  // namespace

const AttentionKernel* AttentionKernelNumber(int i) {
#if defined(__x86_64__)
  if (i == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return &avx2::kKernel;
  if (i == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return &avx512::kKernel;
#endif
  return i == 0 ? &plain::kKernel : nullptr;
}

const AttentionKernel& BestAttentionKernel() {
  static const AttentionKernel& best = BestVariant(AttentionKernelNumber);
  return best;
}

}  // namespace weft::cpu
