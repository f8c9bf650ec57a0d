/// placer.cc: a scoreboard of words, ports and slots.
#include "placer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "../l1/check.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

int64_t AddressOf(const Stream& stream, const std::array<int64_t, 3>& at) {
  return stream.base + at[0] * stream.stride[0] + at[1] * stream.stride[1] +
         at[2] * stream.stride[2];
}

}  // namespace

Placer::Placer(const Machine& machine) : machine_(machine), memories_(machine.memories.size()) {
  std::vector<std::string> slots;
  for (const Unit& unit : machine.units) {
    const auto it = std::find(slots.begin(), slots.end(), unit.slot);
    slot_of_unit_.push_back(int(it - slots.begin()));
    if (it == slots.end()) slots.push_back(unit.slot);
  }
  busy_.resize(slots.size());
}

void Placer::Collect(const Instruction& instruction) {
  const Unit& unit = machine_.units[size_t(instruction.unit)];
  const UnitOp& op = unit.ops[size_t(instruction.op)];
  const bool down = unit.kind == UnitKind::kDown, up = unit.kind == UnitKind::kUp;
  const int64_t parent_words = down || up ? machine_.WordsAbove(op) : 1;
  const int64_t fan = machine_.levels.back().count;
  uses_.clear();
  port_reads_.clear();
  port_writes_.clear();
  int64_t k = 0;
  std::array<int64_t, 3> at{};
  for (at[0] = 0; at[0] < instruction.count[0]; ++at[0])
    for (at[1] = 0; at[1] < instruction.count[1]; ++at[1])
      for (at[2] = 0; at[2] < instruction.count[2]; ++at[2], ++k) {
        const int64_t time = op.rate.StartOf(k);
        for (size_t s = 0; s < instruction.sources.size(); ++s) {
          const Stream& source = instruction.sources[s];
          if (source.memory < 0) continue;
          const int64_t first = AddressOf(source, at);
          const bool block = unit.kind == UnitKind::kMatrix && s == 0;
          const int64_t words = block ? fan : down ? parent_words : 1;
          for (int64_t w = 0; w < words; ++w)
            uses_.push_back({source.memory, first + w, time, false});
          // Equal streams of one instruction are one read.
          bool again = false;
          for (size_t t = 0; t < s; ++t)
            again |= instruction.sources[t].memory == source.memory &&
                     AddressOf(instruction.sources[t], at) == first &&
                     instruction.sources[t].stride == source.stride;
          for (int64_t w = 0; w < (block ? fan : again ? 0 : 1); ++w)
            port_reads_.emplace_back(time, source.memory);
        }
        const int64_t first = AddressOf(instruction.target, at);
        for (int64_t w = 0; w < (up ? parent_words : 1); ++w)
          uses_.push_back({instruction.target.memory, first + w, time, true});
        port_writes_.emplace_back(time + op.latency - 1, instruction.target.memory);
      }
}

