/// channel_blocks.cc: a block of channels is one cache line on both sides.
#include "channel_blocks.h"

#include <algorithm>
#include <cstring>

namespace weft::cpu {

void CopyChannelBlocks(const float* src, float* dst, int64_t batch, int64_t positions,
                       int64_t channels, bool back) {
  // their lines stay in the first-level cache until all blocks are copied
  constexpr int64_t kPositions = 64;
  const int64_t blocks = channels / kChannelBlock,
                pieces = (positions + kPositions - 1) / kPositions;
#pragma omp parallel for schedule(static) if (batch * positions * channels > 16384)
  for (int64_t i = 0; i < batch * pieces; ++i) {
    const int64_t image = i / pieces * positions * channels, first = i % pieces * kPositions,
                  end = std::min(positions, first + kPositions);
    for (int64_t b = 0; b < blocks; ++b)
      for (int64_t p = first; p < end; ++p) {
        const int64_t last = image + p * channels + b * kChannelBlock,
                      blocked = image + (b * positions + p) * kChannelBlock;
        std::memcpy(dst + (back ? last : blocked), src + (back ? blocked : last),
                    kChannelBlock * sizeof(float));
      }
  }
}

}  // namespace weft::cpu
