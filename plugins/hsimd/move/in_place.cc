/// in_place.cc: classes of words by their difference of places, ordered so that none is lost.
#include "in_place.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace hsimd {

namespace {

constexpr int64_t kMostCells = int64_t{1} << 21;

/// A box as two tensors whose axes are its digits; nullopt where a digit changes two coordinates of
/// one side.
std::optional<std::pair<TensorAt, TensorAt>> TensorsOf(const Machine& m, const Box& box, int from,
                                                       int to) {
  std::pair<TensorAt, TensorAt> out;
  const auto digit = [&](const Coords& step, int64_t size) -> std::optional<Digit> {
    std::optional<Digit> d;
    for (int k = 0; k <= kWord; ++k) {
      if (step[k] == 0) continue;
      if (d || step[k] < 0) return std::nullopt;
      d = Digit{size, k == kWord ? kAddress : m.levels[k].name, step[k]};
    }
    return d ? d : Digit{1, kAddress, 1};
  };
  for (TensorAt* t : {&out.first, &out.second}) {
    const bool first = t == &out.first;
    t->memory = first ? from : to;
    Layout& l = t->layout;
    for (const Step& s : box.steps) {
      const auto d = digit(first ? s.from : s.to, s.size), other = digit(s.from, s.size);
      if (!d || !other) return std::nullopt;
      if (other->size == 1 && s.size > 1) {  // a copy: no axis
        if (!first) l.copies.push_back(*d);
        continue;
      }
      if (d->size != s.size) return std::nullopt;
      l.shape.push_back(s.size);
      l.axes.push_back({*d});
    }
    const Coords& base = first ? box.from : box.to;
    const int level = m.memories[t->memory].level;
    if (base[kWord] != 0) l.offset[kAddress] = base[kWord];
    for (int k = 1; k <= level; ++k) {
      if (base[k] != 0) l.offset[m.levels[k].name] = base[k];
      if (!Names(l, m.levels[k].name)) l.copies.push_back({1, m.levels[k].name, 1});
    }
  }
  return out;
}

/// What a box needs apart from where it lies: equal keys are moved equally.
std::vector<int64_t> KeyOf(const Box& box) {
  std::vector<int64_t> key;
  for (int k = 0; k <= kWord; ++k) key.push_back(box.to[k] - box.from[k]);
  for (const Step& s : box.steps) {
    key.push_back(s.size);
    key.insert(key.end(), s.from.begin(), s.from.end());
    key.insert(key.end(), s.to.begin(), s.to.end());
  }
  return key;
}

/// One link of a box's chain.
struct Leg {
  Hop hop;
  Box box;
};

/// Distances round a ring by the fewest cycles: which shifts to take.
std::optional<std::vector<Hop>> RingSteps(const Machine& m, int from, int to, int middle, int level,
                                          int64_t distance) {
  const int64_t n = m.levels[level].count;
  const auto rings = [&](int a, int b) {
    std::vector<Hop> out;
    for (const Hop& h : HopsBetween(m, a, b)) {
      if (m.units[h.unit].kind == UnitKind::kRing && m.units[h.unit].child == level) {
        out.push_back(h);
      }
    }
    return out;
  };
  const auto shift = [&](const Hop& h) {  // how far a word goes
    const int64_t s = -m.units[h.unit].ops[h.op].shift;
    return weft::FloorModulo(s, n);
  };
  const int64_t want = weft::FloorModulo(distance, n);
  const std::vector<Hop> first = rings(from, middle), inner = rings(middle, middle),
                         last = rings(middle, to);
  // Breadth first over distances after the first step.
  std::vector<std::vector<Hop>> reached(n);
  std::vector<bool> seen(n, false);
  std::vector<int64_t> queue;
  for (const Hop& h : first) {
    const int64_t at = shift(h);
    if (seen[at]) continue;
    seen[at] = true;
    reached[at] = {h};
    queue.push_back(at);
  }
  std::optional<std::vector<Hop>> best;
  for (size_t q = 0; q < queue.size(); ++q) {
    const int64_t at = queue[q];
    for (const Hop& h : last) {
      if ((at + shift(h)) % n != want) continue;
      if (best && best->size() <= reached[at].size() + 1) continue;
      best = reached[at];
      best->push_back(h);
    }
    for (const Hop& h : inner) {
      const int64_t next = (at + shift(h)) % n;
      if (seen[next]) continue;
      seen[next] = true;
      reached[next] = reached[at];
      reached[next].push_back(h);
      queue.push_back(next);
    }
  }
  return best;
}

class Mover {
 public:
  Mover(const Machine& m, const TensorAt& from, const TensorAt& to, By by, SpareSpace spare,
        int64_t most)
      : m_(m), from_(from), to_(to), by_(by), spare_(std::move(spare)), most_(most) {}

