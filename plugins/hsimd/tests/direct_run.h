/// direct_run.h: executes l1 programs element by element, for tests of what emits them. Checks only
/// that words are read after they were written and that no word of a parent has two writers: an
/// oracle that shares with the simulator what single words become (machine/alu_ops.h), no more.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <queue>
#include <stdexcept>
#include <string>
#include <vector>

#include "../l1/program.h"
#include "../machine/alu_ops.h"

namespace hsimd {

class DirectRun {
 public:
  explicit DirectRun(const Machine& machine) : machine_(machine) {
    for (const Memory& m : machine.memories) words_.emplace_back(size_t(machine.PlacesOf(m.level)));
  }

  uint32_t& At(int memory, int64_t place, int64_t address) {
    auto& words = words_[size_t(memory)][size_t(place)];
    if (size_t(address) >= words.size()) words.resize(size_t(address) + 1, kNever);
    return words[size_t(address)];
  }
  float& Float(int memory, int64_t place, int64_t address) {
    return reinterpret_cast<float&>(At(memory, place, address));
  }

  void Run(const std::vector<Instruction>& instructions) {
    struct Event {
      int64_t time, element;
      size_t instruction;
    };
    std::vector<Event> events;
    for (size_t i = 0; i < instructions.size(); ++i) {
      const UnitOp& op = OpOf(instructions[i]);
      for (int64_t k = 0; k < instructions[i].elements(); ++k)
        events.push_back({instructions[i].start + op.rate.StartOf(k), k, i});
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const Event& a, const Event& b) { return a.time < b.time; });
    for (const Event& event : events) {
      Flush(event.time);
      Execute(instructions[event.instruction], event.element, event.time);
    }
    Flush(INT64_MAX);
  }
  int64_t cycles() const { return cycles_; }

 private:
  static constexpr uint32_t kNever = 0x7fa0dead;
  struct Write {
    int64_t time;
    int memory;
    int64_t place, address;
    uint32_t value;
    bool operator<(const Write& o) const { return time > o.time; }
  };
  const UnitOp& OpOf(const Instruction& i) const {
    return machine_.units[size_t(i.unit)].ops[size_t(i.op)];
  }
  void Flush(int64_t time) {
    while (!pending_.empty() && pending_.top().time <= time) {
      const Write w = pending_.top();
      pending_.pop();
      At(w.memory, w.place, w.address) = w.value;
      cycles_ = std::max(cycles_, w.time);
    }
  }
  static bool InMask(const Mask& mask, int level, int64_t p) {
    if (size_t(level) >= mask.levels.size() || mask.levels[size_t(level)].empty()) return true;
    return mask.levels[size_t(level)][size_t(p / 64)] >> (p % 64) & 1;
  }
  bool Works(const Mask& mask, int level, int64_t place) const {
    for (int l = level; l > 0; --l) {
      if (!InMask(mask, l, place % machine_.levels[size_t(l)].count)) return false;
      place /= machine_.levels[size_t(l)].count;
    }
    return true;
  }
  uint32_t Read(const Instruction& instruction, const Stream& s, int64_t place, int64_t address) {
    if (s.memory < 0) return s.immediate;
    const uint32_t v = At(s.memory, place, address);
    if (v == kNever)
      throw std::runtime_error("never written: " + machine_.memories[size_t(s.memory)].name + "[" +
                               std::to_string(address) + "] place " + std::to_string(place) + " " +
                               instruction.note);
    return v;
  }
  static float F(uint32_t b) {
    float f;
    std::memcpy(&f, &b, 4);
    return f;
  }
  static uint32_t B(float f) {
    uint32_t b;
    std::memcpy(&b, &f, 4);
    return b;
  }

