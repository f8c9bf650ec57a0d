/// body_plan.cc: memories and slots for the values of a body, in the order of its steps.
#include "body_plan.h"

#include <algorithm>
#include <limits>

#include "next_index.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

using Kind = BodyPlace::Kind;

/// A value of the body: an input, a sum so far, or the result of a step.
struct Value {
  std::vector<BodyPlace> places;
  std::vector<size_t> users;  ///< steps, ascending, once an operand
  size_t used = 0;            ///< how many of them ran
};

struct Operand {
  int value = -1;  ///< -1: an immediate
  uint32_t bits = 0;
};

struct Step {
  AluOp op;
  std::vector<Operand> operands;
  int value = -1;   ///< of the result; -1: it goes to a result alone
  int result = -1;  ///< index of the result it gives
};

class Planner {
 public:
  Planner(const Machine& machine, const RawVector& vector, const BodyPass& pass,
          const std::vector<int>& temp_memories)
      : machine_(machine), vector_(vector), pass_(pass), temp_memories_(temp_memories) {
    plan_.slots.assign(machine.memories.size(), 0);
    free_.resize(machine.memories.size());
  }

  std::optional<BodyPlan> Run(bool fuse, std::string* why) {
    Build(fuse);
    for (size_t s = 0; s < steps_.size(); ++s)
      if (!PlanStep(s)) {
        *why = why_;
        return std::nullopt;
      }
    return std::move(plan_);
  }

 private:
  int MemoryOf(const BodyPlace& place) const {
    switch (place.kind) {
      case Kind::kImmediate:
        return -1;
      case Kind::kInput:
        return vector_.inputs[size_t(place.index)].memory;
      case Kind::kTemp:
        return plan_.temps[size_t(place.index)].memory;
      case Kind::kTarget:
        return vector_.results[size_t(place.index)].target.memory;
      case Kind::kSum:
        return pass_.sum_memory;
    }
    return -1;
  }

  void Build(bool fuse) {
    for (size_t i = 0; i < vector_.inputs.size(); ++i)
      values_.push_back({{{Kind::kInput, int(i), 0}}, {}, 0});
    const int first_step = int(values_.size());
    values_.resize(values_.size() + vector_.steps.size());
    std::vector<int> uses(values_.size(), 0);
    const auto operand = [&](const BodyOperand& o) {
      if (o.kind == BodyOperand::Kind::kConstant) return Operand{-1, o.bits};
      return Operand{o.kind == BodyOperand::Kind::kInput ? o.index : first_step + o.index, 0};
    };
    const auto count = [&](const Operand& o) {
      if (o.value >= 0) ++uses[size_t(o.value)];
    };
    for (size_t s = 0; s < vector_.steps.size(); ++s) {
      Step step{vector_.steps[s].op, {}, first_step + int(s), -1};
      for (const BodyOperand& o : vector_.steps[s].operands) {
        step.operands.push_back(operand(o));
        count(step.operands.back());
      }
      steps_.push_back(std::move(step));
    }
    for (const RawVector::Result& result : vector_.results) count(operand(result.from));
    for (size_t r = 0; r < vector_.results.size(); ++r) {
      const RawVector::Result& result = vector_.results[r];
      const Operand from = operand(result.from);
      const bool own_step = from.value >= first_step && uses[size_t(from.value)] == 1;
      if (result.combine && pass_.from) {
        values_.push_back({{{*pass_.from, int(r), 0}}, {}, 0});
        const Operand sum{int(values_.size()) - 1, 0};
        if (own_step && fuse && result.combine == AluOp::kFAdd) {
          Step& step = steps_[size_t(from.value - first_step)];
          if (step.op == AluOp::kFMul && FindAluOp(machine_, AluOp::kFMulAdd)) {
            step.op = AluOp::kFMulAdd;
            step.operands.push_back(sum);
            step.value = -1;
            step.result = int(r);
            continue;
          }
        }
        steps_.push_back({*result.combine, {sum, from}, -1, int(r)});
      } else if (own_step) {
        Step& step = steps_[size_t(from.value - first_step)];
        step.value = -1;
        step.result = int(r);
      } else {
        steps_.push_back({AluOp::kCopy, {from}, -1, int(r)});
      }
    }
    for (size_t s = 0; s < steps_.size(); ++s)
      for (const Operand& o : steps_[s].operands)
        if (o.value >= 0) values_[size_t(o.value)].users.push_back(s);
  }

