/// byte_kernel.cc: the inner loops of products of bytes, compiled for each instruction set.
#include "byte_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/cpu/util/best_variant.h"

namespace weft::cpu {
namespace {

/// Byte b of each sum's four, unsigned and signed, and their product.
#define WEFT_BYTE_TERM(x, w, b) ((((x) >> (8 * (b))) & 255) * (((w) << (24 - 8 * (b))) >> 24))
#define WEFT_ISA_NAME plain
#define WEFT_ISA_TEXT "plain"
#define WEFT_ISA
#define WEFT_LANES 4
#define WEFT_TILE_ROWS 2
#define WEFT_TILE_VECTORS 2
#define WEFT_DOT(sum, x, w)                                                              \
  (sum) += WEFT_BYTE_TERM(x, w, 0) + WEFT_BYTE_TERM(x, w, 1) + WEFT_BYTE_TERM(x, w, 2) + \
           WEFT_BYTE_TERM(x, w, 3)
#define WEFT_WIDEN(p) (Ints{(p)[0], (p)[1], (p)[2], (p)[3]})
#define WEFT_NARROW(v) __builtin_convertvector(v, Bytes)
#include "byte_loops.h"
#undef WEFT_ISA_NAME
#undef WEFT_ISA_TEXT
#undef WEFT_ISA
#undef WEFT_LANES
#undef WEFT_TILE_ROWS
#undef WEFT_TILE_VECTORS
#undef WEFT_DOT
#undef WEFT_WIDEN
#undef WEFT_NARROW
#undef WEFT_BYTE_TERM

#if defined(__x86_64__)

using LowBytes = int8_t __attribute__((vector_size(8)));
/// The low bytes of eight numbers, whatever is above them.
__attribute__((target("avx2"))) inline LowBytes NarrowEight(__m256i v) {
  // Within each half, in order: lanes 0..3 and 4..7.
  const __m256i low = _mm256_shuffle_epi8(v, _mm256_set1_epi32(0x0c080400));
  const __m128i both =
      _mm_unpacklo_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  LowBytes bytes;
  __builtin_memcpy(&bytes, &both, sizeof(bytes));
  return bytes;
}

/// The first n of 32 bytes.
__attribute__((target("avx2"))) inline __m256i LoadSome(const uint8_t* p, int64_t n) {
  uint8_t some[32] = {};
  __builtin_memcpy(some, p, size_t(n));
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(some));
}

// Without VNNI: bytes 0 and 2, and 1 and 3, as 16-bit numbers, whose products vpmaddwd adds in 32.
#define WEFT_ISA_NAME avx2
#define WEFT_ISA_TEXT "avx2"
#define WEFT_ISA __attribute__((target("avx2")))
#define WEFT_LANES 8
#define WEFT_TILE_ROWS 4
#define WEFT_TILE_VECTORS 2
#define WEFT_DOT(sum, x, w)                                                                    \
  (sum) += (Ints)_mm256_madd_epi16(_mm256_and_si256((__m256i)(x), _mm256_set1_epi16(255)),     \
                                   _mm256_srai_epi16(_mm256_slli_epi16((__m256i)(w), 8), 8)) + \
           (Ints)_mm256_madd_epi16(_mm256_srli_epi16((__m256i)(x), 8),                         \
                                   _mm256_srai_epi16((__m256i)(w), 8))
#define WEFT_WIDEN(p) (Ints) _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(p)))
#define WEFT_NARROW(v) NarrowEight((__m256i)(v))
#define WEFT_BLOCK 32
#define WEFT_BYTES __m256i
#define WEFT_BYTEWISE(name) _mm256_##name
#define WEFT_ALL(bits) _mm256_set1_epi##bits
#define WEFT_ROUND(v) _mm256_cvtps_epi32((__m256)(v))
#define WEFT_LOAD_SOME(p, n) LoadSome(p, n)
#include "byte_loops.h"
#undef WEFT_ISA_NAME
#undef WEFT_ISA_TEXT
#undef WEFT_ISA
#undef WEFT_LANES
#undef WEFT_TILE_ROWS
#undef WEFT_TILE_VECTORS
#undef WEFT_BLOCK
#undef WEFT_BYTES
#undef WEFT_BYTEWISE
#undef WEFT_ALL
#undef WEFT_ROUND
#undef WEFT_LOAD_SOME
#undef WEFT_DOT
#undef WEFT_WIDEN
#undef WEFT_NARROW

#define WEFT_ISA_NAME avx512
#define WEFT_ISA_TEXT "avx512"
#define WEFT_ISA __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define WEFT_LANES 16
#define WEFT_TILE_ROWS 4
#define WEFT_TILE_VECTORS 4
#define WEFT_DOT(sum, x, w)                                                                    \
  (sum) += (Ints)_mm512_madd_epi16(_mm512_and_si512((__m512i)(x), _mm512_set1_epi16(255)),     \
                                   _mm512_srai_epi16(_mm512_slli_epi16((__m512i)(w), 8), 8)) + \
           (Ints)_mm512_madd_epi16(_mm512_srli_epi16((__m512i)(x), 8),                         \
                                   _mm512_srai_epi16((__m512i)(w), 8))
#define WEFT_WIDEN(p) \
  (Ints) _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128((const __m128i*)(p)))
#define WEFT_NARROW(v) (Bytes) _mm512_maskz_cvtepi32_epi8(0xffff, (__m512i)(v))
#define WEFT_BLOCK 64
#define WEFT_BYTES __m512i
#define WEFT_BYTEWISE(name) _mm512_##name
#define WEFT_ALL(bits) _mm512_set1_epi##bits
#define WEFT_ROUND(v) _mm512_maskz_cvtps_epi32(0xffff, (__m512)(v))
#define WEFT_LOAD_SOME(p, n) _mm512_maskz_loadu_epi8((uint64_t{1} << (n)) - 1, p)
#define WEFT_IN_ORDER(v)          \
  _mm512_maskz_permutexvar_epi32( \
      0xffff, _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v)
#include "byte_loops.h"
#undef WEFT_ISA_NAME
#undef WEFT_ISA_TEXT
#undef WEFT_ISA
#undef WEFT_TILE_ROWS
#undef WEFT_DOT

#define WEFT_ISA_NAME vnni
#define WEFT_ISA_TEXT "avx512-vnni"
#define WEFT_ISA __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define WEFT_TILE_ROWS 6
#define WEFT_DOT(sum, x, w) \
  (sum) = (Ints)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(x), (__m512i)(w))
#include "byte_loops.h"
#endif

}  // namespace

const ByteKernel* ByteKernelNumber(int i) {
#if defined(__x86_64__)
  if (i == 1 && __builtin_cpu_supports("avx2")) return &avx2::kKernel;
  if (i == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      ByteKernelNumber(1))
    return &avx512::kKernel;
  if (i == 3 && __builtin_cpu_supports("avx512vnni") && ByteKernelNumber(2)) return &vnni::kKernel;
#endif
  return i == 0 ? &plain::kKernel : nullptr;
}

const ByteKernel& BestByteKernel() {
  static const ByteKernel& best = BestVariant(ByteKernelNumber);
  return best;
}

}  // namespace weft::cpu
