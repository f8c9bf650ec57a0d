/// tree.cc: orders of words on the way.
///
/// In a parent's memory a tensor is best for a link when word + lane is one number: the places
/// along which the link's addresses differ become the lowest digits of the address, all else lies
/// above. That order follows from the layout below (source side) or ahead (target side) hop by hop;
/// on one hop the words change from the one order to the other, under masks. All hops are tried for
/// it.
#include "tree.h"

#include <algorithm>
#include <functional>

#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace hsimd {

using weft::CheckedAdd;
using weft::CheckedMul;

SpareSpace::SpareSpace(const Machine& m, const std::vector<SpareWords>& spare) : all_(spare) {
  for (const SpareWords& s : spare) {
    WEFT_CHECK(s.memory >= 0 && s.memory < int(m.memories.size()), kUsage,
               "spare words in memory {}, machine {} has {}", s.memory, m.name, m.memories.size());
    WEFT_CHECK(s.base >= 0 && s.words >= 0 && s.base <= m.memories[s.memory].words - s.words,
               kInvalidModel, "spare words {} to {} of {}, which has {}", s.base, s.base + s.words,
               m.memories[s.memory].name, m.memories[s.memory].words);
    // A stream's base is a lane's address less the lane: room for it keeps bases from below 0.
    SpareWords r = s;
    const int64_t lift = std::min(r.words, std::max<int64_t>(0, LastLane(m, s.memory) - s.base));
    r.base += lift;
    r.words -= lift;
    SpareWords& own = ranges_.emplace(s.memory, r).first->second;
    if (r.words > own.words) own = r;
  }
}

int64_t SpareSpace::words(int memory) const {
  const auto at = ranges_.find(memory);
  return at == ranges_.end() ? 0 : at->second.words;
}

int64_t SpareSpace::Take(int memory, int64_t words) {
  const auto at = ranges_.find(memory);
  if (at == ranges_.end() || at->second.words < words) return -1;
  const int64_t base = at->second.base;
  at->second.base += words;
  at->second.words -= words;
  return base;
}

std::vector<std::vector<int>> PathsOf(const Machine& m, int from, int to, int top,
                                      const SpareSpace& spare) {
  std::vector<std::vector<int>> paths;
  std::vector<std::vector<bool>> edge(m.memories.size(), std::vector<bool>(m.memories.size()));
  for (const Hop& h : AllHops(m)) {
    if (m.units[h.unit].kind != UnitKind::kRing) edge[h.from][h.to] = true;
  }
  constexpr size_t kMostPaths = 24;
  const size_t most_hops = 2 * m.levels.size() + 2;
  std::vector<int> path{from};
  size_t turn = 0;  // stops before the first hop down
  // Shortest first; a memory may serve once on the way up and once on the way down.
  const std::function<void(bool, size_t, int)> walk = [&](bool down, size_t left, int highest) {
    const int at = path.back();
    highest = std::min(highest, m.memories[at].level);
    for (int next = 0; next < int(m.memories.size()); ++next) {
      if (!edge[at][next] || paths.size() >= kMostPaths) continue;
      const int rise = m.memories[next].level - m.memories[at].level;
      if (down && rise < 0) continue;
      // Two copies between memories of the PEs in a row will do.
      const size_t n = path.size();
      if (rise == 0 && m.memories[at].level == m.pe() && n > 2 &&
          m.memories[path[n - 2]].level == m.pe() && m.memories[path[n - 3]].level == m.pe()) {
        continue;
      }
      if (left == 1) {
        if (next != to || (path.size() == 1 && at == to)) continue;  // no copy in place
        if (std::min(highest, m.memories[to].level) > top) continue;
        paths.push_back(path);
        paths.back().push_back(to);
        continue;
      }
      if (!spare.has(next)) continue;
      const bool turns = !down && rise > 0;
      if (turns) turn = path.size();
      const auto own = down || turns ? path.begin() + int64_t(turn) : path.begin() + 1;
      if (std::count(own, path.end(), next) > 0) continue;
      path.push_back(next);
      walk(down || turns, left - 1, highest);
      path.pop_back();
    }
  };
  for (size_t hops = 1; hops <= most_hops; ++hops) walk(false, hops, m.pe());
  return paths;
}

