/// first_at_least.h: numbers at places that change, and the first of them from a place on that is
/// at least so much: logarithmic in their number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace weft {

class FirstAtLeast {
 public:
  static constexpr int kNone = std::numeric_limits<int>::min();
  explicit FirstAtLeast(const std::vector<int>& values) {
    while (leaves_ < values.size()) leaves_ *= 2;
    most_.assign(2 * leaves_, kNone);
    std::copy(values.begin(), values.end(), most_.begin() + ptrdiff_t(leaves_));
    for (size_t i = leaves_ - 1; i > 0; --i) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]);
  }
  int operator[](size_t place) const { return most_[leaves_ + place]; }
  void Set(size_t place, int value) {
    size_t i = leaves_ + place;
    most_[i] = value;
    while (i /= 2) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]);
  }
  /// At least the number of places: none. `least` is more than kNone.
  size_t Find(size_t from, int least) const {
    if (from >= leaves_) return leaves_;
    size_t i = leaves_ + from;
    while (most_[i] < least) {  // up to the next subtree on the right
      while (i % 2) i /= 2;
      if (i == 0) return leaves_;
      ++i;
    }
    while (i < leaves_) i = 2 * i + (most_[2 * i] < least);
    return i - leaves_;
  }

 private:
  size_t leaves_ = 1;
  std::vector<int> most_;  ///< a heap-ordered tree: node i has the children 2 i and 2 i + 1
};

}  // namespace weft
