/// strided_copy.cc: the loops of strided_copy_loops.h, compiled for two instruction sets: with
/// AVX-512 a short row is one move, and a tile of bytes stays in registers.
#include "strided_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transpose.h"
#include "wide.h"

namespace weft::cpu {
namespace {

constexpr int64_t kLine = 64;  // bytes
/// Rows of up to this many bytes are copied by two overlapping moves of a known size.
constexpr int64_t kShortRow = 128;
/// Rows of a plane that are few: what a plane costs is not nothing beside them.
constexpr int64_t kFewRows = 8;

using Bytes = uint8_t;

/// A vector of a tile's row: all that a register holds of 8 bytes, 16 bytes of less, so that the
/// tile stays in registers.
template <class T, int64_t kBytes>
struct VectorOf;
template <int64_t kBytes>
struct VectorOf<uint8_t, kBytes> {
  using Type = uint8_t __attribute__((vector_size(16)));
};
template <int64_t kBytes>
struct VectorOf<uint16_t, kBytes> {
  using Type = uint16_t __attribute__((vector_size(16)));
};
template <>
struct VectorOf<uint64_t, 16> {
  using Type = uint64_t __attribute__((vector_size(16)));
};
template <>
struct VectorOf<uint64_t, 64> {
  using Type = uint64_t __attribute__((vector_size(64)));
};

#define WEFT_ISA_NAME plain
#define WEFT_ISA
#define WEFT_ISA_BYTES 16
#include "strided_copy_loops.h"
#undef WEFT_ISA_NAME
#undef WEFT_ISA
#undef WEFT_ISA_BYTES

#if defined(__x86_64__)
#define WEFT_ISA_NAME avx512
#define WEFT_ISA WEFT_WIDE
#define WEFT_ISA_BYTES 64
#include "strided_copy_loops.h"
#endif

template <class T>
void CopyElements(const void* from, void* to, const CopyDim* dims, int rank) {
#if defined(__x86_64__)
  if (HasWide()) return avx512::Copy(static_cast<const T*>(from), static_cast<T*>(to), dims, rank);
#endif
  plain::Copy(static_cast<const T*>(from), static_cast<T*>(to), dims, rank);
}
template <class T>
void FillElements(T value, void* to, const CopyDim* dims, int rank) {
#if defined(__x86_64__)
  if (HasWide()) return avx512::Fill(value, static_cast<T*>(to), dims, rank);
#endif
  plain::Fill(value, static_cast<T*>(to), dims, rank);
}

}  // namespace

void NormalizeCopy(std::vector<CopyDim>* dims) {
  std::stable_sort(dims->begin(), dims->end(),
                   [](const CopyDim& a, const CopyDim& b) { return a.to_step > b.to_step; });
  std::vector<CopyDim> merged;
  for (const CopyDim& d : *dims) {
    if (d.extent == 1) continue;
    if (!merged.empty()) {
      CopyDim& last = merged.back();
      if (last.to_step == d.extent * d.to_step && last.from_step == d.extent * d.from_step) {
        last = {last.extent * d.extent, d.from_step, d.to_step};
        continue;
      }
    }
    merged.push_back(d);
  }
  *dims = std::move(merged);
}

void CopyStrided(int width, const void* from, void* to, const CopyDim* dims, int rank) {
  if (width == 1) CopyElements<uint8_t>(from, to, dims, rank);
  if (width == 2) CopyElements<uint16_t>(from, to, dims, rank);
  if (width == 4) CopyElements<uint32_t>(from, to, dims, rank);
  if (width == 8) CopyElements<uint64_t>(from, to, dims, rank);
}

void FillStrided(int width, uint64_t bits, void* to, const CopyDim* dims, int rank) {
  if (width == 1) FillElements(uint8_t(bits), to, dims, rank);
  if (width == 2) FillElements(uint16_t(bits), to, dims, rank);
  if (width == 4) FillElements(uint32_t(bits), to, dims, rank);
  if (width == 8) FillElements(uint64_t(bits), to, dims, rank);
}

}  // namespace weft::cpu
