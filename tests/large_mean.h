/// large_mean.h: data whose mean is large against its deviation, for tests of normalisations.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/core/tensor.h"

namespace weft::e2e {

constexpr int64_t kImages = 2, kChannels = 4, kPoints = 96;

/// [2, 4, 96] of deviation about 0.6 around `mean`.
inline TensorPtr Around(double mean, DType t = DType::kF32,
                        std::vector<int64_t> dims = {kImages, kChannels, kPoints},
                        uint64_t seed = 88172645463325252u) {
  auto x = std::make_shared<Tensor>(t, std::move(dims));
  uint64_t s = seed;
  for (int64_t i = 0; i < x->num_elements(); ++i) {
    s ^= s << 13, s ^= s >> 7, s ^= s << 17;
    x->set(i, mean + 2 * double(s >> 11) * 0x1p-53 - 1);
  }
  return x;
}

// What is normalised together, by number of an element.
inline int64_t Row(int64_t i) { return i / kPoints; }
inline int64_t Group(int64_t i) { return i / kPoints / 2; }
inline int64_t Channel(int64_t i) { return i / kPoints % kChannels; }

}  // namespace weft::e2e
