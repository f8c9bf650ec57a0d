/// check.cc: what can be said of a program without executing it.
#include "check.h"

#include <algorithm>
#include <map>

#include "../machine/alu_ops.h"
#include "places.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace hsimd {
namespace {

bool Contains(const std::vector<int>& all, int one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

class Checker {
 public:
  Checker(const Program& program, const Machine& machine) : p_(program), m_(machine) {}

  void Check() {
    if (p_.machine != m_.name)
      weft::ThrowError(
          weft::ErrorCode::kInvalidModel,
          fmt::format("the program is for machine '{}', not '{}'", p_.machine, m_.name));
    CheckSegments();
    for (at_ = 0; at_ < int64_t(p_.instructions.size()); ++at_) {
      CheckShape();
      CheckPlaces();
      CheckOrder();
    }
  }

 private:
  const Instruction& now() const { return p_.instructions[size_t(at_)]; }
  [[noreturn]] void Fail(const std::string& what, const std::string& hint = {}) const {
    weft::ThrowError(weft::ErrorCode::kInvalidModel, what, NameOf(p_, at_, m_), hint);
  }

  void CheckSegments() const {
    std::vector<const Segment*> inputs;
    for (const Segment& s : p_.segments) {
      const std::string place = fmt::format("segment '{}'", s.name);
      const auto fail = [&](const std::string& what) {
        weft::ThrowError(weft::ErrorCode::kInvalidModel, what, place);
      };
      if (s.memory < 0 || s.memory >= int(m_.memories.size())) fail("its memory does not exist");
      const Memory& memory = m_.memories[size_t(s.memory)];
      if (!memory.off_chip) fail(fmt::format("{} is not off the chip", memory.name));
      if (s.base < 0 || s.words < 0 || s.base > memory.words - s.words)
        fail(fmt::format("{}[{}:{}] ends beyond its {} words", memory.name, s.base,
                         s.base + s.words, memory.words));
      if (!s.is_output && s.words > 0) inputs.push_back(&s);
    }
    std::sort(inputs.begin(), inputs.end(), [](const Segment* a, const Segment* b) {
      return std::tie(a->memory, a->base) < std::tie(b->memory, b->base);
    });
    for (size_t i = 1; i < inputs.size(); ++i) {
      const Segment &a = *inputs[i - 1], &b = *inputs[i];
      if (a.memory == b.memory && a.base + a.words > b.base)
        weft::ThrowError(weft::ErrorCode::kInvalidModel, fmt::format("overlaps input '{}'", a.name),
                         fmt::format("segment '{}'", b.name));
    }
  }

  /// Unit, operation, operands and counts are such as the rest may rely on.
  void CheckShape() {
    const Instruction& i = now();
    if (i.unit < 0 || i.unit >= int(m_.units.size()))
      weft::ThrowError(weft::ErrorCode::kInvalidModel, "its unit does not exist",
                       fmt::format("instruction {}", at_));
    const Unit& unit = m_.units[size_t(i.unit)];
    if (i.op < 0 || i.op >= int(unit.ops.size()))
      weft::ThrowError(weft::ErrorCode::kInvalidModel,
                       fmt::format("its operation of {} does not exist", unit.name),
                       fmt::format("instruction {}", at_));
    if (i.start < 0 || i.start > int64_t{1} << 50) Fail("its start cycle is out of range");
    int64_t elements = 1;
    for (const int64_t c : i.count) {
      if (c < 1) Fail("a count is less than 1");
      elements = weft::CheckedMul(elements, c);
    }
    if (elements > int64_t{1} << 40) Fail("it has more than 2^40 elements");
    CheckArity(unit);
    for (const Stream& s : i.sources) CheckStream(s, unit, false);
    CheckStream(i.target, unit, true);
  }

  void CheckArity(const Unit& unit) const {
    const Instruction& i = now();
    const auto n = int(i.sources.size());
    if (unit.kind == UnitKind::kAlu) {
      const AluOpInfo& info = InfoOf(*AluOpNamed(unit.ops[size_t(i.op)].name));
      if (n != info.arity)
        Fail(fmt::format("{} takes {} operands, got {}", info.name, info.arity, n));
    } else if (unit.kind == UnitKind::kMatrix) {
      if (n != 2 && n != 3)
        Fail(fmt::format("a matrix takes A, x and perhaps sums, got {} operands", n));
    } else if (n != 1) {
      Fail(fmt::format("a link takes one operand, got {}", n));
    }
  }

  void CheckStream(const Stream& s, const Unit& unit, bool is_target) const {
    const Instruction& i = now();
    if (s.memory < 0) {
      if (is_target || unit.kind != UnitKind::kAlu)
        Fail("an immediate can only be an operand of an ALU");
      return;
    }
    if (s.memory >= int(m_.memories.size())) Fail("a memory does not exist");
    const Memory& memory = m_.memories[size_t(s.memory)];
    int level = m_.pe();
    if (unit.child >= 0) level = unit.child;
    const bool at_parent = unit.kind == (is_target ? UnitKind::kUp : UnitKind::kDown);
    if (at_parent) level = unit.parent;
    const std::vector<int>& allowed = is_target ? unit.targets : unit.sources;
    if (memory.level != level || (!allowed.empty() && !Contains(allowed, s.memory)))
      Fail(fmt::format("{} cannot {} {}", unit.name, is_target ? "write" : "read", memory.name));
    auto [least, most] = AddressRange(s, i.count);
    if (at_parent) {
      // Only the words of places in the mask.
      const UnitOp& op = unit.ops[size_t(i.op)];
      int64_t first = 0, last = 0;
      for (const int l : op.indexed) {
        const int64_t count = m_.levels[size_t(l)].count;
        int64_t lowest = 0, highest = count - 1;
        while (lowest < count && !i.mask.Has(l, lowest)) ++lowest;
        while (highest > 0 && !i.mask.Has(l, highest)) --highest;
        first = first * count + std::min(lowest, highest);
        last = last * count + highest;
      }
      least = weft::CheckedAdd(least, first);
      most = weft::CheckedAdd(most, last);
    } else if (unit.kind == UnitKind::kMatrix && !is_target && &s == i.sources.data()) {
      most = weft::CheckedAdd(most, m_.levels.back().count - 1);
    }
    if (least < 0 || most >= memory.words)
      Fail(fmt::format("{} touches {}[{}] in its {}, which has words 0 to {}", unit.name,
                       memory.name, least < 0 ? least : most, is_target ? "target" : "operands",
                       memory.words - 1));
  }

  void CheckPlaces() const {
    const Instruction& i = now();
    if (i.mask.levels.empty()) return CheckWriters();
    if (i.mask.levels.size() != m_.levels.size())
      Fail(fmt::format("its mask has {} levels, the machine {}", i.mask.levels.size(),
                       m_.levels.size()));
    for (size_t l = 0; l < m_.levels.size(); ++l) {
      const std::vector<uint64_t>& bits = i.mask.levels[l];
      if (bits.empty()) continue;
      const int64_t count = m_.levels[l].count;
      if (int64_t(bits.size()) != (count + 63) / 64 ||
          (count % 64 != 0 && bits.back() >> (count % 64) != 0))
        Fail(fmt::format("its mask of level {} is not of {} places", m_.levels[l].name, count));
      if (std::all_of(bits.begin(), bits.end(), [](uint64_t w) { return w == 0; }))
        Fail(fmt::format("its mask chooses no place of level {}", m_.levels[l].name));
    }
    const Unit& unit = m_.units[size_t(i.unit)];
    if (unit.kind == UnitKind::kMatrix && Chosen(m_.pe()) != m_.levels.back().count)
      Fail(fmt::format("a matrix takes all places of level {} or none", m_.levels.back().name));
    CheckWriters();
  }
  int64_t Chosen(int level) const {
    int64_t chosen = 0;
    for (int64_t p = 0; p < m_.levels[size_t(level)].count; ++p) chosen += now().mask.Has(level, p);
    return chosen;
  }
  void CheckWriters() const {
    const Instruction& i = now();
    const Unit& unit = m_.units[size_t(i.unit)];
    const UnitOp& op = unit.ops[size_t(i.op)];
    if (unit.kind != UnitKind::kUp || !op.reduce.empty()) return;
    for (int l = unit.parent + 1; l <= unit.child; ++l) {
      if (!Contains(op.indexed, l) && Chosen(l) > 1)
        Fail(fmt::format("{} places of level {} write one word of their parent", Chosen(l),
                         m_.levels[size_t(l)].name),
             fmt::format("choose one, as in 'on {}=0'", m_.levels[size_t(l)].name));
    }
  }

  void CheckOrder() {
    const Instruction& i = now();
    if (at_ > 0 && i.start < p_.instructions[size_t(at_ - 1)].start)
      Fail(fmt::format("it starts before the instruction in front of it (@{})",
                       p_.instructions[size_t(at_ - 1)].start));
    const std::string& slot = m_.units[size_t(i.unit)].slot;
    const auto [last, is_new] = slots_.try_emplace(slot, at_);
    if (is_new) return;
    const Instruction& before = p_.instructions[size_t(last->second)];
    const int64_t end = before.start + CyclesHeld(before, m_);
    if (i.start < end)
      Fail(fmt::format("slot {} is held until cycle {} by {}", slot, end,
                       NameOf(p_, last->second, m_)));
    last->second = at_;
  }

  const Program& p_;
  const Machine& m_;
  int64_t at_ = 0;
  std::map<std::string, int64_t> slots_;  // the last instruction of each
};

}  // namespace

std::string NameOf(const Program& program, int64_t instruction, const Machine& machine) {
  const Instruction& i = program.instructions[size_t(instruction)];
  const Unit& unit = machine.units[size_t(i.unit)];
  return fmt::format("instruction {} (@{} {}.{})", instruction, i.start, unit.name,
                     unit.ops[size_t(i.op)].name);
}

int64_t CyclesHeld(const Instruction& instruction, const Machine& machine) {
  const Rate& rate = machine.units[size_t(instruction.unit)].ops[size_t(instruction.op)].rate;
  // ceil(elements / rate), without the product where it could overflow.
  const int64_t n = instruction.elements();
  return n / rate.elements * rate.cycles +
         (n % rate.elements * rate.cycles + rate.elements - 1) / rate.elements;
}

bool SameStream(const Stream& a, const Stream& b) {
  return a.memory == b.memory && a.base == b.base && a.stride == b.stride;
}

bool ReadBefore(const Instruction& instruction, UnitKind kind, size_t s) {
  for (size_t before = kind == UnitKind::kMatrix ? 1 : 0; before < s; ++before) {
    if (SameStream(instruction.sources[before], instruction.sources[s])) return true;
  }
  return false;
}

std::pair<int64_t, int64_t> AddressRange(const Stream& stream,
                                         const std::array<int64_t, 3>& count) {
  int64_t least = stream.base, most = stream.base;
  for (size_t d = 0; d < 3; ++d) {
    const int64_t reach = weft::CheckedMul(stream.stride[d], count[d] - 1);
    (reach < 0 ? least : most) = weft::CheckedAdd(reach < 0 ? least : most, reach);
  }
  return {least, most};
}

void CheckProgram(const Program& program, const Machine& machine) {
  Checker(program, machine).Check();
}

}  // namespace hsimd
