/// random_program.cc: see random_program.h.
#include "random_program.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "../l1/check.h"
#include "../l1/simulator.h"
#include "../machine/alu_ops.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

constexpr int64_t kWords = 24;

class Maker {
 public:
  explicit Maker(std::mt19937* random) : random_(random) {}

  Machine MakeMachine() {
    Machine m;
    m.name = "random";
    m.levels.push_back({"L0", 1});
    int64_t places = 1;
    for (int l = 1, n = int(Pick(1, 3)); l <= n; ++l) {
      const int64_t count = Pick(2, std::max<int64_t>(2, std::min<int64_t>(8, 64 / places)));
      if (places * count > 64) break;
      places *= count;
      m.levels.push_back({"L" + std::to_string(l), count});
    }
    const auto memory = [&](const std::string& name, int level, int least_reads, bool off_chip) {
      Memory mem;
      mem.name = name;
      mem.level = level;
      mem.words = kWords * (level == m.pe() ? 1 : 8);
      mem.off_chip = off_chip;
      if (level == m.pe()) {
        if (Pick(0, 3) == 0)
          mem.accesses = int(Pick(least_reads, least_reads + 2));
        else
          mem.reads = int(Pick(least_reads, least_reads + 1)), mem.writes = int(Pick(1, 2));
      } else if (Pick(0, 2) == 0) {
        mem.reads = int(Pick(1, 2));
        mem.writes = int(Pick(1, 2));
      }
      m.memories.push_back(mem);
    };
    memory("D", 0, 1, true);
    for (int l = 0; l < m.pe(); ++l) memory("M" + std::to_string(l), l, 1, false);
    for (int k = 0, n = int(Pick(1, 3)); k < n; ++k)
      memory("R" + std::to_string(k), m.pe(), int(Pick(1, 3)), false);
    memory("A", m.pe(), int(m.levels.back().count), false);
    MakeUnits(&m);
    return m;
  }

  Instruction MakeInstruction(const Machine& m) {
    for (;;) {
      Instruction i;
      i.unit = int(Pick(0, int64_t(m.units.size()) - 1));
      const Unit& unit = m.units[size_t(i.unit)];
      i.op = int(Pick(0, int64_t(unit.ops.size()) - 1));
      i.start = Pick(0, 3);
      for (int d = 2; d >= 0; --d) {
        if (Pick(0, 2) > 0) i.count[size_t(d)] = Pick(1, d == 2 ? 5 : 3);
      }
      if (Pick(0, 1) == 0) i.mask = MakeMask(m, unit);
      int arity = 1;
      if (unit.kind == UnitKind::kAlu)
        arity = InfoOf(*AluOpNamed(unit.ops[size_t(i.op)].name)).arity;
      if (unit.kind == UnitKind::kMatrix) arity = int(Pick(2, 3));
      for (int s = 0; s < arity; ++s) {
        if (unit.kind == UnitKind::kAlu && Pick(0, 4) == 0) {
          Stream immediate;
          immediate.immediate = AnyWord();
          i.sources.push_back(immediate);
        } else if (s > 0 && Pick(0, 5) == 0) {
          i.sources.push_back(i.sources.back());
        } else {
          i.sources.push_back(MakeStream(m, unit, i, false, s));
        }
      }
      i.target = MakeStream(m, unit, i, true, 0);
      Program alone{m.name, {}, {i}};
      try {
        CheckProgram(alone, m);
        return i;
      } catch (const weft::UserError&) {
        // Out of range, an operand that the unit does not take: try again.
      }
    }
  }

  uint32_t AnyWord() {
    const uint32_t r = (*random_)();
    if (r % 3 == 0) return r >> 8 & 15;
    if (r % 3 == 1) return (*random_)();
    const float f = float(int32_t(r)) / float(1 << 28);
    uint32_t w;
    std::memcpy(&w, &f, 4);
    return w;
  }

 private:
  int64_t Pick(int64_t least, int64_t most) {
    return least + int64_t((*random_)() % uint64_t(most - least + 1));
  }