  std::optional<std::vector<Instruction>> Run(const std::vector<Box>& boxes) {
    std::vector<Box> cut;
    for (const Box& box : boxes) CutRing(box, cut);
    for (const Box& box : cut) {
      if (!Assign(box)) return std::nullopt;
    }
    // Early legs: all but the last, by their number in the chain so that equal ones join.
    using Groups = std::map<Hop, std::vector<Box>>;
    const auto add = [](const Leg& leg, Groups& groups) { groups[leg.hop].push_back(leg.box); };
    const auto emit = [&](const Groups& groups, std::vector<Instruction>& list) {
      return std::all_of(groups.begin(), groups.end(),
                         [&](const auto& group) { return Emit(group.first, group.second, list); });
    };
    std::vector<Instruction> out, last;
    for (size_t leg = 0;; ++leg) {
      Groups groups;
      for (const auto& chain : chains_) {
        if (leg + 1 < chain.size()) add(chain[leg], groups);
      }
      if (groups.empty()) break;
      if (!emit(groups, out)) return std::nullopt;
    }
    Groups groups;
    for (const auto& chain : chains_) add(chain.back(), groups);
    if (!emit(groups, last) || !Order(last, out)) return std::nullopt;
    return out;
  }

 private:
  bool Emit(const Hop& hop, const std::vector<Box>& boxes, std::vector<Instruction>& out) {
    auto list = EmitHop(m_, hop, boxes, most_ - int64_t(out.size()));
    if (!list) return false;
    for (Instruction& i : *list) out.push_back(std::move(i));
    return true;
  }

  /// The level on which alone the places differ, or -1; by how much.
  std::pair<int, int64_t> Distance(const Box& box) const {
    int level = -1;
    for (int k = 0; k < kMostLevels; ++k) {
      for (const Step& s : box.steps) {
        if (s.from[k] != s.to[k]) return {-1, 0};
      }
      if (box.from[k] == box.to[k]) continue;
      if (level >= 0) return {-1, 0};
      level = k;
    }
    return {level, level < 0 ? 0 : box.to[level] - box.from[level]};
  }

  /// Boxes of one place of the ring's level, where a way round may wrap.
  void CutRing(const Box& box, std::vector<Box>& out) const {
    const auto [level, distance] = Distance(box);
    if (level < 0 || std::abs(distance) < 2) {
      out.push_back(box);
      return;
    }
    Box rest = box;
    rest.steps.clear();
    std::vector<Box> list;
    std::vector<Step> on_ring;
    for (const Step& s : box.steps) {
      (s.from[level] != 0 ? on_ring : rest.steps).push_back(s);
    }
    list.push_back(rest);
    for (const Step& s : on_ring) {
      std::vector<Box> next;
      for (const Box& b : list) {
        for (int64_t d = 0; d < s.size; ++d) {
          Box c = b;
          for (int k = 0; k <= kWord; ++k) {
            c.from[k] += d * s.from[k];
            c.to[k] += d * s.to[k];
          }
          next.push_back(c);
        }
      }
      list = std::move(next);
    }
    out.insert(out.end(), list.begin(), list.end());
  }

  bool Assign(const Box& box) {
    std::vector<Leg> best;
    int64_t least = -1;
    const auto offer = [&](std::vector<Leg> legs, int64_t cycles) {
      if (least >= 0 && cycles >= least) return;
      best = std::move(legs);
      least = cycles;
    };
    if (by_ != By::kTree) {
      if (const auto hop = CheapestHop(m_, from_.memory, to_.memory, {box}, true))
        offer({{hop->first, box}}, hop->second);
      if (auto legs = RingChain(box)) {
        int64_t c = 0;
        for (const Leg& l : *legs) c += HopCycles(m_, l.hop, {l.box}).value_or(int64_t{1} << 40);
        offer(std::move(*legs), c);
      }
    }
    if (by_ != By::kNeighbours) {
      if (auto legs = TreeChain(box, least)) {
        int64_t c = 0;
        for (const Leg& l : *legs) c += HopCycles(m_, l.hop, {l.box}).value_or(int64_t{1} << 40);
        offer(std::move(*legs), c);
      }
    }
    if (least < 0) return false;
    chains_.push_back(std::move(best));
    return true;
  }

