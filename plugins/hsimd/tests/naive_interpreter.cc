/// naive_interpreter.cc: see naive_interpreter.h.
#include "naive_interpreter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "../machine/alu_ops.h"

namespace hsimd {
namespace {

using Digits = std::vector<int64_t>;  // of a place, by level from 0 to its own

/// All places of a level.
std::vector<Digits> AllPlaces(const Machine& m, int level) {
  std::vector<Digits> places = {{0}};
  for (int l = 1; l <= level; ++l) {
    std::vector<Digits> next;
    for (const Digits& p : places) {
      for (int64_t d = 0; d < m.levels[size_t(l)].count; ++d) {
        next.push_back(p);
        next.back().push_back(d);
      }
    }
    places = next;
  }
  return places;
}
int64_t NumberOf(const Machine& m, const Digits& place) {
  int64_t number = 0;
  for (size_t l = 1; l < place.size(); ++l) number = number * m.levels[l].count + place[l];
  return number;
}
bool InMask(const Mask& mask, const Digits& place) {
  for (size_t l = 0; l < place.size(); ++l) {
    if (l < mask.levels.size() && !mask.levels[l].empty() &&
        !(mask.levels[l][size_t(place[l] / 64)] >> (place[l] % 64) & 1))
      return false;
  }
  return true;
}

float AsFloat(uint32_t w) {
  float f;
  std::memcpy(&f, &w, 4);
  return f;
}
uint32_t AsWord(float f) {
  uint32_t w;
  std::memcpy(&w, &f, 4);
  return std::isnan(f) ? 0x7fc00000U : w;
}

struct Touch {
  int64_t order;  // of its element among all, by issue, instruction, element
  int64_t issue, instruction, element;
  bool write;
  int64_t until;  // of writes: from when it can be read
};

struct Element {
  int64_t issue, instruction, element;
};

class Interpreter {
 public:
  Interpreter(const Program& p, const Machine& m) : p_(p), m_(m) {}

  NaiveRun Run(const std::map<std::pair<int, int64_t>, uint32_t>& initial) {
    for (const Segment& s : p_.segments) {
      if (s.is_output) continue;
      for (int64_t a = s.base; a < s.base + s.words; ++a) run_.words[{s.memory, 0, a}] = 0;
    }
    for (const auto& [where, word] : initial) run_.words[{where.first, 0, where.second}] = word;
    std::vector<Element> elements;
    for (size_t i = 0; i < p_.instructions.size(); ++i) {
      const Instruction& in = p_.instructions[i];
      const Rate& rate = m_.units[size_t(in.unit)].ops[size_t(in.op)].rate;
      const int64_t n = in.count[0] * in.count[1] * in.count[2];
      for (int64_t k = 0; k < n; ++k)
        elements.push_back({in.start + k * rate.cycles / rate.elements, int64_t(i), k});
    }
    std::stable_sort(elements.begin(), elements.end(), [](const Element& a, const Element& b) {
      return std::tie(a.issue, a.instruction, a.element) <
             std::tie(b.issue, b.instruction, b.element);
    });
    for (order_ = 0; order_ < int64_t(elements.size()); ++order_) {
      now_ = elements[size_t(order_)];
      Execute();
    }
    FindCollisions();
    return run_;
  }

 private:
  using Word = std::tuple<int, int64_t, int64_t>;

  int64_t AddressOf(const Stream& s) const {
    const Instruction& in = p_.instructions[size_t(now_.instruction)];
    int64_t k = now_.element, address = s.base;
    for (int d = 2; d >= 0; --d) {
      address += k % in.count[size_t(d)] * s.stride[size_t(d)];
      k /= in.count[size_t(d)];
    }
    return address;
  }

