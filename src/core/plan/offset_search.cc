/// offset_search.cc: is there a packing of a given height? Depth first, with proof.
///
/// Any packing can be pushed down until each item stands on the floor or on another one, and its
/// items then be placed in the order of their offsets. So a node of the search places, on what it
/// would stand on now, an item at an offset no lower than the last one's.
///
///   passed over  an item that could have stood lower than the last one has to be raised by one
///                that is still to come, so it stands at least on the lowest of their tops
///   dominated    an item higher than where another would already end: the other one fits below
///   too high     an item, or all that are still to come in one step on the lowest of them
///   apart        where nothing still to come crosses a step, both sides are searched alone
///
/// What is tried first decides how long it takes, and no order is best: several take turns, each
/// with twice the nodes of the turn before.
///
///   source  canonical packings, dominance and sections: Moffitt, MiniMalloc (ASPLOS 2023)
#include <memory>

#include "offset_instance.h"
#include "weft/support/request.h"

namespace weft {
namespace {

constexpr uint32_t kMostItems = 1024;
constexpr int32_t kNever = 1 << 30;
constexpr int64_t kFirstNodes = 1500;
/// What makes an item worth trying early, by letters: most units alive beside it, area, lifetime,
/// neighbours, size.
constexpr const char* kOrders[] = {"TA", "TN", "LTA", "TLA", "ATL", "TSL", "NLA", "SLT"};

class Search {
 public:
  Search(const Instance& in, int64_t height) : n_(in.n()), height_(int32_t(height)) {
    // Steps at which nothing begins hold nothing that the step before does not.
    std::vector<uint32_t> begins = in.begin;
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    const auto section = [&](uint32_t step) {
      return int(std::lower_bound(begins.begin(), begins.end(), step) - begins.begin());
    };
    left_.resize(begins.size());
    crossing_.resize(begins.size() + 1);
    levels_.resize(2 * n_ + 4);  // each places an item or parts them
    for (uint32_t i = 0; i < n_; ++i) {
      size_.push_back(int32_t(in.size[i]));
      align_.push_back(int32_t(in.alignment[i]));
      aligned_ |= align_.back() != 1;
      begin_.push_back(section(in.begin[i]));
      end_.push_back(section(in.end[i]));
      Count(int(i), 1);
    }
    meet_.resize(n_);
    for (uint32_t i = 0; i < n_; ++i)
      for (uint32_t j = 0; j < n_; ++j)
        if (i != j && in.Meet(i, j)) meet_[i].push_back(int(j));
    at_.resize(n_);
    base_.resize(left_.size());
  }

  /// Of an order, the first of equal worth at random where `seed` is not 0.
  Found Run(const char* order, uint64_t seed, int64_t nodes, int64_t* work) {
    Rank(order, seed);
    nodes_ = nodes;
    work_ = work;
    placed_.assign(n_, 0);
    Level& top = At(0);
    top.floor.assign(n_, 0);
    top.items.resize(n_);
    std::iota(top.items.begin(), top.items.end(), 0);
    const Found found = Solve(0, 0, int(left_.size()), 0, -1);
    if (found == Found::kPacking)
      for (uint32_t i = 0; i < n_; ++i) Count(int(i), 1);  // all are placed: as before
    return found;
  }

  const std::vector<int32_t>& at() const { return at_; }

 private:
  struct Level {
    std::vector<int> items;                        ///< still to be placed
    std::vector<int32_t> floor;                    ///< what an item would stand on now
    std::vector<std::pair<int32_t, int>> choices;  ///< offset and rank
  };
  Level& At(size_t depth) {
    if (!levels_[depth]) levels_[depth] = std::make_unique<Level>();
    return *levels_[depth];
  }

  void Count(int i, int sign) {
    for (int s = begin_[i]; s < end_[i]; ++s) left_[s] += sign * int64_t{size_[i]};
    for (int s = begin_[i] + 1; s < end_[i]; ++s) crossing_[s] += sign;
  }
  void Lift(int i) {
    placed_[i] = 0;
    Count(i, 1);
  }

