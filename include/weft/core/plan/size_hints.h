/// size_hints.h: what symbols will often be: the attribute `hint` of a graph, given by users.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace weft {

/// What a size is taken for of which nothing is known: it is often a batch.
inline constexpr int64_t kAssumedExtent = 64;

/// Decisions are made for these numbers, and hold for all others.
struct SizeHints {
  std::map<std::string, int64_t> values;  ///< by name of the symbol
};

}  // namespace weft
