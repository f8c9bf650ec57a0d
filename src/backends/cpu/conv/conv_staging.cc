/// conv_staging.cc: see conv_staging.h.
#ifdef WEFT_HAVE_ONEDNN

#include "conv_staging.h"

namespace weft::cpu {
namespace {

constexpr int64_t kChunkBytes = int64_t{4} << 20;
constexpr double kChunkFlopsPerThread = 20e6;

}  // namespace

int64_t ChunkOf(const ConvShape& c, int64_t staged_bytes_per_image, int threads) {
  if (staged_bytes_per_image == 0) return c.images;
  int64_t best = 0;
  for (int64_t d = 1; d <= c.images; ++d) {
    if (c.images % d != 0) continue;
    const bool enough = d >= threads || c.flops(d) >= kChunkFlopsPerThread * threads;
    if (enough && (best == 0 || d * staged_bytes_per_image <= kChunkBytes)) best = d;
  }
  return best == 0 ? c.images : best;
}

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