  /// Memories that operands at these places read; equal streams are one read.
  std::vector<int> ReadsOf(const std::vector<BodyPlace>& places) const {
    std::vector<int> reads;
    for (size_t i = 0; i < places.size(); ++i) {
      bool again = false;
      for (size_t j = 0; j < i; ++j)
        again |= places[j].kind == places[i].kind && places[j].index == places[i].index &&
                 places[i].kind != Kind::kImmediate;
      if (!again) reads.push_back(MemoryOf(places[i]));
    }
    return reads;
  }

  BodyPlace NewTemp(int memory) {
    int slot = 0;
    std::vector<int>& free = free_[size_t(memory)];
    if (free.empty()) {
      slot = plan_.slots[size_t(memory)]++;
    } else {
      slot = free.back();
      free.pop_back();
    }
    plan_.temps.push_back({memory, slot});
    return {Kind::kTemp, int(plan_.temps.size()) - 1, 0};
  }

  /// Which memory suits a value that `users` (from `s` on) read beside their other operands.
  int ChooseMemory(const std::vector<int>& reads, size_t s, const Value* value, int not_this = -1) {
    int best = -1;
    double best_cost = std::numeric_limits<double>::infinity();
    for (int m : temp_memories_) {
      if (m == not_this || !PortsAllow(machine_, reads, m)) continue;
      double cost = 1e-3 * plan_.slots[size_t(m)];
      if (value)
        for (size_t u : value->users) {
          if (u < s) continue;
          std::vector<int> at{m};
          for (const Operand& o : steps_[u].operands) {
            if (o.value < 0 || &values_[size_t(o.value)] == value) continue;
            const Value& other = values_[size_t(o.value)];
            if (!other.places.empty()) at.push_back(MemoryOf(other.places[0]));
          }
          int to = -1;
          if (steps_[u].result >= 0) to = MemoryOf({pass_.to, steps_[u].result, 0});
          if (!PortsAllow(machine_, at, -1)) cost += 1;
          if (to >= 0 && !PortsAllow(machine_, at, to)) cost += 0.9;
        }
      if (cost < best_cost) {
        best_cost = cost;
        best = m;
      }
    }
    return best;
  }

  bool Copy(int value, const std::vector<int>& others) {
    Value& v = values_[size_t(value)];
    for (int m : temp_memories_) {
      std::vector<int> reads = others;
      reads.push_back(m);
      if (!PortsAllow(machine_, reads, -1)) continue;
      for (const BodyPlace& from : std::vector<BodyPlace>(v.places)) {
        if (MemoryOf(from) == m || !PortsAllow(machine_, {MemoryOf(from)}, m)) continue;
        const BodyPlace temp = NewTemp(m);
        plan_.steps.push_back({AluOp::kCopy, {from}, temp});
        v.places.push_back(temp);
        return true;
      }
    }
    // No single copy makes room: any other memory, another operand follows.
    for (int m : temp_memories_) {
      const bool there = std::any_of(v.places.begin(), v.places.end(),
                                     [&](const BodyPlace& p) { return MemoryOf(p) == m; });
      if (there) continue;
      for (const BodyPlace& from : std::vector<BodyPlace>(v.places)) {
        if (!PortsAllow(machine_, {MemoryOf(from)}, m)) continue;
        const BodyPlace temp = NewTemp(m);
        plan_.steps.push_back({AluOp::kCopy, {from}, temp});
        v.places.push_back(temp);
        return true;
      }
    }
    return false;
  }

