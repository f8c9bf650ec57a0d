/// offset_windows.cc: packs stretch by stretch, and anew what lies around the highest places.
///
/// First fit by size leaves few gaps, but it looks at every pair. So many items are packed by
/// stretches of steps, those in which most is alive first: they choose freely, the others have room
/// to spare.
///
/// Greedy packings of many items are too high at a few steps only: those where most is alive.
/// Around such a step all items alive there, or in a wider stretch, are taken out, while what else
/// they meet stays; they are put back by first fit in several orders, and then by a local search
/// over the order: an item that ends highest is put earlier. The cost depends on the stretch, not
/// on the number of items.
#include "offset_instance.h"
#include "offset_shelf.h"
#include "weft/support/request.h"

namespace weft {
namespace {

/// Most items taken out at once; the stretch widens from the step itself by these numbers of items.
constexpr size_t kTaken[] = {48, 192, 640};
constexpr size_t kMostTaken = 2500;
/// Rounds of a search without progress after which it goes back to its best order, and ends.
constexpr int kPatience = 48, kLost = 4 * kPatience;
/// First fits worth one window, and rounds over all windows.
constexpr int64_t kTries = 120;
constexpr int kRounds = 8;

/// Items that are taken out, and those they meet.
struct Window {
  std::vector<uint32_t> taken, around;
};

class Repair {
 public:
  Repair(const Instance& in, int64_t enough, int64_t* work, Packing* best)
      : in_(in), enough_(enough), work_(work), best_(best), index_(in), mark_(in.n(), 0) {
    for (uint32_t i = 0; i < in.n(); ++i) index_.Add(i);
  }

  void Run() {
    for (int round = 0; round<kRounds&& * work_> 0 && best_->height > enough_; ++round) {
      const int64_t before = best_->height;
      int64_t target = enough_;
      for (uint32_t i = Highest(target); i < in_.n() && *work_ > 0; i = Highest(target)) {
        if (Lower(i, target)) continue;
        // As low as this could be made; the others need not be lower.
        target = std::max(target, Top(i));
      }
      best_->height = 0;
      for (uint32_t i = 0; i < in_.n(); ++i) best_->height = std::max(best_->height, Top(i));
      if (best_->height == before && in_.n() <= kTaken[2]) return;
    }
  }

 private:
  int64_t Top(uint32_t i) const { return best_->at[i] + in_.size[i]; }

  /// The item that ends highest, above `target`; n() where none does.
  uint32_t Highest(int64_t target) {
    *work_ -= in_.n() / 2;
    uint32_t highest = in_.n();
    for (uint32_t i = 0; i < in_.n(); ++i)
      if (Top(i) > target) target = Top(i), highest = i;
    return highest;
  }

  /// Does what lies around `item` end at `target` or below now?
  bool Lower(uint32_t item, int64_t target) {
    uint32_t hot = in_.begin[item];
    for (uint32_t s = hot; s < in_.end[item]; ++s)
      if (in_.live[s] > in_.live[hot]) hot = s;
    uint32_t begin = hot, end = hot + 1;
    size_t alive = 0;
    index_.ForEach(hot, hot + 1, [&](uint32_t) { ++alive; });
    for (const size_t least : kTaken) {
      const size_t wanted = std::max(least, 3 * alive);
      const Window window = Around(wanted, &begin, &end);
      if (window.taken.empty()) return false;
      if (Search(window, target) || *work_ <= 0) return Top(item) <= target;
      if (begin == 0 && end == in_.num_steps) return false;
    }
    return false;
  }

