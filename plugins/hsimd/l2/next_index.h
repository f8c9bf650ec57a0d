/// next_index.h: counting through a nest of loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hsimd {

/// Counts `at` on, the last loop fastest; false behind the last position, where `at` is the first
/// again. As many counts, each >= 1, as loops; none: one position.
template <class Index>
bool NextIndex(std::vector<Index>* at, const std::vector<int64_t>& counts) {
  for (size_t i = at->size(); i-- > 0;) {
    if (int64_t(++(*at)[i]) < counts[i]) return true;
    (*at)[i] = 0;
  }
  return false;
}

}  // namespace hsimd