  UnitOp MakeOp(const std::string& name) {
    UnitOp op;
    op.name = name;
    op.latency = Pick(1, 8);
    const int64_t kind = Pick(0, 5);
    if (kind == 0) op.rate = {Pick(2, 4), 1};
    if (kind == 1) op.rate = {1, Pick(2, 3)};
    if (kind == 2) op.rate = {3, 2};
    return op;
  }

  void MakeUnits(Machine* m) {
    const int slots = int(Pick(1, 6));
    const auto unit = [&](const std::string& name, UnitKind kind, int parent, int child) {
      Unit u;
      u.name = name;
      u.kind = kind;
      u.slot = "S" + std::to_string(Pick(1, slots));
      u.parent = parent;
      u.child = child;
      m->units.push_back(u);
      return &m->units.back();
    };
    Unit* alu = unit("ALU", UnitKind::kAlu, -1, -1);
    for (const AluOpInfo& info : AluOps()) {
      if (Pick(0, 3) == 0 || info.op == AluOp::kCopy) alu->ops.push_back(MakeOp(info.name));
      if (info.op == AluOp::kCopy) alu->ops.back().rate = {1, 1};
    }
    unit("MAT", UnitKind::kMatrix, -1, -1)->ops.push_back(MakeOp("mul"));
    for (int parent = 0; parent < m->pe(); ++parent) {
      const int child = int(Pick(parent + 1, m->pe()));
      MakeLinks(unit("DOWN" + std::to_string(parent), UnitKind::kDown, parent, child));
      MakeLinks(unit("UP" + std::to_string(parent), UnitKind::kUp, parent, child));
    }
    // The last level is always reached.
    MakeLinks(unit("DOWN", UnitKind::kDown, 0, m->pe()));
    MakeLinks(unit("LOAD", UnitKind::kDown, 0, 0));
    MakeLinks(unit("STORE", UnitKind::kUp, 0, 0));
    for (int level = 1; level <= m->pe(); ++level) {
      Unit* ring = unit("RING" + std::to_string(level), UnitKind::kRing, -1, level);
      for (const int shift : {1, -1}) {
        ring->ops.push_back(MakeOp(shift > 0 ? "left" : "right"));
        ring->ops.back().shift = shift;
      }
    }
  }
  void MakeLinks(Unit* u) {
    // Every subset of the levels between, in one operation each.
    const int between = u->child - u->parent;
    for (int subset = 0; subset < 1 << between; ++subset) {
      UnitOp op = MakeOp("op" + std::to_string(subset));
      for (int b = 0; b < between; ++b) {
        if (subset >> b & 1) op.indexed.push_back(u->parent + 1 + b);
      }
      const bool all = int(op.indexed.size()) == between;
      u->ops.push_back(op);
      if (u->kind != UnitKind::kUp || all) continue;
      for (const char* how : {"sum", "max", "min", "isum", "imax", "imin"}) {
        UnitOp reduce = MakeOp(op.name + how);
        reduce.indexed = op.indexed;
        reduce.reduce = how;
        u->ops.push_back(reduce);
      }
    }
  }

  Mask MakeMask(const Machine& m, const Unit& unit) {
    Mask mask;
    mask.levels.resize(m.levels.size());
    for (size_t l = 1; l < m.levels.size(); ++l) {
      if (Pick(0, 1) == 0 || (unit.kind == UnitKind::kMatrix && int(l) == m.pe())) continue;
      const uint64_t full = (uint64_t{1} << m.levels[l].count) - 1;
      uint64_t bits = (*random_)() & full;
      if (Pick(0, 1) == 0) bits = uint64_t{1} << Pick(0, m.levels[l].count - 1);
      if (bits) mask.levels[l] = {bits};
    }
    const auto whole = [](const std::vector<uint64_t>& l) { return l.empty(); };
    if (std::all_of(mask.levels.begin(), mask.levels.end(), whole)) mask.levels.clear();
    return mask;
  }

