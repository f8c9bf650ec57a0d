/// regex.h: regular expressions in RE2's syntax, matched against whole strings in time linear in
/// their length: the states that a pattern can be in advance together, and nothing goes back.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft::ops {

/// Code points [first, last], in increasing order.
using CodePoints = std::vector<std::pair<uint32_t, uint32_t>>;

class Regex {
 public:
  /// Throws kBadAttribute for a pattern that is not one, kUnsupported for what is left out of RE2's
  /// syntax (\p, \C), kLimit where repetitions make it too large.
  explicit Regex(const std::string& pattern);
  /// The pattern matches all of `text`, which is UTF-8; a byte that is not is U+FFFD.
  bool MatchesAll(const std::string& text) const;
  /// Matches from left to right, each the longest where it begins, none empty: bytes [first,
  /// second).
  std::vector<std::pair<size_t, size_t>> FindAll(const std::string& text) const;

  enum class Step : uint8_t {
    kSet,    ///< a code point of `sets[set]`, then the next step
    kFork,   ///< both `next` and `other`
    kGo,     ///< `next`
    kHolds,  ///< the next step where `assertion` holds
    kMatch,
  };
  enum class Assertion : uint8_t {
    kBegin,
    kEnd,
    kLineBegin,
    kLineEnd,
    kWordBoundary,
    kNoWordBoundary
  };
  struct State {
    Step step = Step::kMatch;
    Assertion assertion = Assertion::kBegin;
    int set = 0, next = 0, other = 0;
  };

 private:
  std::vector<State> states_;
  std::vector<CodePoints> sets_;
};

}  // namespace weft::ops
