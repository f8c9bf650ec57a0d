/// overlap.cc: two sweeps over time, one for ranges of addresses, one for ports.
#include "overlap.h"

#include <algorithm>
#include <limits>

#include "check.h"

namespace hsimd {
namespace {

struct Range {
  int memory;
  int64_t first, end;
  bool Meets(const Range& o) const { return memory == o.memory && first < o.end && o.first < end; }
};

/// A use of a memory's ports in every cycle of [first, end), at most.
struct PortSpan {
  int64_t first, end;
  int64_t reads, writes;
  size_t instruction;
};

class Finder {
 public:
  Finder(const Program& p, const Machine& m) : p_(p), m_(m) {
    found_.words.assign(p.instructions.size(), 0);
    found_.ports.assign(p.instructions.size(), 0);
  }

  Overlaps Find() {
    FindWords();
    std::vector<std::vector<PortSpan>> spans(m_.memories.size());
    for (size_t k = 0; k < p_.instructions.size(); ++k) AddSpans(k, &spans);
    for (size_t memory = 0; memory < spans.size(); ++memory)
      FindPorts(m_.memories[memory], &spans[memory]);
    return std::move(found_);
  }

 private:
  const UnitOp& OpOf(const Instruction& i) const {
    return m_.units[size_t(i.unit)].ops[size_t(i.op)];
  }
  int64_t LastIssue(const Instruction& i) const {
    return i.start + OpOf(i).rate.StartOf(i.elements() - 1);
  }

  struct Running {
    size_t instruction;
    int64_t end;  // nothing of it is under way from here on
    Range target;
    std::vector<Range> sources;
  };

  void FindWords() {
    std::vector<Running> running;
    for (size_t k = 0; k < p_.instructions.size(); ++k) {
      const Instruction& i = p_.instructions[k];
      const auto past = [&](const Running& r) { return r.end <= i.start; };
      running.erase(std::remove_if(running.begin(), running.end(), past), running.end());
      Running now{k, LastIssue(i) + OpOf(i).latency, RangeOf(i, 0), {}};
      for (size_t s = 0; s < i.sources.size(); ++s) {
        if (i.sources[s].memory >= 0) now.sources.push_back(RangeOf(i, int(1 + s)));
      }
      if (MeetsItself(i, now)) found_.words[k] = Overlaps::kOwn;
      for (const Running& other : running) {
        bool meets = now.target.Meets(other.target);
        for (const Range& r : now.sources) meets |= r.Meets(other.target);
        for (const Range& r : other.sources) meets |= r.Meets(now.target);
        if (!meets) continue;
        found_.words[k] |= Overlaps::kOther;
        found_.words[other.instruction] |= Overlaps::kOther;
      }
      running.push_back(std::move(now));
    }
  }
  Range RangeOf(const Instruction& i, int operand) const {
    const auto [first, end] = WordsOf(i, operand, m_);
    return {operand == 0 ? i.target.memory : i.sources[size_t(operand - 1)].memory, first, end};
  }
  /// False where every element writes words of its own and reads none that another one writes.
  bool MeetsItself(const Instruction& i, const Running& now) const {
    if (i.elements() == 1) return false;
    const Unit& unit = m_.units[size_t(i.unit)];
    // Counters from the smallest step on: each must step over all that those before it reach.
    const int64_t width = unit.kind == UnitKind::kUp ? m_.WordsAbove(OpOf(i)) : 1;
    std::vector<std::pair<int64_t, int64_t>> steps;
    for (size_t d = 0; d < 3; ++d) {
      if (i.count[d] > 1) steps.emplace_back(std::abs(i.target.stride[d]), i.count[d]);
    }
    std::sort(steps.begin(), steps.end());
    int64_t reach = width;
    for (const auto& [step, count] : steps) {
      if (step < reach) return true;
      reach += step * (count - 1);
    }
    for (size_t s = 0; s < i.sources.size(); ++s) {
      const Stream& source = i.sources[s];
      if (source.memory < 0 || source.memory != i.target.memory) continue;
      // In place: an element reads what it writes, alone.
      const bool row = unit.kind == UnitKind::kAlu || unit.kind == UnitKind::kRing ||
                       (unit.kind == UnitKind::kMatrix && s > 0);
      const bool in_place = row && SameStream(source, i.target);
      const Range range = RangeOf(i, int(1 + s));
      if (!in_place && range.Meets(now.target)) return true;
    }
    return false;
  }

  void AddSpans(size_t k, std::vector<std::vector<PortSpan>>* spans) const {
    const Instruction& i = p_.instructions[k];
    const UnitOp& op = OpOf(i);
    const Unit& unit = m_.units[size_t(i.unit)];
    const int64_t a_cycle =
        std::min((op.rate.elements + op.rate.cycles - 1) / op.rate.cycles, i.elements());
    const int64_t last = LastIssue(i);
    for (size_t s = 0; s < i.sources.size(); ++s) {
      if (i.sources[s].memory < 0 || ReadBefore(i, unit.kind, s)) continue;
      const bool is_a = unit.kind == UnitKind::kMatrix && s == 0;
      const int64_t words = is_a ? m_.levels.back().count : 1;
      (*spans)[size_t(i.sources[s].memory)].push_back({i.start, last + 1, a_cycle * words, 0, k});
    }
    const int64_t shift = op.latency - 1;
    (*spans)[size_t(i.target.memory)].push_back({i.start + shift, last + shift + 1, 0, a_cycle, k});
  }

  void FindPorts(const Memory& memory, std::vector<PortSpan>* spans) {
    if (!memory.reads && !memory.writes && !memory.accesses) return;
    const auto most = [](int ports) {
      return ports ? int64_t(ports) : std::numeric_limits<int64_t>::max();
    };
    std::sort(spans->begin(), spans->end(),
              [](const PortSpan& a, const PortSpan& b) { return a.first < b.first; });
    std::vector<const PortSpan*> open;
    for (const PortSpan& span : *spans) {
      const auto past = [&](const PortSpan* o) { return o->end <= span.first; };
      open.erase(std::remove_if(open.begin(), open.end(), past), open.end());
      open.push_back(&span);
      int64_t reads = 0, writes = 0;
      for (const PortSpan* o : open) {
        reads += o->reads;
        writes += o->writes;
      }
      if (reads <= most(memory.reads) && writes <= most(memory.writes) &&
          reads + writes <= most(memory.accesses))
        continue;
      for (const PortSpan* o : open) found_.ports[o->instruction] = 1;
    }
  }

  const Program& p_;
  const Machine& m_;
  Overlaps found_;
};

}  // namespace

std::pair<int64_t, int64_t> WordsOf(const Instruction& i, int operand, const Machine& machine) {
  const Unit& unit = machine.units[size_t(i.unit)];
  const Stream& s = operand == 0 ? i.target : i.sources[size_t(operand - 1)];
  auto [least, most] = AddressRange(s, i.count);
  if (unit.kind == (operand == 0 ? UnitKind::kUp : UnitKind::kDown))
    most += machine.WordsAbove(unit.ops[size_t(i.op)]) - 1;
  if (unit.kind == UnitKind::kMatrix && operand == 1) most += machine.levels.back().count - 1;
  return {least, most + 1};
}

Overlaps FindOverlaps(const Program& program, const Machine& machine) {
  return Finder(program, machine).Find();
}

}  // namespace hsimd
