/// timeline.cc: earliest starts by what was last done to each address.
#include "timeline.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "../l1/check.h"
#include "hop.h"

namespace hsimd {

namespace {

/// What the past says of an address: no read before `written`, no write before `free`.
struct Word {
  int64_t written = 0, free = 0;
};

struct MemoryState {
  int64_t low = 0;
  std::vector<Word> words;
  std::vector<uint16_t> reads, writes;  ///< by cycle
};

class Timeline {
 public:
  Timeline(const Machine& m, const std::vector<Instruction>& list)
      : machine_(m), memories_(m.memories.size()) {
    std::vector<int64_t> high(memories_.size(), INT64_MIN);
    for (const Instruction& i : list) {
      ForEach(i, [&](int64_t, int64_t source, int64_t target) {
        for (const auto& [memory, at] :
             {std::pair(i.sources[0].memory, source), std::pair(i.target.memory, target)}) {
          MemoryState& s = memories_[memory];
          s.low = high[memory] == INT64_MIN ? at : std::min(s.low, at);
          high[memory] = std::max(high[memory], at);
        }
        return true;
      });
    }
    // Lanes of a parent reach beyond the stream's own address.
    for (size_t k = 0; k < memories_.size(); ++k) {
      if (high[k] == INT64_MIN) continue;
      memories_[k].words.resize(high[k] - memories_[k].low + 1 + LastLane(machine_, int(k)));
    }
  }

  /// Elements in order until `body` says false.
  template <class Body>
  static void ForEach(const Instruction& i, const Body& body) {
    const Stream &s = i.sources[0], &t = i.target;
    int64_t k = 0;
    for (int64_t a = 0; a < i.count[0]; ++a) {
      for (int64_t b = 0; b < i.count[1]; ++b) {
        for (int64_t c = 0; c < i.count[2]; ++c, ++k) {
          if (!body(k, s.base + a * s.stride[0] + b * s.stride[1] + c * s.stride[2],
                    t.base + a * t.stride[0] + b * t.stride[1] + c * t.stride[2])) {
            return;
          }
        }
      }
    }
  }

  bool Add(Instruction i, std::vector<Instruction>& out) {
    if (!FitsItself(i)) {
      size_t k = 0;
      while (k < 3 && i.count[k] == 1) ++k;
      if (k == 3) return false;
      const int64_t n = i.count[k];
      i.count[k] = 1;
      for (int64_t d = 0; d < n; ++d) {
        if (!Add(i, out)) return false;
        i.sources[0].base += i.sources[0].stride[k];
        i.target.base += i.target.stride[k];
      }
      return true;
    }
    const Unit& unit = machine_.units[i.unit];
    const UnitOp& op = unit.ops[i.op];
    MemoryState& from = memories_[i.sources[0].memory];
    MemoryState& to = memories_[i.target.memory];
    const int64_t source_lanes = unit.kind == UnitKind::kDown ? Lanes(i) : 0;
    const int64_t target_lanes = unit.kind == UnitKind::kUp ? Lanes(i) : 0;
    int64_t& slot = slots_[unit.slot];
    int64_t start = slot;
    ForEach(i, [&](int64_t k, int64_t s, int64_t t) {
      const int64_t after = op.rate.StartOf(k);
      for (int64_t l = 0; l <= source_lanes; ++l) {
        start = std::max(start, from.words[s + l - from.low].written - after);
      }
      for (int64_t l = 0; l <= target_lanes; ++l) {
        const Word& w = to.words[t + l - to.low];
        start = std::max(start, std::max(w.written, w.free) - after);
      }
      return true;
    });
    while (!PortsFree(i, start)) ++start;
    i.start = start;
    ForEach(i, [&](int64_t k, int64_t s, int64_t t) {
      const int64_t cycle = start + op.rate.StartOf(k), end = cycle + op.latency;
      for (int64_t l = 0; l <= source_lanes; ++l) {
        Word& w = from.words[s + l - from.low];
        w.free = std::max(w.free, cycle + 1);
      }
      for (int64_t l = 0; l <= target_lanes; ++l) {
        Word& w = to.words[t + l - to.low];
        w.written = std::max(w.written, end);
      }
      Count(from.reads, cycle);
      Count(to.writes, end - 1);
      cycles_ = std::max(cycles_, end);
      return true;
    });
    slot = start + CyclesHeld(i, machine_);
    out.push_back(std::move(i));
    return true;
  }

  int64_t cycles() const { return cycles_; }