  /// Widens [begin, end) until as many items live in it.
  Window Around(size_t wanted, uint32_t* begin, uint32_t* end) {
    Window window;
    for (;;) {
      window.taken.clear();
      index_.ForEach(*begin, *end, [&](uint32_t i) { window.taken.push_back(i); });
      *work_ -= 4 * int64_t(window.taken.size()) + 64;
      if (window.taken.size() > kMostTaken) return {};
      if (window.taken.size() >= wanted || (*begin == 0 && *end == in_.num_steps)) break;
      const uint32_t width = *end - *begin;
      *begin -= std::min(*begin, width);
      *end = std::min(in_.num_steps, *end + width);
    }
    ++stamp_;
    uint32_t from = in_.num_steps, to = 0;
    for (uint32_t i : window.taken) {
      mark_[i] = stamp_;
      from = std::min(from, in_.begin[i]);
      to = std::max(to, in_.end[i]);
    }
    index_.ForEach(from, to, [&](uint32_t i) {
      if (mark_[i] != stamp_) window.around.push_back(i);
    });
    *work_ -= 4 * int64_t(window.around.size());
    return window;
  }

  /// First fit of what was taken, in an order; its height.
  int64_t Put(const Window& window, const std::vector<uint32_t>& order, std::vector<int64_t>* at) {
    RequestScope::Poll();
    Shelf shelf = fixed_;
    int64_t height = 0;
    *work_ -= int64_t(window.around.size()) / 2;
    for (size_t k = 0; k < order.size(); ++k) {
      (*at)[k] = shelf.Put(order[k], work_);
      height = std::max(height, (*at)[k] + in_.size[order[k]]);
    }
    return height;
  }

  bool Search(const Window& window, int64_t target) {
    fixed_.Clear();
    for (uint32_t i : window.around) fixed_.Add(i, best_->at[i]);
    int64_t height = 0;
    for (uint32_t i : window.taken) height = std::max(height, Top(i));
    std::vector<uint32_t> best_order;
    std::vector<int64_t> at(window.taken.size()), best_at;
    int64_t best_height = INT64_MAX;
    const int64_t until = *work_ - kTries * int64_t(window.taken.size()) *
                                       int64_t(window.taken.size() + window.around.size()) / 2;
    const auto keep = [&](const std::vector<uint32_t>& order, int64_t now) {
      if (now >= best_height) return;
      best_height = now;
      best_order = order;
      best_at = at;
    };
    for (int rule = 0; rule < 4 && best_height > target && *work_ > 0; ++rule) {
      std::vector<uint32_t> order = Order(window.taken, rule);
      keep(order, Put(window, order, &at));
    }
    std::vector<uint32_t> order = best_order, next;
    std::vector<int64_t> now_at = best_at;
    int64_t now = best_height;
    for (int stuck = 0, lost = 0;
         best_height > target && lost<kLost&& * work_> std::max<int64_t>(0, until);) {
      std::vector<uint32_t> top;
      for (uint32_t k = 0; k < order.size(); ++k)
        if (now_at[k] + in_.size[order[k]] == now) top.push_back(k);
      const uint32_t from = top[draws_.Below(top.size())];
      next = order;
      if (from == 0)  // nothing is before it: two others change places
        std::swap(next[draws_.Below(next.size())], next[draws_.Below(next.size())]);
      else
        std::rotate(next.begin() + (stuck % 4 == 0 ? 0 : draws_.Below(from)), next.begin() + from,
                    next.begin() + from + 1);
      const int64_t then = Put(window, next, &at);
      const bool better = then < best_height;
      if (then <= now || draws_.Below(16) == 0) {
        now = then;
        order = next;
        now_at = at;
      }
      keep(next, then);
      stuck = better ? 0 : stuck + 1;
      lost = better ? 0 : lost + 1;
      if (stuck >= kPatience) {
        now = best_height;
        order = best_order;
        now_at = best_at;
        stuck = 0;
      }
    }
    if (best_height >= height) return height <= target;
    for (size_t k = 0; k < best_order.size(); ++k) best_->at[best_order[k]] = best_at[k];
    return best_height <= target;
  }