  void Rank(const char* order, uint64_t seed) {
    by_rank_.resize(n_);
    std::iota(by_rank_.begin(), by_rank_.end(), 0);
    const auto worth = [&](char key, int i) -> int64_t {
      switch (key) {
        case 'T': {
          const auto most = std::max_element(left_.begin() + begin_[i], left_.begin() + end_[i]);
          return *most;
        }
        case 'A':
          return int64_t{size_[i]} * (end_[i] - begin_[i]);
        case 'L':
          return end_[i] - begin_[i];
        case 'N':
          return int64_t(meet_[i].size());
        default:
          return size_[i];
      }
    };
    std::vector<std::vector<int64_t>> keys(n_);
    for (int i : by_rank_)
      for (const char* key = order; *key != 0; ++key) keys[i].push_back(-worth(*key, i));
    std::sort(by_rank_.begin(), by_rank_.end(),
              [&](int a, int b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
    if (seed != 0) {
      Draws draws(seed);
      for (size_t k = 0; k + 1 < n_; ++k)
        if (draws.Below(8) == 0)
          std::swap(by_rank_[k], by_rank_[std::min<size_t>(n_ - 1, k + 1 + draws.Below(4))]);
    }
    rank_.resize(n_);
    for (uint32_t k = 0; k < n_; ++k) rank_[by_rank_[k]] = int(k);
  }

  /// Places the items of level `depth`, all of which live in [first, last), at `prev` or above;
  /// at `prev` only those behind `prev_rank`.
  Found Solve(size_t depth, int first, int last, int32_t prev, int prev_rank) {
    Level& level = At(depth);
    const std::vector<int>& items = level.items;
    if (items.empty()) return Found::kPacking;
    *work_ -= int64_t(items.size()) * 8 + 200;
    if (--nodes_ < 0 || *work_ < 0) return Found::kUnknown;
    if (nodes_ % 256 == 0) RequestScope::Poll();
    int32_t lowest_top = kNever;
    if (!Bound(level, prev, prev_rank, &lowest_top)) return Found::kNone;
    for (int s = first + 1; s < last; ++s)
      if (crossing_[s] == 0 && Parts(items, s))
        return SolveParts(depth, first, s, last, prev, prev_rank);
    std::fill(base_.begin() + first, base_.begin() + last, kNever);
    for (int i : items)
      for (int s = begin_[i]; s < end_[i]; ++s) base_[s] = std::min(base_[s], bound_[i]);
    for (int s = first; s < last; ++s)
      if (left_[s] > 0 && base_[s] + left_[s] > height_) return Found::kNone;
    level.choices.clear();
    for (int i : items) {
      const int32_t at = level.floor[i];
      if (at < lowest_top && (at > prev || (at == prev && rank_[i] > prev_rank)))
        level.choices.emplace_back(at, rank_[i]);
    }
    std::sort(level.choices.begin(), level.choices.end());
    Level& next = At(depth + 1);
    for (const auto& [at, rank] : level.choices) {
      const int chosen = by_rank_[rank];
      next.items.clear();
      for (int i : items)
        if (i != chosen) next.items.push_back(i);
      next.floor = level.floor;
      const int32_t top = at + size_[chosen];
      for (int i : meet_[chosen])
        if (next.floor[i] < top) next.floor[i] = Aligned(i, top);
      placed_[chosen] = 1;
      at_[chosen] = at;
      Count(chosen, -1);
      const Found found = Solve(depth + 1, first, last, at, rank);
      if (found == Found::kPacking) return found;
      Lift(chosen);
      if (found == Found::kUnknown) return found;
    }
    return Found::kNone;
  }

  /// Least offsets of what is to come. False where one ends too high.
  bool Bound(const Level& level, int32_t prev, int prev_rank, int32_t* lowest_top) {
    bound_.resize(n_);
    raised_.clear();
    for (int i : level.items) bound_[i] = std::max(level.floor[i], prev);
    for (int i : level.items) {
      if (level.floor[i] > prev || (level.floor[i] == prev && rank_[i] > prev_rank)) continue;
      int32_t on = kNever;
      for (int k : meet_[i])
        if (!placed_[k]) on = std::min(on, bound_[k] + size_[k]);
      if (on == kNever) return false;
      raised_.emplace_back(i, on);
    }
    for (const auto& [i, on] : raised_) bound_[i] = std::max(bound_[i], on);
    for (int i : level.items) {
      if (bound_[i] + size_[i] > height_) return false;
      *lowest_top = std::min(*lowest_top, level.floor[i] + size_[i]);
    }
    return true;
  }

  bool Parts(const std::vector<int>& items, int at) const {
    const auto before = [&](int i) { return begin_[i] < at; };
    return std::any_of(items.begin(), items.end(), before) &&
           !std::all_of(items.begin(), items.end(), before);
  }

  Found SolveParts(size_t depth, int first, int at, int last, int32_t prev, int prev_rank) {
    std::vector<int> parts[2];
    for (int i : At(depth).items) parts[begin_[i] >= at].push_back(i);
    const int smaller = parts[1].size() < parts[0].size();
    for (const int part : {smaller, 1 - smaller}) {
      Level& next = At(depth + 1);
      next.items = parts[part];
      next.floor = At(depth).floor;
      const Found found = part == 0 ? Solve(depth + 1, first, at, prev, prev_rank)
                                    : Solve(depth + 1, at, last, prev, prev_rank);
      if (found == Found::kPacking) continue;
      if (part != smaller)
        for (int i : parts[smaller]) Lift(i);
      return found;
    }
    return Found::kPacking;
  }

  int32_t Aligned(int i, int32_t offset) const {
    return aligned_ ? (offset + align_[i] - 1) / align_[i] * align_[i] : offset;
  }

  const size_t n_;
  const int32_t height_;
  bool aligned_ = false;
  std::vector<int32_t> size_, align_;
  std::vector<int> begin_, end_;  // sections
  std::vector<int64_t> left_;     // units still to be placed, by section
  std::vector<int> crossing_;     // items still to be placed that live on both sides
  std::vector<std::vector<int>> meet_;
  std::vector<int> rank_, by_rank_;
  std::vector<char> placed_;
  std::vector<int32_t> at_, base_, bound_;
  std::vector<std::pair<int, int32_t>> raised_;
  std::vector<std::unique_ptr<Level>> levels_;
  int64_t nodes_ = 0;
  int64_t* work_ = nullptr;
};

}  // namespace

Found SearchPacking(const Instance& in, int64_t height, int64_t* work, Packing* out) {
  if (height < in.peak) return Found::kNone;
  const int64_t most = *std::max_element(in.alignment.begin(), in.alignment.end());
  if (in.n() > kMostItems || height + most >= kNever / 2) return Found::kUnknown;
  Search search(in, height);
  for (uint64_t turn = 0; *work > 0; ++turn) {
    for (const char* order : kOrders) {
      const Found found =
          search.Run(order, turn, kFirstNodes << std::min<uint64_t>(turn, 30), work);
      if (found == Found::kPacking) {
        *out = EmptyPacking(in);
        for (uint32_t i = 0; i < in.n(); ++i) out->Place(in, i, search.at()[i]);
      }
      if (found != Found::kUnknown) return found;
      if (*work < 0) break;
    }
  }
  return Found::kUnknown;
}

}  // namespace weft
