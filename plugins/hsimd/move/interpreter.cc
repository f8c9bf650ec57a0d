/// interpreter.cc: see interpreter.h; written for plainness, not speed.
#include "interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace hsimd {

MoveInterpreter::MoveInterpreter(const Machine& m) : machine_(m) {
  for (const Memory& mem : m.memories) {
    int64_t places = 1;
    for (int l = 0; l <= mem.level; ++l) places *= m.levels[l].count;
    words_.emplace_back(places * mem.words, 0);
    written_.emplace_back(places * mem.words, false);
  }
}

size_t MoveInterpreter::Cell(int memory, int64_t place, int64_t word) const {
  return size_t(place * machine_.memories[memory].words + word);
}
int64_t& MoveInterpreter::At(int memory, int64_t place, int64_t word) {
  return words_[memory][Cell(memory, place, word)];
}

std::string MoveInterpreter::Expand(const Instruction& i, std::vector<Element>& out) {
  const Unit& unit = machine_.units[i.unit];
  const UnitOp& op = unit.ops[i.op];
  const bool down = unit.kind == UnitKind::kDown, up = unit.kind == UnitKind::kUp;
  const int works = down || up                     ? unit.child
                    : unit.kind == UnitKind::kRing ? unit.child
                                                   : machine_.pe();
  std::vector<std::vector<int64_t>> places{{}};
  for (int l = 0; l <= works; ++l) {
    std::vector<std::vector<int64_t>> next;
    for (const auto& p : places) {
      for (int64_t k = 0; k < machine_.levels[l].count; ++k) {
        const bool all = int(i.mask.levels.size()) <= l || i.mask.levels[l].empty();
        if (!all && (i.mask.levels[l][k / 64] >> (k % 64) & 1) == 0) continue;
        next.push_back(p);
        next.back().push_back(k);
      }
    }
    places = next;
  }
  std::vector<int> indexed = op.indexed;
  std::sort(indexed.begin(), indexed.end());
  int64_t n = 0;
  for (int64_t a = 0; a < i.count[0]; ++a) {
    for (int64_t b = 0; b < i.count[1]; ++b) {
      for (int64_t c = 0; c < i.count[2]; ++c, ++n) {
        Element e;
        e.issue = i.start + n * op.rate.cycles / op.rate.elements;
        e.end = e.issue + op.latency;
        std::set<size_t> targets;
        for (const auto& p : places) {
          int64_t lane = 0;
          for (const int l : indexed) lane = lane * machine_.levels[l].count + p[l];
          const auto access = [&](const Stream& s, bool parent, int64_t shift, Access& x) {
            const int level = parent ? unit.parent : works;
            int64_t place = 0;
            for (int l = 0; l <= level; ++l) {
              const int64_t count = machine_.levels[l].count;
              place =
                  place * count + (l == level ? ((p[l] + shift) % count + count) % count : p[l]);
            }
            const int64_t word =
                s.base + a * s.stride[0] + b * s.stride[1] + c * s.stride[2] + (parent ? lane : 0);
            if (machine_.memories[s.memory].level != level) return false;
            if (word < 0 || word >= machine_.memories[s.memory].words) return false;
            x = {Cell(s.memory, place, word), s.memory, place};
            return true;
          };
          Access target, source;
          const int64_t shift = unit.kind == UnitKind::kRing ? op.shift : 0;
          if (!access(i.target, up, 0, target) || !access(i.sources[0], down, shift, source)) {
            return fmt::format("out of range: {}.{}", unit.name, op.name);
          }
          if (!targets.insert(target.cell).second) return "two writers";
          e.moves.emplace_back(target, source);
        }
        out.push_back(std::move(e));
      }
    }
  }
  return {};
}

std::string MoveInterpreter::Run(const std::vector<Instruction>& list, int64_t* cycles) {
  std::vector<Element> elements;
  std::map<std::string, int64_t> slot_free;
  int64_t before = 0;
  for (const Instruction& i : list) {
    const Unit& unit = machine_.units[i.unit];
    const UnitOp& op = unit.ops[i.op];
    if (i.start < before) return "not by start";
    before = i.start;
    if (i.start < slot_free[unit.slot]) return "slot " + unit.slot;
    slot_free[unit.slot] =
        i.start + (i.elements() * op.rate.cycles + op.rate.elements - 1) / op.rate.elements;
    if (unit.kind == UnitKind::kAlu && op.name != "copy") return "not a move";
    const std::string why = Expand(i, elements);
    if (!why.empty()) return why;
  }
  std::stable_sort(elements.begin(), elements.end(),
                   [](const Element& a, const Element& b) { return a.issue < b.issue; });
  using Word = std::pair<int, size_t>;
  std::map<Word, std::pair<int64_t, int64_t>> under_way;  // until, value
  std::map<std::pair<int64_t, std::pair<int, int64_t>>, std::pair<int, int>> ports;
  *cycles = 0;
  for (size_t k = 0; k < elements.size();) {
    const int64_t now = elements[k].issue;
    size_t end = k;
    while (end < elements.size() && elements[end].issue == now) ++end;
    for (auto it = under_way.begin(); it != under_way.end();) {
      if (it->second.first <= now) {
        words_[it->first.first][it->first.second] = it->second.second;
        it = under_way.erase(it);
      } else {
        ++it;
      }
    }
    std::map<Word, size_t> reads, writes;  // of this cycle, by element
    std::vector<std::pair<Word, std::pair<int64_t, int64_t>>> started;
    for (size_t e = k; e < end; ++e) {
      std::map<std::pair<int, int64_t>, std::set<int64_t>> read_places, write_places;
      for (const auto& [target, source] : elements[e].moves) {
        const Word r{source.memory, source.cell}, w{target.memory, target.cell};
        if (under_way.count(r) > 0) return fmt::format("read under way, cycle {}", now);
        if (under_way.count(w) > 0) return fmt::format("write under way, cycle {}", now);
        const int64_t value = words_[r.first][r.second];
        if (value == 0) return fmt::format("never written, cycle {}", now);
        started.push_back({w, {elements[e].end, value}});
        reads[r] = reads.count(r) > 0 && reads[r] != e ? size_t(-1) : e;
        if (writes.count(w) > 0 && writes[w] != e) return "two writes at once";
        writes[w] = e;
        written_[w.first][w.second] = true;
        read_places[{source.memory, source.place}].insert(0);
        write_places[{target.memory, target.place}].insert(0);
      }
      for (const auto& [at, n] : read_places) ++ports[{now, at}].first;
      for (const auto& [at, n] : write_places) ++ports[{elements[e].end - 1, at}].second;
      *cycles = std::max(*cycles, elements[e].end);
    }
    for (const auto& [w, e] : writes) {
      const auto r = reads.find(w);
      if (r != reads.end() && r->second != e) return fmt::format("read as written, cycle {}", now);
    }
    for (const auto& s : started) under_way[s.first] = s.second;
    k = end;
  }
  for (const auto& [w, v] : under_way) words_[w.first][w.second] = v.second;
  for (const auto& [at, n] : ports) {
    const Memory& mem = machine_.memories[at.second.first];
    if ((mem.reads > 0 && n.first > mem.reads) || (mem.writes > 0 && n.second > mem.writes) ||
        (mem.accesses > 0 && n.first + n.second > mem.accesses)) {
      return fmt::format("port of {}, cycle {}", mem.name, at.first);
    }
  }
  return {};
}

}  // namespace hsimd
