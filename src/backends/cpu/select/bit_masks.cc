/// bit_masks.cc: see bit_masks.h.
#include "bit_masks.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/util/threads.h"
#include "backends/cpu/util/wide.h"
#include "weft/core/tensor/visit_element.h"

namespace weft::cpu {
namespace {

/// Elements for which a second thread is woken.
constexpr int64_t kPieceElements = 65536;

/// Of whole words; `half`: a float of 16 bits, whose sign does not count.
template <class T, bool kHalf>
void MaskWordsOf(const T* x, int64_t words, uint64_t* masks) {
  for (int64_t w = 0; w < words; ++w, x += kMaskBits) {
    uint64_t bits = 0;
    for (int i = 0; i < kMaskBits; ++i) {
      const bool set = kHalf ? (uint32_t(x[i]) & 0x7fffu) != 0 : x[i] != T(0);
      bits |= uint64_t(set) << i;
    }
    masks[w] = bits;
  }
}

#if defined(__x86_64__)
template <class T, bool kHalf>
WEFT_WIDE void MaskWordsWide(const T* x, int64_t words, uint64_t* masks) {
  for (int64_t w = 0; w < words; ++w, x += kMaskBits) {
    uint64_t bits = 0;
    constexpr int kLanes = int(64 / sizeof(T));
#pragma GCC unroll 8
    for (int i = 0; i < kMaskBits; i += kLanes) {
      const __m512i v = _mm512_loadu_si512(x + i);
      uint64_t some;
      if constexpr (std::is_same_v<T, float>)
        some = _mm512_cmp_ps_mask(_mm512_castsi512_ps(v), _mm512_setzero_ps(), _CMP_NEQ_UQ);
      else if constexpr (std::is_same_v<T, double>)
        some = _mm512_cmp_pd_mask(_mm512_castsi512_pd(v), _mm512_setzero_pd(), _CMP_NEQ_UQ);
      else if constexpr (kHalf)
        some = _mm512_test_epi16_mask(v, _mm512_set1_epi16(0x7fff));
      else if constexpr (sizeof(T) == 1)
        some = _mm512_test_epi8_mask(v, v);
      else if constexpr (sizeof(T) == 2)
        some = _mm512_test_epi16_mask(v, v);
      else if constexpr (sizeof(T) == 4)
        some = _mm512_test_epi32_mask(v, v);
      else
        some = _mm512_test_epi64_mask(v, v);
      bits |= some << i;
    }
    masks[w] = bits;
  }
}

/// Eight places at a time.
WEFT_WIDE void PlacesWide(uint64_t bits, int64_t base, int64_t room, int64_t* at) {
  __m512i place =
      _mm512_add_epi64(_mm512_set1_epi64(base), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
  const __m512i eight = _mm512_set1_epi64(8);
  const int64_t* const end = at + room;
  for (; bits; bits >>= 8, place = _mm512_add_epi64(place, eight)) {
    const auto mask = __mmask8(bits);
    const int count = __builtin_popcount(mask);
    const __m512i some = _mm512_maskz_compress_epi64(mask, place);
    if (end - at >= 8)
      _mm512_storeu_si512(at, some);
    else
      _mm512_mask_storeu_epi64(at, __mmask8((1u << count) - 1), some);
    at += count;
  }
}

/// As many elements as a vector has lanes, of 4 or 8 bytes.
template <class T>
WEFT_WIDE void KeepWide(const uint64_t* masks, int64_t words, int64_t n, const T* x, T* y) {
  constexpr int kLanes = int(64 / sizeof(T));
  for (int64_t w = 0; w < words; ++w) {
    uint64_t bits = masks[w];
    const int64_t first = w * kMaskBits;
    for (int64_t i = first; bits; i += kLanes, bits = kLanes < 64 ? bits >> kLanes : 0) {
      const uint64_t mask = bits & ((uint64_t{1} << kLanes) - 1);
      if (mask == 0) continue;
      const uint64_t there = i + kLanes <= n ? ~uint64_t{0} : (uint64_t{1} << (n - i)) - 1;
      const int count = __builtin_popcountll(mask);
      const uint64_t low = (uint64_t{1} << count) - 1;
      if constexpr (sizeof(T) == 4) {
        const __m512i v = _mm512_maskz_loadu_epi32(__mmask16(there), x + i);
        _mm512_mask_storeu_epi32(y, __mmask16(low),
                                 _mm512_maskz_compress_epi32(__mmask16(mask), v));
      } else {
        const __m512i v = _mm512_maskz_loadu_epi64(__mmask8(there), x + i);
        _mm512_mask_storeu_epi64(y, __mmask8(low), _mm512_maskz_compress_epi64(__mmask8(mask), v));
      }
      y += count;
    }
  }
}
#endif

template <class T>
void Keep(const uint64_t* masks, int64_t words, const T* x, T* y) {
  for (int64_t w = 0; w < words; ++w, x += kMaskBits)
    for (uint64_t bits = masks[w]; bits; bits &= bits - 1) *y++ = x[__builtin_ctzll(bits)];
}

template <class T, bool kHalf>
int64_t MaskOf(const void* from, int64_t n, uint64_t* masks) {
  const T* x = static_cast<const T*>(from);
  const int64_t whole = n / kMaskBits;
#if defined(__x86_64__)
  if (HasWide())
    MaskWordsWide<T, kHalf>(x, whole, masks);
  else
#endif
    MaskWordsOf<T, kHalf>(x, whole, masks);
  if (n > whole * kMaskBits) {
    T rest[kMaskBits] = {};
    std::copy(x + whole * kMaskBits, x + n, rest);
    MaskWordsOf<T, kHalf>(rest, 1, masks + whole);
  }
  int64_t count = 0;
  for (int64_t w = 0; w < MaskWords(n); ++w) count += __builtin_popcountll(masks[w]);
  return count;
}

}  // namespace

bool CanMask(DType t) { return IsComputable(t); }

int64_t MaskNonZero(DType t, const void* x, int64_t n, uint64_t* masks) {
  return VisitElement(t, [&](auto element) {
    using Element = decltype(element);
    return MaskOf<typename Element::Storage, Element::kNarrowFloat>(x, n, masks);
  });
}

std::vector<MaskPiece> MaskInPieces(DType t, const void* x, int64_t n, int threads,
                                    uint64_t* masks) {
  const int64_t words = MaskWords(n);
  const int64_t pieces = std::clamp<int64_t>(n / kPieceElements, 1, threads * int64_t{4});
  std::vector<MaskPiece> all(static_cast<size_t>(pieces));
  const int64_t width = DTypeBytes(t, 1);
  const auto make = [&](int64_t p) {
    MaskPiece& piece = all[size_t(p)];
    piece.first = words * p / pieces, piece.last = words * (p + 1) / pieces;
    const int64_t from = piece.first * kMaskBits;
    piece.count = MaskNonZero(t, static_cast<const char*>(x) + from * width,
                              std::min(n, piece.last * kMaskBits) - from, masks + piece.first);
  };
  if (pieces == 1) {
    make(0);
  } else {
    const ScopedThreads scoped(threads);
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < pieces; ++p) make(p);
  }
  int64_t before = 0;
  for (MaskPiece& piece : all) {
    piece.before = before;
    before += piece.count;
  }
  return all;
}

void PlacesOfBits(uint64_t bits, int64_t base, int64_t room, int64_t* at) {
#if defined(__x86_64__)
  if (HasWide() && __builtin_popcountll(bits) > 8) return PlacesWide(bits, base, room, at);
#endif
  (void)room;
  for (; bits; bits &= bits - 1) *at++ = base + __builtin_ctzll(bits);
}

void KeepSet(const uint64_t* masks, int64_t words, int64_t n, int width, const void* x, void* y) {
  const auto keep = [&](auto type) {
    using T = decltype(type);
    Keep(masks, words, static_cast<const T*>(x), static_cast<T*>(y));
  };
#if defined(__x86_64__)
  if (HasWide() && width == 4)
    return KeepWide(masks, words, n, static_cast<const uint32_t*>(x), static_cast<uint32_t*>(y));
  if (HasWide() && width == 8)
    return KeepWide(masks, words, n, static_cast<const uint64_t*>(x), static_cast<uint64_t*>(y));
#endif
  (void)n;
  switch (width) {
    case 1:
      return keep(uint8_t());
    case 2:
      return keep(uint16_t());
    case 4:
      return keep(uint32_t());
    default:
      return keep(uint64_t());
  }
}

}  // namespace weft::cpu