  /// Places for the operands of a step such that memories have the ports, copying what has to be.
  std::optional<std::vector<BodyPlace>> ChooseOperands(size_t s) {
    const Step& step = steps_[s];
    const int want = step.result >= 0 ? MemoryOf({pass_.to, step.result, 0}) : -1;
    for (int attempt = 0; attempt < 8; ++attempt) {
      std::optional<std::vector<BodyPlace>> best;
      std::vector<size_t> at(step.operands.size(), 0);
      std::vector<int64_t> choices;
      for (const Operand& o : step.operands)
        choices.push_back(o.value < 0 ? 1 : int64_t(values_[size_t(o.value)].places.size()));
      do {
        std::vector<BodyPlace> places;
        for (size_t i = 0; i < at.size(); ++i) {
          const Operand& o = step.operands[i];
          places.push_back(o.value < 0 ? BodyPlace{Kind::kImmediate, 0, o.bits}
                                       : values_[size_t(o.value)].places[at[i]]);
        }
        const std::vector<int> reads = ReadsOf(places);
        if (PortsAllow(machine_, reads, -1)) {
          if (PortsAllow(machine_, reads, want)) return places;
          if (!best) best = std::move(places);
        }
      } while (NextIndex(&at, choices));
      if (best) return best;
      // The operand whose memory is asked for most goes elsewhere.
      bool copied = false;
      for (size_t i = step.operands.size(); i-- > 0 && !copied;) {
        if (step.operands[i].value < 0) continue;
        std::vector<int> others;
        bool shared = false;
        const int mine = MemoryOf(values_[size_t(step.operands[i].value)].places[0]);
        for (size_t j = 0; j < step.operands.size(); ++j) {
          if (j == i || step.operands[j].value < 0 ||
              step.operands[j].value == step.operands[i].value)
            continue;
          others.push_back(MemoryOf(values_[size_t(step.operands[j].value)].places[0]));
          shared |= others.back() == mine;
        }
        if (!shared) continue;
        copied = Copy(step.operands[i].value, others);
      }
      if (!copied) break;
    }
    return std::nullopt;
  }

  bool PlanStep(size_t s) {
    const Step& step = steps_[s];
    const auto operands = ChooseOperands(s);
    if (!operands) {
      why_ = fmt::format("no memory of the PEs has the ports for {} with {} operands",
                         InfoOf(step.op).name, step.operands.size());
      return false;
    }
    const std::vector<int> reads = ReadsOf(*operands);
    for (const Operand& o : step.operands) {
      if (o.value < 0) continue;
      Value& value = values_[size_t(o.value)];
      if (++value.used < value.users.size()) continue;
      for (const BodyPlace& place : value.places)
        if (place.kind == Kind::kTemp) {
          const BodyPlan::Temp& temp = plan_.temps[size_t(place.index)];
          free_[size_t(temp.memory)].push_back(temp.slot);
        }
    }
    BodyPlace target{pass_.to, step.result, 0};
    const bool direct = step.result >= 0 && PortsAllow(machine_, reads, MemoryOf(target));
    if (direct) {
      plan_.steps.push_back({step.op, *operands, target});
      return true;
    }
    const Value* value = step.value >= 0 ? &values_[size_t(step.value)] : nullptr;
    const int memory = ChooseMemory(reads, s + 1, value, step.result >= 0 ? MemoryOf(target) : -1);
    if (memory < 0) {
      why_ = fmt::format("no scratch memory has a port for the result of {}", InfoOf(step.op).name);
      return false;
    }
    const BodyPlace temp = NewTemp(memory);
    plan_.steps.push_back({step.op, *operands, temp});
    if (step.value >= 0) {
      values_[size_t(step.value)].places = {temp};
      // A step that nothing reads keeps its slot to itself for one instruction.
      if (values_[size_t(step.value)].users.empty())
        free_[size_t(memory)].push_back(plan_.temps[size_t(temp.index)].slot);
      return true;
    }
    if (!PortsAllow(machine_, {memory}, MemoryOf(target))) {
      why_ = "no memory has the ports for a copy to where a result is wanted";
      return false;
    }
    plan_.steps.push_back({AluOp::kCopy, {temp}, target});
    free_[size_t(memory)].push_back(plan_.temps[size_t(temp.index)].slot);
    return true;
  }

