/// edit_distance.h: "did you mean" for names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/support/api.h"

namespace weft {

/// Insertions, deletions, substitutions and swaps of neighbours that turn a into b; upper and lower
/// case are equal.
WEFT_API int EditDistance(std::string_view a, std::string_view b);

/// The candidates nearest to `name`, best first, ties by name; only plausible ones (at most a third
/// of the letters differ, or one is a prefix of the other).
WEFT_API std::vector<std::string> NearestNames(std::string_view name,
                                               const std::vector<std::string>& candidates,
                                               size_t at_most = 3);

/// "did you mean 'Relu' or 'Elu'?", or "" where nothing is near.
WEFT_API std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace weft
