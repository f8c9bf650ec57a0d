/// indices.h: for tests of layouts and moves: every index of a shape, and random numbers.
///
/// The library walks shapes by ForEachIndex, which is under test: this is written again.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace hsimd {

using Rng = std::mt19937_64;
/// Evenly among a .. b.
inline int64_t Between(Rng& rng, int64_t a, int64_t b) {
  return std::uniform_int_distribution<int64_t>(a, b)(rng);
}

/// The last axis fastest.
inline std::vector<std::vector<int64_t>> AllIndices(const std::vector<int64_t>& shape) {
  std::vector<std::vector<int64_t>> out;
  int64_t n = 1;
  for (const int64_t s : shape) n *= s;
  for (int64_t k = 0; k < n; ++k) {
    std::vector<int64_t> i(shape.size());
    int64_t rest = k;
    for (size_t a = shape.size(); a-- > 0;) {
      i[a] = rest % shape[a];
      rest /= shape[a];
    }
    out.push_back(i);
  }
  return out;
}

}  // namespace hsimd
