/// split_pattern.h: the regular expressions by which tokenizers cut texts into words. Private to
/// the room.
///
/// Alternatives are tried from left to right and the first that matches is taken, as the tokenizers
/// of these patterns do; so it is no automaton (core's expressions take the longest match), it goes
/// back where it must. Known are literals, `.`, classes, \p{L}, \p{N}, \p{M}, \p{P}, \p{S}, \p{Z}
/// and their opposites, \s \S \d \D \r \n \t, groups (also (?:..), (?i:..)), (?=..), (?!..), ^ and
/// $ (of the text), and ? * + {n,m} with their lazy (?) and possessive (+) forms.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

class SplitPattern {
 public:
  /// Throws kInvalidModel with the place in the pattern, kUnsupported for what is not known.
  explicit SplitPattern(const std::string& pattern);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;
  /// What matches from left to right, none empty: bytes [first, second). Throws kLimit where a
  /// match goes back too often.
  std::vector<std::pair<size_t, size_t>> FindAll(std::string_view text) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