  Stream MakeStream(const Machine& m, const Unit& unit, const Instruction& i, bool is_target,
                    int s) {
    int level = unit.child < 0 ? m.pe() : unit.child;
    if (unit.kind == (is_target ? UnitKind::kUp : UnitKind::kDown)) level = unit.parent;
    std::vector<int> fitting;
    for (size_t k = 0; k < m.memories.size(); ++k) {
      if (m.memories[k].level == level) fitting.push_back(int(k));
    }
    Stream stream;
    stream.memory = fitting[size_t(Pick(0, int64_t(fitting.size()) - 1))];
    if (unit.kind == UnitKind::kMatrix && !is_target && s == 0) stream.memory = m.MemoryNamed("A");
    stream.base = Pick(0, Pick(0, 1) == 0 ? 3 : kWords / 2);
    for (size_t d = 0; d < 3; ++d) {
      if (i.count[d] > 1)
        stream.stride[d] = Pick(is_target ? 1 : 0, 3) * (Pick(0, 6) == 0 ? -1 : 1);
    }
    return stream;
  }

  std::mt19937* random_;
};

}  // namespace

Machine RandomMachine(std::mt19937* random) { return Maker(random).MakeMachine(); }

Instruction RandomInstruction(const Machine& machine, std::mt19937* random) {
  return Maker(random).MakeInstruction(machine);
}

std::map<std::pair<int, int64_t>, uint32_t> RandomWords(const Program& program,
                                                        std::mt19937* random) {
  Maker maker(random);
  std::map<std::pair<int, int64_t>, uint32_t> words;
  for (const Segment& s : program.segments) {
    for (int64_t a = s.base; !s.is_output && a < s.base + s.words; ++a)
      words[{s.memory, a}] = maker.AnyWord();
  }
  return words;
}

Program RandomProgram(const Machine& machine, int n, std::mt19937* random) {
  Program p;
  p.machine = machine.name;
  for (size_t k = 0; k < machine.memories.size(); ++k) {
    const Memory& m = machine.memories[k];
    if (!m.off_chip) continue;
    p.segments.push_back({"in_" + m.name, int(k), 0, m.words / 2, false});
    p.segments.push_back({"out_" + m.name, int(k), 0, m.words, true});
  }
  // Words to work with: the same in all places first, then some of each place's own.
  const auto add = [&](Instruction i) {
    i.start = PredictCycles(p, machine);
    for (const Instruction& before : p.instructions)
      i.start = std::max(i.start, before.start + CyclesHeld(before, machine));
    p.instructions.push_back(std::move(i));
    if (Simulator(machine, p).TryRun()) p.instructions.pop_back();
  };
  const auto link = [&](const char* unit, int target, int64_t base) {
    Instruction i;
    i.unit = machine.UnitNamed(unit);
    i.op = int(machine.units[size_t(i.unit)].ops.size()) - 1;
    i.sources = {{machine.MemoryNamed("D"), base * 5}};
    i.target = {target, base};
    add(i);
  };
  for (int k = 0; k < int(machine.memories.size()); ++k) {
    if (machine.memories[size_t(k)].level == machine.pe()) {
      Instruction fill;
      fill.unit = machine.UnitNamed("ALU");
      fill.count[2] = kWords;
      fill.sources = {{-1, 0, {}, 0x3f800000U + uint32_t((*random)() & 0xffffff)}};
      fill.target = {k, 0, {0, 0, 1}};
      add(fill);
      for (int64_t w = 0; w < 4; ++w) link("DOWN", k, w);
    } else if (machine.memories[size_t(k)].level == 0 && !machine.memories[size_t(k)].off_chip) {
      for (int64_t w = 0; w < 8; ++w) link("LOAD", k, w);
    }
  }
  n += int(p.instructions.size());
  for (int tries = 0; tries < 4 * n && int(p.instructions.size()) < n; ++tries) {
    Instruction next = RandomInstruction(machine, random);
    const int64_t last = p.instructions.empty() ? 0 : p.instructions.back().start;
    // Early, and later again and again until nothing collides.
    next.start = last + int64_t((*random)() % 3);
    for (int delay = 0; delay < 12; ++delay) {
      p.instructions.push_back(next);
      bool fits = true;
      try {
        CheckProgram(p, machine);
      } catch (const weft::UserError&) {
        fits = false;
      }
      if (fits) {
        const std::optional<Hazard> hazard = Simulator(machine, p).TryRun();
        if (!hazard) break;
        if (hazard->kind == HazardKind::kNeverWritten) delay = 12;
      }
      p.instructions.pop_back();
      next.start += 1 + int64_t((*random)() % 3);
    }
  }
  return p;
}

}  // namespace hsimd
