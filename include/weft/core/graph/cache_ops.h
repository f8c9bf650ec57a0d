/// cache_ops.h: what graphs say of caches, which sessions keep from run to run: state variables
/// that rows are appended to (passes/effects/cache_in_place.cc).
#pragma once

namespace weft::builtin {

/// (x, rows), attr axis: the first rows of x
inline constexpr const char* kPrefix = "weft::Prefix";

// Attributes of such a variable.
inline constexpr const char* kGrows = "grows";  ///< the axis of its rows
inline constexpr const char* kKept = "kept";    ///< shape of one: rows that a run finds
inline constexpr const char* kRows = "rows";    ///< shape of one: rows that it leaves

}  // namespace weft::builtin