/// The first cycle >= start in which slot and ports allow the instruction.
int64_t Placer::FirstFree(const Instruction& instruction, int64_t start) {
  const UnitOp& op = machine_.units[size_t(instruction.unit)].ops[size_t(instruction.op)];
  const int64_t hold = CyclesHeld(instruction, machine_);
  const std::vector<uint8_t>& busy = busy_[size_t(slot_of_unit_[size_t(instruction.unit)])];
  const auto used = [](const std::vector<uint8_t>& by_cycle, int64_t cycle) {
    return cycle < int64_t(by_cycle.size()) ? int(by_cycle[size_t(cycle)]) : 0;
  };
  // Own accesses in one cycle and memory, in order of time as Collect lists them.
  const auto own = [](const std::vector<std::pair<int64_t, int>>& ports, size_t i) {
    int n = 1;
    for (size_t j = i; j-- > 0 && ports[j].first + 4 > ports[i].first;) n += ports[j] == ports[i];
    return n;
  };
  while (true) {
    const int64_t before = start;
    for (int64_t c = start + hold - 1; c >= start; --c)
      if (used(busy, c)) {
        start = c + 1;
        break;
      }
    if (start != before) continue;
    const int64_t op_writes = op.latency - 1;
    for (size_t i = 0; i < port_reads_.size() && start == before; ++i) {
      const auto [time, m] = port_reads_[i];
      const Memory& memory = machine_.memories[size_t(m)];
      const MemoryState& state = memories_[size_t(m)];
      const int64_t cycle = start + time;
      const int mine = own(port_reads_, i);
      const int reads = used(state.reads, cycle) + mine;
      const int writes = used(state.writes, cycle);
      if (memory.reads) {
        WEFT_CHECK(mine <= memory.reads, kInvalidModel,
                   "an instruction reads {} {} times a cycle, which has {} read ports", memory.name,
                   mine, memory.reads);
        if (reads > memory.reads) start = before + 1;
      }
      if (memory.accesses) {
        WEFT_CHECK(mine <= memory.accesses, kInvalidModel,
                   "an instruction reads {} {} times a cycle, which has {} accesses", memory.name,
                   mine, memory.accesses);
        if (reads + writes > memory.accesses) start = before + 1;
      }
    }
    for (size_t i = 0; i < port_writes_.size() && start == before; ++i) {
      const auto [time, m] = port_writes_[i];
      const Memory& memory = machine_.memories[size_t(m)];
      const MemoryState& state = memories_[size_t(m)];
      const int64_t cycle = start + time;
      const int mine = own(port_writes_, i);
      const int writes = used(state.writes, cycle) + mine;
      if (memory.writes) {
        WEFT_CHECK(mine <= memory.writes, kInvalidModel,
                   "an instruction writes {} {} times a cycle, which has {} write ports",
                   memory.name, mine, memory.writes);
        if (writes > memory.writes) start = before + 1;
      }
      if (memory.accesses) {
        int reads = used(state.reads, cycle);
        // Own reads in that cycle: elements issued latency - 1 later. The list is by time alone.
        const auto it =
            std::lower_bound(port_reads_.begin(), port_reads_.end(), std::make_pair(time, 0));
        for (auto j = it; j != port_reads_.end() && j->first == time; ++j) reads += j->second == m;
        if (reads + writes > memory.accesses) {
          WEFT_CHECK(used(state.reads, cycle) + used(state.writes, cycle) > 0, kInvalidModel,
                     "an instruction reads and writes {} more often than its {} accesses a cycle, "
                     "latency {}",
                     memory.name, memory.accesses, op_writes + 1);
          start = before + 1;
        }
      }
    }
    if (start == before) return start;
  }
}

void Placer::Place(Instruction& instruction) {
  const UnitOp& op = machine_.units[size_t(instruction.unit)].ops[size_t(instruction.op)];
  Collect(instruction);
  for (const Use& use : uses_) {
    MemoryState& state = memories_[size_t(use.memory)];
    WEFT_CHECK(use.address >= 0 && use.address < machine_.memories[size_t(use.memory)].words,
               kInvalidModel, "{}: address {} of {} is beyond its {} words", instruction.note,
               use.address, machine_.memories[size_t(use.memory)].name,
               machine_.memories[size_t(use.memory)].words);
    if (size_t(use.address) >= state.ready.size()) {
      state.ready.resize(size_t(use.address) + 1 + state.ready.size() / 2, 0);
      state.released.resize(state.ready.size(), 0);
    }
  }
  int64_t start = 0;
  for (const Use& use : uses_) {
    const MemoryState& state = memories_[size_t(use.memory)];
    start = std::max(start, state.ready[size_t(use.address)] - use.time);
    if (use.write) start = std::max(start, state.released[size_t(use.address)] - use.time);
  }
  start = FirstFree(instruction, start);
  instruction.start = start;

  const auto count = [](std::vector<uint8_t>& by_cycle, int64_t cycle) {
    if (cycle >= int64_t(by_cycle.size())) by_cycle.resize(size_t(cycle) + 1 + by_cycle.size() / 2);
    ++by_cycle[size_t(cycle)];
  };
  for (const auto& [time, m] : port_reads_) count(memories_[size_t(m)].reads, start + time);
  for (const auto& [time, m] : port_writes_) count(memories_[size_t(m)].writes, start + time);
  const int64_t hold = CyclesHeld(instruction, machine_);
  std::vector<uint8_t>& busy = busy_[size_t(slot_of_unit_[size_t(instruction.unit)])];
  for (int64_t c = start; c < start + hold; ++c) count(busy, c);
  // An element's reads come before its write in the list, later elements after it.
  for (const Use& use : uses_) {
    MemoryState& state = memories_[size_t(use.memory)];
    int64_t& ready = state.ready[size_t(use.address)];
    int64_t& released = state.released[size_t(use.address)];
    const int64_t cycle = start + use.time;
    WEFT_CHECK(ready <= cycle, kInvalidModel,
               "{}: word {} of {} is used by an element in cycle {} while an earlier one of the "
               "same instruction writes it until {}",
               instruction.note, use.address, machine_.memories[size_t(use.memory)].name, cycle,
               ready);
    if (use.write)
      ready = cycle + op.latency;
    else
      released = std::max(released, cycle + 1);
  }
}

}  // namespace hsimd