namespace {

/// The layout in a memory at `parent` that suits a link with these lanes to the layout `below`.
Layout OrderAbove(const Machine& m, const Layout& below, int parent, int child,
                  const Coords& lanes) {
  Layout l = Canonical(below);
  const auto level_of = [&](const std::string& name) {
    return name == kAddress ? -1 : m.LevelNamed(name);
  };
  const auto between = [&](const std::string& name) {
    const int k = level_of(name);
    return k > parent && k <= child;
  };
  int64_t width = 1;  // addresses that the lanes in use span
  for (auto it = l.offset.begin(); it != l.offset.end();) {
    if (between(it->first)) {
      width = CheckedAdd(width, CheckedMul(it->second, lanes[level_of(it->first)]));
      it = l.offset.erase(it);
    } else {
      it = it->first == kAddress ? l.offset.erase(it) : std::next(it);
    }
  }
  const int64_t first = width - 1;
  for (auto it = l.copies.begin(); it != l.copies.end();) {
    it = between(it->level) ? l.copies.erase(it) : std::next(it);
  }
  std::vector<Digit*> others;
  for (auto& axis : l.axes) {
    for (Digit& d : axis) {
      if (between(d.level) && lanes[level_of(d.level)] > 0) {
        d.stride = CheckedMul(d.stride, lanes[level_of(d.level)]);
        width = CheckedAdd(width, CheckedMul(d.size - 1, d.stride));
        d.level = "#lane";
      } else if (d.level == kAddress || between(d.level)) {
        if (d.level != kAddress) d.stride = CheckedAdd(d.stride, int64_t{1} << 40);  // above all
        d.level = kAddress;
        others.push_back(&d);
      }
    }
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const Digit* x, const Digit* y) { return x->stride < y->stride; });
  int64_t stride = width;
  for (Digit* d : others) {
    d->stride = stride;
    stride = CheckedMul(stride, d->size);
  }
  for (auto& axis : l.axes) {
    for (Digit& d : axis) {
      if (d.level == "#lane") d.level = kAddress;
    }
  }
  if (first > 0) l.offset[kAddress] = first;
  return l;
}

/// One copy of each element where the source has several over parts of levels.
Layout FirstCopies(const Machine& m, const TensorAt& t) {
  Layout l = Canonical(t.layout, m, m.memories[t.memory].level);
  for (Digit& d : l.copies) d = {1, d.level, 1};
  return l;
}

struct Ways {
  const Machine& m;
  int64_t most;

  std::optional<std::pair<Hop, int64_t>> Cheapest(const TensorAt& from, const TensorAt& to) const {
    std::vector<Box> boxes;
    try {
      boxes = Refine(m, from, to, most);
    } catch (const weft::Error& e) {
      if (e.code() != weft::ErrorCode::kLimit) throw;
      return std::nullopt;
    }
    return CheapestHop(m, from.memory, to.memory, boxes, false);
  }

  /// The cheapest hop between `known` and the next memory, in the order that suits it.
  std::optional<TensorAt> Next(const TensorAt& known, int next, bool forward) const {
    const int a = m.memories[known.memory].level, b = m.memories[next].level;
    const Layout layout = forward ? FirstCopies(m, known) : known.layout;
    if (a == b) return TensorAt{next, 0, Compact(layout)};
    if (b > a) return std::nullopt;  // the order below is not ours to choose
    std::optional<TensorAt> best;
    int64_t least = 0;
    const auto hops =
        forward ? HopsBetween(m, known.memory, next) : HopsBetween(m, next, known.memory);
    for (const Hop& h : hops) {
      const Unit& unit = m.units[h.unit];
      if (unit.kind != UnitKind::kUp && unit.kind != UnitKind::kDown) continue;
      TensorAt at{next, 0, OrderAbove(m, layout, b, a, LaneWeights(m, unit.ops[h.op]))};
      std::optional<int64_t> cycles;
      try {
        cycles = HopCycles(m, h, forward ? Refine(m, known, at, most) : Refine(m, at, known, most));
      } catch (const weft::Error& e) {
        if (e.code() != weft::ErrorCode::kLimit) throw;
      }
      if (cycles && (!best || *cycles < least)) {
        best = std::move(at);
        least = *cycles;
      }
    }
    return best;
  }
};

}  // namespace

std::optional<Way> CheapestWay(const Machine& m, const TensorAt& from, const TensorAt& to,
                               const std::vector<int>& path, int64_t most) {
  const Ways ways{m, most};
  const size_t n = path.size();
  std::vector<std::optional<TensorAt>> source(n), target(n);
  source[0] = from;
  for (size_t k = 1; k + 1 < n && source[k - 1]; ++k) {
    source[k] = ways.Next(*source[k - 1], path[k], true);
  }
  target[n - 1] = to;
  for (size_t k = n - 1; k-- > 1 && target[k + 1];) {
    target[k] = ways.Next(*target[k + 1], path[k], false);
  }
  std::optional<Way> best;
  for (size_t change = 0; change + 1 < n; ++change) {
    if (!source[change] || !target[change + 1]) continue;
    Way way;
    for (size_t k = 0; k < n; ++k) {
      way.stops.push_back(k <= change ? *source[k] : *target[k]);
    }
    bool leads = true;
    for (size_t k = 0; k + 1 < n && leads; ++k) {
      const auto hop = ways.Cheapest(way.stops[k], way.stops[k + 1]);
      leads = hop.has_value();
      if (!leads) break;
      way.hops.push_back(hop->first);
      way.cycles = CheckedAdd(way.cycles, hop->second);
    }
    if (leads && (!best || way.cycles < best->cycles)) best = std::move(way);
  }
  return best;
}

}  // namespace hsimd