  std::optional<std::vector<Leg>> RingChain(const Box& box) {
    const auto [level, distance] = Distance(box);
    if (level < 0) return std::nullopt;
    for (const SpareWords& s : spare_.all()) {
      const auto hops = RingSteps(m_, from_.memory, to_.memory, s.memory, level, distance);
      if (!hops) continue;
      // Equal words of other places share the spare words: their places differ at every step.
      std::vector<int64_t> key{s.memory, distance, level, box.from[kWord], box.to[kWord]};
      int64_t words = 1;
      for (const Step& st : box.steps) {
        if (st.from[kWord] == 0) continue;
        key.push_back(st.size);
        key.push_back(st.from[kWord]);
        key.push_back(st.to[kWord]);
        words *= st.size;
      }
      const auto [at, fresh] = ring_spare_.emplace(key, 0);
      if (fresh) {
        at->second = spare_.Take(s.memory, words * int64_t(hops->size() - 1));
        if (at->second < 0) {
          ring_spare_.erase(at);
          continue;
        }
      }
      std::vector<Leg> legs;
      Box now = box;
      for (size_t k = 0; k < hops->size(); ++k) {
        Box leg = now;
        leg.to = now.from;
        for (size_t x = 0; x < leg.steps.size(); ++x) leg.steps[x].to = now.steps[x].from;
        const Hop& h = (*hops)[k];
        const int64_t shift = m_.units[h.unit].ops[h.op].shift;
        leg.to[level] = weft::FloorModulo(now.from[level] - shift, m_.levels[level].count);
        if (k + 1 < hops->size()) {
          leg.to[kWord] = at->second + int64_t(k) * words;
          int64_t stride = 1;
          for (size_t x = leg.steps.size(); x-- > 0;) {
            if (box.steps[x].from[kWord] == 0) continue;
            leg.steps[x].to[kWord] = stride;
            stride *= leg.steps[x].size;
          }
        } else {
          leg.to[kWord] = box.to[kWord];
          for (size_t x = 0; x < leg.steps.size(); ++x) {
            leg.steps[x].to[kWord] = box.steps[x].to[kWord];
          }
        }
        legs.push_back({h, leg});
        now.from = leg.to;
        for (size_t x = 0; x < now.steps.size(); ++x) now.steps[x].from = leg.steps[x].to;
      }
      return legs;
    }
    return std::nullopt;
  }

  /// `least`: cycles of the best way so far, or -1; a longer way over the tree is not made.
  std::optional<std::vector<Leg>> TreeChain(const Box& box, int64_t least) {
    const auto tensors = TensorsOf(m_, box, from_.memory, to_.memory);
    if (!tensors) return std::nullopt;
    const auto [at, fresh] = path_of_.emplace(KeyOf(box), std::pair(-1, int64_t{-1}));
    const int below = std::min(m_.memories[from_.memory].level, m_.memories[to_.memory].level);
    const int top = CommonLevel({box}, below);
    const auto [known, first] = paths_by_top_.try_emplace(top);
    if (first) known->second = PathsOf(m_, from_.memory, to_.memory, top, spare_);
    const std::vector<std::vector<int>>& paths = known->second;
    std::optional<Way> way;
    if (fresh) {
      for (size_t p = 0; p < paths.size(); ++p) {
        if (paths[p].size() == 2 && from_.memory == to_.memory) continue;
        const int so_far = at->second.first;
        if (so_far >= 0 && paths[p].size() > paths[so_far].size()) break;
        auto over = CheapestWay(m_, tensors->first, tensors->second, paths[p], most_);
        if (over && (at->second.first < 0 || over->cycles < at->second.second)) {
          at->second = {int(p), over->cycles};
          way = std::move(over);
        }
      }
    }
    if (at->second.first < 0 || (least >= 0 && at->second.second >= least)) return std::nullopt;
    if (!fresh)
      way = CheapestWay(m_, tensors->first, tensors->second, paths[at->second.first], most_);
    if (!way) return std::nullopt;
    std::vector<Leg> legs;
    for (size_t k = 0; k < way->hops.size(); ++k) {
      TensorAt& next = way->stops[k + 1];
      if (k + 1 < way->hops.size()) {
        next.base = spare_.Take(next.memory, Extent(next.layout, kAddress));
        if (next.base < 0) return std::nullopt;
      }
      const std::vector<Box> boxes = Refine(m_, way->stops[k], next, most_);
      if (boxes.size() != 1) return std::nullopt;
      legs.push_back({way->hops[k], boxes[0]});
    }
    return legs;
  }

