/// hop.cc: boxes as instructions.
///
/// In the coordinates of an instruction an element of a box has an address of the source and one of
/// the target, where a link's address in the parent is counted from the place's own lane. A digit
/// that changes neither is parallel: it becomes places of the mask. One that changes addresses but
/// no place is a counter of the streams. One that changes both is written out, an instruction for
/// each of its values.
#include "hop.h"

#include <algorithm>
#include <map>

#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace hsimd {

namespace {

bool Reaches(const std::vector<int>& list, const Machine& m, int memory, int level) {
  if (m.memories[memory].level != level) return false;
  return list.empty() || std::find(list.begin(), list.end(), memory) != list.end();
}

/// A digit in the coordinates of the instruction.
struct Counter {
  int64_t size = 1;
  int64_t source = 0, target = 0;  ///< strides of the streams
  Coords place{};                  ///< of the places that work
};

struct Frame {
  int64_t source = 0, target = 0;
  Coords place{};
  std::vector<Counter> parallel, streams, written_out;
};

/// The box as the hop sees it; nullopt where the hop does not lead there.
std::optional<Frame> FrameOf(const Machine& m, const Hop& hop, const Coords& lanes,
                             const Box& box) {
  const Unit& unit = m.units[hop.unit];
  const UnitOp& op = unit.ops[hop.op];
  const bool down = unit.kind == UnitKind::kDown, up = unit.kind == UnitKind::kUp;
  // Levels on which source and target must agree.
  const int shared = down || up ? unit.parent : m.memories[hop.from].level;
  const auto see = [&](const Coords& from, const Coords& to, Counter& c) {
    c.source = from[kWord];
    c.target = to[kWord];
    c.place = up ? from : to;
    for (int k = 0; k < kMostLevels; ++k) {
      if (down) c.source -= lanes[k] * to[k];
      if (up) c.target -= lanes[k] * from[k];
    }
  };
  const auto agree = [&](const Coords& from, const Coords& to, bool base) {
    for (int k = 0; k <= shared; ++k) {
      if (unit.kind == UnitKind::kRing && k == shared && base) {
        if ((from[k] - to[k] - op.shift) % m.levels[k].count != 0) return false;
      } else if (from[k] != to[k]) {
        return false;
      }
    }
    return true;
  };
  Frame f;
  Counter base;
  if (!agree(box.from, box.to, true)) return std::nullopt;
  see(box.from, box.to, base);
  f.source = base.source;
  f.target = base.target;
  f.place = base.place;
  for (const Step& s : box.steps) {
    if (s.size == 1) continue;
    if (!agree(s.from, s.to, false)) return std::nullopt;
    Counter c;
    c.size = s.size;
    see(s.from, s.to, c);
    int changed = 0;
    for (int k = 0; k < kMostLevels; ++k) changed += c.place[k] != 0;
    if (changed == 0) {
      f.streams.push_back(c);
    } else if (changed == 1 && c.source == 0 && c.target == 0) {
      f.parallel.push_back(c);
    } else {
      f.written_out.push_back(c);
    }
  }
  // Streams run in the order of the parent's or, on one level, of the chip's addresses, so that the
  // next hop can follow closely.
  const bool by_source = !up;
  const bool same_level = (down || up) && unit.parent == unit.child;
  std::sort(f.streams.begin(), f.streams.end(), [&](const Counter& x, const Counter& y) {
    const bool source_first = same_level ? m.memories[hop.to].off_chip : by_source;
    if (source_first) return std::pair(x.source, x.target) > std::pair(y.source, y.target);
    return std::pair(x.target, x.source) > std::pair(y.target, y.source);
  });
  std::vector<Counter> merged;
  for (const Counter& c : f.streams) {
    if (!merged.empty() && merged.back().source == c.size * c.source &&
        merged.back().target == c.size * c.target) {
      merged.back().size *= c.size;
      merged.back().source = c.source;
      merged.back().target = c.target;
    } else {
      merged.push_back(c);
    }
  }
  while (merged.size() > 3) {  // three counters an instruction: the shortest are written out
    const auto least =
        std::min_element(merged.begin(), merged.end(),
                         [](const Counter& x, const Counter& y) { return x.size < y.size; });
    f.written_out.push_back(*least);
    merged.erase(least);
  }
  f.streams = std::move(merged);
  return f;
}

int64_t Product(const std::vector<Counter>& counters) {
  int64_t n = 1;
  for (const Counter& c : counters) n = weft::CheckedMul(n, c.size);
  return n;
}

/// Unions masks of equal instructions that differ on one level alone.
void MergeMasks(std::vector<Instruction>& list, const std::vector<bool>& may_join) {
  for (size_t level = 0; level < may_join.size(); ++level) {
    if (!may_join[level]) continue;
    std::map<std::vector<int64_t>, size_t> seen;
    std::vector<Instruction> out;
    for (Instruction& i : list) {
      std::vector<int64_t> key{i.target.base, i.sources[0].base};
      key.insert(key.end(), i.count.begin(), i.count.end());
      key.insert(key.end(), i.target.stride.begin(), i.target.stride.end());
      key.insert(key.end(), i.sources[0].stride.begin(), i.sources[0].stride.end());
      for (size_t k = 0; k < i.mask.levels.size(); ++k) {
        if (k == level) continue;
        key.push_back(int64_t(i.mask.levels[k].size()));
        for (const uint64_t w : i.mask.levels[k]) key.push_back(int64_t(w));
      }
      const auto [at, fresh] = seen.emplace(std::move(key), out.size());
      if (fresh) {
        out.push_back(std::move(i));
        continue;
      }
      auto& into = out[at->second].mask.levels[level];
      for (size_t w = 0; w < into.size(); ++w) into[w] |= i.mask.levels[level][w];
    }
    list = std::move(out);
  }
}

}  // namespace

