/// offset_greedy.cc: packings made in one go: sweeps over time, the skyline, first fit.
#include <cmath>
#include <map>
#include <set>

#include "offset_instance.h"
#include "offset_shelf.h"
#include "weft/support/request.h"

namespace weft {
namespace {

/// Free ranges below the top of the arena, by offset and by size.
class FreeList {
 public:
  int64_t Allocate(int64_t size, int64_t alignment) {
    // a larger range fails only by alignment, which the next ones soon satisfy
    constexpr int kTries = 8;
    auto it = by_size_.lower_bound({size, 0});
    for (int i = 0; i < kTries && it != by_size_.end(); ++i, ++it) {
      const auto [units, from] = *it;
      const int64_t offset = CheckedRoundUp(from, alignment);
      if (offset + size <= from + units) return Take(from, units, offset, size);
    }
    // Above the top; a free range that touches it counts as part of the room above.
    if (!by_offset_.empty()) {
      const auto [from, units] = *by_offset_.rbegin();
      if (from + units == top_) {
        Remove(from, units);
        top_ = from;
      }
    }
    const int64_t offset = CheckedRoundUp(top_, alignment);
    if (offset > top_) Add(top_, offset - top_);
    top_ = CheckedAdd(offset, size);
    return offset;
  }

  void Free(int64_t offset, int64_t size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + size) {
      size += next->second;
      Remove(next->first, next->second);
      next = by_offset_.lower_bound(offset);
    }
    if (next != by_offset_.begin()) {
      const auto [from, units] = *std::prev(next);
      if (from + units == offset) {
        Remove(from, units);
        offset = from;
        size += units;
      }
    }
    Add(offset, size);
  }

 private:
  void Add(int64_t offset, int64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void Remove(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }
  int64_t Take(int64_t from, int64_t units, int64_t offset, int64_t size) {
    Remove(from, units);
    if (offset > from) Add(from, offset - from);
    if (from + units > offset + size) Add(offset + size, from + units - offset - size);
    return offset;
  }
  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t top_ = 0;
};

/// Height of every step; the maximum over a range, and raising a range to one height.
class HeightTree {
 public:
  explicit HeightTree(uint32_t steps)
      : steps_(steps), max_(4 * size_t{steps} + 4, 0), set_(max_.size(), -1) {}
  int64_t Max(uint32_t begin, uint32_t end) { return Max(1, 0, steps_, begin, end); }
  void Raise(uint32_t begin, uint32_t end, int64_t height) {
    Raise(1, 0, steps_, begin, end, height);
  }

 private:
  // Recursion is as deep as the tree, at most 32.
  int64_t Max(size_t node, uint32_t lo, uint32_t hi, uint32_t begin, uint32_t end) {
    if (end <= lo || hi <= begin) return 0;
    if (begin <= lo && hi <= end) return max_[node];
    if (set_[node] >= 0) return set_[node];
    const uint32_t mid = lo + (hi - lo) / 2;
    return std::max(Max(2 * node, lo, mid, begin, end), Max(2 * node + 1, mid, hi, begin, end));
  }
  void Raise(size_t node, uint32_t lo, uint32_t hi, uint32_t begin, uint32_t end, int64_t height) {
    if (end <= lo || hi <= begin) return;
    if (begin <= lo && hi <= end) {
      max_[node] = set_[node] = height;
      return;
    }
    if (set_[node] >= 0) {
      max_[2 * node] = set_[2 * node] = max_[2 * node + 1] = set_[2 * node + 1] = set_[node];
      set_[node] = -1;
    }
    const uint32_t mid = lo + (hi - lo) / 2;
    Raise(2 * node, lo, mid, begin, end, height);
    Raise(2 * node + 1, mid, hi, begin, end, height);
    max_[node] = std::max(max_[2 * node], max_[2 * node + 1]);
  }
  uint32_t steps_;
  std::vector<int64_t> max_, set_;  // set_: one height for the whole range, or -1
};

/// Nanoseconds, about, that one item found by the index costs.
constexpr int64_t kIndexed = 20;

/// Asks now and then whether the work is still wanted.
class Polls {
 public:
  void operator()() {
    if (++count_ % 512 == 0) RequestScope::Poll();
  }