  void Report(const char* kind, int64_t cycle, const Word& w) {
    run_.hazards.push_back({kind, now_.issue, cycle, now_.instruction, now_.element, std::get<0>(w),
                            std::get<1>(w), std::get<2>(w)});
  }
  /// One port of one memory in one place; an element reads before it writes.
  void UsePort(int memory, int64_t place, int64_t address, bool write, int64_t cycle) {
    uses_[write].push_back({memory, place, address, cycle});
  }
  void CountPorts() {
    for (const bool write : {false, true}) {
      for (const auto& [memory, place, address, cycle] : uses_[write]) {
        auto& [reads, writes] = ports_[{memory, place, cycle}];
        ++(write ? writes : reads);
        const Memory& mem = m_.memories[size_t(memory)];
        const Word word{memory, place, address};
        if (mem.reads && reads > mem.reads) Report("read port", cycle, word);
        if (mem.writes && writes > mem.writes) Report("write port", cycle, word);
        if (mem.accesses && reads + writes > mem.accesses) Report("access", cycle, word);
      }
      uses_[write].clear();
    }
  }
  uint32_t Read(int memory, int64_t place, int64_t address) {
    const Word w{memory, place, address};
    touches_[w].push_back({order_, now_.issue, now_.instruction, now_.element, false, 0});
    const auto it = run_.words.find(w);
    if (it == run_.words.end()) {
      Report("never written", now_.issue, w);
      return 0;
    }
    return it->second;
  }
  void Write(int memory, int64_t place, int64_t address, uint32_t value) {
    touches_[{memory, place, address}].push_back(
        {order_, now_.issue, now_.instruction, now_.element, true, now_.issue + latency_});
    written_.push_back({{memory, place, address}, value});
  }