Coords LaneWeights(const Machine& m, const UnitOp& op) {
  Coords w{};
  int64_t weight = 1;
  std::vector<int> levels = op.indexed;
  std::sort(levels.begin(), levels.end());
  for (size_t k = levels.size(); k-- > 0;) {
    w[levels[k]] = weight;
    weight *= m.levels[levels[k]].count;
  }
  return w;
}

int64_t LastLane(const Machine& m, int memory) {
  int64_t last = 0;
  for (const Unit& u : m.units) {
    if (u.parent != m.memories[memory].level) continue;  // -1 of all but links
    for (const UnitOp& op : u.ops) last = std::max(last, m.WordsAbove(op) - 1);
  }
  return last;
}

std::vector<Hop> HopsBetween(const Machine& m, int from, int to) {
  std::vector<Hop> hops;
  for (int u = 0; u < int(m.units.size()); ++u) {
    const Unit& unit = m.units[u];
    int source = 0, target = 0;
    switch (unit.kind) {
      case UnitKind::kAlu:
        source = target = m.pe();
        break;
      case UnitKind::kDown:
        source = unit.parent, target = unit.child;
        break;
      case UnitKind::kUp:
        source = unit.child, target = unit.parent;
        break;
      case UnitKind::kRing:
        source = target = unit.child;
        break;
      case UnitKind::kMatrix:
        continue;
    }
    if (!Reaches(unit.sources, m, from, source) || !Reaches(unit.targets, m, to, target)) continue;
    for (int o = 0; o < int(unit.ops.size()); ++o) {
      const UnitOp& op = unit.ops[o];
      if (unit.kind == UnitKind::kAlu && op.name != "copy") continue;
      if (!op.reduce.empty()) continue;
      hops.push_back({u, o, from, to});
    }
  }
  return hops;
}

std::vector<Hop> AllHops(const Machine& m) {
  std::vector<Hop> out;
  for (int from = 0; from < int(m.memories.size()); ++from) {
    for (int to = 0; to < int(m.memories.size()); ++to) {
      for (const Hop& h : HopsBetween(m, from, to)) out.push_back(h);
    }
  }
  return out;
}