 private:
  static void Count(std::vector<uint16_t>& uses, int64_t cycle) {
    if (int64_t(uses.size()) <= cycle) uses.resize(cycle * 2 + 16, 0);
    ++uses[cycle];
  }
  static int64_t At(const std::vector<uint16_t>& uses, int64_t cycle) {
    return cycle < int64_t(uses.size()) ? uses[cycle] : 0;
  }

  /// Address of the last lane that the mask lets work (all between count as touched).
  int64_t Lanes(const Instruction& i) const {
    const UnitOp& op = machine_.units[i.unit].ops[i.op];
    int64_t last = 0, weight = 1;
    std::vector<int> levels = op.indexed;
    std::sort(levels.begin(), levels.end());
    for (size_t k = levels.size(); k-- > 0;) {
      const int64_t count = machine_.levels[levels[k]].count;
      int64_t highest = count - 1;
      while (highest > 0 && !i.mask.Has(levels[k], highest)) --highest;
      last += highest * weight;
      weight *= count;
    }
    return last;
  }

  bool Within(int memory, int64_t reads, int64_t writes) const {
    const Memory& mem = machine_.memories[memory];
    return (mem.reads == 0 || reads <= mem.reads) && (mem.writes == 0 || writes <= mem.writes) &&
           (mem.accesses == 0 || reads + writes <= mem.accesses);
  }

  /// Do the instruction's own elements keep apart?
  bool FitsItself(const Instruction& i) const {
    const UnitOp& op = machine_.units[i.unit].ops[i.op];
    const int from = i.sources[0].memory, to = i.target.memory;
    const int64_t at_once = (op.rate.elements - 1) / op.rate.cycles + 1;
    if (from != to && Within(from, at_once, 0) && Within(to, 0, at_once)) return true;
    bool fits = true;
    std::map<int64_t, int64_t> reads, writes;  // by cycle
    std::unordered_map<int64_t, int64_t> last_read, written;
    ForEach(i, [&](int64_t k, int64_t s, int64_t t) {
      const int64_t cycle = op.rate.StartOf(k);
      if (from == to) {
        const auto w = written.find(s);
        fits = fits && (w == written.end() || cycle >= w->second);
        const auto v = written.find(t);
        fits = fits && (v == written.end() || cycle >= v->second);
        const auto r = last_read.find(t);
        fits = fits && (r == last_read.end() || cycle > r->second);
        if (s != t) last_read[s] = cycle;
        written[t] = cycle + op.latency;
      }
      ++reads[cycle];
      ++writes[cycle + op.latency - 1];
      return fits;
    });
    if (!fits) return false;
    for (const auto& [cycle, n] : reads) {
      const auto w = writes.find(cycle);
      const int64_t both = from == to && w != writes.end() ? w->second : 0;
      if (!Within(from, n, both)) return false;
    }
    for (const auto& [cycle, n] : writes) {
      if (!Within(to, 0, n)) return false;
    }
    return true;
  }

  bool PortsFree(const Instruction& i, int64_t start) const {
    const UnitOp& op = machine_.units[i.unit].ops[i.op];
    const int from = i.sources[0].memory, to = i.target.memory;
    const auto limited = [&](int memory) {
      const Memory& mem = machine_.memories[memory];
      return mem.reads + mem.writes + mem.accesses > 0;
    };
    if (!limited(from) && !limited(to)) return true;
    std::map<int64_t, std::pair<int64_t, int64_t>> own_from, own_to;
    bool fits = true;
    ForEach(i, [&](int64_t k, int64_t, int64_t) {
      const int64_t cycle = start + op.rate.StartOf(k), end = cycle + op.latency - 1;
      ++own_from[cycle].first;
      ++(from == to ? own_from : own_to)[end].second;
      return true;
    });
    for (const auto& [memory, own] : {std::pair(from, &own_from), std::pair(to, &own_to)}) {
      const MemoryState& s = memories_[memory];
      for (const auto& [cycle, n] : *own) {
        fits = fits && Within(memory, n.first + At(s.reads, cycle), n.second + At(s.writes, cycle));
      }
    }
    return fits;
  }

  const Machine& machine_;
  std::vector<MemoryState> memories_;
  std::map<std::string, int64_t> slots_;
  int64_t cycles_ = 0;
};

}  // namespace

int64_t StartInOrder(const Machine& machine, std::vector<Instruction>& instructions) {
  Timeline timeline(machine, instructions);
  std::vector<Instruction> out;
  out.reserve(instructions.size());
  for (Instruction& i : instructions) {
    if (!timeline.Add(std::move(i), out)) return -1;
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Instruction& a, const Instruction& b) { return a.start < b.start; });
  instructions = std::move(out);
  return timeline.cycles();
}

}  // namespace hsimd
