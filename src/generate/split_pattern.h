/// split_pattern.h: the regular expressions by which tokenizers cut texts into words, by PCRE2.
/// Private to the room.
///
/// Files of tokenizers mean the expressions of Oniguruma. What PCRE2 reads otherwise is rewritten
/// where it has a form for it (\s is White_Space, \p{Han} the script, {,n} is {0,n}), else
/// kUnsupported: \w, \b, \h and other escapes, back references, classes in classes and &&, options
/// but i, and (?i) that stands behind the beginning of a branch. ^ and $ are of lines, the case of
/// letters is Unicode's (simple folding).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

class SplitPattern {
 public:
  /// Throws kInvalidModel, kUnsupported for what is not known and kLimit for what is too large or
  /// nested too deep, with the place in the pattern.
  explicit SplitPattern(const std::string& pattern);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;
  /// What matches from left to right, none empty: bytes [first, second). Throws kLimit where
  /// matches go back too often or take too much memory, and what RequestScope::Poll throws.
  std::vector<std::pair<size_t, size_t>> FindAll(std::string_view text) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