  /// Places of a level in the whole machine that a mask lets work, with their place in each level.
  std::vector<std::vector<int64_t>> PlacesOf(const Mask& mask, int level) const {
    std::vector<std::vector<int64_t>> out{{}};
    for (int l = 0; l <= level; ++l) {
      std::vector<std::vector<int64_t>> next;
      for (const auto& p : out) {
        for (int64_t k = 0; k < m_.levels[l].count; ++k) {
          if (!mask.Has(l, k)) continue;
          next.push_back(p);
          next.back().push_back(k);
        }
      }
      out = std::move(next);
    }
    return out;
  }

  struct Cells {
    std::vector<int64_t> reads, writes;  ///< of the tensors' memory; only where they are shared
    bool own = false;                    ///< an element writes a word that another one reads
  };

  /// nullopt: too many.
  std::optional<Cells> CellsOf(const Instruction& i) const {
    Cells c;
    const Unit& unit = m_.units[i.unit];
    const Memory& mem = m_.memories[to_.memory];
    const bool reads = i.sources[0].memory == to_.memory;
    const bool link = unit.kind == UnitKind::kUp || unit.kind == UnitKind::kDown;
    const int works = link ? unit.child : mem.level;
    const std::vector<std::vector<int64_t>> places = PlacesOf(i.mask, works);
    if (int64_t(places.size()) * i.elements() > kMostCells) return std::nullopt;
    const Coords lanes = LaneWeights(m_, unit.ops[i.op]);
    const auto cell = [&](const std::vector<int64_t>& p, int64_t shift, int64_t word) {
      int64_t linear = 0;
      for (int l = 0; l <= mem.level; ++l) {
        const int64_t n = m_.levels[l].count;
        linear = linear * n + (l == mem.level ? weft::FloorModulo(p[l] + shift, n) : p[l]);
      }
      return linear * mem.words + word;
    };
    int64_t n = 0;
    std::unordered_map<int64_t, int64_t> read_by;
    for (int64_t a = 0; a < i.count[0]; ++a) {
      for (int64_t b = 0; b < i.count[1]; ++b) {
        for (int64_t e = 0; e < i.count[2]; ++e, ++n) {
          const auto at = [&](const Stream& s) {
            return s.base + a * s.stride[0] + b * s.stride[1] + e * s.stride[2];
          };
          for (const auto& p : places) {
            int64_t lane = 0;
            for (int l = 0; l <= works; ++l) lane += lanes[l] * p[l];
            c.writes.push_back(cell(p, 0, at(i.target) + (unit.kind == UnitKind::kUp ? lane : 0)));
            if (!reads) continue;
            const int64_t shift =
                unit.kind == UnitKind::kRing ? unit.ops[i.op].shift % m_.levels[works].count : 0;
            c.reads.push_back(
                cell(p, shift, at(i.sources[0]) + (unit.kind == UnitKind::kDown ? lane : 0)));
            const auto [known, fresh] = read_by.emplace(c.reads.back(), n);
            if (!fresh && known->second != n) known->second = -1;  // several elements
          }
        }
      }
    }
    if (reads) {
      for (size_t k = 0; k < c.writes.size(); ++k) {
        const auto at = read_by.find(c.writes[k]);
        c.own = c.own || (at != read_by.end() && at->second != int64_t(k / places.size()));
      }
    }
    return c;
  }