std::optional<int64_t> HopCycles(const Machine& m, const Hop& hop, const std::vector<Box>& boxes) {
  const UnitOp& op = m.units[hop.unit].ops[hop.op];
  const Coords lanes = LaneWeights(m, op);
  int64_t cycles = 0;
  for (const Box& box : boxes) {
    const auto f = FrameOf(m, hop, lanes, box);
    if (!f) return std::nullopt;
    const int64_t each = op.rate.StartOf(Product(f->streams) - 1) + 1;
    cycles = weft::CheckedAdd(cycles, weft::CheckedMul(Product(f->written_out), each));
  }
  return cycles;
}

std::optional<std::pair<Hop, int64_t>> CheapestHop(const Machine& m, int from, int to,
                                                   const std::vector<Box>& boxes, bool rings) {
  std::optional<std::pair<Hop, int64_t>> best;
  for (const Hop& h : HopsBetween(m, from, to)) {
    if (!rings && m.units[h.unit].kind == UnitKind::kRing) continue;
    const auto cycles = HopCycles(m, h, boxes);
    if (cycles && (!best || *cycles < best->second)) best = {h, *cycles};
  }
  return best;
}

std::optional<std::vector<Instruction>> EmitHop(const Machine& m, const Hop& hop,
                                                const std::vector<Box>& boxes, int64_t most) {
  const Unit& unit = m.units[hop.unit];
  const UnitOp& op = unit.ops[hop.op];
  const Coords lanes = LaneWeights(m, op);
  const int works = unit.kind == UnitKind::kDown || unit.kind == UnitKind::kUp
                        ? unit.child
                        : m.memories[hop.from].level;
  std::vector<Instruction> out;
  for (const Box& box : boxes) {
    const auto f = FrameOf(m, hop, lanes, box);
    if (!f) return std::nullopt;
    const int64_t n = Product(f->written_out);
    if (n > most - int64_t(out.size())) return std::nullopt;
    for (int64_t v = 0; v < n; ++v) {
      Instruction i;
      i.unit = hop.unit;
      i.op = hop.op;
      Stream source, target;
      source.memory = hop.from;
      target.memory = hop.to;
      source.base = f->source;
      target.base = f->target;
      Coords place = f->place;
      int64_t rest = v;
      for (size_t k = f->written_out.size(); k-- > 0;) {
        const Counter& c = f->written_out[k];
        const int64_t d = rest % c.size;
        rest /= c.size;
        source.base += d * c.source;
        target.base += d * c.target;
        for (int l = 0; l < kMostLevels; ++l) place[l] += d * c.place[l];
      }
      for (size_t k = 0; k < f->streams.size(); ++k) {
        const size_t at = 3 - f->streams.size() + k;
        i.count[at] = f->streams[k].size;
        source.stride[at] = f->streams[k].source;
        target.stride[at] = f->streams[k].target;
      }
      i.mask.levels.resize(m.levels.size());
      for (int l = 0; l <= works; ++l) {
        std::vector<int64_t> set{place[l]};
        for (const Counter& c : f->parallel) {
          if (c.place[l] == 0) continue;
          const size_t before = set.size();
          for (int64_t d = 1; d < c.size; ++d) {
            for (size_t p = 0; p < before; ++p) set.push_back(set[p] + d * c.place[l]);
          }
        }
        auto& bits = i.mask.levels[l];
        bits.assign((m.levels[l].count + 63) / 64, 0);
        for (const int64_t p : set) bits[p / 64] |= uint64_t{1} << (p % 64);
      }
      i.sources.push_back(source);
      i.target = target;
      out.push_back(std::move(i));
    }
  }
  std::vector<bool> may_join(works + 1, true);
  for (int l = 0; l <= works; ++l) {
    may_join[l] = unit.kind != UnitKind::kUp || l <= unit.parent || lanes[l] > 0;
  }
  MergeMasks(out, may_join);
  for (Instruction& i : out) {  // all places of a level are an empty set
    bool all = true;
    for (int l = 0; l <= works; ++l) {
      auto& bits = i.mask.levels[l];
      int64_t n = 0;
      for (const uint64_t w : bits) n += __builtin_popcountll(w);
      if (n == m.levels[l].count) bits.clear();
      all = all && bits.empty();
    }
    if (all) i.mask.levels.clear();
  }
  return out;
}

}  // namespace hsimd
