/// offset_shelf.h: what first fit asks: the lowest gap, and who shares a step. Private to the core.
#pragma once

#include "offset_instance.h"

namespace weft {

/// Placed items in the order of their offsets. Finding a gap looks at those below it.
class Shelf {
 public:
  explicit Shelf(const Instance& in) : in_(in) {}

  /// An item that stays where it is.
  void Add(uint32_t item, int64_t offset) {
    const Book book{offset, offset + in_.size[item], in_.begin[item], in_.end[item]};
    books_.insert(std::upper_bound(books_.begin(), books_.end(), offset,
                                   [](int64_t at, const Book& b) { return at < b.from; }),
                  book);
  }

  /// Into the lowest gap; `*work` counts down what was looked at.
  int64_t Put(uint32_t item, int64_t* work) {
    const int64_t size = in_.size[item];
    const uint32_t begin = in_.begin[item], end = in_.end[item];
    int64_t offset = 0;
    size_t k = 0;
    for (; k < books_.size(); ++k) {
      const Book& book = books_[k];
      if (book.end <= begin || end <= book.begin) continue;
      if (book.from >= offset && book.from - offset >= size) break;
      if (book.to > offset) offset = in_.Aligned(item, book.to);
    }
    *work -= int64_t(k) + 32;
    Add(item, offset);
    return offset;
  }

  void Clear() { books_.clear(); }

 private:
  struct Book {
    int64_t from, to;
    uint32_t begin, end;
  };
  const Instance& in_;
  std::vector<Book> books_;
};

/// Added items that share a step with a range. An item either lives at the first step of the range
/// (found by walking down a tree over steps whose nodes list the items that cover them) or begins
/// within it (found in a bit set over the items sorted by their begin).
class OverlapIndex {
 public:
  explicit OverlapIndex(const Instance& in)
      : in_(in), by_begin_(in.n()), rank_(in.n()), first_(in.num_steps + 2, 0) {
    while (leaves_ < in.num_steps + 1) leaves_ *= 2;
    covers_.resize(2 * leaves_);
    std::iota(by_begin_.begin(), by_begin_.end(), 0);
    std::sort(by_begin_.begin(), by_begin_.end(), [&](uint32_t a, uint32_t b) {
      return in.begin[a] != in.begin[b] ? in.begin[a] < in.begin[b] : a < b;
    });
    for (uint32_t r = 0; r < by_begin_.size(); ++r) {
      rank_[by_begin_[r]] = r;
      ++first_[in.begin[by_begin_[r]] + 1];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    added_.resize(by_begin_.size() / 64 + 1, 0);
  }

  void Add(uint32_t item) {
    added_[rank_[item] / 64] |= uint64_t{1} << (rank_[item] % 64);
    size_t lo = in_.begin[item] + leaves_, hi = in_.end[item] + leaves_;
    for (; lo < hi; lo /= 2, hi /= 2) {
      if (lo & 1) covers_[lo++].push_back(item);
      if (hi & 1) covers_[--hi].push_back(item);
    }
  }

  template <class F>
  void ForEach(uint32_t begin, uint32_t end, F f) const {
    for (size_t node = begin + leaves_; node > 0; node /= 2) {
      for (const uint32_t other : covers_[node]) f(other);
    }
    const uint32_t from = first_[begin + 1], to = first_[end];
    for (uint32_t word = from / 64; word * 64 < to; ++word) {
      uint64_t bits = added_[word];
      if (word == from / 64) bits &= ~uint64_t{0} << (from % 64);
      if (to - word * 64 < 64) bits &= (uint64_t{1} << (to - word * 64)) - 1;
      for (; bits; bits &= bits - 1) f(by_begin_[word * 64 + uint32_t(__builtin_ctzll(bits))]);
    }
  }

 private:
  const Instance& in_;
  std::vector<uint32_t> by_begin_, rank_;
  std::vector<uint32_t> first_;  // first_[s]: rank of the first item that begins at s
  std::vector<uint64_t> added_;
  size_t leaves_ = 1;
  std::vector<std::vector<uint32_t>> covers_;
};

}  // namespace weft
