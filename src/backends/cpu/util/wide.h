/// wide.h: AVX-512 for loops that have a plain form beside.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
/// Before a function, and between the parameters and the body of a lambda in one.
#define WEFT_WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt,bmi,bmi2")))
#endif

namespace weft::cpu {

#if defined(__x86_64__)
inline bool HasWide() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2");
  return has;
}
#endif

}  // namespace weft::cpu