  void Execute(const Instruction& in, int64_t element, int64_t time) {
    const Unit& unit = machine_.units[size_t(in.unit)];
    const UnitOp& op = OpOf(in);
    const int64_t at[3] = {element / in.count[2] / in.count[1], element / in.count[2] % in.count[1],
                           element % in.count[2]};
    const auto address = [&](const Stream& s) {
      return s.base + at[0] * s.stride[0] + at[1] * s.stride[1] + at[2] * s.stride[2];
    };
    const auto write = [&](int64_t place, int64_t a, uint32_t v) {
      pending_.push({time + op.latency, in.target.memory, place, a, v});
    };
    const int pe = machine_.pe();
    const int64_t pes = machine_.PlacesOf(pe), fan = machine_.levels.back().count;
    if (unit.kind == UnitKind::kAlu) {
      const AluOp alu = *AluOpNamed(op.name);
      for (int64_t p = 0; p < pes; ++p) {
        if (!Works(in.mask, pe, p)) continue;
        uint32_t v[3] = {};
        for (size_t s = 0; s < in.sources.size(); ++s)
          v[s] = Read(in, in.sources[s], p, address(in.sources[s]));
        write(p, address(in.target), ApplyAlu(alu, v[0], v[1], v[2]));
      }
    } else if (unit.kind == UnitKind::kMatrix) {
      for (int64_t p = 0; p < pes; ++p) {
        if (!Works(in.mask, pe, p)) continue;
        float sum =
            in.sources.size() == 3 ? F(Read(in, in.sources[2], p, address(in.sources[2]))) : 0;
        for (int64_t j = 0; j < fan; ++j) {
          const int64_t q = p / fan * fan + j;
          if (!Works(in.mask, pe, q)) continue;
          sum += F(Read(in, in.sources[0], p, address(in.sources[0]) + j)) *
                 F(Read(in, in.sources[1], q, address(in.sources[1])));
        }
        write(p, address(in.target), B(sum));
      }
    } else if (unit.kind == UnitKind::kRing) {
      const int64_t n = machine_.levels[size_t(unit.child)].count;
      for (int64_t p = 0; p < machine_.PlacesOf(unit.child); ++p)
        if (Works(in.mask, unit.child, p))
          write(p, address(in.target),
                Read(in, in.sources[0], p / n * n + ((p % n + op.shift) % n + n) % n,
                     address(in.sources[0])));
    } else {
      const int64_t parents = machine_.PlacesOf(unit.parent);
      const int64_t below = machine_.PlacesOf(unit.child) / parents;
      for (int64_t parent = 0; parent < parents; ++parent) {
        std::vector<std::pair<int64_t, uint32_t>> up;
        for (int64_t c = parent * below; c < (parent + 1) * below; ++c) {
          if (!Works(in.mask, unit.child, c)) continue;
          int64_t offset = 0, scale = 1, rest = c;
          for (int l = unit.child; l > unit.parent; --l) {
            const int64_t n = machine_.levels[size_t(l)].count;
            if (std::count(op.indexed.begin(), op.indexed.end(), l)) {
              offset += rest % n * scale;
              scale *= n;
            }
            rest /= n;
          }
          if (unit.kind == UnitKind::kDown) {
            write(c, address(in.target),
                  Read(in, in.sources[0], parent, address(in.sources[0]) + offset));
            continue;
          }
          const uint32_t v = Read(in, in.sources[0], c, address(in.sources[0]));
          auto it = std::find_if(up.begin(), up.end(), [&](auto& u) { return u.first == offset; });
          if (it == up.end()) {
            up.emplace_back(offset, v);
            continue;
          }
          if (op.reduce.empty()) throw std::runtime_error("two writers " + in.note);
          it->second = op.reduce == "sum"    ? B(F(it->second) + F(v))
                       : op.reduce == "max"  ? ApplyAlu(AluOp::kFMax, it->second, v)
                       : op.reduce == "min"  ? ApplyAlu(AluOp::kFMin, it->second, v)
                       : op.reduce == "isum" ? it->second + v
                       : op.reduce == "imax" ? ApplyAlu(AluOp::kIMax, it->second, v)
                                             : ApplyAlu(AluOp::kIMin, it->second, v);
        }
        for (const auto& [offset, v] : up) write(parent, address(in.target) + offset, v);
      }
    }
  }

  const Machine& machine_;
  std::vector<std::vector<std::vector<uint32_t>>> words_;
  std::priority_queue<Write> pending_;
  int64_t cycles_ = 0;
};

}  // namespace hsimd