  std::vector<uint32_t> Order(const std::vector<uint32_t>& items, int rule) const {
    std::vector<std::pair<double, uint32_t>> by;
    for (uint32_t i : items) {
      const double length = double(in_.end[i] - in_.begin[i]), size = double(in_.size[i]);
      by.emplace_back(rule == 0   ? -size
                      : rule == 1 ? -size * length
                      : rule == 2 ? -length
                                  : best_->at[i],
                      i);
    }
    std::sort(by.begin(), by.end());
    std::vector<uint32_t> order;
    for (const auto& [key, i] : by) order.push_back(i);
    return order;
  }

  const Instance& in_;
  const int64_t enough_;
  int64_t* work_;
  Packing* best_;
  OverlapIndex index_;
  std::vector<uint32_t> mark_;
  uint32_t stamp_ = 0;
  Shelf fixed_{in_};
  Draws draws_;
};

}  // namespace

std::optional<Packing> PackStretches(const Instance& in, int64_t limit, int64_t* work) {
  // Stretches in which as many items begin.
  std::vector<uint32_t> by_begin(in.n());
  std::iota(by_begin.begin(), by_begin.end(), 0);
  std::sort(by_begin.begin(), by_begin.end(), [&](uint32_t a, uint32_t b) {
    return in.begin[a] != in.begin[b] ? in.begin[a] < in.begin[b] : a < b;
  });
  struct Stretch {
    uint32_t begin, end;
    int64_t most;
  };
  std::vector<Stretch> stretches;
  for (size_t k = 0; k < by_begin.size();) {
    const uint32_t begin = in.begin[by_begin[k]];
    size_t last = std::min(by_begin.size() - 1, k + size_t{kStretch} - 1);
    const uint32_t end = in.begin[by_begin[last]] + 1;
    while (k < by_begin.size() && in.begin[by_begin[k]] < end) ++k;
    stretches.push_back({begin, k < by_begin.size() ? in.begin[by_begin[k]] : in.num_steps, 0});
  }
  for (Stretch& s : stretches)
    s.most = *std::max_element(in.live.begin() + s.begin, in.live.begin() + s.end);
  std::stable_sort(stretches.begin(), stretches.end(),
                   [](const Stretch& a, const Stretch& b) { return a.most > b.most; });
  OverlapIndex todo(in), placed(in);
  for (const uint32_t i : by_begin) todo.Add(i);
  std::vector<char> done(in.n(), 0);
  Packing packing = EmptyPacking(in);
  Shelf shelf(in);
  std::vector<uint32_t> items;
  for (const Stretch& s : stretches) {
    items.clear();
    uint32_t from = in.num_steps, to = 0;
    todo.ForEach(s.begin, s.end, [&](uint32_t i) {
      if (done[i]) return;
      items.push_back(i);
      from = std::min(from, in.begin[i]);
      to = std::max(to, in.end[i]);
    });
    if (items.empty()) continue;
    RequestScope::Poll();
    std::sort(items.begin(), items.end(), [&](uint32_t a, uint32_t b) {
      if (in.size[a] != in.size[b]) return in.size[a] > in.size[b];
      return in.end[a] - in.begin[a] != in.end[b] - in.begin[b]
                 ? in.end[a] - in.begin[a] > in.end[b] - in.begin[b]
                 : a < b;
    });
    std::vector<std::pair<int64_t, uint32_t>> around;
    placed.ForEach(from, to, [&](uint32_t i) { around.emplace_back(packing.at[i], i); });
    std::sort(around.begin(), around.end());
    shelf.Clear();
    for (const auto& [at, i] : around) shelf.Add(i, at);
    *work -= 20 * int64_t(around.size());
    for (const uint32_t i : items) {
      packing.Place(in, i, shelf.Put(i, work));
      if (*work < 0 || packing.height >= limit) return std::nullopt;
      placed.Add(i);
      done[i] = 1;
    }
  }
  return packing;
}

void RepairWindows(const Instance& in, int64_t enough, int64_t* work, Packing* best) {
  if (best->height <= enough || *work <= 0) return;
  Repair(in, enough, work, best).Run();
}

}  // namespace weft