  const Machine& machine_;
  const RawVector& vector_;
  const BodyPass& pass_;
  const std::vector<int>& temp_memories_;
  std::vector<Value> values_;
  std::vector<Step> steps_;
  std::vector<std::vector<int>> free_;  ///< slots, by memory
  BodyPlan plan_;
  std::string why_;
};

}  // namespace

std::optional<BodyPlan> PlanBody(const Machine& machine, const RawVector& vector,
                                 const BodyPass& pass, const std::vector<int>& temp_memories,
                                 std::string* why) {
  std::optional<BodyPlan> best;
  for (const bool fuse : {true, false}) {
    std::optional<BodyPlan> plan = Planner(machine, vector, pass, temp_memories).Run(fuse, why);
    if (plan && (!best || plan->steps.size() < best->steps.size())) best = std::move(plan);
  }
  return best;
}

void LegalizeSteps(const Machine& machine, RawVector& vector) {
  std::vector<BodyStep> steps;
  std::vector<BodyOperand> now(vector.steps.size());  // what stands for each old step
  const auto has = [&](AluOp op) { return FindAluOp(machine, op).has_value(); };
  const auto emit = [&](AluOp op, std::vector<BodyOperand> operands) {
    WEFT_CHECK(has(op), kUnsupported, "machine '{}' has no ALU operation {}", machine.name,
               InfoOf(op).name);
    steps.push_back({op, std::move(operands)});
    return BodyOperand::Step(int(steps.size()) - 1);
  };
  const auto renamed = [&](BodyOperand o) {
    return o.kind == BodyOperand::Kind::kStep ? now[size_t(o.index)] : o;
  };
  for (size_t s = 0; s < vector.steps.size(); ++s) {
    const BodyStep& step = vector.steps[s];
    std::vector<BodyOperand> o;
    for (const BodyOperand& operand : step.operands) o.push_back(renamed(operand));
    if (has(step.op)) {
      now[s] = emit(step.op, std::move(o));
      continue;
    }
    switch (step.op) {
      case AluOp::kFSub:
        now[s] = emit(AluOp::kFAdd, {o[0], emit(AluOp::kFNeg, {o[1]})});
        break;
      case AluOp::kFNeg:
        now[s] = emit(AluOp::kXor, {o[0], BodyOperand::Constant(0x80000000)});
        break;
      case AluOp::kFAbs:
        now[s] = emit(AluOp::kAnd, {o[0], BodyOperand::Constant(0x7fffffff)});
        break;
      case AluOp::kFMulAdd:
        now[s] = emit(AluOp::kFAdd, {emit(AluOp::kFMul, {o[0], o[1]}), o[2]});
        break;
      case AluOp::kIMulAdd:
        now[s] = emit(AluOp::kIAdd, {emit(AluOp::kIMul, {o[0], o[1]}), o[2]});
        break;
      case AluOp::kINeg:
        now[s] = emit(AluOp::kISub, {BodyOperand::Constant(0), o[0]});
        break;
      case AluOp::kFNotEqual:
        now[s] = emit(AluOp::kNot, {emit(AluOp::kFEqual, {o[0], o[1]})});
        break;
      case AluOp::kINotEqual:
        now[s] = emit(AluOp::kNot, {emit(AluOp::kIEqual, {o[0], o[1]})});
        break;
      case AluOp::kILessEqual:
        now[s] = emit(AluOp::kNot, {emit(AluOp::kILess, {o[1], o[0]})});
        break;
      case AluOp::kNot:
        now[s] = emit(AluOp::kXor, {o[0], BodyOperand::Constant(1)});
        break;
      default:
        now[s] = emit(step.op, std::move(o));  // throws
    }
  }
  vector.steps = std::move(steps);
  for (RawVector::Result& result : vector.results) {
    result.from = renamed(result.from);
    if (result.combine)
      WEFT_CHECK(has(*result.combine), kUnsupported, "machine '{}' has no ALU operation {}",
                 machine.name, InfoOf(*result.combine).name);
  }
  WEFT_CHECK(has(AluOp::kCopy), kUnsupported, "machine '{}' has no ALU operation copy",
             machine.name);
}

}  // namespace hsimd