  void Execute() {
    const Instruction& in = p_.instructions[size_t(now_.instruction)];
    const Unit& unit = m_.units[size_t(in.unit)];
    const UnitOp& op = unit.ops[size_t(in.op)];
    latency_ = op.latency;
    run_.cycles = std::max(run_.cycles, now_.issue + latency_);
    written_.clear();
    const int64_t landing = now_.issue + latency_ - 1;
    const int64_t target = AddressOf(in.target);
    const int level = unit.child < 0 ? int(m_.levels.size()) - 1 : unit.child;
    // Parents whose memory was used once already by this element.
    std::set<int64_t> parents;
    std::map<Word, std::vector<uint32_t>> combined;
    for (const Digits& place : AllPlaces(m_, level)) {
      if (!InMask(in.mask, place)) continue;
      const int64_t number = NumberOf(m_, place);
      if (unit.kind == UnitKind::kAlu) {
        std::vector<uint32_t> operands(3, 0);
        for (size_t s = 0; s < in.sources.size(); ++s) {
          const Stream& from = in.sources[s];
          if (from.memory < 0) {
            operands[s] = from.immediate;
            continue;
          }
          operands[s] = Read(from.memory, number, AddressOf(from));
          bool again = false;
          for (size_t t = 0; t < s; ++t)
            again |= in.sources[t].memory == from.memory && in.sources[t].base == from.base &&
                     in.sources[t].stride == from.stride;
          if (!again) UsePort(from.memory, number, AddressOf(from), false, now_.issue);
        }
        Write(in.target.memory, number, target,
              ApplyAlu(*AluOpNamed(op.name), operands[0], operands[1], operands[2]));
        UsePort(in.target.memory, number, target, true, landing);
      } else if (unit.kind == UnitKind::kMatrix) {
        const int64_t n = m_.levels.back().count, group = number / n * n;
        const Stream &a = in.sources[0], &x = in.sources[1];
        float sum = 0;
        for (int64_t j = 0; j < n; ++j) {
          const float aj = AsFloat(Read(a.memory, number, AddressOf(a) + j));
          UsePort(a.memory, number, AddressOf(a), false, now_.issue);
          const float product = aj * AsFloat(Read(x.memory, group + j, AddressOf(x)));
          if (j == 0 && in.sources.size() == 3)
            sum = AsFloat(Read(in.sources[2].memory, number, AddressOf(in.sources[2])));
          sum = j == 0 && in.sources.size() == 2 ? product : sum + product;
        }
        UsePort(x.memory, number, AddressOf(x), false, now_.issue);
        if (in.sources.size() == 3) {
          const Stream& acc = in.sources[2];
          const bool again = acc.memory == x.memory && acc.base == x.base && acc.stride == x.stride;
          if (!again) UsePort(acc.memory, number, AddressOf(acc), false, now_.issue);
        }
        Write(in.target.memory, number, target, AsWord(sum));
        UsePort(in.target.memory, number, target, true, landing);
      } else if (unit.kind == UnitKind::kRing) {
        const int64_t count = m_.levels[size_t(level)].count;
        Digits from = place;
        from.back() = ((place.back() + op.shift) % count + count) % count;
        const int64_t source = AddressOf(in.sources[0]);
        Write(in.target.memory, number, target,
              Read(in.sources[0].memory, NumberOf(m_, from), source));
        UsePort(in.sources[0].memory, NumberOf(m_, from), source, false, now_.issue);
        UsePort(in.target.memory, number, target, true, landing);
      } else {
        const int64_t parent = NumberOf(m_, Digits(place.begin(), place.begin() + unit.parent + 1));
        int64_t behind = 0;
        for (const int l : op.indexed)
          behind = behind * m_.levels[size_t(l)].count + place[size_t(l)];
        const int64_t source = AddressOf(in.sources[0]);
        const bool first = parents.insert(parent).second;
        if (unit.kind == UnitKind::kDown) {
          Write(in.target.memory, number, target,
                Read(in.sources[0].memory, parent, source + behind));
          if (first) UsePort(in.sources[0].memory, parent, source, false, now_.issue);
          UsePort(in.target.memory, number, target, true, landing);
        } else {
          combined[{in.target.memory, parent, target + behind}].push_back(
              Read(in.sources[0].memory, number, source));
          UsePort(in.sources[0].memory, number, source, false, now_.issue);
          if (first) UsePort(in.target.memory, parent, target, true, landing);
        }
      }
    }
    for (const auto& [word, members] : combined) {
      uint32_t value = members[0];
      for (size_t k = 1; k < members.size(); ++k) value = Combine(op.reduce, value, members[k]);
      Write(std::get<0>(word), std::get<1>(word), std::get<2>(word), value);
    }
    for (const auto& [word, value] : written_) run_.words[word] = value;
    CountPorts();
  }
  static uint32_t Combine(const std::string& how, uint32_t a, uint32_t b) {
    if (how == "sum") return AsWord(AsFloat(a) + AsFloat(b));
    if (how == "isum") return a + b;
    if (how == "imax") return int32_t(a) > int32_t(b) ? a : b;
    if (how == "imin") return int32_t(a) < int32_t(b) ? a : b;
    if (std::isnan(AsFloat(a)) || std::isnan(AsFloat(b))) return 0x7fc00000U;
    if (how == "max") return AsFloat(b) > AsFloat(a) ? b : a;
    return AsFloat(b) < AsFloat(a) ? b : a;
  }

  void FindCollisions() {
    for (const auto& [word, touches] : touches_) {
      for (const Touch& w : touches) {
        if (!w.write) continue;
        for (const Touch& t : touches) {
          if (t.order == w.order || t.issue < w.issue || t.issue >= w.until) continue;
          const Touch& later = t.order > w.order ? t : w;
          now_ = {later.issue, later.instruction, later.element};
          Report("under way", later.issue, word);
        }
      }
    }
  }

  const Program& p_;
  const Machine& m_;
  NaiveRun run_;
  Element now_{};
  int64_t order_ = 0, latency_ = 1;
  std::map<Word, std::vector<Touch>> touches_;
  std::map<std::tuple<int, int64_t, int64_t>, std::pair<int, int>> ports_;
  std::vector<std::pair<Word, uint32_t>> written_;
  std::array<std::vector<std::tuple<int, int64_t, int64_t, int64_t>>, 2> uses_;  // reads, writes
};

}  // namespace

NaiveRun RunNaively(const Program& program, const Machine& machine,
                    const std::map<std::pair<int, int64_t>, uint32_t>& initial) {
  return Interpreter(program, machine).Run(initial);
}

}  // namespace hsimd