  /// Appends `last` so that nothing is overwritten before it is read.
  bool Order(std::vector<Instruction>& last, std::vector<Instruction>& out) {
    std::vector<Cells> cells(last.size());
    std::unordered_map<int64_t, std::vector<int>> readers;
    int64_t total = 0;
    for (size_t k = 0; k < last.size(); ++k) {
      if (from_.memory != to_.memory) continue;
      auto c = CellsOf(last[k]);
      if (!c) return false;
      total += int64_t(c->writes.size());
      if (total > kMostCells) return false;
      for (const int64_t r : c->reads) {
        std::vector<int>& by = readers[r];
        if (by.empty() || by.back() != int(k)) by.push_back(int(k));
      }
      cells[k] = std::move(*c);
    }
    // waits[k]: those that read what k writes.
    std::vector<std::set<int>> waits(last.size());
    std::vector<std::vector<int>> frees(last.size());
    for (size_t k = 0; k < last.size(); ++k) {
      for (const int64_t w : cells[k].writes) {
        const auto at = readers.find(w);
        if (at == readers.end()) continue;
        for (const int r : at->second) {
          if (r != int(k)) waits[k].insert(r);
        }
      }
      for (const int r : waits[k]) frees[r].push_back(int(k));
    }
    std::set<int> ready, left;
    for (size_t k = 0; k < last.size(); ++k) {
      left.insert(int(k));
      if (waits[k].empty() && !cells[k].own) ready.insert(int(k));
    }
    const auto has_read = [&](int k) {
      for (const int w : frees[k]) {
        waits[w].erase(k);
        if (waits[w].empty() && left.count(w) > 0 && !cells[w].own) ready.insert(w);
      }
    };
    while (!left.empty()) {
      if (!ready.empty()) {
        const int k = *ready.begin();
        ready.erase(ready.begin());
        left.erase(k);
        out.push_back(last[k]);
        has_read(k);
        continue;
      }
      // A circle, or one that overwrites itself: the shortest that reads what others wait for.
      int shortest = -1;
      for (const int k : left) {
        if (cells[k].reads.empty()) continue;
        const bool helps = cells[k].own || !frees[k].empty();
        if (helps && (shortest < 0 || last[k].elements() < last[shortest].elements())) {
          shortest = k;
        }
      }
      if (shortest < 0 || !Stage(last[shortest], out)) return false;
      cells[shortest].own = false;
      cells[shortest].reads.clear();
      has_read(shortest);
      frees[shortest].clear();
      if (waits[shortest].empty()) ready.insert(shortest);
    }
    return int64_t(out.size()) <= most_;
  }

  /// Does the instruction into spare words, and makes it the copy from there.
  bool Stage(Instruction& i, std::vector<Instruction>& out) {
    const int64_t n = i.elements();
    for (const SpareWords& s : spare_.all()) {
      bool reaches = false;
      for (const Hop& h : HopsBetween(m_, from_.memory, s.memory)) {
        reaches = reaches || (h.unit == i.unit && h.op == i.op);
      }
      if (!reaches) continue;
      std::optional<Hop> copy;
      for (const Hop& h : HopsBetween(m_, s.memory, to_.memory)) {
        if (m_.units[h.unit].kind == UnitKind::kAlu) copy = h;
      }
      if (!copy || m_.memories[s.memory].level != m_.pe()) continue;
      const int64_t base = spare_.Take(s.memory, n);
      if (base < 0) continue;
      Stream dense;
      dense.memory = s.memory;
      dense.base = base;
      dense.stride = {i.count[1] * i.count[2], i.count[2], 1};
      Instruction early = i;
      early.target = dense;
      out.push_back(std::move(early));
      i.unit = copy->unit;
      i.op = copy->op;
      i.sources[0] = dense;
      return true;
    }
    return false;
  }

  const Machine& m_;
  const TensorAt &from_, &to_;
  By by_;
  SpareSpace spare_;
  int64_t most_;
  std::map<int, std::vector<std::vector<int>>> paths_by_top_;
  std::vector<std::vector<Leg>> chains_;
  std::map<std::vector<int64_t>, int64_t> ring_spare_;
  std::map<std::vector<int64_t>, std::pair<int, int64_t>> path_of_;
};

}  // namespace

std::optional<std::vector<Instruction>> MoveClasses(const Machine& machine, const TensorAt& from,
                                                    const TensorAt& to,
                                                    const std::vector<Box>& boxes, By by,
                                                    SpareSpace spare, int64_t most) {
  return Mover(machine, from, to, by, std::move(spare), most).Run(boxes);
}

}  // namespace hsimd