 private:
  uint32_t count_ = 0;
};

}  // namespace

Packing Sweep(const Instance& in) {
  std::vector<uint32_t> starts(in.n());
  std::iota(starts.begin(), starts.end(), 0);
  std::vector<uint32_t> ends = starts;
  std::sort(starts.begin(), starts.end(), [&](uint32_t a, uint32_t b) {
    if (in.begin[a] != in.begin[b]) return in.begin[a] < in.begin[b];
    return in.size[a] != in.size[b] ? in.size[a] > in.size[b] : a < b;
  });
  std::sort(ends.begin(), ends.end(), [&](uint32_t a, uint32_t b) {
    return in.end[a] != in.end[b] ? in.end[a] < in.end[b] : a < b;
  });
  Packing packing = EmptyPacking(in);
  FreeList free;
  size_t next_end = 0;
  Polls poll;
  for (const uint32_t i : starts) {
    poll();
    for (; in.end[ends[next_end]] <= in.begin[i]; ++next_end)
      free.Free(packing.at[ends[next_end]], in.size[ends[next_end]]);
    packing.Place(in, i, free.Allocate(in.size[i], in.alignment[i]));
  }
  return packing;
}

Packing Skyline(const Instance& in, const std::vector<uint32_t>& order) {
  Packing packing = EmptyPacking(in);
  HeightTree heights(in.num_steps + 1);
  Polls poll;
  for (const uint32_t i : order) {
    poll();
    const int64_t offset = in.Aligned(i, heights.Max(in.begin[i], in.end[i]));
    packing.Place(in, i, offset);
    heights.Raise(in.begin[i], in.end[i], offset + in.size[i]);
  }
  return packing;
}

std::optional<Packing> SweepByEnds(const Instance& in, double closeness, bool backwards,
                                   int64_t limit, int64_t* work) {
  const auto begin = [&](uint32_t i) { return backwards ? in.num_steps - in.end[i] : in.begin[i]; };
  const auto end = [&](uint32_t i) { return backwards ? in.num_steps - in.begin[i] : in.end[i]; };
  std::vector<uint32_t> order(in.n());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (begin(a) != begin(b)) return begin(a) < begin(b);
    return in.size[a] != in.size[b] ? in.size[a] > in.size[b] : a < b;
  });
  double lifetime = 0;
  for (const uint32_t i : order) lifetime += double(in.end[i] - in.begin[i]);
  const double per_step = closeness * in.n() / lifetime;
  struct Alive {
    int64_t from, to;
    uint32_t end;
  };
  std::vector<Alive> alive;  // by offset
  Packing packing = EmptyPacking(in);
  Polls poll;
  for (const uint32_t i : order) {
    poll();
    const uint32_t now = begin(i), until = end(i);
    const int64_t size = in.size[i];
    alive.erase(
        std::remove_if(alive.begin(), alive.end(), [&](const Alive& a) { return a.end <= now; }),
        alive.end());
    *work -= 3 * int64_t(alive.size()) + 64;
    double best = HUGE_VAL;
    size_t place = 0;
    int64_t at = 0, from = 0;
    for (size_t k = 0; k <= alive.size(); ++k) {
      const bool top = k == alive.size();
      const int64_t to = top ? std::max(in.peak, from + size) : alive[k].from;
      if (const int64_t room = to - from; room >= size) {
        const double waste = std::min(1.0, double(room - size) / double(size));
        const auto consider = [&](int64_t offset, double apart) {
          double score = waste + per_step * apart;
          if (offset + size > in.peak) score += 1e12 + double(offset);
          const bool fits = top || (offset >= from && offset + size <= to);
          if (fits && score < best && offset == in.Aligned(i, offset))
            best = score, place = k, at = offset;
        };
        const auto apart = [&](uint32_t other) { return std::fabs(double(other) - double(until)); };
        consider(in.Aligned(i, from), k == 0 ? 0 : apart(alive[k - 1].end));
        consider(std::max(from, to - size), top ? lifetime / in.n() / 2 : apart(alive[k].end));
      }
      if (!top) from = alive[k].to;
    }
    packing.Place(in, i, at);
    if (*work < 0 || packing.height >= limit) return std::nullopt;
    alive.insert(alive.begin() + int64_t(place), Alive{at, at + size, until});
  }
  return packing;
}

std::optional<Packing> FirstFit(const Instance& in, const std::vector<uint32_t>& order,
                                int64_t limit, int64_t* work) {
  Packing packing = EmptyPacking(in);
  Polls poll;
  if (in.n() <= kShelf) {
    Shelf shelf(in);
    for (const uint32_t i : order) {
      poll();
      packing.Place(in, i, shelf.Put(i, work));
      if (*work < 0 || packing.height >= limit) return std::nullopt;
    }
    return packing;
  }
  OverlapIndex index(in);
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (const uint32_t i : order) {
    poll();
    taken.clear();
    index.ForEach(in.begin[i], in.end[i], [&](uint32_t other) {
      taken.emplace_back(packing.at[other], packing.at[other] + in.size[other]);
    });
    *work -= kIndexed * (int64_t(taken.size()) + 8);
    if (*work < 0) return std::nullopt;
    std::sort(taken.begin(), taken.end());
    int64_t offset = 0;
    for (const auto& [from, to] : taken) {
      if (from >= offset && from - offset >= in.size[i]) break;
      if (to > offset) offset = in.Aligned(i, to);
    }
    packing.Place(in, i, offset);
    if (packing.height >= limit) return std::nullopt;
    index.Add(i);
  }
  return packing;
}

}  // namespace weft
